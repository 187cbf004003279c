//! Where nothing is missing: what every verb asks before it takes two events for a pair, and what it says of a trace.
//!
//! A stream is whole from its first packet to its end, but for the packets in which its count of discarded events has grown, the
//! distances over which its packet numbers jump, and everything behind damage. In a snapshot each stream begins at a time of its
//! own: what is older was overwritten. Where any stream of a trace is not whole there is a *hole*: an event of any thread, with
//! any key, may be missing there, since a thread may have run on any CPU.

use serde_json::{Value as Json, json};
use trace_ctf::declared::{Declarations, EventClass, StreamClass};
use trace_ctf::reader::{Stream, Trace};

use super::names::THREAD_NAME;
use super::slices::began;
use super::time::{self, span};

/// The field of the trace's environment that snapshots have.
const SNAPSHOT: &str = "snapshot_reason";

/// A call's own time begins when its entry was recorded, and ends before its exit is: what lies between is at most so long, unless
/// the thread is interrupted just then. In nanoseconds.
const RECORDING: u64 = 500;

/// A time in which events may be missing: longer than nothing, its end not included.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Hole {
    pub(super) begin: i64,
    pub(super) end: i64,
}

impl Hole {
    fn new(begin: Option<i64>, end: Option<i64>) -> Self {
        let begin = begin.unwrap_or(i64::MIN);
        // What is missing between packets that touch is missing between the events of that one time.
        Self { begin, end: end.unwrap_or(i64::MAX).max(begin.saturating_add(1)) }
    }
}

/// Holes in the order of time, which do not touch each other.
#[derive(Clone, Debug, Default)]
pub(super) struct Holes(Vec<Hole>);

impl Holes {
    fn new(mut holes: Vec<Hole>) -> Self {
        holes.sort_unstable();
        let mut joined: Vec<Hole> = Vec::new();
        for hole in holes {
            match joined.last_mut() {
                Some(last) if hole.begin <= last.end => last.end = last.end.max(hole.end),
                _ => joined.push(hole),
            }
        }
        Self(joined)
    }

    /// The first hole between two times: a pair of events at these times may be a false one.
    pub(super) fn between(&self, begin: i64, end: i64) -> Option<Hole> {
        let place = self.0.partition_point(|hole| hole.end <= begin);
        self.0.get(place).copied().filter(|hole| hole.begin < end)
    }

    /// Whether two events belong together, of which the second says how long the time between them was, or does not.
    ///
    /// The last begin before an end is the right one, unless something is missing between them.
    pub(super) fn are_pair(&self, begin: i64, end: i64, duration: Option<u64>) -> bool {
        let is_exact = |duration: u64| began(end, Some(duration)).abs_diff(begin) <= RECORDING;
        self.between(begin, end).is_none() || duration.is_some_and(is_exact)
    }

    /// The latest time at which that began of which an event is the end.
    pub(super) fn latest_begin(end: i64, duration: Option<u64>) -> i64 {
        duration.map_or(end, |duration| began(end, Some(duration)).saturating_add_unsigned(RECORDING))
    }

    /// When the last hole ends that begins before a time.
    pub(super) fn last_before(&self, time: i64) -> Option<i64> {
        let place = self.0.partition_point(|hole| hole.begin < time).checked_sub(1)?;
        self.0.get(place).map(|hole| hole.end.min(time))
    }

    /// What lies between holes, from one time to another.
    fn stretches(&self, begin: i64, end: i64) -> Vec<(i64, i64)> {
        let mut all = Vec::new();
        let mut at = begin;
        for hole in self.0.iter().filter(|hole| hole.end > begin && hole.begin < end) {
            if hole.begin >= at {
                all.push((at, hole.begin));
            }
            at = hole.end;
        }
        if at <= end {
            all.push((at, end));
        }
        all
    }
}

/// What is known of some traces.
#[derive(Debug, Default)]
pub(super) struct Whole {
    /// By the UUIDs of the traces.
    traces: Vec<(Option<[u8; 16]>, Holes)>,
    all: Holes,
    /// Streams that begin later than their trace does, and all: CPUs, where each stream tells its own.
    late: usize,
    streams: usize,
    has_cpus: bool,
    /// From when no stream is missing any more that begins late.
    complete: Option<i64>,
    /// The end of the last packet.
    end: Option<i64>,
}

/// What is known of some time of them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Extent {
    /// The longest time without a hole.
    pub(super) longest: Option<(i64, i64)>,
    /// Holes, and how long they are together.
    holes: usize,
    missing: u64,
    /// Where the one hole is the beginning: how many of the streams are missing there.
    late: Option<usize>,
}

impl Whole {
    /// Reads the headers of all packets of some time.
    pub(super) fn of(traces: &[Trace], from: Option<i64>, to: Option<i64>) -> Self {
        let mut whole = Self { has_cpus: true, ..Self::default() };
        let (mut cpus, mut late) = (std::collections::HashSet::new(), std::collections::HashSet::new());
        for (number, trace) in traces.iter().enumerate() {
            let mut holes = Vec::new();
            let streams = trace.streams().iter().filter(|stream| has_events(trace.declarations(), stream));
            let mut begins = Vec::new();
            for (place, stream) in streams.enumerate() {
                let first = trace.packets(stream).next_header().and_then(Result::ok);
                let cpu = first.as_ref().and_then(|first| first.info.cpu_id);
                whole.has_cpus &= cpu.is_some();
                let own = (number, cpu.unwrap_or(place as u64));
                cpus.insert(own);
                if let Some(first) = first {
                    // Where packets before the first one were overwritten or are not of the snapshot.
                    let is_late = trace.declarations().environment(SNAPSHOT).is_some() || first.info.sequence > Some(0);
                    begins.extend(first.begin.map(|begin| (begin, is_late, own)));
                }
                whole.end = whole.end.max(holes_of(trace, stream, (from, to), &mut holes));
            }
            let trace_begin = begins.iter().map(|(begin, ..)| *begin).min();
            for (begin, is_late, own) in begins {
                if is_late && Some(begin) > trace_begin {
                    holes.push(Hole::new(trace_begin, Some(begin)));
                    late.insert(own);
                    whole.complete = whole.complete.max(Some(begin));
                }
            }
            whole.traces.push((trace.declarations().uuid, Holes::new(holes)));
        }
        (whole.late, whole.streams) = (late.len(), cpus.len());
        whole.all = Holes::new(whole.traces.iter().flat_map(|(_, holes)| holes.0.iter().copied()).collect());
        whole
    }

    /// The holes of a trace.
    pub(super) fn of_trace(&self, trace: Option<[u8; 16]>) -> &Holes {
        self.traces.iter().find(|(uuid, _)| *uuid == trace).map_or(&self.all, |(_, holes)| holes)
    }

    /// The holes of any trace: for what happens in several processes.
    pub(super) fn of_all(&self) -> &Holes {
        &self.all
    }

    /// What is known of the time from the first event that is wanted to the last, which is before `to`; `None`: nothing is missing in it.
    pub(super) fn extent(&self, first: i64, to: Option<i64>) -> Option<Extent> {
        let last = self.end.unwrap_or(first).max(first).min(to.map_or(i64::MAX, |to| to.saturating_sub(1)));
        let within: Vec<Hole> = self.all.0.iter().copied().filter(|hole| hole.end > first && hole.begin < last).collect();
        let only = match within[..] {
            [] => return None,
            [only] => Some(only),
            _ => None,
        };
        let missing = within.iter().map(|hole| hole.end.min(last).abs_diff(hole.begin.max(first))).sum();
        let stretches = self.all.stretches(first, last);
        let longest = stretches.into_iter().rev().max_by_key(|(begin, end)| end.abs_diff(*begin));
        let late = only.filter(|only| only.begin <= first && self.complete == Some(only.end)).map(|_| self.late);
        Some(Extent { longest, holes: within.len(), missing, late })
    }

    /// What is known of a time, in words.
    pub(super) fn describe(&self, extent: &Extent, zone: &jiff::tz::TimeZone) -> String {
        let streams = if self.has_cpus { "CPUs" } else { "streams" };
        let plural = if self.streams == 1 { streams.trim_end_matches('s') } else { streams };
        let Some((begin, end)) = extent.longest.map(|(begin, end)| (time::show(begin, zone), time::show(end, zone))) else {
            return "nowhere: events may be missing at any time".to_owned();
        };
        if let Some(late) = extent.late {
            let total = self.streams;
            return format!(
                "on all {streams} from {begin} to {end}; before that, the events of {late} of {total} {plural} are missing"
            );
        }
        let (holes, missing) = (extent.holes, span(extent.missing as f64));
        let times = if holes == 1 { "once".to_owned() } else { format!("{holes} times") };
        format!("the longest stretch is from {begin} to {end}; events may be missing {times}, for {missing} in all")
    }

    pub(super) fn json(&self, extent: Option<&Extent>) -> Json {
        let Some(extent) = extent else { return json!({ "holes": 0 }) };
        json!({ "holes": extent.holes, "missing_ns": extent.missing, "late_streams": extent.late, "streams": self.streams,
                "from_ns": extent.longest.map(|(begin, _)| begin), "to_ns": extent.longest.map(|(_, end)| end) })
    }
}

impl Extent {
    /// Whether what is missing is the beginning of some streams: no count of losses tells it.
    pub(super) fn is_late(&self) -> bool {
        self.late.is_some()
    }
}

/// Whether a stream has more than what the tracer itself adds to a trace.
fn has_events(declared: &Declarations, stream: &Stream) -> bool {
    let own = THREAD_NAME.split_inclusive(':').next().unwrap_or_default();
    let is_own = |class: &EventClass| class.name.starts_with(own);
    let has_others = |class: &StreamClass| class.events().any(|class| !is_own(class)) || class.events().next().is_none();
    declared.stream(stream.class_id()).is_some_and(|class| has_others(class))
}

/// Finds what is missing in a stream behind its beginning. Returns its end.
fn holes_of(trace: &Trace, stream: &Stream, (from, to): (Option<i64>, Option<i64>), holes: &mut Vec<Hole>) -> Option<i64> {
    let mut packets = trace.packets(stream).between(from, to);
    let mut end = None;
    while let Some(header) = packets.next_header() {
        let Ok(header) = header else {
            holes.push(Hole::new(end, None));
            break;
        };
        holes.extend(header.losses.iter().map(|loss| Hole::new(loss.begin, loss.end)));
        if header.is_cut {
            holes.push(Hole::new(header.begin.or(end), None));
        }
        end = end.max(header.end);
    }
    end
}

#[cfg(test)]
mod tests {
    use super::*;

    fn holes(spans: &[(i64, i64)]) -> Holes {
        Holes::new(spans.iter().map(|(begin, end)| Hole::new(Some(*begin), Some(*end))).collect())
    }

    #[test]
    fn holes_are_found_between_events() {
        let holes = holes(&[(40, 60), (10, 20), (15, 30), (80, 80)]);
        assert_eq!(holes.0, [Hole { begin: 10, end: 30 }, Hole { begin: 40, end: 60 }, Hole { begin: 80, end: 81 }]);
        let begin = |from, to| holes.between(from, to).map(|hole| hole.begin);
        // The last event before a hole and the first one behind it stand at its ends.
        assert_eq!([begin(0, 10), begin(0, 11), begin(29, 30), begin(30, 40)], [None, Some(10), Some(10), None]);
        assert_eq!([begin(5, 99), begin(60, 80), begin(80, 90), begin(81, 90)], [Some(10), None, Some(80), None]);
        assert_eq!(holes.stretches(0, 100), [(0, 10), (30, 40), (60, 80), (81, 100)]);
        assert_eq!(holes.stretches(15, 50), [(30, 40)]);
    }

    proptest::proptest! {
        #[test]
        fn holes_are_where_they_were_put(spans in proptest::collection::vec((0..200i64, 1..20i64), 0..12), begin in 0..200i64, length in 1..50i64) {
            let spans: Vec<_> = spans.into_iter().map(|(begin, length)| (begin, begin + length)).collect();
            let all = holes(&spans);
            let is_missing = |at: i64| spans.iter().any(|(begin, end)| (*begin..*end).contains(&at));
            let expected = (begin..begin + length).any(is_missing);
            proptest::prop_assert_eq!(all.between(begin, begin + length).is_some(), expected);
            for (from, to) in all.stretches(0, 250) {
                proptest::prop_assert!((from..to).all(|at| !is_missing(at)));
            }
            let whole: i64 = all.stretches(0, 250).iter().map(|(from, to)| to - from).sum();
            proptest::prop_assert_eq!(whole, (0..250).filter(|at| !is_missing(*at)).count() as i64);
        }
    }
}
