//! `toggle/10000`: all tracepoints of a program that has 10 000, enabled and disabled by one call each.
//!
//! `many [--json]`; rows are those of `cargo xtask bench`, which runs it.

use ringtrace::{Session, registry};
use std::time::Instant;

macro_rules! ten {
    ($inner:ident $(, $rest:ident)*) => {
        pub mod a { $inner!($($rest),*); }
        pub mod b { $inner!($($rest),*); }
        pub mod c { $inner!($($rest),*); }
        pub mod d { $inner!($($rest),*); }
        pub mod e { $inner!($($rest),*); }
        pub mod f { $inner!($($rest),*); }
        pub mod g { $inner!($($rest),*); }
        pub mod h { $inner!($($rest),*); }
        pub mod i { $inner!($($rest),*); }
        pub mod j { $inner!($($rest),*); }
    };
}

macro_rules! one {
    () => {
        #[ringtrace::tracepoint(record)]
        #[allow(dead_code, reason = "it is there to be one of many")]
        pub fn site(value: u64);
    };
}

ten!(ten, ten, ten, one);

const COUNT: usize = 10_000;
const REPETITIONS: usize = 31;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let directory = tempfile::tempdir()?;
    let session = Session::builder("many").memory(16 << 20).output(directory.path().join("t")).start()?;
    let on = || registry::tracepoints().iter().filter(|t| t.gate.is_on()).count();
    let (mut enabled, mut disabled) = (Vec::new(), Vec::new());
    for _ in 0..REPETITIONS {
        let begin = Instant::now();
        session.enable("many:*")?;
        enabled.push(begin.elapsed().as_nanos() as f64 / 1e3);
        assert_eq!(on(), COUNT);
        let begin = Instant::now();
        session.disable("many:*")?;
        disabled.push(begin.elapsed().as_nanos() as f64 / 1e3);
        assert_eq!(on(), 0);
    }
    let [enabled, disabled] = [enabled, disabled].map(|mut times| {
        times.sort_by(f64::total_cmp);
        times[REPETITIONS / 2]
    });
    if std::env::args().any(|a| a == "--json") {
        println!(r#"{{"name":"toggle/{COUNT}","threads":1,"us_enable":{enabled},"us_disable":{disabled}}}"#);
    } else {
        println!("{:<28} {:>3}{enabled:>11.3} us_enable{disabled:>11.3} us_disable", format_args!("toggle/{COUNT}"), 1);
    }
    Ok(())
}
