//! Locals and arguments that have the names of tracepoints, or names that an expansion could use.
#![deny(warnings)]

#[ringtrace::tracepoint(record)]
fn page_evicted(entry: u64, function: u32, payload: &str, page_evicted: bool);

#[ringtrace::tracepoint(record)]
fn arguments(self_: u8, cx: u8, a0: u8, a1: u8, f0: u8, value: u8, all: u8, this: u8, gate: u8);

#[ringtrace::tracepoint(record)]
fn r#match(r#type: u32);

#[derive(ringtrace::Event)]
struct Names {
    payload: u8,
    entry: u8,
    f0: u8,
    r#type: u8,
}

#[ringtrace::tracepoint]
fn named(entry: u8);

#[ringtrace::probe(named)]
fn entry(entry: u8) -> Names {
    Names { payload: entry, entry, f0: entry, r#type: entry }
}

#[ringtrace::probe(self::named, name = "ignored")]
fn ignore(_: u8) {}

fn main() {
    let page_evicted = page_evicted(1, 2, "x", false);
    let () = page_evicted;
    ringtrace::fire!(page_evicted(1, 2, "x", true));
    let entry = 3;
    ringtrace::fire!(named(entry));
    arguments(0, 1, 2, 3, 4, 5, 6, 7, 8);
    r#match(1);
    ringtrace::fire!(r#match(1));
    let named = 1;
    let _ = named;
}
