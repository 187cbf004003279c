//! The table: one row for each kind of event, all in one run.

use super::{Options, aggregates, appends, arc_swap, show, sites};
use ringtrace::{Clock, Context, Session};
use std::hint::black_box;
use std::sync::Barrier;
use std::sync::atomic::{AtomicPtr, Ordering};
use std::time::Instant;

/// One 64-bit number.
#[ringtrace::tracepoint(record)]
pub(crate) fn number(value: u64);

/// A mix of sizes.
#[ringtrace::tracepoint(record)]
fn mixed(small: u32, large: u64, text: &str);

/// Its probe looks at it and makes no event.
#[ringtrace::tracepoint]
fn skipped(value: u64);

/// As an event of its own would have them.
#[derive(ringtrace::Event)]
struct Value {
    value: u64,
}

#[ringtrace::probe(skipped)]
fn skip(value: u64) -> Option<Value> {
    (value == u64::MAX).then_some(Value { value })
}

/// A filter rejects it: one comparison of an integer.
#[ringtrace::tracepoint(record)]
fn rejected(value: u64);

/// A filter rejects it: the longer way.
#[ringtrace::tracepoint(record)]
fn examined(small: u32, large: u64, text: &str);

/// A filter accepts it.
#[ringtrace::tracepoint(record)]
fn accepted(value: u64);

/// One of so many is recorded.
#[ringtrace::tracepoint(record)]
fn sampled(value: u64);

const FILTERS: &str = "*:skipped; *:rejected if value == 0xffff_ffff_ffff_ffff; \
    *:examined if small < 5 && text == \"seventeen bytes !\" || large / 3 == 0xffff_ffff_ffff_ffff; \
    *:accepted if value < 0xffff_ffff_ffff_ffff; *:sampled 1 in 1_000_000_000_000";

/// Never enabled.
#[ringtrace::tracepoint(record)]
fn idle(value: u64);

macro_rules! numbers {
    ($($(#[$doc:meta])* $tracepoint:ident $work:ident;)*) => {$(
        $(#[$doc])*
        #[ringtrace::tracepoint(record)]
        pub(crate) fn $tracepoint(value: u64);

        #[inline(never)]
        fn $work(n: u64) {
            for i in 0..n {
                $tracepoint(i);
            }
        }
    )*};
}

numbers! {
    /// Recorded without time stamps.
    untimed event_untimed;
    /// Recorded by the ordered clock.
    ordered event_ordered;
    /// Recorded by the operating system's clock.
    by_os event_by_os;
    /// Recorded without context.
    alone event_alone;
    /// Recorded with process ID.
    with_vpid event_with_vpid;
    /// Recorded with the name of the thread.
    with_thread_name event_with_thread_name;
    /// Recorded with the name of the process.
    with_procname event_with_procname;
    /// Recorded by two sessions.
    twice event_twice;
    /// Recorded by four sessions.
    fourfold event_fourfold;
}

/// No payload.
#[ringtrace::tracepoint(record)]
fn empty();

/// 40 bytes.
#[ringtrace::tracepoint(record)]
fn forty(a: u64, b: u64, c: u64, d: u64, e: u64);

/// A number and a text of 35 bytes.
#[ringtrace::tracepoint(record)]
fn long_text(value: u64, text: &str);

/// Counted by a probe that records nothing.
#[ringtrace::tracepoint]
pub(crate) fn acted(value: u64);

#[ringtrace::probe(acted)]
fn act(value: u64) {
    black_box(value);
}

/// Recorded by a closure, through a recorder that it captured.
#[ringtrace::tracepoint]
fn recorded_by_closure(value: u64);

/// Seen by a closure that records nothing.
#[ringtrace::tracepoint]
fn seen_by_closure(value: u64);

const TEXT: &str = "sixteen bytes ok";
const LONG: &str = "thirty-five bytes, none more, ok ok";
const _: () = assert!(TEXT.len() == 16 && LONG.len() == 35);
const REPETITIONS: usize = 31;

type Work = fn(u64);

/// What is measured.
struct Row {
    name: &'static str,
    threads: usize,
    /// Operations in one repetition of one thread.
    operations: u64,
    work: Work,
    /// Events that one operation records, all sessions together.
    events: u64,
    /// What one operation stands for.
    each: f64,
    ns: Vec<f64>,
}

#[inline(never)]
fn bare_loop(n: u64) {
    for i in 0..n {
        black_box(i);
    }
}

#[inline(never)]
fn clock(n: u64) {
    for _ in 0..n {
        #[cfg(target_arch = "x86_64")]
        // SAFETY: x86-64 always has the instruction.
        #[expect(unsafe_code, reason = "the reference of all other rows")]
        black_box(unsafe { core::arch::x86_64::_rdtsc() });
        #[cfg(not(target_arch = "x86_64"))]
        black_box(Instant::now());
    }
}

/// What a gate cannot be less than: eight loads of pointers, tests and branches in a row.
#[inline(never)]
fn load_and_branch(n: u64) {
    static POINTERS: [AtomicPtr<()>; 8] = [const { AtomicPtr::new(std::ptr::null_mut()) }; 8];
    #[cold]
    #[inline(never)]
    fn taken(value: u64) {
        black_box(value);
    }
    let pointers = black_box(&POINTERS);
    for i in 0..n {
        for pointer in pointers {
            if !pointer.load(Ordering::Relaxed).is_null() {
                taken(i);
            }
        }
    }
}

/// Eight in a row: one alone hides behind the loop.
#[inline(never)]
fn gate_off(n: u64) {
    for i in 0..n {
        idle(i);
        idle(i);
        idle(i);
        idle(i);
        idle(i);
        idle(i);
        idle(i);
        idle(i);
    }
}

#[inline(never)]
fn event_u64(n: u64) {
    for i in 0..n {
        number(i);
    }
}

#[inline(never)]
fn event_mix(n: u64) {
    let text = black_box(TEXT);
    for i in 0..n {
        mixed(i as u32, i, text);
    }
}

#[inline(never)]
fn probe_skips(n: u64) {
    for i in 0..n {
        skipped(i);
    }
}

#[inline(never)]
fn filter_rejects(n: u64) {
    for i in 0..n {
        rejected(i);
    }
}

#[inline(never)]
fn filter_examines(n: u64) {
    let text = black_box(TEXT);
    for i in 0..n {
        examined(i as u32 & 1, i, text);
    }
}

#[inline(never)]
fn filter_accepts(n: u64) {
    for i in 0..n {
        accepted(i);
    }
}

#[inline(never)]
fn limit_rejects(n: u64) {
    for i in 0..n {
        sampled(i);
    }
}

#[inline(never)]
fn gate_off_tight(n: u64) {
    for i in 0..n {
        idle(i);
    }
}

#[inline(never)]
fn event_empty(n: u64) {
    for _ in 0..n {
        empty();
    }
}

#[inline(never)]
fn event_forty(n: u64) {
    for i in 0..n {
        forty(i, i, i, i, i);
    }
}

#[inline(never)]
fn event_long_text(n: u64) {
    let text = black_box(LONG);
    for i in 0..n {
        long_text(i, text);
    }
}

#[inline(never)]
fn probe_acts(n: u64) {
    for i in 0..n {
        acted(i);
    }
}

#[inline(never)]
fn event_by_closure(n: u64) {
    for i in 0..n {
        recorded_by_closure(i);
    }
}

#[inline(never)]
fn closure_acts(n: u64) {
    for i in 0..n {
        seen_by_closure(i);
    }
}

/// A function that is not traced.
#[inline(never)]
fn plain(value: u64) -> u64 {
    black_box(value)
}

/// Traced, and never enabled.
#[ringtrace::tracepoint]
#[inline(never)]
fn untraced(value: u64) -> u64 {
    black_box(value)
}

/// Entry with its argument, exit with outcome and duration.
#[ringtrace::tracepoint]
#[inline(never)]
fn traced(value: u64) -> u64 {
    black_box(value)
}

#[inline(never)]
fn function_plain(n: u64) {
    for i in 0..n {
        black_box(plain(i));
    }
}

#[inline(never)]
fn function_off(n: u64) {
    for i in 0..n {
        black_box(untraced(i));
    }
}

#[inline(never)]
fn function_on(n: u64) {
    for i in 0..n {
        black_box(traced(i));
    }
}

#[inline(never)]
fn event_ad_hoc(n: u64) {
    for i in 0..n {
        ringtrace::event!("bench:ad_hoc", value = i);
    }
}

/// Work that waits for itself, and for what was done before: multiplications in a chain, of a nanosecond or two each.
#[inline(always)]
fn chain(mut value: u64, links: u32) -> u64 {
    for _ in 0..links {
        // Nothing that a compiler could do at once for all links.
        value = value.rotate_left(23).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    }
    black_box(value)
}

macro_rules! beside {
    ($($links:literal $bare:ident $event:ident;)*) => {$(
        #[inline(never)]
        fn $bare(n: u64) {
            let mut value = black_box(1);
            for _ in 0..n {
                value = chain(value, $links);
            }
        }

        #[inline(never)]
        fn $event(n: u64) {
            let mut value = black_box(1);
            for i in 0..n {
                value = chain(value, $links);
                number(i);
            }
        }
    )*};
}

beside! {
    7 work_10 event_beside_10;
    35 work_50 event_beside_50;
    140 work_200 event_beside_200;
}

#[inline(never)]
fn sites_warm(n: u64) {
    for i in 0..n {
        sites::all(i);
    }
}

#[inline(never)]
fn functions_warm(n: u64) {
    for i in 0..n {
        sites::bare::all(i);
    }
}

/// Fires the tracepoint of `event/u64` once.
#[inline(always)]
pub(crate) fn fire(value: u64) {
    number(value);
}

/// Fires the tracepoint of `event/mix` `n` times.
pub(crate) fn fire_numbers(n: u64) {
    (0..n).for_each(number);
}

pub(crate) fn fire_mixed(first: u64, n: u64) {
    let text = black_box(TEXT);
    for i in first..first + n {
        mixed(i as u32, i, text);
    }
}

fn rows() -> Vec<Row> {
    let row = |name, threads, operations, work: Work, events| Row {
        name,
        threads,
        operations,
        work,
        events,
        each: 1.0,
        ns: Vec::new(),
    };
    const EVENTS: u64 = 200_000;
    let many = |name, work| Row { each: sites::COUNT as f64, ..row(name, 1, 1_000, work, 0) };
    let mut rows = vec![
        row("baseline/loop", 1, 4_000_000, bare_loop, 0),
        Row { each: 8.0, ..row("baseline/load_and_branch", 1, 2_000_000, load_and_branch, 0) },
        row("clock/rdtsc", 1, EVENTS, clock, 0),
        Row { each: 8.0, ..row("gate/off", 1, 2_000_000, gate_off, 0) },
        row("gate/off/tight", 1, 4_000_000, gate_off_tight, 0),
        many("gate/functions_1000", functions_warm),
        many("gate/off_1000", sites_warm),
        row("event/empty", 1, EVENTS, event_empty, 1),
        row("event/u64", 1, EVENTS, event_u64, 1),
        row("event/mix", 1, EVENTS, event_mix, 1),
        row("event/40_bytes", 1, EVENTS, event_forty, 1),
        row("event/u64_text_35", 1, EVENTS, event_long_text, 1),
        row("event/action", 1, EVENTS, probe_acts, 0),
        row("event/action/arc_swap", 1, EVENTS, arc_swap::action, 0),
        row("event/u64/arc_swap", 1, EVENTS, arc_swap::event, 1),
        row("event/closure", 1, EVENTS, event_by_closure, 1),
        row("event/closure/action", 1, EVENTS, closure_acts, 0),
        row("event/ad_hoc", 1, EVENTS, event_ad_hoc, 1),
        row("function/plain", 1, 4_000_000, function_plain, 0),
        row("function/off", 1, 4_000_000, function_off, 0),
        row("function/on", 1, EVENTS, function_on, 2),
        row("event/u64/nocontext", 1, EVENTS, event_alone, 1),
        row("event/u64/vpid", 1, EVENTS, event_with_vpid, 1),
        row("event/u64/thread_name", 1, EVENTS, event_with_thread_name, 1),
        row("event/u64/procname", 1, EVENTS, event_with_procname, 1),
        row("event/u64/noclock", 1, EVENTS, event_untimed, 1),
        row("event/u64/noclock/arc_swap", 1, EVENTS, arc_swap::untimed_event, 1),
        row("event/u64/ordered", 1, EVENTS, event_ordered, 1),
        row("event/u64/os_clock", 1, EVENTS, event_by_os, 1),
        row("event/u64/2_sessions", 1, EVENTS, event_twice, 2),
        row("event/u64/4_sessions", 1, EVENTS, event_fourfold, 4),
        row("append/u64", 1, EVENTS, appends::raw, 0),
        row("append/u64/ordered", 1, EVENTS, appends::ordered, 0),
        row("append/u64/os_clock", 1, EVENTS, appends::os, 0),
        row("append/u64/noclock", 1, EVENTS, appends::none, 0),
        row("append/u64/by_thread", 1, EVENTS, appends::by_thread, 0),
        row("append/u64/global", 1, EVENTS, appends::global, 0),
        row("work/10", 1, EVENTS, work_10, 0),
        row("work/50", 1, EVENTS, work_50, 0),
        row("work/200", 1, EVENTS / 4, work_200, 0),
        row("event/u64/with_10", 1, EVENTS, event_beside_10, 1),
        row("event/u64/with_50", 1, EVENTS, event_beside_50, 1),
        row("event/u64/with_200", 1, EVENTS / 4, event_beside_200, 1),
        row("probe/skip", 1, EVENTS, probe_skips, 0),
        row("filter/reject/integer", 1, EVENTS, filter_rejects, 0),
        row("filter/reject/expression", 1, EVENTS, filter_examines, 0),
        row("filter/accept/integer", 1, EVENTS, filter_accepts, 1),
        row("limit/reject/one-in", 1, EVENTS, limit_rejects, 0),
        row("aggregate/count", 1, EVENTS, aggregates::count, 0),
        row("aggregate/count/by_u32", 1, EVENTS, aggregates::count_by, 0),
        row("aggregate/count/by_text_16", 1, EVENTS, aggregates::count_by_text, 0),
        row("aggregate/count/by_both", 1, EVENTS, aggregates::count_by_both, 0),
        row("aggregate/count/by_2_u32", 1, EVENTS, aggregates::count_by_two, 0),
        row("aggregate/values", 1, EVENTS, aggregates::values, 0),
        row("aggregate/values/by_u32", 1, EVENTS, aggregates::values_by, 0),
        row("aggregate/values/by_text_16", 1, EVENTS, aggregates::values_by_text, 0),
        row("aggregate/count/by_2_texts_16", 1, EVENTS, aggregates::count_by_texts, 0),
        row("aggregate/count/by_text_35", 1, EVENTS, aggregates::count_by_long, 0),
        row("aggregate/count/by_vtid", 1, EVENTS, aggregates::count_by_context, 0),
        row("aggregate/count/by_option", 1, EVENTS, aggregates::count_by_option, 0),
        row("aggregate/values/40_bytes", 1, EVENTS, aggregates::values_wide, 0),
        row("aggregate/values/behind_text", 1, EVENTS, aggregates::values_behind, 0),
        row("aggregate/values/behind_option", 1, EVENTS, aggregates::values_asked, 0),
        row("aggregate/count/by_text_behind_option", 1, EVENTS, aggregates::count_by_text_asked, 0),
        row("aggregate/values/by_2_texts_16", 1, EVENTS, aggregates::values_by_texts, 0),
        row("aggregate/count/by_texts_16_35", 1, EVENTS, aggregates::count_by_two_long, 0),
        row("aggregate/count/by_u32_text_35", 1, EVENTS, aggregates::count_by_key_and_long, 0),
        row("aggregate/count/by_3_texts_16", 1, EVENTS, aggregates::count_by_three_texts, 0),
        row("aggregate/quantize/by_u32", 1, EVENTS, aggregates::quantize_by, 0),
    ];
    let cpus = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
    for threads in [2, 4 * cpus].into_iter().filter(|_| cpus > 1) {
        rows.push(row("clock/rdtsc", threads, EVENTS, clock, 0));
        rows.push(row("event/u64", threads, EVENTS, event_u64, 1));
        rows.push(row("event/mix", threads, EVENTS, event_mix, 1));
        rows.push(row("aggregate/values/by_u32", threads, EVENTS, aggregates::values_by, 0));
    }
    if !appends::has_counter() {
        rows.retain(|r| !matches!(r.name, "append/u64" | "append/u64/ordered" | "append/u64/by_thread" | "append/u64/global"));
    }
    rows
}

/// Rows that are the difference of two others: what the first adds to the second.
const DIFFERENCES: [(&str, &str, &str); 6] = [
    ("event/u64/second_session", "event/u64/2_sessions", "event/u64"),
    ("event/u64/beside_10", "event/u64/with_10", "work/10"),
    ("event/u64/beside_50", "event/u64/with_50", "work/50"),
    ("event/u64/beside_200", "event/u64/with_200", "work/200"),
    ("function/off/added", "function/off", "function/plain"),
    ("gate/off_1000/each", "gate/off_1000", "gate/functions_1000"),
];

impl Row {
    /// CPU nanoseconds for one operation. All is done twice, and measured the second time: before, other rows had the caches.
    fn measure(&self) -> f64 {
        let barrier = Barrier::new(self.threads);
        let one = || {
            (self.work)(self.operations);
            barrier.wait();
            let begin = thread_cpu_ns();
            (self.work)(self.operations);
            thread_cpu_ns() - begin
        };
        let total: f64 = std::thread::scope(|scope| {
            let others: Vec<_> = (1..self.threads).map(|_| scope.spawn(one)).collect();
            one() + others.into_iter().map(|t| t.join().expect("a thread of the benchmark panicked")).sum::<f64>()
        });
        total / (self.operations * self.threads as u64) as f64
    }

    fn median(&self) -> f64 {
        let mut sorted = self.ns.clone();
        sorted.sort_by(f64::total_cmp);
        sorted[sorted.len() / 2] / self.each
    }
}

/// CPU time of the calling thread.
pub(crate) fn thread_cpu_ns() -> f64 {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: writes the structure.
    #[expect(unsafe_code, reason = "clock_gettime")]
    unsafe {
        libc::clock_gettime(libc::CLOCK_THREAD_CPUTIME_ID, &raw mut time)
    };
    time.tv_sec as f64 * 1e9 + time.tv_nsec as f64
}

/// The sessions, and the rules of each. Their rings are larger than the caches near the CPU, as in life.
fn sessions(directory: &std::path::Path) -> ringtrace::Result<Vec<Session>> {
    let start = |name: &str, rules: &str, clock, context| {
        Session::builder(name)
            .enable(rules)
            .overwrite()
            .memory(16 << 20)
            .clock(clock)
            .context(context)
            .output(directory.join(name))
            .start()
    };
    const MAIN: &str =
        "*:number; *:mixed; *:empty; *:forty; *:long_text; *:acted; *:twice; *:fourfold; bench:ad_hoc; *:traced::*";
    Ok(vec![
        start("main", MAIN, Clock::Fast, Context::VTID)?,
        start("filters", FILTERS, Clock::Fast, Context::VTID)?,
        start("alone", "*:alone", Clock::Fast, Context::NONE)?,
        start("vpid", "*:with_vpid", Clock::Fast, Context::VPID)?,
        start("thread_name", "*:with_thread_name", Clock::Fast, Context::THREAD_NAME)?,
        start("procname", "*:with_procname", Clock::Fast, Context::PROCNAME)?,
        start("untimed", "*:untimed", Clock::None, Context::NONE)?,
        start("ordered", "*:ordered", Clock::Ordered, Context::VTID)?,
        start("os", "*:by_os", Clock::Os, Context::VTID)?,
        start("second", "*:twice; *:fourfold", Clock::Fast, Context::VTID)?,
        start("third", "*:fourfold", Clock::Fast, Context::VTID)?,
        start("fourth", "*:fourfold", Clock::Fast, Context::VTID)?,
    ])
}

/// Events recorded by all, and events lost but for those that were overwritten.
fn recorded(sessions: &[Session]) -> (u64, u64) {
    let all = sessions.iter().map(Session::statistics);
    all.fold((0, 0), |(events, lost), s| (events + s.events, lost + s.lost.total() - s.lost.overwritten))
}

pub(crate) fn run(options: &Options) -> Result<(), Box<dyn std::error::Error>> {
    let mut rows = rows();
    let needed = |r: &Row| {
        options.takes(r.name)
            || DIFFERENCES.iter().any(|(name, first, second)| options.takes(name) && (r.name == *first || r.name == *second))
    };
    if !rows.iter().any(needed) {
        return Ok(());
    }
    // Clock and loop are always measured: they are what the others are compared with.
    rows.retain(|r| needed(r) || r.name == "clock/rdtsc" || r.name == "baseline/loop");
    rows.iter_mut().for_each(|row| row.operations = options.amount(row.operations));
    let directory = tempfile::tempdir()?;
    let sessions = sessions(directory.path())?;
    let recorder = sessions[0].recorder::<Value>()?;
    let _recording = recorded_by_closure::attach(move |value| recorder.record(Value { value }));
    let _looking = seen_by_closure::attach(|value| _ = black_box(value));
    let aggregations = aggregates::start()?;
    for row in &rows {
        let (before, counted) = (recorded(&sessions), aggregates::counted_in(&aggregations));
        row.measure();
        let (after, counted) = (recorded(&sessions), aggregates::counted_in(&aggregations) - counted);
        // See `measure`.
        let operations = 2 * row.operations * row.threads as u64;
        if row.name.starts_with("aggregate/") && counted != operations {
            return Err(format!("{}: {counted} events are in the figures", row.name).into());
        }
        let expected = row.events * operations;
        let (arrived, lost) = (after.0 - before.0, after.1 - before.1);
        // A sampled event is recorded once on each CPU, when it comes there first.
        let first = if row.name == "limit/reject/one-in" { arrived.min(1024) } else { 0 };
        if arrived - first != expected || lost != 0 {
            return Err(format!("{}: {arrived} of {expected} events arrived, {lost} were lost", row.name).into());
        }
    }
    for _ in 0..options.rounds(REPETITIONS) {
        for row in &mut rows {
            let ns = row.measure();
            row.ns.push(ns);
        }
    }
    let median = |name: &str| rows.iter().find(|r| r.name == name && r.threads == 1).map_or(f64::NAN, Row::median);
    let (clock, alone) = (median("clock/rdtsc"), median("baseline/loop"));
    let shown = rows.iter().map(|r| (r.name, r.threads, r.median()));
    let differences = DIFFERENCES.iter().map(|(name, first, second)| (*name, 1, median(first) - median(second)));
    for (name, threads, ns) in shown.chain(differences).filter(|(name, _, ns)| options.takes(name) && !ns.is_nan()) {
        // A ratio to a loop that takes a fifth of a nanosecond tells people nothing.
        let ratios = [("ns", ns), ("x_rdtsc", ns / clock), ("x_loop", ns / alone)];
        show(options, name, threads, &ratios[..if options.json { 3 } else { 2 }]);
    }
    if options.takes("gate/off_1000/cold") || options.takes("gate/off_999/one_on") {
        thousand(options, &sessions[0], clock)?;
    }
    Ok(())
}

/// The thousand sites with cold caches, and with one of them on.
fn thousand(options: &Options, session: &Session, clock: f64) -> Result<(), Box<dyn std::error::Error>> {
    let median = |mut ns: Vec<f64>| {
        ns.sort_by(f64::total_cmp);
        ns[ns.len() / 2]
    };
    let mut other = vec![1_u8; 64 << 20];
    let mut cold = |work: fn(u64)| {
        let mut passes = Vec::new();
        for round in 0..options.rounds(REPETITIONS) as u64 {
            other.iter_mut().step_by(64).for_each(|byte| *byte = byte.wrapping_add(1));
            let begin = Instant::now();
            work(black_box(round));
            passes.push(begin.elapsed().as_nanos() as f64);
        }
        median(passes)
    };
    let each = (cold(sites::all) - cold(sites::bare::all)) / sites::COUNT as f64;
    show(options, "gate/off_1000/cold", 1, &[("ns", each), ("x_rdtsc", each / clock)]);
    let (mut off, mut on) = (Vec::new(), Vec::new());
    let pass = || {
        let begin = Instant::now();
        (0..1000).for_each(sites::all_but_one);
        begin.elapsed().as_nanos() as f64 / 1000.0 / (sites::COUNT - 1) as f64
    };
    for _ in 0..options.rounds(REPETITIONS) {
        off.push(pass());
        session.enable("*:sites::a::a::a::site")?;
        on.push(pass());
        session.disable("*:sites::a::a::a::site")?;
    }
    let (off, on) = (median(off), median(on));
    show(options, "gate/off_999/none_on", 1, &[("ns", off), ("x_rdtsc", off / clock)]);
    show(options, "gate/off_999/one_on", 1, &[("ns", on), ("x_rdtsc", on / clock)]);
    Ok(())
}
