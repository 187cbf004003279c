//! The writing process: more threads than CPUs, the handlers of a fast timer, and forked children, all into one channel.

use crate::record::{self, LARGEST};
use crate::shared::{Counts, HANDLERS, STREAMS, Stream, THREADS};
use anyhow::{Context, Result};
use std::fs::File;
use std::sync::atomic::Ordering::{Relaxed, SeqCst};
use std::sync::atomic::{AtomicBool, AtomicPtr, AtomicU64, fence};
use trace_registry::field::Piece;
use trace_runtime::clock::Clock;
use trace_runtime::ring_buffer::{Appender, Channel, ClockKind, Config, Geometry, HeaderKind, Mode, Outcome, Placement};

/// A configuration by numbers.
pub(crate) struct Of<const OVERWRITE: bool, const CLOCK: u8, const LARGE: bool, const PLACEMENT: u8>;

impl<const OVERWRITE: bool, const CLOCK: u8, const LARGE: bool, const PLACEMENT: u8> Config
    for Of<OVERWRITE, CLOCK, LARGE, PLACEMENT>
{
    const MODE: Mode = if OVERWRITE { Mode::Overwrite } else { Mode::Discard };
    const CLOCK: ClockKind = match CLOCK {
        0 => ClockKind::Raw,
        1 => ClockKind::Ordered,
        _ => ClockKind::Os,
    };
    const HEADER: HeaderKind = if LARGE { HeaderKind::Large } else { HeaderKind::Compact };
    const PLACEMENT: Placement = match PLACEMENT {
        0 => Placement::Cpu,
        1 => Placement::MmCid,
        2 => Placement::Thread,
        _ => Placement::Global,
    };
}

/// What a writing process is given.
pub(crate) struct Task {
    pub(crate) ring: File,
    pub(crate) counts: &'static Counts,
    pub(crate) geometry: Geometry,
    /// Events to record; it writes until it is killed where there is no end.
    pub(crate) events: u64,
}

/// Whether this thread's `rseq_cs` names a sequence: never outside one.
pub(crate) fn is_armed() -> bool {
    #[cfg(all(target_os = "linux", target_arch = "x86_64"))]
    {
        let offset = trace_registry::sys::rseq_offset();
        let armed: u64;
        // SAFETY: each thread has an rseq area at this distance from its thread pointer.
        unsafe { std::arch::asm!("mov {}, qword ptr fs:[{} + 8]", out(reg) armed, in(reg) offset, options(readonly, nostack)) };
        offset != 0 && armed != 0
    }
    #[cfg(not(all(target_os = "linux", target_arch = "x86_64")))]
    false
}

/// A channel and what is counted, where a signal handler finds them.
struct Writer<C: Config> {
    channel: Channel<C>,
    /// By the length of payloads that are given in words; the first also for all others.
    appenders: [Appender; WORDS + 1],
    counts: &'static Counts,
}

/// Events that one thread records, where buffers are those of threads.
const PORTION: u64 = 50_000;
/// Most bytes of a payload in words.
const WORDS: usize = 24;

impl<C: Config> Writer<C> {
    /// Records the event `number` of `stream`, and counts it.
    fn write(&self, stream: usize, number: u64) -> Outcome {
        let Stream { begun, sum, recorded } = &self.counts.streams[stream];
        begun.store(number, SeqCst);
        let outcome = self.append(stream as u64, number);
        if is_armed() {
            self.counts.armed.fetch_add(1, SeqCst);
        }
        if outcome == Outcome::Recorded {
            sum.store(sum.load(Relaxed).wrapping_add(number), Relaxed);
            // In this order, also for whoever looks after a kill.
            fence(SeqCst);
            recorded.store(recorded.load(Relaxed) + 1, Relaxed);
        }
        outcome
    }

    fn append(&self, stream: u64, number: u64) -> Outcome {
        let mut bytes = [const { std::mem::MaybeUninit::<u8>::uninit() }; LARGEST];
        // SAFETY: any bytes are bytes; `fill` writes those that are read.
        let bytes = unsafe { &mut *bytes.as_mut_ptr().cast::<[u8; LARGEST]>() };
        let len = record::fill(stream, number, bytes);
        let cut = if number.is_multiple_of(3) { 5 } else { 0 };
        let pieces = [Piece { start: bytes.as_ptr(), len: cut }, Piece { start: bytes[cut..].as_ptr(), len: len - cut }];
        let pieces = &pieces[usize::from(cut == 0)..];
        let head = if len <= WORDS { len } else { number as usize % (WORDS + 1) };
        let word = |i: usize| u64::from_ne_bytes(std::array::from_fn(|at| if i * 8 + at < head { bytes[i * 8 + at] } else { 0 }));
        let words = [word(0), word(1), word(2)];
        match number % 5 {
            0 => {}
            // SAFETY: `C` made the channel, which outlives the writer.
            _ if len <= WORDS => return unsafe { self.appenders[len].append_words::<C>(words) },
            1..=3 => {
                // SAFETY: as above.
                return unsafe { self.appenders[head].append_tail::<C>(words, &bytes[head..len]) };
            }
            _ => {}
        }
        // SAFETY: as above; the pieces are `len` bytes.
        unsafe { self.appenders[0].append::<C>(pieces, len) }
    }

    /// A child that has this process's memory writes nothing into its rings.
    fn fork(&self) {
        // SAFETY: the child only appends, which is async-signal-safe, and exits.
        let child = unsafe { libc::fork() };
        if child == 0 {
            let stray = (0..200).filter(|number| self.append(STREAMS as u64, *number) != Outcome::Refused).count();
            self.counts.forked.fetch_add(stray as u64, SeqCst);
            // SAFETY: ends the child without running the parent's destructors.
            unsafe { libc::_exit(0) }
        }
        // SAFETY: waits for the child just made.
        while child > 0 && unsafe { libc::waitpid(child, std::ptr::null_mut(), 0) } != child {}
    }

    /// Writes a stream from as many threads, one after the other, as take buffers from each other; else from one.
    fn stream(&self, stream: usize, events: u64) {
        let portion = if C::PLACEMENT == Placement::Thread { PORTION } else { u64::MAX };
        let (mut number, mut recorded) = (0, 0);
        while recorded < events {
            let until = events.min(recorded.saturating_add(portion));
            if until == events {
                self.write_until(stream, until, &mut number, &mut recorded);
            } else {
                let counts = (&mut number, &mut recorded);
                std::thread::scope(|scope| {
                    let thread = scope.spawn(|| self.write_until(stream, until, counts.0, counts.1));
                    // It ends badly with the process only.
                    let _ = thread.join();
                });
            }
        }
    }

    fn write_until(&self, stream: usize, events: u64, number: &mut u64, recorded: &mut u64) {
        while *recorded < events {
            *number += 1;
            let number = *number;
            let outcome = self.write(stream, number);
            *recorded += u64::from(outcome == Outcome::Recorded);
            if outcome != Outcome::Recorded || number % 8192 == stream as u64 {
                std::thread::yield_now(); // migrations, and sequences that are preempted elsewhere
            }
        }
    }
}

type Handle = fn(*const (), u64);
static HANDLE: AtomicPtr<()> = AtomicPtr::new(std::ptr::null_mut());
static WRITER: AtomicPtr<()> = AtomicPtr::new(std::ptr::null_mut());
static HANDLED: AtomicU64 = AtomicU64::new(0);
static BUSY: AtomicBool = AtomicBool::new(false);

fn handle<C: Config>(writer: *const (), number: u64) {
    // SAFETY: `write` below stored it, and waits for handlers before it drops it.
    let writer = unsafe { &*writer.cast::<Writer<C>>() };
    let _ = writer.write(HANDLERS, number); // counted
}

extern "C" fn on_timer(_: libc::c_int) {
    let handle = HANDLE.load(SeqCst);
    // One handler at a time has the stream.
    if handle.is_null() || BUSY.swap(true, SeqCst) {
        return;
    }
    // SAFETY: `write` stored a function of this type.
    let handle: Handle = unsafe { std::mem::transmute(handle) };
    let number = HANDLED.load(SeqCst) + 1;
    handle(WRITER.load(SeqCst), number);
    HANDLED.store(number, SeqCst);
    BUSY.store(false, SeqCst);
}

/// Starts a timer of the process whose signal `handler` takes; 0 µs stops it.
pub(crate) fn timer(handler: extern "C" fn(libc::c_int), interval_us: i64) {
    let time = libc::timeval { tv_sec: 0, tv_usec: interval_us };
    // SAFETY: the handlers given use async-signal-safe functions only.
    unsafe {
        let mut action: libc::sigaction = std::mem::zeroed();
        action.sa_sigaction = handler as usize;
        action.sa_flags = libc::SA_RESTART;
        libc::sigaction(libc::SIGALRM, &raw const action, std::ptr::null_mut());
        libc::setitimer(libc::ITIMER_REAL, &libc::itimerval { it_interval: time, it_value: time }, std::ptr::null_mut());
    }
}

/// Writes what the task asks for.
pub(crate) fn write<C: Config>(task: Task) -> Result<()> {
    // SAFETY: a file of this test's own, which nobody shortens.
    let channel = unsafe { Channel::<C>::in_file(task.ring, task.geometry) }.context("a channel")?;
    let generation = channel.core().generation();
    let appenders = std::array::from_fn(|len| channel.core().appender(generation, 1, false, len));
    let writer = Writer { channel, appenders, counts: task.counts };
    WRITER.store((&raw const writer).cast_mut().cast(), SeqCst);
    HANDLE.store(handle::<C> as Handle as *mut (), SeqCst);
    writer.fork();
    timer(on_timer, 70);
    std::thread::scope(|scope| {
        let threads: Vec<_> = (0..THREADS)
            .map(|stream| {
                let writer = &writer;
                scope.spawn(move || writer.stream(stream, task.events / THREADS as u64))
            })
            .collect();
        while threads.iter().any(|t| !t.is_finished()) {
            writer.fork();
            std::thread::sleep(std::time::Duration::from_millis(20));
        }
    });
    timer(on_timer, 0);
    HANDLE.store(std::ptr::null_mut(), SeqCst);
    while BUSY.load(SeqCst) {
        std::thread::yield_now();
    }
    task.counts.restarted.store(writer.channel.core().losses().restarted, SeqCst);
    Ok(())
}

/// The size of the rings, and the function that writes into them, of one configuration.
pub(crate) struct Scenario {
    pub(crate) name: &'static str,
    pub(crate) placement: Placement,
    write: fn(Task) -> Result<()>,
}

macro_rules! scenarios {
    ($($name:literal $overwrite:literal $clock:literal $large:literal $placement:literal;)*) => {
        &[$(Scenario {
            name: $name,
            placement: <Of<$overwrite, $clock, $large, $placement> as Config>::PLACEMENT,
            write: |task| match Clock::process().is_counter() {
                true => write::<Of<$overwrite, $clock, $large, $placement>>(task),
                false => write::<Of<$overwrite, 2, $large, $placement>>(task),
            },
        }),*]
    };
}

/// The configurations that are tested.
pub(crate) const SCENARIOS: &[Scenario] = scenarios! {
    // name                    overwrite clock large placement
    "discard, by CPU"                false 0 false 0;
    "overwrite, by CPU"              true  0 true  0;
    "discard, by mm_cid"             false 1 true  1;
    "overwrite, by mm_cid"           true  0 false 1;
    "discard, by thread"             false 0 true  2;
    "overwrite, by thread"           true  1 false 2;
    "discard, fallback region"       false 0 false 3;
    "overwrite, fallback region"     true  0 false 3;
};

impl Scenario {
    pub(crate) fn is_available(&self) -> bool {
        self.placement.is_available()
    }

    /// Whether the fallback region takes everything.
    pub(crate) fn is_fallback(&self) -> bool {
        self.placement == Placement::Global
    }

    pub(crate) fn geometry(&self) -> Geometry {
        let cpus = std::fs::read_to_string("/sys/devices/system/cpu/possible")
            .ok()
            .and_then(|s| s.trim().rsplit(['-', ',']).next().and_then(|n| n.parse::<u32>().ok()))
            .map_or(64, |last| last + 1);
        let buffers = match self.placement {
            Placement::Cpu | Placement::MmCid => cpus,
            // At times a thread finds none, and shares the fallback region.
            Placement::Thread => THREADS as u32 + 2,
            Placement::Global => 0,
        };
        let fallback = if self.is_fallback() { 64 << 10 } else { 1 << 20 };
        Geometry { buffers, sub_buffer: 16 << 10, sub_buffers: 7, fallback }
    }

    pub(crate) fn write(&self, task: Task) -> Result<()> {
        (self.write)(task)
    }
}
