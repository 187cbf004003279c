//~ KEY: a tracepoint is a free function: it cannot take `self`
struct Cache;

impl Cache {
    #[ringtrace::tracepoint]
    fn evicted(&self, page: u64);

    fn evict(&self) {
        self.evicted(1);
    }
}

fn main() {
    Cache.evict();
}
