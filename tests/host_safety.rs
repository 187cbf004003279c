//! The host-safety contract: with tracing, with an active session or without one, a program behaves as without tracing.
//!
//! Each test is a program of its own that does something to which tracers have objected. It is run three times: without any
//! call of the run time, after `init()`, and after `init()` with a session of everything. What it prints and how it ends must
//! be the same. What a setuid program does is in `trace-cli/tests/strangers.rs`, and what becomes of files and descriptors in
//! `tests/host_files.rs`; of what leaves a probe without returning, `tests/left_probes.rs`; of clock steps, `tests/clock_steps.rs`;
//! of programs with one thread, `tests/one_thread.rs`; of children, `tests/follow.rs`.
#![expect(unsafe_code, reason = "does what programs do to themselves")]

mod common;

use ringtrace::{Session, tracepoint};
use std::cell::Cell;
use std::fs;
use std::os::unix::process::CommandExt as _;
use std::os::unix::process::ExitStatusExt as _;
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};

#[tracepoint(record)]
fn happened(number: u64, text: &str);

/// Fired by nobody.
#[allow(dead_code, reason = "what is enabled when nothing can be written any more")]
#[tracepoint(record)]
fn unheard(number: u64);

const MODE: &str = "RINGTRACE_TEST_MODE";

/// A scenario: `begin` calls `init()` where the mode says so.
type Scenario = fn(begin: &dyn Fn());

/// Runs a scenario in each mode, and compares.
fn compare(name: &str, scenario: Scenario) {
    if common::is_child(name) {
        println!(); // behind what the harness begins a line with
        let traces = std::env::var(MODE).is_ok_and(|mode| mode != "without");
        scenario(&|| {
            if traces {
                ringtrace::init();
            }
            happened(1, "begun");
        });
        return;
    }
    let mut seen = Vec::new();
    for mode in ["without", "init", "session"] {
        let here = tempfile::tempdir().expect("a directory");
        let runtime = tempfile::tempdir_in("/dev/shm").expect("a directory in memory");
        let mut command = common::child(name);
        command.current_dir(here.path()).env(MODE, mode).env("RUST_BACKTRACE", "0").env("TMPDIR", here.path());
        command.env("RINGTRACE_DIR", runtime.path().join("ringtrace")).env_remove("RINGTRACE");
        if name.contains("rseq") {
            command.env("GLIBC_TUNABLES", "glibc.pthread.rseq=0");
        }
        if mode == "session" {
            command.env("RINGTRACE", "1; memory 4M; output trace; context threads");
        }
        let output = command.stdin(Stdio::null()).output().expect("it starts");
        let said = String::from_utf8_lossy(&output.stdout).into_owned();
        let errors = String::from_utf8_lossy(&output.stderr).into_owned();
        let has_trace = here.path().join("trace/metadata").exists();
        // It records, or says why it does not.
        let says_why = ["nothing is recorded", "No space left"].iter().any(|why| errors.contains(why));
        assert_eq!(mode == "session", has_trace || says_why, "{mode}: {errors}");
        let lines: Vec<String> = said.lines().filter(|l| l.starts_with("= ")).map(str::to_owned).collect();
        seen.push((mode, output.status.code(), output.status.signal(), lines, errors));
    }
    for other in &seen[1..] {
        assert_eq!((&seen[0].1, &seen[0].2, &seen[0].3), (&other.1, &other.2, &other.3), "{}: {}", other.0, other.4);
    }
    assert!(!seen[0].3.is_empty(), "it said nothing: {}", seen[0].4);
}

macro_rules! scenarios {
    ($($(#[$doc:meta])* $name:ident: $scenario:expr;)*) => {
        $(#[test] $(#[$doc])* fn $name() { compare(stringify!($name), $scenario); })*
    };
}

fn fire_in_threads() {
    std::thread::scope(|scope| {
        for thread in 0..3 {
            scope.spawn(move || (0..1000).for_each(|number| happened(number, if thread == 0 { "first" } else { "other" })));
        }
    });
}

/// A line of this thread's status.
fn status(key: &str) -> String {
    let status = fs::read_to_string("/proc/thread-self/status").expect("it");
    status.lines().find(|line| line.starts_with(key)).map(str::to_owned).unwrap_or_default()
}

fn wait(pid: i32) -> i32 {
    let mut status = 0;
    // SAFETY: `status` is written.
    let waited = unsafe { libc::waitpid(pid, &raw mut status, 0) };
    assert_eq!(waited, pid);
    status
}

scenarios! {
    signal_dispositions_and_masks_are_the_programs: |begin| {
        begin();
        fire_in_threads();
        for key in ["SigCgt", "SigIgn", "SigBlk"] {
            println!("= {}", status(key));
        }
    };

    signals_are_handled_by_the_programs_threads: |begin| {
        begin();
        fire_in_threads();
        for task in fs::read_dir("/proc/self/task").expect("it").flatten() {
            let name = fs::read_to_string(task.path().join("comm")).unwrap_or_default();
            let status = fs::read_to_string(task.path().join("status")).unwrap_or_default();
            let blocked = status.lines().find_map(|l| l.strip_prefix("SigBlk:")).unwrap_or_default().trim().to_owned();
            // All that can be blocked: not SIGKILL, SIGSTOP and the two that the C library keeps for itself.
            // One that has just ended says nothing any more.
            assert!(!name.starts_with("ringtrace") || status.is_empty() || u64::from_str_radix(&blocked, 16).is_ok_and(|b| b | 0x1_8004_0100 == u64::MAX), "{name} {blocked}");
        }
        println!("= checked");
    };

    no_panic_hook: |begin| {
        begin();
        let result = std::thread::spawn(|| panic!("as the test wants it")).join();
        println!("= {}", result.is_err());
    };

    exec_inherits_nothing: |begin| {
        begin();
        fire_in_threads();
        let script = "echo \"= $(ls /proc/self/fd | wc -w) $(grep -E 'SigBlk|SigIgn' /proc/self/status | tr '\\n' ' ')\"";
        let error = Command::new("sh").args(["-c", script]).exec();
        println!("= {error}");
    };

    commands_run_as_ever: |begin| {
        begin();
        let output = Command::new("sh").args(["-c", "ls /proc/self/fd | wc -w; exit 3"]).output().expect("sh");
        println!("= {:?} {:?}", output.status.code(), String::from_utf8_lossy(&output.stdout));
    };

    a_daemon: |begin| {
        begin();
        fire_in_threads();
        let mut ends = [0; 2];
        // SAFETY: two descriptors are written.
        assert_eq!(unsafe { libc::pipe(ends.as_mut_ptr()) }, 0);
        // SAFETY: fork, and in the child what programs do to become daemons.
        unsafe {
            if libc::fork() == 0 {
                libc::setsid();
                if libc::fork() != 0 {
                    libc::_exit(0);
                }
                let _ = std::env::set_current_dir("/");
                happened(2, "in the daemon");
                let sum: u64 = std::thread::spawn(|| (0..100).inspect(|n| happened(*n, "in its thread")).sum()).join().unwrap_or(0);
                libc::write(ends[1], std::ptr::from_ref(&sum).cast(), 8);
                // Through all that is to be done at exit.
                libc::exit(0);
            }
            let mut sum = 0_u64;
            assert_eq!(libc::read(ends[0], (&raw mut sum).cast(), 8), 8);
            println!("= {sum}");
        }
        happened(3, "in the parent");
    };

    forks_while_threads_fire: |begin| {
        begin();
        let is_over = AtomicBool::new(false);
        std::thread::scope(|scope| {
            for _ in 0..2 {
                scope.spawn(|| {
                    while !is_over.load(Ordering::Relaxed) {
                        happened(1, "busy");
                        std::thread::yield_now();
                    }
                });
            }
            for round in 0..20 {
                // SAFETY: the child only fires a tracepoint and exits: by fork(2) of the C library, and by the system call.
                let pid = unsafe { if round % 2 == 0 { libc::fork() } else { libc::syscall(libc::SYS_fork) as i32 } };
                if pid == 0 {
                    happened(9, "in a child");
                    // SAFETY: ends the child.
                    unsafe { libc::_exit(5) };
                }
                let status = wait(pid);
                println!("= {} {}", libc::WIFEXITED(status), libc::WEXITSTATUS(status));
            }
            is_over.store(true, Ordering::Relaxed);
        });
    };

    exit_while_threads_fire: |begin| {
        begin();
        for _ in 0..2 {
            std::thread::spawn(|| loop {
                happened(1, "busy");
                std::thread::yield_now();
            });
        }
        println!("= exits");
        std::process::exit(7);
    };

    abort: |begin| {
        begin();
        fire_in_threads();
        println!("= aborts");
        std::process::abort();
    };

    a_stack_overflow_in_a_traced_thread: |begin| {
        begin();
        println!("= overflows");
        let deep = std::thread::Builder::new().stack_size(256 << 10).spawn(|| descend(0));
        let _ = deep.expect("a thread").join();
    };

    destructors_of_threads: |begin| {
        begin();
        for thread in 0..20 {
            std::thread::spawn(move || LAST.set(Some(Last(thread)))).join().expect("it ends");
        }
        println!("= ended");
    };

    no_free_descriptors: |begin| {
        limit(libc::RLIMIT_NOFILE, 3);
        begin();
        fire_in_threads();
        println!("= {:?}", fs::File::open("/dev/null").err().and_then(|e| e.raw_os_error()));
        limit(libc::RLIMIT_NOFILE, 100);
        println!("= {}", fs::File::open("/dev/null").is_ok());
    };

    no_file_may_grow: |begin| {
        // With SIGXFSZ as it is at first: a write beyond the limit would end the program.
        limit(libc::RLIMIT_FSIZE, 0);
        begin();
        fire_in_threads();
        println!("= alive");
    };

    no_file_may_grow_any_more: |begin| {
        begin();
        fire_in_threads();
        // With SIGXFSZ as it is at first, in every thread. What the program does next writes: the journal, rings, traces.
        limit(libc::RLIMIT_FSIZE, 0);
        if std::env::var(MODE).is_ok_and(|mode| mode == "session") {
            let session = |name: &str| Session::builder(name).enable("host_safety:happened").output(name).start();
            assert!(session("later").is_err_and(|e| e.is_io()), "its files cannot grow");
        }
        fire_in_threads();
        println!("= alive");
    };

    no_file_may_grow_while_sessions_record: |begin| {
        begin();
        if std::env::var(MODE).is_ok_and(|mode| mode != "without") {
            let builder = |name: &str| Session::builder(name).enable("host_safety:happened").output(name);
            let (cut, flight) = (builder("cut").start().expect("a session"), builder("flight").overwrite().start().expect("a session"));
            fire_in_threads();
            cut.stop().and_then(|_| cut.start()).expect("all is well so far");
            limit(libc::RLIMIT_FSIZE, 1);
            for error in [
                cut.enable("host_safety:unheard").expect_err("its class cannot be described"),
                flight.trigger("when host_safety:unheard then notify").map(drop).expect_err("nor its"),
                flight.snapshot("now").map(drop).expect_err("it cannot be written"),
                Session::builder("more").enable("*").start().map(drop).expect_err("nor its rings"),
            ] {
                assert!(error.to_string().contains("no file larger than 1 bytes (RLIMIT_FSIZE)"), "{error}");
            }
            fire_in_threads();
            // The loss is stated, and what was written before is a complete trace.
            assert!(cut.stop().is_err_and(|e| e.to_string().contains("recording ended")));
            assert_eq!(common::read(std::path::Path::new("cut")).events(), 3000);
        }
        println!("= alive");
    };

    nobody_reads_what_it_says: |begin| {
        // SAFETY: two descriptors are written; the second becomes stderr, which nobody can read. A write there raises SIGPIPE, which
        // is set to what programs that are not Rust's have. Where the trace lies is said at the end, by this thread.
        unsafe {
            let mut ends = [0; 2];
            assert_eq!(libc::pipe(ends.as_mut_ptr()), 0);
            libc::dup2(ends[1], 2);
            libc::close(ends[0]);
            libc::close(ends[1]);
            libc::signal(libc::SIGPIPE, libc::SIG_DFL);
        }
        begin();
        fire_in_threads();
        println!("= alive");
    };

    nobody_reads_a_full_pipe: |begin| {
        // SAFETY: two descriptors are written; the second becomes stderr, and is filled as long as it takes something.
        unsafe {
            let mut ends = [0; 2];
            assert_eq!(libc::pipe(ends.as_mut_ptr()), 0);
            libc::dup2(ends[1], 2);
            let set = |flags: i32| assert_eq!(libc::fcntl(2, libc::F_SETFL, flags), 0);
            set(libc::O_NONBLOCK);
            while libc::write(2, [b'x'; 4096].as_ptr().cast(), 4096) > 0 {}
            set(0);
        }
        begin();
        fire_in_threads();
        println!("= alive");
    };

    descriptor_2_is_a_database: |begin| {
        extern "C" fn look() {
            println!("= {}", fs::read_to_string("database").expect("it is there"));
        }
        // SAFETY: a function of the program. It runs after the tracer's, which is registered later.
        unsafe { libc::atexit(look) };
        begin();
        fire_in_threads();
        let file = fs::File::options().read(true).write(true).create_new(true).open("database").expect("a file");
        // SAFETY: as in a program that closes its stderr, and then opens a file.
        unsafe { libc::dup2(std::os::fd::AsRawFd::as_raw_fd(&file), 2) };
    };

    no_memory_to_lock_and_no_core: |begin| {
        limit(libc::RLIMIT_MEMLOCK, 0);
        limit(libc::RLIMIT_CORE, 0);
        begin();
        fire_in_threads();
        println!("= alive");
    };

    a_read_only_place: |begin| {
        std::env::set_current_dir("/proc").expect("it can be entered");
        // SAFETY: there is one thread that reads the environment.
        unsafe { std::env::set_var("RINGTRACE_DIR", "/proc/nowhere") };
        begin();
        fire_in_threads();
        println!("= alive");
    };

    affinity_changes: |begin| {
        begin();
        let set = |cpus: &[usize]| {
            // SAFETY: a set of this thread's own.
            unsafe {
                let mut mask: libc::cpu_set_t = std::mem::zeroed();
                cpus.iter().for_each(|cpu| libc::CPU_SET(*cpu, &mut mask));
                libc::sched_setaffinity(0, size_of::<libc::cpu_set_t>(), &raw const mask)
            }
        };
        fire_in_threads();
        println!("= {}", set(&[0]));
        fire_in_threads();
        println!("= {}", status("Cpus_allowed:"));
        println!("= {}", set(&[0, 1]));
        fire_in_threads();
    };

    seccomp_refuses_what_tracing_wants: |begin| {
        // Not rseq(2): the C library itself ends a program in which that fails.
        refuse(&[libc::SYS_membarrier, libc::SYS_memfd_create, libc::SYS_socket, libc::SYS_fallocate]);
        begin();
        fire_in_threads();
        println!("= alive");
    };

    seccomp_refuses_rseq: |begin| {
        // The C library itself ends a program in which that fails, so it is told not to try, and then a thread has no area.
        refuse(&[libc::SYS_rseq]);
        begin();
        fire_in_threads();
        println!("= alive");
    };

    seccomp_refuses_what_the_c_library_begins_threads_with: |begin| {
        // rseq(2): a program that starts no thread from now on lives.
        refuse(&[libc::SYS_rseq]);
        begin();
        (0..1000).for_each(|number| happened(number, "alone"));
        println!("= alive");
    };

    a_full_disk: |begin| {
        if !mount_over("disk", 0, "size=64k") {
            return skipped();
        }
        std::env::set_current_dir("disk").expect("it can be entered");
        begin();
        (0..20_000).for_each(|number| happened(number, "a text that takes some of the room that there is on the disk"));
        println!("= alive");
    };

    a_read_only_file_system: |begin| {
        if !mount_over("disk", libc::MS_RDONLY, "") {
            return skipped();
        }
        std::env::set_current_dir("disk").expect("it can be entered");
        begin();
        fire_in_threads();
        println!("= alive");
    };

    no_dev_shm_and_no_run_time_directory: |begin| {
        // SAFETY: there is one thread that reads the environment.
        unsafe {
            std::env::remove_var("RINGTRACE_DIR");
            std::env::set_var("XDG_RUNTIME_DIR", "/nowhere");
        }
        // The working directory stays what it is.
        if !mount_over("/dev/shm", libc::MS_RDONLY, "") || !mount_over("/tmp", libc::MS_RDONLY, "") {
            return skipped();
        }
        begin();
        fire_in_threads();
        println!("= alive");
    };

    cpus_come_and_go: |begin| {
        // As with hotplug, CPUs come that were not there at the start, and those that were go.
        let set = |cpus: &[usize]| {
            // SAFETY: a set of this thread's own.
            unsafe {
                let mut mask: libc::cpu_set_t = std::mem::zeroed();
                cpus.iter().for_each(|cpu| libc::CPU_SET(*cpu, &mut mask));
                libc::sched_setaffinity(0, size_of::<libc::cpu_set_t>(), &raw const mask)
            }
        };
        println!("= {}", set(&[0]));
        begin();
        fire_in_threads();
        // May fail where there is one CPU, in all modes.
        println!("= {}", set(&[1]));
        fire_in_threads();
        println!("= {}", set(&[0, 1]));
        fire_in_threads();
    };

    modules_come_and_go: |begin| {
        begin();
        let is_over = AtomicBool::new(false);
        std::thread::scope(|scope| {
            scope.spawn(|| while !is_over.load(Ordering::Relaxed) {
                happened(1, "busy");
                std::thread::yield_now();
            });
            for name in [c"libm.so.6", c"libutil.so.1", c"libnowhere.so"].iter().cycle().take(60) {
                // SAFETY: libraries of the system; nothing of them is used.
                unsafe {
                    let module = libc::dlopen(name.as_ptr(), libc::RTLD_NOW);
                    happened(2, "while it is loaded");
                    println!("= {}", module.is_null() || libc::dlclose(module) == 0);
                }
            }
            is_over.store(true, Ordering::Relaxed);
        });
    };

    threads_that_leave_by_pthread_exit: |begin| {
        begin();
        for number in 0..20 {
            // SAFETY: the thread's function has no frames with destructors.
            unsafe {
                let mut thread: libc::pthread_t = 0;
                // It unwinds, which the type does not say.
                let leave: extern "C" fn(*mut libc::c_void) -> *mut libc::c_void = std::mem::transmute(leave as extern "C-unwind" fn(_) -> _);
                assert_eq!(libc::pthread_create(&raw mut thread, std::ptr::null(), leave, std::ptr::without_provenance_mut(number)), 0);
                println!("= {}", libc::pthread_join(thread, std::ptr::null_mut()));
            }
        }
    };

    everything_is_closed: |begin| {
        begin();
        fire_in_threads();
        // SAFETY: nothing of the test's is open but the standard streams.
        let closed = (3..1024).filter(|descriptor| unsafe { libc::close(*descriptor) } == 0).count();
        assert!(closed < 1000);
        let file = fs::File::create("own").expect("a file");
        // A low one: what the tracer keeps is above. It may have had the lowest for a moment.
        println!("= {}", std::os::fd::AsRawFd::as_raw_fd(&file) < 10);
        fire_in_threads();
        std::io::Write::write_all(&mut &file, b"own content").expect("it is written");
        println!("= {}", fs::read_to_string("own").expect("it is read"));
    };
}

extern "C-unwind" fn leave(number: *mut libc::c_void) -> *mut libc::c_void {
    unsafe extern "C-unwind" {
        fn pthread_exit(value: *mut libc::c_void) -> !;
    }
    happened(number.addr() as u64, "about to leave");
    // SAFETY: as the caller says.
    unsafe { pthread_exit(std::ptr::null_mut()) }
}

/// Mounts an empty file system in memory for this thread and those that it starts. Returns false where that is not allowed.
fn mount_over(place: &str, flags: libc::c_ulong, options: &str) -> bool {
    let _ = fs::create_dir(place);
    let text = |text: &str| std::ffi::CString::new(text).expect("a name");
    let (place, options) = (text(place), text(options));
    // SAFETY: the texts live until the calls return; the mounts are this thread's own.
    unsafe {
        libc::unshare(libc::CLONE_NEWNS) == 0
            && libc::mount(std::ptr::null(), c"/".as_ptr(), std::ptr::null(), libc::MS_REC | libc::MS_PRIVATE, std::ptr::null())
                == 0
            && libc::mount(c"none".as_ptr(), place.as_ptr(), c"tmpfs".as_ptr(), flags, options.as_ptr().cast()) == 0
    }
}

/// What a scenario does that is not allowed here.
fn skipped() {
    eprintln!("skipped: not allowed to mount; nothing is recorded");
    println!("= skipped");
}

struct Last(u64);

impl Drop for Last {
    fn drop(&mut self) {
        happened(self.0, "at the end of a thread");
    }
}

thread_local! {
    static LAST: Cell<Option<Last>> = const { Cell::new(None) };
}

#[inline(never)]
#[expect(unconditional_recursion, reason = "the stack is to overflow")]
fn descend(depth: u64) -> u64 {
    happened(depth, "deeper");
    std::hint::black_box(descend(std::hint::black_box(depth + 1)) + 1)
}

fn limit(what: libc::__rlimit_resource_t, value: u64) {
    // SAFETY: the structure is complete; limits of this process.
    unsafe {
        let mut limit: libc::rlimit = std::mem::zeroed();
        libc::getrlimit(what, &raw mut limit);
        limit.rlim_cur = value.min(limit.rlim_max);
        assert_eq!(libc::setrlimit(what, &raw const limit), 0);
    }
}

/// System calls that fail with EPERM from now on, in all threads.
fn refuse(calls: &[i64]) {
    // seccomp(2), `<linux/bpf_common.h>`: load the number of the call; refuse where it is one of these, else allow.
    let load = libc::sock_filter { code: 0x20, jt: 0, jf: 0, k: 0 };
    let allow = libc::sock_filter { code: 0x06, jt: 0, jf: 0, k: libc::SECCOMP_RET_ALLOW };
    let refuse = libc::sock_filter { code: 0x06, jt: 0, jf: 0, k: libc::SECCOMP_RET_ERRNO | libc::EPERM as u32 };
    let mut program = vec![load];
    for call in calls {
        program.push(libc::sock_filter { code: 0x15, jt: 0, jf: 1, k: *call as u32 });
        program.push(refuse);
    }
    program.push(allow);
    let program = libc::sock_fprog { len: program.len() as u16, filter: program.as_mut_ptr() };
    // SAFETY: the program lives until the call returns; it concerns this process.
    unsafe {
        assert_eq!(libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0), 0);
        assert_eq!(libc::syscall(libc::SYS_seccomp, 1, 1, &raw const program), 0);
    }
}
