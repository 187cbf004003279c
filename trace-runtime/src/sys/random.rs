//! Random bytes, for what must differ: identifiers, not secrets.

use std::hash::{BuildHasher, Hasher};

/// Returns random bytes. Where the kernel gives none at once, those of the standard library's hash keys.
pub(crate) fn random<const N: usize>() -> [u8; N] {
    let mut bytes = [0; N];
    #[cfg(target_os = "linux")]
    if rustix::rand::getrandom(&mut bytes, rustix::rand::GetRandomFlags::NONBLOCK).is_ok_and(|n| n == N) {
        return bytes;
    }
    for part in bytes.chunks_mut(8) {
        let word = std::hash::RandomState::new().build_hasher().finish().to_ne_bytes();
        part.copy_from_slice(&word[..part.len()]);
    }
    bytes
}
