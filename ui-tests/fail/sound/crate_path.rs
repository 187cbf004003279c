//~ KEY: usage of an `unsafe` block
//! What stands in the place of ringtrace is its author's responsibility.
#![forbid(unsafe_code)]

/// Looks like ringtrace, and is not.
mod fake {
    pub mod __private {
        pub use ringtrace::__private::*;

        pub trait Tracepoint {
            type Itself;
        }

        pub trait Takes<const N: usize> {
            type Itself;
            const ITSELF: super::super::Lie;
        }
    }
}

pub struct Lie;

impl Lie {
    fn __probe(self, _: fn(&ringtrace::__private::Entry, u64)) -> *const () {
        std::ptr::dangling()
    }
}

#[ringtrace::tracepoint]
pub fn victim(id: u64);

pub struct Name;

impl fake::__private::Tracepoint for Name {
    type Itself = victim;
}

impl fake::__private::Takes<1> for victim {
    type Itself = victim;
    const ITSELF: Lie = Lie;
}

#[ringtrace::probe(Name, unsafe(crate = fake))]
fn probe(_id: u64) {}

fn main() {}
