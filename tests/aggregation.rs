//! Aggregations say what a recording of the same run says, under threads, handlers, migration and without sequences.

#![expect(unsafe_code, reason = "signal handlers, affinity")]

mod common;

use common::{SetOnDrop, alone, child, is_child, read};
use ringtrace::{Aggregates, Aggregation, Field, Group, KeyValue, Number, Session, tracepoint};
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

#[derive(Clone, Copy, Debug, Field)]
enum Reason {
    Lru,
    Capacity,
}

#[tracepoint(record)]
fn read_page(table: &str, bytes: u32, delta: i64, ratio: f64, reason: Reason, owner: Option<u16>, dirty: bool);

#[tracepoint(record)]
fn other(bytes: u64);

#[tracepoint(record)]
fn named(name: &str, bytes: u64);

/// Comes in words: an odd place for each number, and a text behind them.
#[tracepoint(record)]
fn small(dirty: bool, delta: i16, bytes: u32, ratio: f32, reason: Reason, table: &str);

/// Comes in words alone.
#[tracepoint(record)]
fn tiny(shard: u8, delta: i64, level: i8);

/// Comes in pieces: texts, and numbers between and behind them, of which the last one may be missing.
#[tracepoint(record)]
fn pair(table: &str, delta: i64, index: &str, level: i8, owner: Option<u16>);

/// Fired by nobody but the thread and its handler.
#[tracepoint(record)]
fn interrupted(value: u64);

const INDICES: [&str; 3] = ["primary", "", "by the name of its owner"];
const TABLES: [&str; 4] = ["users", "orders", "a table with a name of more than thirty-two bytes", ""];

/// Some event; the same for the same number.
fn fire(n: u64) {
    let mixed = n.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 20;
    let table = TABLES[(mixed % 4) as usize];
    let reason = if mixed % 3 == 0 { Reason::Lru } else { Reason::Capacity };
    let delta = (mixed as i64 % 4001) - 2000;
    let owner = (mixed % 5 < 3).then_some((mixed % 7) as u16);
    let bytes = (mixed % 100_000) as u32 >> (mixed % 17);
    read_page(table, bytes, delta, delta as f64 / 8.0, reason, owner, mixed % 2 == 0);
    small(mixed % 2 == 0, delta as i16, bytes, delta as f32 / 8.0, reason, table);
    tiny((mixed % 11) as u8, delta, (mixed % 5) as i8 - 2);
    pair(table, delta, INDICES[(mixed % 3) as usize], (mixed % 5) as i8 - 2, owner);
}

fn keys(group: &Group) -> Vec<String> {
    match &group.keys {
        Some(keys) => keys.iter().map(KeyValue::to_string).collect(),
        None => vec!["(others)".to_owned()],
    }
}

/// Count, sum, least, greatest, and counts of powers of two by their lower bounds.
#[derive(Clone, Debug, Default, PartialEq)]
struct Expected {
    count: u64,
    sum: i128,
    min: i128,
    max: i128,
    powers: BTreeMap<i128, u64>,
}

impl Expected {
    fn add(&mut self, value: i128) {
        (self.min, self.max) = if self.count == 0 { (value, value) } else { (self.min.min(value), self.max.max(value)) };
        self.count += 1;
        self.sum += value;
        let size = value.unsigned_abs();
        let low = if size == 0 { 0 } else { 1_i128 << size.ilog2() };
        *self.powers.entry(if value < 0 { -2 * low } else { low }).or_default() += 1;
    }

    fn of(group: &Group) -> Expected {
        let integer = |number: Option<Number>| match number {
            Some(Number::Integer(value)) => value,
            other => panic!("{other:?}"),
        };
        let figures = &group.figures;
        let powers = group.buckets.iter().map(|b| (b.low.expect("a bound"), b.figures.count)).collect();
        let (sum, min, max) = (integer(figures.sum), integer(figures.min), integer(figures.max));
        Expected { count: figures.count, sum, min, max, powers }
    }
}

/// What a recording says of a field by another one.
fn recorded(
    contents: &common::Contents,
    event: &str,
    field: &str,
    by: impl Fn(&[(String, String)]) -> Vec<String>,
) -> BTreeMap<Vec<String>, Expected> {
    let mut groups: BTreeMap<Vec<String>, Expected> = BTreeMap::new();
    for (_, fields) in contents.payloads.iter().filter(|(name, _)| name.ends_with(event)) {
        let value = fields.iter().find(|(name, _)| name == field).map(|(_, value)| number(value)).expect("the field");
        groups.entry(by(fields)).or_default().add(value);
    }
    groups
}

/// `7`, `Signed(-7)` and the like.
fn number(text: &str) -> i128 {
    let digits: String = text.chars().filter(|c| c.is_ascii_digit() || *c == '-').collect();
    digits.parse().unwrap_or_else(|_| panic!("{text}"))
}

fn field<'f>(fields: &'f [(String, String)], name: &str) -> &'f str {
    fields.iter().find(|(n, _)| n == name).map(|(_, value)| value.as_str()).expect("the field")
}

const THREADS: u64 = 4;
const EACH: u64 = 8_000;

#[test]
fn figures_are_those_of_a_recording() {
    let _alone = alone();
    let directory = tempfile::tempdir().expect("a directory");
    let path = directory.path().join("trace");
    let start = |what: &str| Aggregation::of(what).quantize().start().unwrap_or_else(|e| panic!("{e}"));
    let bytes = start("aggregation:read_page.bytes by table");
    let deltas = start("aggregation:read_page.delta by dirty, reason");
    let some = start("read_page.bytes by reason if delta > 0");
    let ratios = Aggregation::of("read_page.ratio").start().expect("an aggregation");
    let owners = Aggregation::of("read_page.owner").start().expect("an aggregation");
    let small_bytes = start("small.bytes by table, dirty");
    let small_deltas = start("small.delta by reason, table");
    let small_some = start("small.bytes by reason if delta > 0");
    let small_ratios = Aggregation::of("small.ratio by dirty").start().expect("an aggregation");
    let tiny_deltas = start("tiny.delta by level, shard");
    let levels = start("tiny.level");
    let pair_deltas = start("pair.delta by table, index");
    let pair_levels = start("pair.level by owner, index");
    let session = Session::builder("all").enable("aggregation:*").memory(256 << 20).output(&path).start().expect("a session");
    std::thread::scope(|scope| {
        for thread in 0..THREADS {
            scope.spawn(move || (0..EACH).for_each(|i| fire(thread * EACH + i)));
        }
    });
    session.stop().expect("a trace");
    let contents = read(&path);
    assert_eq!((contents.events(), contents.discarded), (4 * THREADS * EACH, 0));

    let found = |aggregates: &Aggregates| -> BTreeMap<Vec<String>, Expected> {
        assert_eq!(aggregates.lost.total(), 0);
        aggregates.groups.iter().map(|group| (keys(group), Expected::of(group))).collect()
    };
    // A table of a longer name has another key.
    let shown = |table: &str| if table.len() > 32 { "long".to_owned() } else { table.to_owned() };
    let short = |groups: BTreeMap<Vec<String>, Expected>| -> BTreeMap<Vec<String>, Expected> {
        groups
            .into_iter()
            .map(|(keys, of)| {
                (keys.iter().map(|key| if key.contains("…#") { "long".to_owned() } else { key.clone() }).collect(), of)
            })
            .collect()
    };
    let by_table = recorded(&contents, "read_page", "bytes", |fields| vec![shown(field(fields, "table"))]);
    assert_eq!(by_table.len(), TABLES.len());
    assert_eq!(short(found(&bytes.read())), by_table);

    let label = |fields: &[(String, String)]| {
        let text = field(fields, "reason");
        ["Lru", "Capacity"]
            .into_iter()
            .find(|label| text.to_lowercase().contains(&label.to_lowercase()))
            .expect("a label")
            .to_lowercase()
    };
    let flag = |fields: &[(String, String)]| field(fields, "dirty").to_owned();
    let lower = |groups: BTreeMap<Vec<String>, Expected>| -> BTreeMap<Vec<String>, Expected> {
        groups.into_iter().map(|(keys, of)| (keys.iter().map(|k| k.to_lowercase()).collect(), of)).collect()
    };
    assert_eq!(
        lower(found(&deltas.read())),
        recorded(&contents, "read_page", "delta", |fields| vec![flag(fields), label(fields)])
    );

    let of =
        |event: &'static str| contents.payloads.iter().filter(move |(name, _)| name.ends_with(event)).map(|(_, fields)| fields);
    let mut positive = BTreeMap::new();
    for fields in of("read_page").filter(|fields| number(field(fields, "delta")) > 0) {
        positive.entry(vec![label(fields)]).or_insert_with(Expected::default).add(number(field(fields, "bytes")));
    }
    for some in [some, small_some] {
        assert_eq!(lower(found(&some.read())), positive);
        assert_eq!(some.read().filtered, THREADS * EACH - positive.values().map(|e| e.count).sum::<u64>());
    }

    let table = |fields: &[(String, String)]| shown(field(fields, "table"));
    let by_both = recorded(&contents, "small", "bytes", |fields| vec![table(fields), flag(fields)]);
    assert_eq!(short(found(&small_bytes.read())), by_both);
    let by_both = recorded(&contents, "small", "delta", |fields| vec![label(fields), table(fields)]);
    assert_eq!(lower(short(found(&small_deltas.read()))), by_both);
    let small_ratios = small_ratios.read().groups;
    assert_eq!(small_ratios.iter().map(|g| g.figures.count).sum::<u64>(), THREADS * EACH);
    let ratios_of = |dirty: &str| {
        of("small").filter(|fields| flag(fields) == dirty).map(|fields| number(field(fields, "delta"))).sum::<i128>()
    };
    for group in &small_ratios {
        assert_eq!(group.figures.sum, Some(Number::Float(ratios_of(&keys(group)[0]) as f64 / 8.0)), "{group}");
    }
    let by_both = recorded(&contents, "tiny", "delta", |fields| {
        ["level", "shard"].into_iter().map(|name| number(field(fields, name)).to_string()).collect()
    });
    assert_eq!(by_both.len(), 55);
    assert_eq!(found(&tiny_deltas.read()), by_both);
    assert_eq!(found(&levels.read()), recorded(&contents, "tiny", "level", |_| vec![]));

    let by_both = recorded(&contents, "pair", "delta", |fields| vec![table(fields), field(fields, "index").to_owned()]);
    assert_eq!(by_both.len(), 12);
    // Where one is too long, the other may be too long for its share.
    let index =
        |key: String| INDICES.into_iter().find(|i| key.contains("…#") && i.starts_with(&key[..8])).map_or(key, str::to_owned);
    let indexed = |groups: BTreeMap<Vec<String>, Expected>| -> BTreeMap<Vec<String>, Expected> {
        groups.into_iter().map(|(keys, of)| (keys.into_iter().map(index).collect(), of)).collect()
    };
    assert_eq!(short(indexed(found(&pair_deltas.read()))), by_both);
    let by_both = recorded(&contents, "pair", "level", |fields| {
        let owner = field(fields, "owner");
        let is_some = owner.contains(|c: char| c.is_ascii_digit());
        vec![if is_some { number(owner).to_string() } else { "-".to_owned() }, field(fields, "index").to_owned()]
    });
    assert_eq!(by_both.len(), 24);
    assert_eq!(found(&pair_levels.read()), by_both);

    let ratio = &ratios.read().groups[0].figures;
    let sum: i128 = of("read_page").map(|fields| number(field(fields, "delta"))).sum();
    // Eighths of small numbers add up exactly, in any order.
    assert_eq!((ratio.count, ratio.sum), (THREADS * EACH, Some(Number::Float(sum as f64 / 8.0))));
    assert_eq!((ratio.min, ratio.max), (Some(Number::Float(-250.0)), Some(Number::Float(250.0))));
    let owners = owners.read();
    assert_eq!(owners.groups[0].figures.count + owners.valueless, THREADS * EACH);
    assert!(owners.valueless > 0 && owners.groups[0].figures.count > 0);
}

#[test]
fn events_are_counted_by_name_and_beyond_the_limit_as_others() {
    let _alone = alone();
    let every = Aggregation::of("aggregation:*").start().expect("an aggregation");
    let few = Aggregation::of("named.bytes by name").keys(3).start().expect("an aggregation");
    let threads = Aggregation::of("other.bytes by vtid").start().expect("an aggregation");
    for round in 0..10 {
        for name in ["a", "b", "c", "d", "e"] {
            named(name, 5);
        }
        other(round);
    }
    let counts: Vec<(String, u64)> = every.read().groups.iter().map(|g| (g.event.clone(), g.figures.count)).collect();
    assert_eq!(counts, [("aggregation:named".to_owned(), 50), ("aggregation:other".to_owned(), 10)]);
    let thread = std::fs::read_link("/proc/thread-self").expect("a thread").display().to_string();
    let ours = &threads.read().groups[0];
    assert_eq!((thread.rsplit('/').next(), ours.figures.count), (keys(ours).first().map(String::as_str), 10));
    let groups = few.read().groups;
    let found: Vec<(Vec<String>, u64)> = groups.iter().map(|g| (keys(g), g.figures.count)).collect();
    assert_eq!(found.iter().map(|(_, count)| count).sum::<u64>(), 50);
    assert_eq!((found.len(), &found[3]), (4, &(vec!["(others)".to_owned()], 20)));
    assert_eq!(groups[3].to_string(), "aggregation:named (others): count 20, sum 100, min 5, avg 5, max 5");
}

#[test]
fn steps_of_equal_size() {
    let _alone = alone();
    let steps = Aggregation::of("other.bytes").lquantize(10..35, 10).start().expect("an aggregation");
    [0, 9, 10, 19, 20, 34, 39, 40, u64::MAX].into_iter().for_each(other);
    let buckets: Vec<_> = steps.read().groups[0].buckets.iter().map(|b| (b.low, b.high, b.figures.count)).collect();
    let expected =
        [(None, Some(10), 2), (Some(10), Some(20), 2), (Some(20), Some(30), 1), (Some(30), Some(40), 2), (Some(40), None, 2)];
    assert_eq!(buckets, expected);
    // The sum does not fit, and says so; the rest does.
    let figures = &steps.read().groups[0].figures;
    assert_eq!((figures.sum, figures.max), (None, Some(Number::Integer(u64::MAX.into()))));
}

#[test]
fn what_is_wrong_is_said() {
    let _alone = alone();
    let problem = |what: &str| {
        let error = Aggregation::of(what).start().expect_err(what);
        assert!(error.is_rule(), "{error}");
        error.to_string()
    };
    for (what, part) in [
        ("", "expected an event"),
        ("read_page.nothing", "no field is called `nothing`"),
        ("read_page by", "a field is missing after `by`"),
        ("read_page.table", "is text, which has no sum"),
        ("read_page by table, table, table, table, table", "at most 4"),
        ("!read_page", "an aggregation of what is left out"),
        ("read_page; small", "one rule is counted at a time"),
        ("read_page by table; small by size", "one rule is counted at a time"),
        ("read_page; !small for 5s", "is of one rule, and what is left out of it"),
        ("aggregation:*; !nothing", "no probe is called `nothing`"),
        ("read_page by table; !smal", "no probe is called `smal`"),
        ("read_page if bytes = 5", "bytes = 5"),
        ("nobody.bytes", "no probe is called `nobody`"),
    ] {
        assert!(problem(what).contains(part), "{what}: {}", problem(what));
    }
    let error = Aggregation::of("other").quantize().start().expect_err("no field");
    assert!(error.to_string().contains("EVENT.FIELD"), "{error}");
    let error = Aggregation::of("other.bytes").lquantize(0..10, 0).start().expect_err("no steps");
    assert!(error.to_string().contains("LOW:HIGH:STEP") && error.to_string().contains("\n  0:10:0\n  ^^^^^^\n"), "{error}");
    let error = Aggregation::of("other.bytes by bytes").keys(100_000_000).start().expect_err("too much");
    assert!(error.is_memory(), "{error}");
    // Where some events have the field, the others are told about.
    let some = Aggregation::of("aggregation:*.bytes").start().expect("an aggregation");
    let warnings = some.warnings();
    assert!(
        matches!(&warnings[..], [one] if one.starts_with("3 events, such as ") && one.contains(" are not in the figures: ")),
        "{warnings:?}"
    );
}

#[test]
fn some_are_left_out() {
    let _alone = alone();
    let some = Aggregation::of("aggregation:*.bytes by bytes; !small; !*page").start().expect("an aggregation");
    let none = Aggregation::of("other;!aggregation:*").start().expect("an aggregation");
    fire(1);
    named("a", 5);
    other(7);
    let found: Vec<(String, u64)> = some.read().groups.iter().map(|g| (g.to_string(), g.figures.count)).collect();
    let groups = [
        "aggregation:named bytes=5: count 1, sum 5, min 5, avg 5, max 5",
        "aggregation:other bytes=7: count 1, sum 7, min 7, avg 7, max 7",
    ];
    assert_eq!(found, groups.map(|group| (group.to_owned(), 1)));
    assert!(none.read().groups.is_empty());
    assert!(!some.warnings().iter().any(|w| w.contains("small")), "{:?}", some.warnings());
}

#[test]
fn texts_of_any_length_are_keys() {
    let _alone = alone();
    let direct = Aggregation::of("small by table, bytes").start().expect("an aggregation");
    let asked = Aggregation::of("named by name, bytes").start().expect("an aggregation");
    // The longest does not fit into a record.
    let texts: Vec<String> = [0, 1, 3, 4, 7, 8, 15, 16, 23, 24, 25, 31, 32, 33, 1000, 65_535, 65_536, 100_000]
        .into_iter()
        .flat_map(|len| ["x".repeat(len), "é".repeat(len / 2)])
        .collect();
    let different: std::collections::BTreeSet<&String> = texts.iter().collect();
    for text in &different {
        small(true, 0, 3, 0.0, Reason::Lru, text);
        small(true, 0, 3, 0.0, Reason::Lru, text);
        named(text, 3);
        named(text, 3);
    }
    for found in [direct.read(), asked.read()] {
        assert_eq!(found.lost.total(), 0);
        assert!(found.groups.iter().all(|g| g.keys.as_ref().is_some_and(|keys| keys[1] == KeyValue::Integer(3))));
        let whole = |g: &Group| match &g.keys.as_ref().expect("keys")[0] {
            KeyValue::Text(text) => Some(text.clone()),
            _ => None,
        };
        let short: std::collections::BTreeSet<String> = found.groups.iter().filter_map(whole).collect();
        assert_eq!(short, texts.iter().filter(|text| text.len() <= 24).cloned().collect());
        assert_eq!(found.groups.iter().map(|g| g.figures.count).sum::<u64>(), 2 * different.len() as u64);
        // A record has at most 65,535 bytes of a text, and so has a key.
        assert!(found.groups.len() >= different.len() - 4, "{} of {}", found.groups.len(), different.len());
    }
}

#[test]
fn a_limit_and_a_time_hold() {
    let _alone = alone();
    let limited = Aggregation::of("other.bytes max 10/s").start().expect("an aggregation");
    let brief = Aggregation::of("other for 100ms").start().expect("an aggregation");
    (0..1000).for_each(other);
    let (found, seen) = (limited.read(), brief.read());
    let count = |found: &Aggregates| found.groups.first().map_or(0, |g| g.figures.count);
    assert_eq!(count(&found) + found.limited, 1000);
    assert!((10..1000).contains(&count(&found)), "{found:?}");
    drop(limited);
    let mut fired = 1000;
    // Its end is the end of the only one.
    while other::enabled() {
        other(1);
        fired += 1;
        std::thread::yield_now();
    }
    other(1);
    assert!(count(&seen) <= count(&brief.read()) && count(&brief.read()) <= fired);
    assert_eq!(count(&brief.read()), count(&brief.read()));
    // The next second comes.
    let limited = Aggregation::of("other.bytes max 10/s").start().expect("an aggregation");
    while count(&limited.read()) <= 10 {
        other(1);
        std::thread::yield_now();
    }
}

#[test]
fn it_ends_when_it_is_dropped() {
    let _alone = alone();
    let first = Aggregation::of("other").start().expect("an aggregation");
    other(1);
    assert!(other::enabled());
    drop(first);
    assert!(!other::enabled());
    assert!(Aggregation::of("other").start().expect("an aggregation").read().groups.is_empty());
}

static HANDLED: AtomicU64 = AtomicU64::new(0);

extern "C" fn on_signal(_: libc::c_int) {
    interrupted(3);
    HANDLED.fetch_add(1, Ordering::SeqCst);
}

/// Moves this thread to a CPU; where it may not, it stays.
fn migrate(cpu: usize) {
    // SAFETY: the set is plain data, of the size that is given.
    unsafe {
        let mut set: libc::cpu_set_t = std::mem::zeroed();
        libc::CPU_SET(cpu, &mut set);
        libc::sched_setaffinity(0, size_of::<libc::cpu_set_t>(), &raw const set);
    }
}

/// Always with the value 3, so that any figures that belong together tell.
fn is_whole(figures: &ringtrace::Figures) -> bool {
    let three = Some(Number::Integer(3));
    figures.sum == Some(Number::Integer(3 * i128::from(figures.count))) && (figures.min, figures.max) == (three, three)
}

/// Threads that are moved between CPUs and interrupted by handlers that fire the same event, and one that reads.
fn whole_under_load() {
    let _alone = alone();
    let values = Aggregation::of("interrupted.value").start().expect("an aggregation");
    let handled = HANDLED.load(Ordering::SeqCst);
    let handler: extern "C" fn(libc::c_int) = on_signal;
    // SAFETY: the handler does what is async-signal-safe: it fires, and adds to an atomic.
    unsafe { libc::signal(libc::SIGUSR2, handler as libc::sighandler_t) };
    let is_over = AtomicBool::new(false);
    let cpus = std::thread::available_parallelism().map_or(1, |n| n.get() as u64);
    let reads = std::thread::scope(|scope| {
        let is_over = &is_over;
        let _end = SetOnDrop(is_over);
        let reader = scope.spawn(|| {
            let mut reads = 0;
            while !is_over.load(Ordering::SeqCst) {
                let aggregates = values.read();
                let groups = &aggregates.groups;
                assert!(groups.iter().all(|g| is_whole(&g.figures)), "{groups:?}");
                reads += 1;
            }
            reads
        });
        let writers: Vec<_> = (0..THREADS)
            .map(|thread| {
                scope.spawn(move || {
                    for i in 0..20_000 {
                        interrupted(3);
                        if i % 500 == 0 {
                            migrate(((thread + i / 500) % cpus) as usize);
                        }
                        if i % 100 == 0 {
                            // SAFETY: there is a handler.
                            unsafe { libc::raise(libc::SIGUSR2) };
                        }
                    }
                })
            })
            .collect();
        writers.into_iter().for_each(|writer| writer.join().expect("a writer"));
        is_over.store(true, Ordering::SeqCst);
        reader.join().expect("a reader")
    });
    let fired = THREADS * 20_000 + HANDLED.load(Ordering::SeqCst) - handled;
    let aggregates = values.read();
    assert!(reads > 0 && is_whole(&aggregates.groups[0].figures));
    assert_eq!(aggregates.groups[0].figures.count + aggregates.lost.total(), fired);
    // Where sequences work, no lock is ever needed in vain; elsewhere, hardly ever.
    assert!(aggregates.lost.total() < fired / 100, "{:?}", aggregates.lost);
}

#[test]
fn no_reader_sees_half_an_event() {
    if is_child("no_reader_sees_half_an_event") {
        return whole_under_load();
    }
    whole_under_load();
    // By locks.
    let without = child("no_reader_sees_half_an_event").env("GLIBC_TUNABLES", "glibc.pthread.rseq=0").status().expect("a child");
    assert!(without.success());
}
