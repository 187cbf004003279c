//! What generic code declares, where the linker does not collect it: an emitter makes itself known when it is hit first.
//!
//! The gate of a site that was not hit yet leads to its emitter ([`Gate::of_site`]), which notes the function that describes it, in a
//! table that is there from the beginning, and closes the gate again. What the run time then makes of it, its own threads do.
//!
//! # Signal safety
//!
//! [`hit`] is async-signal-safe and wait-free: it looks at [`REACH`] places of the table, at most.
#![expect(unsafe_code, reason = "functions are kept as addresses")]

use super::Collected;
use crate::probe::ProbeDescriptor;
use crate::sync::{AtomicPtr, AtomicUsize, Ordering};
use crate::tracepoint::Gate;
use alloc::boxed::Box;
use core::ptr;
use once_cell::race::OnceBox;

/// An emitter is known once it was hit.
pub(crate) const IS_LINKED: bool = false;

type Describe = fn() -> ProbeDescriptor;

/// Emitters that find room: an async function has four, any other two, and an event one; generic ones for each of their types.
const MOST: usize = 16 << 10;
/// Places in which one may be.
const REACH: usize = 64;

/// Null, or the address of a `Describe`; never changed again.
static NOTED: [AtomicPtr<()>; MOST] = [const { AtomicPtr::new(ptr::null_mut()) }; MOST];
/// What those in the same places returned.
static MADE: [OnceBox<ProbeDescriptor>; MOST] = [const { OnceBox::new() }; MOST];
/// How many there are.
static HITS: AtomicUsize = AtomicUsize::new(0);

/// Nothing is collected by being compiled.
#[inline(always)]
pub(crate) fn collect<T: Collected>() {}

/// Notes an emitter whose gate is open, and of which no list has an entry.
#[cold]
#[inline(never)]
pub(crate) fn hit<T: Collected>(gate: &Gate) {
    let describe: Describe = T::describe;
    if note(describe as *mut ()) {
        gate.close_unhit();
    }
}

/// Returns false where there is no room.
fn note(describe: *mut ()) -> bool {
    // Fibonacci hashing: functions lie some multiple of 16 bytes apart.
    let first = (describe.addr() as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> (64 - MOST.ilog2());
    for place in (0..REACH).map(|i| &NOTED[(first as usize + i) % MOST]) {
        // Relaxed: the address of code, which no store orders.
        match place.compare_exchange(ptr::null_mut(), describe, Ordering::Relaxed, Ordering::Relaxed) {
            Ok(_) => {
                // Release: orders the note. Pairs with the Acquire load in `hits`.
                HITS.fetch_add(1, Ordering::Release);
                return true;
            }
            Err(noted) if noted == describe => return true,
            Err(_) => {}
        }
    }
    false
}

/// Returns how many have become known.
pub(crate) fn hits() -> usize {
    // Acquire: pairs with the Release addition in `note`: who has seen a number finds so many in the table.
    HITS.load(Ordering::Acquire)
}

/// What has become known in the program or the shared object that this code is linked into; some of it more than once.
pub(crate) fn collected() -> impl Iterator<Item = &'static ProbeDescriptor> {
    NOTED.iter().zip(&MADE).filter_map(|(noted, made)| {
        let describe = noted.load(Ordering::Relaxed);
        // SAFETY: `note` got it from a function of this type.
        let describe = (!describe.is_null()).then(|| unsafe { core::mem::transmute::<*mut (), Describe>(describe) })?;
        Some(made.get_or_init(|| Box::new(describe())))
    })
}
