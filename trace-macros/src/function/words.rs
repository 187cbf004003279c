//! The words inside `#[tracepoint(…)]` of what has a body.

use crate::errors::{Errors, did_you_mean, list};
use crate::options::Options;
use crate::site::{Argument, Format, Value, check_names};
use crate::support::Krate;
use proc_macro2::{Ident, TokenStream};
use syn::LitStr;

/// What is said of one function, or of many.
#[derive(Default)]
pub(super) struct Words {
    pub(super) name: Option<LitStr>,
    pub(super) level: Option<Ident>,
    skip: Vec<Ident>,
    fields: Option<Vec<Value>>,
    pub(super) result: Option<Format>,
    pub(super) krate: Option<Krate>,
    /// It is not traced.
    pub(super) off: bool,
    /// The call is traced, and not the future that it returns.
    pub(super) sync: bool,
}

impl Words {
    pub(super) const OF_FUNCTION: &[&str] = &["name", "level", "skip", "fields", "result", "crate", "sync"];
    pub(super) const OF_MEMBER: &[&str] = &["name", "level", "skip", "fields", "result", "crate", "sync", "off"];
    pub(super) const OF_MANY: &[&str] = &["level", "result", "crate"];

    pub(super) fn parse(tokens: TokenStream, known: &[&str], errors: &mut Errors) -> Words {
        let mut options = Options::parse(tokens, "`#[tracepoint]` on what has a body", known, errors);
        let fields = options.list::<Value>("fields", errors);
        let words = Words {
            name: options.event_name(errors),
            level: options.level(errors),
            skip: options.list("skip", errors).unwrap_or_default(),
            result: result(&mut options, errors),
            krate: options.krate(errors),
            off: options.flag("off", errors).is_some(),
            sync: options.flag("sync", errors).is_some(),
            fields,
        };
        if let (Some(_), Some(skip)) = (&words.fields, words.skip.first()) {
            errors.push(skip, "`fields(…)` says all that is recorded: `skip` has nothing to leave out");
        }
        words
    }

    /// What a function says itself, or else what is said of all.
    pub(super) fn or(self, all: &Words) -> Words {
        Words {
            level: self.level.or_else(|| all.level.clone()),
            result: self.result.or(all.result),
            krate: self.krate.or_else(|| all.krate.clone()),
            ..self
        }
    }

    /// The values of the entry: what was chosen, or else all arguments but for those left out.
    pub(super) fn values(&self, arguments: &[Argument], errors: &mut Errors) -> Vec<Value> {
        let known: Vec<String> = arguments.iter().map(|argument| argument.name.to_string()).collect();
        let known: Vec<&str> = known.iter().map(String::as_str).collect();
        for skipped in self.skip.iter().filter(|skipped| !arguments.iter().any(|argument| argument.name == **skipped)) {
            let near = did_you_mean(&skipped.to_string(), &known);
            let there = if known.is_empty() { "there are none".to_owned() } else { format!("they are {}", list(&known)) };
            errors.push(skipped, format!("`{skipped}` is no argument; {there}{near}"));
        }
        let values = match &self.fields {
            Some(chosen) => chosen.iter().map(Value::clone).collect(),
            None => arguments.iter().filter(|a| !self.skip.contains(&a.name)).map(Value::argument).collect::<Vec<_>>(),
        };
        check_names(&values, errors);
        if let Some(last) = values.get(16) {
            errors
                .push(&last.value, "an event has at most 16 values: choose some by `fields(…)`, or leave some out by `skip(…)`");
        }
        values
    }
}

/// `result`, `result = debug`, `result = display`.
fn result(options: &mut Options, errors: &mut Errors) -> Option<Format> {
    let (word, value) = options.flag_or_value("result")?;
    let Some(value) = value else { return Some(Format::Field) };
    match value.to_string().as_str() {
        "debug" => Some(Format::Debug),
        "display" => Some(Format::Display),
        _ => {
            errors.push(word, "expected `result`, `result = debug` or `result = display`");
            None
        }
    }
}
