//! What the environment variable `RINGTRACE` says.
//!
//! ```text
//! text    = "off" | "0" | part { ";" part }
//! part    = "modules" | "@" PATH | RULE | TRIGGER | "1" | "print" | "overwrite" | "sensitive" | "follow" | "memory" SIZE
//!         | "sub-buffer" SIZE | "rings" PATH | "output" PATH | "session" NAME | "context" FIELD { "," FIELD }
//!         | "clock" ( "fast" | "ordered" | "os" | "none" )
//!         | "format" ( "ctf1.8" | "ctf2" )
//!         | "snapshot" "on" ( SIGNAL | "panic" ) | "rotate" ( SIZE | TIME ) | "quota" SIZE
//! ```
//!
//! `modules` is about the process, not the session: probe modules may be loaded from outside. By itself, it begins no session.
//! `1` stands for the rule `*`, and so does a text without a rule. A line end is as good as `;`, but not between the parentheses of
//! an expression. `@` stands for what a file says, in its place; in a file, `#` begins a comment, and `@` is nothing special.
//!
//! One file, because more than half of it are tests of one text: what each mistake in it is said to be.

use crate::builder::{Builder, Clock, Output};
use crate::context::Context;
use crate::error::{Error, Place};
use crate::occasion::Occasion;
use crate::provider;
use crate::session::Session;
use crate::trigger::grammar::Spec;
use rustix::fs::{Mode, OFlags};
use std::fmt;
use std::fs::File;
use std::io::{self, Read as _};
use std::path::{Path, PathBuf};
use trace_filter::Excerpt;
use trace_registry::units;

/// The session of the environment; the one that the command means where it is told no other.
pub(crate) const SESSION_NAME: &str = "default";

/// Largest file that `@` reads, in bytes.
const LARGEST_FILE: u64 = 1 << 20;

/// Words that begin what is no rule.
const OPTIONS: [&str; 16] = [
    "modules",
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

/// Those that have one value.
const ONCE: [&str; 9] = ["memory", "sub-buffer", "rings", "output", "session", "context", "clock", "format", "quota"];

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
    /// A context field that its records or triggers need, which the program has not registered yet.
    pub(crate) awaits: Option<String>,
    sources: Vec<Source>,
    /// In their order; the builder has each rule and trigger by itself.
    parts: Vec<Part>,
}

/// A text that was written in one place.
#[derive(Clone, Debug)]
struct Source {
    text: String,
    /// `None`: the variable.
    file: Option<PathBuf>,
}

/// Place in a source: which one, and the number of characters before.
#[derive(Clone, Copy, Debug)]
struct Spot {
    source: usize,
    at: usize,
}

/// A part of a text, as one line without comments and spaces around it, otherwise character for character; it is not empty.
#[derive(Debug)]
struct Part {
    words: String,
    spot: Spot,
}

/// What is wrong with the text, and where.
#[derive(Debug)]
pub(crate) struct Trouble {
    problem: String,
    /// What to do about it; may be empty.
    remedy: String,
    /// Characters before the place.
    place: Option<(Source, usize)>,
}

/// Whether the text says that nothing is to be traced.
pub(crate) fn is_off(text: &str) -> bool {
    matches!(text.trim(), "0" | "off")
}

/// Whether the text allows that probe modules are loaded from outside. One that cannot be read does not.
pub(crate) fn allows_modules(text: &str) -> bool {
    !is_off(text) && all_parts(text).is_ok_and(|(_, parts)| parts.iter().any(Part::is_about_modules))
}

/// Reads the text. `None`: it begins no session.
pub(crate) fn read(text: &str) -> Result<Option<Wish>, Trouble> {
    if is_off(text) {
        return Ok(Some(Wish::Off));
    }
    let (sources, mut parts) = all_parts(text)?;
    parts.retain(|part| !part.is_about_modules());
    if parts.is_empty() {
        return Ok(None);
    }
    plan(sources, parts).map(|plan| Some(Wish::Begin(Box::new(plan))))
}

/// The parts of the text and of the files that it names, in their order.
fn all_parts(text: &str) -> Result<(Vec<Source>, Vec<Part>), Trouble> {
    let mut sources = vec![Source { text: text.to_owned(), file: None }];
    let mut parts = Vec::new();
    for part in divided(&sources, 0) {
        let Some(path) = part.words.strip_prefix('@') else {
            parts.push(part);
            continue;
        };
        let path = unquoted(path);
        let file = from_file(Path::new(path)).map_err(|error| Trouble {
            problem: format!("cannot read {path}: {error}"),
            remedy: String::new(),
            place: Some((sources[0].clone(), part.spot.at)),
        })?;
        sources.push(file);
        parts.extend(divided(&sources, sources.len() - 1));
    }
    Ok((sources, parts))
}

/// Reads a file without waiting for anybody, and no more of it than is allowed.
fn from_file(path: &Path) -> io::Result<Source> {
    let file = File::from(rustix::fs::open(path, OFlags::RDONLY | OFlags::CLOEXEC | OFlags::NONBLOCK, Mode::empty())?);
    if !file.metadata()?.is_file() {
        return Err(io::Error::new(io::ErrorKind::InvalidInput, "it is no regular file"));
    }
    let mut text = String::new();
    if file.take(LARGEST_FILE + 1).read_to_string(&mut text)? as u64 > LARGEST_FILE {
        return Err(io::Error::new(io::ErrorKind::InvalidInput, "it has more than 1 MiB"));
    }
    Ok(Source { text, file: Some(path.to_owned()) })
}

/// What stands between quotes, or anything else as it is.
fn unquoted(value: &str) -> &str {
    value.trim_matches(['"', '\''])
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

/// The parts of a source. What is quoted is not divided, nor what stands between parentheses behind `if`.
fn divided(sources: &[Source], source: usize) -> Vec<Part> {
    let Source { text, file } = &sources[source];
    let mut parts = vec![(0, String::new())];
    let (mut is_comment, mut quotes, mut open, mut is_condition) = (false, Quotes::default(), 0_u32, false);
    for (at, c) in text.chars().enumerate() {
        let Some((_, part)) = parts.last_mut() else { break };
        if c == '\n' {
            (is_comment, quotes) = (false, Quotes::default());
        } else if !is_comment && !quotes.is_inside() {
            if c.is_whitespace() || c == '(' {
                is_condition |= part.strip_suffix("if").is_some_and(|f| f.is_empty() || f.ends_with(char::is_whitespace));
            }
            match c {
                '#' if file.is_some() => is_comment = true,
                '(' if is_condition => open += 1,
                ')' => open = open.saturating_sub(1),
                _ => {}
            }
        }
        if open == 0 && (c == '\n' || c == ';' && !is_comment && !quotes.is_inside()) {
            is_condition = false;
            parts.push((at + 1, String::new()));
            continue;
        }
        if !is_comment {
            quotes.pass(c);
        }
        part.push(if is_comment || c == '\n' { ' ' } else { c });
    }
    let is_full = |(_, part): &(usize, String)| !part.trim().is_empty();
    let parts = parts.into_iter().filter(is_full).map(|(begin, part)| {
        let at = begin + part.chars().take_while(|c| c.is_whitespace()).count();
        Part { words: part.trim().to_owned(), spot: Spot { source, at } }
    });
    parts.collect()
}

fn plan(sources: Vec<Source>, parts: Vec<Part>) -> Result<Plan, Trouble> {
    let mut builder = Session::builder(SESSION_NAME).for_agent();
    let mut is_printed = false;
    let mut awaits = None;
    let mut everything = true;
    for (index, part) in parts.iter().enumerate() {
        let words = part.words.as_str();
        let (word, value) = part.split();
        let wrong = |problem: String, what: &str| {
            // A piece of it.
            let skipped = what.as_ptr().addr().wrapping_sub(words.as_ptr().addr());
            let skipped = words.get(..skipped).map_or(0, |front| front.chars().count());
            let place = Some((sources[part.spot.source].clone(), part.spot.at + skipped));
            Trouble { problem, remedy: String::new(), place }
        };
        let again = || {
            let hint = if word == "output" { "; `ringtrace run` gives it always, as its --output says" } else { "" };
            wrong(format!("`{word}` was given before, and each option stands once{hint}"), word)
        };
        if ONCE.contains(&word) && parts[..index].iter().any(|part| part.split().0 == word) {
            return Err(again());
        }
        let alone = || match value {
            "" => Ok(()),
            _ => Err(wrong(format!("nothing follows `{word}`; parts are separated by `;`"), value)),
        };
        let needed = |example: &str| match value {
            "" => Err(wrong(format!("`{word}` needs a value, such as `{word} {example}`"), word)),
            _ => Ok(unquoted(value)),
        };
        match word {
            "1" if value.is_empty() => {}
            "print" => {
                alone()?;
                (is_printed, builder) = (true, builder.print());
            }
            "overwrite" => {
                alone()?;
                builder = builder.overwrite();
            }
            "when" | "keep" if !value.is_empty() => {
                builder = builder.trigger(words);
                awaits = awaits.or_else(|| Spec::parse_all(words).ok()?.iter().find_map(Spec::awaits));
            }
            "sensitive" => {
                alone()?;
                builder = builder.sensitive();
            }
            "follow" => {
                alone()?;
                builder = builder.follow();
            }
            "memory" => {
                builder = builder.memory(units::size(needed("64M")?).map_err(|problem| wrong(problem, value))?);
            }
            "sub-buffer" => {
                let bytes = units::size(needed("1M")?).map_err(|problem| wrong(problem, value))?;
                builder = builder.sub_buffer(u32::try_from(bytes).unwrap_or(u32::MAX));
            }
            "rings" => {
                builder = builder.rings(needed("/var/lib/rings")?);
            }
            "output" => {
                builder = builder.shared_output(needed("trace.ringtrace")?);
            }
            "session" => {
                builder.name = needed(SESSION_NAME)?.to_owned();
            }
            "context" => {
                let names = needed("vtid,cpu")?.split([',', ' ']).map(str::trim).filter(|n| !n.is_empty());
                let (later, now): (Vec<&str>, Vec<&str>) = names.partition(|name| provider::is_awaited(name));
                builder = builder.context(Context::named(now.into_iter()).map_err(|problem| wrong(problem, value))?);
                awaits = awaits.or_else(|| later.first().map(|name| (*name).to_owned()));
            }
            "clock" => {
                builder = builder.clock(Clock::named(needed("ordered")?).map_err(|problem| wrong(problem, value))?);
            }
            "format" => {
                let format = needed("ctf2")?.parse().map_err(|problem: trace_ctf::Error| wrong(problem.to_string(), value))?;
                builder = builder.format(format);
            }
            "snapshot" => {
                let words: Vec<&str> = needed("on SIGUSR2")?.split_whitespace().collect();
                let ["on", name] = words[..] else {
                    return Err(wrong("write `snapshot on SIGUSR2` or `snapshot on panic`".to_owned(), value));
                };
                builder = builder.save_on(Occasion::named(name).map_err(|problem| wrong(problem, name))?);
            }
            "rotate" => {
                let every = needed("256M")?;
                builder = match (units::duration(every), units::size(every)) {
                    (Ok(_), _) if builder.rotation.time.is_some() => return Err(again()),
                    (Err(_), Ok(_)) if builder.rotation.size.is_some() => return Err(again()),
                    (Ok(time), _) => builder.rotate_time(time),
                    (_, Ok(bytes)) => builder.rotate_size(bytes),
                    (_, Err(problem)) => return Err(wrong(format!("{problem}; or a time, such as 10min"), value)),
                };
            }
            "quota" => {
                builder = builder.quota(units::size(needed("10G")?).map_err(|problem| wrong(problem, value))?);
            }
            _ => {
                let next = value.split_whitespace().next().unwrap_or("1");
                let meant = near(word, &OPTIONS);
                if next != "1" && !meant.is_empty() && near(next, &["level", "max", "for", "if"]).is_empty() {
                    return Err(wrong(format!("no option is called `{word}`; did you mean `{}`?", meant.join("`, `")), word));
                }
                builder = builder.enable(words);
                everything = false;
            }
        }
    }
    if everything {
        builder = builder.enable("*");
    }
    let plan = Plan { builder, is_printed, awaits, sources, parts };
    if let (Some(_), Some(output)) = (plan.given("print"), plan.given("output")) {
        return Err(plan.pointing("a session prints, or writes a trace: `print` or `output`".to_owned(), "", Some(output)));
    }
    let rotation = &plan.builder.rotation;
    if rotation.quota.is_some() && !rotation.is_wanted() {
        let problem = "`quota` needs `rotate`: it removes the oldest of the traces that the recording is cut into";
        return Err(plan.pointing(problem.to_owned(), "", plan.given("quota")));
    }
    Ok(plan)
}

impl Part {
    /// The first word, and what follows.
    fn split(&self) -> (&str, &str) {
        self.words.split_once(char::is_whitespace).map_or((&self.words, ""), |(word, value)| (word, value.trim()))
    }

    fn is_about_modules(&self) -> bool {
        self.words == "modules"
    }

    /// Place behind so many of its characters.
    fn behind(&self, characters: usize) -> Spot {
        Spot { at: self.spot.at + characters, ..self.spot }
    }
}

/// Those of `words` that are like `word`.
fn near(word: &str, words: &[&str]) -> Vec<String> {
    trace_registry::registry::near(word, words.iter().map(|word| (*word).to_owned()))
}

impl Plan {
    /// What to say of an error that the session had with this text.
    pub(crate) fn trouble(&self, error: &Error) -> Trouble {
        let whole = || error.to_string();
        match error.place() {
            // Of parts that are the same, the first is refused.
            Some(Place::At { problem, remedy, text, at }) => {
                let part = self.parts.iter().find(|part| part.words == text);
                self.pointing(problem.to_owned(), remedy, part.map(|part| part.behind(at)))
            }
            Some(Place::Name(name)) => {
                let meant = if name.contains([':', '*']) { Vec::new() } else { near(name, &OPTIONS) };
                let remedy =
                    if meant.is_empty() { String::new() } else { format!("there is an option `{}`", meant.join("`, `")) };
                self.pointing(whole(), &remedy, self.named(name))
            }
            Some(Place::Option(option)) => self.pointing(whole(), "", self.given(option)),
            Some(Place::Path(path)) => self.pointing(whole(), "", self.option_of(path).and_then(|option| self.given(option))),
            None => self.pointing(whole(), "", None),
        }
    }

    fn pointing(&self, problem: String, remedy: &str, spot: Option<Spot>) -> Trouble {
        let place = spot.map(|spot| (self.sources[spot.source].clone(), spot.at));
        Trouble { problem, remedy: remedy.to_owned(), place }
    }

    /// Where a rule has this name; otherwise where a trigger has it, which the session takes when it has its rules.
    fn named(&self, name: &str) -> Option<Spot> {
        let of_rule = self.parts.iter().find_map(|part| {
            let word = part.split().0;
            let glob = word.trim_start_matches('!');
            (glob == name).then(|| part.behind(word.len() - glob.len()))
        });
        let is_trigger = |part: &&Part| matches!(part.split().0, "when" | "keep");
        let of_trigger = || {
            self.parts.iter().filter(is_trigger).find_map(|part| {
                let is_part_of_name = |c: char| c.is_alphanumeric() || matches!(c, '_' | ':');
                let is_whole = |at: &usize| {
                    !part.words[..*at].ends_with(is_part_of_name) && !part.words[at + name.len()..].starts_with(is_part_of_name)
                };
                let at = part.words.match_indices(name).map(|(at, _)| at).find(is_whole)?;
                Some(part.behind(part.words[..at].chars().count()))
            })
        };
        of_rule.or_else(of_trigger)
    }

    /// Where an option is given.
    fn given(&self, option: &str) -> Option<Spot> {
        self.parts.iter().rev().find(|part| part.split().0 == option).map(|part| part.spot)
    }

    /// The option that names a file or directory, or one above it.
    fn option_of(&self, path: &Path) -> Option<&'static str> {
        let is_below = |place: &Path| {
            std::path::absolute(path).ok().zip(std::path::absolute(place).ok()).is_some_and(|(p, place)| p.starts_with(place))
        };
        match &self.builder.output {
            _ if self.builder.rings.as_deref().is_some_and(is_below) => Some("rings"),
            Output::Shared(place) if is_below(place) => Some("output"),
            _ => None,
        }
    }
}

impl fmt::Display for Trouble {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Some((Source { text, file }, at)) = &self.place else { return write!(f, "{}", Cut(&self.problem)) };
        let before: String = text.chars().take(*at).collect();
        let number = before.matches('\n').count();
        if let Some(file) = file {
            write!(f, "{}:{}: ", file.display(), number + 1)?;
        }
        let line = text.split('\n').nth(number).unwrap_or_default();
        let column = before.rsplit('\n').next().unwrap_or_default().chars().count();
        write!(f, "{}\n{}", Cut(&self.problem), Excerpt { line, before: column, marked: 1 })?;
        if !self.remedy.is_empty() {
            write!(f, "\n  {}", self.remedy)?;
        }
        Ok(())
    }
}

/// A message, of which the middle is left out where it quotes something very long.
pub(crate) struct Cut<'m>(pub(crate) &'m str);

impl fmt::Display for Cut<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        const LONGEST: usize = 1000;
        const KEPT: usize = 240;
        if self.0.len() <= LONGEST {
            return f.write_str(self.0);
        }
        let end = |(at, c): (usize, char)| at + c.len_utf8();
        let front = self.0.char_indices().nth(KEPT - 1).map_or(0, end);
        let back = self.0.char_indices().rev().nth(KEPT - 1).map_or(self.0.len(), |(at, _)| at);
        write!(f, "{} … {}", &self.0[..front], &self.0[back..])
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
        assert!(plan.builder.sensitive && matches!(&plan.builder.output, Output::Shared(path) if path == Path::new("a;b")));
    }

    #[test]
    fn modules_are_allowed_by_a_part_that_begins_no_session() {
        let directory = tempfile::tempdir().expect("a directory");
        let path = directory.path().join("rules");
        std::fs::write(&path, "storage:*\nmodules # of the operators\n").expect("a file");
        for (text, rules_of) in [
            ("modules", None),
            (" modules\n", None),
            ("storage:*; modules; memory 8M", Some("storage:*")),
            ("modules; overwrite", Some("*")),
            (&*format!("@{}", path.display()), Some("storage:*")),
        ] {
            assert!(allows_modules(text), "{text}");
            assert_eq!(read(text).expect(text).is_some(), rules_of.is_some(), "{text}");
            assert!(rules_of.is_none_or(|wanted| rules(&begun(text)) == [wanted]), "{text}");
        }
        for text in
            ["", "1", "off", "storage:*", "modules:*", "modules level info", "output modules", "modules; @/nowhere/at/all"]
        {
            assert!(!allows_modules(text), "{text}");
        }
        assert!(read("moduls please; a:*").expect_err("it is no option").to_string().contains("did you mean `modules`?"));
    }

    #[test]
    fn errors_point_into_the_text() {
        for (text, place, words) in [
            ("é:*; memory much", 12, "`much` is no size"),
            ("a:*; memory", 5, "`memory` needs a value, such as `memory 64M`"),
            ("overwrite please", 10, "nothing follows `overwrite`"),
            ("context vtid,no-thing", 8, "no context field is called `no-thing`"),
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
            ("memory 64M; a:*; memory 32M", 17, "`memory` was given before"),
            ("output a; output b", 10, "`output` was given before"),
            ("rotate 1M; rotate 1min; rotate 2M", 24, "`rotate` was given before"),
        ] {
            let message = read(text).expect_err(text).to_string();
            assert!(message.contains(words), "{message}");
            assert_eq!(message.lines().last().map(|l| l.chars().count() - 1 - 2), Some(place), "{message}");
        }
        let plan = begun("memory 1M; é:*; b lvel info");
        let error = crate::rule::Rule::parse_all(&plan.builder.rules[1], false).expect_err("it is wrong");
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
        let found = &plan.builder.rules;
        assert_eq!(found[0].split_whitespace().collect::<Vec<_>>().join(" "), "a:b if (x == 1 || y == \"(;\")", "{found:?}");
        assert!(found.len() == 2 && found[1].starts_with("c:* if z in (1"), "{found:?}");
        assert!(matches!(&plan.builder.output, Output::Shared(path) if path == Path::new("a(b")));
        std::fs::write(&path, "storage:*\n# x\n  memory 8 megs\n").expect("a file");
        let message = read(&format!("@{}", path.display())).expect_err("it is wrong").to_string();
        assert!(
            message.contains("rules:3: `8 megs` is no size") && message.ends_with("\n    memory 8 megs\n           ^"),
            "{message}"
        );
    }

    #[test]
    fn a_file_stands_among_other_parts() {
        let directory = tempfile::tempdir().expect("a directory");
        let path = directory.path().join("a;b");
        std::fs::write(&path, "one:*; overwrite\ntwo:* if (x == 1\n").expect("a file");
        let path = path.display();
        let plan = begun(&format!("zero; memory 8M\n@'{path}'; three\n@\"{path}\""));
        let found: Vec<&str> = plan.builder.rules.iter().map(|rule| rule.trim()).collect();
        let open = "two:* if (x == 1";
        assert_eq!(found, ["zero", "one:*", open, "three", "one:*", open]);
        assert!(plan.builder.overwrite && plan.builder.memory == 8 << 20);

        std::fs::write(directory.path().join("rules"), "# é\n  one:*\n\nlost:name\n").expect("a file");
        let path = directory.path().join("rules");
        let text = format!("é:*; @{}; other:name", path.display());
        let unknown = |name: &str| Kind::UnknownName { name: name.to_owned(), near: Vec::new(), unprobed: None }.into();
        let message = begun(&text).trouble(&unknown("lost:name")).to_string();
        assert!(message.contains("/rules:4: no probe") && message.ends_with("\n  lost:name\n  ^"), "{message}");
        let message = begun(&text).trouble(&unknown("other:name")).to_string();
        assert!(message.starts_with("no probe") && message.contains(&format!("\n  {text}\n  ")), "{message}");
        let column = text.chars().count() - "other:name".len();
        assert_eq!(message.lines().nth(2), Some(&*format!("  {}^", " ".repeat(column))));
        let message = read(&format!("a; @{}; memory lots", path.display())).expect_err("it is wrong").to_string();
        assert!(message.starts_with("`lots` is no size") && message.contains("; memory lots\n"), "{message}");
    }

    #[test]
    fn a_name_is_pointed_at_where_it_is_a_name() {
        for (text, name, pointer) in [
            ("app:tick; app:ti", "app:ti", "\n            ^"),
            ("app:tick\n !app:ti", "app:ti", "\n    ^"),
            ("é:tick; overwrite; when é:tick if x > 1 then notify; when é:ti then stop", "é:ti", "\n@^"),
        ] {
            let error = Kind::UnknownName { name: name.to_owned(), near: Vec::new(), unprobed: None }.into();
            let message = begun(text).trouble(&error).to_string();
            let pointer = pointer
                .replace('@', &" ".repeat(2 + "é:tick; overwrite; when é:tick if x > 1 then notify; when ".chars().count()));
            assert!(message.ends_with(&pointer), "{message}");
        }
    }

    #[test]
    fn what_is_no_file_of_rules_is_refused_at_once() {
        let directory = tempfile::tempdir().expect("a directory");
        let fifo = directory.path().join("fifo");
        rustix::fs::mknodat(rustix::fs::CWD, &fifo, rustix::fs::FileType::Fifo, Mode::RUSR | Mode::WUSR, 0).expect("a FIFO");
        for path in [Path::new("/dev/zero"), &fifo, directory.path()] {
            let message = read(&format!("@{}", path.display())).expect_err("it is no file").to_string();
            assert!(message.contains("it is no regular file"), "{message}");
        }
        let path = directory.path().join("large");
        let large = |c: char, len: usize| std::fs::write(&path, c.to_string().repeat(len)).expect("a file");
        let text = format!("@{}", path.display());
        large(' ', (1 << 20) + 1);
        let message = read(&text).expect_err("it is too large").to_string();
        assert!(message.contains("it has more than 1 MiB"), "{message}");
        large(' ', 1 << 20);
        assert!(read(&text).is_ok_and(|wish| wish.is_none()));
        // Of what is very long, little is said. It would take hours if it were looked through once for each character.
        large('(', 1 << 20);
        let refused = crate::rule::Rule::parse_all(&begun(&text).builder.rules[0], false).expect_err("it is no name");
        assert!(begun(&text).trouble(&refused).to_string().len() < 2000);
        large('\0', 1 << 20);
        let plan = begun(&text);
        let name = &plan.builder.rules[0];
        assert_eq!(trace_registry::registry::near(name, std::iter::once("app:tick".to_owned())), Vec::<String>::new());
        let unknown = Kind::UnknownName { name: name.clone(), near: Vec::new(), unprobed: None }.into();
        let message = plan.trouble(&unknown).to_string();
        assert!(message.chars().count() < 1000 && message.contains("no probe is called"), "{}", message.len());
        assert!(message.contains("`ringtrace list`"), "{message}");
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
