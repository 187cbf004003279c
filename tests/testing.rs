//! Events for tests: `ringtrace::test`.
#![allow(unused_crate_dependencies, reason = "dependencies of other tests")]

use ringtrace::test::{self, Events};
use ringtrace::{Event, event, tracepoint};
use std::panic::catch_unwind;

#[derive(Clone, Copy, Debug, ringtrace::Field)]
enum Reason {
    Lru,
    Full,
}

#[tracepoint]
fn evicted(page: u64, path: &str, reason: Reason);

#[derive(Debug, Event)]
struct Evicted<'a> {
    page: u64,
    #[field(sensitive)]
    path: &'a str,
    reason: Reason,
    #[field(debug)]
    parts: Option<(u8, char)>,
    all: [Option<i16>; 2],
}

#[ringtrace::probe(evicted)]
fn record_evicted(page: u64, path: &str, reason: Reason) -> Option<Evicted<'_>> {
    (page > 0).then_some(Evicted { page, path, reason, parts: Some((1, 'x')), all: [None, Some(-2)] })
}

#[tracepoint(record)]
fn opened(number: u32);

#[tracepoint(record)]
fn lent(to: Option<u32>, note: Option<&str>);

#[tracepoint(result)]
fn work(depth: u32) -> u32 {
    if depth == 0 {
        opened(7);
        return 1;
    }
    work(depth - 1) + 1
}

#[test]
fn optional_fields_are_options() {
    let events = test::record("lent", || {
        lent(Some(7), None);
        lent(None, Some("soon"));
    });
    let of = |event: &test::Event| (event.get::<Option<u32>>("to"), event.get::<Option<String>>("note"));
    assert_eq!(events.iter().map(of).collect::<Vec<_>>(), [(Some(7), None), (None, Some("soon".to_owned()))]);
    assert_eq!(events[0].get::<u32>("to"), 7);
}

#[test]
fn events_are_compared_with_values() {
    let events = test::record("testing:*", || {
        opened(1);
        evicted(5, "index", Reason::Lru);
        evicted(0, "none", Reason::Full);
        evicted(6, "data", Reason::Full);
    });
    assert_eq!(events.len(), 3);
    assert_eq!(events.lost(), 0);
    let all = [None, Some(-2)];
    let expected = [
        Evicted { page: 5, path: "index", reason: Reason::Lru, parts: Some((1, 'x')), all },
        Evicted { page: 6, path: "data", reason: Reason::Full, parts: Some((1, 'x')), all },
    ];
    assert_eq!(events.of::<Evicted<'_>>(), expected);
    assert_ne!(events.of::<Evicted<'_>>(), expected[..1]);
    let other = Evicted { path: "date", ..expected[1] };
    assert_ne!(events.of::<Evicted<'_>>(), [expected.into_iter().next().expect("two"), other]);
    assert_eq!(events[1].get::<u64>("page"), 5);
    assert_eq!(events[1].get::<String>("path"), "index");
    assert_eq!(events[2].get::<String>("reason"), "Full");
    assert_eq!(events[0].to_string(), "info testing:opened number=1");
    let text = events[1].to_string();
    assert_eq!(text, "info testing:evicted page=5 path=\"index\" reason=Lru parts=\"Some((1, 'x'))\" all=[none, -2]");
}

#[test]
fn rules_and_filters_choose() {
    let events = test::record("testing:evicted if page > 5; testing:opened", || {
        evicted(5, "a", Reason::Lru);
        evicted(6, "b", Reason::Lru);
        opened(1);
        event!("testing:other", number = 1);
    });
    assert_eq!(events.names(), ["testing:evicted", "testing:opened"]);
    let wrong = catch_unwind(|| drop(test::record("testing:opend", || {})));
    let message = *wrong.expect_err("no such event").downcast::<String>().expect("a message");
    assert!(message.contains("testing:opened"), "{message}");
    let nothing = test::record("nothing:*", || opened(1));
    assert_eq!((nothing.len(), nothing.warnings()), (0, &["`nothing:*` matches no probe".to_owned()][..]));
}

/// Polls on several threads, a task of its own, and a future that is dropped before its end.
#[test]
fn asynchronous_code_is_recorded_wherever_it_is_polled() {
    #[tracepoint]
    async fn fetch(number: u32) -> u32 {
        opened(number);
        tokio::task::yield_now().await;
        opened(number + 1);
        number
    }
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).build().expect("a runtime");
    let events = runtime.block_on(async {
        tokio::spawn(test::record_async("testing:opened; testing:*fetch*", async {
            assert_eq!(fetch(1).await, 1);
            let carried = test::handle().carry(fetch(10));
            tokio::spawn(carried).await.expect("it ends");
            tokio::spawn(fetch(20)).await.expect("it ends");
            let mut dropped = Box::pin(test::handle().carry(fetch(30)));
            std::future::poll_fn(|context| {
                assert!(dropped.as_mut().poll(context).is_pending());
                std::task::Poll::Ready(())
            })
            .await;
            tokio::spawn(async move { drop(dropped) }).await.expect("it ends");
        }))
        .await
        .expect("it ends")
    });
    assert_eq!(events.named("opened").map(|e| e.get::<u32>("number")).collect::<Vec<_>>(), [1, 2, 10, 11, 30]);
    let outcomes: Vec<String> = events.named("testing:fetch::exit").map(|e| e.get("outcome")).collect();
    assert_eq!(outcomes, ["returned", "returned", "cancelled"]);
    events.assert_pairs();
}

#[test]
fn order_and_pairs() {
    let events = test::record("testing:work; testing:opened", || assert_eq!(work(2), 3));
    events.assert_pairs();
    events.assert_order(&["work::entry", "opened", "testing:work::exit", "*::exit"]);
    assert!(catch_unwind(|| events.assert_order(&["opened", "work::entry"])).is_err());
    assert_eq!(events.named("work::exit").map(|e| e.get::<u32>("result")).collect::<Vec<_>>(), [1, 2, 3]);
    let half = test::record("testing:work::entry", || work(0));
    assert!(catch_unwind(std::panic::AssertUnwindSafe(|| half.assert_pairs())).is_err());
}

#[test]
fn other_threads_take_part_by_a_handle() {
    let events = test::record("testing:opened", || {
        let handle = test::handle();
        std::thread::scope(|scope| {
            scope.spawn(|| {
                let _in = handle.enter();
                opened(1);
            });
            scope.spawn(|| opened(2));
        });
    });
    assert_eq!(events.iter().map(|e| e.get::<u32>("number")).collect::<Vec<_>>(), [1]);
}

#[test]
fn recordings_nest_and_the_inner_one_has_its_events() {
    let mut inner = None;
    let outer = test::record("testing:opened", || {
        opened(1);
        inner = Some(test::record("testing:opened", || opened(2)));
        opened(3);
    });
    let numbers = |events: &Events| events.iter().map(|e| e.get::<u32>("number")).collect::<Vec<_>>();
    assert_eq!((numbers(&outer), numbers(&inner.expect("made"))), (vec![1, 3], vec![2]));
}

#[test]
fn ten_thousand_recordings_in_parallel_have_their_own_events_only() {
    let threads = 8;
    std::thread::scope(|scope| {
        for thread in 0..threads {
            scope.spawn(move || {
                for run in 0..10_000 / threads {
                    let number = thread * 100_000 + run;
                    let events = test::record("testing:opened; testing:work", || {
                        opened(number);
                        assert_eq!(work(1), 2);
                        opened(number + 1);
                    });
                    let opened: Vec<u32> = events.named("testing:opened").map(|e| e.get("number")).collect();
                    assert_eq!(opened, [number, 7, number + 1]);
                    assert_eq!((events.len(), events.lost()), (7, 0));
                    events.assert_pairs();
                }
            });
        }
    });
}

#[derive(Clone, Copy, ringtrace::Field)]
enum Shape {
    Circle { radius: f64 },
}

#[tracepoint(record)]
fn shown(#[field(unit = "B")] size: u32, numbers: &[u8], shape: Shape, owner: Option<u8>);

#[test]
fn an_event_is_shown_as_the_command_shows_it() {
    let events = test::record("testing:shown", || shown(5, &[1, 2], Shape::Circle { radius: 1.5 }, None));
    assert_eq!(events[0].to_string(), "info testing:shown size=5 B numbers=[1, 2] shape=Circle{radius=1.5} owner=none");
}

/// What a failing test prints.
#[test]
fn a_failing_test_shows_its_events() {
    if std::env::var_os("RINGTRACE_TEST_CHILD").is_some() {
        let events = test::record("testing:opened; nothing:*", || (0..100).for_each(opened));
        assert_eq!(events.len(), 2);
    }
    let mut child = std::process::Command::new(std::env::current_exe().expect("a path"));
    let child = child.args(["a_failing_test_shows_its_events", "--exact", "--nocapture"]).env("RINGTRACE_TEST_CHILD", "1");
    let output = child.output().expect("it runs");
    let text = String::from_utf8_lossy(&output.stderr);
    assert!(!output.status.success() && text.contains("the test recorded 100 events:"), "{text}");
    // What may be the reason comes first, then the last events, and how many there are besides.
    let shown: Vec<&str> = text.lines().filter(|line| line.contains("info testing:opened number=")).collect();
    assert!(shown.len() == 20 && shown[19].contains("number=99 "), "{text}");
    let at = |phrase: &str| text.find(phrase).unwrap_or_else(|| panic!("no {phrase} in {text}"));
    assert!(at("`nothing:*` matches no probe") < at("… 80 events before these"), "{text}");
    assert!(at("… 80 events before these") < at("number=80 "), "{text}");
}
