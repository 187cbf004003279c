//! The twin of what `fail/sound` shows: the same items, used as they are meant.
#![allow(unsafe_code)]

use ringtrace::__private as private;
use trace_registry::{read_side, sys};

#[ringtrace::tracepoint(record)]
fn request(id: u64);

fn publish() {
    // SAFETY: null.
    unsafe { ringtrace::registry::tracepoints()[0].gate.publish(std::ptr::null_mut()) };
}

fn entry(probe: &'static ringtrace::ProbeDescriptor) -> private::Entry {
    // SAFETY: the probe's own function.
    unsafe { private::Entry::of(probe, (probe.function)(), Vec::new(), None) }
}

fn context(payload: private::Payload<'_>) {
    let mut payload = payload.finish().unwrap();
    // SAFETY: 80 bytes.
    unsafe { payload.finished().set_context([0; 20]) };
}

fn read_side() -> u64 {
    // SAFETY: nobody reads, and no grace period is under way.
    let phase = unsafe { read_side::flip_phase() };
    read_side::counters().iter().map(|cpu| cpu.phases[phase].entered() - cpu.phases[phase].left()).sum()
}

fn main() {
    publish();
    let probe = ringtrace::registry::probes().next().unwrap();
    assert!(entry(probe).next().is_none());
    assert_eq!(read_side(), 0);
    let depth = sys::with_thread(|block| block.nesting() & sys::DEPTH);
    assert_eq!(depth, Some(sys::depth()));
    let mut storage = private::Storage::<{ private::HEADROOM }, 1>::new();
    context(storage.begin(0, private::Sizes::NONE, false));
}
