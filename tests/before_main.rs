//! Tracing before `main`: from a constructor, as C++ code or another language's run time has.

mod common;

use ringtrace::tracepoint;

#[tracepoint(record)]
fn constructed(order: u32);

#[used]
#[unsafe(link_section = ".init_array")]
#[expect(unsafe_code, reason = "a constructor")]
static CONSTRUCTOR: extern "C" fn() = {
    extern "C" fn construct() {
        if std::env::var_os("RINGTRACE_TEST_CHILD").is_some() {
            ringtrace::init();
            constructed(1);
            constructed(2);
        }
    }
    construct
};

#[test]
fn a_constructor_traces() {
    let name = "a_constructor_traces";
    if common::is_child(name) {
        constructed(3);
        return; // the trace is completed at the end of the process
    }
    let directory = tempfile::tempdir().expect("a directory");
    let output = common::child(name).env("RINGTRACE", "1").current_dir(directory.path()).output().expect("the child runs");
    let messages = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success() && messages.contains("3 events"), "{messages}");
    let entries: Vec<_> = std::fs::read_dir(directory.path()).expect("the directory").flatten().map(|e| e.path()).collect();
    assert_eq!(entries.len(), 1, "{entries:?}");
    assert_eq!(common::read_by_both(&entries[0]).numbers("before_main:constructed", "order"), [1, 2, 3]);
}
