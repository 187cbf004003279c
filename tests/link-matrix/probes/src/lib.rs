//! Probes for the library. The application names this crate once, by `use probes as _;`.
#![no_std]
#![forbid(unsafe_code)]

/// The class of the probe below.
#[derive(ringtrace::Event)]
pub struct Opened {
    /// What was opened.
    pub id: u64,
}

#[ringtrace::probe(library::opened)]
fn record_opened(id: u64) -> Opened {
    Opened { id }
}

/// In a module that nothing refers to.
pub mod quiet {
    #[ringtrace::probe(library::quiet::never_named)]
    fn count_never_named(_value: u32) {}
}
