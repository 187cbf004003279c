//~ KEY: `probe_module!` takes name and version, or nothing for those of the package
ringtrace::probe_module! { "name" }
ringtrace::probe_module! { name: "name", version: "1.0.0" }
ringtrace::probe_module! { name = "name", version = "1.0.0" }

fn main() {}
