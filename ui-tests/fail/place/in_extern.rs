//~ KEY: not supported in `extern` block
unsafe extern "C" {
    #[ringtrace::tracepoint]
    fn evicted(page: u64);
}

fn main() {}
