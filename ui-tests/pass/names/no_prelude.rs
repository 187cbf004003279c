//! Names of the prelude and of the core crate mean something else here.
#![no_implicit_prelude]
#![deny(warnings)]
#![allow(dead_code, non_camel_case_types)]

mod core {}
mod std {}
mod ringtrace {}
struct Option;
struct Some;
struct None;
struct Copy;
struct u64;
trait Sized {}
trait Fn {}

#[::ringtrace::tracepoint(record, name = "sent")]
fn sent(#[field(debug)] text: &str, number: ::core::primitive::u64);

#[derive(::ringtrace::Field)]
enum Reason {
    Lru = 1,
    Capacity,
}

#[derive(::ringtrace::Field)]
enum Change {
    No,
    By(::core::primitive::u32),
}

#[derive(::ringtrace::Event)]
struct Evicted {
    reason: Reason,
    change: Change,
}

#[::ringtrace::tracepoint]
fn evicted(number: ::core::primitive::u32);

#[::ringtrace::probe(evicted, name = "evicted2")]
fn record_evicted(number: ::core::primitive::u32) -> ::core::option::Option<Evicted> {
    ::core::option::Option::Some(Evicted { reason: Reason::Lru, change: Change::By(number) })
}

fn main() {
    sent("a", 1);
    evicted(1);
    ::ringtrace::fire!(evicted(2));
}
