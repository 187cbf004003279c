//! What a rule asks of events before they are recorded: its filter and its limit.
//!
//! A rule's [`Progress`] is shared by all lists that it makes: its limit is for all its events together. A [`Check`] is made for
//! each class of events, whose fields the rule names.

use crate::attach::NamedProbe;
use crate::error::{Error, Result};
use crate::provider::{ContextValue, Room};
use crate::rcu::lock;
use crate::rule::{Limit, Rule};
use std::collections::HashMap;
use std::fmt;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};
use trace_filter::{Comparison, Field, Input, Key, Program, Record, Scope, Step, Survey, Value};
use trace_registry::EventClass;
use trace_registry::condition::{Bounds, Condition, Conditional, FILTERED, LIMITED, TURN, Values};
use trace_registry::per_cpu::PerCpu;
use trace_registry::probe::Target;
use trace_registry::sync::{AtomicI64, Ordering};

/// A window of `max N/s` is at least so long.
const WINDOW: Duration = Duration::from_secs(1);

/// How far a rule has come, from the moment when a session took it.
pub(crate) struct Progress {
    /// What it did not record.
    pub(crate) counts: Arc<PerCpu>,
    ends: Option<Instant>,
    /// By the address of the class.
    made: Mutex<HashMap<usize, Making>>,
    budget: Arc<Budget>,
}

/// What `max N/s` still lets through.
struct Budget {
    /// N; 0: there is no such limit.
    per_second: i64,
    /// How many of them are left in this window. Below 0 by as many threads as found the last one at once.
    left: AtomicI64,
    window: Mutex<Instant>,
}

impl fmt::Debug for Progress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Progress").field("ends", &self.ends).finish_non_exhaustive()
    }
}

impl Progress {
    /// `cpus`: the numbers of all CPUs are below.
    pub(crate) fn new(rule: &Rule, cpus: u32) -> Progress {
        let now = Instant::now();
        let per_second = match rule.limit {
            Some(Limit::PerSecond(n)) => i64::try_from(n.get()).unwrap_or(i64::MAX),
            _ => 0,
        };
        Progress {
            counts: Arc::new(PerCpu::new(if rule.is_conditional() { cpus } else { 1 })),
            // A time too far to be told never comes.
            ends: rule.lifetime.and_then(|lifetime| now.checked_add(lifetime)),
            made: Mutex::default(),
            budget: Arc::new(Budget { per_second, left: AtomicI64::new(per_second), window: Mutex::new(now) }),
        }
    }

    /// How long the rule still lasts; `None`: for ever.
    pub(crate) fn remaining(&self, now: Instant) -> Option<Duration> {
        self.ends.map(|ends| ends.saturating_duration_since(now))
    }

    /// Opens the next window of a limit when this one is over; for the consumer's thread.
    pub(crate) fn refill(&self, now: Instant) {
        let budget = &*self.budget;
        if budget.per_second == 0 {
            return;
        }
        let mut window = lock(&budget.window);
        if now.saturating_duration_since(*window) >= WINDOW {
            *window = now;
            // Relaxed: a thread that sees it later records later.
            budget.left.store(budget.per_second, Ordering::Relaxed);
        }
    }
}

impl Budget {
    /// Takes one of those that are left.
    #[inline]
    fn take(&self) -> bool {
        // Relaxed: a number of its own. The load keeps threads that find nothing from writing the word.
        self.left.load(Ordering::Relaxed) > 0 && self.left.fetch_sub(1, Ordering::Relaxed) > 0
    }
}

/// How a rule looks at the events of one class.
pub(crate) struct Made {
    bounds: Option<Bounds>,
    pub(crate) condition: Option<Arc<dyn Condition>>,
}

/// Or what does not fit, with the byte where that part of the rule begins.
type Making = std::result::Result<Arc<Made>, (trace_filter::Error, usize)>;

impl Progress {
    /// Returns how `rule`, which this is of, looks at the events of `class`; made once, when all is registered that it names.
    ///
    /// # Errors
    ///
    /// The rule's filter or key does not fit them.
    pub(crate) fn made(self: &Arc<Self>, rule: &Rule, class: &'static EventClass, redact: bool) -> Making {
        let at = std::ptr::from_ref(class).addr();
        let mut made = lock(&self.made);
        if let Some(made) = made.get(&at) {
            return made.clone();
        }
        let may_change = rule.awaits().is_some();
        let making = make(rule, self, class, redact).map(Arc::new);
        if !may_change {
            made.insert(at, making.clone());
        }
        making
    }

    /// Makes a target that takes what `made` lets through.
    pub(crate) fn conditional(&self, made: &Made, target: Target) -> Conditional {
        Conditional { bounds: made.bounds, condition: made.condition.clone(), counts: Some(self.counts.clone()), target }
    }
}

/// What an expression about the events of `class` may name.
pub(crate) fn scope(class: &EventClass, redact: bool) -> Scope {
    Scope::new(Field::of(class.fields, redact), ContextValue::fields())
}

fn make(
    rule: &Rule,
    progress: &Arc<Progress>,
    class: &EventClass,
    redact: bool,
) -> std::result::Result<Made, (trace_filter::Error, usize)> {
    let scope = scope(class, redact);
    let program = rule.filter.as_ref().map(|f| f.part.compile_partial(&scope).map_err(|e| (e, f.at))).transpose()?;
    let bounds = program.as_ref().and_then(bounds);
    let program = program.filter(|_| bounds.is_none());
    let limit = match &rule.limit {
        None => None,
        Some(Limit::OneIn(n)) => Some(Take::Turn(n.get())),
        Some(Limit::PerSecond(_)) => Some(Take::Budget(progress.budget.clone())),
        Some(Limit::OneInBy(n, key)) => {
            let input = key.part.resolve(&scope).map_err(|e| (e, key.at))?;
            Some(Take::Share(u64::MAX / n.get(), Source::of(&input)))
        }
    };
    let inputs = program.iter().flat_map(Program::inputs).map(Source::of).collect();
    let condition =
        (program.is_some() || limit.is_some()).then(|| Arc::new(Check { program, inputs, limit }) as Arc<dyn Condition>);
    Ok(Made { bounds, condition })
}

/// The bounds that a program of one comparison stands for.
fn bounds(program: &Program) -> Option<Bounds> {
    let (input, comparison, constant) = program.as_comparison()?;
    let [Step::Field(field)] = *input.path.as_slice() else { return None };
    if input.context {
        return None;
    }
    let (low, high) = match comparison {
        Comparison::Equal | Comparison::NotEqual => (constant, constant),
        // Constants have 64 bits, or were calculated: at the ends of 128 the general way takes over.
        Comparison::Less => (i128::MIN, constant.checked_sub(1)?),
        Comparison::LessOrEqual => (i128::MIN, constant),
        Comparison::Greater => (constant.checked_add(1)?, i128::MAX),
        Comparison::GreaterOrEqual => (constant, i128::MAX),
    };
    Some(Bounds { field, low, high, negated: comparison == Comparison::NotEqual })
}

/// Where a value comes from.
pub(crate) enum Source {
    Field(u16, Box<[Step]>),
    Context(ContextValue),
    Nothing,
}

impl Source {
    pub(crate) fn of(input: &Input) -> Source {
        match input.path.split_first() {
            Some((Step::Field(index), [])) if input.context => ContextValue::of(*index).map_or(Source::Nothing, Source::Context),
            Some((Step::Field(index), path)) if !input.context => Source::Field(*index, path.into()),
            // The checker makes no such paths.
            _ => Source::Nothing,
        }
    }

    #[inline]
    pub(crate) fn value<'v>(&self, event: &'v dyn Values, room: &'v Room) -> Value<'v> {
        match self {
            Source::Field(index, path) => event.value(*index, path),
            Source::Context(context) => context.value(room),
            Source::Nothing => Value::Missing,
        }
    }

    /// The same, if it is text: in registers.
    #[inline]
    pub(crate) fn text<'v>(&self, event: &'v dyn Values, room: &'v Room) -> Option<&'v [u8]> {
        match self {
            Source::Field(index, path) => event.text(*index, path),
            Source::Context(context) => context.value(room).text(),
            Source::Nothing => None,
        }
    }
}

/// Which of the events that pass the filter are recorded.
enum Take {
    /// Every nth.
    Turn(u64),
    /// Those whose key hashes to this or below.
    Share(u64, Source),
    /// So many in a second.
    Budget(Arc<Budget>),
}

/// A filter and a limit, for the events of one class.
struct Check {
    program: Option<Program>,
    /// By the index that the program asks by.
    inputs: Box<[Source]>,
    limit: Option<Take>,
}

struct Inputs<'c> {
    check: &'c Check,
    event: &'c dyn Values,
    room: Room,
}

impl Record for Inputs<'_> {
    #[inline]
    fn value(&self, input: usize) -> Value<'_> {
        self.check.inputs.get(input).map_or(Value::Missing, |source| source.value(self.event, &self.room))
    }
}

impl Condition for Check {
    fn accepts(&self, event: &dyn Values, counts: &PerCpu) -> bool {
        if let Some(program) = &self.program {
            if !program.accepts(&Inputs { check: self, event, room: Room::default() }) {
                counts.count::<FILTERED>();
                return false;
            }
        }
        let passes = match &self.limit {
            None => true,
            Some(Take::Turn(n)) => counts.is_turn::<TURN>(*n),
            Some(Take::Share(most, key)) => match key.value(event, &Room::default()) {
                Value::Missing => false,
                value => Key::hash(value) <= *most,
            },
            Some(Take::Budget(budget)) => budget.take(),
        };
        if !passes {
            counts.count::<LIMITED>();
        }
        passes
    }
}

/// Checks that the condition of `rule`, as it stands in `text`, fits the events of `probes`.
///
/// # Errors
///
/// [`Error::is_rule`] where it fits none of them, or names what none of them has. Where it fits some, the others are warnings.
pub(crate) fn check<'p>(
    rule: &Rule,
    text: &str,
    probes: impl Iterator<Item = &'p NamedProbe>,
    redact: bool,
    warnings: &mut Vec<String>,
) -> Result<()> {
    survey(rule, probes, redact, warnings).map_err(|(error, at)| Error::from_filter(error, text, at))
}

/// Checks that the condition of `rule` fits the events of `probes`, and warns of those that it does not fit.
///
/// # Errors
///
/// As for [`check`], with the byte where that part of the rule begins.
pub(crate) fn survey<'p>(
    rule: &Rule,
    probes: impl Iterator<Item = &'p NamedProbe>,
    redact: bool,
    warnings: &mut Vec<String>,
) -> std::result::Result<(), (trace_filter::Error, usize)> {
    let Some(progress) = rule.progress.as_ref().filter(|_| rule.is_conditional()) else { return Ok(()) };
    let mut survey = rule.filter.as_ref().map(|filter| (filter.at, Survey::new(&filter.part)));
    let (mut misfits, mut first, mut fits) = (Misfits::default(), None, false);
    for named in probes {
        let Some(class) = named.probe.class else {
            misfits.add(&named.name, "probe", format!("not run for `{rule}`: it makes no events to choose from"));
            continue;
        };
        let made = progress.made(rule, class, redact);
        if let Some((at, survey)) = &mut survey {
            let error = made.as_ref().err().filter(|(_, begin)| begin == at);
            survey.add(&named.name, scope(class, redact), error.map(|(error, _)| error.clone()));
        }
        match made {
            Ok(_) => fits = true,
            Err((error, at)) => {
                misfits.add(&named.name, "event", format!("not recorded by `{rule}`: {}", error.problem()));
                first = first.or(Some((named, error, at)));
            }
        }
    }
    warnings.extend(misfits.lines());
    if let Some((at, survey)) = survey {
        survey.finish().map_err(|error| (error, at))?;
    }
    match first {
        Some((named, error, at)) if !fits => Err((error.about(&named.name), at)),
        _ => Ok(()),
    }
}

/// What is not taken of what a rule matches, by the reason.
#[derive(Default)]
pub(crate) struct Misfits<'p>(Vec<(String, &'static str, Vec<&'p str>)>);

impl<'p> Misfits<'p> {
    pub(crate) fn add(&mut self, name: &'p str, noun: &'static str, why: String) {
        match self.0.iter_mut().find(|(known, ..)| *known == why) {
            Some((.., names)) => names.push(name),
            None => self.0.push((why, noun, vec![name])),
        }
    }

    /// One for each reason.
    pub(crate) fn lines(self) -> impl Iterator<Item = String> {
        self.0.into_iter().map(|(why, noun, names)| match names[..] {
            [name] => format!("{name} is {why}"),
            _ => format!("{} {noun}s, such as {}, are {why}", names.len(), names[0]),
        })
    }
}
