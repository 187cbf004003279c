//! Every lint that expansions could trip over.
#![forbid(unsafe_code)]
#![deny(
    warnings,
    missing_docs,
    unused,
    future_incompatible,
    nonstandard_style,
    unreachable_pub,
    elided_lifetimes_in_paths,
    single_use_lifetimes,
    trivial_casts,
    unused_qualifications,
    unused_lifetimes,
    non_local_definitions,
    private_interfaces,
    private_bounds,
    let_underscore_drop,
    missing_debug_implementations,
    unused_results,
    rust_2021_compatibility,
    rust_2024_compatibility
)]

/// Why a page left.
#[derive(Clone, Copy, Debug, ringtrace::Field)]
#[repr(i16)]
enum Reason {
    Old = -1,
    Full = 300,
}

/// A page left the cache.
#[ringtrace::tracepoint(reentrant)]
fn evicted<'p>(page: &'p str, old: Option<&'p str>, reason: Reason);

/// A request was answered.
#[ringtrace::tracepoint(record, level = Debug, name = "http.answered")]
fn answered(#[field(sensitive)] path: &str, status: u16);

/// What the probe records.
#[derive(Debug, ringtrace::Event)]
struct Evicted<'p> {
    #[field(rename = "name", sensitive)]
    page: &'p str,
    #[field(debug)]
    old: Option<&'p str>,
    reason: Reason,
    change: Change<'p>,
}

/// What became of the page.
#[derive(Debug, ringtrace::Field)]
enum Change<'p> {
    Gone,
    Moved(&'p str, Place),
    Kept { by: u32 },
}

/// Where.
#[derive(Clone, Copy, Debug, ringtrace::Field)]
struct Place(u32, u32);

#[ringtrace::probe(evicted, level = Info)]
fn record_evicted<'p>(page: &'p str, old: Option<&'p str>, reason: Reason) -> Option<Evicted<'p>> {
    let change = match page.len() {
        0 => Change::Gone,
        1 => Change::Moved(page, Place(1, 2)),
        _ => Change::Kept { by: 1 },
    };
    Some(Evicted { page, old, reason, change })
}

fn main() {
    evicted("index", None, Reason::Old);
    ringtrace::fire!(evicted("index", Some("old"), Reason::Full));
    ringtrace::fire!(answered("/", 200));
    answered("/", 404);

    #[ringtrace::tracepoint(record)]
    fn local(number: u32);
    local(1);
    if local::enabled() {
        println!("on");
    }
}
