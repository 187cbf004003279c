//! Programs that have to have one thread for a while.
#![expect(unsafe_code, reason = "fork(2), unshare(2)")]

mod common;

use ringtrace::tracepoint;

#[tracepoint(record)]
fn numbered(number: u64);

fn threads() -> usize {
    std::fs::read_dir("/proc/self/task").expect("it").count()
}

/// A user namespace is only for a process with one thread, unshare(2).
#[test]
fn a_program_that_unshares_namespaces_is_recorded_before_and_after() {
    let name = "a_program_that_unshares_namespaces_is_recorded_before_and_after";
    if common::is_child(name) {
        // The harness has threads; a child after fork has one.
        // SAFETY: the child is the only thread of its process.
        let pid = unsafe { libc::fork() };
        if pid == 0 {
            ringtrace::init_without_threads();
            (0..100).for_each(numbered);
            assert_eq!(threads(), 1);
            // SAFETY: concerns this process.
            let refused = unsafe { libc::unshare(libc::CLONE_NEWUSER) } != 0;
            // Where nobody may, for another reason than threads.
            assert!(!refused || std::io::Error::last_os_error().raw_os_error() != Some(libc::EINVAL));
            (100..200).for_each(numbered);
            assert_eq!(threads(), 1);
            if std::env::var_os("RINGTRACE_TEST_LATER").is_some() {
                ringtrace::init();
                (200..300).for_each(numbered);
                assert!(threads() > 1);
            }
            std::process::exit(0);
        }
        let mut status = -1;
        // SAFETY: `status` is written.
        unsafe { libc::waitpid(pid, &raw mut status, 0) };
        assert_eq!(status, 0);
        return;
    }
    for later in [false, true] {
        let here = tempfile::tempdir().expect("a directory");
        let runtime = tempfile::tempdir_in("/dev/shm").expect("a directory in memory");
        let mut command = common::child(name);
        command.current_dir(here.path()).env("RINGTRACE_DIR", runtime.path().join("ringtrace"));
        command.env("RINGTRACE", "one_thread:*; memory 2M; output trace").envs(later.then_some(("RINGTRACE_TEST_LATER", "1")));
        let output = command.output().expect("it starts");
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        let numbers = common::read_by_both(&here.path().join("trace")).numbers("one_thread:numbered", "number");
        assert!(numbers.into_iter().eq(0..if later { 300 } else { 200 }));
    }
}
