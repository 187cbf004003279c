//! Types whose layout is known, in a crate that forbids and denies what it can.
#![forbid(unsafe_code)]
#![deny(warnings)]

use std::time::Duration;

#[derive(ringtrace::Abi)]
pub struct Page<'a> {
    pub id: u64,
    pub path: &'a str,
    pub parts: &'a [Part],
    pub age: Option<Duration>,
    pub owner: Owner,
}

#[derive(ringtrace::Abi)]
pub struct Part(u8, [u16; 3]);

#[derive(ringtrace::Abi)]
pub struct Nothing;

#[derive(Clone, Copy, ringtrace::Abi)]
#[repr(i8)]
pub enum Reason {
    Lru = -1,
    Capacity = 7,
}

#[derive(ringtrace::Abi)]
pub enum Owner {
    Nobody,
    Table(u32),
    User { id: u64, name: String },
}

#[ringtrace::tracepoint]
pub fn evicted(page: &Page<'_>, reason: Reason);

#[ringtrace::tracepoint]
pub fn unsized_arguments(path: &std::path::Path, any: &dyn std::fmt::Debug, f: fn(u8) -> u8, p: *const u8);

fn main() {
    use ringtrace::{Abi, Tracepoint as _};
    let arguments = (evicted::descriptor().arguments)();
    assert!(arguments.iter().all(|a| a.hash.is_some()), "{arguments:?}");
    assert_eq!(arguments[0].size, Some(size_of::<Page<'_>>()));
    let arguments = (unsized_arguments::descriptor().arguments)();
    let known: Vec<bool> = arguments.iter().map(|a| a.hash.is_some()).collect();
    assert_eq!(known, [false, false, false, true]);
    let sizes: Vec<bool> = arguments.iter().map(|a| a.size.is_some()).collect();
    assert_eq!(sizes, [false, false, true, true]);
    assert_ne!(Nothing::HASH, Part::HASH);
    let page = Page { id: 1, path: "", parts: &[Part(1, [1; 3])], age: None, owner: Owner::Table(1) };
    evicted(&page, Reason::Lru);
    let _ = (Nothing, Reason::Capacity, Owner::Nobody, Owner::User { id: 1, name: String::new() }, page.parts[0].0, page.parts[0].1);
}
