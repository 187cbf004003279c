//~ KEY: the lifetimes of this type are not all written here
macro_rules! reference {
    ($lifetime:lifetime) => { &$lifetime u64 };
}

trait Of {
    type Item;
}

impl<'a> Of for &'a u8 {
    type Item = &'a u64;
}

type Swapped<A, B> = Result<B, A>;

#[derive(ringtrace::Abi)]
struct Macro<'a, 'b> {
    first: reference!('a),
    second: &'b u64,
}

#[derive(ringtrace::Abi)]
enum Associated<'a> {
    Nothing,
    Item(Option<<&'a u8 as Of>::Item>),
}

#[derive(ringtrace::Abi)]
struct OfTypes<'a, 'b> {
    value: Swapped<&'a u8, &'b u8>,
}

fn main() {}
