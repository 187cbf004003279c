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
//! `1` stands for the rule `*`, and so does a text without a rule. In a file, a line end is as good as `;`, and `#` begins a
//! comment.

use crate::builder::{Builder, Clock};
use crate::context::Context;
use crate::error::{Chain, Error};
use crate::occasion::Occasion;
use crate::session::Session;
use std::fmt;
use std::path::{Path, PathBuf};
use trace_control::units;

/// The session of the environment; the one that the command means where it is told no other.
pub(crate) const SESSION_NAME: &str = "default";

/// Largest file that `@` reads, in bytes.
const LARGEST_FILE: u64 = 1 << 20;

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

/// The text as one line of parts, character for character: without comments, and with `;` for line ends.
fn one_line(source: &Source) -> String {
    let (mut is_comment, mut quotes) = (false, Quotes::default());
    let one = |c: char| {
        match c {
            '\n' => (is_comment, quotes) = (false, Quotes::default()),
            '#' if source.file.is_some() && !quotes.is_inside() => is_comment = true,
            c if !is_comment => quotes.pass(c),
            _ => {}
        }
        match c {
            '\n' => ';',
            _ if is_comment => ' ',
            c => c,
        }
    };
    source.text.chars().map(one).collect()
}

/// The parts with where they begin, in characters. What is quoted is not divided.
fn parts(line: &str) -> Vec<(usize, String)> {
    let mut parts = vec![(0, String::new())];
    let mut quotes = Quotes::default();
    for (at, c) in line.chars().enumerate() {
        if c == ';' && !quotes.is_inside() {
            parts.push((at + 1, String::new()));
            continue;
        }
        quotes.pass(c);
        if let Some((_, part)) = parts.last_mut() {
            part.push(c);
        }
    }
    parts
}

fn plan(source: Source) -> Result<Plan, Trouble> {
    let line = one_line(&source);
    let mut builder = Session::builder(SESSION_NAME).for_agent();
    let mut is_printed = false;
    let mut rules: Vec<char> = Vec::new();
    let mut everything = true;
    for (begin, part) in parts(&line) {
        if begin > 0 {
            rules.push(';');
        }
        let words = part.trim();
        let (word, value) = words.split_once(char::is_whitespace).map_or((words, ""), |(word, value)| (word, value.trim()));
        let wrong = |problem: String, what: &str| {
            let skipped = part.find(what).map_or(0, |bytes| part[..bytes].chars().count());
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
            _ => true,
        };
        // What is no rule leaves its place empty, so that positions are those of the text.
        rules.extend(part.chars().map(|c| if is_rule { c } else { ' ' }));
        everything &= !is_rule;
    }
    let rules: String = rules.into_iter().collect();
    Ok(Plan { builder: builder.enable(if everything { "*" } else { &rules }), is_printed, source })
}

/// A directory that is not taken: programs that are started by the traced one have the same environment.
fn free(path: &str) -> PathBuf {
    let is_taken = std::fs::read_dir(path).is_ok_and(|mut entries| entries.next().is_some());
    if is_taken { PathBuf::from(format!("{path}-{}", std::process::id())) } else { PathBuf::from(path) }
}

impl Source {
    /// What to say of an error that the session had with this text.
    pub(crate) fn trouble(&self, error: &Error) -> Trouble {
        let (problem, remedy, at) = match error.place() {
            Some((problem, remedy, crate::error::Place::At(at))) => (problem.to_owned(), remedy.to_owned(), Some(at)),
            Some((_, _, crate::error::Place::Name(name))) => {
                let at = self.text.find(name).map(|bytes| self.text[..bytes].chars().count());
                (Chain(error).to_string(), String::new(), at)
            }
            None => (Chain(error).to_string(), String::new(), None),
        };
        Trouble { problem, remedy, at, source: self.clone() }
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
            write!(f, "\n  {line}\n  {:>width$}", '^', width = column + 1)?;
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
    use crate::builder::Output;
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
        ] {
            let message = read(text).expect_err(text).to_string();
            assert!(message.contains(words), "{message}");
            assert_eq!(message.lines().last().map(|l| l.chars().count() - 1 - 2), Some(place), "{message}");
        }
        let plan = begun("memory 1M; é:*; b lvel info");
        let error = crate::rule::Rule::parse_all(&plan.builder.rules[0], false).expect_err("it is wrong");
        let message = plan.source.trouble(&error).to_string();
        assert!(message.contains("found `lvel`") && message.contains("\n  memory 1M; é:*; b lvel info\n"), "{message}");
        assert_eq!(message.lines().nth(2).map(|l| l.chars().count() - 1 - 2), Some(18), "{message}");
    }

    #[test]
    fn a_file_has_lines_and_comments() {
        let directory = tempfile::tempdir().expect("a directory");
        let path = directory.path().join("rules");
        std::fs::write(&path, "# what to record; and what not\nstorage:*\n!storage:noise # too many\n\nmemory 8M\n")
            .expect("a file");
        let plan = begun(&format!("@{}", path.display()));
        assert_eq!((rules(&plan), plan.builder.memory), (vec!["storage:*".to_owned(), "!storage:noise".to_owned()], 8 << 20));
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
