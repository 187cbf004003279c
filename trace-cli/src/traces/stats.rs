//! `ringtrace stats` and `ringtrace top`: how many events there are, of what, by whom.

use std::io::{self, Write as _};

use serde_json::json;

use super::counts::{Count, Counts};
use super::source::{Opened, Source};
use super::summary::Summary;
use super::time;
use crate::Outcome;
use crate::common::Common;
use crate::failure::Failure;
use crate::live::text::{Bytes, Rate, out, table};

/// Counts events: of each class, thread and CPU, with rates, bytes, and what was lost.
///
/// Rates are over the time from the first to the last of all the events counted. Bytes are those of the records, without the
/// packets around them.
#[derive(Debug, clap::Args)]
pub(crate) struct Stats {
    #[command(flatten)]
    source: Source,
}

/// Shows the busiest events, or threads, or CPUs.
#[derive(Debug, clap::Args)]
pub(crate) struct Top {
    #[command(flatten)]
    source: Source,

    /// What is ranked.
    #[arg(long, value_name = "WHAT", default_value = "event")]
    by: By,

    /// How many are shown.
    #[arg(short = 'n', long, value_name = "N", default_value_t = 10)]
    count: usize,
}

#[derive(Clone, Copy, Debug, clap::ValueEnum)]
enum By {
    Event,
    Thread,
    Cpu,
}

pub(crate) fn stats(arguments: &Stats, common: &Common) -> Result<Outcome, Failure> {
    let mut summary = Summary::default();
    let opened = arguments.source.open(&mut summary)?;
    let counts = Counts::of(&opened, &mut summary)?;
    let duration = counts.total.duration();
    let mut out = io::BufWriter::new(out(common.json));
    if common.json {
        let named = |key: &str, name: serde_json::Value, count: &Count| {
            let mut row = count.json(duration);
            row[key] = name;
            row
        };
        let threads = counts.threads.iter().map(|(thread, count)| {
            let mut row = named("tid", thread.tid.into(), count);
            row["name"] = counts.names.of(thread).into();
            row["cpu"] = thread.cpu.into();
            row
        });
        let value = json!({
            "duration_ns": duration,
            "total": counts.total.json(duration),
            "losses": summary.losses_json(),
            "whole": opened.whole().json(opened.extent().as_ref()),
            "classes": counts.classes.iter().map(|(name, count)| named("name", name.as_str().into(), count)).collect::<Vec<_>>(),
            "threads": threads.collect::<Vec<_>>(),
            "cpus": counts.cpus.iter().map(|(cpu, count)| named("cpu", (*cpu).into(), count)).collect::<Vec<_>>(),
        });
        writeln!(out, "{value}")?;
    } else {
        overview(&opened, &counts, &summary, &mut out)?;
        let rows = counts.classes.iter().map(|(name, count)| (name.escape_debug().to_string(), count));
        section("event", rows, duration, &mut out)?;
        let rows = counts.threads.iter().map(|(thread, count)| (counts.names.show(thread), count));
        section("thread", rows, duration, &mut out)?;
        section("cpu", counts.cpus.iter().map(|(cpu, count)| (cpu.to_string(), count)), duration, &mut out)?;
    }
    out.flush()?;
    Ok(opened.close(&summary))
}

fn overview(opened: &Opened, counts: &Counts, summary: &Summary, out: &mut impl io::Write) -> io::Result<()> {
    let duration = counts.total.duration();
    if let Some((first, last)) = counts.total.span() {
        let (first, last) = (time::show(first, &opened.zone), time::show(last, &opened.zone));
        writeln!(out, "from {first} to {last}: {}", time::span(duration as f64))?;
    }
    let streams: usize = opened.traces.iter().map(|trace| trace.streams().len()).sum();
    let rate = counts.total.rate(duration).map_or_else(String::new, |rate| format!(", {}", Rate(rate)));
    let (events, bytes) = (counts.total.events, Bytes(counts.total.bytes));
    let plural = if streams == 1 { "" } else { "s" };
    writeln!(out, "{events} events{rate}, {bytes}, in {streams} stream{plural}")?;
    if summary.not_kept > 0 {
        writeln!(out, "not kept: {} events of other keys", summary.not_kept)?;
    }
    let others = if summary.uncounted { ", others before the first packet of a stream" } else { "" };
    writeln!(out, "lost: {} discarded events, {} lost packets{others}", summary.discarded_events, summary.lost_packets)?;
    opened.missing().map_or(Ok(()), |missing| writeln!(out, "whole: {missing}"))
}

fn section<'c>(
    heading: &str,
    rows: impl Iterator<Item = (String, &'c Count)>,
    duration: u64,
    out: &mut impl io::Write,
) -> io::Result<()> {
    let rate = |count: &Count| count.rate(duration).map_or_else(|| "-".to_owned(), |rate| Rate(rate).to_string());
    let row = |(name, count): (String, &Count)| vec![count.events.to_string(), rate(count), Bytes(count.bytes).to_string(), name];
    let rows: Vec<_> = rows.map(row).collect();
    if rows.is_empty() {
        return Ok(());
    }
    write!(out, "\n{}", table(&[">events", ">rate", ">bytes", heading], rows))
}

pub(crate) fn top(arguments: &Top, common: &Common) -> Result<Outcome, Failure> {
    let mut summary = Summary::default();
    let opened = arguments.source.open(&mut summary)?;
    let counts = Counts::of(&opened, &mut summary)?;
    let duration = counts.total.duration();
    let (heading, mut rows): (_, Vec<(String, &Count)>) = match arguments.by {
        By::Event => ("event", counts.classes.iter().map(|(name, count)| (name.clone(), count)).collect()),
        By::Thread => ("thread", counts.threads.iter().map(|(thread, count)| (counts.names.show(thread), count)).collect()),
        By::Cpu => ("cpu", counts.cpus.iter().map(|(cpu, count)| (cpu.to_string(), count)).collect()),
    };
    rows.sort_by_key(|(_, count)| std::cmp::Reverse(count.events));
    let share = |count: &Count| count.events as f64 * 100.0 / counts.total.events.max(1) as f64;
    let mut out = io::BufWriter::new(out(common.json));
    if common.json {
        for (name, count) in rows.iter().take(arguments.count) {
            let mut row = count.json(duration);
            row[heading] = name.as_str().into();
            row["percent"] = share(count).into();
            writeln!(out, "{row}")?;
        }
    } else {
        let row = |(name, count): &(String, &Count)| {
            let rate = count.rate(duration).map_or_else(|| "-".to_owned(), |rate| Rate(rate).to_string());
            let percent = format!("{:.1} %", share(count));
            vec![percent, count.events.to_string(), rate, Bytes(count.bytes).to_string(), name.escape_debug().to_string()]
        };
        let shown = rows.iter().take(arguments.count).map(row).collect();
        write!(out, "{}", table(&[">share", ">events", ">rate", ">bytes", heading], shown))?;
        if let Some(rest @ 1..) = rows.len().checked_sub(arguments.count) {
            writeln!(out, "and {rest} more")?;
        }
    }
    out.flush()?;
    Ok(opened.close(&summary))
}
