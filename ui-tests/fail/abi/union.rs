//~ KEY: a union does not say what it holds
#[derive(ringtrace::Abi)]
union Word {
    number: u32,
    real: f32,
}

fn main() {}
