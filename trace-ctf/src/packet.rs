//! Packet headers: the 84 bytes in front of every packet's event records.

use crate::error::{Kind, Place};
use crate::{Error, Result};

/// First word of every packet.
pub const MAGIC: u32 = 0xC1FC_1FC1;

/// Bytes of packet header and packet context together.
pub const HEADER_LEN: usize = 84;

/// Bytes of the empty packet a stream begins with.
///
/// Readers take losses as the difference between successive packets, so a stream's first packet must show zero.
pub const OPENING_LEN: usize = 128;

/// What a packet says about itself.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PacketHeader {
    /// Stream class.
    pub stream_class_id: u32,
    /// Stream, within its class.
    pub stream_instance_id: u64,
    /// Not later than the first event, in clock cycles.
    pub timestamp_begin: u64,
    /// Not earlier than the last event, in clock cycles.
    pub timestamp_end: u64,
    /// Header and event records, in bits.
    pub content_bits: u64,
    /// Content and padding, in bits.
    pub packet_bits: u64,
    /// Number of the packet within its stream; a gap tells lost packets.
    pub sequence: u64,
    /// Events discarded in the stream since its beginning.
    pub events_discarded: u64,
    /// CPU the stream records.
    pub cpu_id: u32,
}

impl PacketHeader {
    /// Encodes the header of a packet of the trace `uuid`.
    pub fn encode(&self, uuid: &[u8; 16]) -> [u8; HEADER_LEN] {
        let mut out = [0; HEADER_LEN];
        let mut rest = &mut out[..];
        let mut put = |bytes: &[u8]| {
            let (head, tail) = core::mem::take(&mut rest).split_at_mut(bytes.len());
            head.copy_from_slice(bytes);
            rest = tail;
        };
        put(&MAGIC.to_le_bytes());
        put(uuid);
        put(&self.stream_class_id.to_le_bytes());
        put(&self.stream_instance_id.to_le_bytes());
        put(&self.timestamp_begin.to_le_bytes());
        put(&self.timestamp_end.to_le_bytes());
        put(&self.content_bits.to_le_bytes());
        put(&self.packet_bits.to_le_bytes());
        put(&self.sequence.to_le_bytes());
        put(&self.events_discarded.to_le_bytes());
        put(&self.cpu_id.to_le_bytes());
        out
    }

    /// Encodes the empty packet that opens a stream, with this header's IDs, stamps and counters and its own sizes.
    pub fn encode_opening(&self, uuid: &[u8; 16]) -> [u8; OPENING_LEN] {
        let header = Self { content_bits: HEADER_LEN as u64 * 8, packet_bits: OPENING_LEN as u64 * 8, ..*self };
        let mut out = [0; OPENING_LEN];
        out[..HEADER_LEN].copy_from_slice(&header.encode(uuid));
        out
    }

    /// Decodes a header and the UUID of its trace.
    ///
    /// # Errors
    ///
    /// [`Error::is_truncated`] below [`HEADER_LEN`] bytes; [`Error::is_corrupt`] where the magic number is missing or the sizes
    /// contradict each other. Whether the sizes fit the file is for the caller to check.
    pub fn decode(bytes: &[u8]) -> Result<(Self, [u8; 16])> {
        let Some(bytes) = bytes.first_chunk::<HEADER_LEN>() else {
            let available = bytes.len() as u64;
            return Err(Kind::Truncated { place: Place::default(), needed: HEADER_LEN as u64, available }.into());
        };
        let u32_at = |at: usize| u32::from_le_bytes(core::array::from_fn(|i| bytes[at + i]));
        let u64_at = |at: usize| u64::from_le_bytes(core::array::from_fn(|i| bytes[at + i]));
        if u32_at(0) != MAGIC {
            return Err(Error::corrupt(Place::default(), "no packet magic number"));
        }
        let header = Self {
            stream_class_id: u32_at(20),
            stream_instance_id: u64_at(24),
            timestamp_begin: u64_at(32),
            timestamp_end: u64_at(40),
            content_bits: u64_at(48),
            packet_bits: u64_at(56),
            sequence: u64_at(64),
            events_discarded: u64_at(72),
            cpu_id: u32_at(80),
        };
        let least = HEADER_LEN as u64 * 8;
        if header.content_bits < least || header.packet_bits < header.content_bits || header.packet_bits % 8 != 0 {
            let place = Place { offset: 48, ..Place::default() };
            return Err(Error::corrupt(place, "content and packet sizes contradict each other"));
        }
        Ok((header, core::array::from_fn(|i| bytes[4 + i])))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn headers_round_trip(ids in any::<(u32, u64, u32)>(), stamps in any::<(u64, u64)>(), counts in any::<(u64, u64)>(),
                              content in 84u64..1 << 40, padding in 0u64..1 << 20, uuid in any::<[u8; 16]>()) {
            let header = PacketHeader {
                stream_class_id: ids.0, stream_instance_id: ids.1, cpu_id: ids.2,
                timestamp_begin: stamps.0, timestamp_end: stamps.1,
                content_bits: content * 8, packet_bits: (content + padding) * 8,
                sequence: counts.0, events_discarded: counts.1,
            };
            prop_assert_eq!(PacketHeader::decode(&header.encode(&uuid)).unwrap(), (header, uuid));
        }

        #[test]
        fn any_bytes_decode_or_fail(bytes in proptest::collection::vec(any::<u8>(), 0..100)) {
            let _ = PacketHeader::decode(&bytes);
        }
    }

    #[test]
    fn the_layout_is_the_documented_one() {
        let header = PacketHeader { stream_class_id: 2, cpu_id: 5, sequence: 6, ..PacketHeader::default() };
        let bytes = header.encode_opening(&[9; 16]);
        assert_eq!(bytes[..4], [0xC1, 0x1F, 0xFC, 0xC1]);
        assert_eq!(bytes[4..20], [9; 16]);
        assert_eq!((bytes[20], bytes[48..50].to_vec(), bytes[56..58].to_vec()), (2, vec![0xA0, 2], vec![0, 4]));
        assert_eq!((bytes[64], bytes[80], bytes.len()), (6, 5, 128));
    }
}
