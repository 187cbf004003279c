//! The rule grammar: which probes a session records, and which of their events.
//!
//! ```text
//! rules  = rule { ( ";" | end of line ) rule }              what follows `#` in front of a rule is a comment
//! rule   = [ "!" ] GLOB { clause } [ "if" EXPRESSION ]
//! clause = "level" LEVEL                                    of this severity and above
//!        | "1" "in" N [ "by" FIELD ]                        every Nth event, or all events of one in N keys
//!        | "max" N "/s"                                     at most N in a second
//!        | "for" DURATION                                   30s, 500ms, 5min, 2h: the rule ends then
//! ```
//!
//! A rule takes the probes whose names match its glob and whose level is at least as severe as its level; with `!` it leaves
//! them out. The last rule that matches a probe decides, by itself: of the events, it records those for which its expression
//! ([`trace_filter`]) is true, and of those, as many as its limit lets through. A name without `*` and `?` is exact, or the
//! unique end of a name; what names a function or a span names its entry and exit, also as a glob. When a rule's time has come, it is
//! as if it had never been given.

use crate::condition::Progress;
use crate::error::{Error, Result};
use crate::provider;
use std::fmt;
use std::num::NonZeroU64;
use std::ops::Range;
use std::sync::Arc;
use std::time::{Duration, Instant};
use trace_filter::{Expression, Key};
use trace_registry::units;
use trace_registry::{Glob, Level, ProbeDescriptor};

/// One rule.
#[derive(Clone, Debug)]
pub(crate) struct Rule {
    pub(crate) glob: Glob,
    /// Least severe level that it takes.
    pub(crate) level: Option<Level>,
    /// Whether it leaves out what it matches.
    pub(crate) excludes: bool,
    pub(crate) limit: Option<Limit>,
    pub(crate) lifetime: Option<Duration>,
    pub(crate) filter: Option<Placed<Expression>>,
    /// As it was written.
    pub(crate) text: String,
    /// How far it has come, once a session took it.
    pub(crate) progress: Option<Arc<Progress>>,
}

/// A part of a rule, with the byte of the text where it began.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Placed<T> {
    pub(crate) part: T,
    pub(crate) at: usize,
}

/// How many of the events that pass its filter a rule records.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Limit {
    /// Every so many.
    OneIn(NonZeroU64),
    /// All events of one key in so many.
    OneInBy(NonZeroU64, Placed<Key>),
    /// At most so many in a second.
    PerSecond(NonZeroU64),
}

/// As it was written, but for `!`, which `Session::disable` turns.
impl fmt::Display for Rule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}{}", if self.excludes { "!" } else { "" }, self.text.trim_start_matches('!'))
    }
}

impl Rule {
    /// Parses rules. With `exclude`, each leaves out what it would take, and takes what it would leave out. Empty rules are
    /// skipped; no rule at all is an error.
    pub(crate) fn parse_all(text: &str, exclude: bool) -> Result<Vec<Rule>> {
        let mut rules = Vec::new();
        for span in split(text) {
            rules.push(Rule::parse(text, span, exclude)?);
        }
        if rules.is_empty() {
            return Err(Error::rule(text, 0..0, "expected a rule", "such as `storage:*` or `* level warning`"));
        }
        Ok(rules)
    }

    /// Parses the rule that is `span` of `text`, and not empty.
    fn parse(text: &str, span: Range<usize>, exclude: bool) -> Result<Rule> {
        let mut words = Words { text, at: span.start, end: span.end };
        let (first, at) = words.next().unwrap_or_default();
        let (turned, name) = match first.strip_prefix('!') {
            Some(name) => (true, name),
            None => (false, first),
        };
        if name.is_empty() {
            return Err(Error::rule(text, at, "a name or pattern is missing after `!`", "without a space between"));
        }
        if let Some(bad) = name.find([',', '"', '\'', '[', ']', '{', '}', '=', '&', '|', '(', ')']) {
            let bad = at.start + usize::from(turned) + bad;
            let remedy = "rules are separated by `;`, patterns use `*` and `?`";
            return Err(Error::rule(text, bad..bad + 1, "this character cannot be part of a name", remedy));
        }
        let mut rule = Rule {
            glob: Glob::new(name),
            level: None,
            excludes: turned != exclude,
            limit: None,
            lifetime: None,
            filter: None,
            text: text[span].to_owned(),
            progress: None,
        };
        while let Some((word, at)) = words.next() {
            rule.clause(word, at, &mut words)?;
        }
        Ok(rule)
    }

    /// Takes the clause that begins with `word`.
    fn clause(&mut self, word: &str, at: Range<usize>, words: &mut Words<'_>) -> Result<()> {
        let text = words.text;
        let twice = |given: bool| match given {
            true => Err(Error::rule(text, at.clone(), format!("`{word}` was given before"), "each clause stands once")),
            false => Ok(()),
        };
        match word {
            "level" => {
                twice(self.level.is_some())?;
                let (name, at) = words.expect("a level is missing after `level`", "such as `level info`")?;
                self.level = Some(name.parse().map_err(|e: trace_registry::UnknownLevel| {
                    let message = e.to_string();
                    let (problem, remedy) = message.split_once("; ").unwrap_or((&message, ""));
                    Error::rule(text, at, problem, remedy)
                })?);
            }
            "1" | "max" => {
                if self.excludes {
                    return Err(only_recording(text, at));
                }
                if self.limit.is_some() {
                    return Err(Error::rule(text, at, "a rule has one limit", "`1 in N` or `max N/s`"));
                }
                self.limit = Some(if word == "1" { one_in(words)? } else { per_second(words)? });
            }
            "for" => {
                twice(self.lifetime.is_some())?;
                let (duration, at) = words.expect("a duration is missing after `for`", "such as `for 30s`")?;
                let remedy = "a number and ms, s, min, h or d, such as `30s`";
                self.lifetime =
                    Some(parse_duration(duration).ok_or_else(|| Error::rule(text, at, "this is no duration", remedy))?);
            }
            "if" => {
                if self.excludes {
                    return Err(only_recording(text, at));
                }
                let rest = words.rest();
                let begin = rest.start;
                let expression = Expression::parse(&text[rest]).map_err(|e| Error::from_filter(e, text, begin))?;
                self.filter = Some(Placed { part: expression, at: begin });
            }
            "by" => return Err(Error::rule(text, at, "`by` belongs to `1 in N`", "such as `1 in 100 by request_id`")),
            _ => {
                let problem = format!("expected a clause or the end of the rule, found `{word}`");
                let remedy = "a rule goes on with `level L`, `1 in N`, `max N/s`, `for DURATION` or `if EXPRESSION`; `;` ends it";
                return Err(Error::rule(text, at, problem, remedy));
            }
        }
        Ok(())
    }

    /// Whether it decides about this probe, whose name is `name`.
    pub(crate) fn matches(&self, probe: &ProbeDescriptor, name: &str) -> bool {
        self.matches_name(probe.level, name)
    }

    pub(crate) fn matches_name(&self, level: Level, name: &str) -> bool {
        self.level.is_none_or(|least| level <= least) && self.glob.names(name)
    }

    /// Whether its time has come.
    pub(crate) fn is_over(&self, now: Instant) -> bool {
        self.progress.as_ref().and_then(|p| p.remaining(now)).is_some_and(|remaining| remaining.is_zero())
    }

    /// Context fields that its condition names.
    pub(crate) fn context(&self) -> impl Iterator<Item = &str> {
        let key = match &self.limit {
            Some(Limit::OneInBy(_, key)) => key.part.context(),
            _ => None,
        };
        self.filter.iter().flat_map(|filter| filter.part.context()).chain(key)
    }

    /// The first of them that the program has not registered yet: the rule records nothing until then.
    pub(crate) fn awaits(&self) -> Option<&str> {
        self.context().find(|name| provider::is_awaited(name))
    }

    /// Whether it records only some of the events.
    pub(crate) fn is_conditional(&self) -> bool {
        self.filter.is_some() || self.limit.is_some()
    }
}

fn only_recording(text: &str, at: Range<usize>) -> Error {
    let remedy = "put the opposite condition into the rule that records";
    Error::rule(text, at, "a rule that leaves events out leaves out all of them", remedy)
}

/// What stands after `1`.
fn one_in(words: &mut Words<'_>) -> Result<Limit> {
    let (problem, remedy) = ("expected `in` and a number after `1`", "every hundredth event is `1 in 100`");
    let text = words.text;
    let (word, at) = words.expect(problem, remedy)?;
    if word != "in" {
        return Err(Error::rule(text, at, problem, remedy));
    }
    let (number, at) = words.expect(problem, remedy)?;
    let n = parse_number(number).ok_or_else(|| Error::rule(text, at, "this is no number from 1", remedy))?;
    let before = words.at;
    match words.next() {
        Some(("by", _)) => {}
        _ => {
            words.at = before;
            return Ok(Limit::OneIn(n));
        }
    }
    let (field, at) = words.expect("a field is missing after `by`", "such as `1 in 100 by request_id`")?;
    let key = Key::parse(field).map_err(|e| Error::from_filter(e, text, at.start))?;
    Ok(Limit::OneInBy(n, Placed { part: key, at: at.start }))
}

/// What stands after `max`.
fn per_second(words: &mut Words<'_>) -> Result<Limit> {
    let remedy = "such as `max 1000/s`";
    let text = words.text;
    let (rate, at) = words.expect("a rate is missing after `max`", remedy)?;
    let n = rate.strip_suffix("/s").and_then(parse_number);
    n.map(Limit::PerSecond).ok_or_else(|| Error::rule(text, at, "this is no rate", remedy))
}

fn parse_number(text: &str) -> Option<NonZeroU64> {
    let digits = text.replace('_', "");
    digits.bytes().all(|b| b.is_ascii_digit()).then(|| digits.parse().ok()).flatten()
}

fn parse_duration(text: &str) -> Option<Duration> {
    units::duration(text).ok().filter(|duration| !duration.is_zero())
}

/// The rules of `text`, none of them empty. Separators in strings and between parentheses belong to an expression.
pub(crate) fn split(text: &str) -> Vec<Range<usize>> {
    let mut rules = Vec::new();
    let (mut begin, mut open, mut quote, mut escaped, mut comment) = (0, 0u32, None, false, false);
    let mut end_rule = |range: Range<usize>| {
        let rule = &text[range.clone()];
        let begin = range.start + rule.len() - rule.trim_start().len();
        if !rule.trim().is_empty() {
            rules.push(begin..begin + rule.trim().len());
        }
    };
    for (at, c) in text.char_indices() {
        let separates = match c {
            '\n' => open == 0 || comment || quote.is_some(),
            ';' => open == 0 && quote.is_none() && !comment,
            _ => false,
        };
        if separates {
            end_rule(begin..if comment { begin } else { at });
            (begin, open, quote, comment) = (at + 1, 0, None, false);
        } else if comment {
        } else if let Some(end) = quote {
            if c == end && !escaped {
                quote = None;
            }
            escaped = c == '\\' && !escaped;
        } else {
            match c {
                '"' | '`' => quote = Some(c),
                '(' => open += 1,
                ')' => open = open.saturating_sub(1),
                '#' if text[begin..at].trim().is_empty() => (comment, begin) = (true, at),
                _ => {}
            }
        }
    }
    if !comment {
        end_rule(begin..text.len());
    }
    rules
}

/// The words of one rule, with where they are in the whole text.
struct Words<'t> {
    text: &'t str,
    at: usize,
    end: usize,
}

impl<'t> Words<'t> {
    /// The next word, or an error at the end of the rule.
    fn expect(&mut self, problem: &str, remedy: &str) -> Result<(&'t str, Range<usize>)> {
        self.next().ok_or_else(|| Error::rule(self.text, self.end..self.end, problem, remedy))
    }

    /// Takes everything that is left, without spaces around it.
    fn rest(&mut self) -> Range<usize> {
        let rest = &self.text[self.at..self.end];
        let begin = self.end - rest.trim_start().len();
        self.at = self.end;
        begin..self.end
    }
}

impl<'t> Iterator for Words<'t> {
    type Item = (&'t str, Range<usize>);

    fn next(&mut self) -> Option<(&'t str, Range<usize>)> {
        let rest = self.text.get(self.at..self.end)?;
        let word = rest.trim_start();
        let begin = self.end - word.len();
        let len = word.find(char::is_whitespace).unwrap_or(word.len());
        self.at = begin + len;
        if len == 0 { None } else { Some((&word[..len], begin..begin + len)) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &str) -> Vec<Rule> {
        Rule::parse_all(text, false).unwrap_or_else(|e| panic!("{e}"))
    }

    fn globs(text: &str) -> Vec<String> {
        parse(text).iter().map(|r| r.glob.to_string()).collect()
    }

    #[test]
    fn rules_are_parsed() {
        let rules = parse(" storage:* level info ; !storage:noise;app:request\n;");
        assert_eq!(rules.iter().map(|r| r.glob.as_str()).collect::<Vec<_>>(), ["storage:*", "storage:noise", "app:request"]);
        assert_eq!(rules.iter().map(|r| r.level).collect::<Vec<_>>(), [Some(Level::Info), None, None]);
        assert_eq!(rules.iter().map(|r| r.excludes).collect::<Vec<_>>(), [false, true, false]);
        assert_eq!(
            rules.iter().map(|r| r.text.as_str()).collect::<Vec<_>>(),
            ["storage:* level info", "!storage:noise", "app:request"]
        );
    }

    #[test]
    fn clauses_are_parsed() {
        let n = |n| NonZeroU64::new(n).expect("not 0");
        let [rule] = &*parse("storage:* level info max 1_000/s for 30s if path == \"a;b\" && bytes > 4K") else { panic!() };
        assert_eq!(rule.limit, Some(Limit::PerSecond(n(1000))));
        assert_eq!(rule.lifetime, Some(Duration::from_secs(30)));
        assert_eq!(rule.filter.as_ref().map(|f| f.part.as_str()), Some("path == \"a;b\" && bytes > 4K"));
        assert!(rule.is_conditional());
        assert_eq!(parse("a 1 in 10")[0].limit, Some(Limit::OneIn(n(10))));
        let seconds = |text| parse(text)[0].lifetime.map(|duration| duration.as_secs_f64());
        for (text, expected) in [("a for 5min", 300.0), ("a for 5m", 300.0), ("a for 1d", 86_400.0), ("a for 1.5s", 1.5)] {
            assert_eq!(seconds(text), Some(expected), "{text}");
        }
        let [warnings] = &*parse("a level warn") else { panic!() };
        assert_eq!(warnings.level, Some(Level::Warning));
        let by = &parse("a 1 in 100 by page.id for 2h")[0];
        assert!(
            matches!(&by.limit, Some(Limit::OneInBy(m, key)) if *m == n(100) && key.part.as_str() == "page.id" && key.at == 14)
        );
        assert_eq!(by.lifetime, Some(Duration::from_secs(7200)));
        assert_eq!(parse("!a for 500ms")[0].lifetime, Some(Duration::from_millis(500)));
    }

    #[test]
    fn rules_end_where_no_expression_goes_on() {
        assert_eq!(globs("a if x == \";\\\";\" ; b if (p == 1 ||\n q == 2);c\nd"), ["a", "b", "c", "d"]);
        assert_eq!(globs("# all ; of it (\n a"), ["a"]);
        assert_eq!(globs("a;# none\n#\nb"), ["a", "b"]);
        assert_eq!(globs("a if `odd;name` == 1; b"), ["a", "b"]);
    }

    #[test]
    fn what_is_disabled_is_turned_round() {
        let rules = Rule::parse_all("a; !b", true).unwrap_or_else(|e| panic!("{e}"));
        assert_eq!(rules.iter().map(|r| r.excludes).collect::<Vec<_>>(), [true, false]);
        assert_eq!(rules.iter().map(Rule::to_string).collect::<Vec<_>>(), ["!a", "b"]);
        assert!(Rule::parse_all("a if x > 1", true).is_err());
        assert!(Rule::parse_all("!a if x > 1", true).is_ok());
    }

    /// Kept in `rule_messages.txt`; `RINGTRACE_BLESS=1` writes it anew.
    #[test]
    fn messages() {
        let wrong = [
            "a:*; b:* lvel info",
            "a level loud",
            "a level",
            "",
            " ; \n",
            "é; a if x >",
            "a max 10",
            "a max",
            "a max 0/s",
            "a 1 out of 5",
            "a 1 in",
            "a 1 in none",
            "a 1 in 0",
            "a 1 in 5 by",
            "a 1 in 5 by x+1",
            "a by x",
            "a 1 in 5 max 3/s",
            "a level info level info",
            "a for ever",
            "a for",
            "a for 5",
            "a if",
            "a if (x == 1\n && y == 2",
            "a if x == \"open\n b",
            "a,b",
            "a && b",
            "!",
            "! a",
            "!a if x > 1",
            "!a 1 in 5",
        ];
        let mut text = String::new();
        for rule in wrong {
            let error = Rule::parse_all(rule, false).expect_err(rule).to_string();
            text.extend(error.lines().flat_map(|line| [line.trim_end(), "\n"]));
            text.push('\n');
        }
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/src/rule_messages.txt");
        if std::env::var_os("RINGTRACE_BLESS").is_some() {
            std::fs::write(path, &text).expect("the file can be written");
        }
        assert_eq!(text, std::fs::read_to_string(path).expect("the file is there"));
    }
}
