//! Enums without data: what `#[derive(Field)]` makes of them.

use super::{FieldClass, Label, Payload, Sizes};

/// The class of an enum with these variants: of the size and signedness in `repr`, or else the smallest that holds all values.
#[doc(hidden)]
pub const fn enumeration(labels: &'static [Label], repr: Option<(u8, bool)>) -> FieldClass {
    let (bits, signed) = match repr {
        Some(repr) => repr,
        None => smallest(labels),
    };
    FieldClass::Enumeration { bits, signed, labels }
}

const fn smallest(labels: &[Label]) -> (u8, bool) {
    let (mut least, mut most) = (0, 0);
    let mut i = 0;
    while i < labels.len() {
        let value = labels[i].value;
        least = if value < least { value } else { least };
        most = if value > most { value } else { most };
        i += 1;
    }
    let signed = least < 0;
    let mut bits = 8;
    while bits < 64 {
        let (low, high) = if signed { (-(1 << (bits - 1)), (1 << (bits - 1)) - 1) } else { (0, (1i128 << bits) - 1) };
        if least >= low && most <= high {
            break;
        }
        bits *= 2;
    }
    (bits, signed)
}

/// How much room a value of an [`enumeration`] takes.
#[doc(hidden)]
pub const fn enumeration_sizes(class: FieldClass) -> Sizes {
    match class {
        FieldClass::Enumeration { bits, .. } => Sizes::fixed(bits as usize / 8),
        _ => Sizes::NONE,
    }
}

/// Writes the lowest bytes of `value`, as many as `sizes` says.
#[doc(hidden)]
#[inline(always)]
pub fn write_enumeration(payload: &mut Payload<'_>, sizes: Sizes, value: u64) {
    match sizes.least {
        1 => payload.stage((value as u8).to_ne_bytes()),
        2 => payload.stage((value as u16).to_ne_bytes()),
        4 => payload.stage((value as u32).to_ne_bytes()),
        _ => payload.stage(value.to_ne_bytes()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_smallest_integer_that_holds_all_values() {
        let class = |values: &[i128]| {
            let labels: std::vec::Vec<_> = values.iter().map(|value| Label { name: "", value: *value }).collect();
            smallest(&labels)
        };
        assert_eq!(class(&[0, 255]), (8, false));
        assert_eq!(class(&[0, 256]), (16, false));
        assert_eq!(class(&[-1, 127]), (8, true));
        assert_eq!(class(&[-1, 128]), (16, true));
        assert_eq!(class(&[i32::MIN as i128]), (32, true));
        assert_eq!(class(&[u64::MAX as i128]), (64, false));
        assert_eq!(class(&[-1, u32::MAX as i128]), (64, true));
    }
}
