//! LTTng's packet index, `index/STREAM.idx`: where each packet of a stream file lies and what time it covers.

use crate::error::{Kind, Place};
use crate::packet::PacketHeader;
use crate::{Error, Result};

const MAGIC: u32 = 0xC1F1_DCC1;
const MAJOR: u32 = 1;
const MINOR: u32 = 1;

/// Bytes of the file header.
pub const HEADER_LEN: usize = 16;

/// Bytes of an entry.
pub const ENTRY_LEN: usize = 72;

/// The file header, the same in every index.
pub fn header() -> [u8; HEADER_LEN] {
    let mut out = [0; HEADER_LEN];
    for (place, word) in [MAGIC, MAJOR, MINOR, ENTRY_LEN as u32].into_iter().enumerate() {
        out[place * 4..][..4].copy_from_slice(&word.to_be_bytes());
    }
    out
}

/// One packet.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Entry {
    /// Offset in the stream file, in bytes.
    pub offset: u64,
    /// What the packet says; an index does not carry the CPU.
    pub packet: PacketHeader,
}

impl Entry {
    /// Encodes the entry.
    pub fn encode(&self) -> [u8; ENTRY_LEN] {
        let packet = &self.packet;
        let words = [
            self.offset,
            packet.packet_bits,
            packet.content_bits,
            packet.timestamp_begin,
            packet.timestamp_end,
            packet.events_discarded,
            packet.stream_class_id.into(),
            packet.stream_instance_id,
            packet.sequence,
        ];
        let mut out = [0; ENTRY_LEN];
        for (place, word) in words.into_iter().enumerate() {
            out[place * 8..][..8].copy_from_slice(&word.to_be_bytes());
        }
        out
    }
}

/// Decodes a whole index file.
///
/// # Errors
///
/// [`Error::is_corrupt`] where the header is not that of a version 1 index, [`Error::is_truncated`] where the last entry is
/// incomplete.
pub fn decode(bytes: &[u8]) -> Result<Vec<Entry>> {
    let truncated = |offset: usize, needed: usize, available: usize| {
        let place = Place { offset: offset as u64, ..Place::default() };
        Error::from(Kind::Truncated { place, needed: needed as u64, available: available as u64 })
    };
    let Some((head, rest)) = bytes.split_first_chunk::<HEADER_LEN>() else {
        return Err(truncated(0, HEADER_LEN, bytes.len()));
    };
    let word = |place: usize| u32::from_be_bytes(core::array::from_fn(|i| head[place * 4 + i]));
    // A later minor version appends to the entries; their length says where the next one starts.
    let stride = word(3) as usize;
    if word(0) != MAGIC || word(1) != MAJOR || stride < ENTRY_LEN {
        return Err(Error::corrupt(Place::default(), "not a packet index of version 1"));
    }
    let chunks = rest.chunks_exact(stride);
    if !chunks.remainder().is_empty() {
        let left = chunks.remainder().len();
        return Err(truncated(bytes.len() - left, stride, left));
    }
    Ok(chunks.map(decode_entry).collect())
}

fn decode_entry(bytes: &[u8]) -> Entry {
    let word = |place: usize| u64::from_be_bytes(core::array::from_fn(|i| bytes[place * 8 + i]));
    Entry {
        offset: word(0),
        packet: PacketHeader {
            packet_bits: word(1),
            content_bits: word(2),
            timestamp_begin: word(3),
            timestamp_end: word(4),
            events_discarded: word(5),
            stream_class_id: word(6) as u32,
            stream_instance_id: word(7),
            sequence: word(8),
            cpu_id: 0,
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn entries_round_trip_and_a_cut_file_is_told() {
        let packet = PacketHeader { sequence: 3, content_bits: 672, packet_bits: 1024, ..PacketHeader::default() };
        let entry = Entry { offset: 4096, packet };
        let mut file = header().to_vec();
        file.extend(entry.encode());
        file.extend(Entry::default().encode());
        assert_eq!(decode(&file).unwrap(), [entry, Entry::default()]);
        let error = decode(&file[..file.len() - 1]).unwrap_err();
        assert!(error.is_truncated());
        assert_eq!(error.byte_offset(), Some(88));
        assert!(decode(&[0; 20]).unwrap_err().is_corrupt());
    }
}
