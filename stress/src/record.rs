//! What a record holds: its stream and number, and bytes that follow from them.

/// Bytes of the largest payload.
pub(crate) const LARGEST: usize = 3000;

/// Lengths by the low bits of the number: each way in which the append copies.
const LENGTHS: [usize; 8] = [8, 12, 16, 9, 24, 40, 75, 31];

fn length(number: u64) -> usize {
    match number {
        n if n.is_multiple_of(4999) => LARGEST,
        n if n.is_multiple_of(997) => 900,
        n if n.is_multiple_of(61) => 300,
        n => LENGTHS[n as usize % 8],
    }
}

/// Writes the payload of a record. Returns its length.
#[inline]
pub(crate) fn fill(stream: u64, number: u64, bytes: &mut [u8; LARGEST]) -> usize {
    let len = length(number);
    bytes[..8].copy_from_slice(&(stream << 48 | number).to_le_bytes());
    let mut word = number.wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ stream;
    for chunk in bytes[8..len].chunks_mut(8) {
        word = word.rotate_left(23).wrapping_add(0x2545_f491_4f6c_dd1d);
        chunk.copy_from_slice(&word.to_le_bytes()[..chunk.len()]);
    }
    len
}

/// Returns stream, number and length of the record at the beginning of `bytes`. `None`: it is not one that was written.
#[inline]
pub(crate) fn read(bytes: &[u8]) -> Option<(u64, u64, usize)> {
    let word = u64::from_le_bytes(*bytes.first_chunk::<8>()?);
    let (stream, number) = (word >> 48, word & 0xffff_ffff_ffff);
    let mut expected = [0; LARGEST];
    let len = fill(stream, number, &mut expected);
    (bytes.get(..len)? == &expected[..len]).then_some((stream, number, len))
}
