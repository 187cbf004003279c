use super::{common, fields, names, recorded};
use ringtrace::{event, span};

fn send(n: usize, peer: &str, twice: bool) {
    event!("net:sent", len = n, peer; level = Debug, if n > 0);
    if twice {
        event!("net:again", ratio = n as f64 / 2.0, parts = &[1u16, 2][..], what = ?Some(n), shown = %peer);
    }
}

fn generic<T: ringtrace::Field + Copy>(value: T) {
    event!("net:any", value);
}

#[test]
fn the_fields_of_an_event_have_the_types_of_its_values() {
    let _alone = common::alone();
    let contents = recorded("net:*", || {
        send(5, "a", true);
        send(0, "b", false);
        generic(7u64);
        generic("seven");
    });
    assert_eq!(names(&contents), ["net:sent", "net:again", "net:any", "net:any"]);
    assert_eq!(fields(&contents, "net:sent"), ["len=5 peer=a"]);
    assert!(fields(&contents, "net:again")[0].ends_with("what=Some(5) shown=a"), "{:?}", fields(&contents, "net:again"));
    assert_eq!(fields(&contents, "net:any"), ["value=7", "value=seven"]);
}

#[test]
fn an_event_is_known_before_it_is_recorded() {
    fn never() {
        event!("unheard:of", size = 1u32, text = String::new());
    }
    let probe = ringtrace::registry::probes().find(|p| p.name().to_string() == "unheard:of").expect("it is known");
    let names: Vec<_> = probe.class.expect("a class").fields.iter().map(|f| f.name).collect();
    assert_eq!(names, ["size", "text"]);
    assert!(probe.location.file.ends_with("events.rs"), "{}", probe.location);
    // A filter is checked against the fields.
    let session = ringtrace::Session::builder("unheard").enable("unheard:of if sise > 1").output("never").start();
    assert!(session.expect_err("no such field").to_string().contains("size"));
    if std::env::args().count() > 100 {
        never();
    }
}

#[test]
fn a_span_has_an_entry_and_an_exit() {
    let _alone = common::alone();
    let contents = recorded("net:batch; net:sent", || {
        for size in 0..2u32 {
            let _batch = span!("net:batch", size; if size > 0);
            send(1, "c", false);
        }
    });
    assert_eq!(names(&contents), ["net:sent", "net:batch::entry", "net:sent", "net:batch::exit"]);
}

#[test]
fn values_are_computed_only_when_they_are_recorded() {
    let _alone = common::alone();
    let mut computed = 0;
    let mut compute = || {
        computed += 1;
        computed
    };
    event!("lazy:one", value = compute());
    event!("lazy:one", value = compute(); if false);
    assert_eq!(computed, 0);
}

#[test]
fn levels_have_the_names_of_other_tracers_too() {
    fn never() {
        event!("named:failed", code = 1u32; level = Error);
        event!("named:odd", code = 1u32; level = Warn);
        event!("named:fine", code = 1u32; level = Trace);
    }
    let level = |name: &str| {
        let probe = ringtrace::registry::probes().find(|p| p.name().to_string() == name);
        probe.unwrap_or_else(|| panic!("no {name}")).level
    };
    use ringtrace::Level;
    assert_eq!(["named:failed", "named:odd", "named:fine"].map(level), [Level::Err, Level::Warning, Level::Debug]);
    if std::env::args().count() > 100 {
        never();
    }
}
