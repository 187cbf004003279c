use super::{common, fields, names, recorded};
use ringtrace::{Carry as _, tracepoint};
use std::future::Future;
use std::pin::{Pin, pin};
use std::task::{Context, Poll, Waker};

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

#[tracepoint(result = debug)]
async fn outer(times: u32, name: &str) -> Result<usize, std::num::ParseIntError> {
    let number: u32 = name.parse()?;
    Later(times).await;
    inner(number).await;
    Ok(name.len())
}

#[tracepoint]
async fn inner(times: u32) {
    assert!(times != 13, "unlucky");
    Later(times).await;
}

fn poll<F: Future>(future: F, most: u32) -> Option<F::Output> {
    let mut future = pin!(future);
    for _ in 0..most {
        if let Poll::Ready(value) = future.as_mut().poll(&mut Context::from_waker(Waker::noop())) {
            return Some(value);
        }
    }
    None
}

#[test]
fn polls_and_the_whole_future() {
    let _alone = common::alone();
    let contents = recorded("functions:futures::outer; functions:futures::inner", || {
        assert_eq!(poll(outer(1, "1"), 9), Some(Ok(1)));
    });
    let of = |what: &str| {
        let names = [
            "outer::entry",
            "outer::poll::entry",
            "outer::poll::exit",
            "outer::poll::entry",
            "inner::entry",
            "inner::poll::entry",
            "inner::poll::exit",
            "outer::poll::exit",
            "outer::poll::entry",
            "inner::poll::entry",
            "inner::poll::exit",
            "inner::exit",
            "outer::poll::exit",
            "outer::exit",
        ];
        names.iter().map(|n| format!("{what}{n}")).collect::<Vec<_>>()
    };
    assert_eq!(names(&contents), of("futures::"));
    assert_eq!(fields(&contents, "outer::entry"), ["times=1 name=1"]);
    assert_eq!(contents.numbers("functions:futures::outer::exit", "polls"), [3]);
    assert_eq!(contents.numbers("functions:futures::inner::exit", "polls"), [2]);
    let ids = |event: &str| contents.numbers(&format!("functions:futures::{event}"), "future");
    assert_eq!(ids("outer::entry"), ids("outer::exit"));
    assert_ne!(ids("outer::entry"), ids("inner::entry"));
}

#[tracepoint]
async fn spawner(carried: bool, spawned: &mut Option<Pin<Box<dyn Future<Output = ()> + Send>>>) {
    Later(1).await;
    *spawned = Some(if carried { Box::pin(inner(2).with_current_keys()) } else { Box::pin(inner(2)) });
}

#[test]
fn a_future_knows_the_one_that_it_was_made_in() {
    let _alone = common::alone();
    let contents = recorded("functions:futures::* level info", || {
        assert_eq!(poll(outer(1, "1"), 9), Some(Ok(1)));
        for carried in [true, false] {
            let mut spawned = None;
            assert_eq!(poll(spawner(carried, &mut spawned), 9), Some(()));
            let spawned = spawned.expect("it ended");
            assert_eq!(std::thread::spawn(move || poll(spawned, 9)).join().expect("it ends"), Some(()));
        }
    });
    let of = |event: &str, field: &str| contents.numbers(&format!("functions:futures::{event}::entry"), field);
    let (outer, spawners) = (of("outer", "future"), of("spawner", "future"));
    assert_eq!((of("outer", "parent_future"), of("spawner", "parent_future")), (vec![0], vec![0, 0]));
    assert_eq!(of("inner", "parent_future"), [outer[0], spawners[0], 0]);
}

#[test]
fn cancellation_errors_and_panics() {
    let _alone = common::alone();
    let contents = recorded("functions:futures::outer; functions:futures::inner", || {
        assert_eq!(poll(outer(9, "1"), 2), None);
        assert!(poll(outer(0, "x"), 1).expect("it is ready").is_err());
        assert_eq!(poll(outer(0, "5"), 1), None);
        assert!(std::panic::catch_unwind(|| poll(outer(0, "13"), 1)).is_err());
        drop(outer(1, "never polled"));
    });
    let outcomes = |event: &str| {
        let of =
            |value: &String| ["returned", "panicked", "cancelled"].into_iter().find(|o| value.contains(o)).expect("one of them");
        contents.values(event, "outcome").iter().map(of).collect::<Vec<_>>()
    };
    assert_eq!(outcomes("functions:futures::outer::exit"), ["cancelled", "returned", "cancelled", "panicked"]);
    assert_eq!(outcomes("functions:futures::inner::exit"), ["cancelled", "panicked"]);
    // What is inside ends first.
    let ends: Vec<_> = names(&contents).into_iter().filter(|n| n.ends_with("er::exit")).collect();
    let (outer, inner) = ("futures::outer::exit", "futures::inner::exit");
    assert_eq!(ends, [outer, outer, inner, outer, inner, outer]);
}

/// A rule with `level info` takes functions, and not what is many times as much.
#[test]
fn polls_are_debugging() {
    use ringtrace::Level;
    let level = |name: &str| {
        let named = |probe: &&ringtrace::ProbeDescriptor| probe.name().to_string().ends_with(name);
        ringtrace::registry::probes().find(named).unwrap_or_else(|| panic!("no {name}")).level
    };
    assert_eq!((level("outer::entry"), level("outer::exit")), (Level::Info, Level::Info));
    assert_eq!((level("outer::poll::entry"), level("outer::poll::exit")), (Level::DebugFunction, Level::DebugFunction));
}

#[test]
fn a_traced_future_is_send_where_it_was() {
    fn is_send(_: impl Send) {}
    is_send(outer(1, ""));
}

mod returned {
    use super::Later;
    use ringtrace::tracepoint;
    use std::future::Future;
    use std::pin::Pin;

    type BoxFuture<'a, T> = Pin<Box<dyn Future<Output = T> + Send + 'a>>;

    /// As `async fn` in a trait is often written.
    #[tracepoint(result)]
    pub(super) fn opaque(times: u32) -> impl Future<Output = u32> + Send {
        if times == 0 {
            return body(7);
        }
        body(times)
    }

    async fn body(times: u32) -> u32 {
        Later(times).await;
        times
    }

    /// What `#[async_trait]` makes of an `async fn`.
    pub(super) struct Store;

    #[tracepoint]
    impl Store {
        pub(super) fn boxed<'life, 'async_trait>(
            &'life self,
            times: u32,
        ) -> ::core::pin::Pin<Box<dyn ::core::future::Future<Output = u32> + ::core::marker::Send + 'async_trait>>
        where
            'life: 'async_trait,
        {
            assert!(times != 13, "unlucky");
            Box::pin(async move {
                if times == 99 {
                    return 0;
                }
                Later(times).await;
                times
            })
        }

        #[tracepoint(sync)]
        pub(super) fn called(&self, times: u32) -> BoxFuture<'_, u32> {
            let body = body(times);
            Box::pin(body)
        }
    }
}

/// Functions that return a future are over when that is, whoever writes it so: a macro above ours, say.
#[test]
fn a_future_that_is_returned_is_traced_to_its_end() {
    let _alone = common::alone();
    let contents = recorded("functions:futures::returned::*", || {
        assert_eq!(poll(returned::opaque(2), 9), Some(2));
        assert_eq!(poll(returned::opaque(0), 1), None);
        assert_eq!(poll(returned::Store.boxed(3), 9), Some(3));
        drop(returned::Store.boxed(1));
        assert!(std::panic::catch_unwind(|| drop(returned::Store.boxed(13))).is_err());
        assert_eq!(poll(returned::Store.called(1), 9), Some(1));
    });
    let of = |function: &str, field: &str| contents.values(&format!("functions:futures::returned::{function}::exit"), field);
    assert_eq!(contents.numbers("functions:futures::returned::opaque::exit", "polls"), [3, 1]);
    assert_eq!(contents.numbers("functions:futures::returned::Store::boxed::exit", "polls"), [4, 0, 0]);
    let outcomes = of("Store::boxed", "outcome");
    for (outcome, expected) in outcomes.iter().zip(["returned", "cancelled", "panicked"]) {
        assert!(outcome.contains(expected), "{outcomes:?}");
    }
    assert_eq!(outcomes.len(), 3);
    assert!(fields(&contents, "opaque::exit")[0].contains("result="), "{:?}", fields(&contents, "opaque::exit"));
    // Timed alone, as it says.
    assert!(!names(&contents).iter().any(|name| name.contains("called::poll")));
    assert_eq!(of("Store::called", "outcome").len(), 1);
}
