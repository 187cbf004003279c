//~ KEY: more than 11 fields of text
#[derive(ringtrace::Event)]
struct Names<'a> {
    a: &'a str,
    b: &'a str,
    c: &'a str,
    d: &'a str,
    e: &'a str,
    f: &'a str,
    g: &'a str,
    h: &'a str,
    i: &'a str,
    j: &'a str,
    k: &'a str,
    l: &'a str,
}

fn main() {}
