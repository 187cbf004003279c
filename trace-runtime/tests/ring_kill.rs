//! A writer that is killed at any instruction of an append, a close or an open leaves whole records, and all that were committed.
//!
//! The writer steps through its own instructions (trap flag), and kills itself at one of them. Stepping would abort every
//! sequence, so its thread is not registered with the kernel: its rseq area says that it runs on CPU 0, and nothing else runs. A
//! first run keeps each state of the file, with the instruction that made it: what a kill there leaves, and at all instructions until
//! the next state. Further runs are killed at some of them, to show that it is so; at all, where `RING_KILL_ALL` is set (a minute).
#![expect(unsafe_code, reason = "a handler of traps, and an rseq area with other content")]
#![cfg(all(target_os = "linux", target_arch = "x86_64", not(ringtrace_portable)))]

mod ring_support;

use ring_support::{BY_CPU, NO_CLOCK, OS, Of, RAW, record_in_words};
use std::fs::File;
use std::io::Write as _;
use std::os::fd::AsRawFd;
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::atomic::AtomicPtr;
use std::sync::atomic::Ordering::{Relaxed, SeqCst};
use trace_registry::sys;
use trace_runtime::clock::Clock;
use trace_runtime::ring_buffer::{Channel, Config, Geometry, Mode, Outcome, Purpose, Reader};

/// The case, and after how many instructions the writer is to kill itself (0: never).
const CASE: &str = "RING_KILL_CASE";
/// The ring file, and the file for its states: the number of the instruction, and the bytes.
const PATHS: [&str; 2] = ["RING_KILL_RING", "RING_KILL_STATES"];
/// An event ID that needs the extended form.
const LARGE_ID: u32 = 70_002;
const SUB_BUFFER: u32 = 4096;
/// Words of the caller's area: events recorded, those recorded before the writer is watched, and those consumed by then.
const DONE: usize = 0;
const BEFORE: usize = 1;
const CONSUMED: usize = 2;

struct Case {
    name: &'static str,
    write: fn(&Case, u64, &Path) -> Vec<u8>,
    geometry: Geometry,
    /// The sub-buffer, counted from 1, whose close is watched, and the open of the next one; 0: there are none.
    closed: u64,
}

impl Case {
    /// How many events are watched: two that a close and an open may come before, and one behind.
    const fn watched(&self) -> u64 {
        if self.closed == 0 { 1 } else { 3 }
    }
}

const fn case<C: Config>(name: &'static str, sub_buffers: u32, closed: u64) -> Case {
    let geometry = Geometry { buffers: 1, sub_buffer: SUB_BUFFER, sub_buffers, fallback: 0 };
    Case { name, write: write::<C>, geometry, closed }
}

/// The last sub-buffer of a lap is closed where positions jump to the next power of two, if their number is none.
const CASES: [Case; 10] = [
    case::<Of<false, RAW, false, BY_CPU>>("discard", 2, 1),
    case::<Of<true, RAW, true, BY_CPU>>("overwrite", 2, 1),
    case::<Of<true, OS, false, BY_CPU>>("overwrite, OS clock", 2, 1),
    case::<Of<false, NO_CLOCK, false, BY_CPU>>("discard, no clock", 2, 1),
    case::<Of<false, RAW, false, BY_CPU>>("discard, end of 3 sub-buffers", 3, 3),
    case::<Of<true, RAW, false, BY_CPU>>("overwrite, end of 3 sub-buffers", 3, 3),
    case::<Of<true, OS, true, BY_CPU>>("overwrite, end of 5 sub-buffers", 5, 5),
    case::<Of<false, NO_CLOCK, false, BY_CPU>>("discard, end of 7 sub-buffers", 7, 7),
    // The second lap: there is something to be written over.
    case::<Of<true, RAW, false, BY_CPU>>("overwrite, second end of 7 sub-buffers", 7, 14),
    Case {
        geometry: Geometry { buffers: 0, sub_buffer: SUB_BUFFER, sub_buffers: 2, fallback: 8192 },
        ..case::<Of<true, OS, false, BY_CPU>>("fallback region", 2, 0)
    },
];

/// The payload of an event, and its event ID.
fn event(number: u64) -> (u32, Vec<u8>) {
    let id = if number % 7 == 0 { LARGE_ID } else { 2 };
    let len = 40 + (number % 7 * 13) as u16;
    let mut bytes = len.to_le_bytes().to_vec();
    bytes.extend(number.to_le_bytes());
    bytes.resize(usize::from(len), number as u8);
    (id, bytes)
}

/// Makes this thread one that runs on CPU 0 for ever, as far as sequences can see.
fn leave_the_kernel() {
    sys::init();
    let area = sys::rseq_offset();
    // SAFETY: the area is this thread's; it was registered by `init` or not at all, and no signal arrives.
    unsafe {
        let thread: usize;
        std::arch::asm!("mov {}, qword ptr fs:[0]", out(reg) thread);
        libc::syscall(libc::SYS_rseq, thread.wrapping_add_signed(area), 32, 1, sys::SIGNATURE);
        std::arch::asm!("mov dword ptr fs:[{} + 4], 0", in(reg) area);
    }
    assert_eq!(sys::cpu_id(), 0);
}

/// What the handler of traps looks at.
struct Watch {
    file: &'static [u8],
    before: Vec<u8>,
    steps: u64,
    kill_at: u64,
    states: Vec<u8>,
}

static WATCH: AtomicPtr<Watch> = AtomicPtr::new(std::ptr::null_mut());

extern "C" fn on_step(_: libc::c_int) {
    // SAFETY: `step_through` stored it, in this thread, and does not use it meanwhile.
    let Some(watch) = (unsafe { WATCH.load(Relaxed).as_mut() }) else { return };
    watch.steps += 1;
    if watch.steps == watch.kill_at {
        // SAFETY: ends this process.
        unsafe { libc::kill(libc::getpid(), libc::SIGKILL) };
    }
    if watch.file != watch.before {
        watch.before.copy_from_slice(watch.file);
        let size = 8 + watch.file.len();
        if watch.states.len() + size <= watch.states.capacity() {
            watch.states.extend(watch.steps.to_le_bytes());
            watch.states.extend_from_slice(&watch.before);
        }
    }
}

/// Steps through `run`, instruction by instruction.
fn step_through(file: &File, kill_at: u64, run: impl FnOnce()) -> Vec<u8> {
    let len = file.metadata().expect("a length").len() as usize;
    // SAFETY: a mapping of its own, which stays; others may write to it, as any memory of a ring.
    let file = unsafe {
        let start = libc::mmap(std::ptr::null_mut(), len, libc::PROT_READ, libc::MAP_SHARED, file.as_raw_fd(), 0);
        assert_ne!(start, libc::MAP_FAILED);
        std::slice::from_raw_parts(start.cast::<u8>(), len)
    };
    let mut watch = Watch { file, before: file.to_vec(), steps: 0, kill_at, states: Vec::with_capacity(200 * (8 + len)) };
    // SAFETY: the handler is only called between the two changes of the flags, in this thread.
    unsafe {
        WATCH.store(&raw mut watch, Relaxed);
        let mut action: libc::sigaction = std::mem::zeroed();
        action.sa_sigaction = on_step as extern "C" fn(libc::c_int) as usize;
        libc::sigaction(libc::SIGTRAP, &raw const action, std::ptr::null_mut());
        std::arch::asm!("pushfq", "or qword ptr [rsp], 0x100", "popfq");
        run();
        std::arch::asm!("pushfq", "and qword ptr [rsp], 0xfffffffffffffeff", "popfq");
        WATCH.store(std::ptr::null_mut(), Relaxed);
    }
    watch.states
}

fn channel<C: Config>(file: File, geometry: Geometry) -> Channel<C> {
    let cpus = if geometry.buffers > 0 { &[0][..] } else { &[] };
    ring_support::create::<C>(file, geometry, cpus, Clock::process()).expect("a channel")
}

fn record<C: Config>(channel: &Channel<C>, number: u64, (id, bytes): &(u32, Vec<u8>)) {
    let outcome = match number % 2 {
        0 => channel.record(*id, &[&bytes[..3], &bytes[3..]]),
        _ => record_in_words(channel, *id, bytes, 3 + number as usize % 22),
    };
    assert_eq!(outcome, Outcome::Recorded, "{number}");
    channel.core().caller_area()[DONE].store(number, SeqCst);
}

/// Consumes what is closed. Returns the number of records.
fn consume(reader: &mut Reader) -> u64 {
    let mut records = 0;
    while let Some(packet) = reader.next(0, false) {
        records += u64::from(packet.records);
        reader.consume(packet);
    }
    records
}

/// How many events there are before the writer is watched: one of those after the next one finds the sub-buffer full.
fn before<C: Config>(&Case { geometry, closed, .. }: &Case) -> u64 {
    if closed == 0 {
        return 47;
    }
    let channel = channel::<C>(ring_support::file(), geometry);
    let mut reader = channel.reader(Purpose::Consume).expect("a reader");
    let switches = |number: &u64| {
        record(&channel, *number, &event(*number));
        consume(&mut reader);
        reader.positions(0).expect("a buffer").produced > closed * u64::from(SUB_BUFFER)
    };
    (1..).find(switches).expect("the sub-buffer ends") - 2
}

/// The writing process.
fn write<C: Config>(case: &Case, kill_at: u64, path: &Path) -> Vec<u8> {
    let file = File::options().read(true).write(true).open(path).expect("the ring file");
    leave_the_kernel();
    let before = before::<C>(case);
    let channel = channel::<C>(file, case.geometry);
    (1..=before).for_each(|number| {
        record(&channel, number, &event(number));
        if C::MODE == Mode::Discard {
            let consumed = consume(&mut channel.reader(Purpose::Consume).expect("a reader"));
            channel.core().caller_area()[CONSUMED].fetch_add(consumed, SeqCst);
        }
    });
    channel.core().caller_area()[BEFORE].store(before, SeqCst);
    let events: Vec<_> = (before + 1..=before + case.watched()).map(|number| (number, event(number))).collect();
    step_through(channel.file(), kill_at, || events.iter().for_each(|(number, event)| record(&channel, *number, event)))
}

/// Not a test of its own: the writing process of the one below.
#[test]
fn child_steps_through_its_instructions() {
    let [Some(ring), Some(states)] = PATHS.map(std::env::var_os) else { return };
    let case = std::env::var(CASE).expect("a case");
    let (name, kill_at) = case.split_once(';').expect("a case and a number");
    let case = CASES.iter().find(|c| c.name == name).expect("a case");
    let found = (case.write)(case, kill_at.parse().expect("a number"), Path::new(&ring));
    std::fs::write(states, found).expect("the states");
}

/// Runs a writer that kills itself, or ends before: instructions vary a little, where a clock is read again or a sequence begins
/// again. Returns what is in the file then, and the states if it was not killed.
fn run(case: &Case, kill_at: u64) -> (Vec<u8>, Vec<(u64, Vec<u8>)>) {
    let [ring, states] = [(); 2].map(|()| tempfile::NamedTempFile::new().expect("a file"));
    let status = Command::new(std::env::current_exe().expect("this program"))
        .args(["--exact", "child_steps_through_its_instructions", "--test-threads=1"])
        .env(PATHS[0], ring.path())
        .env(PATHS[1], states.path())
        .env(CASE, format!("{};{kill_at}", case.name))
        // An area of our own, whose size is known.
        .env("GLIBC_TUNABLES", "glibc.pthread.rseq=0")
        .stdout(Stdio::null())
        .status()
        .expect("a child");
    let is_killed = kill_at != 0 && status.signal() == Some(libc::SIGKILL);
    assert!(is_killed || status.success(), "{}, killed after {kill_at} instructions: {status}", case.name);
    let ring = std::fs::read(ring.path()).expect("the ring file");
    let states = std::fs::read(states.path()).expect("the states");
    let state = |s: &[u8]| (u64::from_le_bytes(s[..8].try_into().expect("8 bytes")), s[8..].to_vec());
    let states = states.chunks_exact(8 + ring.len()).map(state).collect();
    (ring, states)
}

/// What a kill left.
struct Left {
    /// Number of the last event.
    last: u64,
    /// Number of the last sub-buffer that is closed, counted from 1.
    closed: u64,
    /// Events before the writer was watched.
    before: u64,
}

/// Reads what a kill left.
fn check(case: &Case, bytes: &[u8], steps: u64) -> Left {
    let mut file = ring_support::file();
    file.write_all(bytes).expect("a copy");
    // SAFETY: nobody else has the file.
    let mut reader = unsafe { Reader::open(&file, Purpose::Consume) }.expect("a ring file");
    let [done, before, consumed] = [DONE, BEFORE, CONSUMED].map(|word| reader.caller_word(word).expect("a word"));
    let header = reader.settings().header;
    let (mut seen, mut closed) = (Vec::new(), 0);
    for buffer in 0..case.geometry.buffers {
        while let Some(packet) = reader.next(buffer, true) {
            let bytes = packet.to_vec();
            let (mut at, mut last, mut records) = (0, packet.begin_ns, 0);
            while at < bytes.len() {
                let read = header.read(&bytes[at..], last).expect("a whole header");
                assert!(read.ns >= last && read.ns <= packet.end_ns, "{}: {read:?} after {steps} steps", case.name);
                at += read.len;
                let len = usize::from(u16::from_le_bytes([bytes[at], bytes[at + 1]]));
                seen.push((read.id, bytes[at..at + len].to_vec()));
                (at, last, records) = (at + len, read.ns, records + 1);
            }
            assert_eq!(records, packet.records, "{}: after {steps} steps", case.name);
            closed = if packet.closes { packet.sequence + 1 } else { closed };
            reader.consume(packet);
        }
    }
    while let Some(record) = reader.next_fallback(true) {
        seen.push((record.id, record.payload.to_vec()));
    }
    let numbers: Vec<u64> = seen.iter().map(|(_, b)| u64::from_le_bytes(b[2..10].try_into().expect("8 bytes"))).collect();
    for (number, record) in numbers.iter().zip(&seen) {
        assert!(*record == event(*number), "{}: event {number} is not whole after {steps} steps", case.name);
    }
    assert!(numbers.windows(2).all(|w| w[1] == w[0] + 1), "{}: {numbers:?} after {steps} steps", case.name);
    let last = numbers.last().copied().unwrap_or(0);
    // One more where its append has not returned.
    assert!(last == done || last == done + 1, "{}: {last} read, {done} committed, after {steps} steps", case.name);
    if reader.settings().mode == Mode::Discard {
        assert_eq!(numbers.first(), Some(&(consumed + 1)), "{}: after {steps} steps", case.name);
    } else {
        let lost = ring_support::losses(&reader);
        let found = numbers.len() as u64 + lost.overwritten;
        assert!(found == last && lost.uncommitted <= 1, "{}: {lost}, {last} read, after {steps} steps", case.name);
    }
    Left { last, closed, before }
}

#[test]
fn a_kill_at_any_instruction_leaves_whole_records_and_all_that_were_committed() {
    if std::env::var_os(PATHS[0]).is_some() || !Clock::process().is_counter() {
        return;
    }
    let step = |states: usize| if std::env::var_os("RING_KILL_ALL").is_some() { 1 } else { states.div_ceil(4) };
    for case in &CASES {
        let (whole, states) = run(case, 0);
        let end = check(case, &whole, 0);
        assert_eq!((end.last, end.closed), (end.before + case.watched(), case.closed), "{}", case.name);
        let mut read = (end.before, 0);
        for (steps, state) in &states {
            let Left { last, closed, .. } = check(case, state, *steps);
            assert!(last >= read.0 && closed >= read.1, "{}: {last}, {closed} after {read:?}, {steps} instructions", case.name);
            read = (last, closed);
        }
        let mut kills = 0;
        for (steps, _) in states.iter().step_by(step(states.len())) {
            let (left, states) = run(case, *steps);
            check(case, &left, *steps);
            kills += usize::from(states.is_empty());
        }
        assert!(kills > 0, "{}: nobody was killed", case.name);
        let last = states.last().map_or(0, |(steps, _)| *steps);
        println!("{}: {last} instructions, {} states of the file, {kills} kills", case.name, states.len());
        assert!(states.len() > 4 * case.watched() as usize, "{}: nothing was watched", case.name);
    }
}
