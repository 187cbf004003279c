/// Description of the values of one field: what a trace's metadata is made from.
///
/// All scalars are packed and in the byte order of the machine, unless said otherwise.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum FieldClass {
    /// An integer of 8, 16, 32 or 64 bits.
    Integer {
        /// Size in bits.
        bits: u8,
        /// Two's complement?
        signed: bool,
        /// How it is shown.
        base: Base,
        /// Most significant byte first, whatever the machine?
        network_order: bool,
    },
    /// An IEEE 754 number of 32 or 64 bits.
    Float {
        /// Size in bits.
        bits: u8,
    },
    /// One byte, 0 or 1.
    Bool,
    /// A length of `length_bits` bits, then that many bytes of UTF-8.
    String {
        /// Size of the length in bits.
        length_bits: u8,
    },
    /// An integer whose values have names.
    Enumeration {
        /// Size in bits.
        bits: u8,
        /// Two's complement?
        signed: bool,
        /// The names.
        labels: &'static [Label],
    },
    /// Fields one after the other.
    Structure {
        /// The fields.
        fields: &'static [FieldDescriptor],
    },
    /// A fixed number of elements.
    Array {
        /// Class of each element.
        element: &'static FieldClass,
        /// Number of elements.
        length: usize,
    },
    /// A length of `length_bits` bits, then that many elements.
    Sequence {
        /// Class of each element.
        element: &'static FieldClass,
        /// Size of the length in bits.
        length_bits: u8,
    },
    /// One byte: 0 nothing, 1 the value follows.
    Optional {
        /// Class of the value.
        value: &'static FieldClass,
    },
    /// One byte that selects an option by its index, then that option.
    Variant {
        /// The options.
        options: &'static [VariantOption],
    },
}

/// How integers are shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Base {
    /// Decimal.
    Decimal,
    /// Hexadecimal.
    Hexadecimal,
}

/// A name of some values of an enumeration.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Label {
    /// The name.
    pub name: &'static str,
    /// The value.
    pub value: i128,
}

/// One option of a variant.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct VariantOption {
    /// The name.
    pub name: &'static str,
    /// Class of what follows the selector.
    pub class: FieldClass,
}

/// One field of an event class or of a structure.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FieldDescriptor {
    /// The name.
    pub name: &'static str,
    /// Class of the values.
    pub class: FieldClass,
    /// Unit of the values, such as `B` or `ns`; empty: none.
    pub unit: &'static str,
    /// Whether values are left out unless a session asks for them.
    pub sensitive: bool,
    /// Whether values are text that is formatted when it is written (`Debug`, `Display`), which filters do not read.
    pub formatted: bool,
}

impl FieldDescriptor {
    /// Describes a field without a unit that is not sensitive.
    pub const fn new(name: &'static str, class: FieldClass) -> FieldDescriptor {
        FieldDescriptor { name, class, unit: "", sensitive: false, formatted: false }
    }
}

impl FieldClass {
    /// An unsigned integer shown in decimal.
    pub const fn unsigned(bits: u8) -> FieldClass {
        FieldClass::Integer { bits, signed: false, base: Base::Decimal, network_order: false }
    }

    /// A signed integer shown in decimal.
    pub const fn signed(bits: u8) -> FieldClass {
        FieldClass::Integer { bits, signed: true, base: Base::Decimal, network_order: false }
    }

    /// An unsigned integer shown in hexadecimal.
    pub const fn hexadecimal(bits: u8) -> FieldClass {
        FieldClass::unsigned(bits).hex()
    }

    /// The same class with its integers shown in hexadecimal; others than integers stay as they are.
    #[must_use]
    pub const fn hex(self) -> FieldClass {
        match self {
            FieldClass::Integer { bits, signed, network_order, .. } => {
                FieldClass::Integer { bits, signed, base: Base::Hexadecimal, network_order }
            }
            other => other,
        }
    }
}
