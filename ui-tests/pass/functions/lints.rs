//! Traced functions and ad-hoc events under every lint.
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

use std::fmt::Display;

/// What has no field type.
#[derive(Debug)]
struct Opaque;

#[ringtrace::tracepoint]
fn plain(number: u64, _what: &Opaque, mut text: String) -> usize {
    text.push('x');
    text.len() + number as usize
}

#[ringtrace::tracepoint]
fn generic<T: ringtrace::Field + Copy, U: Display, const N: usize>(known: T, unknown: U, array: [u8; N], more: impl Display) -> String {
    let _known = known;
    format!("{unknown}{more}{}", array.len())
}

#[ringtrace::tracepoint(result = debug)]
fn fails((a, b): (u32, u32)) -> Result<u32, std::num::ParseIntError> {
    #![allow(clippy::unnecessary_wraps)]
    let c: u32 = "1".parse()?;
    if a > b {
        return Ok(a);
    }
    Ok(b + c)
}

#[ringtrace::tracepoint(result)]
fn borrows<'v>(values: &'v mut [u32]) -> Option<&'v mut u32> {
    values.first_mut()
}

#[ringtrace::tracepoint(result)]
fn never() -> ! {
    std::process::exit(0)
}

#[ringtrace::tracepoint]
#[rustfmt::skip]
fn brief(number: u32) -> u32 { number }

#[ringtrace::tracepoint(result)]
#[rustfmt::skip]
fn brief_result(number: u32) -> u32 { number }

#[ringtrace::tracepoint]
#[rustfmt::skip]
async fn brief_future(number: u32) -> u32 { number }

#[ringtrace::tracepoint]
fn recursive(depth: u32) -> u32 {
    if depth == 0 { 0 } else { recursive(depth - 1) + 1 }
}

#[ringtrace::tracepoint(result = debug)]
async fn waits(name: &str, n: u32) -> Result<u32, std::num::ParseIntError> {
    let more: u32 = name.parse()?;
    std::future::ready(()).await;
    Ok(n + more)
}

#[ringtrace::tracepoint]
async fn opaque(text: &str) -> impl Display {
    std::future::ready(text.len()).await
}

struct Cart<T>(Vec<T>);

#[ringtrace::tracepoint]
impl<T: Clone + Into<u64>> Cart<T> {
    fn total(&self, tax: u64) -> u64 {
        self.0.iter().cloned().map(Into::into).sum::<u64>() + tax
    }

    fn other(&self, other: &Self) -> Self {
        const NONE: usize = 0;
        Cart(other.0.iter().skip(NONE).cloned().collect())
    }

    async fn waits(&mut self) -> Option<&mut T> {
        self.0.first_mut()
    }
}

#[ringtrace::tracepoint(level = Debug)]
mod inner {
    /// Adds.
    pub(crate) fn add(a: u32, b: u32) -> u32 {
        a + b
    }
}

/// Arguments that are not there in each build.
#[ringtrace::tracepoint]
fn conditional(first: u32, #[cfg(any())] second: u32, #[cfg(all())] third: u32, #[cfg(not(all()))] third: u8) -> u32 {
    first + third
}

fn main() {
    println!("{}", conditional(1, 2));
    let mut cart = Cart(vec![1u32]);
    println!("{} {}", cart.total(2), cart.other(&cart).total(1));
    println!("{} {}", plain(1, &Opaque, String::new()), generic(1, 2, [0; 3], 4));
    println!("{:?} {:?} {}", fails((1, 2)), borrows(&mut [1]), recursive(3));
    drop((waits("1", 2), opaque("a"), cart.waits(), brief_future(brief(1) + brief_result(2))));
    println!("{}", inner::add(1, 2));
    let n = 3;
    ringtrace::event!("net:sent", len = n + 1, n, text = "a", what = ?Opaque; level = Debug, if n > 0);
    let _span = ringtrace::span!("net:batch");
    for size in 0..2 {
        let _each = ringtrace::span!("net:one", size; if size > 0);
    }
    never();
}
