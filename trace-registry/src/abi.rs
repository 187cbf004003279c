//! Whether two builds of a tracepoint agree on what its arguments are in memory.
//!
//! A probe module is built apart from the program. What it takes for a `Page` must be what the program passes as one. Two things
//! can show that: hashes of the types' layouts ([`Abi`]), or types that the same compiler made from the same sources: equal type
//! identities, which say nothing of a type's fields, and equal source stamps.

#![expect(unsafe_code, reason = "layouts are promised")]

use crate::tracepoint::{Form, TracepointDescriptor};
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;
use core::any::TypeId;
use core::marker::PhantomData;

/// A type whose layout is hashed: names, offsets, types and lifetimes of its fields, and theirs; `repr` and discriminants.
///
/// Derive it for the types that a tracepoint takes, so that probe modules may be built in another workspace, with another
/// profile, or before a change of the program that does not concern these types.
///
/// # Safety
///
/// Equal hashes mean equal layouts, for types that the same compiler lays out.
#[diagnostic::on_unimplemented(
    message = "the layout of `{Self}` is not known",
    label = "no `Abi`",
    note = "add `#[derive(ringtrace::Abi)]` to `{Self}`"
)]
pub unsafe trait Abi {
    /// Hash of the layout.
    const HASH: u64;
}

/// A type with [`Abi`] that has lifetimes, or is made of types that may, whose name this is, as a number. Lifetimes are hashed as they
/// are written, and in an alias they are not.
///
/// # Safety
///
/// It is the type's own name.
#[doc(hidden)]
#[diagnostic::on_unimplemented(
    message = "`{Self}` has lifetimes, and is not written by its own name",
    label = "an alias, another name, or no `Abi`",
    note = "`#[derive(ringtrace::Abi)]` sees lifetimes as they are written: name the type itself, which derives `Abi` too"
)]
pub unsafe trait Named<const NAME: u64> {}

/// Checks that a type is written by its own name.
#[doc(hidden)]
pub const fn is_named<T: Named<NAME> + ?Sized, const NAME: u64>() {}

/// What stands for the name of a type, as `#[derive(Abi)]` has it.
const fn name(name: &str) -> u64 {
    let (name, mut hash, mut i) = (name.as_bytes(), SEED, 0);
    while i < name.len() {
        hash = (hash ^ name[i] as u64).wrapping_mul(0x0000_0100_0000_01b3);
        i += 1;
    }
    hash
}

/// Hashes `bytes` into `hash`.
///
/// # References
///
/// FNV-1a, 64 bits: <http://www.isthe.com/chongo/tech/comp/fnv/>.
#[doc(hidden)]
#[must_use]
pub const fn hash_bytes(mut hash: u64, bytes: &[u8]) -> u64 {
    let mut i = 0;
    while i < bytes.len() {
        hash = (hash ^ bytes[i] as u64).wrapping_mul(0x0000_0100_0000_01b3);
        i += 1;
    }
    // An end, so that `ab, c` is not `a, bc`.
    (hash ^ 0xff).wrapping_mul(0x0000_0100_0000_01b3)
}

/// Hashes `name` and `numbers` into `hash`.
#[doc(hidden)]
#[must_use]
pub const fn hash(mut hash: u64, name: &str, numbers: &[u64]) -> u64 {
    hash = hash_bytes(hash, name.as_bytes());
    let mut i = 0;
    while i < numbers.len() {
        hash = hash_bytes(hash, &numbers[i].to_le_bytes());
        i += 1;
    }
    hash
}

/// Where a hash begins.
#[doc(hidden)]
pub const SEED: u64 = 0xcbf2_9ce4_8422_2325;

macro_rules! named {
    ($($ty:ty),* $(,)?) => {$(
        // SAFETY: the compiler's version is compared too; with that, the name says it all.
        unsafe impl Abi for $ty {
            const HASH: u64 = hash(SEED, stringify!($ty), &[size_of::<$ty>() as u64]);
        }
    )*};
}

named!(
    u8,
    u16,
    u32,
    u64,
    u128,
    usize,
    i8,
    i16,
    i32,
    i64,
    i128,
    isize,
    f32,
    f64,
    bool,
    char,
    (),
    alloc::string::String,
    core::time::Duration,
    core::num::NonZeroU8,
    core::num::NonZeroU16,
    core::num::NonZeroU32,
    core::num::NonZeroU64,
    core::num::NonZeroUsize,
    core::net::IpAddr,
    core::net::Ipv4Addr,
    core::net::Ipv6Addr,
    core::net::SocketAddr,
    core::ffi::c_void,
);

// SAFETY: as above.
unsafe impl Abi for str {
    const HASH: u64 = hash(SEED, "str", &[]);
}

macro_rules! built {
    ($($name:literal [$($bound:tt)*] $ty:ty;)*) => {$(
        // SAFETY: as above, and what it is made of is hashed.
        unsafe impl<T: Abi $($bound)*> Abi for $ty {
            const HASH: u64 = hash(SEED, $name, &[T::HASH]);
        }
    )*};
}

built! {
    "&" [+ ?Sized] &T;
    "&mut" [+ ?Sized] &mut T;
    "*const" [+ ?Sized] *const T;
    "*mut" [+ ?Sized] *mut T;
    "slice" [] [T];
    "Option" [] Option<T>;
    "Vec" [] alloc::vec::Vec<T>;
    "Box" [+ ?Sized] alloc::boxed::Box<T>;
    "Arc" [+ ?Sized] alloc::sync::Arc<T>;
    "NonNull" [+ ?Sized] core::ptr::NonNull<T>;
    "PhantomData" [+ ?Sized] PhantomData<T>;
}

macro_rules! by_name {
    ($($name:literal [$($parameters:tt)*] $ty:ty;)*) => {$(
        // SAFETY: that is its name.
        #[diagnostic::do_not_recommend]
        unsafe impl<$($parameters)*> Named<{ name($name) }> for $ty {}
    )*};
}

by_name! {
    "Option" [T] Option<T>;
    "Result" [T, E] Result<T, E>;
    "Vec" [T] alloc::vec::Vec<T>;
    "Box" [T: ?Sized] alloc::boxed::Box<T>;
    "Arc" [T: ?Sized] alloc::sync::Arc<T>;
    "NonNull" [T: ?Sized] core::ptr::NonNull<T>;
    "PhantomData" [T: ?Sized] PhantomData<T>;
}

// SAFETY: as above.
unsafe impl<T: Abi, const N: usize> Abi for [T; N] {
    const HASH: u64 = hash(SEED, "array", &[T::HASH, N as u64]);
}

// SAFETY: as above.
unsafe impl<T: Abi, E: Abi> Abi for Result<T, E> {
    const HASH: u64 = hash(SEED, "Result", &[T::HASH, E::HASH]);
}

/// What is known of a type: constants of its own shadow those of [`Unknown`] where their bounds hold.
#[doc(hidden)]
pub struct Inspect<T: ?Sized>(PhantomData<T>);

impl<T: Abi + ?Sized> Inspect<T> {
    /// Hash of the layout.
    pub const HASH: Option<u64> = Some(T::HASH);
}

impl<T> Inspect<T> {
    /// Size in bytes.
    pub const SIZE: Option<usize> = Some(size_of::<T>());
}

/// What is known of a type of which nothing is.
#[doc(hidden)]
pub trait Unknown {
    /// No hash.
    const HASH: Option<u64> = None;
    /// No size.
    const SIZE: Option<usize> = None;
}

impl<T: ?Sized> Unknown for Inspect<T> {}

/// Whether a type is written by its own name, as [`Inspect`] knows it.
#[doc(hidden)]
pub struct Written<T: ?Sized, const NAME: u64>(PhantomData<T>);

impl<T: Named<NAME> + ?Sized, const NAME: u64> Written<T, NAME> {
    /// It is.
    pub const BY_NAME: bool = true;
}

/// What is known of a type that is written by another name.
#[doc(hidden)]
pub trait Misnamed {
    /// It is not.
    const BY_NAME: bool = false;
}

impl<T: ?Sized, const NAME: u64> Misnamed for Written<T, NAME> {}

/// A type in which lifetimes that are not written are `'static`, as in the type of a constant.
#[doc(hidden)]
pub struct Elided<T>(PhantomData<fn(T)>);

impl<T> Elided<T> {
    /// Its value.
    pub const NEW: Elided<T> = Elided(PhantomData);
}

/// Whether all lifetimes of `T` are written, where `F` is a function of it: otherwise each call of `F` has others.
#[doc(hidden)]
pub fn has_all_written<T: 'static, F: 'static>(_: &Elided<T>) -> bool {
    TypeId::of::<fn(T)>() == TypeId::of::<F>()
}

/// Says of a type that it has no lifetimes but those that are written.
#[doc(hidden)]
pub fn all_written() -> bool {
    true
}

/// The type of an argument, as one build sees it.
#[derive(Clone, Copy, Debug)]
pub struct ArgumentType {
    /// As it is written.
    pub name: &'static str,
    /// Size of what it refers to, behind all references.
    pub size: Option<usize>,
    /// Hash of its layout, which counts if all lifetimes are written.
    pub hash: Option<u64>,
    /// Whether all of its lifetimes are written, so that the signature has them.
    pub has_all_written: fn() -> bool,
}

impl ArgumentType {
    /// Returns the hash of its layout, if nothing of it is unknown.
    fn known(&self) -> Option<u64> {
        self.hash.filter(|_| (self.has_all_written)())
    }
}

/// Returns what identifies a type to the compiler.
#[doc(hidden)]
pub fn identity<T: 'static>() -> TypeId {
    TypeId::of::<T>()
}

/// What one build says of the arguments of a tracepoint, apart from the image that says it.
#[derive(Clone, Debug)]
pub struct Types {
    /// Whether its emitter calls its probes with the arguments. That of a site hands them its events, and has no types of arguments.
    is_declaration: bool,
    signature: String,
    arguments: Vec<(String, Option<usize>, Option<u64>)>,
    identity: TypeId,
    stamp: u64,
}

impl Types {
    /// Asks the build of a tracepoint.
    pub fn of(tracepoint: &TracepointDescriptor) -> Types {
        Types {
            is_declaration: tracepoint.form == Form::Declaration,
            signature: tracepoint.signature.split_whitespace().collect::<Vec<_>>().join(" "),
            arguments: (tracepoint.arguments)().iter().map(|a| (String::from(a.name), a.size, a.known())).collect(),
            identity: (tracepoint.identity)(),
            stamp: tracepoint.stamp,
        }
    }

    /// Returns how the program's build, which this is, and a module's differ, and what to do about it; `None`: they agree.
    pub fn difference(&self, module: &Types) -> Option<String> {
        if self.signature != module.signature {
            return Some(format!(
                "its signature differs: `{}` in the program, `{}` in the module; build the module with the program's version of \
                 the crate that declares it",
                self.signature, module.signature
            ));
        }
        if self.is_declaration != module.is_declaration {
            let (here, there) = if self.is_declaration { ("no", "one") } else { ("a", "none") };
            return Some(format!(
                "it has {here} body in the program and {there} in the module; build the module with the program's version of the \
                 crate that declares it"
            ));
        }
        let (ours, theirs) = (self.arguments.len(), module.arguments.len());
        if ours != theirs {
            return Some(format!(
                "the number of its arguments differs: {ours} in the program, {theirs} in the module; build both from the same \
                 sources"
            ));
        }
        let arguments = || self.arguments.iter().zip(&module.arguments);
        for ((name, ours, _), (_, theirs, _)) in arguments() {
            if let (Some(here), Some(there)) = (ours, theirs) {
                if here != there {
                    return Some(format!(
                        "the size of its argument `{name}` differs: {here} bytes in the program, {there} in the module; build both \
                         from the same sources"
                    ));
                }
            }
        }
        if let Some(((name, ..), _)) = arguments().find(|((_, _, a), (_, _, b))| a.is_some() && b.is_some() && a != b) {
            return Some(format!(
                "the layout of its argument `{name}` differs (names, offsets, types or lifetimes of fields, `repr`, or numbers \
                 of variants); build both from the same sources"
            ));
        }
        if arguments().all(|((_, _, a), (_, _, b))| a.is_some() && b.is_some()) {
            return None;
        }
        if self.identity != module.identity {
            return Some(String::from(
                "the compiler sees other types in its arguments: the crates were built with another profile, other features or in \
                 another workspace; build program and module by one `cargo build` of one workspace, or derive `ringtrace::Abi` for \
                 the arguments' types",
            ));
        }
        if self.stamp == 0 || self.stamp != module.stamp {
            return Some(String::from(
                "the sources of the crate that declares it, or of a crate that this one depends on, have changed between the \
                 builds; build both from the same sources",
            ));
        }
        None
    }
}
