//! What the programs of the comparison have in common: the two payloads, the threads that fire them, and the conversation with
//! `cargo xtask bench-compare`, which takes the programs in turns and stops those whose turn it is not.

use std::cell::Cell;
use std::hint::black_box;
use std::io::{self, BufRead as _, Write};
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Barrier};
use std::thread::{self, sleep};
use std::time::{Duration, Instant};

/// Most threads that fire at once.
pub const THREADS: usize = 2;
/// Of the mixed payload. Its length is hidden from the compiler.
pub const TEXT: &str = "sixteen bytes ok";

/// What an event carries.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Payload {
    /// One `u64`.
    U64,
    /// A `u32`, a `u64` and a `&str`.
    Mix,
}

/// A tracer, ready to record.
pub trait Tracer: Sync {
    /// What a thread holds while it fires; its end is part of the time measured.
    type Thread<'a>
    where
        Self: 'a;

    /// Most events that one thread fires before it pauses: what the tracer's queue takes.
    const MOST: u64 = 200_000;

    fn thread(&self) -> Self::Thread<'_>;

    fn number(thread: &mut Self::Thread<'_>, value: u64);

    fn mix(thread: &mut Self::Thread<'_>, small: u32, large: u64, text: &str);

    /// How many events arrived since the start, where the tracer lets one count; `fired` is how many should have. Waits until
    /// nothing is under way.
    fn arrived(&self, fired: u64) -> Option<u64>;

    /// How many of as many events for each thread arrive, where [`arrived`](Tracer::arrived) cannot tell.
    fn arrived_apart(&self, _payload: Payload, _threads: usize, _events: u64) -> Option<u64> {
        None
    }
}

/// Fires, in the caller's thread.
#[inline(never)]
pub fn fire<T: Tracer>(mut thread: T::Thread<'_>, payload: Payload, events: u64) {
    match payload {
        Payload::U64 => {
            for i in 0..events {
                T::number(&mut thread, i);
            }
        }
        Payload::Mix => {
            let text = black_box(TEXT);
            for i in 0..events {
                T::mix(&mut thread, i as u32, i, text);
            }
        }
    }
}

struct Job {
    payload: Payload,
    /// Fired first, and not measured.
    unmeasured: u64,
    events: u64,
    together: Arc<Barrier>,
    /// Nanoseconds.
    done: Sender<f64>,
}

/// Says how many events it takes at once, then answers one line for each of its input: `check` or `measure`, payload, threads,
/// events.
pub fn serve<T: Tracer>(tracer: &T) {
    let mut output = io::stdout();
    thread::scope(|scope| {
        let threads: Vec<Sender<Job>> = (0..THREADS)
            .map(|_| {
                let (sender, jobs) = channel();
                scope.spawn(move || work(tracer, jobs));
                sender
            })
            .collect();
        let mut fired = 0;
        writeln!(output, "ready {}", T::MOST).expect("the xtask listens");
        for line in io::stdin().lock().lines() {
            let line = line.expect("the xtask speaks text");
            let words: Vec<&str> = line.split(' ').collect();
            let [verb, payload, threads_of_row, events] = words[..] else { panic!("{line}") };
            let payload = if payload == "u64" { Payload::U64 } else { Payload::Mix };
            let (count, events): (usize, u64) = (threads_of_row.parse().expect(&line), events.parse().expect(&line));
            let before = tracer.arrived(fired);
            let unmeasured = if verb == "check" { 0 } else { events / 10 };
            let (together, (done, times)) = (Arc::new(Barrier::new(count)), channel());
            for thread in &threads[..count] {
                let job = Job { payload, unmeasured, events, together: together.clone(), done: done.clone() };
                thread.send(job).expect("a thread panicked");
            }
            drop(done);
            let ns = times.iter().sum::<f64>() / (events * count as u64) as f64;
            let fired_now = (events + unmeasured) * count as u64;
            fired += fired_now;
            let arrived = before.and_then(|before| Some(tracer.arrived(fired)? - before));
            let arrived = arrived.or_else(|| tracer.arrived_apart(payload, count, events).filter(|_| verb == "check"));
            let arrived = arrived.map_or("-".to_owned(), |n| n.to_string());
            writeln!(output, "{ns} {fired_now} {arrived}").expect("the xtask listens");
        }
    });
}

fn work<T: Tracer>(tracer: &T, jobs: Receiver<Job>) {
    for job in jobs {
        fire::<T>(tracer.thread(), job.payload, job.unmeasured);
        let thread = tracer.thread();
        job.together.wait();
        let begin = Instant::now();
        fire::<T>(thread, job.payload, job.events);
        let ns = begin.elapsed().as_nanos() as f64;
        job.done.send(ns).expect("the conversation goes on");
    }
}

static ARRIVED: AtomicU64 = AtomicU64::new(0);

thread_local! {
    static ARRIVED_HERE: Cell<u64> = const { Cell::new(0) };
}

/// Counts events that arrive in the thread that fires them, without an atomic instruction for each.
pub fn arrived_here() {
    ARRIVED_HERE.set(ARRIVED_HERE.get() + 1);
}

/// Counts events that arrive elsewhere.
pub fn arrived_elsewhere(events: u64) {
    ARRIVED.fetch_add(events, Relaxed);
}

/// Held by a thread whose events are counted by [`arrived_here`].
#[derive(Default)]
pub struct Counted;

impl Drop for Counted {
    fn drop(&mut self) {
        ARRIVED.fetch_add(ARRIVED_HERE.take(), Relaxed);
    }
}

/// What was counted, once it is `expected` or a second has brought no more.
pub fn count(expected: u64) -> u64 {
    let (mut last, mut since) = (ARRIVED.load(Relaxed), Instant::now());
    while last != expected && since.elapsed() < Duration::from_secs(1) {
        sleep(Duration::from_micros(200));
        let now = ARRIVED.load(Relaxed);
        if now != last {
            (last, since) = (now, Instant::now());
        }
    }
    last
}

/// A writer that counts lines in one thread and forgets them.
pub struct Lines;

impl Write for Lines {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        arrived_elsewhere(bytes.iter().filter(|b| **b == b'\n').count() as u64);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
