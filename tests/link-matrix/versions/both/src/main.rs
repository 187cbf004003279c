//! One program with two versions of ringtrace: each has a registry of its own. With `live`, each has a run time, and both events are
//! fired as often as each line of the input says.

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
    if std::env::args().nth(1).is_some_and(|word| word == "live") {
        return live();
    }
    older::fired(1);
    newer::fired(2);
    list!("older", older_ringtrace);
    list!("newer", newer_ringtrace);
}

fn live() {
    older_ringtrace::init();
    newer_ringtrace::init();
    println!("ready");
    for count in std::io::stdin().lines().map_while(Result::ok) {
        for id in 0..count.parse().unwrap_or(0) {
            older::fired(id);
            newer::fired(1000 + id);
        }
        println!("done");
    }
}
