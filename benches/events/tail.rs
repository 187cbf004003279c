//! How long single events take: a histogram of many, changes of sub-buffer included.

use super::{Options, pin, rows, show};
use ringtrace::Session;
use std::time::Instant;

const EVENTS: u64 = 10_000_000;

#[cfg(target_arch = "x86_64")]
fn now() -> u64 {
    // SAFETY: x86-64 always has the instruction.
    #[expect(unsafe_code, reason = "a time stamp that costs little")]
    unsafe {
        core::arch::x86_64::_rdtsc()
    }
}

#[cfg(not(target_arch = "x86_64"))]
fn now() -> u64 {
    use std::sync::OnceLock;
    static BEGIN: OnceLock<Instant> = OnceLock::new();
    BEGIN.get_or_init(Instant::now).elapsed().as_nanos() as u64
}

pub(crate) fn run(options: &Options) -> Result<(), Box<dyn std::error::Error>> {
    if !options.takes("tail/u64") {
        return Ok(());
    }
    let events = options.amount(EVENTS);
    let directory = tempfile::tempdir()?;
    let session =
        Session::builder("tail").enable("*::number").overwrite().memory(64 << 20).output(directory.path().join("t")).start()?;
    // On a thread of its own, which alone is pinned.
    let (mut ticks, ns_per_tick) = std::thread::scope(|scope| {
        let measured = scope.spawn(|| {
            pin();
            (0..1_000_000).for_each(rows::fire);
            let mut ticks = vec![0_u32; events as usize];
            let (begin, first) = (Instant::now(), now());
            for (number, place) in ticks.iter_mut().enumerate() {
                let before = now();
                rows::fire(number as u64);
                *place = u32::try_from(now().wrapping_sub(before)).unwrap_or(u32::MAX);
            }
            let ns_per_tick = begin.elapsed().as_nanos() as f64 / now().wrapping_sub(first) as f64;
            (ticks, ns_per_tick)
        });
        measured.join().expect("the measuring thread panicked")
    });
    let statistics = session.stop()?;
    if statistics.events + statistics.lost.overwritten < events {
        return Err(format!("tail/u64: events are missing: {statistics}").into());
    }
    ticks.sort_unstable();
    let at = |share: f64| f64::from(ticks[((events - 1) as f64 * share) as usize]) * ns_per_tick;
    let figures =
        [("ns_p50", at(0.5)), ("ns_p99", at(0.99)), ("ns_p99_9", at(0.999)), ("ns_p99_99", at(0.9999)), ("ns_max", at(1.0))];
    show(options, "tail/u64", 1, &figures);
    Ok(())
}
