//! A shared object with tracepoints of its own, loaded by dlopen.

use std::ffi::c_char;

/// Fired below.
#[ringtrace::tracepoint]
pub fn loaded(id: u64);

pub mod quiet {
    /// Never fired, never named.
    #[ringtrace::tracepoint(record)]
    pub fn in_plugin(value: u32);
}

/// Tells the names in this shared object's registry to `each`.
#[unsafe(no_mangle)]
pub extern "C" fn plugin_names(each: extern "C" fn(*const c_char, usize)) {
    loaded(1);
    let tracepoints = ringtrace::__private::TRACEPOINTS.iter().map(|t| format!("tracepoint {}", t.name));
    let probes = ringtrace::__private::PROBES.iter().map(|p| format!("probe {}", p.name()));
    for name in tracepoints.chain(probes) {
        each(name.as_ptr().cast(), name.len());
    }
}
