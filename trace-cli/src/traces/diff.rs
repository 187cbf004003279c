//! `ringtrace diff`: what one trace has more of than another.

use std::collections::BTreeMap;
use std::io::{self, Write as _};
use std::path::PathBuf;

use serde_json::json;

use super::counts::{Count, Counts};
use super::open;
use super::source::{Opened, Wanted};
use super::summary::Summary;
use super::time::span;
use crate::Outcome;
use crate::common::Common;
use crate::failure::{self, Failure};
use crate::live::text::{Rate, out, table};

/// Compares two traces: how many events of each class there are, how often they come, and what was lost.
///
/// The greatest changes come first. The exit code does not tell whether there are any.
#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    /// Directory of the first trace, or one above it.
    a: PathBuf,

    /// Directory of the second trace.
    b: PathBuf,

    #[command(flatten)]
    wanted: Wanted,
}

pub(crate) fn run(arguments: &Arguments, common: &Common) -> Result<Outcome, Failure> {
    let mut summaries = [Summary::default(), Summary::default()];
    let [first, second] = &mut summaries;
    // What is meant may be in one of them only, so a name is wrong where neither has it.
    let a = Opened::new(open::traces(&arguments.a)?, &arguments.wanted, first);
    let b = Opened::new(open::traces(&arguments.b)?, &arguments.wanted, second);
    let (a, b) = match (a, b) {
        (Err(failure), Err(_)) => return Err(failure),
        other => other,
    };
    let count = |opened: Result<Opened, Failure>, summary: &mut Summary| match opened {
        Ok(opened) => Counts::of(&opened, summary),
        Err(_) => Ok(Counts::default()),
    };
    let (a, b) = (count(a, first)?, count(b, second)?);
    let mut classes: BTreeMap<&str, [Count; 2]> = BTreeMap::new();
    for (side, counts) in [&a, &b].into_iter().enumerate() {
        counts.classes.iter().for_each(|(name, count)| classes.entry(name).or_default()[side] = *count);
    }
    let durations = [a.total.duration(), b.total.duration()];
    let rates = |counts: &[Count; 2]| [0, 1].map(|side| counts[side].rate(durations[side]).unwrap_or_default());
    let mut rows: Vec<_> = classes.into_iter().collect();
    rows.sort_by(|(_, x), (_, y)| {
        let change = |counts: &[Count; 2]| counts[0].events.abs_diff(counts[1].events);
        change(y).cmp(&change(x))
    });
    let mut out = io::BufWriter::new(out(common.json));
    if common.json {
        for (name, counts) in &rows {
            let [a, b] = [0, 1].map(|side| counts[side].json(durations[side]));
            writeln!(out, "{}", json!({ "name": name, "a": a, "b": b }))?;
        }
        let total = |counts: &Counts, summary: &Summary, duration| {
            let mut total = counts.total.json(duration);
            total["duration_ns"] = duration.into();
            total["losses"] = summary.losses_json();
            total
        };
        let [first, second] = &summaries;
        let (a, b) = (total(&a, first, durations[0]), total(&b, second, durations[1]));
        writeln!(out, "{}", json!({ "total": { "a": a, "b": b } }))?;
    } else {
        let row = |(name, counts): &(&str, [Count; 2])| {
            let rates = rates(counts);
            let (before, after) = (counts[0].events, counts[1].events);
            let change = i128::from(after) - i128::from(before);
            let change = if change == 0 { "=".to_owned() } else { format!("{change:+}") };
            vec![before.to_string(), after.to_string(), change, factor(rates), name.escape_debug().to_string()]
        };
        let headings = [">events a", ">events b", ">change", ">rate", "event"];
        write!(out, "{}", table(&headings, rows.iter().map(row).collect()))?;
        for ((name, counts), (duration, summary)) in [("a", &a), ("b", &b)].into_iter().zip(durations.into_iter().zip(&summaries))
        {
            let rate = counts.total.rate(duration).map_or_else(String::new, |rate| format!(", {}", Rate(rate)));
            let lost = format!("{} discarded events, {} lost packets", summary.discarded_events, summary.lost_packets);
            writeln!(out, "{name}: {} events in {}{rate}, {lost}", counts.total.events, span(duration as f64))?;
        }
    }
    out.flush()?;
    let [mut whole, second] = summaries;
    whole.add(&second);
    failure::note(format_args!("{whole}"));
    Ok(whole.outcome())
}

/// How the second rate stands to the first.
fn factor([a, b]: [f64; 2]) -> String {
    match (a > 0.0, b > 0.0) {
        (true, true) => format!("×{:.2}", b / a),
        (false, true) => "new".to_owned(),
        (true, false) => "gone".to_owned(),
        (false, false) => "-".to_owned(),
    }
}
