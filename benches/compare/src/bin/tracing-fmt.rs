//! `tracing` with the text subscriber of `tracing-subscriber`; what it writes is discarded.

use compare::{Counted, Tracer};
use std::io;

/// One call for each line.
struct Sink;

impl io::Write for Sink {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        compare::arrived_here();
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

struct Tracing;

impl Tracer for Tracing {
    type Thread<'a> = Counted;

    fn thread(&self) -> Counted {
        Counted
    }

    #[inline(always)]
    fn number(_: &mut Counted, value: u64) {
        tracing::info!(value);
    }

    #[inline(always)]
    fn mix(_: &mut Counted, small: u32, large: u64, text: &str) {
        tracing::info!(small, large, text);
    }

    fn arrived(&self, fired: u64) -> Option<u64> {
        Some(compare::count(fired))
    }
}

fn main() {
    tracing_subscriber::fmt().with_ansi(false).with_writer(|| Sink).init();
    compare::serve(&Tracing);
}
