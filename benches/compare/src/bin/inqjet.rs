//! `inqjet`, a deferred logger: the caller copies the arguments, its thread formats them, and discards the lines. `log`: through
//! the facade, which formats in the caller.

use compare::{Lines, Tracer};
use inqjet::{BackpressureMode, ColorMode, InqJetBuilder, LevelFilter};

struct InqJet;

impl Tracer for InqJet {
    type Thread<'a> = ();

    /// What its ring holds, with two threads.
    const MOST: u64 = 100_000;

    fn thread(&self) {}

    #[inline(always)]
    fn number((): &mut (), value: u64) {
        inqjet::info!("number {}", value);
    }

    #[inline(always)]
    fn mix((): &mut (), small: u32, large: u64, text: &str) {
        inqjet::info!("mixed {} {} {}", small, large, text);
    }

    fn arrived(&self, fired: u64) -> Option<u64> {
        Some(compare::count(fired))
    }
}

struct Log;

impl Tracer for Log {
    type Thread<'a> = ();

    const MOST: u64 = InqJet::MOST;

    fn thread(&self) {}

    #[inline(always)]
    fn number((): &mut (), value: u64) {
        log::info!("number {value}");
    }

    #[inline(always)]
    fn mix((): &mut (), small: u32, large: u64, text: &str) {
        log::info!("mixed {small} {large} {text}");
    }

    fn arrived(&self, fired: u64) -> Option<u64> {
        Some(compare::count(fired))
    }
}

fn main() {
    let _guard = InqJetBuilder::default()
        .with_writer(Lines)
        .with_log_level(LevelFilter::Info)
        .with_buffer_size(32 << 20)
        .with_color_mode(ColorMode::Never)
        .with_backpressure(BackpressureMode::Backoff)
        .build()
        .expect("the first logger");
    match std::env::args().nth(1).as_deref() {
        Some("log") => compare::serve(&Log),
        _ => compare::serve(&InqJet),
    }
}
