//! What `cargo xtask instructions` counts: one kind of event, so many times, in a function whose name callgrind knows.
//!
//! `instructions ROW OPERATIONS`. Valgrind has no rseq(2), and runs one thread at a time without ever interrupting a sequence. So
//! the thread says of itself, in its rseq area, that it runs on some CPU: what is counted then is the path that a thread has in life.
//! With rows whose name ends in `/fallback` it does not, and takes the path of threads without rseq.

use ringtrace::ring_buffer::{Channel, ClockKind, Config, Geometry, HeaderKind, Mode, Placement};
use ringtrace::{Clock, Context, Session};
use std::hint::black_box;
use std::sync::OnceLock;

/// Never enabled.
#[ringtrace::tracepoint(record)]
fn idle(value: u64);

/// No payload.
#[ringtrace::tracepoint(record)]
fn empty();

/// One 64-bit number.
#[ringtrace::tracepoint(record)]
fn number(value: u64);

/// A mix of sizes.
#[ringtrace::tracepoint(record)]
fn mixed(small: u32, large: u64, text: &str);

/// A filter rejects it.
#[ringtrace::tracepoint(record)]
fn rejected(value: u64);

struct Flight;

impl Config for Flight {
    const MODE: Mode = Mode::Overwrite;
    const CLOCK: ClockKind = ClockKind::None;
    const HEADER: HeaderKind = HeaderKind::Compact;
    const PLACEMENT: Placement = Placement::Cpu;
}

fn gate_off(n: u64) {
    (0..n).for_each(idle);
}

fn event_empty(n: u64) {
    (0..n).for_each(|_| empty());
}

fn event_u64(n: u64) {
    (0..n).for_each(number);
}

fn event_mix(n: u64) {
    let text = black_box("sixteen bytes ok");
    (0..n).for_each(|i| mixed(i as u32, i, text));
}

fn filter_rejects(n: u64) {
    (0..n).for_each(rejected);
}

fn append_u64(n: u64) {
    static CHANNEL: OnceLock<Option<Channel<Flight>>> = OnceLock::new();
    let made = CHANNEL.get_or_init(|| {
        Channel::in_memory(Geometry { buffers: 1, sub_buffer: 64 << 10, sub_buffers: 4, fallback: 64 << 10 }).ok()
    });
    let Some(channel) = made else { return };
    let appender = channel.core().appender(channel.core().generation(), 1, false, 8);
    for i in 0..n {
        // SAFETY: the channel was made with `Flight`, and is never dropped.
        #[expect(unsafe_code, reason = "the configuration is named again")]
        let outcome = unsafe { appender.append_words::<Flight>([i, 0, 0]) };
        _ = black_box(outcome);
    }
}

struct Row {
    name: &'static str,
    work: fn(u64),
    sessions: usize,
    /// Events that all sessions together record of one operation.
    events: u64,
}

const ROWS: [Row; 7] = [
    Row { name: "gate/off", work: gate_off, sessions: 1, events: 0 },
    Row { name: "event/empty", work: event_empty, sessions: 1, events: 1 },
    Row { name: "event/u64", work: event_u64, sessions: 1, events: 1 },
    Row { name: "event/mix", work: event_mix, sessions: 1, events: 1 },
    Row { name: "event/u64/2_sessions", work: event_u64, sessions: 2, events: 2 },
    Row { name: "filter/reject/integer", work: filter_rejects, sessions: 1, events: 0 },
    Row { name: "append/u64/noclock", work: append_u64, sessions: 1, events: 0 },
];

/// Counted from its beginning to its end, with everything that it calls.
#[unsafe(no_mangle)]
#[inline(never)]
#[expect(unsafe_code, reason = "callgrind finds it by name")]
fn ringtrace_measured(work: fn(u64), operations: u64) {
    work(black_box(operations));
}

/// Says of this thread that it runs on the first CPU that it may use.
#[cfg(all(target_os = "linux", target_arch = "x86_64", not(ringtrace_portable)))]
fn run_on_one_cpu() {
    let status = std::fs::read_to_string("/proc/thread-self/status").unwrap_or_default();
    let allowed = status.lines().find_map(|line| line.strip_prefix("Cpus_allowed_list:"));
    let cpu = allowed.and_then(|list| list.trim().split([',', '-']).next()?.parse::<u32>().ok()).unwrap_or(0);
    if !trace_registry::sys::init() {
        let area = trace_registry::sys::rseq_offset();
        // SAFETY: the kernel was not told of the area, which is this thread's, and nobody else's, memory.
        #[expect(unsafe_code, reason = "writes to the rseq area")]
        unsafe {
            std::arch::asm!("mov dword ptr fs:[{} + 4], {:e}", in(reg) area, in(reg) cpu);
        }
    }
}

#[cfg(not(all(target_os = "linux", target_arch = "x86_64", not(ringtrace_portable))))]
fn run_on_one_cpu() {}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [row, operations] = &arguments[..] else {
        // As cargo runs it.
        println!("counted by `cargo xtask instructions`");
        return Ok(());
    };
    let name = row.strip_suffix("/fallback").unwrap_or(row);
    let Row { work, sessions, events, .. } = ROWS.iter().find(|row| row.name == name).ok_or_else(|| format!("no row {row}"))?;
    if name == row {
        run_on_one_cpu();
    }
    let directory = tempfile::tempdir()?;
    let rules = "*:empty; *:number; *:mixed; *:rejected if value == 0xffff_ffff_ffff_ffff";
    // Without a clock: what a clock costs is not instructions, and which one there is depends on the machine.
    let start = |session: usize| {
        let builder = Session::builder(&format!("s{session}")).enable(rules).overwrite().memory(4 << 20);
        builder.clock(Clock::None).context(Context::NONE).output(directory.path().join(format!("s{session}"))).start()
    };
    let sessions: Vec<Session> = (0..*sessions).map(start).collect::<Result<_, _>>()?;
    let operations: u64 = operations.parse()?;
    // A thread's first event prepares it.
    work(100);
    let recorded = |sessions: &[Session]| sessions.iter().map(|s| s.statistics().events).sum::<u64>();
    let before = recorded(&sessions);
    ringtrace_measured(*work, operations);
    let arrived = recorded(&sessions) - before;
    if arrived != events * operations {
        return Err(format!("{row}: {arrived} of {} events arrived", events * operations).into());
    }
    Ok(())
}
