//! This tracer. Overwrite mode, as in `cargo xtask bench`; `bare`: without the thread's ID.

use compare::Tracer;
use ringtrace::{Context, Session};

#[ringtrace::tracepoint(record)]
fn number(value: u64);

#[ringtrace::tracepoint(record)]
fn mixed(small: u32, large: u64, text: &str);

struct Ringtrace(Session);

impl Tracer for Ringtrace {
    type Thread<'a> = ();

    fn thread(&self) {}

    #[inline(always)]
    fn number((): &mut (), value: u64) {
        number(value);
    }

    #[inline(always)]
    fn mix((): &mut (), small: u32, large: u64, text: &str) {
        mixed(small, large, text);
    }

    fn arrived(&self, _: u64) -> Option<u64> {
        let statistics = self.0.statistics();
        Some(statistics.events - (statistics.lost.total() - statistics.lost.overwritten))
    }
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let directory = tempfile::tempdir()?;
    let mut session = Session::builder("compare").enable("*").overwrite().memory(64 << 20);
    if std::env::args().nth(1).as_deref() != Some("bare") {
        session = session.context(Context::VTID);
    }
    compare::serve(&Ringtrace(session.output(directory.path().join("trace")).start()?));
    Ok(())
}
