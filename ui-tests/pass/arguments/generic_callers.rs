//! Tracepoints in generic code, in closures, in constants' neighbourhood and in macros.
#![deny(warnings)]

#[ringtrace::tracepoint]
fn inserted(size: usize, name: &str);

struct Table<T>(Vec<T>);

impl<T: ToString> Table<T> {
    fn insert(&mut self, value: T) {
        inserted(size_of::<T>(), &value.to_string());
        ringtrace::fire!(inserted(size_of::<T>(), &value.to_string()));
        self.0.push(value);
    }
}

macro_rules! declare {
    ($vis:vis $name:ident ($($argument:ident: $type:ty),*) at $level:ident) => {
        #[ringtrace::tracepoint(record, level = $level)]
        $vis fn $name($($argument: $type),*);
    };
}

declare!(pub(crate) from_macro(number: u32, text: &str) at DebugLine);

fn main() {
    Table(Vec::new()).insert(1u8);
    Table(Vec::new()).insert("a");
    let fire = |n: u32| from_macro(n, "x");
    fire(1);
    let pointer: fn(usize, &str) = inserted;
    pointer(1, "a");
}
