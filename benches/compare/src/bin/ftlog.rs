//! `log` with `ftlog`, whose thread discards the lines.

use compare::{Lines, Tracer};

struct Log;

impl Tracer for Log {
    type Thread<'a> = ();

    /// Its queue is without bound.
    const MOST: u64 = 40_000;

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
    let _guard = ftlog::builder().unbounded().utc().root(Lines).try_init().expect("the first logger");
    compare::serve(&Log);
}
