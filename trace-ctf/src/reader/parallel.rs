//! Packets on all cores.
//!
//! Packets are independent of each other, so each core reads and decodes one of its own. For what needs no order, counts,
//! histograms, checks, there is [`fold`]: one packet for each core is in memory, whatever the size of the trace. In the order of
//! time, [`merge`] gives events with what was made of them on all cores.

mod ordered;

use std::collections::VecDeque;
use std::num::NonZero;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;

use crate::Error;
use crate::reader::{Loss, Packet, Packets, Trace};

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
    streams: VecDeque<Packets>,
    left: usize,
}

/// Runs `step` on every packet of some traces, each in any order, on so many threads, and gives the state of each thread.
///
/// # Examples
///
/// ```no_run
/// use std::num::NonZero;
/// use trace_ctf::reader::{Trace, parallel};
///
/// # fn main() -> trace_ctf::Result<()> {
/// let trace = Trace::open("app.ringtrace".as_ref())?;
/// let threads = std::thread::available_parallelism().unwrap_or(NonZero::<usize>::MIN);
/// let counts = parallel::fold([&trace], threads, || 0u64, |count, part| {
///     if let parallel::Part::Packet(packet, _) = part {
///         let mut events = packet.events();
///         while let Some(Ok(_)) = events.next_event() {
///             *count += 1;
///         }
///     }
/// });
/// println!("{}", counts.iter().sum::<u64>());
/// # Ok(())
/// # }
/// ```
pub fn fold<'t, S: Send>(
    traces: impl IntoIterator<Item = &'t Trace>,
    threads: NonZero<usize>,
    start: impl Fn() -> S + Sync,
    step: impl Fn(&mut S, Part<'_>) + Sync,
) -> Vec<S> {
    let all = traces.into_iter().flat_map(|trace| trace.streams().iter().map(|stream| trace.packets(stream)));
    let streams: VecDeque<_> = all.collect();
    let waiting = Mutex::new(Waiting { left: streams.len(), streams });
    let changed = Condvar::new();
    let work = || {
        let mut state = start();
        let mut spare = None;
        while let Some(mut packets) = take(&waiting, &changed) {
            if let Some(packet) = spare.take() {
                packets.recycle(packet);
            }
            let next = packets.next();
            // The stream is free for the next thread before its packet is decoded.
            let mut guard = lock(&waiting);
            match &next {
                Some(_) => guard.streams.push_back(packets),
                None => guard.left -= 1,
            }
            drop(guard);
            changed.notify_all();
            match next {
                Some(Ok((packet, losses))) => {
                    step(&mut state, Part::Packet(&packet, losses));
                    spare = Some(packet);
                }
                Some(Err(error)) => step(&mut state, Part::Error(error)),
                None => {}
            }
        }
        state
    };
    thread::scope(|scope| {
        let threads: Vec<_> = (0..threads.get()).map(|_| scope.spawn(work)).collect();
        threads.into_iter().map(|thread| thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))).collect()
    })
}

fn take(waiting: &Mutex<Waiting>, changed: &Condvar) -> Option<Packets> {
    let mut guard = lock(waiting);
    loop {
        if let Some(packets) = guard.streams.pop_front() {
            return Some(packets);
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
