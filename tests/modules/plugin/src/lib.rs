//! A shared library of the program, which knows nothing of probe modules. It has a copy of the crate `storage`.

/// Fired below.
#[ringtrace::tracepoint(record)]
fn called(id: u64);

/// What a file that is refused must not do.
#[used]
#[unsafe(link_section = ".init_array")]
static CONSTRUCTOR: extern "C" fn() = {
    extern "C" fn construct() {
        if std::env::var_os("PLUGIN_SAYS_SO").is_some() {
            println!("constructed");
        }
    }
    construct
};

#[unsafe(no_mangle)]
pub extern "C" fn call(id: u64) {
    called(id);
    storage::evict(id);
}
