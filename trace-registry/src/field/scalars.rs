//! Fields of fixed size: numbers, `bool`, pointers, durations, addresses.
#![expect(unsafe_code, reason = "a slice of numbers is recorded as the bytes it is")]

use super::{Base, Field, FieldClass, FieldDescriptor, Payload, Sizes, Step, Value, VariantOption};
use core::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, SocketAddrV4, SocketAddrV6};
use core::num::{
    NonZeroI8, NonZeroI16, NonZeroI32, NonZeroI64, NonZeroIsize, NonZeroU8, NonZeroU16, NonZeroU32, NonZeroU64, NonZeroUsize,
};
use core::ptr::NonNull;
use core::sync::atomic::{
    AtomicBool, AtomicI8, AtomicI16, AtomicI32, AtomicI64, AtomicIsize, AtomicU8, AtomicU16, AtomicU32, AtomicU64, AtomicUsize,
    Ordering,
};
use core::time::Duration;

/// A field that stages `$bytes` for each value; for filters it is `$number`.
macro_rules! fixed {
    (@ [$($generic:ident)?] $type:ty, $class:expr, $bytes:expr, |$value:ident| $encoded:expr, $number:expr) => {
        impl $(<$generic>)? Field for $type {
            const CLASS: FieldClass = $class;
            const SIZES: Sizes = Sizes::fixed($bytes);
            #[inline(always)]
            fn write<'p>(&'p self, payload: &mut Payload<'p>) {
                let $value = self;
                payload.stage($encoded);
            }
            #[inline(always)]
            fn value(&self, _: &[Step]) -> Value<'_> {
                let $value = self;
                Value::Integer($number as i128)
            }
        }
    };
    ($type:ty, $class:expr, $bytes:expr, |$value:ident| $encoded:expr, $number:expr) => {
        fixed!(@ [] $type, $class, $bytes, |$value| $encoded, $number);
    };
}

/// A number whose bytes in memory are those of a record, so that a slice of them is one piece.
macro_rules! plain {
    ($type:ty, $class:expr, $value:ident) => {
        impl Field for $type {
            const CLASS: FieldClass = $class;
            const SIZES: Sizes = Sizes::fixed(size_of::<$type>());
            #[inline(always)]
            fn write<'p>(&'p self, payload: &mut Payload<'p>) {
                payload.stage(self.to_ne_bytes());
            }
            #[inline(always)]
            fn value(&self, _: &[Step]) -> Value<'_> {
                Value::$value(*self as _)
            }
            const PLAIN: bool = true;
            #[inline(always)]
            fn as_bytes(elements: &[$type]) -> Option<&[u8]> {
                // SAFETY: every byte of a number is initialised and any byte is a `u8`; the length is the slice's own size.
                Some(unsafe { core::slice::from_raw_parts(elements.as_ptr().cast(), size_of_val(elements)) })
            }
        }
    };
}

macro_rules! integers {
    ($($type:ident $constructor:ident $non_zero:ident $atomic:ident;)*) => {$(
        plain!($type, FieldClass::$constructor($type::BITS as u8), Integer);
        fixed!($non_zero, <$type as Field>::CLASS, size_of::<$type>(), |v| v.get().to_ne_bytes(), v.get());
        // Relaxed: the value as it is; the event orders nothing.
        fixed!($atomic, <$type as Field>::CLASS, size_of::<$type>(), |v| v.load(Ordering::Relaxed).to_ne_bytes(),
            v.load(Ordering::Relaxed));
    )*};
}

integers! {
    u8 unsigned NonZeroU8 AtomicU8;
    u16 unsigned NonZeroU16 AtomicU16;
    u32 unsigned NonZeroU32 AtomicU32;
    u64 unsigned NonZeroU64 AtomicU64;
    i8 signed NonZeroI8 AtomicI8;
    i16 signed NonZeroI16 AtomicI16;
    i32 signed NonZeroI32 AtomicI32;
    i64 signed NonZeroI64 AtomicI64;
    usize unsigned NonZeroUsize AtomicUsize;
    isize signed NonZeroIsize AtomicIsize;
}

const HALVES: FieldClass = FieldClass::Structure {
    fields: &[
        FieldDescriptor::new("high", FieldClass::hexadecimal(64)),
        FieldDescriptor::new("low", FieldClass::hexadecimal(64)),
    ],
};

/// The upper half first.
const fn halves(value: u128) -> [u8; 16] {
    let (high, low) = (((value >> 64) as u64).to_ne_bytes(), (value as u64).to_ne_bytes());
    let mut bytes = [0; 16];
    let mut i = 0;
    while i < 8 {
        bytes[i] = high[i];
        bytes[i + 8] = low[i];
        i += 1;
    }
    bytes
}

macro_rules! halved {
    ($($type:ident)*) => {$(
        impl Field for $type {
            const CLASS: FieldClass = HALVES;
            const SIZES: Sizes = Sizes::fixed(16);
            #[inline(always)]
            fn write<'p>(&'p self, payload: &mut Payload<'p>) {
                payload.stage(halves(*self as u128));
            }
            #[inline]
            fn value(&self, path: &[Step]) -> Value<'_> {
                match path {
                    [Step::Field(0)] => Value::Integer((*self as u128 >> 64) as i128),
                    [Step::Field(1)] => Value::Integer(*self as u64 as i128),
                    _ => Value::Missing,
                }
            }
        }
    )*};
}

halved!(u128 i128);

plain!(f32, FieldClass::Float { bits: 32 }, Float);
plain!(f64, FieldClass::Float { bits: 64 }, Float);
fixed!(bool, FieldClass::Bool, 1, |v| [u8::from(*v)], *v);
fixed!(AtomicBool, FieldClass::Bool, 1, |v| [u8::from(v.load(Ordering::Relaxed))], v.load(Ordering::Relaxed));

const POINTER: FieldClass = FieldClass::hexadecimal(usize::BITS as u8);

fixed!(@ [T] *const T, POINTER, size_of::<usize>(), |v| v.addr().to_ne_bytes(), v.addr());
fixed!(@ [T] *mut T, POINTER, size_of::<usize>(), |v| v.addr().to_ne_bytes(), v.addr());
fixed!(@ [T] NonNull<T>, POINTER, size_of::<usize>(), |v| v.as_ptr().addr().to_ne_bytes(), v.as_ptr().addr());

/// Nanoseconds, as far as 64 bits go (584 years).
const fn nanoseconds(duration: Duration) -> u64 {
    let ns = duration.as_nanos();
    if ns > u64::MAX as u128 { u64::MAX } else { ns as u64 }
}

impl Field for Duration {
    const CLASS: FieldClass = FieldClass::unsigned(64);
    const SIZES: Sizes = Sizes::fixed(8);
    const UNIT: &'static str = "ns";
    #[inline(always)]
    fn write<'p>(&'p self, payload: &mut Payload<'p>) {
        payload.stage(nanoseconds(*self).to_ne_bytes());
    }
    #[inline(always)]
    fn value(&self, _: &[Step]) -> Value<'_> {
        Value::Integer(nanoseconds(*self).into())
    }
}

const BYTE: FieldClass = FieldClass::unsigned(8);
const GROUP: FieldClass = FieldClass::Integer { bits: 16, signed: false, base: Base::Hexadecimal, network_order: true };
const V4: FieldClass = FieldClass::Array { element: &BYTE, length: 4 };
const V6: FieldClass = FieldClass::Array { element: &GROUP, length: 8 };
const PORT: FieldDescriptor = FieldDescriptor::new("port", FieldClass::unsigned(16));

const IP: FieldClass =
    FieldClass::Variant { options: &[VariantOption { name: "v4", class: V4 }, VariantOption { name: "v6", class: V6 }] };

/// Stages an address; a method, because `ip()` of the socket addresses returns a value for one and a reference for others.
trait StageAddress {
    fn stage_address(&self, payload: &mut Payload<'_>);

    /// The index of the option, where there are some.
    fn option(&self) -> Value<'static> {
        Value::Missing
    }
}

impl StageAddress for Ipv4Addr {
    #[inline(always)]
    fn stage_address(&self, payload: &mut Payload<'_>) {
        payload.stage(self.octets());
    }
}

impl StageAddress for Ipv6Addr {
    #[inline(always)]
    fn stage_address(&self, payload: &mut Payload<'_>) {
        payload.stage(self.octets());
    }
}

impl StageAddress for IpAddr {
    #[inline(always)]
    fn stage_address(&self, payload: &mut Payload<'_>) {
        match self {
            IpAddr::V4(address) => {
                payload.stage([0]);
                payload.stage(address.octets());
            }
            // Twelve bytes more than the shorter form, which is all that the least size reserved.
            IpAddr::V6(address) if payload.take(12) => {
                payload.stage([1]);
                payload.stage(address.octets());
            }
            IpAddr::V6(_) => payload.set_overflow(),
        }
    }

    fn option(&self) -> Value<'static> {
        Value::Integer(self.is_ipv6().into())
    }
}

macro_rules! addresses {
    ($($ip:ty, $class:expr, $sizes:expr, $socket:ty;)*) => {$(
        impl Field for $ip {
            const CLASS: FieldClass = $class;
            const SIZES: Sizes = $sizes;
            #[inline(always)]
            fn write<'p>(&'p self, payload: &mut Payload<'p>) {
                self.stage_address(payload);
            }
            fn value(&self, _: &[Step]) -> Value<'_> {
                self.option()
            }
        }

        impl Field for $socket {
            const CLASS: FieldClass = FieldClass::Structure { fields: &[FieldDescriptor::new("ip", $class), PORT] };
            const SIZES: Sizes = $sizes.and(u16::SIZES);
            #[inline(always)]
            fn write<'p>(&'p self, payload: &mut Payload<'p>) {
                self.ip().stage_address(payload);
                payload.stage(self.port().to_ne_bytes());
            }
            fn value(&self, path: &[Step]) -> Value<'_> {
                match path {
                    [Step::Field(0)] => self.ip().option(),
                    [Step::Field(1)] => Value::Integer(self.port().into()),
                    _ => Value::Missing,
                }
            }
        }
    )*};
}

addresses! {
    Ipv4Addr, V4, Sizes::fixed(4), SocketAddrV4;
    Ipv6Addr, V6, Sizes::fixed(16), SocketAddrV6;
    IpAddr, IP, Sizes::fixed(5).or(Sizes::fixed(17)), SocketAddr;
}
