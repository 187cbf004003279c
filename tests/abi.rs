//! Hashes of layouts: declarations that differ in one thing that matters have others, and those that differ in nothing that
//! does have one.
#![allow(unused_crate_dependencies, reason = "this test needs the macros only")]
#![allow(dead_code, reason = "the types are declared, and nothing else")]
#![allow(elided_lifetimes_in_paths, reason = "lifetimes that are not written are what is tested")]

use ringtrace::__private::Types;
use ringtrace::{Abi, Tracepoint as _};

/// The hashes of declarations of `T`, each in a module of its own.
macro_rules! hashes {
    ($({ $($declaration:tt)* })*) => {
        vec![$({
            mod declared {
                #[allow(unused_imports)]
                use crate::types::*;
                $($declaration)*
                pub(super) const HASH: u64 = <T as ringtrace::Abi>::HASH;
            }
            (declared::HASH, stringify!($($declaration)*))
        }),*]
    };
}

/// Types that the declarations take.
mod types {
    pub(crate) use core::marker::PhantomData;
    pub(crate) use ringtrace::Abi;
    pub(crate) use std::sync::Arc;
    pub(crate) use std::time::Duration;

    #[derive(Clone, Copy, Abi)]
    pub(crate) struct One<'a>(pub(crate) &'a str);

    #[derive(Clone, Copy, Abi)]
    pub(crate) struct Two<'a, 'b>(pub(crate) &'a str, pub(crate) &'b str);

    #[derive(Abi)]
    pub(crate) struct Signed(i64);

    #[derive(Abi)]
    pub(crate) struct Unsigned(u64);
}

type Hashed = (u64, &'static str);

/// Checks that any two declarations of a group have different hashes. Returns how many pairs there are.
fn all_differ(group: &[Hashed]) -> usize {
    let pairs = || group.iter().enumerate().flat_map(|(at, first)| group[at + 1..].iter().map(move |second| (first, second)));
    for (first, second) in pairs() {
        assert_ne!(first.1, second.1, "the same declaration twice");
        assert_ne!(first.0, second.0, "one hash for\n  {}\nand\n  {}", first.1, second.1);
    }
    pairs().count()
}

fn all_are_equal(group: Vec<Hashed>) {
    for other in &group {
        assert_eq!(group[0].0, other.0, "two hashes for\n  {}\nand\n  {}", group[0].1, other.1);
    }
}

macro_rules! fields_of {
    ($($ty:ty),* $(,)?) => { hashes!($({ #[derive(Abi)] struct T { value: $ty } })*) };
}

/// All have 4 bytes.
fn plain_enums() -> Vec<Hashed> {
    hashes! {
        { #[derive(Abi)] #[repr(u32)] enum T { A, B, C } }
        { #[derive(Abi)] #[repr(i32)] enum T { A, B, C } }
        { #[derive(Abi)] #[repr(C)] enum T { A, B, C } }
        { #[derive(Abi)] #[repr(u32)] enum T { A, C, B } }
        { #[derive(Abi)] #[repr(u32)] enum T { A = 1, B, C } }
        { #[derive(Abi)] #[repr(u32)] enum T { A, B = 2, C } }
        { #[derive(Abi)] #[repr(u32)] enum T { A, B, C = 3 } }
        { #[derive(Abi)] #[repr(u32)] enum T { A, B } }
        { #[derive(Abi)] #[repr(u32)] enum T { A, B, C, D } }
        { #[derive(Abi)] #[repr(u32)] enum T { A, B, X } }
        { #[derive(Abi)] #[repr(i32)] enum T { A = -1, B, C } }
    }
}

/// Discriminants, `repr`, and what the variants hold.
fn enums_with_data() -> Vec<Hashed> {
    hashes! {
        { #[derive(Abi)] #[repr(u8)] enum T { Id(u64), Name(u64) } }
        { #[derive(Abi)] #[repr(u8)] enum T { Name(u64), Id(u64) } }
        { #[derive(Abi)] #[repr(u8)] enum T { Id(u64) = 1, Name(u64) = 0 } }
        { #[derive(Abi)] #[repr(u8)] enum T { Id(u64) = 1, Name(u64) } }
        { #[derive(Abi)] #[repr(u8)] enum T { Id(u64), Name(u64) = 2 } }
        { #[derive(Abi)] #[repr(i8)] enum T { Id(u64), Name(u64) } }
        { #[derive(Abi)] #[repr(i8)] enum T { Id(u64) = -1, Name(u64) } }
        { #[derive(Abi)] #[repr(u16)] enum T { Id(u64), Name(u64) } }
        { #[derive(Abi)] #[repr(u64)] enum T { Id(u64), Name(u64) } }
        { #[derive(Abi)] #[repr(C)] enum T { Id(u64), Name(u64) } }
        { #[derive(Abi)] #[repr(C, u8)] enum T { Id(u64), Name(u64) } }
        { #[derive(Abi)] enum T { Id(u64), Name(u64) } }
        { #[derive(Abi)] enum T { Name(u64), Id(u64) } }
        { #[derive(Abi)] enum T { Id(u64), Name(i64) } }
        { #[derive(Abi)] enum T { Id(i64), Name(u64) } }
        { #[derive(Abi)] enum T { Id(u64), Name { name: u64 } } }
        { #[derive(Abi)] enum T { Id(u64), Name { id: u64 } } }
        { #[derive(Abi)] enum T { Id(u32, u32), Name(u64) } }
        { #[derive(Abi)] enum T { Id(u64), Name(u64), None } }
        { #[derive(Abi)] enum T { None, Id(u64), Name(u64) } }
        { #[derive(Abi)] enum T { Id(u64), Name } }
        { #[derive(Abi)] enum T { Id, Name(u64) } }
        { #[derive(Abi)] enum T { Id(&'static u64), Name(u64) } }
        { #[derive(Abi)] enum T<'a> { Id(&'a u64), Name(u64) } }
        { #[derive(Abi)] enum T { Id(Signed), Name(Unsigned) } }
        { #[derive(Abi)] enum T { Id(Unsigned), Name(Signed) } }
    }
}

fn structs() -> Vec<Hashed> {
    hashes! {
        { #[derive(Abi)] struct T { first: u32, second: u32 } }
        { #[derive(Abi)] struct T { second: u32, first: u32 } }
        { #[derive(Abi)] struct T { first: u32, other: u32 } }
        { #[derive(Abi)] struct T { first: u32, second: i32 } }
        { #[derive(Abi)] struct T { first: u32, second: u32, third: u32 } }
        { #[derive(Abi)] struct T { first: u32, second: u32, third: () } }
        { #[derive(Abi)] struct T(u32, u32); }
        { #[derive(Abi)] struct T([u32; 2]); }
        { #[derive(Abi)] struct T { first: u32 } }
        { #[derive(Abi)] #[repr(C)] struct T { first: u32, second: u32 } }
        { #[derive(Abi)] #[repr(C, align(4))] struct T { first: u32, second: u32 } }
        { #[derive(Abi)] #[repr(C, align(8))] struct T { first: u32, second: u32 } }
        { #[derive(Abi)] #[repr(C, packed)] struct T { first: u32, second: u32 } }
        { #[derive(Abi)] #[repr(C, packed(2))] struct T { first: u32, second: u32 } }
        { #[derive(Abi)] #[repr(transparent)] struct T { first: u32 } }
        { #[derive(Abi)] enum T { First(u32, u32) } }
        { #[derive(Abi)] struct T; }
        { #[derive(Abi)] struct T { first: PhantomData<u32> } }
        { #[derive(Abi)] struct T { first: PhantomData<u64> } }
    }
}

/// What a module that takes one for the other could read when it is gone.
fn lifetimes() -> Vec<Hashed> {
    hashes! {
        { #[derive(Abi)] struct T<'a, 'b> { first: &'a str, second: &'b str } }
        { #[derive(Abi)] struct T<'a, 'b> { first: &'b str, second: &'a str } }
        { #[derive(Abi)] struct T<'a, 'b: 'a> { first: &'a str, second: &'b str } }
        { #[derive(Abi)] struct T<'a: 'b, 'b> { first: &'a str, second: &'b str } }
        { #[derive(Abi)] struct T<'a> { first: &'a str, second: &'a str } }
        { #[derive(Abi)] struct T<'a: 'static> { first: &'a str, second: &'a str } }
        { #[derive(Abi)] struct T<'a> { first: &'static str, second: &'a str } }
        { #[derive(Abi)] struct T<'a> { first: &'a str, second: &'static str } }
        { #[derive(Abi)] struct T { first: &'static str, second: &'static str } }
        { #[derive(Abi)] struct T<'a, 'b> { first: &'a str, second: &'static str, other: PhantomData<&'b ()> } }
        { #[derive(Abi)] struct T<'a, 'b> { first: &'a str, second: &'b str, other: PhantomData<&'b ()> } }
        { #[derive(Abi)] struct T<'a> { of: One<'a> } }
        { #[derive(Abi)] struct T { of: One<'static> } }
        { #[derive(Abi)] struct T<'a> { of: Option<One<'a>> } }
        { #[derive(Abi)] struct T { of: Option<One<'static>> } }
        { #[derive(Abi)] struct T<'a, 'b> { of: Two<'a, 'b> } }
        { #[derive(Abi)] struct T<'a, 'b> { of: Two<'b, 'a> } }
        { #[derive(Abi)] struct T<'a> { of: Two<'a, 'a> } }
        { #[derive(Abi)] struct T<'a> { of: Two<'a, 'static> } }
        { #[derive(Abi)] struct T<'a> { of: Two<'static, 'a> } }
        { #[derive(Abi)] struct T<'a, 'b> { of: &'a [&'b str] } }
        { #[derive(Abi)] struct T<'a, 'b> { of: &'b [&'a str] } }
        { #[derive(Abi)] struct T<'a> { of: &'a [&'a str] } }
        { #[derive(Abi)] struct T<'a> { of: &'a [&'static str] } }
    }
}

#[test]
fn each_of_these_differences_makes_another_hash() {
    let fields = fields_of![
        u8, i8, bool, u16, i16, u32, i32, f32, char, u64, i64, f64, u128, i128, usize, isize, String, Duration, &'static str,
        &'static [u8], &'static u8,
        &'static mut u8, *const u8, *mut u8, Option<u8>, Option<u16>, Vec<u8>, Vec<i8>, Box<u8>, Arc<u8>,
        [u8; 1], [u8; 2], [u8; 3], [[u8; 2]; 3], [[u8; 3]; 2], Result<u8, u16>, Result<u16, u8>, PhantomData<u8>, (),
        Signed, Unsigned,
    ];
    let groups = [fields, plain_enums(), enums_with_data(), structs(), lifetimes()];
    let of: Vec<usize> = groups.iter().map(|group| all_differ(group)).collect();
    // Each kind by itself: those of the fields' types alone would be enough.
    assert!(of[1..].iter().sum::<usize>() >= 250, "{of:?}");
}

#[test]
fn what_does_not_matter_makes_no_other_hash() {
    all_are_equal(hashes! {
        { #[derive(Abi)] struct T<'a, 'b: 'a> { first: &'a str, second: One<'b>, third: &'static u8 } }
        { #[derive(Abi)] struct T<'x, 'y: 'x> { first: &'x str, second: One<'y>, third: &'static u8 } }
        { #[derive(Abi)] struct T<'b, 'a> where 'a: 'b { first: &'b str, second: One<'a>, third: &'static u8 } }
        { #[derive(Abi)] pub(super) struct T<'a, 'b: 'a> { pub(super) first: &'a str, second: crate::types::One<'b>, third: &'static u8 } }
        {
            /// With a comment.
            #[derive(Abi)]
            #[must_use]
            struct T<'a, 'b: 'a> {
                /// And another.
                first: &'a core::primitive::str,
                #[allow(unused)]
                second: One<'b>,
                #[cfg(any())]
                never: String,
                third: &'static u8,
            }
        }
    });
    all_are_equal(hashes! {
        { #[derive(Abi)] #[repr(C, u8)] enum T { A(u8), B { of: u16 }, C } }
        { #[derive(Abi)] #[repr(u8, C)] enum T { A(u8), B { of: u16 }, C } }
        { #[derive(Abi)] #[repr(u8)] #[repr(C)] enum T { A(u8) = 0, B { of: u16 }, C = 2 } }
        { #[derive(Abi)] #[repr(C)] #[must_use] #[repr(u8)] enum T { A(u8), B { of: u16 } = FIRST + 1, C } const FIRST: u8 = 0; }
    });
    all_are_equal(hashes! {
        { #[derive(Abi)] struct T { of: Vec<u8> } }
        { use std::vec; #[derive(Abi)] struct T { of: vec::Vec<u8> } }
        { type Bytes = Vec<Byte>; type Byte = u8; #[derive(Abi)] struct T { of: Bytes } }
    });
}

mod called {
    use crate::types::{One, Two};

    type Hidden<'a> = &'a str;
    type Open = &'static str;
    type Half<'a> = Two<'a, 'static>;
    type Swapped<A, B> = Result<B, A>;

    pub(crate) trait Of {
        type Item;
    }

    impl<'a> Of for &'a u8 {
        type Item = &'a u64;
    }

    type ItemOf<T> = <T as Of>::Item;

    macro_rules! reference {
        ($lifetime:lifetime) => { &$lifetime u64 };
    }

    #[ringtrace::tracepoint]
    pub(crate) fn written(
        one: One<'_>,
        text: &'static str,
        of: &[Two<'_, 'static>],
        open: Open,
        number: u64,
        made: Option<&[Result<&str, Vec<&u8>>]>,
    );

    #[ringtrace::tracepoint]
    pub(crate) fn hidden(alias: Hidden, one: One, several: &[One], half: Half<'_>, maybe: Option<One>);

    #[ringtrace::tracepoint]
    pub(crate) fn concealed<'a>(
        associated: <&'a u8 as Of>::Item,
        within: Option<<&'a u8 as Of>::Item>,
        made: reference!('a),
        of: ItemOf<&'a u8>,
        swapped: Swapped<&'a u8, &'static u8>,
    );
}

#[test]
fn arguments_whose_lifetimes_are_not_written_have_no_hash() {
    let known = |arguments: &[ringtrace::__private::ArgumentType]| -> Vec<bool> {
        arguments.iter().map(|argument| argument.hash.is_some() && (argument.has_all_written)()).collect()
    };
    assert_eq!(known((called::written::descriptor().arguments)()), [true; 6]);
    assert_eq!(known((called::hidden::descriptor().arguments)()), [false; 5]);
    assert_eq!(known((called::concealed::descriptor().arguments)()), [false; 5]);
    // They agree with themselves.
    for descriptor in [called::written::descriptor(), called::hidden::descriptor(), called::concealed::descriptor()] {
        assert_eq!(Types::of(descriptor).difference(&Types::of(descriptor)), None);
    }
}

#[test]
fn a_hash_is_a_constant() {
    const _: u64 = <types::Two<'static, 'static> as Abi>::HASH;
}
