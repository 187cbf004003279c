//! The time of day is set while a program is recorded: stamps go on, and a later trace says the new time.
#![expect(unsafe_code, reason = "stands in for the C library's clock")]

mod common;

use ringtrace::{Session, tracepoint};
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::{Duration, SystemTime};

#[tracepoint(record)]
fn ticked(number: u64);

/// Seconds by which somebody set the clock.
static STEP: AtomicI64 = AtomicI64::new(0);

/// In place of the C library's, for everything in this program.
///
/// # Safety
///
/// As for clock_gettime(2).
#[unsafe(no_mangle)]
unsafe extern "C" fn clock_gettime(clock: libc::clockid_t, time: *mut libc::timespec) -> libc::c_int {
    // SAFETY: the caller's duty.
    unsafe {
        let result = libc::syscall(libc::SYS_clock_gettime, clock, time) as libc::c_int;
        if result == 0 && clock == libc::CLOCK_REALTIME {
            (*time).tv_sec += STEP.load(Ordering::Relaxed);
        }
        result
    }
}

#[test]
fn stamps_do_not_follow_the_time_of_day() {
    let here = tempfile::tempdir().expect("a directory");
    let start = |name: &str| {
        Session::builder(name).enable("clock_steps:*").memory(2 << 20).output(here.path().join(name)).start().expect("a session")
    };
    let before = SystemTime::now();
    let first = start("first");
    for (round, step) in [0, 3600, -7200, 86_400].into_iter().enumerate() {
        STEP.store(step, Ordering::Relaxed);
        assert!(SystemTime::now().duration_since(before).is_ok() == (step >= 0), "the clock is not the one that was set");
        for number in 0..100 {
            ticked(round as u64 * 100 + number);
        }
        // The clock is compared with the operating system's meanwhile.
        std::thread::sleep(Duration::from_millis(30));
    }
    assert_eq!(first.stop().expect("it stops").events, 400);
    let second = start("second");
    ticked(0);
    second.stop().expect("it stops");
    // In the order of their stamps.
    let contents = common::read_by_both(&here.path().join("first"));
    assert!(contents.numbers("clock_steps:ticked", "number").into_iter().eq(0..400));
    let seconds = |line: &str| -> u64 {
        let digits: Vec<u64> = line[1..9].split(':').map(|n| n.parse().expect("a number")).collect();
        digits[0] * 3600 + digits[1] * 60 + digits[2]
    };
    let (begin, end) = (seconds(&contents.lines[0]), seconds(contents.lines.last().expect("events")));
    assert!((end + 86_400 - begin) % 86_400 < 1800, "{begin} {end}");
    // A day later, as the clock says.
    let offset = |name: &str| -> i64 {
        let metadata = std::fs::read_to_string(here.path().join(name).join("metadata")).expect("text");
        let value = metadata.split_once("offset_s = ").and_then(|(_, rest)| rest.split(';').next());
        value.and_then(|v| v.parse().ok()).expect("the clock's offset")
    };
    assert!((86_300..86_500).contains(&(offset("second") - offset("first"))));
}
