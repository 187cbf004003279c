//~ KEY: E0133
use ringtrace::__private as private;
use trace_registry::read_side;

#[ringtrace::tracepoint(record)]
fn request(id: u64);

/// A list that is none.
fn publish() {
    ringtrace::registry::tracepoints()[0].gate.publish(std::ptr::dangling_mut());
}

/// A function of another type in the list of a tracepoint.
fn entry(probe: &'static ringtrace::ProbeDescriptor) {
    private::Entry::of(probe, publish as *const (), Vec::new(), None);
}

/// The same as a closure's.
fn attach(tracepoint: &'static ringtrace::TracepointDescriptor) {
    private::attach(tracepoint, publish as *const (), false, || {});
}

/// A promise of anything.
fn promise() {
    private::Promise::given();
}

/// More context than there is room.
fn context(payload: private::Payload<'_>) {
    let mut payload = payload.finish().unwrap();
    let mut payload = payload.finished();
    payload.set_context([0; 20]);
    payload.set_context([0; 20]);
}

/// Ends grace periods early.
fn grace_period() {
    read_side::flip_phase();
    read_side::set_sequenced(1);
}

/// A number that another thread may have.
fn number() {
    let _ = trace_registry::sys::with_thread(|block| block.set_number(0));
}

/// An image whose lists are another run time's, and one that may be unloaded.
fn images() {
    trace_registry::sys::images(&mut |found| {
        found.image.adopt();
        std::ops::ControlFlow::Break(())
    });
}

fn main() {}
