//~ KEY: the attribute of a lone method does not see its type
struct Cart(u32);

impl Cart {
    #[ringtrace::tracepoint]
    fn total(&self) -> u32 {
        self.0
    }
}

fn main() {
    println!("{}", Cart(1).total());
}
