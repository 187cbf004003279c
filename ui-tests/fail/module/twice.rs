//~ KEY: the name `__ringtrace_probe_module` is defined multiple times
ringtrace::probe_module! { "first", "1.0.0" }
ringtrace::probe_module! {}

fn main() {}
