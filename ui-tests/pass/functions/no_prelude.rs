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
struct str;
struct bool;
trait Sized {}
trait Fn {}
trait Capture {
    fn capture(&self) {}
}
impl<T> Capture for T {}

#[::ringtrace::tracepoint(result)]
fn sent(text: &::core::primitive::str, start: ::core::primitive::u64) -> ::core::primitive::u64 {
    let scope = start;
    text.len() as ::core::primitive::u64 + scope
}

#[::ringtrace::tracepoint]
async fn waits(value: ::core::primitive::u32) -> ::core::primitive::u32 {
    value
}

struct Cart;

#[::ringtrace::tracepoint]
impl Cart {
    fn add(&self, outcome: ::core::primitive::u8) -> ::core::primitive::u8 {
        outcome
    }
}

fn main() {
    let _ = sent("a", 1);
    let _ = waits(1);
    let _ = Cart.add(1);
    let __rt = 1;
    ::ringtrace::event!("a:b", __rt, c = "d"; if __rt > 0);
    let _span = ::ringtrace::span!("a:c");
}
