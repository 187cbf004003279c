//! How a session's memory is divided: arithmetic only.

use crate::error::{Kind, Result};
use crate::ring_buffer::Geometry;

/// Smallest sub-buffer, in bytes.
pub(crate) const SUB_BUFFER_MIN: u32 = 4 << 10;
/// Largest sub-buffer, in bytes: its records are counted in 20 bits.
pub(crate) const SUB_BUFFER_MAX: u32 = 4 << 20;
/// Below this share per CPU, rings are indexed by concurrency ID, which needs fewer of them.
const CPU_SHARE_MIN: u64 = 512 << 10;
/// Fewest rings that are indexed so.
const CIDS_MIN: u64 = 8;
/// Control page, reader's page and a page of descriptors of one ring, and rounding.
const OVERHEAD: u64 = 16 << 10;
/// Bytes that each sub-buffer takes beside its own.
const DESCRIPTOR: u64 = 128;

/// What is to be divided, and for whom.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Wanted {
    /// Ceiling of the session, in bytes, for everything it maps.
    pub(crate) memory: u64,
    /// Size of a sub-buffer, where the caller chose one.
    pub(crate) sub_buffer: Option<u32>,
    /// CPUs the process may run on; 0: no restartable sequences, so the fallback region takes everything.
    pub(crate) cpus: u32,
    /// Whether the kernel numbers the threads that run (mm_cid).
    pub(crate) has_cid: bool,
}

/// Divides the memory. Returns the sizes, and whether the rings are indexed by concurrency ID in place of CPU.
///
/// # Errors
///
/// [`Error::is_memory`](crate::Error::is_memory) where a ring would have less than two sub-buffers; the message shows the arithmetic.
pub(crate) fn divide(wanted: Wanted) -> Result<(Geometry, bool)> {
    let Wanted { memory, sub_buffer, cpus, has_cid } = wanted;
    if let Some(size) = sub_buffer.filter(|s| !s.is_power_of_two() || !(SUB_BUFFER_MIN..=SUB_BUFFER_MAX).contains(s)) {
        return Err(Kind::Memory(format!(
            "a sub-buffer of {size} bytes is not possible: choose a power of two from {SUB_BUFFER_MIN} to {SUB_BUFFER_MAX}"
        ))
        .into());
    }
    let smallest = u64::from(sub_buffer.unwrap_or(SUB_BUFFER_MIN));
    if cpus == 0 {
        let fallback = power_of_two_in(memory.saturating_sub(OVERHEAD)).min(1 << 30);
        if fallback < 2 * smallest {
            return Err(too_small(memory, 1, smallest, OVERHEAD));
        }
        return Ok((Geometry { buffers: 0, sub_buffer: SUB_BUFFER_MIN, sub_buffers: 2, fallback: fallback as u32 }, false));
    }
    let fallback = power_of_two_in(memory / 16).clamp(16 << 10, 1 << 20);
    let reserved = fallback + OVERHEAD;
    let rings = memory.saturating_sub(reserved);
    // As many threads run at once as there are CPUs, so fewer rings than CPUs send the rest to the region they share: only where
    // there are many CPUs, and then no fewer than a busy program runs threads.
    let by_cid = has_cid && u64::from(cpus) > CIDS_MIN && rings / u64::from(cpus) < CPU_SHARE_MIN;
    let buffers = if by_cid { u64::from(cpus).min((rings / CPU_SHARE_MIN).max(CIDS_MIN)) } else { u64::from(cpus) };
    let share = (rings / buffers).saturating_sub(OVERHEAD);
    if share < 2 * smallest {
        return Err(too_small(memory, buffers, smallest, reserved));
    }
    let size = sub_buffer.map_or_else(|| power_of_two_in(share / 8).clamp(smallest, 1 << 20), u64::from);
    let geometry = Geometry {
        buffers: buffers as u32,
        sub_buffer: size as u32,
        sub_buffers: (share / (size + DESCRIPTOR)).clamp(2, 1 << 16) as u32,
        fallback: fallback as u32,
    };
    Ok((geometry, by_cid))
}

/// The largest power of two that is not above `n`; 0 for 0.
fn power_of_two_in(n: u64) -> u64 {
    n.checked_ilog2().map_or(0, |bits| 1 << bits)
}

fn too_small(memory: u64, buffers: u64, sub_buffer: u64, reserved: u64) -> crate::Error {
    let needed = buffers * (2 * sub_buffer + OVERHEAD) + reserved;
    Kind::Memory(format!(
        "{memory} bytes of memory are too small: {buffers} ring buffers, one for each CPU of this process, need two sub-buffers of \
         {sub_buffer} bytes and {OVERHEAD} bytes of control pages each, and {reserved} bytes go to the region they share: \
         {buffers} × (2 × {sub_buffer} + {OVERHEAD}) + {reserved} = {needed}; give the session at least that much"
    ))
    .into()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn the_ceiling_holds_whatever_is_asked(
            memory in 0_u64..1 << 34, cpus in 0_u32..2048, has_cid: bool, bits in proptest::option::of(12_u32..23),
        ) {
            let wanted = Wanted { memory, sub_buffer: bits.map(|b| 1 << b), cpus, has_cid };
            match divide(wanted) {
                Ok((geometry, _)) => {
                    let ring = u64::from(geometry.sub_buffer) * u64::from(geometry.sub_buffers);
                    let total = u64::from(geometry.buffers) * ring + u64::from(geometry.fallback);
                    prop_assert!(total <= memory, "{geometry:?}");
                    prop_assert!(geometry.file_size() <= memory, "{geometry:?} maps {}", geometry.file_size());
                    prop_assert!(geometry.sub_buffers >= 2 && geometry.buffers <= cpus);
                    prop_assert!(bits.is_none() || cpus == 0 || geometry.sub_buffer == 1 << bits.unwrap_or(0));
                }
                Err(error) => prop_assert!(error.is_memory()),
            }
        }
    }

    #[test]
    fn nearly_all_of_it_is_rings() {
        for (memory, cpus) in [(64 << 20, 2), (1 << 30, 2), (16 << 20, 8), (1 << 20, 1), (100 << 20, 12)] {
            let wanted = Wanted { memory, sub_buffer: None, cpus, has_cid: false };
            let (geometry, _) = divide(wanted).expect("it fits");
            let ring = u64::from(geometry.sub_buffer) * u64::from(geometry.sub_buffers);
            assert!(ring * u64::from(cpus) > memory / 8 * 7 - (geometry.fallback as u64), "{geometry:?} of {memory}");
        }
    }

    #[test]
    fn what_is_refused_shows_the_arithmetic_and_what_it_asks_for_is_enough() {
        let wanted = Wanted { memory: 100_000, sub_buffer: None, cpus: 8, has_cid: false };
        let error = divide(wanted).expect_err("eight CPUs do not fit").to_string();
        let needed = error.rsplit_once("= ").and_then(|(_, rest)| rest.split(';').next()).and_then(|n| n.parse().ok());
        assert!(divide(Wanted { memory: needed.unwrap_or(0), ..wanted }).is_ok(), "{error}");
    }

    #[test]
    fn many_cpus_with_little_memory_share_rings_by_concurrency_id() {
        let wanted = Wanted { memory: 16 << 20, sub_buffer: None, cpus: 384, has_cid: true };
        let (geometry, by_cid) = divide(wanted).expect("it fits");
        assert!(by_cid);
        assert!((16..=32).contains(&geometry.buffers), "{geometry:?}");
    }
}
