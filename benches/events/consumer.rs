//! Recording to a file at a given rate: what the consumer's thread costs, and whether anything is discarded.

use super::{Options, rows, show};
use ringtrace::Session;
use std::time::{Duration, Instant};

/// Events in a second, all threads together.
const RATE: f64 = 20e6;
/// Memory of a session whose rings take a burst whole, and bytes of the burst.
const ROOM: u64 = 1 << 30;
const BURST_BYTES: u64 = 400 << 20;

/// A block of what somebody else made.
#[ringtrace::tracepoint(record)]
fn block(bytes: &[u8]);

/// Events between two looks at the clock.
const BURST: u64 = 1000;

pub(crate) fn run(options: &Options) -> Result<(), Box<dyn std::error::Error>> {
    for threads in [1, 2] {
        if options.takes("consumer/mix_20M") {
            record(options, threads)?;
        }
    }
    if options.takes("consumer/burst") {
        burst(options)?;
    }
    Ok(())
}

/// Delivers a burst that comes more quickly than anybody can write it, from rings that take it whole.
fn burst(options: &Options) -> Result<(), Box<dyn std::error::Error>> {
    let directory = tempfile::tempdir()?;
    let trace = directory.path().join("t");
    let session = Session::builder("burst")
        .enable("*::block")
        .memory(if options.short { ROOM / 32 } else { ROOM })
        .output(&trace)
        .start()?;
    // Rings of this size are allocated by and by.
    std::thread::sleep(Duration::from_secs(2));
    let burst = options.amount(BURST_BYTES);
    let bytes = std::hint::black_box([0x5a; 4000]);
    (0..burst / bytes.len() as u64).for_each(|_| block(&bytes));
    let written =
        || -> std::io::Result<u64> { std::fs::read_dir(&trace)?.try_fold(0, |sum, file| Ok(sum + file?.metadata()?.len())) };
    // The consumer sleeps for up to 0.1 s while nothing happens. What is left at the end may be in a part that is not full.
    let (first, begin) = loop {
        std::thread::sleep(Duration::from_micros(100));
        match written()? {
            few if few < burst / 20 => {}
            first => break (first, Instant::now()),
        }
    };
    let mut last = first;
    while last < burst / 10 * 9 && begin.elapsed() < Duration::from_secs(20) {
        std::thread::sleep(Duration::from_micros(100));
        last = written()?;
    }
    let gib_per_s = (last - first) as f64 / f64::from(1 << 30) / begin.elapsed().as_secs_f64();
    let statistics = session.stop()?;
    show(options, "consumer/burst", 1, &[("discarded", statistics.lost.total() as f64), ("gib_per_s", gib_per_s)]);
    Ok(())
}

fn record(options: &Options, threads: usize) -> Result<(), Box<dyn std::error::Error>> {
    let directory = tempfile::tempdir()?;
    let session = Session::builder("rate").enable("*::mixed").memory(64 << 20).output(directory.path().join("t")).start()?;
    let duration = Duration::from_millis(if options.long { 10_000 } else { options.amount(2_000) });
    let begin = Instant::now();
    let before = process_cpu_ns();
    let produce = || {
        let cpu = rows::thread_cpu_ns();
        let mut fired = 0_u64;
        while begin.elapsed() < duration {
            let due = (begin.elapsed().as_secs_f64() * RATE / threads as f64) as u64;
            if fired >= due {
                // A program that also does something else: the consumer may have this CPU.
                std::thread::sleep(Duration::from_micros(20));
                continue;
            }
            rows::fire_mixed(fired, BURST);
            fired += BURST;
        }
        (fired, rows::thread_cpu_ns() - cpu)
    };
    let produced: Vec<(u64, f64)> = std::thread::scope(|scope| {
        let threads: Vec<_> = (0..threads).map(|_| scope.spawn(produce)).collect();
        threads.into_iter().map(|t| t.join().expect("a thread of the benchmark panicked")).collect()
    });
    let seconds = begin.elapsed().as_secs_f64();
    let statistics = session.stop()?;
    let all = process_cpu_ns() - before;
    let fired: u64 = produced.iter().map(|(n, _)| n).sum();
    let consumer = all - produced.iter().map(|(_, ns)| ns).sum::<f64>();
    if statistics.events + statistics.lost.total() != fired {
        return Err(format!("consumer/mix_20M: {fired} were fired: {statistics}").into());
    }
    let gib = statistics.bytes as f64 / f64::from(1 << 30);
    let figures = [
        ("events_per_s", fired as f64 / seconds),
        ("discarded", statistics.lost.total() as f64),
        ("gib_per_s", gib / seconds),
        ("cpu_s_per_gib", consumer / 1e9 / gib),
    ];
    show(options, "consumer/mix_20M", threads, &figures);
    Ok(())
}

pub(crate) fn process_cpu_ns() -> f64 {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: writes the structure.
    #[expect(unsafe_code, reason = "clock_gettime")]
    unsafe {
        libc::clock_gettime(libc::CLOCK_PROCESS_CPUTIME_ID, &raw mut time)
    };
    time.tv_sec as f64 * 1e9 + time.tv_nsec as f64
}
