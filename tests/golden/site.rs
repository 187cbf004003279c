//! The traced functions whose code is compared.

/// What an argument costs that is evaluated only when the tracepoint is on.
#[inline(never)]
fn costly(id: u64) -> u64 {
    std::hint::black_box(id) * 3
}

/// With a probe, so that the emitter has all that it can have.
#[ringtrace::tracepoint(record)]
fn request(id: u64, path: &str);

/// A call.
#[inline(never)]
#[unsafe(no_mangle)]
pub fn golden_call(id: u64) -> u64 {
    request(id, "/index");
    id + 1
}

/// Arguments behind the gate.
#[inline(never)]
#[unsafe(no_mangle)]
pub fn golden_fire(id: u64) -> u64 {
    ringtrace::fire!(request(costly(id), "/index"));
    id + 2
}
