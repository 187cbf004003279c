//! The wire format of Protocol Buffers: <https://protobuf.dev/programming-guides/encoding/>.

/// A message on its way to bytes.
#[derive(Debug, Default)]
pub(super) struct Message(Vec<u8>);

impl Message {
    pub(super) fn number(&mut self, field: u32, value: u64) -> &mut Self {
        self.key(field, 0);
        self.varint(value)
    }

    pub(super) fn signed(&mut self, field: u32, value: i64) -> &mut Self {
        self.number(field, value as u64)
    }

    pub(super) fn double(&mut self, field: u32, value: f64) -> &mut Self {
        self.fixed(field, value.to_bits())
    }

    pub(super) fn fixed(&mut self, field: u32, value: u64) -> &mut Self {
        self.key(field, 1);
        self.0.extend(value.to_le_bytes());
        self
    }

    pub(super) fn text(&mut self, field: u32, text: &str) -> &mut Self {
        self.bytes(field, text.as_bytes())
    }

    /// A message inside.
    pub(super) fn message(&mut self, field: u32, fill: impl FnOnce(&mut Message)) -> &mut Self {
        let mut inner = Message::default();
        fill(&mut inner);
        self.bytes(field, &inner.0)
    }

    pub(super) fn bytes(&mut self, field: u32, bytes: &[u8]) -> &mut Self {
        self.key(field, 2);
        self.varint(bytes.len() as u64);
        self.0.extend(bytes);
        self
    }

    /// Fields that are encoded already.
    pub(super) fn fields(&mut self, bytes: &[u8]) -> &mut Self {
        self.0.extend(bytes);
        self
    }

    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub(super) fn as_bytes(&self) -> &[u8] {
        &self.0
    }

    fn key(&mut self, field: u32, kind: u8) {
        self.varint(u64::from(field) << 3 | u64::from(kind));
    }

    fn varint(&mut self, mut value: u64) -> &mut Self {
        while value > 0x7F {
            self.0.push(value as u8 | 0x80);
            value >>= 7;
        }
        self.0.push(value as u8);
        self
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_examples_of_the_specification() {
        let mut message = Message::default();
        message.number(1, 150).text(2, "testing").message(3, |inner| {
            inner.number(1, 150);
        });
        let expected = [b"\x08\x96\x01".as_slice(), b"\x12\x07testing", b"\x1a\x03\x08\x96\x01"].concat();
        assert_eq!(message.as_bytes(), expected);
        let mut negative = Message::default();
        negative.signed(1, -2);
        assert_eq!(negative.as_bytes(), b"\x08\xfe\xff\xff\xff\xff\xff\xff\xff\xff\x01");
    }
}
