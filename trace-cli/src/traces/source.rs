//! Which events a verb reads: of what traces, and which of them.

use std::collections::{HashMap, HashSet};
use std::io::IsTerminal as _;
use std::num::NonZero;
use std::ops::ControlFlow;
use std::sync::{Arc, Mutex, OnceLock};
use std::thread;

use indicatif::{ProgressBar, ProgressStyle};
use jiff::tz::TimeZone;
use trace_ctf::declared::{EventClass, StreamClass};
use trace_ctf::reader::parallel::{self, Part, Step};
use trace_ctf::reader::{Entry, Event, Loss, Merge, Packet, Packets, Stream, Trace};
use trace_filter::{Expression, Survey};
use trace_registry::registry::{self, Match};
use trace_registry::{Glob, functions_of};

use super::filter::Filter;
use super::names::THREAD_NAME;
use super::open::Place;
use super::summary::Summary;
use super::whole::{Extent, Whole};
use super::{open, time};
use crate::Outcome;
use crate::failure::{self, Failure};

/// Events between two looks at the clock of the progress bar.
const STEP: u64 = 1 << 16;

/// Which events.
#[derive(Clone, Debug, Default, clap::Args)]
#[command(next_help_heading = "Which events")]
pub(crate) struct Wanted {
    /// Only events whose name matches: * stands for any text, ? for any character; the name of a function stands for its entry
    /// and exit, `!` in front leaves out. May be given several times: the last one that matches an event decides.
    #[arg(long, value_name = "GLOB")]
    event: Vec<String>,

    /// Only events for which an expression over their fields and context holds, such as 'bytes > 4K && $ctx.vtid == 12'.
    #[arg(long = "if", value_name = "EXPRESSION")]
    condition: Option<String>,

    /// Only events from a time on: 14:05:09.25, '2026-01-31 14:05:09', +1.5s after the first event, or Unix seconds.
    #[arg(long, value_name = "TIME")]
    from: Option<String>,

    /// Only events before a time.
    #[arg(long, value_name = "TIME")]
    until: Option<String>,

    /// Only the longest time in which nothing is missing: of a snapshot, from when it has the events of all CPUs.
    #[arg(long)]
    whole: bool,

    /// Times in UTC instead of local time.
    #[arg(long)]
    pub(super) utc: bool,
}

impl Wanted {
    /// The classes that `--event` names: the last pattern that matches one decides.
    fn named<'t>(&self, traces: &'t [Trace]) -> Result<Classes<'t>, Failure> {
        let is_excluded = |pattern: &&String| pattern.starts_with('!');
        // Patterns that only leave out leave out of all.
        let mut named = if self.event.first().is_none_or(|first| is_excluded(&first)) { all_classes(traces) } else { Vec::new() };
        for pattern in &self.event {
            let found = find_classes(traces, pattern.trim_start_matches('!'))?;
            let known: HashSet<Class> = found.iter().map(|(_, class)| Class::of(class)).collect();
            named.retain(|(_, class)| !known.contains(&Class::of(class)));
            if !is_excluded(&pattern) {
                named.extend(found);
            }
        }
        Ok(named)
    }
}

/// Which traces, and which events of them.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct Source {
    #[command(flatten)]
    pub(super) place: Place,

    #[command(flatten)]
    pub(super) wanted: Wanted,
}

impl Source {
    pub(super) fn open(&self, summary: &mut Summary) -> Result<Opened, Failure> {
        Opened::new(self.place.open()?, &self.wanted, summary)
    }

    /// The same for verbs that take names of events: their words are names, but for those that are directories of traces.
    pub(super) fn open_by_name(&self, summary: &mut Summary) -> Result<(Vec<String>, Opened), Failure> {
        let (names, place) = self.place.sort();
        let opened = match place.open() {
            // Whoever names a place that is wrong does not mean what is here.
            Err(failure @ Failure::NothingHere { .. }) => {
                return Err(names.iter().find_map(|name| open::why_no_trace(name)).unwrap_or(failure));
            }
            other => Opened::new(other?, &self.wanted, summary)?,
        };
        Ok((names, opened))
    }
}

/// Event classes, with those of their streams.
pub(super) type Classes<'t> = Vec<(&'t StreamClass, &'t EventClass)>;

/// Open traces, and which of their events are wanted.
#[derive(Debug)]
pub(super) struct Opened {
    pub(super) traces: Vec<Trace>,
    /// Time of the first event, wanted or not.
    pub(super) first: Option<i64>,
    pub(super) zone: TimeZone,
    from: Option<i64>,
    to: Option<i64>,
    /// Where nothing is missing, once somebody has asked.
    whole: OnceLock<Arc<Whole>>,
    /// What is to be done with events, by class; empty where all are wanted.
    plans: HashMap<Class, Plan>,
}

/// Says of events whether they are wanted.
pub(super) struct Chooser<'o> {
    opened: &'o Opened,
    /// Most events are of the class of the one before.
    last: Option<(Class, &'o Plan)>,
}

/// An event class of an open trace, by its place in memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(super) struct Class(usize);

impl Class {
    pub(super) fn of(class: &EventClass) -> Self {
        Self(std::ptr::from_ref(class).addr())
    }
}

#[derive(Debug)]
enum Plan {
    Ignored,
    All,
    Some(Box<Filter>),
}

/// What a reading comes across.
pub(super) enum Item<'i, T = ()> {
    /// An event, what was made of it, and the text that belongs to it.
    Event(&'i Event<'i>, T, &'i [u8]),
    /// A thread's name, which was not asked for.
    Name(&'i Event<'i>),
    Loss(&'i Loss),
}

/// Makes nothing of an event.
pub(super) fn plain(_event: &Event<'_>, _text: &mut Vec<u8>) {}

/// Gathers what is known of events; a verb has one for each thread that reads.
pub(super) trait Gather: Send {
    fn event(&mut self, event: &Event<'_>);

    /// The size of the event that was given last, in bytes.
    fn size(&mut self, _bytes: u64) {}

    /// A thread's name, whether it was asked for or not.
    fn name(&mut self, _event: &Event<'_>) {}
}

impl Opened {
    pub(super) fn new(mut traces: Vec<Trace>, wanted: &Wanted, summary: &mut Summary) -> Result<Self, Failure> {
        for error in traces.iter_mut().flat_map(Trace::take_damage) {
            summary.damage(&error);
        }
        let foreign = |trace: &Trace| trace.streams().iter().filter(|stream| stream.is_of_another_trace()).count();
        match traces.iter().map(foreign).sum() {
            0 => {}
            _ if summary.is_quiet => {}
            1 => failure::note(format_args!("a stream has another UUID than the metadata, and is read as that describes it")),
            count => failure::note(format_args!(
                "{count} streams have another UUID than the metadata, and are read as that describes them"
            )),
        }
        let first = first(&traces);
        let zone = time::zone(wanted.utc);
        let parse = |text: Option<&str>| text.map(|text| time::parse(text, first.unwrap_or_default(), &zone)).transpose();
        let (from, to) = (parse(wanted.from.as_deref())?, parse(wanted.until.as_deref())?);
        if let (Some(begin), Some(end)) = (from, to)
            && begin >= end
        {
            let (begin, end) = (time::show(begin, &zone), time::show(end, &zone));
            return Err(Failure::Wrong(format!("--from {begin} is not before {end}: nothing lies between them")));
        }
        let has_times = traces.iter().any(|trace| trace.declarations().streams().any(|stream| stream.clock().is_some()));
        if (from.is_some() || to.is_some()) && !has_times {
            return Err(Failure::Wrong("this trace has no clock, and its events have no times to choose them by".to_owned()));
        }
        let plans = plans(&traces, wanted)?;
        let mut opened = Self { traces, first, zone, from, to, whole: OnceLock::new(), plans };
        if wanted.whole {
            opened.narrow()?;
        }
        Ok(opened)
    }

    /// Leaves out all but the longest time in which nothing is missing.
    fn narrow(&mut self) -> Result<(), Failure> {
        let Some(extent) = self.extent() else { return Ok(()) };
        let Some((begin, end)) = extent.longest else {
            let message = "--whole: there is no time in which nothing is missing\n  `ringtrace stats` shows what was lost";
            return Err(Failure::Wrong(message.to_owned()));
        };
        (self.from, self.to) = (Some(begin), Some(end.saturating_add(1).min(self.to.unwrap_or(i64::MAX))));
        Ok(())
    }

    /// From when events are wanted.
    pub(super) fn from(&self) -> Option<i64> {
        self.from
    }

    /// Where nothing is missing.
    pub(super) fn whole(&self) -> Arc<Whole> {
        self.whole.get_or_init(|| Arc::new(Whole::of(&self.traces, self.from, self.to))).clone()
    }

    /// What is missing in the time that is wanted; `None`: nothing.
    pub(super) fn extent(&self) -> Option<Extent> {
        let first = self.first?;
        self.whole().extent(self.from.map_or(first, |from| from.max(first)), self.to)
    }

    /// What is missing in the time that is wanted, in words.
    pub(super) fn missing(&self) -> Option<String> {
        self.extent().map(|extent| self.whole().describe(&extent, &self.zone))
    }

    /// The classes of the wanted events.
    pub(super) fn classes(&self) -> Classes<'_> {
        let all = all_classes(&self.traces);
        all.into_iter().filter(|(_, class)| self.wants(class)).collect()
    }

    fn wants(&self, class: &EventClass) -> bool {
        self.plans.is_empty() || !matches!(self.plans.get(&Class::of(class)), None | Some(Plan::Ignored))
    }

    /// The classes that a name stands for: a glob, a whole name, or the end of one.
    pub(super) fn named(&self, pattern: &str) -> Result<Classes<'_>, Failure> {
        find_classes(&self.traces, pattern)
    }

    /// Tells how much was read, and what to do where nothing of it was wanted.
    pub(super) fn close(&self, summary: &Summary) -> Outcome {
        let first = self.first.filter(|_| summary.shown == 0 && !summary.stopped);
        match first {
            Some(first) if summary.events == 0 => {
                let end = self.traces.iter().filter_map(Trace::end).max().unwrap_or(first);
                let (first, end) = (time::show(first, &self.zone), time::show(end, &self.zone));
                failure::note(format_args!(
                    "no event lies between these times: they go from {first} to {end}; +1s means a second after the first one"
                ));
            }
            Some(_) if self.plans.values().any(|plan| matches!(plan, Plan::Some(_))) => {
                failure::note(format_args!(
                    "--if holds for no event: without it, `ringtrace hist EVENT.FIELD` shows which values there are"
                ));
            }
            Some(_) => failure::note(format_args!("no such event was recorded: `ringtrace stats` shows which were")),
            None => {}
        }
        // No count of losses tells it.
        if let Some(extent) = self.extent().filter(|extent| !summary.stopped && summary.shown > 0 && extent.is_late()) {
            failure::note(format_args!("whole {}", self.whole().describe(&extent, &self.zone)));
        }
        failure::note(format_args!("{summary}"));
        summary.outcome()
    }

    /// Decides event by event.
    pub(super) fn chooser(&self) -> Chooser<'_> {
        Chooser { opened: self, last: None }
    }

    /// The packets of a stream in which there may be wanted events.
    pub(super) fn packets(&self, trace: &Trace, stream: &Stream) -> Packets {
        trace.packets(stream).between(self.from, self.to)
    }

    /// Reads the wanted events in the order of time, with what is missing between them.
    ///
    /// `mapper` makes a function for each of all cores, which is asked for what `visit` gets of each wanted event, in any order.
    pub(super) fn each<T: Send, M: FnMut(&Event<'_>, &mut Vec<u8>) -> T>(
        &self,
        summary: &mut Summary,
        mapper: impl Fn() -> M + Sync,
        mut visit: impl FnMut(Item<'_, T>) -> Result<ControlFlow<()>, Failure>,
    ) -> Result<(), Failure> {
        let mut traces: Vec<_> = self.traces.iter().collect();
        traces.sort_by_key(|trace| trace.declarations().uuid);
        let streams = traces.iter().flat_map(|trace| trace.streams().iter().map(|stream| self.packets(trace, stream)));
        let mapper = || {
            let (mut map, mut chooser) = (mapper(), self.chooser());
            move |event: &Event<'_>, text: &mut Vec<u8>| {
                if chooser.accepts(event) {
                    Some(Some(map(event, text)))
                } else {
                    (event.name() == THREAD_NAME && chooser.is_in_time(event)).then_some(None)
                }
            }
        };
        let mut progress = Progress::new();
        let done = parallel::merge(streams, cores(), mapper, |step| {
            if let Step::Event(..) = step {
                summary.events += 1;
                progress.step(summary.events);
            }
            let visited = match step {
                Step::Event(event, Some(value), text) => {
                    summary.shown += 1;
                    visit(Item::Event(&event, value, text))
                }
                Step::Event(event, None, _) => visit(Item::Name(&event)),
                Step::Loss(loss) => {
                    summary.loss(&loss);
                    visit(Item::Loss(&loss))
                }
                Step::Passed(count) => {
                    summary.events += count;
                    return ControlFlow::Continue(());
                }
                Step::Error(error) => {
                    summary.damage(&error);
                    return ControlFlow::Continue(());
                }
            };
            match visited {
                Ok(ControlFlow::Continue(())) => ControlFlow::Continue(()),
                other => ControlFlow::Break(other),
            }
        });
        if let ControlFlow::Break(result) = done {
            summary.stopped = result?.is_break();
        }
        Ok(())
    }

    /// Reads the wanted events in any order, on all cores: each gatherer gets some of the packets.
    pub(super) fn gather<G: Gather>(&self, summary: &mut Summary, make: impl Fn() -> G + Sync) -> Vec<G> {
        let mut parts = self.packetwise(cores(), &make);
        // A stream ends where it is damaged, and what other threads have read behind that does not count: once more, in order.
        if parts.iter().any(|part| part.is_broken) {
            parts = self.packetwise(NonZero::<usize>::MIN, &make);
        }
        let gathered = parts.into_iter().map(|part| {
            part.errors.iter().for_each(|error| summary.damage(error));
            summary.add(&part.counts);
            part.gatherer
        });
        gathered.collect()
    }

    fn packetwise<G: Gather>(&self, threads: NonZero<usize>, make: &(impl Fn() -> G + Sync)) -> Vec<Gathered<'_, G>> {
        let streams = self.traces.iter().flat_map(|trace| trace.streams().iter().map(|stream| self.packets(trace, stream)));
        let progress = Mutex::new((Progress::new(), 0));
        let start = || Gathered {
            gatherer: make(),
            chooser: self.chooser(),
            counts: Summary::default(),
            errors: Vec::new(),
            is_broken: false,
        };
        parallel::fold(streams, threads, start, |gathered, part| {
            let flow = match part {
                Part::Packet(packet, losses) => {
                    losses.iter().for_each(|loss| gathered.counts.loss(loss));
                    gathered.packet(packet)
                }
                Part::Error(error) => {
                    gathered.errors.push(error);
                    ControlFlow::Continue(0)
                }
            };
            if let (ControlFlow::Continue(count) | ControlFlow::Break(count), Ok(mut progress)) = (flow, progress.lock()) {
                progress.1 += count;
                let events = progress.1;
                progress.0.show(events);
            }
            flow.map_break(drop).map_continue(drop)
        })
    }
}

/// What one thread has gathered.
struct Gathered<'o, G> {
    gatherer: G,
    chooser: Chooser<'o>,
    counts: Summary,
    errors: Vec<trace_ctf::Error>,
    /// A packet is damaged, and others may follow it.
    is_broken: bool,
}

impl<G: Gather> Gathered<'_, G> {
    /// Reads a packet; breaks where it is damaged. Gives the number of its events.
    fn packet(&mut self, packet: &Packet) -> ControlFlow<u64, u64> {
        let (mut start, mut is_given, mut count) = (0, false, 0);
        let mut events = packet.events();
        let mut flow = ControlFlow::Continue(());
        while let Some(event) = events.next_event() {
            let event = match event {
                Ok(event) => event,
                Err(error) => {
                    self.is_broken |= !error.is_truncated();
                    self.errors.push(error);
                    (is_given, flow) = (false, ControlFlow::Break(()));
                    break;
                }
            };
            count += 1;
            let at = event.byte_offset();
            if core::mem::take(&mut is_given) {
                self.gatherer.size(at - start);
            }
            if event.name() == THREAD_NAME {
                self.gatherer.name(&event);
            }
            self.counts.learn(&event);
            if self.chooser.accepts(&event) {
                self.counts.shown += 1;
                self.gatherer.event(&event);
                (start, is_given) = (at, true);
            }
        }
        if is_given {
            self.gatherer.size(packet.end_offset().saturating_sub(start));
        }
        self.counts.events += count;
        flow.map_break(|()| count).map_continue(|()| count)
    }
}

impl Chooser<'_> {
    #[inline]
    pub(super) fn is_in_time(&self, event: &Event<'_>) -> bool {
        let Opened { from, to, .. } = *self.opened;
        (from.is_none() && to.is_none())
            || event
                .timestamp()
                .is_none_or(|timestamp| from.is_none_or(|from| timestamp >= from) && to.is_none_or(|to| timestamp < to))
    }

    #[inline]
    pub(super) fn accepts(&mut self, event: &Event<'_>) -> bool {
        if !self.is_in_time(event) {
            return false;
        }
        if self.opened.plans.is_empty() {
            return true;
        }
        let class = Class::of(event.class());
        let plan = match self.last {
            Some((known, plan)) if known == class => plan,
            _ => {
                let plan = self.opened.plans.get(&class).unwrap_or(&Plan::Ignored);
                self.last = Some((class, plan));
                plan
            }
        };
        match plan {
            Plan::Ignored => false,
            Plan::All => true,
            Plan::Some(filter) => filter.accepts(event),
        }
    }
}

/// How many threads there is work for.
fn cores() -> NonZero<usize> {
    thread::available_parallelism().unwrap_or(NonZero::<usize>::MIN)
}

fn all_classes(traces: &[Trace]) -> Classes<'_> {
    let streams = traces.iter().flat_map(|trace| trace.declarations().streams());
    streams.flat_map(|stream| stream.events().map(move |class| (stream, class))).collect()
}

fn find_classes<'t>(traces: &'t [Trace], pattern: &str) -> Result<Classes<'t>, Failure> {
    let all = all_classes(traces);
    let glob = Glob::new(pattern);
    let found = match registry::find(&glob, all.iter().copied(), |(_, class)| class.name.clone()) {
        // A function, by the events that tell of it.
        Match::NoneByName { near } => {
            let told = all.iter().flat_map(|of| functions_of(&of.1.name).map(move |function| (function, *of)));
            let told: Vec<_> = told.collect();
            match registry::find(&glob, told.into_iter(), |(function, _)| (*function).to_owned()) {
                Match::Some(told) => Match::Some(told.into_iter().map(|(_, of)| of).collect()),
                Match::Ambiguous { candidates } => Match::Ambiguous { candidates },
                _ => Match::NoneByName { near },
            }
        }
        found => found,
    };
    one_of(pattern, found, "event", all.iter().map(|(_, class)| &*class.name))
}

/// What a pattern stands for; it is an error that says what there is, where that is nothing.
pub(super) fn one_of<'n, T>(
    pattern: &str,
    found: Match<T>,
    what: &str,
    names: impl Iterator<Item = &'n str>,
) -> Result<Vec<T>, Failure> {
    match found {
        Match::Some(found) => Ok(found),
        // The streams of one trace may each have a class of the name.
        Match::Ambiguous { candidates } if candidates.len() > 1 => Err(Failure::Wrong(format!(
            "{pattern}: this is the end of several names\n  one of them is meant: {}",
            registry::some_of(&candidates)
        ))),
        Match::NoneByName { near } if !near.is_empty() => {
            Err(Failure::Wrong(format!("{pattern}: no {what} has this name\n  did you mean {}?", near.join(" or "))))
        }
        _ => {
            let mut names: Vec<&str> = names.collect();
            names.sort_unstable();
            names.dedup();
            Err(Failure::Wrong(format!("{pattern}: no {what} has this name\n  {}", there_are(&format!("{what}s"), &names))))
        }
    }
}

/// A hint with the names that there are.
pub(super) fn there_are(what: &str, names: &[&str]) -> String {
    const SHOWN: usize = 12;
    match names.len() {
        0 => format!("there are no {what}"),
        count @ 0..=SHOWN => format!("the {what} are: {}", names[..count].join(", ")),
        count => {
            let rest = count - SHOWN;
            format!("the {what} are: {} and {rest} more; `ringtrace formats` shows all", names[..SHOWN].join(", "))
        }
    }
}

fn plans(traces: &[Trace], wanted: &Wanted) -> Result<HashMap<Class, Plan>, Failure> {
    let mut plans = HashMap::new();
    if wanted.event.is_empty() && wanted.condition.is_none() {
        return Ok(plans);
    }
    let named = wanted.named(traces)?;
    plans.extend(all_classes(traces).into_iter().map(|(_, class)| (Class::of(class), Plan::Ignored)));
    let Some(condition) = &wanted.condition else {
        plans.extend(named.into_iter().map(|(_, class)| (Class::of(class), Plan::All)));
        return Ok(plans);
    };
    let expression = Expression::parse(condition).map_err(|error| Failure::Wrong(format!("--if: {error}")))?;
    let mut survey = Survey::new(&expression);
    for (stream, class) in named {
        if let Some(filter) = Filter::new(&expression, stream, class, &mut survey) {
            plans.insert(Class::of(class), Plan::Some(Box::new(filter)));
        }
    }
    survey.finish().map_err(|error| Failure::Wrong(format!("--if: {error}")))?;
    Ok(plans)
}

/// The time of the first event.
pub(super) fn first(traces: &[Trace]) -> Option<i64> {
    let mut merge = Merge::new(traces);
    loop {
        if let Ok(Entry::Event(event)) = merge.next_entry()? {
            return event.timestamp();
        }
    }
}

/// How far a long reading came, on a terminal.
struct Progress(Option<ProgressBar>);

impl Progress {
    fn new() -> Self {
        // Not between lines that are shown at the same place.
        if !std::io::stderr().is_terminal() || std::io::stdout().is_terminal() {
            return Self(None);
        }
        let style = ProgressStyle::with_template("{spinner} {human_pos} events, {per_sec}").ok();
        let bar = ProgressBar::new_spinner();
        Self(style.map(|style| bar.with_style(style)))
    }

    fn step(&mut self, events: u64) {
        if events.is_multiple_of(STEP) {
            self.show(events);
        }
    }

    fn show(&mut self, events: u64) {
        if let Self(Some(bar)) = self {
            bar.set_position(events);
        }
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        if let Self(Some(bar)) = self {
            bar.finish_and_clear();
        }
    }
}
