//! Context fields: in records, in filters, of the program's own.

mod common;

use common::{alone, read_by_both};
use ringtrace::{Context, Session, tracepoint};
use std::cell::Cell;
use std::time::{Duration, Instant};

#[tracepoint(record)]
fn outer(seq: u64);

/// Its probe fires another tracepoint.
#[tracepoint]
fn nesting(seq: u64);

#[ringtrace::probe(nesting)]
fn fire_inner(seq: u64) {
    outer(seq);
}

thread_local!(static REQUEST: Cell<u64> = const { Cell::new(0) });

fn request() -> u64 {
    REQUEST.try_with(Cell::get).unwrap_or(0)
}

fn constant() -> u64 {
    u64::MAX
}

#[test]
fn every_field_stands_in_the_records() {
    let _alone = alone();
    let request = Context::provide("request_id", request).unwrap_or_else(|e| panic!("{e}"));
    assert_eq!(Context::provide("request_id", self::request).unwrap_or_else(|e| panic!("{e}")), request);
    let constant = Context::provide("constant", constant).unwrap_or_else(|e| panic!("{e}"));
    let taken = Context::provide("constant", self::request).expect_err("another function").to_string();
    assert!(taken.contains("another function provides the context field `constant`"), "{taken}");
    for name in ["vtid", "no name", "", "1st"] {
        let message = Context::provide(name, self::constant).expect_err(name).to_string();
        assert!(message.contains("cannot name a context field"), "{message}");
    }
    Context::provide("third", self::constant).unwrap_or_else(|e| panic!("{e}"));
    for name in ["p4", "p5", "p6", "p7", "p8", "p9", "p10", "p11", "p12", "p13", "p14", "p15", "p16"] {
        Context::provide(name, self::constant).unwrap_or_else(|e| panic!("{e}"));
    }
    assert!(Context::provide("p17", self::constant).is_err_and(|e| e.to_string().contains("at most 16")));

    let all = Context::VPID | Context::VTID | Context::CPU | Context::NESTING;
    let (pid, tid) = (std::process::id(), std::fs::read_link("/proc/thread-self").expect("/proc"));
    let tid: u32 = tid.file_name().and_then(|n| n.to_str()).and_then(|n| n.parse().ok()).expect("a number");
    for (context, expected) in [
        (Context::NESTING, "{ nesting = 1 }".to_owned()),
        (Context::VTID | request, format!("{{ vtid = {tid}, request_id = 7 }}")),
        (constant, format!("{{ constant = {} }}", u64::MAX)),
        (
            all | request | constant,
            format!("{{ vpid = {pid}, vtid = {tid}, nesting = 1, request_id = 7, constant = 18446744073709551615, cpu = "),
        ),
    ] {
        let directory = tempfile::tempdir().expect("a directory");
        let path = directory.path().join("trace");
        let builder = Session::builder("contexts").enable("*:outer; *:nesting").context(context).output(&path);
        let session = builder.start().unwrap_or_else(|e| panic!("{e}"));
        REQUEST.with(|r| r.set(7));
        nesting(1);
        REQUEST.with(|r| r.set(8));
        outer(2);
        session.stop().unwrap_or_else(|e| panic!("{e}"));
        let contents = read_by_both(&path);
        assert_eq!(contents.numbers("contexts:outer", "seq"), [1, 2]);
        assert!(contents.lines[0].contains(&expected), "{expected}: {}", contents.lines[0]);
        let second = expected.replace("nesting = 1", "nesting = 0").replace("request_id = 7", "request_id = 8");
        assert!(contents.lines[1].contains(&second), "{second}: {}", contents.lines[1]);
    }

    // Filters see them whether or not they are recorded.
    let directory = tempfile::tempdir().expect("a directory");
    let path = directory.path().join("trace");
    let rule = "*:nesting; *:outer if $ctx.request_id == 9 && $ctx.constant > 0x7fff_ffff_ffff_ffff && $ctx.nesting == 0";
    let session = Session::builder("contexts").enable(rule).output(&path).start().unwrap_or_else(|e| panic!("{e}"));
    for id in 7..11 {
        REQUEST.with(|r| r.set(id));
        nesting(id);
        outer(id + 100);
    }
    assert_eq!(session.stop().unwrap_or_else(|e| panic!("{e}")).filtered, 7);
    assert_eq!(read_by_both(&path).numbers("contexts:outer", "seq"), [109]);
    let message = session.enable("*:outer if $ctx.request == 1").expect_err("no such field").to_string();
    assert!(message.contains("did you mean `request_id`?") || message.contains("request_id (integer)"), "{message}");
}

fn rename(name: &str) {
    std::fs::write("/proc/thread-self/comm", name).expect("/proc");
}

/// Names of threads are those of the moment, and those given later are seen.
#[test]
fn names_stand_in_the_records() {
    let _alone = alone();
    let directory = tempfile::tempdir().expect("a directory");
    let path = directory.path().join("trace");
    let context = Context::THREAD_NAME | Context::PROCNAME | Context::VPID;
    let builder = Session::builder("names").enable("contexts:outer").context(context).output(&path);
    let session = builder.start().unwrap_or_else(|e| panic!("{e}"));
    let renamed = Session::builder("renamed")
        .enable("contexts:outer 1 in 1 by $ctx.thread_name if $ctx.thread_name == \"renamed\"")
        .output(directory.path().join("renamed"))
        .start()
        .unwrap_or_else(|e| panic!("{e}"));
    let work = || {
        outer(1);
        rename("renamed");
        let begun = Instant::now();
        while renamed.statistics().events == 0 {
            assert!(begun.elapsed() < Duration::from_secs(60), "the name is not seen");
            outer(2);
            std::thread::sleep(Duration::from_millis(1));
        }
        outer(2);
        rename("a long name, cut");
    };
    std::thread::scope(|scope| {
        let named = |name: &str| std::thread::Builder::new().name(name.to_owned());
        named("first").spawn_scoped(scope, work).expect("a thread").join().expect("it ends");
        named("fifteen letters and more").spawn_scoped(scope, || outer(3)).expect("a thread").join().expect("it ends");
    });
    renamed.stop().unwrap_or_else(|e| panic!("{e}"));
    session.stop().unwrap_or_else(|e| panic!("{e}"));
    let contents = read_by_both(&path);
    let program = std::env::args().next().expect("a name");
    let program = program.rsplit('/').next().expect("a name").get(..16).expect("with a hash, it is long").to_owned();
    let line = |number: u64| {
        let found = contents.lines.iter().filter(|line| line.contains(&format!("seq = {number} ")));
        found.cloned().collect::<Vec<_>>()
    };
    let says = |line: &str, name: &str| line.contains(&format!("procname = \"{program}\", thread_name = \"{name}\" }}"));
    assert!(says(&line(1)[0], "first"), "{:?}", line(1));
    assert!(says(&line(3)[0], "fifteen letters"), "{:?}", line(3));
    let changing = line(2);
    let at = changing.iter().position(|line| says(line, "renamed")).expect("at least the last");
    assert!(changing[..at].iter().all(|line| says(line, "first")), "{changing:?}");
    assert!(changing[at..].iter().all(|line| says(line, "renamed")), "{changing:?}");
}
