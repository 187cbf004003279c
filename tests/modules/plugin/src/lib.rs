//! A shared library of the program, which knows nothing of probe modules. It has a copy of the crate `storage`.

/// Fired below.
#[ringtrace::tracepoint(record)]
fn called(id: u64);

#[unsafe(no_mangle)]
pub extern "C" fn call(id: u64) {
    called(id);
    storage::evict(id);
}
