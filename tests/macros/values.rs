//! What filters see of every kind of field.

use ringtrace::Event;
use std::borrow::Cow;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::num::NonZeroI64;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU16};
use std::time::{Duration, SystemTime, UNIX_EPOCH};
use trace_registry::field::Step::{Field, Option as Chosen, Presence};
use trace_registry::field::{Step, Value};

#[derive(Clone, Copy, ringtrace::Field)]
enum Reason {
    Lru = -1,
    Capacity = 300,
}

#[derive(ringtrace::Field)]
enum Change<'a> {
    Gone,
    Moved(&'a str, u8),
    Kept { by: Option<Inner> },
}

#[derive(ringtrace::Field)]
struct Inner {
    id: u32,
    shown: u8,
    reason: Reason,
}

#[derive(ringtrace::Event)]
struct All<'a> {
    u64: u64,
    i8: i8,
    i128: i128,
    float: f32,
    flag: bool,
    letter: char,
    text: &'a str,
    owned: Cow<'a, str>,
    path: &'a Path,
    bytes: &'a [u8],
    non_zero: NonZeroI64,
    atomic: AtomicU16,
    atomic_flag: AtomicBool,
    shared: Arc<u32>,
    pointer: *const u8,
    duration: Duration,
    time: SystemTime,
    ip: IpAddr,
    v4: Ipv4Addr,
    socket: SocketAddr,
    some: Option<u16>,
    none: Option<&'a str>,
    inner: &'a Inner,
    change: Change<'a>,
    #[field(display)]
    displayed: u64,
    #[field(sensitive)]
    secret: u64,
}

#[test]
fn each_field_has_its_value() {
    let inner = Inner { id: 5, shown: 6, reason: Reason::Capacity };
    let event = |change| All {
        u64: u64::MAX,
        i8: -8,
        i128: -2,
        float: 0.5,
        flag: true,
        letter: 'ñ',
        text: "abc",
        owned: Cow::Borrowed("d"),
        path: Path::new("/e"),
        bytes: b"f",
        non_zero: NonZeroI64::MIN,
        atomic: AtomicU16::new(9),
        atomic_flag: AtomicBool::new(true),
        shared: Arc::new(10),
        pointer: std::ptr::without_provenance(0xABC),
        duration: Duration::from_micros(11),
        time: UNIX_EPOCH - Duration::from_nanos(12),
        ip: Ipv6Addr::LOCALHOST.into(),
        v4: Ipv4Addr::LOCALHOST,
        socket: (Ipv4Addr::LOCALHOST, 80).into(),
        some: Some(13),
        none: None,
        inner: &inner,
        change,
        displayed: 14,
        secret: 15,
    };
    let all = event(Change::Moved("to", 16));
    let fields = All::DESCRIPTION.fields;
    let value = |name: &str, path: &[Step]| {
        let index = fields.iter().position(|f| f.name == name).expect(name);
        all.value(index as u16, path)
    };
    let expected = [
        ("u64", &[][..], Value::Integer(u64::MAX.into())),
        ("i8", &[], Value::Integer(-8)),
        ("i128", &[Field(0)], Value::Integer(u64::MAX.into())),
        ("i128", &[Field(1)], Value::Integer((u64::MAX - 1).into())),
        ("float", &[], Value::Float(0.5)),
        ("flag", &[], Value::Integer(1)),
        ("letter", &[], Value::Char('ñ')),
        ("text", &[], Value::Text(b"abc")),
        ("owned", &[], Value::Text(b"d")),
        ("path", &[], Value::Text(b"/e")),
        ("bytes", &[], Value::Missing),
        ("non_zero", &[], Value::Integer(i64::MIN.into())),
        ("atomic", &[], Value::Integer(9)),
        ("atomic_flag", &[], Value::Integer(1)),
        ("shared", &[], Value::Integer(10)),
        ("pointer", &[], Value::Integer(0xABC)),
        ("duration", &[], Value::Integer(11_000)),
        ("time", &[], Value::Integer(-12)),
        ("ip", &[], Value::Integer(1)),
        ("v4", &[], Value::Missing),
        ("socket", &[Field(1)], Value::Integer(80)),
        ("socket", &[Field(0)], Value::Integer(0)),
        ("some", &[], Value::Integer(13)),
        ("some", &[Presence], Value::Integer(1)),
        ("none", &[], Value::Missing),
        ("none", &[Presence], Value::Missing),
        ("inner", &[Field(0)], Value::Integer(5)),
        ("inner", &[Field(1)], Value::Integer(6)),
        ("inner", &[Field(2)], Value::Integer(300)),
        ("inner", &[Field(9)], Value::Missing),
        ("inner", &[], Value::Missing),
        ("change", &[], Value::Integer(1)),
        ("change", &[Chosen(1), Field(0)], Value::Text(b"to")),
        ("change", &[Chosen(1), Field(1)], Value::Integer(16)),
        ("change", &[Chosen(0), Field(0)], Value::Missing),
        ("change", &[Chosen(2), Field(0), Presence], Value::Missing),
        ("displayed", &[], Value::Missing),
        ("secret", &[], Value::Integer(15)),
    ];
    for (name, path, expected) in expected {
        assert_eq!(value(name, path), expected, "{name} {path:?}");
    }
    assert!(fields.iter().filter(|f| f.formatted).map(|f| f.name).eq(["displayed"]));

    let change = fields.iter().position(|f| f.name == "change").expect("it is there") as u16;
    let kept = event(Change::Kept { by: Some(Inner { id: 17, shown: 0, reason: Reason::Lru }) });
    assert_eq!(kept.value(change, &[Chosen(2), Field(0), Field(0)]), Value::Integer(17));
    assert_eq!(kept.value(change, &[Chosen(2), Field(0), Field(2)]), Value::Integer(-1));
    assert_eq!(kept.value(change, &[Chosen(2), Field(0), Presence]), Value::Integer(1));
    assert_eq!(event(Change::Gone).value(change, &[]), Value::Integer(0));
    assert_eq!(event(Change::Gone).value(99, &[]), Value::Missing);
}
