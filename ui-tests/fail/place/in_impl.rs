//~ KEY: not supported in `trait`s or `impl`s
struct Cache;

impl Cache {
    #[ringtrace::tracepoint]
    pub fn evicted(page: u64);
}

fn main() {}
