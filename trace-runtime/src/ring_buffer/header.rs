//! The forms of a record's header. The bytes are those of LTTng's compact and large event headers, packed, little endian.
//!
//! | Header | Form | Bytes | Layout | Used |
//! | --- | --- | --- | --- | --- |
//! | compact | short | 4 | u32: stamp (27 bits) above event ID (5 bits) | ID ≤ 30, less than 2²⁷ ns after the last record |
//! | compact | extended | 13 | u8 `0x1f`, u32 event ID, u64 stamp | otherwise |
//! | large | short | 6 | u16 event ID, u32 stamp | ID ≤ 65534, less than 2³² ns after the last record |
//! | large | extended | 14 | u16 `0xffff`, u32 event ID, u64 stamp | otherwise |
//!
//! The stamp of a short form is completed from the record before, or from the begin of its packet.

use super::HeaderKind;

/// Bytes of the longest header.
pub const LONGEST_HEADER: usize = 14;

/// A record's header, read back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Header {
    /// Event ID.
    pub id: u32,
    /// Complete stamp, in ns.
    pub ns: u64,
    /// Bytes of the header.
    pub len: usize,
}

impl HeaderKind {
    /// Returns the bytes of the short or the extended form.
    pub const fn len(self, extended: bool) -> usize {
        match (self, extended) {
            (HeaderKind::Compact, false) => 4,
            (HeaderKind::Compact, true) => 13,
            (HeaderKind::Large, false) => 6,
            (HeaderKind::Large, true) => 14,
        }
    }

    /// Returns the bits of the stamp in the short form.
    pub const fn stamp_bits(self) -> u32 {
        match self {
            HeaderKind::Compact => 27,
            HeaderKind::Large => 32,
        }
    }

    /// Returns the largest event ID of the short form.
    pub const fn largest_short_id(self) -> u32 {
        match self {
            HeaderKind::Compact => 30,
            HeaderKind::Large => 65534,
        }
    }

    /// Reads the header at the beginning of `bytes`, where `last_ns` is the stamp of the record before or of the packet's
    /// begin. `None`: it is cut off.
    pub fn read(self, bytes: &[u8], last_ns: u64) -> Option<Header> {
        let extended = match self {
            HeaderKind::Compact => *bytes.first()? & 0x1f == 0x1f,
            HeaderKind::Large => *bytes.first_chunk::<2>()? == [0xff; 2],
        };
        let len = self.len(extended);
        let bytes = bytes.get(..len)?;
        let u32_at = |at: usize| bytes.get(at..at + 4).and_then(<[u8]>::first_chunk).copied().map(u32::from_le_bytes);
        if extended {
            let ns = u64::from_le_bytes(*bytes.last_chunk::<8>()?);
            return Some(Header { id: u32_at(len - 12)?, ns, len });
        }
        let (id, low) = match self {
            HeaderKind::Compact => (u32_at(0)? & 0x1f, u32_at(0)? >> 5),
            HeaderKind::Large => (u32::from(u16::from_le_bytes(*bytes.first_chunk::<2>()?)), u32_at(2)?),
        };
        Some(Header { id, ns: complete(low, self.stamp_bits(), last_ns), len })
    }
}

/// Returns the first stamp at or after `last_ns` whose low `bits` bits are `low`.
const fn complete(low: u32, bits: u32, last_ns: u64) -> u64 {
    let period = 1 << bits;
    let stamp = last_ns & !(period - 1) | low as u64;
    if stamp < last_ns { stamp.wrapping_add(period) } else { stamp }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn short_forms_are_completed_within_their_period(
            last in 0_u64..1 << 60, gap in 0_u64..1 << 27, id in 0_u32..=30, large in any::<bool>(),
        ) {
            let ns = last + gap;
            let (kind, bytes) = if large {
                (HeaderKind::Large, [&(id as u16).to_le_bytes()[..], &(ns as u32).to_le_bytes()].concat())
            } else {
                (HeaderKind::Compact, ((ns as u32) << 5 | id).to_le_bytes().to_vec())
            };
            prop_assert_eq!(kind.read(&bytes, last), Some(Header { id, ns, len: bytes.len() }));
            prop_assert_eq!(kind.read(&bytes[..bytes.len() - 1], last), None);
        }

        #[test]
        fn extended_forms_carry_everything(last in any::<u64>(), ns in any::<u64>(), id in any::<u32>()) {
            for (kind, mark) in [(HeaderKind::Compact, &[0x1f_u8][..]), (HeaderKind::Large, &[0xff, 0xff])] {
                let bytes = [mark, &id.to_le_bytes(), &ns.to_le_bytes()].concat();
                prop_assert_eq!(kind.read(&bytes, last), Some(Header { id, ns, len: kind.len(true) }));
            }
        }
    }
}
