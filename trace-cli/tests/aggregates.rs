//! Aggregations from outside: docs/aggregations.md is run as it stands, and what ends with a connection does.

mod common;
mod page;

use std::process::Stdio;

use common::{Place, eventually};

#[test]
fn the_page_about_aggregations_is_true() {
    let place = Place::new();
    let service = page::example("service");
    // In another terminal.
    let mut running = place.command(&service).stdin(Stdio::piped()).stdout(Stdio::null()).spawn().expect("it starts");
    eventually("the agent listens", || place.json(&["ps"]).len() == 1);
    let text = std::fs::read_to_string(page::root().join("docs/aggregations.md")).expect("the page");
    let steps = page::steps(&text);
    assert_eq!(steps.len(), 4);
    page::follow("docs/aggregations.md", &steps, &place, &service, running.id());

    // In JSON: one object for each time, and one at the end; counts only grow.
    let found = place.json(&["count", "-p", "service", "service:accepted", "--every", "50ms", "--for", "300ms"]);
    let counts: Vec<u64> = found.iter().map(|f| f["groups"][0]["count"].as_u64().unwrap_or(0)).collect();
    assert!(counts.len() > 1 && counts.is_sorted() && counts[counts.len() - 1] > 0, "{counts:?}");
    // On a terminal, which script(1) makes: a table that is shown anew, each time in the place of the one before.
    for (verb, what, heading) in [("count", "service:accepted", "event "), ("hist", "service:answered.bytes", "from ")] {
        let program = env!("CARGO_BIN_EXE_ringtrace");
        let line = format!("{program} {verb} -p service {what} --every 50ms --for 400ms --dir {}", place.runtime().display());
        let script = place.command("script").args(["-qec", &line, "/dev/null"]).stdin(Stdio::null()).output().expect("script(1)");
        let shown = String::from_utf8_lossy(&script.stdout);
        let tables: Vec<&str> = shown.split("\x1b[H\x1b[2J").skip(1).collect();
        assert!(script.status.success() && tables.len() > 1, "{shown:?}");
        let is_whole = |table: &&str| table.contains(heading) && table.contains("service:a") && !table.contains('{');
        assert!(tables.iter().skip(1).all(is_whole), "{tables:?}");
    }
    // Nothing stays attached.
    let is_off = || {
        let list = place.json(&["list", "service:accepted"]);
        !list[0].to_string().contains("\"on\":true")
    };
    eventually("the tracepoint is off", is_off);
    let (code, message) = place.fail(&["count", "-p", "service", "service:accepted.path"]);
    assert!(code == 1 && message.contains("is text, which has no sum"), "{message}");
    let (code, message) = place.fail(&["count", "-p", "service", "service:accepted by path; service:answered by outcome"]);
    assert!(code == 1 && message.contains("one rule is counted at a time") && !message.contains("1 in N"), "{message}");
    drop(running.stdin.take());
    assert!(running.wait().expect("it ends").success());
}
