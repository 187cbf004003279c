//! The calls of `examples/orders.rs`, as `ringtrace tree`, `latency` and `export` show them, are those that the program counted. Spans
//! that are held across `.await` are paired.

use std::collections::BTreeMap;
use std::future::Future;
use std::path::{Path, PathBuf};
use std::pin::Pin;
use std::process::{Command, Output};
use std::task::{Context, Poll, Waker};

use serde_json::Value;
use trace_ctf::reader::Trace;

/// A call, as the program or the trace has it.
#[derive(Debug)]
struct Call {
    name: String,
    /// What tells roots apart.
    key: u64,
    begin: i64,
    end: i64,
    outcome: String,
    children: Vec<usize>,
    is_root: bool,
}

/// `examples/orders.rs`, built where this test was built.
fn orders() -> PathBuf {
    let root = Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/.."));
    let build = Command::new(env!("CARGO")).args(["build", "--quiet", "--example", "orders"]).current_dir(root).status();
    assert!(build.expect("cargo runs").success());
    Path::new(env!("CARGO_BIN_EXE_ringtrace")).parent().expect("the directory of the command").join("examples/orders")
}

fn ringtrace(arguments: &[&str], directory: &Path) -> Output {
    let output = Command::new(env!("CARGO_BIN_EXE_ringtrace")).args(arguments).current_dir(directory).output().expect("it runs");
    assert!(output.status.success(), "{arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
    output
}

fn lines(bytes: &[u8]) -> Vec<Value> {
    String::from_utf8_lossy(bytes).lines().map(|line| serde_json::from_str(line).expect("JSON")).collect()
}

fn number(line: &Value, name: &str) -> i64 {
    line[name].as_i64().unwrap_or_else(|| panic!("{name} of {line}"))
}

/// The ledger that the program kept.
fn counted(directory: &Path) -> Vec<Call> {
    let ledger = std::fs::read(directory.join("ledger.jsonl")).expect("the ledger");
    let lines = lines(&ledger);
    let call = |line: &Value| Call {
        name: format!("orders:{}", line["name"].as_str().expect("a name")),
        key: number(line, "key") as u64,
        begin: number(line, "begin_ns"),
        end: number(line, "end_ns"),
        outcome: line["outcome"].as_str().expect("an outcome").to_owned(),
        children: Vec::new(),
        is_root: line["parent"].is_null(),
    };
    let mut calls: Vec<Call> = lines.iter().map(call).collect();
    for (number, line) in lines.iter().enumerate() {
        if let Some(parent) = line["parent"].as_u64() {
            calls[parent as usize].children.push(number);
        }
    }
    calls
}

/// What `ringtrace tree` shows.
fn shown(directory: &Path) -> Vec<Call> {
    // The zero of the clock, in the time of day.
    let trace = Trace::open(&directory.join("trace")).expect("a trace");
    let zero = trace.declarations().clocks.first().expect("a clock").nanoseconds(0).expect("a time");
    let mut calls: Vec<Call> = Vec::new();
    let mut open: Vec<usize> = Vec::new();
    for line in lines(&ringtrace(&["tree", "--json", "trace"], directory).stdout) {
        let depth = number(&line, "depth") as usize;
        open.truncate(depth);
        if let Some(parent) = open.last() {
            let own = calls.len();
            calls[*parent].children.push(own);
        }
        open.push(calls.len());
        let fields = line["fields"].as_str().expect("fields");
        let key = fields.split(' ').find_map(|field| field.strip_prefix("order="));
        let end_fields = line["end_fields"].as_str().expect("fields");
        let outcome = end_fields.split(' ').find_map(|field| field.strip_prefix("outcome="));
        let begin = number(&line, "time_ns") - zero;
        calls.push(Call {
            name: line["name"].as_str().expect("a name").to_owned(),
            key: key.map_or(0, |key| key.parse().expect("a number")),
            begin,
            end: begin + number(&line, "duration_ns"),
            outcome: outcome.unwrap_or_else(|| panic!("no outcome: {line}")).trim_matches('"').to_owned(),
            children: Vec::new(),
            is_root: depth == 0,
        });
    }
    calls
}

fn roots(calls: &[Call]) -> BTreeMap<(String, u64), usize> {
    let mut roots = BTreeMap::new();
    for (number, call) in calls.iter().enumerate().filter(|(_, call)| call.is_root) {
        assert!(roots.insert((call.name.clone(), call.key), number).is_none(), "twice: {call:?}");
    }
    roots
}

/// Compares a call and all in it. The ledger's times lie inside the trace's: its entry is the first thing that a body does.
fn compare(counted: &[Call], shown: &[Call], (own, its): (usize, usize)) {
    let (own, its) = (&counted[own], &shown[its]);
    assert_eq!((&own.name, &own.outcome), (&its.name, &its.outcome), "{own:?} {its:?}");
    assert!(its.begin <= own.begin && own.end <= its.end, "{own:?} {its:?}");
    let names = |calls: &[Call], of: &Call| of.children.iter().map(|child| calls[*child].name.clone()).collect::<Vec<_>>();
    assert_eq!(names(counted, own), names(shown, its), "in {own:?}");
    for pair in own.children.iter().copied().zip(its.children.iter().copied()) {
        let inner = &shown[pair.1];
        assert!(own.begin <= inner.begin && inner.end <= own.end, "{own:?} {inner:?}");
        compare(counted, shown, pair);
    }
}

#[test]
fn the_tree_is_what_the_program_counted() {
    let here = tempfile::tempdir().expect("a directory");
    let here = here.path();
    let output = Command::new(orders()).arg(here).env_remove("RINGTRACE").output().expect("it runs");
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success() && text.contains("orders were sold"), "{text}{}", String::from_utf8_lossy(&output.stderr));
    let (counted, shown) = (counted(here), shown(here));
    assert_eq!(counted.len(), shown.len());
    for outcome in ["returned", "cancelled", "panicked"] {
        assert!(counted.iter().any(|call| call.outcome == outcome), "nothing {outcome}");
    }
    let (own, its) = (roots(&counted), roots(&shown));
    assert_eq!(own.keys().collect::<Vec<_>>(), its.keys().collect::<Vec<_>>());
    own.values().copied().zip(its.values().copied()).for_each(|pair| compare(&counted, &shown, pair));

    // As many pairs as calls, each of a duration that the exit has too.
    for function in ["orders:Shop::process", "orders:bank::checksum"] {
        let row = &lines(&ringtrace(&["latency", "--json", function, "--in", "trace"], here).stdout)[0];
        let calls = counted.iter().filter(|call| call.name == function).count();
        assert_eq!(row["latency_ns"]["count"], calls, "{row}");
    }
    exports(here, &counted);
}

/// Each call of a function is a slice of its thread, each future one of its own.
fn exports(here: &Path, counted: &[Call]) {
    let chrome = ringtrace(&["export", "--to", "chrome", "trace"], here).stdout;
    let chrome: Value = serde_json::from_slice(&chrome).expect("JSON");
    let events = chrome["traceEvents"].as_array().expect("events");
    let of = |phase: &str, name: &str| events.iter().filter(|e| e["ph"] == phase && e["name"] == name).count();
    for (name, begin, end) in [("orders:Shop::process", "b", "e"), ("orders:bank::checksum", "B", "E")] {
        let calls = counted.iter().filter(|call| call.name == name).count();
        assert_eq!((of(begin, name), of(end, name)), (calls, calls), "{name}");
    }
    let perfetto = ringtrace(&["export", "--to", "perfetto", "trace"], here).stdout;
    // Names of tracks and of slices.
    let has = |text: &str| perfetto.windows(text.len()).any(|window| window == text.as_bytes());
    assert!(has("orders:Shop::process") && has("orders:bank::checksum"));
    // In the report too, a future has one duration, whatever its polls.
    ringtrace(&["report", "trace", "--output", "report.html"], here);
    let report = std::fs::read_to_string(here.join("report.html")).expect("a page");
    for name in ["orders:Shop::process", "orders:bank::checksum"] {
        let calls = counted.iter().filter(|call| call.name == name).count();
        let row = format!("<td>{name}</td><td class=\"n\">{calls}</td>");
        assert!(report.contains(&row), "no {row}");
    }
}

/// Pending so many times.
struct Later(u32);

impl Future for Later {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<()> {
        if self.0 == 0 {
            return Poll::Ready(());
        }
        self.0 -= 1;
        Poll::Pending
    }
}

const TASKS: u64 = 50;

/// A span that is held while others run on its thread.
async fn held(task: u64) {
    let _span = ringtrace::span!("spans:held", task);
    Later(2).await;
}

/// The same in a traced function.
#[ringtrace::tracepoint(name = "spans:traced")]
async fn traced(task: u64) {
    let _span = ringtrace::span!("spans:inside", task);
    Later(2).await;
    inner();
}

#[ringtrace::tracepoint(name = "spans:inner")]
fn inner() {
    std::hint::black_box(());
}

/// Spans of tasks that take turns on one thread and end on another one are paired by what they are, and not by their thread.
#[test]
fn spans_held_across_await_are_paired() {
    let here = tempfile::tempdir().expect("a directory");
    let here = here.path();
    let session = ringtrace::Session::builder("spans").enable("spans:*").output(here.join("trace")).start().expect("a session");
    let futures = |task| -> [Pin<Box<dyn Future<Output = ()> + Send>>; 2] { [Box::pin(held(task)), Box::pin(traced(task))] };
    let mut tasks: Vec<_> = (0..TASKS).flat_map(futures).collect();
    fn turn(tasks: &mut Vec<Pin<Box<dyn Future<Output = ()> + Send>>>) {
        let mut context = Context::from_waker(Waker::noop());
        tasks.retain_mut(|task| task.as_mut().poll(&mut context).is_pending());
    }
    turn(&mut tasks);
    // Half of them end here, half elsewhere.
    let half = tasks.split_off(tasks.len() / 2);
    let run = |mut tasks: Vec<_>| {
        while !tasks.is_empty() {
            turn(&mut tasks);
        }
    };
    run(tasks);
    std::thread::spawn(move || run(half)).join().expect("it ends");
    session.stop().expect("it stops");
    drop(session);

    for name in ["spans:held", "spans:inside"] {
        let row = &lines(&ringtrace(&["latency", "--json", name, "--in", "trace"], here).stdout)[0];
        assert_eq!(row["latency_ns"]["count"], TASKS, "{row}");
        assert_eq!(row["unpaired"]["open"], 0, "{row}");
    }
    let own = |fields: &Value, name: &str| {
        let value = fields.as_str().expect("fields").split(' ').find_map(|field| field.strip_prefix(name)?.strip_prefix('='));
        value.unwrap_or_else(|| panic!("no {name}: {fields}")).parse::<i64>().expect("a number")
    };
    let tree = lines(&ringtrace(&["tree", "--json", "trace"], here).stdout);
    for name in ["spans:held", "spans:inside", "spans:traced", "spans:inner"] {
        let of_it: Vec<_> = tree.iter().filter(|line| line["name"] == name).collect();
        assert_eq!(of_it.len() as u64, TASKS, "{name}");
        for line in of_it {
            // The exit knows how long it was, to the two readings of a clock; of another entry it would be shorter or longer by turns.
            let (shown, own) = (number(line, "duration_ns"), own(&line["end_fields"], "duration"));
            assert!(shown >= own, "{line}");
        }
    }
    // In the line before, which is of its function.
    let is_inside = |pair: &[Value]| pair[1]["name"] == "spans:inside" && pair[0]["name"] == "spans:traced";
    assert_eq!(tree.windows(2).filter(|pair| is_inside(pair)).count() as u64, TASKS);
    ringtrace(&["report", "trace", "--output", "report.html"], here);
    let report = std::fs::read_to_string(here.join("report.html")).expect("a page");
    for name in ["spans:held", "spans:inside"] {
        assert!(report.contains(&format!("<td>{name}</td><td class=\"n\">{TASKS}</td>")), "{name}");
    }
    let chrome: Value = serde_json::from_slice(&ringtrace(&["export", "--to", "chrome", "trace"], here).stdout).expect("JSON");
    // Every slice that begins on a thread ends there.
    let mut open = BTreeMap::new();
    for event in chrome["traceEvents"].as_array().expect("events") {
        let depth = open.entry(event["tid"].as_i64()).or_insert(0_i64);
        *depth += match event["ph"].as_str() {
            Some("B") => 1,
            Some("E") => -1,
            _ => 0,
        };
        assert!(*depth >= 0, "{event}");
    }
    assert!(open.values().all(|depth| *depth == 0), "{open:?}");
}
