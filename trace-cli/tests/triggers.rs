//! Triggers from outside: docs/triggers.md is run as it stands, and finds the stall that `examples/server.rs` injects.

mod common;
mod page;
#[path = "../../tests/common/mod.rs"]
mod traces;

use std::path::PathBuf;
use std::process::Stdio;

use common::{Place, eventually, text};

#[test]
fn the_page_about_triggers_is_true_and_the_stall_is_found() {
    let place = Place::new();
    let server = page::example("server");
    // In another terminal.
    let mut running = place.command(&server).stdin(Stdio::piped()).stdout(Stdio::null()).spawn().expect("it starts");
    eventually("the agent listens", || place.json(&["ps"]).len() == 1);
    let text = std::fs::read_to_string(page::root().join("docs/triggers.md")).expect("the page");
    let steps = page::steps(&text);
    assert!(steps.len() > 4, "{} commands", steps.len());
    page::follow("docs/triggers.md", &steps, &place, &server, running.id());
    let snapshots = |trigger: &str| -> Vec<PathBuf> {
        let found = std::fs::read_dir(place.here().join("flight.snapshots")).expect("snapshots").flatten().map(|e| e.path());
        found.filter(|path| path.to_string_lossy().ends_with(&format!("-trigger-{trigger}.ringtrace"))).collect()
    };
    // Each has its own moment: a request that came before the store was free again, and its answer.
    let stalls = snapshots("stall");
    assert!(!stalls.is_empty());
    for stall in stalls {
        let contents = traces::read_by_both(&stall);
        let what = contents.values("ringtrace:trigger_fired", "what");
        let what = what.last().expect("the firing is in its snapshot");
        let id: u64 = what.rsplit(' ').next().expect("words").parse().expect("its key");
        assert!(contents.numbers("server:received", "id").contains(&id), "{what}");
        assert!(contents.numbers("server:answered", "id").contains(&id), "{what}");
    }
    // A busy machine may stall requests too. What the server injects is found in any case: the store is locked in between.
    let is_found = |stall: &PathBuf| {
        let contents = traces::read(stall);
        let what = contents.values("ringtrace:trigger_fired", "what").pop().unwrap_or_default();
        let id = what.rsplit(' ').next().unwrap_or_default().to_owned();
        let place = |event: &str, id: Option<&str>| {
            let is_it = |(name, fields): &(String, Vec<(String, String)>)| {
                name == event && id.is_none_or(|id| fields.iter().any(|(n, value)| n == "id" && value == id))
            };
            contents.payloads.iter().rposition(is_it)
        };
        let (compacting, answered) = (place("server:compacting", None), place("server:answered", Some(&id)));
        compacting.is_some() && compacting < answered
    };
    eventually("the injected stall is in a snapshot", || snapshots("stall").iter().any(is_found));
    drop(running.stdin.take());
    assert!(running.wait().expect("it ends").success());
}

#[test]
fn what_is_saved_is_loaded_and_what_is_wrong_is_told() {
    let place = Place::new();
    let server = page::example("server");
    let mut running = place.command(&server).stdin(Stdio::piped()).stdout(Stdio::null()).spawn().expect("it starts");
    eventually("the agent listens", || place.json(&["ps"]).len() == 1);
    let trigger = "when answered if id == 0 then snapshot before 1s as never";
    let create = ["session", "create", "flight", "--overwrite", "--rule", "server:*", "--trigger", trigger];
    assert!(place.run(&create).status.success());
    assert!(place.run(&["config", "save", "sessions.toml"]).status.success());
    assert!(place.run(&["session", "destroy", "flight"]).status.success());
    assert!(place.run(&["config", "load", "sessions.toml"]).status.success());
    let listed = place.json(&["--json", "trigger", "list"]);
    assert_eq!(listed[0]["trigger"]["trigger"], trigger);
    assert_eq!((&listed[0]["trigger"]["name"], &listed[0]["trigger"]["fired"]), (&"never".into(), &0.into()));

    let wrong = "when latency(received, answered by idd) > 1ms then stop";
    let (code, message) = place.fail(&["trigger", "add", "-s", "flight", wrong]);
    assert!(code != 0 && message.contains("no field is called `idd`"), "{message}");
    assert!(message.contains(&format!("  {wrong}\n  {:>38}", "^^^")), "{message}");
    let (_, message) = place.fail(&["trigger", "remove", "-s", "flight", "nobody"]);
    assert!(message.contains("no trigger called `nobody`; there are: never"), "{message}");

    // A hook runs here; the traced program has started no process.
    let add = ["trigger", "add", "-s", "flight", "when answered then notify \"hello\" debounce 10ms as often"];
    assert!(place.run(&add).status.success());
    let watched = place.run(&["watch", "--all", "--count", "2", "--exec", "echo hook $RINGTRACE_TRIGGER $RINGTRACE_SESSION"]);
    let printed = text(&watched.stdout);
    assert!(watched.status.success() && printed.matches("hook often flight").count() == 2, "{printed}");
    assert!(printed.contains("often fired: server:answered id = ") && printed.contains(": hello"), "{printed}");
    drop(running.stdin.take());
    assert!(running.wait().expect("it ends").success());
}
