//! Elided and named lifetimes; nothing is `'static` or `Send`.
#![deny(warnings)]

use std::cell::Cell;
use std::marker::PhantomData;
use std::rc::Rc;

#[derive(Clone, Copy)]
struct Cursor<'a, 'b> {
    text: &'a str,
    seen: &'b Cell<u32>,
    _here: PhantomData<Rc<u8>>,
}

#[ringtrace::tracepoint]
fn moved<'a>(cursor: Cursor<'a, '_>, rest: &'a str, all: &[&'a str], f: fn(&str) -> &str, shown: &dyn std::fmt::Debug);

#[derive(ringtrace::Event)]
struct Moved<'a, 'b> {
    text: &'a str,
    rest: &'b str,
}

#[ringtrace::probe(moved)]
fn record_moved<'a, 'b>(
    cursor: Cursor<'b, '_>,
    rest: &'a str,
    _all: &[&str],
    f: fn(&str) -> &str,
    _shown: &dyn std::fmt::Debug,
) -> Option<Moved<'a, 'b>> {
    cursor.seen.set(cursor.seen.get() + 1);
    Some(Moved { text: rest, rest: f(cursor.text) })
}

#[ringtrace::tracepoint(record)]
fn shown<'a>(text: &'a str, more: &[&'a str], #[field(debug)] any: &dyn std::fmt::Debug, at: *const u8);

#[ringtrace::tracepoint(record)]
fn fixed(text: &'static str);

#[ringtrace::tracepoint(record)]
fn nothing();

fn main() {
    let text = String::from("abc");
    let seen = Cell::new(0);
    moved(Cursor { text: &text, seen: &seen, _here: PhantomData }, &text[1..], &["a", &text], |s| s, &1);
    shown(&text, &[&text], &text, text.as_ptr());
    fixed("a");
    nothing();
    ringtrace::fire!(nothing());
}
