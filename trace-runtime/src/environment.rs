//! What the environment variable `RINGTRACE` says.
//!
//! ```text
//! text    = "off" | "0" | "@" PATH | part { ";" part }
//! part    = RULE | TRIGGER | "1" | "print" | "overwrite" | "sensitive" | "follow" | "memory" SIZE | "sub-buffer" SIZE
//!         | "rings" PATH
//!         | "output" PATH | "session" NAME | "context" FIELD { "," FIELD } | "clock" ( "fast" | "ordered" | "os" | "none" )
//!         | "format" ( "ctf1.8" | "ctf2" )
//!         | "snapshot" "on" ( SIGNAL | "panic" ) | "rotate" ( SIZE | TIME ) | "quota" SIZE
//! ```
//!
//! `1` stands for the rule `*`, and so does a text without a rule. A line end is as good as `;`, but not between the parentheses of
//! an expression. In a file, `#` begins a comment.

use crate::builder::{Builder, Clock, Output};
use crate::context::Context;
use crate::error::{Chain, Error, Place};
use crate::occasion::Occasion;
use crate::session::Session;
use std::fmt;
use std::path::{Path, PathBuf};
use trace_control::units;
use trace_filter::Excerpt;

/// The session of the environment; the one that the command means where it is told no other.
pub(crate) const SESSION_NAME: &str = "default";

/// Largest file that `@` reads, in bytes.
const LARGEST_FILE: u64 = 1 << 20;

/// Words that begin what is no rule.
const OPTIONS: [&str; 15] = [
    "print",
    "overwrite",
    "sensitive",
    "follow",
    "memory",
    "sub-buffer",
    "rings",
    "output",
    "session",
    "context",
    "clock",
    "format",
    "snapshot",
    "rotate",
    "quota",
];

/// What is wanted.
#[derive(Debug)]
pub(crate) enum Wish {
    /// Nothing, whatever the program says.
    Off,
    /// A session.
    Begin(Box<Plan>),
}

/// The session that is wanted.
#[derive(Debug)]
pub(crate) struct Plan {
    pub(crate) builder: Builder,
    /// Whether it is printed, so that there is no trace to announce.
    pub(crate) is_printed: bool,
    pub(crate) source: Source,
    /// First words of the parts that are no rules, and the number of characters before each.
    options: Vec<(String, usize)>,
}

/// A text with what is needed to point into it.
#[derive(Clone, Debug)]
pub(crate) struct Source {
    text: String,
    file: Option<PathBuf>,
}

/// What is wrong with the text, and where: the number of characters before.
#[derive(Debug)]
pub(crate) struct Trouble {
    problem: String,
    /// What to do about it; may be empty.
    remedy: String,
    at: Option<usize>,
    source: Source,
}

/// Whether the text says that nothing is to be traced.
pub(crate) fn is_off(text: &str) -> bool {
    matches!(text.trim(), "0" | "off")
}

/// Reads the text. `None`: it is empty.
pub(crate) fn read(text: &str) -> Result<Option<Wish>, Trouble> {
    if is_off(text) {
        return Ok(Some(Wish::Off));
    }
    let source = match text.trim().strip_prefix('@') {
        Some(path) => from_file(Path::new(path)).map_err(|error| Trouble {
            problem: format!("cannot read {path}: {error}"),
            remedy: String::new(),
            at: text.find('@'),
            source: Source { text: text.to_owned(), file: None },
        })?,
        None => Source { text: text.to_owned(), file: None },
    };
    if source.text.trim().is_empty() {
        return Ok(None);
    }
    plan(source).map(|plan| Some(Wish::Begin(Box::new(plan))))
}

fn from_file(path: &Path) -> std::io::Result<Source> {
    if std::fs::metadata(path)?.len() > LARGEST_FILE {
        return Err(std::io::ErrorKind::FileTooLarge.into());
    }
    Ok(Source { text: std::fs::read_to_string(path)?, file: Some(path.to_owned()) })
}

/// Where a text is quoted: by `'…'`, by backquotes, or by `"…"`, in which `\"` ends nothing.
#[derive(Clone, Copy, Debug, Default)]
struct Quotes {
    begun_by: Option<char>,
    is_escaped: bool,
}

impl Quotes {
    fn is_inside(self) -> bool {
        self.begun_by.is_some()
    }

    fn pass(&mut self, c: char) {
        match (self.begun_by, c) {
            _ if std::mem::take(&mut self.is_escaped) => {}
            (Some('"'), '\\') => self.is_escaped = true,
            (Some(begun_by), c) if c == begun_by => self.begun_by = None,
            (None, '"' | '\'' | '`') => self.begun_by = Some(c),
            _ => {}
        }
    }
}

/// The parts with where they begin, in characters, each as one line without comments, character for character. What is quoted is
/// not divided, nor what stands between parentheses behind `if`.
fn parts(source: &Source) -> Vec<(usize, String)> {
    let mut parts = vec![(0, String::new())];
    let (mut is_comment, mut quotes, mut open) = (false, Quotes::default(), 0_u32);
    for (at, c) in source.text.chars().enumerate() {
        let Some((_, part)) = parts.last_mut() else { break };
        if c == '\n' {
            (is_comment, quotes) = (false, Quotes::default());
        } else if !is_comment && !quotes.is_inside() {
            match c {
                '#' if source.file.is_some() => is_comment = true,
                '(' if part.split_whitespace().any(|word| word == "if") => open += 1,
                ')' => open = open.saturating_sub(1),
                _ => {}
            }
        }
        if open == 0 && (c == '\n' || c == ';' && !is_comment && !quotes.is_inside()) {
            parts.push((at + 1, String::new()));
            continue;
        }
        if !is_comment {
            quotes.pass(c);
        }
        part.push(if is_comment || c == '\n' { ' ' } else { c });
    }
    parts
}

fn plan(source: Source) -> Result<Plan, Trouble> {
    let mut options = Vec::new();
    let mut builder = Session::builder(SESSION_NAME).for_agent();
    let mut is_printed = false;
    let mut rules: Vec<char> = Vec::new();
    let mut everything = true;
    for (begin, part) in parts(&source) {
        if begin > 0 {
            rules.push(';');
        }
        let words = part.trim();
        let (word, value) = words.split_once(char::is_whitespace).map_or((words, ""), |(word, value)| (word, value.trim()));
        let wrong = |problem: String, what: &str| {
            // A piece of it.
            let skipped = what.as_ptr().addr().wrapping_sub(part.as_ptr().addr());
            let skipped = part.get(..skipped).map_or(0, |front| front.chars().count());
            Trouble { problem, remedy: String::new(), at: Some(begin + skipped), source: source.clone() }
        };
        let alone = |made: Builder| match value {
            "" => Ok(made),
            _ => Err(wrong(format!("nothing follows `{word}`; parts are separated by `;`"), value)),
        };
        let needed = |example: &str| match value {
            "" => Err(wrong(format!("`{word}` needs a value, such as `{word} {example}`"), word)),
            _ => Ok(value.trim_matches(['"', '\''])),
        };
        let is_rule = match word {
            "1" if value.is_empty() => false,
            "" => false,
            "print" => {
                (is_printed, builder) = (true, alone(builder.clone().print())?);
                false
            }
            "overwrite" => {
                builder = alone(builder.clone().overwrite())?;
                false
            }
            "when" | "keep" if !value.is_empty() => {
                // In its place, so that positions are those of the text.
                builder = builder.trigger(&format!("{}{part}", " ".repeat(begin)));
                false
            }
            "sensitive" => {
                builder = alone(builder.clone().sensitive())?;
                false
            }
            "follow" => {
                builder = alone(builder.clone().follow())?;
                false
            }
            "memory" => {
                builder = builder.memory(units::size(needed("64M")?).map_err(|problem| wrong(problem, value))?);
                false
            }
            "sub-buffer" => {
                let bytes = units::size(needed("1M")?).map_err(|problem| wrong(problem, value))?;
                builder = builder.sub_buffer(u32::try_from(bytes).unwrap_or(u32::MAX));
                false
            }
            "rings" => {
                builder = builder.rings(needed("/var/lib/rings")?);
                false
            }
            "output" => {
                builder = builder.output(free(needed("trace.ringtrace")?));
                false
            }
            "session" => {
                builder.name = needed(SESSION_NAME)?.to_owned();
                false
            }
            "context" => {
                let names = needed("vtid,cpu")?.split([',', ' ']).map(str::trim).filter(|n| !n.is_empty());
                builder = builder.context(Context::named(names).map_err(|problem| wrong(problem, value))?);
                false
            }
            "clock" => {
                builder = builder.clock(Clock::named(needed("ordered")?).map_err(|problem| wrong(problem, value))?);
                false
            }
            "format" => {
                let format = needed("ctf2")?.parse().map_err(|problem: trace_ctf::Error| wrong(problem.to_string(), value))?;
                builder = builder.format(format);
                false
            }
            "snapshot" => {
                let words: Vec<&str> = needed("on SIGUSR2")?.split_whitespace().collect();
                let ["on", name] = words[..] else {
                    return Err(wrong("write `snapshot on SIGUSR2` or `snapshot on panic`".to_owned(), value));
                };
                builder = builder.save_on(Occasion::named(name).map_err(|problem| wrong(problem, name))?);
                false
            }
            "rotate" => {
                let every = needed("256M")?;
                builder = match (units::duration(every), units::size(every)) {
                    (Ok(time), _) => builder.rotate_time(time),
                    (_, Ok(bytes)) => builder.rotate_size(bytes),
                    (_, Err(problem)) => return Err(wrong(format!("{problem}; or a time, such as 10min"), value)),
                };
                false
            }
            "quota" => {
                builder = builder.quota(units::size(needed("10G")?).map_err(|problem| wrong(problem, value))?);
                false
            }
            _ => {
                let next = value.split_whitespace().next().unwrap_or("1");
                let meant = near(word, &OPTIONS);
                if next != "1" && !meant.is_empty() && near(next, &["level", "max", "for", "if"]).is_empty() {
                    return Err(wrong(format!("no option is called `{word}`; did you mean `{}`?", meant.join("`, `")), word));
                }
                true
            }
        };
        if !is_rule {
            options.push((word.to_owned(), begin + part.chars().take_while(|c| c.is_whitespace()).count()));
        }
        // What is no rule leaves its place empty, so that positions are those of the text.
        rules.extend(part.chars().map(|c| if is_rule { c } else { ' ' }));
        everything &= !is_rule;
    }
    let at = |name: &str| options.iter().rev().find(|(option, _)| option == name).map(|(_, at)| *at);
    let trouble = |problem: &str, at| Trouble { problem: problem.to_owned(), remedy: String::new(), at, source: source.clone() };
    if let (Some(_), Some(output)) = (at("print"), at("output")) {
        return Err(trouble("a session prints, or writes a trace: `print` or `output`", Some(output)));
    }
    if builder.rotation.quota.is_some() && !builder.rotation.is_wanted() {
        return Err(trouble(
            "`quota` needs `rotate`: it removes the oldest of the traces that the recording is cut into",
            at("quota"),
        ));
    }
    let rules: String = rules.into_iter().collect();
    Ok(Plan { builder: builder.enable(if everything { "*" } else { &rules }), is_printed, source, options })
}

/// A directory that is not taken: programs that are started by the traced one have the same environment.
fn free(path: &str) -> PathBuf {
    let is_taken = std::fs::read_dir(path).is_ok_and(|mut entries| entries.next().is_some());
    if is_taken { PathBuf::from(format!("{path}-{}", std::process::id())) } else { PathBuf::from(path) }
}

/// Those of `words` that are like `word`.
fn near(word: &str, words: &[&str]) -> Vec<String> {
    trace_registry::registry::near(word, words.iter().map(|word| (*word).to_owned()))
}

impl Plan {
    /// What to say of an error that the session had with this text.
    pub(crate) fn trouble(&self, error: &Error) -> Trouble {
        let whole = || Chain(error).to_string();
        let (problem, remedy, at) = match error.place() {
            Some(Place::At { problem, remedy, at }) => (problem.to_owned(), remedy.to_owned(), Some(at)),
            Some(Place::Name(name)) => {
                let meant = if name.contains([':', '*']) { Vec::new() } else { near(name, &OPTIONS) };
                let remedy =
                    if meant.is_empty() { String::new() } else { format!("there is an option `{}`", meant.join("`, `")) };
                (whole(), remedy, self.source.text.find(name).map(|bytes| self.source.text[..bytes].chars().count()))
            }
            Some(Place::Option(option)) => (whole(), String::new(), self.given(option)),
            Some(Place::Path(path)) => (whole(), String::new(), self.option_of(path).and_then(|option| self.given(option))),
            None => (whole(), String::new(), None),
        };
        Trouble { problem, remedy, at, source: self.source.clone() }
    }

    /// The number of characters before an option; the last one counts.
    fn given(&self, option: &str) -> Option<usize> {
        self.options.iter().rev().find(|(name, _)| name == option).map(|(_, at)| *at)
    }

    /// The option that names a file or directory, or one above it.
    fn option_of(&self, path: &Path) -> Option<&'static str> {
        let is_below = |place: &Path| {
            std::path::absolute(path).ok().zip(std::path::absolute(place).ok()).is_some_and(|(p, place)| p.starts_with(place))
        };
        match &self.builder.output {
            _ if self.builder.rings.as_deref().is_some_and(is_below) => Some("rings"),
            Output::Directory(place) if is_below(place) => Some("output"),
            _ => None,
        }
    }
}

impl fmt::Display for Trouble {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let text = &self.source.text;
        let before: String = text.chars().take(self.at.unwrap_or(0)).collect();
        let number = before.matches('\n').count();
        match &self.source.file {
            Some(file) if self.at.is_some() => write!(f, "{}:{}: {}", file.display(), number + 1, self.problem)?,
            Some(file) => write!(f, "{}: {}", file.display(), self.problem)?,
            None => f.write_str(&self.problem)?,
        }
        if self.at.is_some() {
            let line = text.split('\n').nth(number).unwrap_or_default();
            let column = before.rsplit('\n').next().unwrap_or_default().chars().count();
            write!(f, "\n{}", Excerpt { line, before: column, marked: 1 })?;
        }
        if !self.remedy.is_empty() {
            write!(f, "\n  {}", self.remedy)?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::Kind;
    use proptest::prelude::*;

    fn begun(text: &str) -> Plan {
        match read(text) {
            Ok(Some(Wish::Begin(plan))) => *plan,
            other => panic!("{text}: {other:?}"),
        }
    }

    fn rules(plan: &Plan) -> Vec<String> {
        let parsed = plan.builder.rules.iter().flat_map(|r| crate::rule::Rule::parse_all(r, false).expect("rules"));
        parsed.map(|r| r.to_string()).collect()
    }

    #[test]
    fn options_stand_among_rules() {
        assert!(read(" ").is_ok_and(|w| w.is_none()));
        for off in ["0", " off "] {
            assert!(matches!(read(off), Ok(Some(Wish::Off))));
        }
        let plan = begun(
            "storage:* level info; overwrite; memory 64M;!storage:noise; context vpid,cpu ; clock os; format ctf2; session s",
        );
        assert_eq!(rules(&plan), ["storage:* level info", "!storage:noise"]);
        let builder = &plan.builder;
        assert!(builder.overwrite && builder.memory == 64 << 20 && builder.clock == Clock::Os && builder.name == "s");
        assert_eq!((builder.context, builder.format), (Context::VPID | Context::CPU, trace_ctf::metadata::Format::Ctf2));
        for text in ["1", "1; sub-buffer 64K", "memory 1G", "print"] {
            assert_eq!(rules(&begun(text)), ["*"], "{text}");
        }
        let builder = begun("overwrite; snapshot on SIGUSR2; snapshot on panic; rotate 256M; rotate 10min; quota 10G").builder;
        assert_eq!(builder.snapshot_on.len(), 2);
        let rotation = builder.rotation;
        assert_eq!((rotation.size, rotation.quota), (Some(256 << 20), Some(10 << 30)));
        assert_eq!(rotation.time, Some(std::time::Duration::from_secs(600)));
        assert!(begun("print; a:*").is_printed);
        assert!(begun("follow; a:*").builder.follow);
        // What ends a text of a filter is what ends it for the filter's parser.
        let plan = begun(r#"a:b if path == "say \"a;b\"; \\"; memory 8M; c:* if path == "';'""#);
        let found = rules(&plan);
        assert_eq!((found.len(), plan.builder.memory), (2, 8 << 20), "{found:?}");
        assert!(found[0].ends_with(r#"path == "say \"a;b\"; \\""#), "{found:?}");
        let plan = begun("output 'a;b'; sensitive");
        assert!(plan.builder.sensitive && matches!(&plan.builder.output, Output::Directory(path) if path == Path::new("a;b")));
    }

    #[test]
    fn errors_point_into_the_text() {
        for (text, place, words) in [
            ("é:*; memory much", 12, "`much` is no size"),
            ("a:*; memory", 5, "`memory` needs a value, such as `memory 64M`"),
            ("overwrite please", 10, "nothing follows `overwrite`"),
            ("context vtid,nothing", 8, "no context field is called `nothing`"),
            ("overwrite; snapshot on SIGSEGV", 23, "no snapshot can be taken on `SIGSEGV`"),
            ("rotate often", 7, "`often` is no size"),
            ("clock sun", 6, "no clock is called `sun`"),
            ("format xml", 7, "no format is called `xml`; there are ctf1.8, ctf2"),
            ("@/nowhere/at/all", 0, "cannot read /nowhere/at/all"),
            ("a:*; memroy 64M", 5, "no option is called `memroy`; did you mean `memory`?"),
            ("snapshots on panic", 0, "did you mean `snapshot`?"),
            ("overwrite overwrite", 10, "nothing follows `overwrite`"),
            ("a:*; quota 10G", 5, "`quota` needs `rotate`"),
            ("print; a:*; output x", 12, "prints, or writes a trace"),
        ] {
            let message = read(text).expect_err(text).to_string();
            assert!(message.contains(words), "{message}");
            assert_eq!(message.lines().last().map(|l| l.chars().count() - 1 - 2), Some(place), "{message}");
        }
        let plan = begun("memory 1M; é:*; b lvel info");
        let error = crate::rule::Rule::parse_all(&plan.builder.rules[0], false).expect_err("it is wrong");
        let message = plan.trouble(&error).to_string();
        assert!(message.contains("found `lvel`") && message.contains("\n  memory 1M; é:*; b lvel info\n"), "{message}");
        assert_eq!(message.lines().nth(2).map(|l| l.chars().count() - 1 - 2), Some(18), "{message}");
    }

    #[test]
    fn what_a_session_refuses_is_pointed_at() {
        for (text, error, column) in [
            ("a:*; memory 4K", Error::from(Kind::Memory("too small".to_owned())), Some(5)),
            ("a:*", Kind::Memory("too small".to_owned()).into(), None),
            ("session a/b; a:*", Kind::SessionName("a/b".to_owned()).into(), Some(0)),
            (
                "a:*;output /proc/x",
                Error::io("cannot create the trace directory", "/proc/x", std::io::ErrorKind::NotFound),
                Some(4),
            ),
            ("output y; rings /x", Error::io("cannot keep ring buffers in", "/x", std::io::ErrorKind::NotFound), Some(10)),
        ] {
            let message = begun(text).trouble(&error).to_string();
            let pointer = message.lines().nth(2).map(|l| l.chars().count() - 1 - 2);
            assert_eq!(pointer, column, "{message}");
        }
        let unknown = Kind::UnknownName { name: "overwrit".to_owned(), near: Vec::new(), unprobed: None }.into();
        let message = begun("a:*; overwrit").trouble(&unknown).to_string();
        assert!(message.ends_with("\n       ^\n  there is an option `overwrite`"), "{message}");
    }

    #[test]
    fn a_file_has_lines_and_comments() {
        let directory = tempfile::tempdir().expect("a directory");
        let path = directory.path().join("rules");
        std::fs::write(&path, "# what to record; and what not\nstorage:*\n!storage:noise # too many\n\nmemory 8M\n")
            .expect("a file");
        let plan = begun(&format!("@{}", path.display()));
        assert_eq!((rules(&plan), plan.builder.memory), (vec!["storage:*".to_owned(), "!storage:noise".to_owned()], 8 << 20));
        let lines = "a:b if (x == 1 || # one\n  y == \"(;\")\nmemory 8M\noutput a(b; c:* if z in (1\n";
        std::fs::write(&path, lines).expect("a file");
        let plan = begun(&format!("@{}", path.display()));
        assert_eq!(plan.builder.memory, 8 << 20);
        let joined = plan.builder.rules.join("\n");
        let found: Vec<&str> = joined.split(';').map(str::trim).filter(|rule| !rule.is_empty()).collect();
        assert_eq!(found[0].split_whitespace().collect::<Vec<_>>().join(" "), "a:b if (x == 1 || y == \"(", "{joined}");
        assert!(matches!(&plan.builder.output, Output::Directory(path) if path == Path::new("a(b")));
        std::fs::write(&path, "storage:*\n# x\n  memory 8 megs\n").expect("a file");
        let message = read(&format!("@{}", path.display())).expect_err("it is wrong").to_string();
        assert!(
            message.contains("rules:3: `8 megs` is no size") && message.ends_with("\n    memory 8 megs\n           ^"),
            "{message}"
        );
    }

    proptest! {
        #[test]
        fn no_text_makes_reading_panic(text in "[ -~é;\n\"'@#]{0,80}") {
            if let Err(trouble) = read(&text) {
                prop_assert!(!trouble.to_string().is_empty());
            }
        }
    }
}
