//! The trigger grammar.
//!
//! ```text
//! triggers  = trigger { ( ";" | end of line ) trigger }
//! trigger   = "when" condition "then" action { "," action } { clause }
//!           | "keep" keyed { "wait" DURATION | clause }                         events of keys for which it holds, and no others
//! keyed     = SOURCE "by" FIELD | a condition with "by"
//! condition = SOURCE                                                            an event
//!           | "max" "(" EVENT "." FIELD [ "if" EXPRESSION ] ")" [ ">" NUMBER ]  a new maximum of a field
//!           | "latency" "(" SOURCE "," SOURCE [ "by" FIELD ] ")" ">" DURATION
//!           | "max" "(" "latency" "(" … ")" ")" [ ">" DURATION ]                a new maximum of a latency
//!           | "count" "(" SOURCE [ "by" FIELD ] ")" ">=" N "within" DURATION    N events within a time
//!           | "missing" "(" SOURCE "," SOURCE [ "by" FIELD ] ")" "within" DURATION
//!                                                      the second does not come within that time of the first
//!           | "signal" NAME                                                     a signal that the process gets
//! SOURCE    = GLOB [ "level" LEVEL ] [ "if" EXPRESSION ]                        as in rules
//! action    = "snapshot" [ "before" DURATION ] [ "after" DURATION ] [ "frozen" ]
//!           | "stop" | "start" | "enable" STRING | "disable" STRING | "notify" [ STRING ]
//! clause    = "debounce" DURATION | "max" N "/" ( "s" | "m" | "h" ) | "times" N | "as" NAME
//! DURATION  = a number and ns, us, ms, s, min, h or d
//! ```
//!
//! The words are a frame around rules and expressions, which have their own parsers.

use super::words::Words;
use crate::error::{Error, Result};
use crate::provider;
use crate::rule::{self, Placed, Rule};
use rustix::process::Signal;
use std::ops::Range;
use std::time::Duration;
use trace_filter::Key;

/// A trigger that was parsed, and not checked against what there is yet.
#[derive(Clone, Debug)]
pub(crate) struct Spec {
    pub(crate) condition: Condition,
    pub(crate) actions: Vec<Action>,
    pub(crate) limits: Limits,
    pub(crate) name: Option<String>,
    /// As it was written.
    pub(crate) text: String,
}

/// What is waited for.
#[derive(Clone, Debug)]
pub(crate) enum Condition {
    Event(Source),
    /// Each event, for its key.
    Keyed(Source, Placed<Key>),
    /// A new maximum of a field, above a number.
    Maximum(Source, Placed<Key>, Option<i64>),
    Latency {
        between: Pair,
        above: Option<Duration>,
        /// Whether only a new maximum counts.
        maximum: bool,
    },
    Count {
        of: Source,
        by: Option<Placed<Key>>,
        least: usize,
        within: Duration,
    },
    Missing {
        between: Pair,
        within: Duration,
    },
    Signal(i32, String),
}

/// Two events with the same key.
#[derive(Clone, Debug)]
pub(crate) struct Pair {
    pub(crate) first: Source,
    pub(crate) second: Source,
    pub(crate) by: Option<Placed<Key>>,
}

/// Events of a rule, as it was written, and the byte of the text where that begins.
pub(crate) type Source = Placed<String>;

/// What is done.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Action {
    Snapshot {
        before: Option<Duration>,
        after: Duration,
        frozen: bool,
    },
    Stop,
    Start,
    Enable(Placed<String>),
    Disable(Placed<String>),
    Notify(String),
    /// Its key is kept; the consumer holds events back for so long.
    Keep {
        wait: Duration,
    },
}

/// How often it may fire.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Limits {
    /// After a firing, nothing for this time.
    pub(crate) debounce: Duration,
    /// At most so many in this time.
    pub(crate) rate: Option<(usize, Duration)>,
    /// At most so many in all.
    pub(crate) times: Option<u64>,
}

/// Where none is given: a burst is one firing.
const DEBOUNCE: Duration = Duration::from_secs(1);

impl Default for Limits {
    fn default() -> Limits {
        Limits { debounce: DEBOUNCE, rate: None, times: None }
    }
}

impl Spec {
    /// The first context field that it names and that the program has not registered yet.
    pub(crate) fn awaits(&self) -> Option<String> {
        let key = self.condition.key().and_then(|key| key.part.context()).filter(|name| provider::is_awaited(name));
        let of_source =
            |source: &Source| Rule::parse_all(&source.part, false).ok()?.iter().find_map(Rule::awaits).map(str::to_owned);
        key.map(str::to_owned).or_else(|| self.condition.sources().into_iter().find_map(of_source))
    }
}

impl Condition {
    /// The events that it is about, in their order.
    pub(crate) fn sources(&self) -> Vec<&Source> {
        match self {
            Condition::Event(of) | Condition::Keyed(of, _) | Condition::Maximum(of, ..) | Condition::Count { of, .. } => vec![of],
            Condition::Latency { between, .. } | Condition::Missing { between, .. } => vec![&between.first, &between.second],
            Condition::Signal(..) => Vec::new(),
        }
    }

    /// What events are told apart by.
    pub(crate) fn key(&self) -> Option<&Placed<Key>> {
        match self {
            Condition::Latency { between, .. } | Condition::Missing { between, .. } => between.by.as_ref(),
            Condition::Count { by, .. } => by.as_ref(),
            Condition::Keyed(_, by) => Some(by),
            _ => None,
        }
    }

    /// Whether one event decides, so that the event path can stop the channel.
    pub(crate) fn is_local(&self) -> bool {
        matches!(self, Condition::Event(_) | Condition::Maximum(..))
    }
}

impl Spec {
    /// Parses triggers. Empty ones are skipped; none at all is an error.
    pub(crate) fn parse_all(text: &str) -> Result<Vec<Spec>> {
        let specs: Vec<Spec> = rule::split(text).into_iter().map(|span| parse(text, span)).collect::<Result<_>>()?;
        if specs.is_empty() {
            return Err(Error::rule(text, 0..text.len(), "expected a trigger", EXAMPLE));
        }
        Ok(specs)
    }

    /// Whether the channel is to be stopped in the moment when it fires.
    pub(crate) fn freezes(&self) -> bool {
        for action in &self.actions {
            match action {
                Action::Snapshot { after, .. } if !after.is_zero() => return false,
                Action::Snapshot { frozen: true, .. } | Action::Stop => return true,
                _ => {}
            }
        }
        false
    }

    /// What it keeps events by, and how long the consumer waits for that.
    pub(crate) fn keeps(&self) -> Option<(&Placed<Key>, Duration)> {
        match self.actions[..] {
            [Action::Keep { wait }] => Some((self.condition.key()?, wait)),
            _ => None,
        }
    }

    pub(crate) fn takes_snapshots(&self) -> bool {
        self.actions.iter().any(|action| matches!(action, Action::Snapshot { .. }))
    }
}

const EXAMPLE: &str = "such as `when request if us > 5000 then snapshot before 10s after 1s`";
const CONDITIONS: &str = "a condition is an event with or without `if`, `latency(A, B by KEY) > T`, `max(EVENT.FIELD)`, \
                          `max(latency(A, B by KEY))`, `count(EVENT) >= N within T`, `missing(A, B by KEY) within T` or `signal NAME`";
const ACTIONS: &str = "an action is `snapshot [before T] [after T] [frozen]`, `stop`, `start`, `enable \"RULES\"`, \
                       `disable \"RULES\"` or `notify [\"TEXT\"]`; several are separated by `,`";
const CLAUSES: &str = "a trigger goes on with `,` and an action, `debounce T`, `max N/s`, `times N` or `as NAME`; `;` ends it";

fn parse(text: &str, span: Range<usize>) -> Result<Spec> {
    let mut words = Words { text, at: span.start, end: span.end };
    let (first, at) = words.word();
    if first == "keep" {
        return keep(words, span);
    }
    if first != "when" {
        return Err(Error::rule(text, at, "a trigger begins with `when` or `keep`", EXAMPLE));
    }
    let condition = words.until(&["then"]);
    let (then, at) = words.word();
    if then != "then" {
        if let Some(open) = unclosed(&text[condition.clone()]) {
            let at = condition.start + open;
            return Err(Error::rule(text, at..at + 1, "this `(` is not closed", CONDITIONS));
        }
        return Err(Error::rule(text, at, "expected `then` and an action", EXAMPLE));
    }
    let condition = parse_condition(&mut Words { text, at: condition.start, end: condition.end })?;
    let mut actions = Vec::new();
    loop {
        actions.push(action(&mut words)?);
        if !words.takes(",") {
            break;
        }
    }
    let mut spec = Spec { condition, actions, limits: Limits::default(), name: None, text: text[span].to_owned() };
    while !words.is_empty() {
        clause(&mut spec, &mut words)?;
    }
    Ok(spec)
}

/// How long the consumer waits for a key to be marked, where nothing else is said.
const WAIT: Duration = Duration::from_secs(1);
const KEEP: &str = "such as `keep answered if us > 5000 by id` or `keep latency(received, answered by id) > 5ms`";

fn keep(mut words: Words<'_>, span: Range<usize>) -> Result<Spec> {
    let text = words.text;
    let begin = words.at;
    let condition = match function(&mut words)? {
        Some(condition) => condition,
        None => {
            let of = words.until(&["by"]);
            let (of, by) = (source(text, of)?, by(&mut words)?);
            let Some(by) = by else {
                return Err(Error::rule(text, begin..span.end, "by which field is missing", KEEP));
            };
            Condition::Keyed(of, by)
        }
    };
    if condition.key().is_none() {
        return Err(Error::rule(text, begin..words.at, "this has no key by which events belong together", KEEP));
    }
    let mut wait = WAIT;
    let limits = Limits { debounce: Duration::ZERO, ..Limits::default() };
    let mut spec = Spec { condition, actions: Vec::new(), limits, name: None, text: text[span].to_owned() };
    while !words.is_empty() {
        if words.takes("wait") {
            wait = words.duration()?;
        } else {
            clause(&mut spec, &mut words)?;
        }
    }
    spec.actions.push(Action::Keep { wait });
    Ok(spec)
}

/// The first parenthesis that is not closed.
fn unclosed(text: &str) -> Option<usize> {
    let mut open = Vec::new();
    for (at, c) in text.char_indices() {
        match c {
            '(' => open.push(at),
            ')' => drop(open.pop()),
            _ => {}
        }
    }
    open.first().copied()
}

fn parse_condition(words: &mut Words<'_>) -> Result<Condition> {
    let text = words.text;
    let begin = words.at;
    let condition = match function(words)? {
        Some(condition) => condition,
        None => {
            let (word, _) = words.word();
            if word == "signal" {
                let (name, at) = words.word();
                let Some(number) = signal(name) else {
                    let known: Vec<&str> = SIGNALS.iter().map(|(name, _)| *name).collect();
                    let remedy = format!("there are {}", known.join(", "));
                    return Err(Error::rule(text, at, format!("no signal is called `{name}`"), remedy));
                };
                Condition::Signal(number, name.to_owned())
            } else {
                let end = words.end;
                words.at = end;
                Condition::Event(source(text, begin..end)?)
            }
        }
    };
    words.finish(CONDITIONS)?;
    Ok(condition)
}

/// A condition that is written like a function, if one comes next.
fn function(words: &mut Words<'_>) -> Result<Option<Condition>> {
    let text = words.text;
    Ok(Some(match words.function() {
        Some(("latency", _)) => {
            let between = pair(&mut words.arguments()?)?;
            words.expect(">", "a bound is missing", "such as `latency(begin, end by id) > 5ms`")?;
            Condition::Latency { between, above: Some(words.duration()?), maximum: false }
        }
        Some(("max", _)) => maximum(words)?,
        Some(("count", _)) => {
            let (of, by) = keyed(&mut words.arguments()?)?;
            let example = "such as `count(timeout) >= 5 within 1s`";
            words.expect(">=", "how many is missing", example)?;
            let least = words.number("how many is missing", example)?;
            words.expect("within", "within what time is missing", example)?;
            Condition::Count { of, by, least: usize::try_from(least).unwrap_or(usize::MAX), within: words.duration()? }
        }
        Some(("missing", _)) => {
            let between = pair(&mut words.arguments()?)?;
            words.expect("within", "within what time is missing", "such as `missing(begin, end by id) within 5s`")?;
            Condition::Missing { between, within: words.duration()? }
        }
        Some((name, at)) => {
            return Err(Error::rule(text, at, format!("no condition is called `{name}`"), CONDITIONS));
        }
        None => return Ok(None),
    }))
}

fn maximum(words: &mut Words<'_>) -> Result<Condition> {
    let text = words.text;
    let mut inside = words.arguments()?;
    let mut condition = if inside.function().is_some_and(|(name, _)| name == "latency") {
        let between = pair(&mut inside.arguments()?)?;
        inside.finish("such as `max(latency(begin, end by id))`")?;
        Condition::Latency { between, above: None, maximum: true }
    } else {
        let (word, at) = inside.word();
        let remedy = "such as `max(request.us)`";
        let Some((event, field)) = word.split_once('.') else {
            return Err(Error::rule(text, at, "expected an event and its field", remedy));
        };
        let field_at = at.start + event.len() + 1;
        let key = Key::parse(field).map_err(|e| Error::from_filter(e, text, field_at))?;
        // Spaces in the field's place: what is wrong with the rule is found where it stands.
        let gap = " ".repeat(word.len() - event.len());
        let of = Placed { part: format!("{event}{gap}{}", &text[inside.rest_from(at.end)]), at: at.start };
        check_source(&rule::Rule::parse_all(&of.part, false).map_err(|e| e.shifted(text, of.at))?, text, at)?;
        Condition::Maximum(of, Placed { part: key, at: field_at }, None)
    };
    if words.takes(">") {
        match &mut condition {
            Condition::Latency { above, .. } => *above = Some(words.duration()?),
            Condition::Maximum(.., above) => *above = Some(words.amount()?),
            _ => {}
        }
    }
    Ok(condition)
}

/// Two sources, and what they have in common.
fn pair(words: &mut Words<'_>) -> Result<Pair> {
    let text = words.text;
    let first = words.until(&[","]);
    let remedy = "two events, such as `latency(begin, end by id)`";
    words.expect(",", "a second event is missing", remedy)?;
    let (second, by) = keyed(words)?;
    Ok(Pair { first: source(text, first)?, second, by })
}

/// A source, and what its events are told apart by.
fn keyed(words: &mut Words<'_>) -> Result<(Source, Option<Placed<Key>>)> {
    let text = words.text;
    let of = words.until(&["by"]);
    let by = by(words)?;
    words.finish("after the field nothing follows")?;
    Ok((source(text, of)?, by))
}

/// The field that events have in common, if one comes next.
fn by(words: &mut Words<'_>) -> Result<Option<Placed<Key>>> {
    if !words.takes("by") {
        return Ok(None);
    }
    let (field, at) = words.word();
    if field.is_empty() {
        return Err(Error::rule(words.text, at, "a field is missing after `by`", "such as `by id`"));
    }
    let key = Key::parse(field).map_err(|e| Error::from_filter(e, words.text, at.start))?;
    Ok(Some(Placed { part: key, at: at.start }))
}

fn source(text: &str, span: Range<usize>) -> Result<Source> {
    let part = text[span.clone()].trim();
    if part.is_empty() {
        return Err(Error::rule(text, span, "an event is missing", CONDITIONS));
    }
    let at = span.start + text[span].find(part).unwrap_or(0);
    check_source(&rule::Rule::parse_all(part, false).map_err(|e| e.shifted(text, at))?, text, at..at + part.len())?;
    Ok(Placed { part: part.to_owned(), at })
}

fn check_source(rules: &[rule::Rule], text: &str, span: Range<usize>) -> Result<()> {
    match rules {
        [rule] if !rule.excludes && rule.limit.is_none() && rule.lifetime.is_none() => Ok(()),
        _ => {
            let remedy = "limits of the trigger stand at its end: `debounce T`, `max N/s`, `times N`";
            Err(Error::rule(text, span, "here an event is named, by GLOB, `level L` and `if EXPRESSION`", remedy))
        }
    }
}

fn action(words: &mut Words<'_>) -> Result<Action> {
    let text = words.text;
    let (word, at) = words.word();
    match word {
        "snapshot" => {
            let (mut before, mut after, mut frozen) = (None, Duration::ZERO, false);
            loop {
                if words.takes("before") {
                    before = Some(words.duration()?);
                } else if words.takes("after") {
                    after = words.duration()?;
                } else if words.takes("frozen") {
                    frozen = true;
                } else {
                    break;
                }
            }
            if frozen && !after.is_zero() {
                let remedy = "leave out `frozen`, or `after`";
                return Err(Error::rule(text, at, "what is frozen records nothing after the event", remedy));
            }
            Ok(Action::Snapshot { before, after, frozen })
        }
        "stop" => Ok(Action::Stop),
        "start" => Ok(Action::Start),
        "enable" | "disable" => {
            let quoted = words.quoted()?;
            let Some(rules) = quoted else {
                let remedy = format!("such as `{word} \"storage:* for 30s\"`");
                return Err(Error::rule(text, words.at..words.at, format!("rules in quotes are missing after `{word}`"), remedy));
            };
            rule::Rule::parse_all(&rules.part, word == "disable").map_err(|e| e.shifted(text, rules.at))?;
            Ok(if word == "enable" { Action::Enable(rules) } else { Action::Disable(rules) })
        }
        "notify" => Ok(Action::Notify(words.quoted()?.map(|text| text.part).unwrap_or_default())),
        "" => Err(Error::rule(text, at, "an action is missing", ACTIONS)),
        _ => Err(Error::rule(text, at, format!("no action is called `{word}`"), ACTIONS)),
    }
}

fn clause(spec: &mut Spec, words: &mut Words<'_>) -> Result<()> {
    let text = words.text;
    let (word, at) = words.word();
    match word {
        "debounce" => spec.limits.debounce = words.duration()?,
        "max" => {
            let (rate, at) = words.word();
            let per = |unit| match unit {
                "s" => Some(1),
                "m" => Some(60),
                "h" => Some(3600),
                _ => None,
            };
            let parsed = rate.split_once('/').and_then(|(n, unit)| Some((n.parse().ok().filter(|n| *n > 0)?, per(unit)?)));
            let Some((most, seconds)) = parsed else {
                return Err(Error::rule(text, at, "this is no rate", "such as `max 3/h`; units are s, m and h"));
            };
            spec.limits.rate = Some((most, Duration::from_secs(seconds)));
        }
        "times" => spec.limits.times = Some(words.number("a number is missing after `times`", "such as `times 3`")?),
        "as" => {
            let (name, at) = words.word();
            let good = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_');
            if name.is_empty() || name.len() > 40 || !name.chars().all(good) {
                let remedy = "use letters, digits, `-` and `_`, at most 40";
                return Err(Error::rule(text, at, "this cannot name a trigger", remedy));
            }
            spec.name = Some(name.to_owned());
        }
        _ => return Err(Error::rule(text, at, format!("expected a clause or the end, found `{word}`"), CLAUSES)),
    }
    Ok(())
}

/// Signals that are sent to tell a program something. Those that end it stay what they are.
const SIGNALS: [(&str, Signal); 4] =
    [("SIGHUP", Signal::HUP), ("SIGUSR1", Signal::USR1), ("SIGUSR2", Signal::USR2), ("SIGWINCH", Signal::WINCH)];

fn signal(name: &str) -> Option<i32> {
    SIGNALS.iter().find(|(known, _)| *known == name || known.strip_prefix("SIG") == Some(name)).map(|(_, signal)| signal.as_raw())
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn one(text: &str) -> Spec {
        let specs = Spec::parse_all(text).unwrap_or_else(|e| panic!("{e}"));
        assert_eq!(specs.len(), 1, "{text}");
        specs.into_iter().next().expect("one")
    }

    #[test]
    fn conditions_are_parsed() {
        let ms = Duration::from_millis;
        let spec = one("when request if us > 5000 && path ~ \"then*\" then notify");
        assert!(
            matches!(spec.condition, Condition::Event(s) if s.part == "request if us > 5000 && path ~ \"then*\"" && s.at == 5)
        );
        let spec = one("when latency(req:start if (a + 1) > 1 && n == \", by x\", req:end by page.id) > 5ms then stop");
        let Condition::Latency { between, above, maximum: false } = spec.condition else { panic!() };
        assert_eq!((between.second.part.as_str(), above), ("req:end", Some(ms(5))));
        assert_eq!(between.by.map(|k| k.part.as_str().to_owned()), Some("page.id".to_owned()));
        let spec = one("when max(latency(a, b)) > 1.5s then stop");
        assert!(matches!(spec.condition, Condition::Latency { above: Some(a), maximum: true, .. } if a == ms(1500)));
        let spec = one("when max(a:b::request.page.us if x == 1) > 4K then stop");
        let Condition::Maximum(of, key, Some(4096)) = spec.condition else { panic!() };
        assert_eq!((of.part.as_str(), key.part.as_str()), ("a:b::request         if x == 1", "page.us"));
        let spec = one("when count(timeout if code == 5 by peer) >= 5 within 1s then stop");
        assert!(matches!(spec.condition, Condition::Count { least: 5, by: Some(_), within, .. } if within == ms(1000)));
        let spec = one("when missing(a, b by id) within 100us then stop");
        assert!(matches!(spec.condition, Condition::Missing { within, .. } if within == Duration::from_micros(100)));
        assert!(
            matches!(one("when signal USR2 then stop").condition, Condition::Signal(number, _) if number == Signal::USR2.as_raw())
        );
    }

    #[test]
    fn what_is_to_be_kept_has_a_key() {
        let spec = one("keep answered level info if us > 5000 || failed by id wait 250ms max 10/s as slow");
        assert!(matches!(&spec.condition, Condition::Keyed(s, _) if s.part == "answered level info if us > 5000 || failed"));
        let (key, wait) = spec.keeps().expect("it keeps");
        assert_eq!((key.part.as_str(), wait, spec.limits.debounce), ("id", Duration::from_millis(250), Duration::ZERO));
        assert_eq!((spec.limits.rate, spec.name.as_deref()), (Some((10, Duration::from_secs(1))), Some("slow")));
        let spec = one("keep latency(a, b by $ctx.vtid) > 5ms");
        assert_eq!(spec.keeps().map(|(key, wait)| (key.part.as_str(), wait)), Some(("$ctx.vtid", WAIT)));
        assert!(one("keep missing(a, b by id) within 1s as hung").keeps().is_some() && one("when a then stop").keeps().is_none());
    }

    #[test]
    fn actions_and_clauses_are_parsed() {
        let spec = one("when a then snapshot before 10s after 1s, notify \"it's \\\"late\\\"\", disable \"b:*; c for 30s\" \
                        debounce 30s max 3/h times 5 as slow-one");
        let s = Duration::from_secs;
        assert_eq!(spec.actions[0], Action::Snapshot { before: Some(s(10)), after: s(1), frozen: false });
        assert_eq!(spec.actions[1], Action::Notify("it's \"late\"".to_owned()));
        assert!(matches!(&spec.actions[2], Action::Disable(rules) if rules.part == "b:*; c for 30s"));
        assert_eq!(spec.limits, Limits { debounce: s(30), rate: Some((3, s(3600))), times: Some(5) });
        assert_eq!(spec.name.as_deref(), Some("slow-one"));
        assert!(!spec.freezes() && one("when a then snapshot frozen").freezes() && one("when a then snapshot, stop").freezes());
        assert!(!one("when a then snapshot after 1s, stop").freezes());
        assert_eq!(Spec::parse_all("when a then stop; # none\nwhen b then enable \"c;d\" ;").map(|s| s.len()).ok(), Some(2));
    }

    /// Kept in `messages.txt`; `RINGTRACE_BLESS=1` writes it anew.
    #[test]
    fn messages() {
        let wrong = [
            "",
            "request then stop",
            "when request",
            "when then stop",
            "when request then",
            "when request then sotp",
            "when request then stop, ",
            "when request if us > then stop",
            "when request 1 in 5 then stop",
            "when mean(a) > 1 then stop",
            "when latency(a) > 5ms then stop",
            "when latency(a, b by id) then stop",
            "when latency(a, b by id) > 5 then stop",
            "when latency(a, b by x+1) > 5ms then stop",
            "when latency(a, b by) > 5ms then stop",
            "when latency(a, b > 5ms then stop",
            "when latency(a lvel info, b) > 5ms then stop",
            "when max(request) then stop",
            "when max(request.us) > much then stop",
            "when count(a) >= 0 within 1s then stop",
            "when count(a) >= 5 then stop",
            "when missing(a, b) > 5s then stop",
            "when signal SIGSEGV then stop",
            "when a then snapshot after 1s frozen",
            "when a then snapshot before long",
            "when a then enable storage:*",
            "when a then enable \"storage:* lvel info\"",
            "when a then notify \"open",
            "when a then stop often",
            "when a then stop max 3",
            "when a then stop times none",
            "when a then stop as a/b",
            "keep a if us > 5",
            "keep a by",
            "keep latency(a, b) > 5ms",
            "keep max(a.us) > 5",
            "keep a by id wait long",
            "keep a by id then stop",
        ];
        let mut text = String::new();
        for trigger in wrong {
            let error = Spec::parse_all(trigger).expect_err(trigger).to_string();
            text.extend(error.lines().flat_map(|line| [line.trim_end(), "\n"]));
            text.push('\n');
        }
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/src/trigger/messages.txt");
        if std::env::var_os("RINGTRACE_BLESS").is_some() {
            std::fs::write(path, &text).expect("the file can be written");
        }
        assert_eq!(text, std::fs::read_to_string(path).expect("the file is there"));
    }

    proptest! {
        #[test]
        fn no_text_makes_parsing_panic(text in "(when |latency\\(|max\\(|count\\(|then |, |by |[ -~é;\n\"'()])*") {
            if let Err(error) = Spec::parse_all(&text) {
                prop_assert!(!error.to_string().is_empty());
            }
        }
    }
}
