//! Records on the stack of a signal handler, and says how much of it the deepest events took.

#[path = "../../site.rs"]
mod site;

use std::error::Error;
use std::ptr;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

const STACK: usize = 256 << 10;
const PATTERN: u8 = 0xA5;
/// Enough to fill sub-buffers, so that changing them is among what is measured.
const EVENTS: u64 = 50_000;

/// What the handler fires: 0, nothing.
static NEXT: AtomicU64 = AtomicU64::new(0);

/// Whether it fires the large event.
static LARGE: AtomicBool = AtomicBool::new(false);

extern "C" fn handler(_signal: libc::c_int) {
    let id = NEXT.load(Ordering::Relaxed);
    match (id, LARGE.load(Ordering::Relaxed)) {
        (0, _) => {}
        (_, false) => _ = std::hint::black_box(site::golden_call(id) + site::golden_fire(id)),
        (_, true) => _ = std::hint::black_box(site::golden_large(id)),
    }
}

fn main() -> Result<(), Box<dyn Error>> {
    let stack = vec![PATTERN; STACK].leak().as_mut_ptr();
    // SAFETY: the stack lasts for ever; the handler is async-signal-safe, which is what ringtrace promises.
    unsafe {
        let alternate = libc::stack_t { ss_sp: stack.cast(), ss_flags: 0, ss_size: STACK };
        assert_eq!(libc::sigaltstack(&alternate, ptr::null_mut()), 0);
        let mut action: libc::sigaction = std::mem::zeroed();
        action.sa_sigaction = handler as extern "C" fn(libc::c_int) as usize;
        action.sa_flags = libc::SA_ONSTACK;
        assert_eq!(libc::sigaction(libc::SIGUSR1, &action, ptr::null_mut()), 0);
    }
    let session = ringtrace::Session::builder("golden").enable("*").memory(1 << 20).overwrite().start()?;
    std::hint::black_box(site::golden_traced(1));
    raise(0);
    let bare = used(stack);
    for large in [false, true] {
        LARGE.store(large, Ordering::Relaxed);
        (1..=EVENTS).for_each(raise);
        println!("stack of a {} event: {} bytes", if large { "large" } else { "small" }, used(stack) - bare);
    }
    session.stop()?;
    Ok(())
}

fn raise(id: u64) {
    NEXT.store(id, Ordering::Relaxed);
    // SAFETY: the signal has a handler.
    unsafe { libc::raise(libc::SIGUSR1) };
}

/// Bytes from the top down to the lowest that was written.
fn used(stack: *const u8) -> usize {
    // SAFETY: `STACK` bytes, and no handler runs now.
    let untouched = (0..STACK).take_while(|i| unsafe { stack.add(*i).read_volatile() } == PATTERN).count();
    STACK - untouched
}
