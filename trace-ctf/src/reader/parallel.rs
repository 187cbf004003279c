//! Packets on all cores.
//!
//! Packets are independent of each other, so each core reads and decodes one of its own. For what needs no order, counts,
//! histograms, checks, there is [`fold`]: one packet for each core is in memory, whatever the size of the trace. In the order of
//! time, [`merge`] gives events with what was made of them on all cores.

mod ordered;

use std::collections::VecDeque;
use std::num::NonZero;
use std::ops::ControlFlow;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;

use crate::Error;
use crate::reader::{Loss, Packet, Packets};

pub use ordered::{Step, merge};

/// What a step of [`fold`] is about.
#[derive(Debug)]
pub enum Part<'p> {
    /// A packet, and what was lost since the one before it in its stream.
    Packet(&'p Packet, Vec<Loss>),
    /// What is wrong with a stream, which then has ended.
    Error(Error),
}

/// Streams that wait for a thread, and how many there are in all.
struct Waiting {
    /// With their numbers.
    streams: VecDeque<(usize, Packets)>,
    /// Of which nothing more is wanted.
    is_over: Vec<bool>,
    left: usize,
}

/// Runs `step` on every packet of some streams, each in any order, on so many threads, and gives the state of each thread.
///
/// `Break` ends the packet's stream; other threads may have packets behind it already. One thread alone has the packets of each stream
/// in their order, and none behind a `Break`.
///
/// # Examples
///
/// ```no_run
/// use std::num::NonZero;
/// use std::ops::ControlFlow;
///
/// use trace_ctf::reader::{Trace, parallel};
///
/// # fn main() -> trace_ctf::Result<()> {
/// let trace = Trace::open("app.ringtrace".as_ref())?;
/// let threads = std::thread::available_parallelism().unwrap_or(NonZero::<usize>::MIN);
/// let streams = trace.streams().iter().map(|stream| trace.packets(stream));
/// let counts = parallel::fold(streams, threads, || 0u64, |count, part| {
///     if let parallel::Part::Packet(packet, _) = part {
///         let mut events = packet.events();
///         while let Some(Ok(_)) = events.next_event() {
///             *count += 1;
///         }
///     }
///     ControlFlow::Continue(())
/// });
/// println!("{}", counts.iter().sum::<u64>());
/// # Ok(())
/// # }
/// ```
pub fn fold<S: Send>(
    streams: impl IntoIterator<Item = Packets>,
    threads: NonZero<usize>,
    start: impl Fn() -> S + Sync,
    step: impl Fn(&mut S, Part<'_>) -> ControlFlow<()> + Sync,
) -> Vec<S> {
    let streams: VecDeque<_> = streams.into_iter().enumerate().collect();
    let waiting = Mutex::new(Waiting { left: streams.len(), is_over: vec![false; streams.len()], streams });
    let changed = Condvar::new();
    let work = || {
        let mut state = start();
        let mut spare = None;
        while let Some((number, mut packets)) = take(&waiting, &changed) {
            if let Some(packet) = spare.take() {
                packets.recycle(packet);
            }
            let next = packets.next();
            // The stream is free for the next thread before its packet is decoded.
            let mut guard = lock(&waiting);
            match &next {
                Some(_) => guard.streams.push_back((number, packets)),
                None => guard.left -= 1,
            }
            drop(guard);
            changed.notify_all();
            let flow = match next {
                Some(Ok((packet, losses))) => {
                    let flow = step(&mut state, Part::Packet(&packet, losses));
                    spare = Some(packet);
                    flow
                }
                Some(Err(error)) => step(&mut state, Part::Error(error)),
                None => ControlFlow::Continue(()),
            };
            if flow.is_break() {
                lock(&waiting).is_over[number] = true;
            }
        }
        state
    };
    thread::scope(|scope| {
        let threads: Vec<_> = (0..threads.get()).map(|_| scope.spawn(work)).collect();
        threads.into_iter().map(|thread| thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))).collect()
    })
}

fn take(waiting: &Mutex<Waiting>, changed: &Condvar) -> Option<(usize, Packets)> {
    let mut guard = lock(waiting);
    loop {
        if let Some((number, packets)) = guard.streams.pop_front() {
            if !guard.is_over[number] {
                return Some((number, packets));
            }
            guard.left -= 1;
            changed.notify_all();
            continue;
        }
        if guard.left == 0 {
            return None;
        }
        guard = changed.wait(guard).unwrap_or_else(PoisonError::into_inner);
    }
}

/// A thread that panicked holds no half-made state: its panic goes on where the threads are joined.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
