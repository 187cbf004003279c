//! The program that `cargo xtask bench-control` controls: one with 1 000 tracepoints.
//!
//! ```text
//! control start [--init] [--threads N]     does nothing but start and end
//! control watch N                          prints, for each line it reads, when N threads saw what the line says:
//!                                          `all`: every tracepoint on; `one`: the first event recorded; `none`: all off
//! ```
//!
//! Times are CLOCK_MONOTONIC, in nanoseconds.

#![allow(dead_code, reason = "most of the tracepoints are there to be many")]

use ringtrace::registry;
use std::time::Duration;

macro_rules! ten {
    ($inner:ident $(, $rest:ident)*) => {
        pub(crate) mod a { $inner!($($rest),*); }
        pub(crate) mod b { $inner!($($rest),*); }
        pub(crate) mod c { $inner!($($rest),*); }
        pub(crate) mod d { $inner!($($rest),*); }
        pub(crate) mod e { $inner!($($rest),*); }
        pub(crate) mod f { $inner!($($rest),*); }
        pub(crate) mod g { $inner!($($rest),*); }
        pub(crate) mod h { $inner!($($rest),*); }
        pub(crate) mod i { $inner!($($rest),*); }
        pub(crate) mod j { $inner!($($rest),*); }
    };
}

macro_rules! one {
    () => {
        #[ringtrace::tracepoint(record)]
        pub(crate) fn fired(number: u64);
    };
}

ten!(ten, ten, one);

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let number = |name: &str| {
        let at = arguments.iter().position(|a| a == name)?;
        arguments.get(at + 1)?.parse::<usize>().ok()
    };
    match arguments.first().map(String::as_str) {
        Some("start") => start(arguments.iter().any(|a| a == "--init"), number("--threads").unwrap_or(0)),
        Some("watch") => watch(number("watch").unwrap_or(1)),
        // `cargo bench` runs every benchmark.
        _ => println!("this one is run by `cargo xtask bench-control`"),
    }
}

fn start(init: bool, threads: usize) {
    let (begin, begun) = std::sync::mpsc::channel();
    for _ in 0..threads {
        let begin = begin.clone();
        std::thread::spawn(move || {
            let _ = begin.send(());
            loop {
                std::thread::park();
            }
        });
    }
    begun.into_iter().take(threads).count();
    if init {
        ringtrace::init();
    }
    assert!(registry::tracepoints().len() >= 1000);
}

fn watch(threads: usize) {
    ringtrace::init();
    println!("ready");
    for line in std::io::stdin().lines().map_while(Result::ok) {
        let is_seen: fn() -> bool = match line.as_str() {
            "all" => || registry::tracepoints().iter().all(|t| t.gate.is_on()),
            "one" => || {
                a::a::a::fired(0);
                a::a::a::fired::enabled()
            },
            _ => || !registry::tracepoints().iter().any(|t| t.gate.is_on()),
        };
        println!("watching");
        let last = std::thread::scope(|scope| {
            let look = || {
                while !is_seen() {
                    std::thread::sleep(Duration::from_micros(50));
                }
                monotonic_ns()
            };
            let watching: Vec<_> = (0..threads).map(|_| scope.spawn(look)).collect();
            watching.into_iter().filter_map(|t| t.join().ok()).max()
        });
        println!("{}", last.unwrap_or(0));
    }
}

fn monotonic_ns() -> u64 {
    let mut now = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: the structure is written by the call.
    #[expect(unsafe_code, reason = "clock_gettime")]
    unsafe {
        libc::clock_gettime(libc::CLOCK_MONOTONIC, &raw mut now)
    };
    now.tv_sec as u64 * 1_000_000_000 + now.tv_nsec as u64
}
