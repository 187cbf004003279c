//! What generic code declares, collected by the linker: a static of its own it cannot have, but an entry in a section.

#![cfg_attr(
    all(target_os = "linux", any(target_arch = "x86_64", target_arch = "aarch64")),
    expect(unsafe_code, reason = "a section is written from assembly, and read between its bounds")
)]

use crate::probe::ProbeDescriptor;

/// Something that is described in a section.
pub(crate) trait Collected {
    /// Describes it.
    fn describe() -> ProbeDescriptor;
}

type Describe = fn() -> ProbeDescriptor;

/// Puts `T::describe` into the section, by being compiled. Does nothing when it runs.
///
/// An entry may be there more than once: the compiler may copy the code that stands around it.
#[inline(always)]
pub(crate) fn collect<T: Collected>() {
    #[cfg(all(target_os = "linux", any(target_arch = "x86_64", target_arch = "aarch64")))]
    // SAFETY: no instruction at all; the section has entries of 8 bytes only, which `collected` reads as such.
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

/// The entries, of the program or of the shared object that this code is linked into.
#[cfg(all(target_os = "linux", any(target_arch = "x86_64", target_arch = "aarch64")))]
#[inline(never)]
pub(crate) fn collected() -> impl Iterator<Item = Describe> {
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

/// Other systems have no such section.
#[cfg(not(all(target_os = "linux", any(target_arch = "x86_64", target_arch = "aarch64"))))]
pub(crate) fn collected() -> impl Iterator<Item = Describe> {
    core::iter::empty()
}
