//! Snapshots of 64 MiB: how long until the trace is complete on tmpfs, and what writers feel of it. None is removed meanwhile.

use super::{Options, rows, show};
use ringtrace::{Receipt, Session};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

/// For rings of 64 MiB in all, and what goes with them.
const MEMORY: u64 = 66 << 20;
const ROUNDS: usize = 21;
/// How long writers are alone before each snapshot.
const ALONE: Duration = Duration::from_millis(50);
/// Events between two looks at what is going on.
const BURST: u64 = 200;

/// What goes on: nobody takes a snapshot, somebody does, it is over.
const BEFORE: usize = 0;
const DURING: usize = 1;
const OVER: usize = 2;

pub(crate) fn run(options: &Options) -> Result<(), Box<dyn std::error::Error>> {
    for threads in [0, 1, 2] {
        let name = if threads == 0 { "snapshot/idle_64M" } else { "snapshot/loaded_64M" };
        if options.takes(name) {
            measure(options, name, threads)?;
        }
    }
    Ok(())
}

fn measure(options: &Options, name: &str, threads: usize) -> Result<(), Box<dyn std::error::Error>> {
    let rounds = options.rounds(ROUNDS);
    let directory = tempfile::tempdir_in("/dev/shm")?;
    let session = Session::builder("flight")
        .enable("*::number")
        .overwrite()
        .memory(if options.short { MEMORY / 8 } else { MEMORY })
        .keep(2 * rounds);
    let session = session.output(directory.path().join("t")).start()?;
    // The rings of both CPUs are full.
    let full = || session.statistics().lost.overwritten > 12_000_000;
    std::thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                while !full() {
                    (0..100_000).for_each(rows::fire);
                }
            });
        }
    });
    let phase = AtomicUsize::new(BEFORE);
    // CPU time and events of all writers, by phase.
    let write = || {
        let (mut ns, mut events) = ([0.0; 2], [0_u64; 2]);
        let (mut now, mut cpu) = (BEFORE, rows::thread_cpu_ns());
        loop {
            (0..BURST).for_each(rows::fire);
            events[now] += BURST;
            let next = phase.load(Ordering::Relaxed);
            if next != now {
                let before = std::mem::replace(&mut cpu, rows::thread_cpu_ns());
                ns[now] += cpu - before;
                if next == OVER {
                    return (ns, events);
                }
                now = next;
            }
        }
    };
    let taken = std::thread::scope(|scope| -> Result<_, ringtrace::Error> {
        let writers: Vec<_> = (0..threads).map(|_| scope.spawn(write)).collect();
        let mut snapshots = Vec::new();
        let taken: Result<(), _> = (0..rounds).try_for_each(|_| {
            std::thread::sleep(ALONE);
            phase.store(DURING, Ordering::Relaxed);
            let (begin, cpu) = (Instant::now(), rows::thread_cpu_ns());
            let receipt = session.snapshot("bench");
            let figures = (begin.elapsed().as_secs_f64() * 1e3, (rows::thread_cpu_ns() - cpu) / 1e6);
            phase.store(BEFORE, Ordering::Relaxed);
            snapshots.push((figures, receipt?));
            Ok(())
        });
        phase.store(OVER, Ordering::Relaxed);
        let writers: Vec<_> = writers.into_iter().map(|w| w.join().expect("a writer panicked")).collect();
        taken.map(|()| (snapshots, writers))
    });
    let (snapshots, writers) = taken?;
    let of = |figure: fn(&((f64, f64), Receipt)) -> f64| {
        let mut all: Vec<f64> = snapshots.iter().map(figure).collect();
        all.sort_by(f64::total_cmp);
        all[all.len() / 2]
    };
    let cost = |phase: usize| {
        let ns: f64 = writers.iter().map(|(ns, _)| ns[phase]).sum();
        ns / writers.iter().map(|(_, events)| events[phase]).sum::<u64>() as f64
    };
    let mut figures = vec![
        ("ms", of(|(figures, _)| figures.0)),
        ("ms_cpu", of(|(figures, _)| figures.1)),
        ("mib", of(|(_, receipt)| receipt.bytes as f64) / f64::from(1 << 20)),
    ];
    if threads > 0 {
        let overwritten = of(|(_, receipt)| receipt.overwritten as f64 / (receipt.events + receipt.overwritten) as f64);
        figures.extend([
            ("ns_event", cost(BEFORE)),
            ("ns_event_during", cost(DURING)),
            ("x_during", cost(DURING) / cost(BEFORE)),
            ("overwritten", overwritten),
        ]);
    }
    show(options, name, threads, &figures);
    Ok(())
}
