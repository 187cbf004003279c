//! babeltrace2 and our reader say the same of every trace: all field types, both headers, both modes, rings and fallback region,
//! one thread and several.

mod common;

use ringtrace::{Clock, Context, Event, Field, Key, Session, probe, tracepoint};
use std::borrow::Cow;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::num::NonZeroU16;
use std::path::Path;
use std::time::{Duration, SystemTime};

#[derive(Clone, Copy, Field)]
enum Reason {
    Lru = 1,
    Capacity = 300,
    Manual = -7,
}

#[derive(Field)]
#[allow(dead_code, reason = "read by way of the trace")]
enum Shape<'a> {
    Nothing,
    Circle { radius: f64 },
    Named(&'a str, u8),
}

#[derive(Field)]
struct Point {
    x: i16,
    #[field(hex)]
    y: u32,
}

#[derive(Field)]
struct Line<'a> {
    from: Point,
    label: &'a str,
    to: Option<Point>,
}

#[derive(Event)]
struct Scalars {
    a: u8,
    b: u16,
    c: u32,
    d: u64,
    e: i8,
    f: i16,
    g: i32,
    h: i64,
    i: usize,
    j: isize,
    #[field(hex)]
    k: u64,
    l: NonZeroU16,
    m: f32,
    n: f64,
    o: bool,
    p: char,
    q: u128,
    r: *const u8,
    #[field(unit = "ns")]
    s: Duration,
    t: SystemTime,
    reason: Reason,
    #[field(rename = "type")]
    renamed: u8,
}

#[derive(Event)]
struct Texts<'a> {
    text: &'a str,
    owned: String,
    cow: Cow<'a, str>,
    path: &'a Path,
    bytes: &'a [u8],
    numbers: &'a [u32],
    words: &'a [&'a str],
    array: [u16; 3],
    large: [u64; 9],
    #[field(debug)]
    debug: (u8, &'a str),
    #[field(display)]
    display: Ipv4Addr,
    after: u32,
}

#[derive(Event)]
struct Compounds<'a> {
    some: Option<u32>,
    none: Option<&'a str>,
    text: Option<&'a str>,
    point: Point,
    line: Line<'a>,
    shape: Shape<'a>,
    shapes: &'a [Shape<'a>],
    ip: IpAddr,
    socket: SocketAddr,
    points: Vec<Option<Point>>,
}

#[derive(Event)]
struct Secret<'a> {
    id: u64,
    #[field(sensitive)]
    token: &'a str,
    #[field(sensitive)]
    number: u64,
    end: u8,
}

#[tracepoint]
fn scalars(i: u64);
#[tracepoint]
fn texts(i: u64);
#[tracepoint]
fn compounds(i: u64);
#[tracepoint]
fn secrets(i: u64, token: &str);
#[tracepoint(record)]
fn nothing();
#[tracepoint(record)]
fn number(i: u64);

#[probe(scalars)]
fn record_scalars(i: u64) -> Scalars {
    Scalars {
        a: i as u8,
        b: i as u16,
        c: u32::MAX - i as u32,
        d: u64::MAX - i,
        e: i as i8,
        f: -(i as i16),
        g: i32::MIN + i as i32,
        h: i64::MIN + i as i64,
        i: i as usize,
        j: -(i as isize),
        k: 0xDEAD_BEEF_0000 + i,
        l: NonZeroU16::MIN,
        m: i as f32 * 0.5,
        n: -1e300 / (i as f64 + 1.0),
        o: i % 2 == 1,
        p: ['a', 'ß', '€', '😀'][i as usize % 4],
        q: u128::MAX - u128::from(i),
        r: std::ptr::without_provenance(i as usize),
        s: Duration::from_nanos(i),
        t: SystemTime::UNIX_EPOCH + Duration::from_secs(i),
        reason: [Reason::Lru, Reason::Capacity, Reason::Manual][i as usize % 3],
        renamed: i as u8,
    }
}

const WORDS: [&str; 3] = ["one", "zwei \"zitiert\"", "trois\n"];

#[probe(texts)]
fn record_texts(i: u64) -> Texts<'static> {
    let n = i as usize % 3;
    Texts {
        text: WORDS[n],
        owned: format!("owned {i}"),
        cow: Cow::Borrowed(WORDS[n]),
        path: Path::new("/tmp/a file"),
        bytes: &[1, 2, 0xFF, 0][..n + 1],
        numbers: &[7, 8, 9][..n],
        words: &WORDS[..n],
        array: [i as u16; 3],
        large: [i; 9],
        debug: (i as u8, WORDS[n]),
        display: Ipv4Addr::new(127, 0, 0, i as u8),
        after: i as u32,
    }
}

#[probe(compounds)]
fn record_compounds(i: u64) -> Compounds<'static> {
    let even = i % 2 == 0;
    let point = |n: u64| Point { x: -(n as i16), y: n as u32 };
    Compounds {
        some: even.then_some(i as u32),
        none: None,
        text: even.then_some("present"),
        point: point(i),
        line: Line { from: point(1), label: "line", to: even.then(|| point(2)) },
        shape: match i % 3 {
            0 => Shape::Nothing,
            1 => Shape::Circle { radius: i as f64 },
            _ => Shape::Named("named", i as u8),
        },
        shapes: &[Shape::Nothing, Shape::Named("in a slice", 2), Shape::Circle { radius: 0.25 }],
        ip: if even { Ipv4Addr::LOCALHOST.into() } else { Ipv6Addr::LOCALHOST.into() },
        socket: SocketAddr::from(([10, 0, 0, 1], i as u16)),
        points: (0..i % 4).map(|n| (n != 1).then(|| point(n))).collect(),
    }
}

#[probe(secrets)]
fn record_secrets(i: u64, token: &str) -> Secret<'_> {
    Secret { id: i, token, number: i, end: 1 }
}

/// Forty classes, so that a session of all of them takes the large header.
macro_rules! many {
    ($($name:ident)*) => {
        mod many {
            $(#[ringtrace::tracepoint(record)] pub(crate) fn $name(i: u64);)*
            pub(crate) fn fire(i: u64) { $($name(i);)* }
        }
    };
}
many! {
    a0 a1 a2 a3 a4 a5 a6 a7 a8 a9 b0 b1 b2 b3 b4 b5 b6 b7 b8 b9
    c0 c1 c2 c3 c4 c5 c6 c7 c8 c9 d0 d1 d2 d3 d4 d5 d6 d7 d8 d9
}

fn fire(i: u64, many: bool) {
    scalars(i);
    texts(i);
    compounds(i);
    secrets(i, "hush");
    nothing();
    number(i);
    if many {
        many::fire(i);
    }
}

/// Takes the calling thread's restartable sequences away, as a thread has it under valgrind or another C library.
#[expect(unsafe_code, reason = "rseq(2)")]
fn unregister_sequences() {
    if cfg!(target_env = "musl") {
        return; // no thread has them
    }
    let offset = trace_registry_rseq_offset();
    let thread_pointer: *mut u8;
    // SAFETY: the word at fs:0 is the thread pointer on x86-64.
    unsafe { std::arch::asm!("mov {}, fs:0", out(reg) thread_pointer) };
    let area = thread_pointer.wrapping_offset(offset);
    const UNREGISTER: libc::c_int = 1;
    const SIGNATURE: u32 = 0x5305_3053;
    // SAFETY: the area that the C library registered for this thread, with its size and signature; nothing else uses it.
    let done = [32_u32, 64, 256]
        .into_iter()
        .any(|size| unsafe { libc::syscall(libc::SYS_rseq, area, size, UNREGISTER, SIGNATURE) == 0 });
    assert!(done, "rseq(2) could not be unregistered: {}", std::io::Error::last_os_error());
}

#[expect(unsafe_code, reason = "reads a constant of the C library")]
fn trace_registry_rseq_offset() -> isize {
    // SAFETY: the symbol is a constant of glibc 2.35 and later, which this test needs.
    let symbol = unsafe { libc::dlsym(libc::RTLD_DEFAULT, c"__rseq_offset".as_ptr()) };
    assert!(!symbol.is_null(), "this C library has no __rseq_offset");
    // SAFETY: as above: `const ptrdiff_t __rseq_offset`.
    unsafe { *symbol.cast::<isize>() }
}

struct Case {
    overwrite: bool,
    large: bool,
    threads: u64,
    /// How many of the threads have no sequences.
    fallback: u64,
    clock: Clock,
    context: Context,
}

const ROUNDS: u64 = 60;

fn run(case: &Case, path: &Path) {
    let rules = if case.large { "agreement:*" } else { "agreement:*; !agreement:many::*" };
    let builder =
        Session::builder("agreement").enable(rules).memory(32 << 20).output(path).clock(case.clock).context(case.context);
    let builder = if case.overwrite { builder.overwrite() } else { builder };
    let session = builder.start().expect("a session");
    std::thread::scope(|scope| {
        for thread in 0..case.threads {
            scope.spawn(move || {
                if thread < case.fallback {
                    unregister_sequences();
                }
                for i in 0..ROUNDS {
                    fire(i, case.large);
                    if i == ROUNDS / 2 {
                        std::thread::sleep(Duration::from_millis(140)); // beyond 2^27 ns: the long form of a header
                    }
                }
            });
        }
    });
    let statistics = session.stop().expect("it stops");
    let expected = ROUNDS * case.threads * if case.large { 46 } else { 6 };
    assert_eq!(statistics.events, expected, "{statistics}");
    drop(session);
    let contents = common::read_by_both(path);
    let kinds: std::collections::BTreeSet<String> = std::fs::read_dir(path)
        .expect("the trace directory")
        .filter_map(|e| e.ok()?.file_name().into_string().ok()?.split_once('_').map(|(kind, _)| kind.to_owned()))
        .collect();
    let fallback = if cfg!(target_env = "musl") { case.threads } else { case.fallback };
    assert_eq!((kinds.contains("events"), kinds.contains("fallback")), (fallback < case.threads, fallback > 0), "{kinds:?}");
    assert_eq!((contents.events(), contents.discarded), (expected, 0));
    assert!(contents.values("agreement:texts", "text").iter().any(|text| text == "one"));
    let mut numbers = contents.numbers("agreement:number", "i");
    numbers.sort_unstable();
    assert_eq!(numbers, (0..ROUNDS).flat_map(|i| std::iter::repeat_n(i, case.threads as usize)).collect::<Vec<_>>());
    assert!(contents.lines.iter().all(|l| !l.contains("hush")), "a sensitive field was recorded");
}

#[test]
fn both_readers_agree() {
    let _alone = common::alone();
    let directory = tempfile::tempdir().expect("a directory");
    for overwrite in [false, true] {
        for large in [false, true] {
            for (threads, fallback) in [(1, 0), (4, 0), (1, 1), (4, 2)] {
                let path = directory.path().join(format!("{overwrite}-{large}-{threads}-{fallback}"));
                let context = if threads == 1 { Context::NONE } else { Context::VPID | Context::VTID };
                run(&Case { overwrite, large, threads, fallback, clock: Clock::Fast, context }, &path);
            }
        }
    }
    let context = Context::VTID | Context::CPU | Context::NESTING;
    for clock in [Clock::Ordered, Clock::Os, Clock::None] {
        let path = directory.path().join(format!("{clock:?}"));
        run(&Case { overwrite: false, large: false, threads: 2, fallback: 1, clock, context }, &path);
    }
}

/// The consumer adds the CPU behind the context of records of the fallback region, however long that is.
#[test]
fn context_of_any_length_stands_in_records_of_the_fallback_region() {
    let _alone = common::alone();
    let directory = tempfile::tempdir().expect("a directory");
    let tenant = Key::register_text("tenant").expect("a free field");
    let others = ["a", "b", "c", "d", "e", "f"].map(|name| Key::register(name).expect("a free field"));
    let small = Context::VPID | Context::PROCNAME;
    let large = others.iter().fold(small | tenant.context(), |context, key| context | key.context());
    for (context, says) in
        [(small, "\", cpu = "), (large, "\", tenant = \"acme\", a = 0, b = 7, c = 0, d = 0, e = 0, f = 0, cpu = ")]
    {
        let path = directory.path().join(says.len().to_string());
        let session =
            Session::builder("context").enable("agreement:number").context(context).output(&path).start().expect("it starts");
        std::thread::scope(|scope| {
            scope.spawn(|| {
                unregister_sequences();
                tenant.scope("acme", || others[1].scope(7, || (0..3).for_each(number)));
            });
        });
        assert_eq!(session.stop().expect("it stops").events, 3);
        let contents = common::read_by_both(&path);
        assert_eq!(contents.numbers("agreement:number", "i"), [0, 1, 2]);
        let is_right = |line: &String| line.contains("procname = \"agreement-") && line.contains(says);
        assert!(contents.lines.iter().all(is_right), "{:?}", contents.lines);
    }
}

#[test]
fn a_session_may_ask_for_sensitive_fields() {
    let _alone = common::alone();
    let directory = tempfile::tempdir().expect("a directory");
    let paths = ["open", "closed"].map(|name| directory.path().join(name));
    let open = Session::builder("open").enable("agreement:secrets").sensitive().output(&paths[0]).start().expect("a session");
    let closed = Session::builder("closed").enable("agreement:secrets").output(&paths[1]).start().expect("a session");
    for i in 0..10 {
        secrets(i, "hush");
    }
    drop((open, closed));
    let [open, closed] = paths.map(|p| common::read_by_both(&p));
    assert_eq!(open.values("agreement:secrets", "token"), ["hush"; 10]);
    assert!(closed.lines.iter().all(|l| l.contains("redacted") && !l.contains("hush")), "{:?}", closed.lines);
    assert_eq!(closed.numbers("agreement:secrets", "id"), (0..10).collect::<Vec<_>>());
}

/// Discard and overwrite mode with rings that are far too small: what is missing is counted, to the event.
#[test]
fn what_is_lost_is_counted() {
    let _alone = common::alone();
    let directory = tempfile::tempdir().expect("a directory");
    for (overwrite, fallback) in [(false, false), (true, false), (false, true), (true, true)] {
        let path = directory.path().join(format!("{overwrite}-{fallback}"));
        let builder = Session::builder("loss").enable("agreement:number").memory(128 << 10).sub_buffer(4096).output(&path);
        let session = if overwrite { builder.overwrite() } else { builder }.start().expect("a session");
        let fired = 200_000;
        std::thread::scope(|scope| {
            scope.spawn(|| {
                common::outrun_the_consumer();
                if fallback {
                    unregister_sequences();
                }
                (0..fired).for_each(number);
            });
        });
        let statistics = session.stop().expect("it stops");
        drop(session);
        let contents = common::read_by_both(&path);
        assert!(statistics.lost.total() > 0, "the rings were not too small: {statistics}");
        assert_eq!(contents.discarded, statistics.lost.total(), "{statistics}");
        assert_eq!(contents.events() + contents.discarded, fired, "{statistics}");
        let numbers = contents.numbers("agreement:number", "i");
        assert!(numbers.windows(2).all(|w| w[0] < w[1]));
        if overwrite {
            assert_eq!(numbers.last(), Some(&(fired - 1)), "the newest events are what is kept");
        } else {
            assert_eq!(numbers.first(), Some(&0), "the oldest events are what is kept");
        }
    }
}

#[test]
fn several_sessions_record_the_same_events_by_their_own_rules() {
    let _alone = common::alone();
    let directory = tempfile::tempdir().expect("a directory");
    let path = |name: &str| directory.path().join(name);
    let start = |name: &str, rules: &str| Session::builder(name).enable(rules).output(path(name)).start().expect("a session");
    let numbers = start("numbers", "agreement:number");
    let all = start("all", "agreement:*");
    number(1);
    nothing();
    all.disable("agreement:number").expect("it is disabled");
    number(2);
    numbers.stop().expect("it stops");
    number(3);
    all.enable("agreement:number").expect("it is enabled");
    number(4);
    numbers.start().expect("it starts again");
    number(5);
    drop((numbers, all));
    assert_eq!(common::read_by_both(&path("numbers")).numbers("agreement:number", "i"), [1, 2, 5]);
    let all = common::read_by_both(&path("all"));
    assert_eq!((all.numbers("agreement:number", "i"), all.counts["agreement:nothing"]), (vec![1, 4, 5], 1));
}

#[test]
fn a_recorder_writes_events_of_its_class() {
    let _alone = common::alone();
    let directory = tempfile::tempdir().expect("a directory");
    let path = directory.path().join("trace");
    let session = Session::builder("recorder").sensitive().output(&path).start().expect("a session");
    let out = session.recorder::<Secret<'_>>().expect("a recorder");
    for i in 0..3 {
        let token = format!("token {i}"); // any lifetime
        out.record(Secret { id: i, token: &token, number: 0, end: 0 });
    }
    session.stop().expect("it stops");
    out.record(Secret { id: 9, token: "x", number: 0, end: 0 });
    drop((session, out));
    assert_eq!(common::read_by_both(&path).values("agreement:Secret", "token"), ["token 0", "token 1", "token 2"]);
}
