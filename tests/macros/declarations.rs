//! What the registry knows of declarations.
#![expect(dead_code, reason = "what is declared here is described, and never fired")]

use crate::collect::probes;
use ringtrace::{Level, Tracepoint};
use trace_registry::registry;

pub(crate) mod inner {
    #[derive(Clone, Copy)]
    pub(crate) struct Page<'a>(pub(crate) &'a str);

    #[ringtrace::tracepoint]
    pub(crate) fn evicted<'a>(page: &'a Page<'a>, old: [u8; 4], text: &str);
}

#[ringtrace::tracepoint(record, reentrant, name = "http.request", level = Warning)]
fn request(id: u64);

#[ringtrace::probe(inner::evicted, name = "cache.evicted", level = DebugLine)]
fn record_evicted(_page: &inner::Page<'_>, _old: [u8; 4], _text: &str) {}

#[ringtrace::tracepoint]
fn r#match(r#type: u8);

#[test]
fn descriptors_say_what_is_declared() {
    let evicted = inner::evicted::descriptor();
    assert_eq!(evicted.name.to_string(), "macros:declarations::inner::evicted");
    assert_eq!(evicted.signature, "fn evicted<'a>(page: &'a Page<'a>, old: [u8; 4], text: &str)");
    assert!(evicted.location.file.ends_with("declarations.rs"), "{}", evicted.location);
    assert!(!evicted.reentrant);
    let request = request::descriptor();
    assert_eq!(request.name.to_string(), "http.request");
    assert!(request.reentrant);
    assert_eq!(r#match::descriptor().name.to_string(), "macros:declarations::match");
    for (descriptor, function) in [(evicted, "pub(crate) fn evicted"), (request, "fn request")] {
        let line = include_str!("declarations.rs").lines().position(|l| l.trim_start().starts_with(function));
        assert_eq!(Some(descriptor.location.line as usize), line.map(|l| l + 1), "{function}");
    }
    for descriptor in [evicted, request] {
        let found = registry::tracepoints().iter().filter(|t| std::ptr::eq(*t, descriptor)).count();
        assert_eq!(found, 1, "{}", descriptor.name);
    }
}

#[test]
fn probes_go_by_their_own_name_or_their_tracepoints() {
    let [evicted] = probes::<inner::evicted>()[..] else { panic!("one probe is declared") };
    assert_eq!(evicted.name().to_string(), "cache.evicted");
    assert_eq!(evicted.level, Level::DebugLine);
    assert!(evicted.class.is_none());
    let [recorded] = probes::<request>()[..] else { panic!("`record` makes one probe") };
    assert_eq!(recorded.name().to_string(), "http.request");
    assert_eq!(recorded.level, Level::Warning);
    assert_eq!(recorded.class.map(|c| (c.name, c.fields.len())), Some(("request", 1)));
    assert_eq!(recorded.location, request::descriptor().location);
}

#[ringtrace::tracepoint]
fn doubled();

#[ringtrace::probe(doubled)]
fn one() {}

#[ringtrace::probe(doubled)]
fn two() {}

#[test]
fn two_probes_of_one_name_are_reported_with_both_places() {
    let duplicates = registry::duplicates();
    let [found] = &duplicates[..] else { panic!("one pair is declared") };
    assert_eq!(found.name, "macros:declarations::doubled");
    assert_eq!(found.second.location.line, found.first.location.line + 3);
}

macro_rules! levels {
    ($($name:ident $level:ident;)*) => {
        $(
            #[ringtrace::tracepoint(record, level = $level)]
            fn $name();
        )*

        #[test]
        fn every_level_is_known() {
            let levels = [$(probes::<$name>()[0].level),*];
            assert_eq!(levels, Level::ALL);
        }
    };
}

levels! {
    l0 Emerg; l1 Alert; l2 Crit; l3 Err; l4 Warning; l5 Notice; l6 Info; l7 DebugSystem; l8 DebugProgram; l9 DebugProcess;
    l10 DebugModule; l11 DebugUnit; l12 DebugFunction; l13 DebugLine; l14 Debug;
}

/// Nothing but gates lies between two gates, so that no store near them costs the traced code a cache miss.
#[cfg(all(unix, not(target_vendor = "apple")))]
#[test]
fn gates_lie_together() {
    let mut gates: Vec<_> = registry::tracepoints().iter().map(|t| std::ptr::from_ref(t.gate).addr()).collect();
    gates.sort_unstable();
    assert!(gates.len() > 20);
    assert!(gates.windows(2).all(|pair| pair[1] - pair[0] == size_of::<usize>()), "{gates:x?}");
}
