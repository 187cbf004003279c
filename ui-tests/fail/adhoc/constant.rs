//~ KEY: in constant functions
const fn twice(n: u32) -> u32 {
    ringtrace::event!("net:twice", n);
    2 * n
}

static FOUR: u32 = {
    ringtrace::event!("net:four");
    4
};

fn main() {
    println!("{} {FOUR}", twice(2));
}
