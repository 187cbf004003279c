//! A tracepoint that only `fire!` fires is used.
#![deny(warnings)]

#[ringtrace::tracepoint]
fn sent(bytes: u64);

#[ringtrace::tracepoint(record)]
fn received<'a>(bytes: &'a [u8]);

fn main() {
    ringtrace::fire!(sent(1));
    ringtrace::fire!(self::received(b"x"));
}
