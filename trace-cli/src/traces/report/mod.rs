//! `ringtrace report`: a trace as one page for a browser.
//!
//! What is shown is gathered in memory that does not grow with the trace: bins of time, distributions, the longest slices, and of
//! the others which share of each bin they take.

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
use super::slices::{End, Future, Open, Phase, Slices};
use super::source::{Item, Opened, Source, plain};
use super::summary::Summary;
use crate::Outcome;
use crate::common::Common;
use crate::failure::{self, Failure};

/// Bins of the whole time.
const BINS: usize = 600;
/// Slices that are drawn one by one: the longest.
const LONGEST: usize = 20_000;
/// How deep slices are drawn in others.
const DEEPEST: usize = 4;
/// Futures that are under way at once and whose durations are taken, at most.
const FUTURES: usize = 100_000;
/// Threads that have a lane: the busiest.
const LANES: usize = 60;
/// Fields that have a histogram.
const FIELDS: usize = 60;

/// Writes one page that a browser shows, without any network: rates, losses, a timeline of the threads, latencies, histograms.
///
/// The timeline zooms and moves by buttons and by keys, and finds slices by name; it draws the longest of them one by one, the
/// others as the share of time that they take, and how many events there are at each time. Every figure is a table too.
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
    lanes: Vec<Lane>,
    /// Durations by the name of the slice.
    latencies: BTreeMap<String, Distribution>,
    /// The longest first.
    slices: Vec<Drawn>,
    /// What pairs are called, by their numbers.
    names: Vec<String>,
    /// Slices that are in the shares of lanes alone.
    merged: u64,
    /// What is missing, in words.
    missing: Option<String>,
    /// Values by event and field.
    fields: Vec<(String, Distribution)>,
}

/// A slice that is drawn by itself. The order is that of their durations.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Drawn {
    duration: u64,
    begin: i64,
    /// The number of its pair.
    pair: u32,
    thread: Thread,
    depth: u8,
    lost: Lost,
}

/// What is lost of a slice.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
enum Lost {
    Nothing,
    Begin,
    End,
}

/// A thread in the timeline.
struct Lane {
    thread: Thread,
    /// Events in each bin.
    events: Vec<u64>,
    /// Nanoseconds that slices take which are not drawn one by one, by depth and bin.
    merged: [Vec<u64>; DEEPEST],
}

/// The whole time, in bins.
#[derive(Clone, Copy)]
struct Bins {
    first: i64,
    duration: u64,
}

impl Bins {
    fn of(self, time: i64) -> usize {
        let past = u128::from(time.saturating_sub(self.first).max(0).unsigned_abs());
        ((past * BINS as u128 / (u128::from(self.duration) + 1)) as usize).min(BINS - 1)
    }

    /// When a bin begins, in nanoseconds from the first event.
    fn begin(self, bin: usize) -> u64 {
        ((u128::from(self.duration) + 1) * bin as u128).div_ceil(BINS as u128) as u64
    }

    /// Adds to each bin how much of it a slice takes.
    fn add(self, begin: i64, duration: u64, to: &mut [u64]) {
        let (from, until) = (begin.saturating_sub(self.first).max(0) as u64, begin.saturating_add_unsigned(duration));
        let until = until.saturating_sub(self.first).max(0) as u64;
        for (bin, taken) in
            to.iter_mut().enumerate().take(self.of(self.first.saturating_add_unsigned(until)) + 1).skip(self.of(begin))
        {
            *taken += until.min(self.begin(bin + 1)).saturating_sub(from.max(self.begin(bin)));
        }
    }
}

/// The slices of all threads.
struct Timeline {
    bins: Bins,
    lanes: HashMap<Thread, Lane>,
    longest: BinaryHeap<Reverse<Drawn>>,
    merged: u64,
}

impl Timeline {
    fn slice(&mut self, slice: Drawn) {
        if !self.lanes.contains_key(&slice.thread) {
            return;
        }
        self.longest.push(Reverse(slice));
        let Some(Reverse(shortest)) = (self.longest.len() > LONGEST).then(|| self.longest.pop()).flatten() else { return };
        self.merged += 1;
        if let Some(lane) = self.lanes.get_mut(&shortest.thread) {
            self.bins.add(shortest.begin, shortest.duration, &mut lane.merged[usize::from(shortest.depth)]);
        }
    }
}

/// How deep a slice is drawn.
fn row(depth: usize) -> u8 {
    depth.min(DEEPEST - 1) as u8
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
        let bins = Bins { first, duration };
        let lane =
            |thread: &Thread| Lane { thread: *thread, events: vec![0; BINS], merged: [(); DEEPEST].map(|()| vec![0; BINS]) };
        let lanes = counts.threads.iter().take(LANES).map(|(thread, _)| (*thread, lane(thread)));
        let mut timeline = Timeline { bins, lanes: lanes.collect(), longest: BinaryHeap::new(), merged: 0 };
        let classes = opened.classes();
        let slices = Slices::new(&classes);
        let mut rate = vec![0; BINS];
        let mut columns = columns(&counts, &classes);
        let (mut who, mut open) = (Who::default(), Open::<(i64, u32)>::new(opened.whole()));
        let mut futures = HashMap::new();
        let mut latencies: BTreeMap<String, Distribution> = BTreeMap::new();
        opened.each(
            &mut summary,
            || plain,
            |item| {
                let Item::Event(event, ..) = item else { return Ok(ControlFlow::Continue(())) };
                let (thread, time) = (who.thread(event), event.timestamp().unwrap_or(first));
                rate[bins.of(time)] += 1;
                if let Some(lane) = timeline.lanes.get_mut(&thread) {
                    lane.events[bins.of(time)] += 1;
                }
                let own = slices.pair(event.class()).unwrap_or_default();
                let mut closed = Vec::new();
                let phase = open.step(&slices, event, thread, || (time, own), |kept, end| closed.push((kept, end)));
                let depth = open.depth(&thread);
                // The innermost ended first.
                for (place, ((begin, pair), end)) in closed.iter().rev().enumerate() {
                    let (end, lost) = match end {
                        End::Lost(at) => (*at, Lost::End),
                        End::Own | End::Around => (time, Lost::Nothing),
                        // A span that others interrupted is of no thread: it has no place among the slices of one.
                        End::Left(_) | End::Apart => continue,
                    };
                    let (duration, depth) = (end.abs_diff(*begin), row(depth + place));
                    timeline.slice(Drawn { duration, begin: *begin, pair: *pair, thread, depth, lost });
                }
                let mut took = None;
                match (slices.future(event), phase) {
                    // A future is of no thread: it has no place among the slices of one.
                    (Some(Future::Begin(number)), _) if futures.len() < FUTURES => {
                        futures.insert((thread.trace, number), time);
                    }
                    (Some(Future::End(number)), _) => {
                        let begin = futures.remove(&(thread.trace, number));
                        took = slices.duration(event).or_else(|| begin.map(|begin| time.abs_diff(begin)));
                    }
                    (_, Phase::End | Phase::Apart) => {
                        took = slices.duration(event).or_else(|| closed.last().map(|((begin, _), _)| time.abs_diff(*begin)));
                    }
                    (_, Phase::Alone(begin)) => {
                        let duration = time.abs_diff(begin.at);
                        took = begin.is_known.then_some(duration);
                        let begin = begin.at.max(first);
                        let depth = row(depth);
                        timeline.slice(Drawn {
                            duration: time.abs_diff(begin),
                            begin,
                            pair: own,
                            thread,
                            depth,
                            lost: Lost::Begin,
                        });
                    }
                    _ => {}
                }
                if let Some((duration, name)) = took.zip(slices.name(event.class())) {
                    match latencies.get_mut(name) {
                        Some(all) => all.add(duration as f64),
                        None => latencies.entry(name.to_owned()).or_default().add(duration as f64),
                    }
                }
                measure(&mut columns, event);
                Ok(ControlFlow::Continue(()))
            },
        )?;
        open.finish(|thread, (begin, pair), end| {
            let End::Lost(at) = end else { return };
            let (duration, lost) = (at.abs_diff(begin), Lost::End);
            timeline.slice(Drawn { duration, begin, pair, thread: *thread, depth: 0, lost });
        });
        let Timeline { mut lanes, longest, merged, .. } = timeline;
        let mut drawn: Vec<_> = longest.into_iter().map(|Reverse(slice)| slice).collect();
        drawn.sort_by_key(|slice| (Reverse(slice.duration), slice.begin));
        let lanes = counts.threads.iter().filter_map(|(thread, _)| lanes.remove(thread)).collect();
        let names = (0..).map_while(|pair| Some(slices.pair_name(pair)?.to_owned())).collect();
        let fields = columns.into_iter().filter(|(_, _, values)| values.count() > 0);
        let fields = fields.map(|(name, _, values)| (name, values)).collect();
        let title = opened.traces.first().map_or_else(String::new, |trace| trace.path().display().to_string());
        let missing = opened.missing();
        Ok(Self {
            title,
            counts,
            summary,
            first,
            duration,
            rate,
            lanes,
            latencies,
            slices: drawn,
            names,
            merged,
            missing,
            fields,
        })
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
