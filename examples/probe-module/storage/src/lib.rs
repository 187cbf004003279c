//! A library with tracepoints. It knows nothing of what is recorded.
#![forbid(unsafe_code)]

/// A page of a table.
#[derive(ringtrace::Abi)]
pub struct Page {
    pub id: u64,
    pub bytes: u32,
    pub dirty: bool,
}

/// Why a page leaves the cache.
#[derive(Clone, Copy, ringtrace::Abi)]
pub enum Reason {
    Lru,
    Capacity,
}

/// A page left the cache.
#[ringtrace::tracepoint]
pub fn page_evicted(page: &Page, reason: Reason);

/// Evicts a page: what is in it follows from its number.
pub fn evict(id: u64) {
    let page = Page { id, bytes: bytes_of(id), dirty: id % 2 == 1 };
    page_evicted(&page, if id % 3 == 0 { Reason::Capacity } else { Reason::Lru });
}

/// Size of the page `id`, in bytes.
pub fn bytes_of(id: u64) -> u32 {
    (id as u32).rotate_left(7) ^ 0x5a5a
}
