//! What generic code declares, collected by the linker: a static of its own it cannot have, but an entry in a section.
#![expect(unsafe_code, reason = "a section is written from assembly, and read between its bounds")]

use super::Collected;
use crate::probe::ProbeDescriptor;
use crate::tracepoint::Gate;
use alloc::boxed::Box;
use alloc::vec::Vec;
use once_cell::race::OnceBox;

/// The program knows all emitters from its beginning.
pub(crate) const IS_LINKED: bool = true;

type Describe = fn() -> ProbeDescriptor;

/// Puts `T::describe` into the section, by being compiled. Does nothing when it runs.
///
/// An entry may be there more than once: the compiler may copy the code that stands around it.
#[inline(always)]
pub(crate) fn collect<T: Collected>() {
    // SAFETY: no instruction at all; the section has entries of 8 bytes only, which `entries` reads as such.
    unsafe {
        core::arch::asm!(
            ".pushsection ringtrace_sites_0_1_0, \"awR\", @progbits",
            ".balign 8",
            ".quad {}",
            ".popsection",
            sym T::describe,
            options(nomem, nostack, preserves_flags),
        );
    }
}

/// Nothing is left to be noted.
#[inline(always)]
pub(crate) fn hit<T: Collected>(_: &Gate) {}

/// Returns 0: nothing becomes known after the beginning.
pub(crate) fn hits() -> usize {
    0
}

/// What was described, in the program or the shared object that this code is linked into; some of it more than once.
pub(crate) fn collected() -> impl Iterator<Item = &'static ProbeDescriptor> {
    static MADE: OnceBox<Vec<ProbeDescriptor>> = OnceBox::new();
    MADE.get_or_init(|| Box::new(entries().map(|describe| describe()).collect())).iter()
}

#[inline(never)]
fn entries() -> impl Iterator<Item = Describe> {
    unsafe extern "C" {
        #[link_name = "__start_ringtrace_sites_0_1_0"]
        static START: [*const (); 0];
        #[link_name = "__stop_ringtrace_sites_0_1_0"]
        static STOP: [*const (); 0];
    }
    // SAFETY: no instruction; an entry for nobody, so that the section is there.
    unsafe {
        core::arch::asm!(
            ".pushsection ringtrace_sites_0_1_0, \"awR\", @progbits",
            ".balign 8",
            ".quad 0",
            ".popsection",
            options(nomem, nostack, preserves_flags),
        );
    }
    let (start, stop) = ((&raw const START).cast::<Option<Describe>>(), (&raw const STOP).cast::<Option<Describe>>());
    let length = (stop.addr() - start.addr()) / size_of::<Describe>();
    // SAFETY: the linker puts these symbols around the section, which holds zeroes and addresses of such functions only.
    let entries = unsafe { core::slice::from_raw_parts(start, length) };
    entries.iter().copied().flatten()
}
