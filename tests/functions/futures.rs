use super::{common, fields, names, recorded};
use ringtrace::tracepoint;
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

#[test]
fn a_traced_future_is_send_where_it_was() {
    fn is_send(_: impl Send) {}
    is_send(outer(1, ""));
}
