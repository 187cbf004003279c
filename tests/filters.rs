//! Rules record exactly the events that their filters and limits take, and count the others.

mod common;

use common::{alone, read, read_by_both};
use ringtrace::{Event, Field, Session, probe, tracepoint};
use std::path::Path;

#[derive(Clone, Copy, Debug, PartialEq, Field)]
enum Reason {
    Lru,
    Capacity,
    Manual = -3,
}

#[derive(Clone, Copy, Debug, Field)]
struct Page<'a> {
    id: u32,
    file: &'a str,
}

#[derive(Clone, Copy, Debug, Field)]
enum Shape<'a> {
    Point,
    Circle { radius: f32, name: &'a str },
}

/// An event with most kinds of fields.
#[derive(Clone, Copy, Debug, Event)]
struct Sample<'a> {
    seq: u64,
    signed: i16,
    ratio: f64,
    dirty: bool,
    letter: char,
    path: &'a str,
    reason: Reason,
    owner: Option<u32>,
    page: Option<Page<'a>>,
    shape: Shape<'a>,
    #[field(sensitive)]
    secret: u64,
    #[field(debug)]
    shown: (u8, u8),
}

#[tracepoint]
fn sample(sample: &Sample<'_>);

#[probe(sample)]
fn record_sample<'a>(sample: &Sample<'a>) -> Sample<'a> {
    *sample
}

/// 24 bytes of numbers.
#[tracepoint(record)]
fn number(seq: u64, key: u64, small: i32);

/// Without the fields of the others.
#[tracepoint(record)]
fn other(unlike: u64);

#[tracepoint]
fn action(n: u64);

#[probe(action)]
fn act(_n: u64) {}

const COUNT: u64 = 400;

fn samples() -> impl Iterator<Item = Sample<'static>> {
    (0..COUNT).map(|seq| Sample {
        seq,
        signed: seq as i16 * 31 - 3000,
        ratio: seq as f64 / 16.0 - 5.0,
        dirty: seq % 3 == 0,
        letter: ['a', 'ñ', 'z'][seq as usize % 3],
        path: ["/var/a.db", "/tmp/b.txt", "-", "ü"][seq as usize % 4],
        reason: [Reason::Lru, Reason::Capacity, Reason::Manual][seq as usize % 3],
        owner: (seq % 5 < 2).then_some(seq as u32),
        page: (seq % 7 > 0).then_some(Page { id: seq as u32 * 2, file: if seq % 2 == 0 { "x.db" } else { "y" } }),
        shape: if seq % 4 == 0 { Shape::Point } else { Shape::Circle { radius: seq as f32 / 8.0, name: "disc" } },
        secret: seq * 3,
        shown: (1, 2),
    })
}

fn session(rule: &str, directory: &Path) -> Session {
    let builder =
        Session::builder(&format!("s{}", directory.display()).replace('/', "-")[..10.min(1 + directory.as_os_str().len())]);
    builder.enable(rule).output(directory.join("trace")).start().unwrap_or_else(|e| panic!("{e}"))
}

type Predicate = fn(&Sample<'_>) -> bool;

#[test]
fn filters_take_what_they_say() {
    let _alone = alone();
    let filters: [(&str, Predicate); 30] = [
        ("seq > 100", |s| s.seq > 100),
        ("seq != 7", |s| s.seq != 7),
        ("100 >= seq", |s| s.seq <= 100),
        ("signed < -2K", |s| s.signed < -2048),
        ("seq - signed < 0 && seq % 2 == 1", |s| (s.seq as i64) < i64::from(s.signed) && s.seq % 2 == 1),
        ("ratio >= 2.5", |s| s.ratio >= 2.5),
        ("ratio < 3", |s| s.ratio < 3.0),
        ("ratio != 3", |s| s.ratio != 3.0),
        ("3 > ratio", |s| s.ratio < 3.0),
        ("ratio == 3", |s| s.ratio == 3.0),
        ("ratio * 2 == seq / 8 - 10", |s| s.ratio * 2.0 == (s.seq / 8) as f64 - 10.0),
        ("dirty", |s| s.dirty),
        ("!dirty && seq & 0x6", |s| !s.dirty && s.seq & 6 != 0),
        ("letter == \"ñ\"", |s| s.letter == 'ñ'),
        ("letter ~ \"[za]\" || letter < \"b\"", |s| s.letter == 'a'),
        ("path ~ \"*.db\"", |s| s.path.ends_with(".db")),
        ("path !~ \"*.db\" && path != \"-\"", |s| !s.path.ends_with(".db") && s.path != "-"),
        ("path ~ \"?\"", |s| s.path == "ü" || s.path == "-"),
        ("reason == \"Lru\"", |s| s.reason == Reason::Lru),
        ("reason != \"Lru\" && reason < 0", |s| s.reason == Reason::Manual),
        ("reason ~ \"*a*\"", |s| s.reason != Reason::Lru),
        ("has(owner)", |s| s.owner.is_some()),
        ("owner != 5", |s| s.owner.is_some_and(|o| o != 5)),
        ("!(owner == 5)", |s| s.owner != Some(5)),
        ("page.id > 300 && page.file == \"x.db\"", |s| s.page.is_some_and(|p| p.id > 300 && p.file == "x.db")),
        (
            "shape == \"Circle\" && shape.Circle.radius > 20.5",
            |s| matches!(s.shape, Shape::Circle { radius, .. } if radius > 20.5),
        ),
        ("shape.Circle.name ~ \"d*\" || seq == 0", |s| matches!(s.shape, Shape::Circle { .. }) || s.seq == 0),
        ("$ctx.nesting == 0 && $ctx.vpid > 0 && seq < 3", |s| s.seq < 3),
        ("false", |_| false),
        ("seq / (seq - 5) > 1", |s| s.seq > 5 && s.seq / (s.seq - 5) > 1),
    ];
    for (filter, predicate) in filters {
        let directory = tempfile::tempdir().expect("a directory");
        let session = session(&format!("*:sample if {filter}"), directory.path());
        samples().for_each(|s| sample(&s));
        let statistics = session.stop().unwrap_or_else(|e| panic!("{e}"));
        let expected: Vec<u64> = samples().filter(predicate).map(|s| s.seq).collect();
        assert!(filter == "false" || (!expected.is_empty() && expected.len() < COUNT as usize), "{filter} tells nothing apart");
        let contents = read_by_both(&directory.path().join("trace"));
        assert_eq!(contents.numbers("filters:sample", "seq"), expected, "{filter}");
        assert_eq!(statistics.events, expected.len() as u64, "{filter}");
        assert_eq!(statistics.filtered, COUNT - statistics.events, "{filter}");
        assert_eq!((statistics.limited, statistics.lost.total()), (0, 0), "{filter}");
        if expected.is_empty() {
            assert_eq!(statistics.bytes, 0, "a rejected event leaves no trace");
        }
    }
}

#[test]
fn sessions_filter_by_themselves() {
    let _alone = alone();
    let directory = tempfile::tempdir().expect("a directory");
    let start = |name: &str, rule: &str| {
        Session::builder(name).enable(rule).output(directory.path().join(name)).start().unwrap_or_else(|e| panic!("{e}"))
    };
    let all = start("all", "*:number; *:sample");
    let some = start("some", "*:number if key > 5; *:sample if dirty");
    let few = start("few", "*:number if small == -1");
    for seq in 0..100 {
        number(seq, seq % 10, -((seq % 4) as i32));
    }
    samples().for_each(|s| sample(&s));
    few.enable("*:number if small == -2").unwrap_or_else(|e| panic!("{e}"));
    for seq in 100..200 {
        number(seq, seq % 10, -((seq % 4) as i32));
    }
    some.enable("*:number").unwrap_or_else(|e| panic!("{e}"));
    number(200, 0, 0);
    let sequence = |session: &Session, name: &str| {
        session.stop().unwrap_or_else(|e| panic!("{e}"));
        read(&directory.path().join(name)).numbers("filters:number", "seq")
    };
    assert_eq!(sequence(&all, "all"), (0..=200).collect::<Vec<_>>());
    assert_eq!(sequence(&some, "some"), (0..=200).filter(|n| n % 10 > 5 || *n == 200).collect::<Vec<_>>());
    assert_eq!(sequence(&few, "few"), (0..200).filter(|n| n % 4 == if *n < 100 { 1 } else { 2 }).collect::<Vec<_>>());
    // Of rules that were replaced, too.
    assert_eq!(few.statistics().filtered, 151);
    assert_eq!(some.statistics().filtered, 120 + COUNT - COUNT.div_ceil(3));
    assert_eq!(all.statistics().filtered, 0);
}

#[test]
fn every_nth_event_is_recorded() {
    let _alone = alone();
    let directory = tempfile::tempdir().expect("a directory");
    let session = session("*:number 1 in 10 if key == 0", directory.path());
    const THREADS: u64 = 3;
    const EACH: u64 = 20_000;
    std::thread::scope(|scope| {
        for _ in 0..THREADS {
            scope.spawn(|| (0..EACH).for_each(|seq| number(seq, seq % 2, 0)));
        }
    });
    let statistics = session.stop().unwrap_or_else(|e| panic!("{e}"));
    let passed = THREADS * EACH / 2;
    assert_eq!(statistics.filtered, passed);
    assert_eq!(statistics.events + statistics.limited + statistics.lost.total(), passed);
    // Each CPU takes its first, and then each tenth.
    let taken = statistics.events + statistics.lost.total();
    let cpus = std::thread::available_parallelism().map_or(1, |n| n.get() as u64);
    assert!(taken >= passed / 10 && taken <= passed / 10 + 2 * cpus, "{taken} of {passed}");
}

#[test]
fn one_key_in_so_many_is_recorded_whole() {
    let _alone = alone();
    let directory = tempfile::tempdir().expect("a directory");
    let start = |name: &str, rule: &str| {
        Session::builder(name).enable(rule).output(directory.path().join(name)).start().unwrap_or_else(|e| panic!("{e}"))
    };
    let (one, two) = (start("one", "*:number 1 in 4 by key"), start("two", "*:number 1 in 4 by key if seq >= 1000"));
    let texts = start("texts", "*:sample 1 in 2 by page.file");
    for seq in 0..4000 {
        number(seq, seq % 1000, 0);
    }
    samples().for_each(|s| sample(&s));
    let statistics = one.stop().unwrap_or_else(|e| panic!("{e}"));
    two.stop().unwrap_or_else(|e| panic!("{e}"));
    assert_eq!(statistics.events + statistics.limited, 4000);
    let keys = |name: &str| read(&directory.path().join(name)).numbers("filters:number", "key");
    let (of_one, of_two) = (keys("one"), keys("two"));
    assert!(of_one.len() > 800 && of_one.len() < 1200, "about a quarter of {}", of_one.len());
    let mut distinct = of_one.clone();
    distinct.sort_unstable();
    distinct.dedup();
    assert_eq!(distinct.len() * 4, of_one.len(), "a key is recorded always or never");
    let again = of_two.iter().filter(|key| distinct.contains(key)).count();
    assert_eq!((again, of_two.len()), (distinct.len() * 3, distinct.len() * 3), "the same keys in every session");
    // An event without the key is left out.
    let statistics = texts.stop().unwrap_or_else(|e| panic!("{e}"));
    assert!(statistics.limited >= COUNT / 7);
    assert_eq!(statistics.events + statistics.limited, COUNT);
}

#[test]
fn at_most_so_many_are_recorded_in_a_second() {
    let _alone = alone();
    let directory = tempfile::tempdir().expect("a directory");
    let begun = std::time::Instant::now();
    let session = session("*:number max 100/s", directory.path());
    let mut fired = 0;
    // Into the third window at least, however long that takes.
    while session.statistics().events <= 200 {
        (0..100).for_each(|seq| number(seq, 0, 0));
        fired += 100;
        std::thread::yield_now();
    }
    let statistics = session.stop().unwrap_or_else(|e| panic!("{e}"));
    let windows = begun.elapsed().as_secs() + 1;
    assert!(statistics.events <= windows * 100, "{} in {windows} windows", statistics.events);
    assert!(windows >= 3, "a window is at least a second");
    assert_eq!(statistics.events + statistics.limited, fired);
    assert_eq!(session.rules()[0].limited, statistics.limited);
}

#[test]
fn a_rule_ends_when_its_time_has_come() {
    let _alone = alone();
    let directory = tempfile::tempdir().expect("a directory");
    let session = session("*:number if key == 1; *:number for 300ms; !*:other for 200ms", directory.path());
    session.enable("!*:other for 1h").unwrap_or_else(|e| panic!("{e}"));
    let remaining = session.rules().iter().map(|r| r.remaining.is_some()).collect::<Vec<_>>();
    assert_eq!(remaining, [false, true, true, true]);
    number(0, 0, 0);
    number(1, 1, 0);
    while session.rules().len() > 2 {
        std::thread::yield_now();
    }
    number(2, 0, 0);
    number(3, 1, 0);
    let statistics = session.stop().unwrap_or_else(|e| panic!("{e}"));
    assert_eq!(read(&directory.path().join("trace")).numbers("filters:number", "seq"), [0, 1, 3]);
    assert_eq!(statistics.filtered, 1);
    let rules: Vec<String> = session.rules().into_iter().map(|r| r.rule).collect();
    assert_eq!(rules, ["*:number if key == 1", "!*:other for 1h"]);
}

#[test]
fn filters_see_the_context() {
    let _alone = alone();
    let gettid = || std::fs::read_link("/proc/thread-self").expect("/proc").file_name().map(|n| n.to_string_lossy().into_owned());
    let here = gettid().expect("a number");
    let program = std::env::args().next().expect("a name");
    let program = Path::new(&program).file_name().expect("a name").to_string_lossy().into_owned();
    let directory = tempfile::tempdir().expect("a directory");
    let rule = format!("*:number if $ctx.vtid == {here} && $ctx.procname == \"{program}\" && $ctx.cpu >= 0 || $ctx.vpid == 0");
    let session = session(&rule, directory.path());
    number(1, 0, 0);
    std::thread::scope(|scope| scope.spawn(|| number(2, 0, 0)).join().expect("it ends"));
    number(3, 0, 0);
    session.stop().unwrap_or_else(|e| panic!("{e}"));
    assert_eq!(read(&directory.path().join("trace")).numbers("filters:number", "seq"), [1, 3]);
}

#[test]
fn rules_that_do_not_fit_are_refused() {
    let _alone = alone();
    let directory = tempfile::tempdir().expect("a directory");
    let start = |rule: &str, sensitive: bool| {
        let builder = Session::builder("refused").enable(rule).output(directory.path().join(rule.replace('/', "")));
        if sensitive { builder.sensitive() } else { builder }.start()
    };
    let message = |rule: &str| {
        let error = start(rule, false).expect_err(rule);
        assert!(error.is_rule(), "{error}");
        error.to_string()
    };
    let unknown = message("number if sequence > 1");
    assert!(unknown.contains("filters:number") && unknown.contains("no field is called `sequence`"), "{unknown}");
    assert!(unknown.contains("seq (integer), key (integer), small (integer)"), "{unknown}");
    assert!(message("sample if secret > 1").contains("sensitive, and this session leaves sensitive fields out"));
    assert!(message("sample if shown == \"x\"").contains("formatted when it is recorded"));
    assert!(message("number 1 in 5 by request").contains("no field is called `request`"));
    assert!(message("filters:* if nowhere == 1").contains("no field is called `nowhere`"));
    let unknown = message("filters:* if key > 1 || unlikely == 1");
    assert!(
        unknown.contains("no field is called `unlikely`") && unknown.contains("did you mean `unlike`? the fields are: "),
        "{unknown}"
    );
    assert!(message("filters:* if key > 1 && unlike > 1").contains("event classes has all of these fields"));
    start("sample if secret > 1", true).unwrap_or_else(|e| panic!("{e}"));

    // A pattern may match events without the field: those are not recorded, and the session says so.
    let session = start("filters:* if key > 1", false).unwrap_or_else(|e| panic!("{e}"));
    let warnings = session.warnings().join("\n");
    let told = "2 events, such as filters:other, are not recorded by `filters:* if key > 1`: no field is called `key`";
    assert!(warnings.contains(told) || warnings.contains(&told.replace("other", "sample")), "{warnings}");
    assert_eq!(session.warnings().len(), 2, "{warnings}");
    assert!(warnings.contains("filters:action is not run"), "{warnings}");
    action(1);
    assert!(!action::enabled() && !other::enabled() && number::enabled());
    other(1);
    number(1, 2, 0);
    assert_eq!(session.stop().unwrap_or_else(|e| panic!("{e}")).events, 1);
    assert!(session.enable("number if nothing").is_err_and(|e| e.is_rule()));
    assert!(session.disable("number if key > 1").is_err_and(|e| e.is_rule()));
    assert_eq!(session.rules().len(), 1, "nothing has changed");
    let _ = (Page { id: 0, file: "" }.id, Shape::Point);
}

#[test]
fn events_are_chosen_by_the_fields_that_they_have() {
    let _alone = alone();
    let directory = tempfile::tempdir().expect("a directory");
    let session = session("filters:* if unlike > 1 || key > 1 && seq == 1", directory.path());
    assert!(
        session.warnings().iter().all(|w| !w.contains("filters:other") && !w.contains("filters:number")),
        "no part of it fits"
    );
    for n in 0..4 {
        number(1, n, 0);
        other(n);
    }
    assert_eq!(session.stop().unwrap_or_else(|e| panic!("{e}")).events, 4);
    let contents = read_by_both(&directory.path().join("trace"));
    assert_eq!(contents.numbers("filters:number", "key"), [2, 3]);
    assert_eq!(contents.numbers("filters:other", "unlike"), [2, 3]);
}
