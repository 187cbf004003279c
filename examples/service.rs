//! A service that does its work until its standard input ends: a program to try the `ringtrace` command on.
//!
//! ```text
//! cargo run --release --example service        in one terminal; Enter ends it
//! ringtrace ps                                 in another
//! ```
//!
//! docs/control.md goes through what can be done with it. At the end it says how often each thing happened, which a trace of
//! all events must agree with.

use ringtrace::{Event, Field, probe, tracepoint};
use std::io::Read as _;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// A request came in.
#[tracepoint(record)]
fn accepted(id: u64, path: &str);

/// A request was answered.
#[tracepoint]
fn answered(id: u64, path: &str, outcome: Outcome, bytes: u32, took: Duration);

/// A thread had nothing to do. Nobody has written a probe for it.
#[tracepoint]
fn idled(worker: u32);

#[derive(Clone, Copy, Field)]
enum Outcome {
    Found,
    Missing,
    Failed,
}

#[derive(Event)]
struct Answered<'a> {
    id: u64,
    path: &'a str,
    outcome: Outcome,
    #[field(unit = "B")]
    bytes: u32,
    took: Duration,
}

#[probe(answered)]
fn record_answered(id: u64, path: &str, outcome: Outcome, bytes: u32, took: Duration) -> Answered<'_> {
    Answered { id, path, outcome, bytes, took }
}

#[derive(Event)]
struct Failed<'a> {
    id: u64,
    path: &'a str,
}

/// Only what went wrong, at a level that says so.
#[probe(answered, name = "service:failed", level = Warning)]
fn record_failed<'a>(id: u64, path: &'a str, outcome: Outcome, _bytes: u32, _took: Duration) -> Option<Failed<'a>> {
    matches!(outcome, Outcome::Failed).then_some(Failed { id, path })
}

const WORKERS: u32 = 2;
const PATHS: [&str; 4] = ["/", "/index.html", "/login", "/favicon.ico"];
/// Requests that a worker answers before it rests, so that the machine has time for others.
const BATCH: u64 = 20;

static REQUESTS: AtomicU64 = AtomicU64::new(0);
static FAILURES: AtomicU64 = AtomicU64::new(0);
static IS_OVER: AtomicBool = AtomicBool::new(false);

fn main() {
    ringtrace::init();
    println!("serving as process {}", std::process::id());
    std::thread::scope(|scope| {
        for number in 0..WORKERS {
            let worker = std::thread::Builder::new().name(format!("worker-{number}"));
            worker.spawn_scoped(scope, move || work(number)).expect("a thread");
        }
        // The end of the input, or a line.
        let _ = std::io::stdin().read(&mut [0]);
        IS_OVER.store(true, Ordering::Relaxed);
    });
    println!("{} requests, {} of them failed", REQUESTS.load(Ordering::Relaxed), FAILURES.load(Ordering::Relaxed));
}

fn work(number: u32) {
    while !IS_OVER.load(Ordering::Relaxed) {
        for _ in 0..BATCH {
            request(REQUESTS.fetch_add(1, Ordering::Relaxed));
        }
        idled(number);
        std::thread::sleep(Duration::from_millis(2));
    }
}

fn request(id: u64) {
    let begin = Instant::now();
    let path = PATHS[(id % PATHS.len() as u64) as usize];
    accepted(id, path);
    let bytes = (id.wrapping_mul(0x9E37_79B9) >> 7) as u32 % 10_000;
    let outcome = match bytes {
        0..100 => Outcome::Failed,
        100..1_000 => Outcome::Missing,
        _ => Outcome::Found,
    };
    if matches!(outcome, Outcome::Failed) {
        FAILURES.fetch_add(1, Ordering::Relaxed);
    }
    answered(id, path, outcome, bytes, begin.elapsed());
}
