//~ KEY: is private
use trace_registry::read_side;
use trace_registry::sync::Ordering;

/// What assembly adds to the thread pointer.
fn offsets() {
    read_side::STATE.rseq_offset.store(1 << 40, Ordering::Relaxed);
    read_side::STATE.block_offset.store(1 << 40, Ordering::Relaxed);
}

/// Readers that are said to have left.
fn counters() {
    read_side::counters()[0].phases[0].leave.fetch_add(1, Ordering::Relaxed);
}

/// A thread that is inside of nothing, and writes to the buffer of another.
fn thread() {
    trace_registry::sys::with_thread(|block| {
        block.nesting.store(0, Ordering::Relaxed);
        block.number.store(0, Ordering::Relaxed);
    });
}

/// A run time of its own for a shared object.
fn runtime(runtime: &'static ringtrace::__private::Runtime) {
    ringtrace::__private::set_runtime(runtime);
}

fn main() {}
