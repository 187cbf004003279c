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

/// More fields than the small form of a payload holds.
#[ringtrace::tracepoint(record)]
#[allow(clippy::too_many_arguments, reason = "that is the point")]
fn large(a: &str, b: &str, c: &str, d: &str, e: &str, f: &str, g: &[u64], h: u64);

/// The most that a record stages.
#[inline(never)]
#[unsafe(no_mangle)]
pub fn golden_large(id: u64) -> u64 {
    large("a", "b", "c", "d", "e", "f", &[id], id);
    id + 3
}

/// A function of which entry and exit are events.
#[inline(never)]
#[unsafe(no_mangle)]
#[ringtrace::tracepoint]
pub fn golden_traced(id: u64) -> u64 {
    std::hint::black_box(id) + 4
}
