//! Which buffer takes an event: that of a CPU or concurrency ID, of a thread, or the one region that all threads share.
#![cfg(all(target_os = "linux", target_arch = "x86_64", not(ringtrace_portable)))]

mod ring_support;

use ring_support::{BY_THREAD, OS, Of, buffers, drain, file, has_sequences, losses, served};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Barrier;
use trace_runtime::clock::Clock;
use trace_runtime::ring_buffer::{Channel, Config, Geometry, HeaderKind, Mode, Outcome, Placement, Purpose, Reader};

const THREADS: u32 = 6;
const EVENTS: u32 = 3000;

/// The thread and the number of an event; its ID is 2.
fn payload(thread: u32, number: u32) -> [u8; 10] {
    let mut bytes = [10, 0, 0, 0, 0, 0, 0, 0, 0, 0];
    bytes[2..6].copy_from_slice(&thread.to_le_bytes());
    bytes[6..].copy_from_slice(&number.to_le_bytes());
    bytes
}

fn read(bytes: &[u8]) -> (u32, u32) {
    let word = |at: usize| u32::from_le_bytes(bytes[at..at + 4].try_into().expect("4 bytes"));
    (word(2), word(6))
}

fn many_threads<C: Config>() {
    let fallback = 2 << 20;
    let geometry = Geometry { buffers: buffers::<C>(), sub_buffer: 64 << 10, sub_buffers: 16, fallback };
    let channel = ring_support::create::<C>(file(), geometry, &served::<C>(geometry), Clock::process()).expect("a channel");
    let begin = Barrier::new(THREADS as usize);
    std::thread::scope(|scope| {
        for thread in 0..THREADS {
            let (channel, begin) = (&channel, &begin);
            scope.spawn(move || {
                begin.wait();
                for number in 0..EVENTS {
                    assert_eq!(channel.record(2, &[&payload(thread, number)]), Outcome::Recorded);
                }
            });
        }
    });
    let mut reader = channel.reader(Purpose::Consume).expect("the first reader");
    let seen = drain(&mut reader, true);
    let mut numbers: BTreeMap<u32, BTreeSet<u32>> = BTreeMap::new();
    let mut last_ns = 0;
    for record in &seen {
        let (thread, number) = read(&record.payload);
        assert!(numbers.entry(thread).or_default().insert(number), "event {number} of thread {thread} came twice");
        if C::PLACEMENT == Placement::Global {
            assert!(record.ns >= last_ns, "one region has one order");
            last_ns = record.ns;
        }
    }
    assert_eq!(numbers.values().map(BTreeSet::len).collect::<Vec<_>>(), [EVENTS as usize; THREADS as usize]);
    assert_eq!(losses(&reader).total(), 0);
}

#[test]
fn every_thread_is_recorded_in_every_configuration() {
    if Clock::process().is_counter() {
        for_each_config!(many_threads, false);
        for_each_config!(many_threads, true);
    } else {
        many_threads::<Of<false, OS, false, BY_THREAD>>();
    }
}

type ByThread = Of<false, OS, false, BY_THREAD>;

fn by_thread(buffers: u32) -> Channel<ByThread> {
    let geometry = Geometry { buffers, sub_buffer: 64 << 10, sub_buffers: 4, fallback: 1 << 20 };
    Channel::in_memory(geometry).expect("a channel")
}

/// The threads whose events each buffer holds, in the order of their numbers.
fn by_buffer(channel: &Channel<ByThread>) -> Vec<BTreeSet<u32>> {
    let mut reader: Reader = channel.reader(Purpose::Snapshot).expect("a snapshot is always possible");
    let mut held = vec![BTreeSet::new(); channel.core().geometry().buffers as usize];
    let mut last: BTreeMap<u32, u32> = BTreeMap::new();
    for buffer in 0..reader.geometry().buffers {
        while let Some(packet) = reader.next(buffer, true) {
            for record in ring_support::decode(&packet, HeaderKind::Compact) {
                let (thread, number) = read(&record.payload);
                assert!(last.insert(thread, number).is_none_or(|before| before < number), "a thread's events are in its order");
                held[buffer as usize].insert(thread);
            }
        }
    }
    held
}

#[test]
fn each_thread_has_a_buffer_of_its_own_and_who_finds_none_shares() {
    assert_eq!((ByThread::MODE, ByThread::PLACEMENT), (Mode::Discard, Placement::Thread));
    let channel = by_thread(4);
    let together = Barrier::new(THREADS as usize);
    std::thread::scope(|scope| {
        for thread in 0..THREADS {
            let (channel, together) = (&channel, &together);
            scope.spawn(move || {
                // All live from the first event to the last.
                assert_eq!(channel.record(2, &[&payload(thread, 0)]), Outcome::Recorded);
                together.wait();
                for number in 1..100 {
                    assert_eq!(channel.record(2, &[&payload(thread, number)]), Outcome::Recorded);
                    std::thread::yield_now();
                }
                together.wait();
            });
        }
    });
    assert_eq!((channel.core().records(), channel.core().losses().total()), (u64::from(THREADS) * 100, 0));
    if has_sequences() {
        let held = by_buffer(&channel);
        assert!(held.iter().all(|threads| threads.len() == 1), "{held:?}");
        assert_eq!(held.iter().flatten().collect::<BTreeSet<_>>().len(), 4);
        // Sequences that were aborted eight times would be there too.
        assert!(channel.core().losses().diverted >= u64::from(THREADS - 4) * 100);
    }
}

#[test]
fn buffers_of_threads_that_ended_go_to_those_that_come() {
    let channel = by_thread(8);
    for thread in 0..200 {
        let recorded = std::thread::scope(|scope| scope.spawn(|| channel.record(2, &[&payload(thread, 0)])).join());
        assert_eq!(recorded.expect("the thread ends well"), Outcome::Recorded);
    }
    assert_eq!((channel.core().records(), channel.core().losses().total()), (200, 0));
    if has_sequences() {
        let held: usize = by_buffer(&channel).iter().map(BTreeSet::len).sum();
        assert!(held > 8, "{held} of 200 threads had one of 8 buffers");
    }
}

#[test]
#[expect(unsafe_code, reason = "fork")]
fn a_forked_child_shares_no_number_with_its_parent() {
    let channel = by_thread(2);
    assert_eq!(channel.record(2, &[&payload(0, 0)]), Outcome::Recorded);
    // SAFETY: the child uses what a child of a process with threads may use in glibc and musl, and ends by _exit(2).
    let child = unsafe { libc::fork() };
    if child == 0 {
        let refused = channel.record(2, &[&payload(1, 0)]) == Outcome::Refused;
        // A channel of its own works, and its threads have numbers of their own.
        let own = by_thread(8);
        let first = own.record(2, &[&payload(0, 0)]) == Outcome::Recorded;
        let second = std::thread::scope(|scope| scope.spawn(|| own.record(2, &[&payload(1, 0)])).join());
        let third = own.record(2, &[&payload(0, 1)]) == Outcome::Recorded;
        let is_apart = !has_sequences() || by_buffer(&own).iter().all(|threads| threads.len() < 2);
        let is_right = refused && first && second.is_ok_and(|o| o == Outcome::Recorded) && third && is_apart;
        // SAFETY: ends the child without the parent's exit handlers.
        unsafe { libc::_exit(i32::from(!is_right)) };
    }
    let mut status = -1;
    // SAFETY: waits for the child; `status` is written.
    unsafe { libc::waitpid(child, &raw mut status, 0) };
    assert_eq!(status, 0, "the child's numbers are its own");
    assert_eq!((channel.core().records(), channel.core().losses().total()), (1, 0));
}

#[test]
fn geometries_that_a_placement_cannot_use_are_refused() {
    let geometry = Geometry { buffers: 2, sub_buffer: 4096, sub_buffers: 2, fallback: 4096 };
    let named = ring_support::create::<ByThread>(file(), geometry, &[0], Clock::process());
    assert_eq!(named.expect_err("threads take their buffers").kind(), std::io::ErrorKind::InvalidInput);
    type Global = Of<false, OS, false, { ring_support::GLOBAL }>;
    let buffers = Channel::<Global>::in_memory(geometry);
    assert_eq!(buffers.expect_err("there are no buffers").kind(), std::io::ErrorKind::InvalidInput);
    assert!(Channel::<Global>::in_memory(Geometry { buffers: 0, ..geometry }).is_ok());
}
