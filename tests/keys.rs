//! Keys that futures carry, and fields whose keys are known only at run time.
#![allow(unused_crate_dependencies, reason = "dependencies of other tests")]

mod common;

use ringtrace::{Aggregation, Carry as _, Context, Extra, Key, KeyValue, Session, tracepoint};
use std::time::Duration;

#[tracepoint(record)]
fn step(number: u32);

async fn work(number: u32) {
    step(number);
    tokio::time::sleep(Duration::from_millis(1)).await;
    step(number);
    tokio::task::yield_now().await;
    step(number);
}

#[test]
fn futures_carry_keys_across_awaits_and_threads() {
    let request = Key::register("request").expect("a free field");
    let user = Key::register("user").expect("a free field");
    assert_eq!(Key::register("request").expect("the same").context(), request.context());
    let directory = tempfile::tempdir().expect("a directory");
    let path = directory.path().join("trace");
    let context = Context::VTID | request.context() | user.context();
    let session = Session::builder("keys").enable("keys:step").context(context).output(&path).start().expect("it starts");
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(3).enable_time().build().expect("a runtime");
    runtime.block_on(async {
        let tasks: Vec<_> = (1..=50u32)
            .map(|number| {
                let inner = async move {
                    work(number).await;
                    tokio::spawn(work(number).with_current_keys()).await.expect("it ends");
                };
                tokio::spawn(inner.with_key(request, number.into()).with_key(user, u64::from(number) + 1000))
            })
            .collect();
        for task in tasks {
            task.await.expect("it ends");
        }
    });
    // Dropped in the middle, it is still the request's.
    runtime.block_on(async {
        struct Left;
        impl Drop for Left {
            fn drop(&mut self) {
                step(60);
            }
        }
        let left = Left;
        let inner = async move {
            let _left = left;
            std::future::pending::<()>().await;
        };
        let task = tokio::spawn(inner.with_key(request, 60).with_key(user, 1060));
        tokio::task::yield_now().await;
        task.abort();
        assert!(task.await.expect_err("it has no end").is_cancelled());
    });
    user.scope(7, || request.scope(99, || step(99)));
    assert_eq!((request.get(), user.get()), (0, 0));
    step(0);
    session.stop().expect("it stops");
    let contents = common::read_by_both(&path);
    assert_eq!(contents.events(), 50 * 6 + 3);
    for line in &contents.lines {
        let value = |name: &str| {
            let (_, rest) = line.split_once(&format!(" {name} = ")).unwrap_or_else(|| panic!("no {name}: {line}"));
            rest.split([',', ' ']).next().and_then(|number| number.parse::<u64>().ok()).expect("a number")
        };
        let (number, request, user) = (value("number"), value("request"), value("user"));
        assert_eq!(number, request, "{line}");
        let expected = if number == 99 {
            7
        } else if number == 0 {
            0
        } else {
            number + 1000
        };
        assert_eq!(user, expected, "{line}");
    }
}

/// Fired by one test only: the tests run side by side.
#[tracepoint(record)]
fn tagged(number: u64, text: &str);

const NUMBERS: [&str; 12] = ["k1", "k2", "k3", "k4", "k5", "k6", "k7", "k8", "k9", "k10", "k11", "k12"];

/// With those of the other tests they are all that a program may have.
#[test]
fn keys_may_be_texts_and_sixteen() {
    let tenant = Key::register_text("tenant").expect("a free field");
    let numbers = NUMBERS.map(|name| Key::register(name).expect("a free field"));
    let another = Key::register("tenant").expect_err("it is one for texts").to_string();
    assert!(another.contains("`tenant`"), "{another}");
    let directory = tempfile::tempdir().expect("a directory");
    let path = directory.path().join("trace");
    let many = Context::VPID | Context::NESTING | Context::PROCNAME | Context::THREAD_NAME | tenant.context();
    let many = numbers.iter().fold(many, |context, key| context | key.context());
    let rule = "keys:tagged if $ctx.tenant != \"left out\" && $ctx.k12 < 100";
    let session = Session::builder("many").enable(rule).context(many).output(&path).start().expect("it starts");
    let few = directory.path().join("few");
    let small = Session::builder("few").enable(rule).context(Context::VTID | tenant.context()).output(&few).start();
    let small = small.expect("it starts");
    let counts = Aggregation::of("keys:tagged by $ctx.tenant").start().expect("it starts");

    let long = "of more than thirty-two bytes: é, and then some";
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(3).enable_time().build().expect("a runtime");
    let task = async {
        tagged(1, "text");
        let inner = async {
            tokio::time::sleep(Duration::from_millis(1)).await;
            tagged(2, "");
        };
        tokio::spawn(inner.with_current_keys()).await.expect("it ends");
        tokio::task::yield_now().await;
        tagged(3, &"x".repeat(5000));
    };
    let task = task.with_key(tenant, "acme").with_key(numbers[0], 7);
    runtime.block_on(async { tokio::spawn(task).await.expect("it ends") });
    tagged(4, "none");
    tenant.scope(long, || {
        tenant.scope("left out", || tagged(5, ""));
        numbers[11].scope(100, || tagged(6, ""));
        let caught = std::panic::catch_unwind(|| tenant.scope("lost", || panic!("it panics")));
        assert!(caught.is_err());
        tagged(7, "long");
        assert_eq!(tenant.get().as_str(), "of more than thirty-two bytes…");
    });
    tenant.scope("ends\0here", || tagged(8, ""));
    assert_eq!((tenant.get().as_str(), numbers[0].get()), ("", 0));

    assert_eq!(session.stop().expect("it stops").filtered, 2);
    assert_eq!(small.stop().expect("it stops").lost.total(), 0);
    let expected =
        [(1, "acme", 7), (2, "acme", 7), (3, "acme", 7), (4, "", 0), (7, "of more than thirty-two bytes…", 0), (8, "ends…", 0)];
    for path in [&path, &few] {
        let contents = common::read_by_both(path);
        assert_eq!(contents.numbers("keys:tagged", "number"), expected.map(|(number, ..)| number));
        for (line, (_, tenant, _)) in contents.lines.iter().zip(expected) {
            assert!(line.contains(&format!(" tenant = \"{tenant}\"")), "{line}");
        }
    }
    for (line, (_, _, first)) in common::read(&path).lines.iter().zip(expected) {
        assert!(line.contains(&format!(" k1 = {first},")) && line.contains(" k12 = 0"), "{line}");
        assert!(line.contains(&format!("vpid = {}, nesting = 0", std::process::id())), "{line}");
    }
    let found = counts.read();
    let of = |tenant: &str| {
        let keys = Some(vec![KeyValue::Text(tenant.into())]);
        found.groups.iter().find(|group| group.keys == keys).map(|group| group.figures.count)
    };
    assert_eq!((of("acme"), of("left out"), of("")), (Some(3), Some(1), Some(1)), "{found:?}");
}

#[tracepoint(record)]
fn noted(what: u32, extras: &[(&str, Extra<'_>)]);

#[test]
fn extras_are_bounded() {
    let directory = tempfile::tempdir().expect("a directory");
    let path = directory.path().join("trace");
    let session = Session::builder("extras").enable("keys:noted").output(&path).start().expect("it starts");
    noted(
        1,
        &[("size", Extra::from(5u32)), ("path", Extra::from("/index")), ("ratio", Extra::from(0.5)), ("on", Extra::from(true))],
    );
    noted(2, &[("below", Extra::Integer(-3)), ("", Extra::Text(""))]);
    noted(3, &[]);
    let many = vec![("key", Extra::Text("value")); 100];
    noted(4, &many);
    let statistics = session.stop().expect("it stops");
    assert_eq!((statistics.lost.total(), statistics.cut), (0, 1), "{statistics}");
    let contents = common::read_by_both(&path);
    assert_eq!(contents.events(), 4);
    for text in ["size", "/index", "0.5", "-3"] {
        assert!(contents.lines[..2].iter().any(|line| line.contains(text)), "{text}: {:?}", contents.lines);
    }
    assert!(contents.lines[3].matches("key = \"key\"").count() > 3, "{}", contents.lines[3]);
}

#[test]
fn a_key_that_fills_the_record_leaves_room_for_its_value() {
    let long = "k".repeat(40_000);
    let filled = || {
        for length in (32_650..32_780).chain([40_000]) {
            noted(6, &[(&long[..length], Extra::from(7u64)), ("b", Extra::from(8u64)), ("c", Extra::from("text"))]);
        }
    };
    let events = ringtrace::test::record("keys:noted", filled);
    assert_eq!((events.len(), events.lost()), (131, 0));
    let has_value =
        |event: &ringtrace::test::Event| event.field("extras").is_some_and(|extras| extras.to_string().contains("=7"));
    assert!(events.iter().all(has_value), "{}", events[0].to_string().replace('k', ""));
}

/// Text by `Debug` is bounded, too.
#[tracepoint(record)]
fn shown(#[field(debug)] what: &[u64]);

#[test]
fn debug_is_cut() {
    let directory = tempfile::tempdir().expect("a directory");
    let path = directory.path().join("trace");
    let session = Session::builder("debug").enable("keys:shown").output(&path).start().expect("it starts");
    shown(&[123_456_789; 1000]);
    assert_eq!(session.stop().expect("it stops").cut, 1);
    let text = &common::read_by_both(&path).values("keys:shown", "what")[0];
    assert!(text.len() <= 128 && text.ends_with('…') && text.starts_with("[123456789, "), "{text}");
}

/// Fired by one test only: the tests run side by side.
#[tracepoint(record)]
fn in_task(number: u32);

async fn polled_often(number: u32) {
    in_task(number);
    tokio::time::sleep(Duration::from_millis(1)).await;
    in_task(number);
    tokio::task::yield_now().await;
    in_task(number);
}

#[test]
fn the_id_of_the_task() {
    let task = ringtrace::tokio_task().expect("a free field");
    let directory = tempfile::tempdir().expect("a directory");
    let path = directory.path().join("trace");
    let session =
        Session::builder("tasks").enable("keys:in_task").context(Context::VTID | task).output(&path).start().expect("it starts");
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_time().build().expect("a runtime");
    let mut ids: Vec<String> = runtime.block_on(async {
        let tasks: Vec<_> = (1..=20u32).map(|number| tokio::spawn(polled_often(number))).collect();
        let ids = tasks.iter().map(|task| task.id().to_string()).collect();
        for task in tasks {
            task.await.expect("it ends");
        }
        ids
    });
    session.stop().expect("it stops");
    let contents = common::read_by_both(&path);
    let id = |line: &String| line.split_once(" task = ").expect("a task").1.split([',', ' ']).next().map(str::to_owned);
    let mut recorded: Vec<String> = contents.lines.iter().filter_map(id).collect();
    recorded.sort();
    recorded.dedup();
    ids.sort();
    assert_eq!(recorded, ids);
}
