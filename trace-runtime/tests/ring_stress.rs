//! Several threads and the handlers of a fast timer append to the same buffers while another thread reads and checks every
//! record. The same test with sequences that are not restarted must find errors: it shows that it would notice.
#![expect(unsafe_code, reason = "signal handlers and timers")]
#![cfg(target_os = "linux")]

mod ring_support;

use ring_support::{Of, RAW, cpus, has_sequences};
use std::sync::atomic::{AtomicBool, AtomicPtr, AtomicU64, Ordering::SeqCst};
use std::time::{Duration, Instant};
use trace_runtime::clock::Clock;
use trace_runtime::ring_buffer::{Channel, Config, Geometry, HeaderKind, Mode, Outcome, Packet, Placement, Purpose, Reader};

const THREADS: u64 = 4;
/// The stream of the signal handlers.
const HANDLERS: u64 = THREADS;
const STREAMS: usize = THREADS as usize + 1;

/// The number that stands for a record, and bytes that follow from it.
fn fill(stream: u64, number: u64, bytes: &mut [u8; 96]) -> usize {
    let len = 16 + (number.wrapping_mul(0x9e37_79b9) >> 7) as usize % 72;
    bytes[..8].copy_from_slice(&(stream << 48 | number).to_le_bytes());
    let check = number.wrapping_mul(0x2545_f491_4f6c_dd1d) ^ stream;
    for (at, byte) in bytes[8..len].iter_mut().enumerate() {
        *byte = (check >> (at % 8 * 8)) as u8 ^ at as u8;
    }
    len
}

/// What went wrong, by kind.
#[derive(Debug, Default)]
struct Errors {
    content: u64,
    order: u64,
    stamp: u64,
    length: u64,
}

impl Errors {
    fn total(&self) -> u64 {
        self.content + self.order + self.stamp + self.length
    }
}

#[derive(Default)]
struct Checker {
    errors: Errors,
    read: [u64; STREAMS],
    /// Last number by buffer (the last one: fallback region) and stream.
    last: Vec<[u64; STREAMS]>,
    last_ns: Vec<u64>,
}

impl Checker {
    fn new(buffers: u32) -> Checker {
        Checker { last: vec![[0; STREAMS]; buffers as usize + 1], last_ns: vec![0; buffers as usize + 1], ..Checker::default() }
    }

    /// Checks one record at the beginning of `bytes`. Returns its length.
    fn record(&mut self, place: usize, bytes: &[u8]) -> Option<usize> {
        let word = u64::from_le_bytes(*bytes.first_chunk::<8>()?);
        let (stream, number) = (word >> 48, word & 0xffff_ffff_ffff);
        if stream >= STREAMS as u64 {
            self.errors.content += 1;
            return None;
        }
        let mut expected = [0; 96];
        let len = fill(stream, number, &mut expected);
        if bytes.get(..len)? != &expected[..len] {
            self.errors.content += 1;
        }
        let last = &mut self.last[place][stream as usize];
        if number <= *last {
            self.errors.order += 1;
        }
        *last = number;
        self.read[stream as usize] += 1;
        Some(len)
    }

    fn packet(&mut self, packet: &Packet, header: HeaderKind) {
        let bytes = packet.to_vec();
        let place = packet.buffer as usize;
        let mut last = packet.begin_ns;
        self.errors.stamp += u64::from(packet.begin_ns < self.last_ns[place]);
        let (mut at, mut records) = (0, 0);
        while at < bytes.len() {
            let len = header.read(&bytes[at..], last).and_then(|read| {
                self.errors.stamp += u64::from(read.ns < last || read.ns > packet.end_ns || read.id != 1);
                last = read.ns;
                Some(read.len + self.record(place, &bytes[at + read.len..])?)
            });
            let Some(len) = len else { break };
            at += len;
            records += 1;
        }
        self.errors.length += u64::from(at != bytes.len() || records != packet.records);
        self.last_ns[place] = packet.end_ns;
    }

    fn pass(&mut self, reader: &mut Reader, is_final: bool) -> bool {
        let header = reader.settings().header;
        let mut any = false;
        for buffer in 0..reader.geometry().buffers {
            while let Some(packet) = reader.next(buffer, true) {
                any = true;
                self.packet(&packet, header);
                reader.consume(packet);
            }
        }
        let place = self.last.len() - 1;
        while let Some(record) = reader.next_fallback(is_final) {
            any = true;
            self.errors.stamp += u64::from(record.ns < self.last_ns[place]);
            self.last_ns[place] = record.ns;
            let payload = record.payload.to_vec();
            if self.record(place, &payload) != Some(payload.len()) {
                self.errors.length += 1;
            }
        }
        reader.consume_fallback();
        any
    }
}

/// What a signal handler reaches.
static RECORD: AtomicPtr<()> = AtomicPtr::new(std::ptr::null_mut());
static CHANNEL: AtomicPtr<()> = AtomicPtr::new(std::ptr::null_mut());
static HANDLED: AtomicU64 = AtomicU64::new(0);
static ACCEPTED: AtomicU64 = AtomicU64::new(0);
static BUSY: AtomicBool = AtomicBool::new(false);

fn record<C: Config>(channel: *const (), stream: u64, number: u64) -> Outcome {
    // SAFETY: the channel outlives the threads and the timer.
    let channel = unsafe { &*channel.cast::<Channel<C>>() };
    let mut bytes = [0; 96];
    let len = fill(stream, number, &mut bytes);
    if number % 3 == 0 { channel.record(1, &[&bytes[..5], &bytes[5..len]]) } else { channel.record(1, &[&bytes[..len]]) }
}

extern "C" fn on_timer(_: libc::c_int) {
    let record = RECORD.load(SeqCst);
    // One handler at a time has the stream.
    if record.is_null() || BUSY.swap(true, SeqCst) {
        return;
    }
    // SAFETY: `stress` stored a function of this type.
    let record: fn(*const (), u64, u64) -> Outcome = unsafe { std::mem::transmute(record) };
    let number = HANDLED.load(SeqCst) + 1;
    if record(CHANNEL.load(SeqCst), HANDLERS, number) == Outcome::Recorded {
        ACCEPTED.fetch_add(1, SeqCst);
    }
    HANDLED.store(number, SeqCst);
    BUSY.store(false, SeqCst);
}

fn timer(interval: i64) {
    let time = libc::timeval { tv_sec: 0, tv_usec: interval };
    // SAFETY: starts or stops a timer of the process.
    unsafe { libc::setitimer(libc::ITIMER_REAL, &libc::itimerval { it_interval: time, it_value: time }, std::ptr::null_mut()) };
}

fn block_timer_signal() {
    // SAFETY: changes this thread's mask.
    unsafe {
        let mut set: libc::sigset_t = std::mem::zeroed();
        libc::sigemptyset(&raw mut set);
        libc::sigaddset(&raw mut set, libc::SIGALRM);
        libc::pthread_sigmask(libc::SIG_BLOCK, &raw const set, std::ptr::null_mut());
    }
}

/// Returns the errors found, and the number of records read.
fn stress<C: Config>(duration: Duration) -> (Errors, u64) {
    let geometry = Geometry { buffers: cpus(), sub_buffer: 8192, sub_buffers: 8, fallback: 1 << 20 };
    let cpus: Vec<u32> = (0..geometry.buffers).collect();
    let channel = Channel::<C>::create(ring_support::file(), geometry, &cpus, Clock::process()).expect("a channel");
    let mut reader = channel.reader(Purpose::Consume).expect("the first reader");
    // SAFETY: installs a handler that only uses async-signal-safe functions.
    unsafe {
        let mut action: libc::sigaction = std::mem::zeroed();
        action.sa_sigaction = on_timer as extern "C" fn(libc::c_int) as usize;
        action.sa_flags = libc::SA_RESTART;
        libc::sigaction(libc::SIGALRM, &raw const action, std::ptr::null_mut());
    }
    HANDLED.store(0, SeqCst);
    ACCEPTED.store(0, SeqCst);
    CHANNEL.store((&raw const channel).cast_mut().cast(), SeqCst);
    RECORD.store(record::<C> as fn(*const (), u64, u64) -> Outcome as *mut (), SeqCst);
    let stop = AtomicBool::new(false);
    let (checker, written) = std::thread::scope(|scope| {
        let writers: Vec<_> = (0..THREADS)
            .map(|stream| {
                let (channel, stop) = (&channel, &stop);
                scope.spawn(move || {
                    let (mut number, mut accepted) = (0, 0);
                    while !stop.load(SeqCst) {
                        number += 1;
                        let outcome = record::<C>(std::ptr::from_ref(channel).cast(), stream, number);
                        accepted += u64::from(outcome == Outcome::Recorded);
                        if outcome != Outcome::Recorded || number % 5000 == stream {
                            std::thread::yield_now(); // migrations, and sequences that are preempted elsewhere
                        }
                    }
                    accepted
                })
            })
            .collect();
        let reading = scope.spawn(|| {
            block_timer_signal();
            let mut checker = Checker::new(reader.geometry().buffers);
            while !stop.load(SeqCst) {
                if !checker.pass(&mut reader, false) {
                    std::thread::yield_now();
                }
            }
            checker
        });
        timer(70);
        let end = Instant::now() + duration;
        while Instant::now() < end {
            std::thread::yield_now();
        }
        timer(0);
        stop.store(true, SeqCst);
        let mut written: Vec<u64> = writers.into_iter().map(|w| w.join().expect("a writer")).collect();
        while BUSY.load(SeqCst) {
            std::thread::yield_now();
        }
        RECORD.store(std::ptr::null_mut(), SeqCst);
        written.push(ACCEPTED.load(SeqCst));
        (reading.join().expect("the reader"), written)
    });
    let mut checker = checker;
    checker.pass(&mut reader, true);
    let losses = ring_support::losses(&reader);
    if C::MODE == Mode::Discard {
        for (read, written) in checker.read.iter().zip(&written) {
            checker.errors.length += u64::from(read != written);
        }
    } else {
        let read: u64 = checker.read.iter().sum();
        checker.errors.length += u64::from(read + losses.overwritten != written.iter().sum::<u64>());
    }
    eprintln!(
        "{:?} {:?}: {} written, of them {} by handlers; read {:?}; {losses}; {} diverted, {} clamped; {:?}",
        C::MODE,
        C::PLACEMENT,
        written.iter().sum::<u64>(),
        written[HANDLERS as usize],
        checker.read.iter().sum::<u64>(),
        losses.diverted,
        losses.clamped,
        checker.errors
    );
    (checker.errors, checker.read.iter().sum())
}

/// Sequences that are not restarted.
struct Broken;

impl Config for Broken {
    const MODE: Mode = Mode::Discard;
    const CLOCK: trace_runtime::ring_buffer::ClockKind = trace_runtime::ring_buffer::ClockKind::Raw;
    const HEADER: HeaderKind = HeaderKind::Compact;
    const PLACEMENT: Placement = Placement::Cpu;
    const DISARMED: bool = true;
}

fn seconds() -> Duration {
    // A longer run: RING_STRESS_SECONDS=60 cargo test --release --test ring_stress
    let seconds = std::env::var("RING_STRESS_SECONDS").ok().and_then(|s| s.parse().ok()).unwrap_or(2);
    Duration::from_secs(seconds)
}

fn holds<C: Config>() {
    let (errors, read) = stress::<C>(seconds());
    assert_eq!(errors.total(), 0, "{errors:?}");
    assert!(read > 0);
}

// One test: the timer and its handler belong to the process.
#[test]
fn records_stay_whole_under_preemption_migration_and_signals() {
    if !Clock::process().is_counter() {
        return; // the same with the OS clock is slower, and no different
    }
    holds::<Of<false, RAW, false, false>>();
    holds::<Of<true, RAW, true, false>>();
    if Placement::MmCid.is_available() {
        holds::<Of<false, RAW, false, true>>();
        holds::<Of<true, RAW, false, true>>();
    }
    if !has_sequences() {
        return;
    }
    let end = Instant::now() + Duration::from_secs(60);
    let mut found = 0;
    while found == 0 && Instant::now() < end {
        found += stress::<Broken>(Duration::from_secs(1)).0.total();
    }
    assert!(found > 0, "sequences without restarts were not noticed");
}
