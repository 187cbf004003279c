//! Attributes of a declaration stay with it.
#![deny(warnings)]

#[ringtrace::tracepoint(record)]
#[cfg(any())]
fn absent(value: Missing);

#[ringtrace::tracepoint]
#[cfg(all())]
fn present(value: u8);

#[cfg_attr(all(), doc = "Documented.")]
#[ringtrace::tracepoint]
#[deprecated(note = "use `present`")]
fn old(value: u8);

#[ringtrace::tracepoint]
#[allow(dead_code)]
fn unused(value: u8);

#[ringtrace::tracepoint(record)]
#[allow(non_snake_case)]
fn Named(Value: u8);

#[ringtrace::probe(present)]
#[allow(non_snake_case)]
fn Record(_Value: u8) {}

#[ringtrace::probe(absent)]
#[cfg(any())]
fn record_absent(value: Missing) {}

fn main() {
    present(1);
    Named(1);
    #[expect(deprecated)]
    old(1);
    #[expect(deprecated)]
    {
        ringtrace::fire!(old(2));
    }
}
