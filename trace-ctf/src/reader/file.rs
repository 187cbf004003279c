//! Metadata files: text or JSON, plain or in packets.

use std::borrow::Cow;

use crate::declared::Declarations;
use crate::metadata::{self, Format};
use crate::{Error, Result, ctf2, tsdl};

/// First word of a packet of metadata.
const PACKET_MAGIC: u32 = 0x75D1_1D57;

/// Bytes in front of what a packet of metadata carries.
const PACKET_HEADER_LEN: usize = 37;

/// What a metadata file says.
#[derive(Debug)]
pub(super) struct Metadata {
    pub(super) declarations: Declarations,
    pub(super) format: Format,
    /// What is wrong with its end.
    pub(super) cut: Option<Error>,
}

/// Parses metadata; where only its last section is broken, as after a crash of its writer, without that one.
pub(super) fn parse(bytes: &[u8]) -> Result<Metadata> {
    let Unpacked { bytes, order, cut } = unpacked(bytes)?;
    if let [0x1E, ..] = *bytes {
        let (declarations, error) = ctf2::parse_or_cut(&bytes)?;
        return Ok(Metadata { declarations, format: Format::Ctf2, cut: cut.or(error) });
    }
    let format = Format::Ctf18;
    let parse = |bytes| {
        let declarations = text(bytes).and_then(tsdl::parse)?;
        match order {
            // The packets are of the byte order of the trace.
            Some(order) if order != declarations.big_endian => {
                let name = |big_endian| if big_endian { "big-endian" } else { "little-endian" };
                let what = format!("its packets are {}, and the trace is {}", name(order), name(declarations.big_endian));
                Err(Error::metadata(1, what))
            }
            _ => Ok(declarations),
        }
    };
    let error = match parse(&bytes) {
        Ok(declarations) => return Ok(Metadata { declarations, format, cut }),
        Err(error) => error,
    };
    let signature = metadata::SIGNATURE.as_bytes();
    let last = bytes.windows(signature.len()).rposition(|window| window == signature).unwrap_or_default();
    match parse(&bytes[..last]) {
        Ok(declarations) if last > 0 => Ok(Metadata { declarations, format, cut: Some(error) }),
        _ => Err(error),
    }
}

/// What the packets of metadata carry, or metadata that comes in none.
struct Unpacked<'b> {
    bytes: Cow<'b, [u8]>,
    /// Whether the packets are big-endian, where there are any.
    order: Option<bool>,
    /// Where they end early.
    cut: Option<Error>,
}

/// Joins what the packets of metadata carry, and tells where they end early; other metadata is given as it is.
fn unpacked(bytes: &[u8]) -> Result<Unpacked<'_>> {
    let is_big_endian = match bytes.first_chunk() {
        Some(word) if u32::from_le_bytes(*word) == PACKET_MAGIC => false,
        Some(word) if u32::from_be_bytes(*word) == PACKET_MAGIC => true,
        _ => return Ok(Unpacked { bytes: bytes.into(), order: None, cut: None }),
    };
    let mut joined = Vec::new();
    let mut rest = bytes;
    let mut number = 0;
    // Less than a header is no packet any more, unless it begins as one. Other readers pass it over as well.
    let is_packet = |rest: &[u8]| match rest {
        [] => false,
        rest => rest.len() >= PACKET_HEADER_LEN || bytes.starts_with(&rest[..rest.len().min(4)]),
    };
    while is_packet(rest) {
        match packet(rest, is_big_endian) {
            Ok((content, size)) => {
                joined.extend(content);
                rest = &rest[size..];
                number += 1;
            }
            Err(what) => {
                let line = 1 + joined.iter().filter(|&&byte| byte == b'\n').count() as u32;
                let at = bytes.len() - rest.len();
                let error = Error::metadata(line, format!("packet {number} of the metadata, byte {at}: {what}"));
                if number == 0 {
                    return Err(error);
                }
                return Ok(Unpacked { bytes: joined.into(), order: Some(is_big_endian), cut: Some(error) });
            }
        }
    }
    Ok(Unpacked { bytes: joined.into(), order: Some(is_big_endian), cut: None })
}

/// What the first of some packets carries, and its size in bytes.
fn packet(bytes: &[u8], is_big_endian: bool) -> Result<(&[u8], usize), &'static str> {
    let head = bytes.first_chunk::<PACKET_HEADER_LEN>().ok_or("its header is cut")?;
    let word = |at: usize| {
        let bytes = core::array::from_fn(|place| head[at + place]);
        if is_big_endian { u32::from_be_bytes(bytes) } else { u32::from_le_bytes(bytes) }
    };
    if word(0) != PACKET_MAGIC {
        return Err("no magic number of metadata");
    }
    let (content, size) = (word(24) as usize / 8, word(28) as usize / 8);
    let [compression, encryption, _, major, _] = [head[32], head[33], head[34], head[35], head[36]];
    if compression != 0 || encryption != 0 {
        return Err("it is compressed or encrypted");
    }
    if !matches!(major, 1 | 2) {
        return Err("it is of another version of the format");
    }
    if content < PACKET_HEADER_LEN || size < content {
        return Err("its sizes contradict each other");
    }
    if bytes.len() < content {
        return Err("it is cut");
    }
    Ok((&bytes[PACKET_HEADER_LEN..content], size.min(bytes.len())))
}

fn text(bytes: &[u8]) -> Result<&str> {
    core::str::from_utf8(bytes).map_err(|error| {
        let line = 1 + bytes[..error.valid_up_to()].iter().filter(|&&byte| byte == b'\n').count();
        Error::metadata(line as u32, "not UTF-8")
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Metadata in packets of some content each.
    fn packed(text: &[u8], content: usize, is_big_endian: bool) -> Vec<u8> {
        let word = |value: usize| if is_big_endian { (value as u32).to_be_bytes() } else { (value as u32).to_le_bytes() };
        let mut out = Vec::new();
        for piece in text.chunks(content) {
            out.extend(word(PACKET_MAGIC as usize));
            out.extend([7; 16]);
            out.extend(word(0));
            out.extend(word((PACKET_HEADER_LEN + piece.len()) * 8));
            out.extend(word((PACKET_HEADER_LEN + content + 3) * 8));
            out.extend([0, 0, 0, 1, 8]);
            out.extend(piece);
            out.resize(out.len() + content - piece.len() + 3, 0);
        }
        out
    }

    #[test]
    fn what_is_less_than_a_header_ends_the_packets() {
        let text = "trace { byte_order = le; };\nevent { name = \"e\"; };\n".as_bytes();
        let packet = packed(text, 1000, false);
        for garbage in [&[0; 5][..], b"garbage", &[7; PACKET_HEADER_LEN - 1]] {
            let metadata = parse(&[&packet, garbage].concat()).unwrap();
            assert!(metadata.cut.is_none(), "{:?}", metadata.cut);
            assert_eq!(metadata.declarations.events().len(), 1);
        }
        let cut = parse(&[&packet[..], &[7; PACKET_HEADER_LEN]].concat()).unwrap().cut.unwrap().to_string();
        assert!(cut.contains(&format!("packet 1 of the metadata, byte {}: no magic number", packet.len())), "{cut}");
    }

    #[test]
    fn packets_of_either_byte_order_are_joined() {
        let text =
            |order| format!("/* CTF 1.8 */\ntrace {{ byte_order = {order}; }};\nstream {{ }};\nevent {{ name = \"e\"; }};\n");
        for (is_big_endian, order) in [(false, "le"), (true, "be")] {
            let text = text(order);
            let text = text.as_bytes();
            for content in [1, 7, 1000] {
                let bytes = packed(text, content, is_big_endian);
                let metadata = parse(&bytes).unwrap();
                assert!(metadata.cut.is_none());
                assert_eq!(metadata.declarations.events().len(), 1);
                for length in 0..bytes.len() {
                    let _ = parse(&bytes[..length]);
                }
            }
        }
        let text = text("le");
        let text = text.as_bytes();
        let mut bytes = packed(text, 1000, false);
        bytes.extend(&packed(b"/* more */", 100, false)[..5]);
        assert!(parse(&bytes).unwrap().cut.unwrap().to_string().contains("its header is cut"));
        let error = parse(&packed(text, 30, true)).unwrap_err().to_string();
        assert!(error.contains("line 1: its packets are big-endian, and the trace is little-endian"), "{error}");
        let mut bytes = packed(text, 1000, false);
        bytes[32] = 1;
        assert!(parse(&bytes).unwrap_err().is_metadata());
    }
}
