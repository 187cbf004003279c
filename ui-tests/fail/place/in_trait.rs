//~ KEY: not supported in `trait`s or `impl`s
trait Cache {
    #[ringtrace::tracepoint]
    fn evicted(page: u64);
}

fn main() {}
