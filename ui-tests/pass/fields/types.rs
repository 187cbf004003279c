//! Every field type, and every shape of a derived one.
#![deny(warnings)]
#![allow(dead_code)]

use std::borrow::Cow;
use std::net::{IpAddr, SocketAddr};
use std::num::NonZeroU32;
use std::sync::atomic::AtomicU64;
use std::time::Duration;

#[derive(ringtrace::Field)]
enum One {
    Only,
}

#[derive(ringtrace::Field)]
#[repr(u64)]
enum Wide {
    Most = u64::MAX,
}

#[derive(ringtrace::Field)]
struct Unit;

#[derive(ringtrace::Field)]
struct Pair<'a>(&'a str, #[field(hex, rename = "second")] u32);

#[derive(ringtrace::Field)]
enum Either<'a> {
    #[field(rename = "first")]
    Left(Pair<'a>),
    Right {
        #[field(sensitive)]
        secret: &'a str,
    },
    Neither,
    Empty(),
    #[deprecated]
    Old,
}

#[derive(ringtrace::Event)]
struct Numbers {
    a: u8,
    b: i128,
    c: usize,
    d: f32,
    e: NonZeroU32,
    f: AtomicU64,
    g: *const Unit,
    h: [u16; 40],
}

#[derive(ringtrace::Event)]
struct Others<'a, 'b: 'a> {
    text: Cow<'a, str>,
    bytes: &'b [u8],
    at: IpAddr,
    from: Option<SocketAddr>,
    took: Duration,
    either: Either<'b>,
    many: &'a [Pair<'b>],
    one: One,
    wide: Wide,
    unit: Unit,
}

#[derive(ringtrace::Event)]
struct Tuple<'a>(u32, #[field(display)] &'a str);

#[derive(ringtrace::Event)]
struct Nothing;

fn main() {}
