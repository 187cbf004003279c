//! `ringtrace count`, and `ringtrace hist` about a process: figures of events, kept in the process.

use std::io::{self, IsTerminal as _, Write};
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use trace_control::protocol::{Aggregate, AggregateGroup, AggregateNumber, Aggregates, Aggregating, Request, Steps};
use trace_registry::units;

use super::process::Process;
use super::record::interruption;
use super::target::Target;
use super::text::{self, Rate, table};
use crate::Outcome;
use crate::common::{Common, more_groups};
use crate::failure::{self, Failure};

/// Counts events of a running process, without recording them: how many of each, by the values of fields. Of a field, also the
/// sum, the least, the average and the greatest value.
///
/// A table that is shown anew every second on a terminal; elsewhere JSON: one object for each time, or one at the end. It ends
/// with the process, or when this command is interrupted.
///
/// Examples: ringtrace count 'storage:* by reason'; ringtrace count 'storage:read.bytes by table if bytes > 4K' --for 10s
#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    /// EVENT[.FIELD] [by FIELD, …] [if EXPRESSION]: a rule, with a field and keys.
    #[arg(value_name = "WHAT", required = true)]
    what: Vec<String>,

    #[command(flatten)]
    options: Options,

    /// Show so many groups at most.
    #[arg(short = 'n', long, value_name = "N", default_value_t = 30)]
    count: usize,

    #[command(flatten)]
    target: Target,
}

/// What `count` and `hist` have in common.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct Options {
    /// Of a process: show the figures so often; else every second on a terminal, and at the end only elsewhere.
    #[arg(long, value_name = "TIME", value_parser = units::duration)]
    every: Option<Duration>,

    /// Of a process: end after this time.
    #[arg(long = "for", value_name = "TIME", value_parser = units::duration)]
    time: Option<Duration>,

    /// Of a process: tell so many keys apart; those that come later are counted as others.
    #[arg(long, value_name = "N")]
    keys: Option<u32>,

    /// Of a process: take fields that are marked as sensitive.
    #[arg(long)]
    sensitive: bool,

    /// Of a process: text, also where standard output is no terminal.
    #[arg(long)]
    table: bool,
}

/// The target of `hist`, which is about a trace without it.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct Live {
    #[command(flatten)]
    target: Target,
}

impl Live {
    pub(crate) fn is_meant(&self) -> bool {
        self.target.is_given()
    }
}

/// `LOW:HIGH:STEP`.
pub(crate) fn steps(text: &str) -> Result<Steps, String> {
    let parts: Vec<&str> = text.split(':').collect();
    let [low, high, step] = parts[..] else { return Err("write LOW:HIGH:STEP, such as 0:1000:50".to_owned()) };
    let wrong = |part: &str| format!("`{part}` is no whole number");
    Ok(Steps {
        low: low.parse().map_err(|_| wrong(low))?,
        high: high.parse().map_err(|_| wrong(high))?,
        step: step.parse().map_err(|_| wrong(step))?,
    })
}

pub(crate) fn count(arguments: &Arguments, common: &Common) -> Result<Outcome, Failure> {
    let what = arguments.what.join(" ");
    let wanted = Aggregate { what, ..Aggregate::default() };
    follow(wanted, &arguments.options, &arguments.target, common, |now, before, out| {
        let (headings, rows) = rows(now, before, arguments.count);
        let headings: Vec<&str> = headings.iter().map(String::as_str).collect();
        write!(out, "{}", table(&headings, rows))?;
        more_groups(now.figures.groups.len(), arguments.count).map_or(Ok(()), |more| writeln!(out, "{more}"))
    })
}

/// Follows a histogram; `show` shows it as text.
pub(crate) fn histogram(
    wanted: Aggregate,
    options: &Options,
    live: &Live,
    common: &Common,
    show: impl Fn(&Aggregates, &mut dyn Write) -> io::Result<()>,
) -> Result<Outcome, Failure> {
    follow(wanted, options, &live.target, common, |now, _, out| show(&now.figures, out))
}

/// Figures, and when they were.
struct At {
    figures: Aggregates,
    time: Duration,
}

const ENDING: &str = "the last figures are being asked for; a third interrupt abandons that";

/// So often the figures are asked for, so that a process that ends leaves fresh ones.
const ASK: Duration = Duration::from_millis(100);
/// So often a terminal shows them.
const SHOW: Duration = Duration::from_secs(1);

fn follow(
    mut wanted: Aggregate,
    options: &Options,
    target: &Target,
    common: &Common,
    show: impl Fn(&At, Option<&At>, &mut dyn Write) -> io::Result<()>,
) -> Result<Outcome, Failure> {
    wanted.keys = options.keys;
    wanted.sensitive = options.sensitive;
    let interrupted = interruption(ENDING).map_err(Failure::Output)?;
    let (mut process, begun): (_, Aggregating) = target.ask(&Request::Aggregate(wanted))?;
    let (name, pid, copy) = (process.name(), process.is.pid, process.copy.clone());
    let begin = Instant::now();
    failure::warnings(&begun.warnings);
    let is_terminal = io::stdout().is_terminal();
    let is_text = !common.json && (is_terminal || options.table);
    let every = options.every.or((is_terminal && is_text).then_some(SHOW));
    let (mut shown, mut last): (Option<At>, Option<At>) = (None, None);
    let ask = Request::Aggregates(AggregateNumber { number: begun.number });
    let tell = |now: &At, before: Option<&At>| -> Result<(), Failure> {
        let (mut text, mut out) = (Vec::new(), text::out(!is_text));
        if is_text {
            if is_terminal {
                // From the upper left corner, and without what was there.
                out.write_own("\x1b[H\x1b[2J")?;
            }
            show(now, before, &mut text)?;
            notes(&now.figures, &mut text)?;
        } else {
            let mut object = serde_json::to_value(&now.figures).unwrap_or_default();
            object["pid"] = pid.into();
            if let Some(copy) = &copy {
                object["copy"] = copy.as_str().into();
            }
            object["ns"] = json!(u64::try_from(now.time.as_nanos()).unwrap_or(u64::MAX));
            writeln!(text, "{object}")?;
        }
        out.write_all(&text)?;
        Ok(out.flush()?)
    };
    let mut due = every.map(|every| begin + every);
    let end = options.time.map(|time| begin + time);
    let outcome = loop {
        let now = Instant::now();
        let wait = [due, end].into_iter().flatten().map(|at| at.saturating_duration_since(now)).fold(ASK, Duration::min);
        std::thread::sleep(wait);
        let is_over = interrupted.load(Ordering::Relaxed) || end.is_some_and(|end| Instant::now() >= end);
        match process.ask(&ask) {
            Ok(figures) => last = Some(At { figures, time: begin.elapsed() }),
            Err(error) if Process::has_ended(&error) => {
                failure::note(format_args!("{name} has ended; its last {ASK:?} may be missing"));
                break Outcome::Complete;
            }
            Err(error) => return Err(process.failure(error)),
        }
        if is_over {
            break Outcome::Complete;
        }
        if let (Some(at), Some(every)) = (due.filter(|at| Instant::now() >= *at), every) {
            due = Some((at + every).max(Instant::now()));
            if let Some(now) = last.take() {
                tell(&now, shown.as_ref())?;
                shown = Some(now);
            }
        }
    };
    if let Some(now) = &last {
        tell(now, shown.as_ref())?;
    }
    Ok(outcome)
}

fn text(value: &Value) -> String {
    match value {
        Value::Null => "-".to_owned(),
        Value::String(text) => text.clone(),
        Value::Number(number) if number.is_f64() => crate::traces::number(number.as_f64().unwrap_or_default()),
        value => value.to_string(),
    }
}

/// Name and keys of a group, one for each column.
pub(crate) fn names(group: &AggregateGroup, by: usize) -> Vec<String> {
    let mut names = vec![group.event.clone()];
    match &group.keys {
        Some(keys) => names.extend(keys.iter().map(text)),
        None => names.extend((0..by).map(|_| "(others)".to_owned())),
    }
    names
}

fn rows(now: &At, before: Option<&At>, most: usize) -> (Vec<String>, Vec<Vec<String>>) {
    let figures = &now.figures;
    let mut headings = vec!["event".to_owned()];
    headings.extend(figures.by.iter().cloned());
    headings.extend([">count", ">rate"].map(str::to_owned));
    if figures.field.is_some() {
        headings.extend([">sum", ">min", ">avg", ">max"].map(str::to_owned));
    }
    let row = |group: &AggregateGroup| {
        let mut row = names(group, figures.by.len());
        let earlier = before.and_then(|b| b.figures.groups.iter().find(|g| (&g.event, &g.keys) == (&group.event, &group.keys)));
        let time = now.time.saturating_sub(before.map_or(Duration::ZERO, |b| b.time));
        let new = group.count - earlier.map_or(0, |g| g.count).min(group.count);
        row.push(group.count.to_string());
        row.push(Rate(new as f64 / time.as_secs_f64().max(1e-9)).to_string());
        if figures.field.is_some() {
            row.extend([&group.sum, &group.min, &group.avg, &group.max].map(text));
        }
        row
    };
    (headings, figures.groups.iter().take(most).map(row).collect())
}

/// What is not in the figures.
fn notes(figures: &Aggregates, out: &mut dyn Write) -> io::Result<()> {
    let lost = &figures.lost;
    let notes = [
        (figures.valueless, "events have no value there"),
        (figures.filtered, "events were rejected by the expression"),
        (figures.limited, "events were left out by the limit"),
        (lost.busy, "events were lost: every lock was held"),
        (lost.nested, "events were lost: nested too deeply"),
        (lost.panicked, "events were lost: their probe panicked"),
    ];
    if figures.groups.is_empty() {
        writeln!(out, "no event yet")?;
    }
    notes.iter().filter(|(count, _)| *count > 0).try_for_each(|(count, what)| writeln!(out, "{count} {what}"))
}
