//! An allocator that does not let go: what is freed is overwritten at once and used again much later, so that whoever uses
//! freed memory stops the program.

use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::atomic::{AtomicPtr, AtomicUsize, Ordering};

/// Small blocks that were freed lately.
const PLACES: usize = 1 << 16;
/// Larger ones are freed.
const LARGEST: usize = 1024;
/// No address.
const POISON: u8 = 0xdf;

pub(crate) struct Quarantine {
    blocks: [AtomicPtr<u8>; PLACES],
    next: AtomicUsize,
}

impl Quarantine {
    pub(crate) const fn new() -> Quarantine {
        Quarantine { blocks: [const { AtomicPtr::new(std::ptr::null_mut()) }; PLACES], next: AtomicUsize::new(0) }
    }
}

// SAFETY: the system's allocator, with small blocks of one size and alignment.
unsafe impl GlobalAlloc for Quarantine {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        // SAFETY: the caller's duty.
        unsafe { System.alloc(used(layout)) }
    }

    unsafe fn dealloc(&self, block: *mut u8, layout: Layout) {
        // SAFETY: the caller's duty; the block has these bytes.
        unsafe {
            if !is_small(layout) {
                return System.dealloc(block, layout);
            }
            block.write_bytes(POISON, layout.size());
            let place = self.next.fetch_add(1, Ordering::Relaxed) % PLACES;
            let oldest = self.blocks[place].swap(block, Ordering::AcqRel);
            if !oldest.is_null() {
                System.dealloc(oldest, SMALL);
            }
        }
    }
}

const SMALL: Layout = match Layout::from_size_align(LARGEST, 64) {
    Ok(layout) => layout,
    Err(_) => panic!(),
};

fn is_small(layout: Layout) -> bool {
    layout.size() <= LARGEST && layout.align() <= 64
}

/// All small blocks have one layout, so that any may be freed in the place of another.
fn used(layout: Layout) -> Layout {
    if is_small(layout) { SMALL } else { layout }
}
