//! Draws field classes of every kind.

use proptest::prelude::*;
use trace_ctf::schema::{Base, Field, FieldClass, Label, VariantOption};

fn bits() -> impl Strategy<Value = u8> {
    prop::sample::select(vec![8, 16, 32, 64])
}

fn name() -> impl Strategy<Value = String> {
    let names = [
        "id",
        "type",
        "r#type",
        "a.b",
        "a_b",
        "a b",
        "Bool",
        "int",
        "_x",
        "x",
        "x_length",
        "_x_length",
        "_x_tag",
        "é",
        "",
        "9lives",
        "enum",
        "uint8_t",
        "value",
        "x_2",
        "Created",
        "none",
    ];
    prop::sample::select(names.to_vec()).prop_map(str::to_owned)
}

pub(crate) fn class() -> impl Strategy<Value = FieldClass> {
    let base = prop::sample::select(vec![Base::Dec, Base::Hex, Base::Oct, Base::Bin]);
    let integer = (bits(), any::<bool>(), base, any::<bool>()).prop_map(|(bits, signed, base, big_endian)| FieldClass::Integer {
        bits,
        signed,
        base,
        big_endian,
    });
    let leaf = prop_oneof![
        4 => integer,
        1 => prop::sample::select(vec![32, 64]).prop_map(|bits| FieldClass::Float { bits }),
        1 => Just(FieldClass::Bool),
        2 => bits().prop_map(|length_bits| FieldClass::String { length_bits }),
        1 => (1u64..20).prop_map(|length| FieldClass::Text { length }),
        1 => Just(FieldClass::Redacted),
        2 => enumeration(),
    ];
    leaf.prop_recursive(4, 24, 4, |inner| {
        let option = (name(), inner.clone()).prop_map(|(name, class)| VariantOption { name, class });
        prop_oneof![
            fields(inner.clone(), 0..4).prop_map(FieldClass::Structure),
            (inner.clone(), 0u64..4).prop_map(|(element, length)| FieldClass::Array { element: Box::new(element), length }),
            (inner.clone(), bits())
                .prop_map(|(element, length_bits)| FieldClass::Sequence { element: Box::new(element), length_bits }),
            inner.prop_map(|inner| FieldClass::Optional(Box::new(inner))),
            prop::collection::vec(option, 1..4).prop_map(|options| FieldClass::Variant { options }),
        ]
    })
}

fn enumeration() -> impl Strategy<Value = FieldClass> {
    let label = prop::sample::select(vec!["LRU", "a b", "q\"\\\n", "é", "int", ""]);
    (bits(), any::<bool>(), prop::collection::vec((label, any::<i64>(), 0i128..300), 1..5)).prop_map(|(bits, signed, labels)| {
        let (min, max) = if signed { (-(1i128 << (bits - 1)), (1 << (bits - 1)) - 1) } else { (0, (1 << bits) - 1) };
        let label = |(label, low, span): (&str, i64, i128)| {
            let low = (min + i128::from(low).rem_euclid(max - min + 1)).min(max);
            Label { label: label.into(), low, high: (low + span).min(max) }
        };
        FieldClass::Enumeration { bits, signed, labels: labels.into_iter().map(label).collect() }
    })
}

pub(crate) fn fields(
    class: impl Strategy<Value = FieldClass> + 'static,
    count: std::ops::Range<usize>,
) -> impl Strategy<Value = Vec<Field>> {
    let unit = prop::option::of(prop::sample::select(vec!["B", "µs", "*/ \"quoted\"", "a\\b\nc"]));
    let field = (name(), class, unit).prop_map(|(name, class, unit)| Field { name, class, unit: unit.map(str::to_owned) });
    prop::collection::vec(field, count)
}
