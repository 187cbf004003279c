//! `tracing` with the text subscriber and the `non_blocking` writer of `tracing-appender`; its thread discards the lines.

use compare::{Lines, Tracer};

struct Tracing;

impl Tracer for Tracing {
    type Thread<'a> = ();

    /// Of its channel of 128 000 lines, with two threads.
    const MOST: u64 = 40_000;

    fn thread(&self) {}

    #[inline(always)]
    fn number((): &mut (), value: u64) {
        tracing::info!(value);
    }

    #[inline(always)]
    fn mix((): &mut (), small: u32, large: u64, text: &str) {
        tracing::info!(small, large, text);
    }

    fn arrived(&self, fired: u64) -> Option<u64> {
        Some(compare::count(fired))
    }
}

fn main() {
    let (writer, _guard) = tracing_appender::non_blocking(Lines);
    tracing_subscriber::fmt().with_ansi(false).with_writer(writer).init();
    compare::serve(&Tracing);
}
