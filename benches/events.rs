//! What an event costs, beside a bare loop and a bare clock read in the same run.
//!
//! `cargo xtask bench [--only GLOB] [--json]`. Medians of repetitions that are interleaved, so that a change of the machine's
//! speed meets all rows alike. Each row first checks that its events arrive. `event/*` includes everything: gate, probe
//! list, probe, context (thread ID), clock, append; the ring is in overwrite mode, so nothing but the writer is measured.
//! `probe/skip` is a probe that makes no event, and with it all that comes before a filter; `filter/reject/*` includes that, the
//! evaluation and the count of the rejection.

use ringtrace::{Context, Glob, Session};
use std::hint::black_box;
use std::sync::Barrier;
use std::time::Instant;

/// One 64-bit number.
#[ringtrace::tracepoint(record)]
fn number(value: u64);

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

const RULES: &str = "*:number; *:mixed; *:skipped; *:rejected if value == 0xffff_ffff_ffff_ffff; \
    *:examined if small < 5 && text == \"seventeen bytes !\" || large / 3 == 0xffff_ffff_ffff_ffff; \
    *:accepted if value < 0xffff_ffff_ffff_ffff; *:sampled 1 in 1_000_000_000_000";

/// Never enabled.
#[ringtrace::tracepoint(record)]
fn idle(value: u64);

const TEXT: &str = "sixteen bytes ok";
const REPETITIONS: usize = 31;

type Work = fn(u64);

/// A row of the table.
struct Row {
    name: &'static str,
    threads: usize,
    /// Operations in one repetition of one thread.
    operations: u64,
    work: Work,
    /// Events that one operation records.
    events: u64,
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

fn rows() -> Vec<Row> {
    let row = |name, threads, operations, work, events| Row { name, threads, operations, work, events, ns: Vec::new() };
    let mut rows = vec![
        row("baseline/loop", 1, 4_000_000, bare_loop as Work, 0),
        row("clock/rdtsc", 1, 400_000, clock, 0),
        row("gate/off", 1, 4_000_000, gate_off, 0),
        row("event/u64", 1, 400_000, event_u64, 1),
        row("event/mix", 1, 400_000, event_mix, 1),
        row("probe/skip", 1, 400_000, probe_skips, 0),
        row("filter/reject/integer", 1, 400_000, filter_rejects, 0),
        row("filter/reject/expression", 1, 400_000, filter_examines, 0),
        row("filter/accept/integer", 1, 400_000, filter_accepts, 1),
        row("limit/reject/one-in", 1, 400_000, limit_rejects, 0),
    ];
    if std::thread::available_parallelism().is_ok_and(|n| n.get() > 1) {
        rows.push(row("clock/rdtsc", 2, 400_000, clock, 0));
        rows.push(row("event/u64", 2, 400_000, event_u64, 1));
        rows.push(row("event/mix", 2, 400_000, event_mix, 1));
    }
    rows
}

impl Row {
    /// CPU nanoseconds for one operation.
    fn measure(&self) -> f64 {
        let barrier = Barrier::new(self.threads);
        let one = || {
            barrier.wait();
            let begin = Instant::now();
            (self.work)(self.operations);
            begin.elapsed().as_nanos() as f64
        };
        let total: f64 = std::thread::scope(|scope| {
            let others: Vec<_> = (1..self.threads).map(|_| scope.spawn(one)).collect();
            one() + others.into_iter().map(|t| t.join().expect("a thread of the benchmark panicked")).sum::<f64>()
        });
        total / (self.operations * self.threads as u64) as f64
    }

    fn per_call(&self) -> f64 {
        if self.name == "gate/off" { 8.0 } else { 1.0 }
    }

    fn median(&self) -> f64 {
        let mut sorted = self.ns.clone();
        sorted.sort_by(f64::total_cmp);
        sorted[sorted.len() / 2] / self.per_call()
    }
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let arguments: Vec<String> = std::env::args().collect();
    let json = arguments.iter().any(|a| a == "--json");
    let only = arguments.iter().position(|a| a == "--only").and_then(|i| arguments.get(i + 1));
    let only = Glob::new(only.map_or("*", String::as_str));

    let directory = tempfile::tempdir()?;
    let session = Session::builder("bench")
        .enable(RULES)
        .overwrite()
        .memory(64 << 20)
        .context(Context::VTID)
        .output(directory.path().join("trace"))
        .start()?;

    let mut rows = rows();
    // The clock is always measured: it is what the others are compared with.
    rows.retain(|r| only.matches(r.name) || r.name == "clock/rdtsc");
    for row in &rows {
        let before = session.statistics();
        row.measure();
        let after = session.statistics();
        let lost = after.lost.total() - after.lost.overwritten - (before.lost.total() - before.lost.overwritten);
        let expected = row.events * row.operations * row.threads as u64;
        let arrived = after.events - before.events;
        // A sampled event is recorded once on each CPU, when it comes there first.
        let first = if row.name == "limit/reject/one-in" { arrived.min(1024) } else { 0 };
        if arrived - first != expected || lost != 0 {
            return Err(format!("{}: {arrived} of {expected} events arrived, {lost} were lost", row.name).into());
        }
    }
    for _ in 0..REPETITIONS {
        for row in &mut rows {
            let ns = row.measure();
            row.ns.push(ns);
        }
    }
    let clock = rows.iter().find(|r| r.name == "clock/rdtsc").map_or(f64::NAN, Row::median);
    if !json {
        println!("{:<25} {:>7} {:>9} {:>9}", "what", "threads", "ns", "x rdtsc");
    }
    for row in rows.iter().filter(|r| only.matches(r.name)) {
        let (ns, ratio) = (row.median(), row.median() / clock);
        if json {
            println!("{}", serde_json::json!({ "name": row.name, "threads": row.threads, "ns": ns, "x_rdtsc": ratio }));
        } else {
            println!("{:<25} {:>7} {ns:>9.3} {ratio:>9.3}", row.name, row.threads);
        }
    }
    Ok(())
}
