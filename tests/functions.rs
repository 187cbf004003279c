//! Traced functions, ad-hoc events and spans: what is recorded of them, read by both readers.
#![expect(unsafe_code, reason = "an unsafe function is traced")]
#![allow(unused_crate_dependencies, reason = "dependencies of other tests")]

mod common;

#[path = "functions/events.rs"]
mod events;
#[path = "functions/futures.rs"]
mod futures;
#[path = "functions/synchronous.rs"]
mod synchronous;

use common::Contents;
use ringtrace::Session;

/// What `run` records of what `rules` match.
fn recorded(rules: &str, run: impl FnOnce()) -> Contents {
    let directory = tempfile::tempdir().expect("a directory");
    let path = directory.path().join("trace");
    let session = Session::builder("test").enable(rules).output(&path).start().expect("the rules are good");
    run();
    let statistics = session.stop().expect("it stops");
    drop(session);
    assert_eq!(statistics.lost.total(), 0, "{statistics}");
    common::read_by_both(&path)
}

/// The names of the events in the order of time, without what all have in front.
fn names(contents: &Contents) -> Vec<&str> {
    contents.payloads.iter().map(|(name, _)| name.rsplit_once("functions:").map_or(name.as_str(), |(_, name)| name)).collect()
}

/// The fields of one event, but for durations.
fn fields(contents: &Contents, event: &str) -> Vec<String> {
    let shown = |fields: &Vec<(String, String)>| {
        let kept = fields.iter().filter(|(name, _)| !matches!(name.as_str(), "duration" | "busy" | "future" | "parent_future"));
        kept.map(|(name, value)| format!("{name}={value}")).collect::<Vec<_>>().join(" ")
    };
    contents.payloads.iter().filter(|(name, _)| name.ends_with(event)).map(|(_, fields)| shown(fields)).collect()
}
