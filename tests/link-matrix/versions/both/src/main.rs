//! One program with two versions of ringtrace: each has a registry of its own.

macro_rules! list {
    ($whose:literal, $ringtrace:ident) => {
        for tracepoint in $ringtrace::__private::TRACEPOINTS {
            println!(concat!($whose, ": tracepoint {}"), tracepoint.name);
        }
        for probe in $ringtrace::__private::PROBES {
            println!(concat!($whose, ": probe {}"), probe.name());
        }
    };
}

fn main() {
    older::fired(1);
    newer::fired(2);
    list!("older", older_ringtrace);
    list!("newer", newer_ringtrace);
}
