//! The bytes of every kind of field, and what readers are told about them.

use crate::collect::{Channel, attach, collect, detach};
use ringtrace::{Event, FieldClass};
use std::borrow::Cow;
use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::num::NonZeroU16;
use std::sync::atomic::AtomicI8;
use std::time::Duration;
use trace_registry::field::{Base, DEBUG_LIMIT, FieldDescriptor, Label, VariantOption};

/// Numbers, booleans, pointers.
#[derive(ringtrace::Event)]
struct Scalars {
    u8: u8,
    i16: i16,
    #[field(hex, unit = "B")]
    u32: u32,
    i64: i64,
    u128: u128,
    usize: usize,
    non_zero: NonZeroU16,
    atomic: AtomicI8,
    f32: f32,
    f64: f64,
    bool: bool,
    char: char,
    pointer: *const u8,
    duration: Duration,
}

#[ringtrace::tracepoint]
fn scalars(pointer: *const u8);

#[ringtrace::probe(scalars)]
fn record_scalars(pointer: *const u8) -> Scalars {
    Scalars {
        u8: 1,
        i16: -2,
        u32: 3,
        i64: -4,
        u128: (5 << 64) + 6,
        usize: 7,
        non_zero: NonZeroU16::MAX,
        atomic: AtomicI8::new(-8),
        f32: 0.5,
        f64: -0.25,
        bool: true,
        char: 'ñ',
        pointer,
        duration: Duration::from_micros(9),
    }
}

#[test]
fn scalars_are_packed() {
    let pointer = std::ptr::without_provenance(0xABC);
    let expected = [
        &[1][..],
        &(-2i16).to_ne_bytes(),
        &3u32.to_ne_bytes(),
        &(-4i64).to_ne_bytes(),
        &5u64.to_ne_bytes(),
        &6u64.to_ne_bytes(),
        &7usize.to_ne_bytes(),
        &u16::MAX.to_ne_bytes(),
        &(-8i8).to_ne_bytes(),
        &0.5f32.to_ne_bytes(),
        &(-0.25f64).to_ne_bytes(),
        &[1],
        &[2, 0xC3, 0xB1],
        &0xABCusize.to_ne_bytes(),
        &9000u64.to_ne_bytes(),
    ];
    assert_eq!(collect::<scalars>(|| scalars(pointer)).record(), expected.concat());
    let fields = Scalars::DESCRIPTION.fields;
    assert_eq!(fields[2], FieldDescriptor { unit: "B", ..FieldDescriptor::new("u32", FieldClass::hexadecimal(32)) });
    assert_eq!(
        fields.last(),
        Some(&FieldDescriptor { unit: "ns", ..FieldDescriptor::new("duration", FieldClass::unsigned(64)) })
    );
    assert_eq!(Scalars::DESCRIPTION.name, "Scalars");
    assert_eq!(Scalars::DESCRIPTION.module_path, module_path!());
    assert!(!Scalars::DESCRIPTION.is_sensitive());
}

/// Text, slices, addresses.
#[derive(ringtrace::Event)]
struct Compound<'a>(
    &'a str,
    Cow<'a, str>,
    &'a [u8],
    &'a [i32],
    [u16; 3],
    Option<u32>,
    Option<&'a str>,
    IpAddr,
    SocketAddr,
    #[field(rename = "pairs")] &'a [Pair<'a>],
);

#[derive(ringtrace::Field)]
struct Pair<'a> {
    key: &'a str,
    value: u8,
}

#[ringtrace::tracepoint]
fn compound(text: &str);

#[ringtrace::probe(compound)]
fn record_compound(text: &str) -> Compound<'_> {
    Compound(
        text,
        Cow::Borrowed(&text[1..]),
        b"xyz",
        &[-1, 2],
        [1, 2, 3],
        Some(4),
        None,
        Ipv4Addr::LOCALHOST.into(),
        (Ipv6Addr::LOCALHOST, 80).into(),
        &[Pair { key: "k", value: 1 }, Pair { key: "", value: 2 }],
    )
}

#[test]
fn text_slices_and_nested_fields_follow_their_lengths() {
    let length = |n: u16| n.to_ne_bytes();
    let expected = [
        &length(3)[..],
        b"abc",
        &length(2),
        b"bc",
        &length(3),
        b"xyz",
        &length(2),
        &(-1i32).to_ne_bytes(),
        &2i32.to_ne_bytes(),
        &[1u16, 2, 3].map(u16::to_ne_bytes).concat(),
        &[1],
        &4u32.to_ne_bytes(),
        &[0],
        &[0, 127, 0, 0, 1],
        &[1],
        &Ipv6Addr::LOCALHOST.octets(),
        &80u16.to_ne_bytes(),
        &length(2),
        &length(1),
        b"k\x01",
        &length(0),
        b"\x02",
    ];
    let collected = collect::<compound>(|| compound("abc"));
    assert_eq!(collected.record(), expected.concat());
    assert_eq!(collected.cuts(), 0);
    let names: Vec<_> = Compound::DESCRIPTION.fields.iter().map(|f| f.name).collect();
    assert_eq!(names, ["_0", "_1", "_2", "_3", "_4", "_5", "_6", "_7", "_8", "pairs"]);
    assert!(matches!(Compound::DESCRIPTION.fields[9].class, FieldClass::Sequence { element: FieldClass::Structure { .. }, .. }));
}

/// Without data; the smallest integer that holds all.
#[derive(Clone, Copy, ringtrace::Field)]
enum Plain {
    Lru,
    Capacity = 300,
    #[field(rename = "other_reason")]
    Other,
}

#[derive(Clone, Copy, ringtrace::Field)]
#[repr(i32)]
enum Signed {
    Low = -70_000,
    High = 5,
}

#[derive(Clone, Copy, ringtrace::Field)]
enum Change<'a> {
    Gone,
    Moved(&'a str, u8),
    Kept {
        #[field(hex)]
        by: u64,
    },
}

#[ringtrace::tracepoint(record)]
fn enums(plain: Plain, signed: Signed, change: Change<'_>, last: u8);

#[test]
fn enums_are_integers_or_select_their_data() {
    let start = |plain: u16, signed: i32| [&plain.to_ne_bytes()[..], &signed.to_ne_bytes()].concat();
    let collected = collect::<enums>(|| {
        enums(Plain::Lru, Signed::Low, Change::Gone, 9);
        enums(Plain::Capacity, Signed::High, Change::Moved("ab", 3), 9);
        enums(Plain::Other, Signed::High, Change::Kept { by: 4 }, 9);
    });
    let expected = [
        [&start(0, -70_000)[..], &[0, 9]].concat(),
        [&start(300, 5)[..], &[1], &2u16.to_ne_bytes(), b"ab", &[3, 9]].concat(),
        [&start(301, 5)[..], &[2], &4u64.to_ne_bytes(), &[9]].concat(),
    ];
    assert_eq!(collected.records(), expected);

    let class = crate::collect::probes::<enums>()[0].class.expect("it records");
    const fn label(name: &'static str, value: i128) -> Label {
        Label { name, value }
    }
    let labels = const { &[label("Lru", 0), label("Capacity", 300), label("other_reason", 301)] };
    assert_eq!(class.fields[0].class, FieldClass::Enumeration { bits: 16, signed: false, labels });
    let labels = const { &[label("Low", -70_000), label("High", 5)] };
    assert_eq!(class.fields[1].class, FieldClass::Enumeration { bits: 32, signed: true, labels });
    let FieldClass::Variant { options } = class.fields[2].class else { panic!("an enum with data is a variant") };
    assert_eq!(options[0], VariantOption { name: "Gone", class: FieldClass::Structure { fields: &[] } });
    let FieldClass::Structure { fields } = options[2].class else { panic!("the data of a variant are fields") };
    assert!(matches!(fields[0].class, FieldClass::Integer { base: Base::Hexadecimal, .. }));
}

struct Long(usize);

impl fmt::Display for Long {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&"ñ".repeat(self.0))
    }
}

#[derive(Debug)]
struct Opaque(#[expect(dead_code, reason = "shown by `Debug`")] u8);

#[ringtrace::tracepoint(record)]
fn formatted(#[field(display)] long: &Long, #[field(debug)] opaque: &Opaque);

#[test]
fn formatted_fields_are_bounded() {
    let collected = collect::<formatted>(|| {
        formatted(&Long(2), &Opaque(1));
        formatted(&Long(1000), &Opaque(1));
    });
    let opaque = [&9u16.to_ne_bytes()[..], b"Opaque(1)"].concat();
    let records = collected.records();
    assert_eq!(records[0], [&4u16.to_ne_bytes()[..], "ññ".as_bytes(), &opaque].concat());
    let long = String::from_utf8_lossy(&records[1][2..records[1].len() - opaque.len()]).into_owned();
    assert!(long.ends_with('…') && long.starts_with('ñ') && long.len() <= DEBUG_LIMIT && long.len() > DEBUG_LIMIT - 4, "{long}");
    assert!(records[1].ends_with(&opaque));
    assert_eq!(collected.cuts(), 1);
}

#[ringtrace::tracepoint(record)]
fn secrets(#[field(sensitive)] number: u64, #[field(sensitive, rename = "password")] text: &str, open: u8);

#[test]
fn sensitive_fields_are_left_out_where_a_session_redacts() {
    let (whole, redacted) = (Channel::new(), Channel { redact: true, ..Channel::new() });
    attach::<secrets>(&[redacted, whole]);
    secrets(1, "abc", 2);
    detach::<secrets>();
    let expected = [&1u64.to_ne_bytes()[..], &3u16.to_ne_bytes(), b"abc\x02"].concat();
    assert_eq!(whole.collected.record(), expected);
    assert_eq!(redacted.collected.record(), [0, 0, 2]);
    let class = crate::collect::probes::<secrets>()[0].class.expect("it records");
    assert!(class.is_sensitive());
    let fields: Vec<_> = class.fields.iter().map(|f| (f.name, f.sensitive)).collect();
    assert_eq!(fields, [("number", true), ("password", true), ("open", false)]);
}

#[ringtrace::tracepoint(record)]
fn slices(words: &[u32], names: &[&str]);

#[test]
fn slices_are_cut_to_whole_elements() {
    let channel = Channel { limit: 16, ..Channel::new() };
    attach::<slices>(&[channel]);
    slices(&[1, 2, 3, 4], &["a"]);
    detach::<slices>();
    let words = [1u32, 2, 3].map(u32::to_ne_bytes).concat();
    assert_eq!(channel.collected.record(), [&3u16.to_ne_bytes()[..], &words, &0u16.to_ne_bytes()].concat());
    assert_eq!(channel.collected.cuts(), 1);
}

#[ringtrace::tracepoint(record)]
fn behind_long(text: &str, mark: char);

#[ringtrace::tracepoint(record)]
fn behind_two_long(text: &str, bytes: &[u8], flag: Option<u8>);

#[test]
fn what_is_behind_the_longest_text_is_recorded_whole() {
    let text = "x".repeat(u16::MAX.into());
    let bytes = vec![7; u16::MAX.into()];
    let channel = Channel { limit: 1 << 20, ..Channel::new() };
    attach::<behind_long>(&[channel]);
    behind_long(&text, '€');
    detach::<behind_long>();
    assert!(channel.collected.records() == [[&[0xff, 0xff], text.as_bytes(), &[3], "€".as_bytes()].concat()]);
    attach::<behind_two_long>(&[channel]);
    behind_two_long(&text, &bytes, Some(5));
    detach::<behind_two_long>();
    assert!(channel.collected.records() == [[&[0xff, 0xff], text.as_bytes(), &[0xff, 0xff], &bytes, &[1, 5]].concat()]);
    assert_eq!((channel.collected.cuts(), channel.collected.losses()), (0, vec![]));
}

/// Without fields.
#[derive(ringtrace::Event)]
struct Nothing;

#[ringtrace::tracepoint]
fn nothing();

#[ringtrace::probe(nothing)]
fn record_nothing() -> Nothing {
    Nothing
}

#[test]
fn an_event_may_have_no_fields() {
    assert!(collect::<nothing>(nothing).record().is_empty());
}
