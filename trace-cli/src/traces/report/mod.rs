//! `ringtrace report`: a trace as one page for a browser.
//!
//! What is shown is gathered in memory that does not grow with the trace: bins of time, distributions, the longest slices.

mod html;

use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap, HashMap};
use std::fs;
use std::ops::ControlFlow;
use std::path::PathBuf;

use trace_ctf::reader::{Event, Scalar};

use super::columns::{Column, names};
use super::counts::Counts;
use super::distribution::Distribution;
use super::names::{Thread, Who};
use super::slices::{Future, Open, Phase, Slices};
use super::source::{Item, Opened, Source, plain};
use super::summary::Summary;
use crate::Outcome;
use crate::common::Common;
use crate::failure::{self, Failure};

/// Bins of the whole time.
const BINS: usize = 600;
/// Slices that are drawn: the longest.
const LONGEST: usize = 20_000;
/// Futures that are under way at once and whose durations are taken, at most.
const FUTURES: usize = 100_000;
/// Threads that have a lane: the busiest.
const LANES: usize = 60;
/// Fields that have a histogram.
const FIELDS: usize = 60;

/// Writes one page that a browser shows, without any network: rates, losses, a timeline of the threads, latencies, histograms.
///
/// The timeline zooms and moves by buttons and by keys, and finds slices by name; it draws the longest of them, and how many
/// events there are at each time. Every figure is a table too.
///
/// Example: ringtrace report shop.ringtrace -o report.html
#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    #[command(flatten)]
    source: Source,

    /// File to write.
    #[arg(short, long, value_name = "FILE", default_value = "report.html")]
    output: PathBuf,
}

/// What the page shows.
struct Report {
    title: String,
    counts: Counts,
    summary: Summary,
    first: i64,
    duration: u64,
    /// Events in each bin.
    rate: Vec<u64>,
    lanes: Vec<(Thread, Vec<u64>)>,
    /// Durations by the name of the slice.
    latencies: BTreeMap<String, Distribution>,
    /// Begin, duration, name and thread.
    slices: Vec<(i64, u64, String, Thread)>,
    /// Values by event and field.
    fields: Vec<(String, Distribution)>,
}

pub(crate) fn run(arguments: &Arguments, common: &Common) -> Result<Outcome, Failure> {
    let mut summary = Summary::default();
    let opened = arguments.source.open(&mut summary)?;
    let counts = Counts::of(&opened, &mut Summary { is_quiet: true, ..Summary::default() })?;
    let report = Report::gather(&opened, counts, summary)?;
    let page = html::page(&report, &opened.zone);
    fs::write(&arguments.output, page).map_err(|error| Failure::file(&arguments.output, error))?;
    report.summary.written(&arguments.output, common)?;
    failure::note(format_args!("{}; open {} in a browser", report.summary, arguments.output.display()));
    Ok(report.summary.outcome())
}

impl Report {
    fn gather(opened: &Opened, counts: Counts, mut summary: Summary) -> Result<Self, Failure> {
        let (first, last) = counts.total.span().unwrap_or_default();
        let duration = last.abs_diff(first);
        let bin = |time: i64| ((time.abs_diff(first) as u128 * BINS as u128 / (u128::from(duration) + 1)) as usize).min(BINS - 1);
        let mut lanes: HashMap<Thread, Vec<u64>> =
            counts.threads.iter().take(LANES).map(|(thread, _)| (*thread, vec![0; BINS])).collect();
        let classes = opened.classes();
        let slices = Slices::new(&classes);
        let mut rate = vec![0; BINS];
        let mut columns = columns(&counts, &classes);
        let (mut who, mut open) = (Who::default(), Open::<i64>::default());
        let mut futures = HashMap::new();
        let mut latencies: BTreeMap<String, Distribution> = BTreeMap::new();
        let mut longest: BinaryHeap<Reverse<(u64, i64, String, Thread)>> = BinaryHeap::new();
        opened.each(
            &mut summary,
            || plain,
            |item| {
                let Item::Event(event, ..) = item else { return Ok(ControlFlow::Continue(())) };
                let (thread, time) = (who.thread(event), event.timestamp().unwrap_or(first));
                rate[bin(time)] += 1;
                if let Some(lane) = lanes.get_mut(&thread) {
                    lane[bin(time)] += 1;
                }
                let mut began = time;
                let phase = open.step(&slices, event.class(), thread, || time, |begin| began = begin);
                let future = match slices.future(event) {
                    Some(Future::Begin(number)) if futures.len() < FUTURES => {
                        futures.insert((thread.trace, number), time);
                        None
                    }
                    Some(Future::End(number)) => futures.remove(&(thread.trace, number)),
                    _ => None,
                };
                began = future.unwrap_or(began);
                let is_call = matches!(phase, Phase::End(_));
                if let (true, Some(name)) = (is_call || future.is_some(), slices.name(event.class())) {
                    let duration = time.abs_diff(began);
                    match latencies.get_mut(name) {
                        Some(all) => all.add(duration as f64),
                        None => latencies.entry(name.to_owned()).or_default().add(duration as f64),
                    }
                    // A future is of no thread: it has no place among the slices of one.
                    if is_call
                        && (longest.len() < LONGEST || longest.peek().is_some_and(|Reverse((least, ..))| *least < duration))
                    {
                        longest.push(Reverse((duration, began, name.to_owned(), thread)));
                        if longest.len() > LONGEST {
                            longest.pop();
                        }
                    }
                }
                measure(&mut columns, event);
                Ok(ControlFlow::Continue(()))
            },
        )?;
        let mut slices: Vec<_> =
            longest.into_iter().map(|Reverse((duration, begin, name, thread))| (begin, duration, name, thread)).collect();
        slices.sort_by_key(|(begin, duration, ..)| (Reverse(*duration), *begin));
        let lanes = counts.threads.iter().filter_map(|(thread, _)| Some((*thread, lanes.remove(thread)?))).collect();
        let fields = columns.into_iter().filter(|(_, _, values)| values.count() > 0);
        let fields = fields.map(|(name, _, values)| (name, values)).collect();
        let title = opened.traces.first().map_or_else(String::new, |trace| trace.path().display().to_string());
        Ok(Self { title, counts, summary, first, duration, rate, lanes, latencies, slices, fields })
    }
}

/// The fields of the events, the most frequent first.
fn columns(counts: &Counts, classes: &super::source::Classes<'_>) -> Vec<(String, Column, Distribution)> {
    let mut all = Vec::new();
    for (name, _) in &counts.classes {
        let of: Vec<_> = classes.iter().filter(|(_, class)| class.name == *name).copied().collect();
        let Some((stream, class)) = of.first() else { continue };
        for field in names(stream, class) {
            let column = Column::anywhere(&field, &of);
            if column.is_payload() && all.len() < FIELDS {
                all.push((format!("{name}.{field}"), column, Distribution::default()));
            }
        }
    }
    all
}

fn measure(columns: &mut [(String, Column, Distribution)], event: &Event<'_>) {
    for (_, column, values) in columns.iter_mut().filter(|(_, column, _)| column.is_of(event.class())) {
        if let Some(value @ (Scalar::Unsigned(_) | Scalar::Signed(_) | Scalar::Long(_) | Scalar::Float(_))) = column.get(event) {
            values.add(value.as_f64().unwrap_or(f64::NAN));
        }
    }
}
