//! The calls of `examples/orders.rs`, as `ringtrace tree`, `latency` and `export` show them, are those that the program counted. Spans
//! that are held across `.await` are paired. Values of every kind are shown in one way, and are found by name.

use std::collections::BTreeMap;
use std::future::Future;
use std::path::{Path, PathBuf};
use std::pin::Pin;
use std::process::{Command, Output};
use std::sync::Mutex;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use ringtrace::{Carry as _, Extra, Key};
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
        let outcome = line["end_fields"]["outcome"].as_str();
        let begin = number(&line, "time_ns") - zero;
        calls.push(Call {
            name: line["name"].as_str().expect("a name").to_owned(),
            key: line["fields"]["order"].as_u64().unwrap_or(0),
            begin,
            end: number(&line, "end_ns") - zero,
            outcome: outcome.unwrap_or_else(|| panic!("no outcome: {line}")).to_owned(),
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

type Task = Pin<Box<dyn Future<Output = ()> + Send>>;

/// What was spawned.
static SPAWNED: Mutex<Vec<Task>> = Mutex::new(Vec::new());

#[ringtrace::tracepoint(name = "tasks:request")]
async fn request(task: u64) {
    step(task).await;
    let spawned: [Task; 2] = [Box::pin(job(task).with_current_keys()), Box::pin(alone(task))];
    SPAWNED.lock().expect("nobody panics").extend(spawned);
    Later(1).await;
}

#[ringtrace::tracepoint(name = "tasks:step")]
async fn step(task: u64) {
    Later(1).await;
}

#[ringtrace::tracepoint(name = "tasks:job")]
async fn job(task: u64) {
    Later(2).await;
    step(task).await;
}

#[ringtrace::tracepoint(name = "tasks:alone")]
async fn alone(task: u64) {
    Later(1).await;
}

/// Polls each task so many times; returns those that have not ended.
fn turns(most: u32, mut tasks: Vec<Task>) -> Vec<Task> {
    (0..most).for_each(|_| tasks.retain_mut(|task| task.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_pending()));
    tasks
}

/// The same, on another thread.
fn elsewhere(most: u32, tasks: Vec<Task>) -> Vec<Task> {
    std::thread::spawn(move || turns(most, tasks)).join().expect("it ends")
}

/// What a task spawns on another thread, with its keys, is shown as its own, whether or not polls are recorded.
#[test]
fn a_spawned_task_is_shown_below_its_parent() {
    let here = tempfile::tempdir().expect("a directory");
    let here = here.path();
    let (id, tenant) = (Key::register("request").expect("a key"), Key::register_text("tenant").expect("a key"));
    for (name, rule) in [("calls", "tasks:* level info"), ("polls", "tasks:*")] {
        let context = ringtrace::Context::VTID | id.context() | tenant.context();
        let builder = ringtrace::Session::builder(name).enable(rule).context(context).output(here.join(name));
        let session = builder.start().expect("a session");
        let task = |task: u64| -> Task {
            let tenant_is = if task.is_multiple_of(2) { "even" } else { "odd" };
            Box::pin(request(task).with_key(id, task + 1).with_key(tenant, tenant_is))
        };
        let requests = turns(2, (0..TASKS).map(task).collect());
        let spawned = elsewhere(1, std::mem::take(&mut *SPAWNED.lock().expect("nobody panics")));
        assert_eq!((requests.len() as u64, spawned.len() as u64), (TASKS, 2 * TASKS));
        assert!(turns(9, requests).is_empty() && elsewhere(9, spawned).is_empty());
        session.stop().expect("it stops");
        drop(session);

        let tree = lines(&ringtrace(&["tree", "--json", name], here).stdout);
        let shown = |line: &Value| {
            let task = line["fields"]["task"].as_u64().expect("a number");
            (number(line, "depth"), line["name"].as_str().expect("a name").to_owned(), task)
        };
        let mut found: Vec<_> = tree.iter().map(shown).collect();
        let loose: Vec<_> = found.iter().filter(|(_, name, _)| name == "tasks:alone").cloned().collect();
        assert!(loose.len() as u64 == TASKS && loose.iter().all(|(depth, ..)| *depth == 0), "{name}: {loose:?}");
        found.retain(|(_, name, _)| name != "tasks:alone");
        let expected = |task| {
            [(0, "tasks:request"), (1, "tasks:step"), (1, "tasks:job"), (2, "tasks:step")]
                .map(|(depth, name)| (depth, name.to_owned(), task))
        };
        found.chunks(4).for_each(|tree| assert_eq!(tree, expected(tree[0].2), "{name}"));
        assert_eq!(found.len() as u64, 4 * TASKS, "{name}");

        // By the keys, what a spawned task did belongs to its request too.
        let of_one = lines(&ringtrace(&["tree", "--json", name, "--if", "$ctx.request == 7"], here).stdout);
        let of_one: Vec<_> = of_one.iter().map(shown).collect();
        assert_eq!(of_one, expected(6), "{name}");
        let by = lines(&ringtrace(&["hist", "tasks:job::exit.duration by tenant", "--json", "--in", name], here).stdout);
        let groups = format!("{by:?}");
        assert!(groups.contains("even") && groups.contains("odd"), "{groups}");
        let paired = &lines(
            &ringtrace(&["latency", "tasks:request::entry", "tasks:job::exit", "by", "request", "--json", "--in", name], here)
                .stdout,
        )[0];
        assert_eq!(paired["latency_ns"]["count"], TASKS, "{paired}");
        let view = ringtrace(&["view", name, "--if", "$ctx.tenant == \"odd\"", "--event", "tasks:job::entry"], here).stdout;
        let view = String::from_utf8_lossy(&view);
        assert!(view.lines().count() as u64 == TASKS / 2 && view.contains("tenant \"odd\""), "{view}");
    }
}

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
    let tree = lines(&ringtrace(&["tree", "--json", "trace"], here).stdout);
    for name in ["spans:held", "spans:inside", "spans:traced", "spans:inner"] {
        let of_it: Vec<_> = tree.iter().filter(|line| line["name"] == name).collect();
        assert_eq!(of_it.len() as u64, TASKS, "{name}");
        for line in of_it {
            // The exit knows how long it was, and no other entry lies so long before it.
            let (shown, own) = (number(line, "duration_ns"), number(&line["end_fields"], "duration"));
            assert_eq!(shown, own, "{line}");
            assert!(number(line, "end_ns") - number(line, "time_ns") >= own, "{line}");
        }
    }
    // In the line before, which is of its function.
    let is_inside = |pair: &[Value]| pair[1]["name"] == "spans:inside" && pair[0]["name"] == "spans:traced";
    assert_eq!(tree.windows(2).filter(|pair| is_inside(pair)).count() as u64, TASKS);
    // Calls in others are trees of their own, where they are asked for; a function's name stands for its entry and exit.
    let inner = lines(&ringtrace(&["tree", "--json", "trace", "--function", "*ns:inn*"], here).stdout);
    assert_eq!(inner.len() as u64, TASKS);
    assert!(inner.iter().all(|line| line["name"] == "spans:inner" && line["depth"] == 0), "{inner:?}");
    let traced = lines(&ringtrace(&["tree", "--json", "trace", "--function", "traced", "--head", "3"], here).stdout);
    assert_eq!(traced.iter().filter(|line| line["depth"] == 0).count(), 3, "{traced:?}");
    let count = |events: &[&str]| {
        let events: Vec<&str> = events.iter().flat_map(|event| ["--event", event]).collect();
        lines(&ringtrace(&[&["view", "trace", "--json"], &events[..]].concat(), here).stdout).len() as u64
    };
    assert_eq!([count(&["spans:inner"]), count(&["inner"]), count(&["*inner"])], [2 * TASKS; 3]);
    assert_eq!(count(&["spans:*"]) - count(&["spans:*", "!*inner"]), 2 * TASKS);
    assert_eq!(count(&["!spans:*", "inner"]), 2 * TASKS);
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

#[derive(Clone, Copy, ringtrace::Field)]
enum Owner<'a> {
    Nobody,
    User(u32),
    Group { name: &'a str },
}

#[ringtrace::tracepoint(record, name = "values:seen")]
fn seen(owner: Owner<'_>, took: Option<Duration>, extras: &[(&str, Extra<'_>)]);

#[ringtrace::tracepoint(name = "values:work")]
fn work(owner: Owner<'_>, limit: Duration, number: i64) {
    let extras = [("op", "x".into()), ("n", Extra::from(number)), ("a b", Extra::from(0.5)), ("ok", Extra::from(number > 1))];
    let extras = if number == 3 { &extras[..1] } else { &extras };
    seen(owner, Some(limit), extras);
}

#[test]
fn values_of_every_kind_are_shown_and_found() {
    let here = tempfile::tempdir().expect("a directory");
    let here = here.path();
    let session = ringtrace::Session::builder("values").enable("values:*").output(here.join("trace")).start().expect("a session");
    work(Owner::User(3), Duration::from_nanos(1500), 1);
    work(Owner::User(4), Duration::from_nanos(70), 2);
    work(Owner::Group { name: "all" }, Duration::ZERO, 3);
    seen(Owner::Nobody, None, &[]);
    session.stop().expect("it stops");
    drop(session);
    let run = |arguments: &[&str]| String::from_utf8(ringtrace(arguments, here).stdout).expect("text");

    let (viewed, tree) = (run(&["view", "trace"]), run(&["tree", "trace"]));
    let first = "owner=User(3) took=1500 ns op=\"x\" n=1 \"a b\"=0.5 ok=false";
    for text in [first, "owner=User(3) limit=1500 ns", "owner=Nobody took=none"] {
        assert!(viewed.contains(text) && tree.contains(text), "{text}: {viewed}{tree}");
    }
    assert!(!viewed.contains("key=") && !tree.contains("value="), "{viewed}{tree}");
    // As it is recorded: a number.
    let seen = lines(run(&["view", "trace", "--json", "--event", "seen"]).as_bytes());
    assert_eq!((&seen[0]["payload"]["took"], &seen[3]["payload"]["took"]), (&1500.into(), &Value::Null));

    let histogram = |of: &str| lines(run(&["hist", of, "trace", "--json"]).as_bytes());
    assert_eq!(histogram("seen.owner")[0]["texts"], serde_json::json!({ "User": 2, "Group": 1, "Nobody": 1 }));
    assert_eq!(histogram("seen.op")[0]["texts"], serde_json::json!({ "x": 3 }));
    assert_eq!(histogram("seen.n")[0]["numbers"]["max"], 2.0);
    let by = lines(run(&["hist", "seen.n", "by", "owner", "trace", "--json"]).as_bytes());
    assert_eq!((by.len(), &by[0]["by"]["owner"], &by[0]["numbers"]["count"]), (1, &"User".into(), &2.into()));
    assert_eq!(
        run(&["view", "trace", "--event", "seen", "--columns", "op,n,owner"]),
        "x\t1\tUser\nx\t2\tUser\nx\t-\tGroup\n-\t-\tNobody\n"
    );
    for (condition, count) in
        [("op == \"x\"", 3), ("n > 1", 1), ("n > 0.5 && ok", 1), ("has(n)", 2), ("op ~ \"y*\"", 0), ("owner == \"User\"", 4)]
    {
        let found = run(&["view", "trace", "--if", condition]);
        let found = found.lines().filter(|line| condition.contains("owner") || line.contains("seen")).count();
        assert_eq!(found, count, "{condition}");
    }
}
