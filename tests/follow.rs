//! Children after fork(2): followed by a session, begun by `init()` in them, or off.
//!
//! Each scenario is a process of its own, whose children fire a known number of events.
#![expect(unsafe_code, reason = "fork(2)")]

mod common;

use common::{Contents, SetOnDrop, child, is_child, read_by_both};
use ringtrace::{Context, Session, probe, tracepoint};
use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};

#[tracepoint(record)]
fn numbered(number: u64);

#[tracepoint(record)]
fn busy(number: u64);

#[tracepoint]
fn forking();

static FORKED: AtomicU32 = AtomicU32::new(0);

/// Forks in the middle of an event.
#[probe(forking)]
fn fork_here() {
    // SAFETY: the child goes on as the only thread of its process.
    if unsafe { libc::fork() } == 0 {
        FORKED.store(1, Ordering::Relaxed);
    }
}

/// Has a signal come in some of the allocations of a thread that wants that; and has a lock, as an allocator of a program's own may.
struct Interrupting;

thread_local! {
    /// Whether this thread is to be interrupted.
    static IS_ARMED: Cell<bool> = const { Cell::new(false) };
    static IS_HANDLING: Cell<bool> = const { Cell::new(false) };
}
/// Allocations of threads that were to be interrupted, and of handlers.
static ALLOCATIONS: [AtomicU32; 2] = [const { AtomicU32::new(0) }; 2];
/// Of so many allocations one is interrupted.
const EVERY: u32 = 5;
/// Whether a thread has the allocator's lock: nobody else gets memory.
static IS_LOCKED: AtomicBool = AtomicBool::new(false);

// SAFETY: the system's allocator allocates.
unsafe impl GlobalAlloc for Interrupting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        while IS_LOCKED.load(Ordering::Relaxed) {
            std::thread::yield_now();
        }
        if IS_HANDLING.get() {
            ALLOCATIONS[1].fetch_add(1, Ordering::Relaxed);
        } else if IS_ARMED.get() && ALLOCATIONS[0].fetch_add(1, Ordering::Relaxed) % EVERY == 0 {
            // SAFETY: a plain call.
            unsafe { libc::raise(libc::SIGUSR1) };
        }
        // SAFETY: the caller's duty.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, memory: *mut u8, layout: Layout) {
        // SAFETY: the caller's duty.
        unsafe { System.dealloc(memory, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Interrupting = Interrupting;

/// Children of the handler that ended well, and badly.
static ENDED: [AtomicU32; 2] = [const { AtomicU32::new(0) }; 2];

extern "C" fn fork_in_a_handler(_: libc::c_int) {
    IS_HANDLING.set(true);
    // SAFETY: glibc's allocator is not interrupted, so that fork(3) may take its locks.
    unsafe {
        match libc::fork() {
            0 => {
                numbered(99);
                libc::_exit(i32::from(ALLOCATIONS[1].load(Ordering::Relaxed) > 0));
            }
            child => {
                let mut status = -1;
                libc::waitpid(child, &raw mut status, 0);
                ENDED[usize::from(child < 0 || status != 0)].fetch_add(1, Ordering::Relaxed);
            }
        }
    }
    IS_HANDLING.set(false);
}

extern "C" fn end_all(_: libc::c_int) {
    // SAFETY: a plain call.
    unsafe { libc::kill(0, libc::SIGKILL) };
}

/// Ends this process and its children if it still runs in a minute: a fork does not return.
fn end_if_it_hangs() {
    let handler = end_all as extern "C" fn(libc::c_int);
    // SAFETY: the handler makes one system call.
    unsafe {
        libc::setpgid(0, 0);
        libc::signal(libc::SIGALRM, handler as libc::sighandler_t);
        libc::alarm(60);
    }
}

/// Runs the test again in an empty directory, with this in RINGTRACE. Returns what it said on stderr, too.
fn run(name: &str, rules: Option<&str>) -> (tempfile::TempDir, String) {
    let directory = tempfile::tempdir().expect("a directory");
    let mut command = child(name);
    command.current_dir(directory.path()).env("RINGTRACE_DIR", runtime(directory.path())).env_remove("RINGTRACE");
    command.envs(rules.map(|rules| ("RINGTRACE", rules)));
    let output = command.output().expect("the child runs");
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.success(), "{}: {said}\n{}", output.status, String::from_utf8_lossy(&output.stdout));
    (directory, said)
}

fn runtime(directory: &Path) -> PathBuf {
    // In memory, and nobody else's.
    let name = directory.file_name().expect("a name").to_string_lossy().into_owned();
    PathBuf::from(format!("/dev/shm/ringtrace-test-{name}"))
}

/// The traces below `directory` that begin with `trace`, with the process that each is of: 0 for the first.
fn traces(directory: &Path) -> Vec<(u32, Contents)> {
    let of = |path: PathBuf| {
        let name = path.file_name()?.to_str()?.strip_prefix("trace")?.to_owned();
        let pid = if name.is_empty() { 0 } else { name.strip_prefix('-')?.parse().ok()? };
        Some((pid, read_by_both(&path)))
    };
    let entries = std::fs::read_dir(directory).expect("a directory").flatten();
    let mut traces: Vec<_> = entries.filter_map(|entry| of(entry.path())).collect();
    traces.sort_by_key(|(pid, _)| *pid);
    traces
}

/// Forks a child that does this and then ends by exit(3), if it returns. Returns the child's number.
fn fork(body: impl FnOnce()) -> i32 {
    // SAFETY: the child uses what a child of a threaded process may, and ringtrace.
    let pid = unsafe { libc::fork() };
    if pid == 0 {
        body();
        std::process::exit(0);
    }
    assert!(pid > 0);
    pid
}

fn wait(pid: i32) {
    let mut status = -1;
    // SAFETY: `status` is written.
    unsafe { libc::waitpid(pid, &raw mut status, 0) };
    assert_eq!(status, 0, "a child failed");
}

/// What each process fires: numbers that say whose they are.
fn fire(whose: u64) {
    (0..100).for_each(|number| numbered(whose * 1000 + number));
}

fn numbers(whose: u64) -> Vec<u64> {
    (whose * 1000..whose * 1000 + 100).collect()
}

#[test]
fn a_session_follows_children_and_theirs() {
    let name = "a_session_follows_children_and_theirs";
    if is_child(name) {
        ringtrace::init();
        fire(1);
        for whose in [2, 3] {
            wait(fork(|| {
                fire(whose);
                // From threads of its own as well.
                std::thread::spawn(move || fire(whose + 10)).join().expect("it ends");
                wait(fork(|| fire(whose + 20)));
                ringtrace::init();
            }));
        }
        fire(4);
        return;
    }
    let rules = "follow:numbered; follow; memory 2M; output trace; context vpid,vtid";
    let (directory, said) = run(name, Some(rules));
    let traces = traces(directory.path());
    let of = |contents: &Contents| contents.numbers("follow:numbered", "number");
    assert_eq!(traces.len(), 5, "{said}");
    let mut all: Vec<u64> = Vec::new();
    for (pid, contents) in &traces {
        let whose = of(contents);
        assert_eq!(contents.discarded, 0);
        if *pid == 0 {
            assert_eq!(whose, [numbers(1), numbers(4)].concat());
        } else {
            // Context is the child's.
            assert!(contents.lines.iter().all(|line| line.contains(&format!("vpid = {pid}"))), "{:?}", contents.lines[0]);
            assert!(said.contains(&format!("trace-{pid}")), "{said}");
        }
        all.extend(whose);
    }
    all.sort_unstable();
    assert_eq!(all, [1, 2, 3, 4, 12, 13, 22, 23].map(numbers).concat());
    // Nothing is left in memory.
    assert!(std::fs::read_dir(runtime(directory.path())).expect("it").next().is_none());
    std::fs::remove_dir_all(runtime(directory.path())).expect("it is removed");
}

/// What the parent's thread was called when it asked is not what the child's is.
#[test]
fn a_childs_thread_has_its_own_name() {
    let name = "a_childs_thread_has_its_own_name";
    if !is_child(name) {
        let rules = "follow:numbered; context thread_name; follow; output trace";
        let (directory, _) = run(name, Some(rules));
        std::fs::remove_dir_all(runtime(directory.path())).expect("it is removed");
        for (pid, contents) in traces(directory.path()) {
            let expected = format!("thread_name = \"{}\"", if pid == 0 { "the parent" } else { "the child" });
            assert_eq!(contents.lines.len(), 1);
            assert!(contents.lines[0].contains(&expected), "{:?}", contents.lines);
        }
        return;
    }
    ringtrace::init();
    let rename = |name| std::fs::write("/proc/thread-self/comm", name).expect("/proc");
    rename("the parent");
    numbered(0);
    wait(fork(|| {
        rename("the child");
        numbered(1);
    }));
}

#[test]
fn a_child_that_is_not_followed_begins_by_init() {
    let name = "a_child_that_is_not_followed_begins_by_init";
    if is_child(name) {
        ringtrace::init();
        fire(1);
        wait(fork(|| {
            fire(2); // off
            let refused = Session::builder("early").start().expect_err("it is off");
            assert!(refused.is_off() && refused.to_string().contains("ringtrace::init"), "{refused}");
            ringtrace::init();
            fire(3);
            let session = Session::builder("own").enable("follow:numbered").output("own").start().expect("a session");
            fire(4);
            assert_eq!(session.stop().expect("it stops").events, 100);
        }));
        return;
    }
    let (directory, _) = run(name, Some("follow:numbered; memory 2M; output trace"));
    let traces = traces(directory.path());
    assert_eq!(traces.len(), 2);
    assert_eq!(traces[0].1.numbers("follow:numbered", "number"), numbers(1));
    assert_eq!(traces[1].1.numbers("follow:numbered", "number"), [numbers(3), numbers(4)].concat());
    assert_eq!(read_by_both(&directory.path().join("own")).numbers("follow:numbered", "number"), numbers(4));
    std::fs::remove_dir_all(runtime(directory.path())).expect("it is removed");
}

#[test]
fn the_parents_session_is_not_the_childs() {
    let name = "the_parents_session_is_not_the_childs";
    if is_child(name) {
        let session = Session::builder("family")
            .enable("follow:numbered")
            .context(Context::VPID)
            .memory(2 << 20)
            .output("trace")
            .follow()
            .start()
            .expect("a session");
        let other = Session::builder("alone").enable("follow:*").memory(2 << 20).output("alone").start().expect("a session");
        session.enable("follow:busy").expect("a rule");
        fire(1);
        wait(fork(|| {
            fire(2);
            busy(7); // by the rules of that moment
            assert!(session.stop().is_err_and(|e| e.is_off()) && session.enable("*").is_err_and(|e| e.is_off()));
            assert_eq!(session.statistics().events, 0);
            drop(session);
            fire(3);
        }));
        assert_eq!(other.stop().expect("it stops").events, 100);
        return;
    }
    let (directory, _) = run(name, None);
    let traces = traces(directory.path());
    assert_eq!(traces.len(), 2);
    assert_eq!(traces[1].1.numbers("follow:numbered", "number"), [numbers(2), numbers(3)].concat());
    assert_eq!(traces[1].1.numbers("follow:busy", "number"), [7]);
    assert_eq!(traces[0].1.events(), 100);
    let _ = std::fs::remove_dir_all(runtime(directory.path()));
}

#[test]
fn a_fork_in_the_middle_of_an_event_is_followed() {
    let name = "a_fork_in_the_middle_of_an_event_is_followed";
    if is_child(name) {
        ringtrace::init();
        fire(1);
        forking();
        if FORKED.load(Ordering::Relaxed) == 1 {
            fire(2);
            std::process::exit(0);
        }
        let mut status = -1;
        // SAFETY: waits for the child; `status` is written.
        unsafe { libc::waitpid(-1, &raw mut status, 0) };
        assert_eq!(status, 0);
        fire(3);
        return;
    }
    let (directory, _) = run(name, Some("follow:*; follow; memory 2M; output trace"));
    let traces = traces(directory.path());
    assert_eq!(traces.len(), 2);
    assert_eq!(traces[0].1.numbers("follow:numbered", "number"), [numbers(1), numbers(3)].concat());
    assert_eq!(traces[1].1.numbers("follow:numbered", "number"), numbers(2));
    std::fs::remove_dir_all(runtime(directory.path())).expect("it is removed");
}

/// Locks of the tracer and of the allocator are held by other threads at every moment in which the process is forked.
#[test]
fn children_of_a_busy_program_are_followed_and_none_hangs() {
    const CHILDREN: u64 = 24;
    let name = "children_of_a_busy_program_are_followed_and_none_hangs";
    if is_child(name) {
        ringtrace::init();
        let is_over = AtomicBool::new(false);
        std::thread::scope(|scope| {
            let _over = SetOnDrop(&is_over);
            scope.spawn(|| {
                let session = Session::builder("restless").memory(2 << 20).output("restless").start().expect("a session");
                while !is_over.load(Ordering::Relaxed) {
                    session.enable("follow:busy").and_then(|()| session.disable("follow:busy")).expect("rules");
                    session.stop().and_then(|_| session.start()).expect("it stops and starts");
                }
            });
            scope.spawn(|| {
                while !is_over.load(Ordering::Relaxed) {
                    busy(std::hint::black_box(vec![1; 100]).len() as u64);
                    std::thread::yield_now();
                }
            });
            for whose in 0..CHILDREN {
                wait(fork(|| fire(whose)));
            }
        });
        return;
    }
    let (directory, _) = run(name, Some("follow:numbered; follow; memory 2M; output trace"));
    let traces = traces(directory.path());
    assert_eq!(traces.len() as u64, 1 + CHILDREN);
    let mut all: Vec<u64> = traces.iter().flat_map(|(_, contents)| contents.numbers("follow:numbered", "number")).collect();
    all.sort_unstable();
    assert_eq!(all, (0..CHILDREN).flat_map(numbers).collect::<Vec<_>>());
    std::fs::remove_dir_all(runtime(directory.path())).expect("it is removed");
}

#[test]
fn what_a_child_leaves_that_ends_at_once_is_recovered() {
    let name = "what_a_child_leaves_that_ends_at_once_is_recovered";
    if is_child(name) {
        ringtrace::init();
        wait(fork(|| {
            fire(2);
            // SAFETY: ends the process, without what is to be done at exit.
            unsafe { libc::_exit(0) };
        }));
        return;
    }
    let (directory, _) = run(name, Some("follow:numbered; follow; memory 2M; output trace"));
    let images: Vec<_> = std::fs::read_dir(runtime(directory.path())).expect("it").flatten().map(|e| e.path()).collect();
    assert_eq!(images.len(), 1);
    let recovered = ringtrace::recovery::Remains::open(&images[0].join("default")).expect("it is left").recover(None);
    recovered.expect("it is recovered");
    let traces = traces(directory.path());
    assert_eq!(traces[1].1.numbers("follow:numbered", "number"), numbers(2));
    std::fs::remove_dir_all(runtime(directory.path())).expect("it is removed");
}

/// The lock of an allocator that the C library knows nothing of stays locked in the child.
#[test]
fn a_fork_while_another_thread_has_the_allocators_lock_returns() {
    let name = "a_fork_while_another_thread_has_the_allocators_lock_returns";
    if is_child(name) {
        end_if_it_hangs();
        ringtrace::init();
        for end in [libc::_exit, libc::exit] {
            IS_LOCKED.store(true, Ordering::Relaxed);
            // SAFETY: the child gets no memory, and wants none.
            let pid = unsafe { libc::fork() };
            if pid == 0 {
                ringtrace::init();
                fire(1);
                // SAFETY: our handlers of exit(3) are tested, and the standard library has none.
                unsafe { end(0) };
            }
            IS_LOCKED.store(false, Ordering::Relaxed);
            wait(pid);
        }
        wait(fork(|| fire(2)));
        return;
    }
    let (directory, said) = run(name, Some("follow:numbered; follow; memory 2M; output trace"));
    assert_eq!(said.matches("the program's allocator has a lock").count(), 2, "{said}");
    let traces = traces(directory.path());
    assert_eq!(traces.len(), 2, "{said}");
    assert_eq!(traces[1].1.numbers("follow:numbered", "number"), numbers(2));
    std::fs::remove_dir_all(runtime(directory.path())).expect("it is removed");
}

/// The handler interrupts the tracer wherever it allocates, with the control lock held or not.
#[test]
fn a_fork_in_a_handler_takes_no_lock_and_allocates_nothing() {
    let name = "a_fork_in_a_handler_takes_no_lock_and_allocates_nothing";
    if is_child(name) {
        end_if_it_hangs();
        ringtrace::init();
        let handler = fork_in_a_handler as extern "C" fn(libc::c_int);
        // SAFETY: the handler is what is tested.
        assert_ne!(unsafe { libc::signal(libc::SIGUSR1, handler as libc::sighandler_t) }, libc::SIG_ERR);
        let session = Session::builder("changed").memory(2 << 20).output("changed").follow().start().expect("a session");
        IS_ARMED.set(true);
        let changed = session.enable("follow:busy").and_then(|()| session.disable("follow:busy"));
        IS_ARMED.set(false);
        changed.expect("rules");
        let [well, badly] = ENDED.each_ref().map(|ended| ended.load(Ordering::Relaxed));
        assert!(well > 10 && badly == 0, "{well} children ended well, {badly} badly");
        assert_eq!(ALLOCATIONS[1].load(Ordering::Relaxed), 0, "the handlers of fork(3) allocate");
        // What is no handler's is followed as ever.
        wait(fork(|| fire(2)));
        return;
    }
    let (directory, said) = run(name, Some("follow:numbered; follow; memory 2M; output trace"));
    assert!(said.contains("it is not traced until it calls `ringtrace::init`"), "{said}");
    let traces = traces(directory.path());
    assert_eq!(traces.len(), 2, "{said}");
    assert_eq!(traces[1].1.numbers("follow:numbered", "number"), numbers(2));
    std::fs::remove_dir_all(runtime(directory.path())).expect("it is removed");
}

/// Waits in the lock of the loader's list until it is told to go on.
unsafe extern "C" fn wait_in_the_loader(_: *mut libc::dl_phdr_info, _: usize, is_over: *mut libc::c_void) -> libc::c_int {
    // SAFETY: the test lives longer.
    let is_over = unsafe { &*is_over.cast::<AtomicBool>() };
    FORKED.store(2, Ordering::SeqCst);
    while !is_over.load(Ordering::SeqCst) {
        std::thread::yield_now();
    }
    1
}

#[test]
fn a_fork_returns_while_another_thread_is_in_the_loader() {
    let name = "a_fork_returns_while_another_thread_is_in_the_loader";
    if is_child(name) {
        end_if_it_hangs();
        ringtrace::init();
        let is_over = AtomicBool::new(false);
        std::thread::scope(|scope| {
            let _over = SetOnDrop(&is_over);
            let data = std::ptr::from_ref(&is_over).cast_mut() as usize;
            // SAFETY: the flag outlives the thread.
            scope.spawn(move || unsafe { libc::dl_iterate_phdr(Some(wait_in_the_loader), data as *mut libc::c_void) });
            while FORKED.load(Ordering::SeqCst) == 0 {
                std::thread::yield_now();
            }
            wait(fork(|| fire(2)));
        });
        return;
    }
    let (directory, _) = run(name, Some("follow:numbered; follow; memory 2M; output trace"));
    assert_eq!(traces(directory.path())[1].1.numbers("follow:numbered", "number"), numbers(2));
    std::fs::remove_dir_all(runtime(directory.path())).expect("it is removed");
}

/// What begins with `trace` below the directory, and the images in the run-time directory.
fn left(directory: &Path) -> (usize, usize) {
    let entries = |path: &Path| std::fs::read_dir(path).into_iter().flatten().flatten().collect::<Vec<_>>();
    let is_trace = |entry: &&std::fs::DirEntry| entry.file_name().to_string_lossy().starts_with("trace");
    (entries(directory).iter().filter(is_trace).count(), entries(&runtime(directory)).len())
}

#[test]
fn children_without_an_event_leave_nothing_however_they_end() {
    let name = "children_without_an_event_leave_nothing_however_they_end";
    if is_child(name) {
        ringtrace::init();
        fire(1);
        let here = std::env::current_dir().expect("a directory");
        for round in 0..20 {
            let mut command = std::process::Command::new("/bin/true");
            // SAFETY: does nothing.
            unsafe { std::os::unix::process::CommandExt::pre_exec(&mut command, || Ok(())) };
            assert!(command.status().expect("it starts").success());
            wait(fork(|| {}));
            // SAFETY: ends the process, without what is to be done at exit.
            wait(fork(|| unsafe { libc::_exit(0) }));
            let killed = fork(|| {
                // SAFETY: ends the process.
                unsafe { libc::raise(libc::SIGKILL) };
            });
            let mut status = -1;
            // SAFETY: `status` is written.
            unsafe { libc::waitpid(killed, &raw mut status, 0) };
            assert!(libc::WIFSIGNALED(status), "{status}");
            // This process's own.
            assert_eq!(left(&here), (1, 1), "round {round}");
        }
        // One that fires has both, at once, and is recovered if it is killed then.
        let killed = fork(|| {
            fire(2);
            // SAFETY: ends the process.
            unsafe { libc::raise(libc::SIGKILL) };
        });
        let mut status = -1;
        // SAFETY: `status` is written.
        unsafe { libc::waitpid(killed, &raw mut status, 0) };
        return;
    }
    let (directory, said) = run(name, Some("follow:numbered; follow; memory 2M; output trace; context vtid,threads"));
    assert!(!said.contains("trace-"), "{said}");
    let images: Vec<_> = std::fs::read_dir(runtime(directory.path())).expect("it").flatten().map(|e| e.path()).collect();
    assert_eq!(images.len(), 1, "{images:?}");
    let recovered = ringtrace::recovery::Remains::open(&images[0].join("default")).expect("it is left").recover(None);
    assert_eq!(recovered.expect("it is recovered").events, 100);
    assert_eq!(traces(directory.path())[1].1.numbers("follow:numbered", "number"), numbers(2));
    std::fs::remove_dir_all(runtime(directory.path())).expect("it is removed");
}

/// Sets the limit on descriptors, and returns what it was.
fn limit_descriptors(limit: u64) -> u64 {
    let mut limits = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
    // SAFETY: writes and reads the limits.
    unsafe {
        assert_eq!(libc::getrlimit(libc::RLIMIT_NOFILE, &raw mut limits), 0);
        let before = limits.rlim_cur;
        limits.rlim_cur = limit;
        assert_eq!(libc::setrlimit(libc::RLIMIT_NOFILE, &raw const limits), 0);
        before
    }
}

#[test]
fn what_a_child_loses_that_can_have_no_rings_is_told_by_its_parent() {
    let name = "what_a_child_loses_that_can_have_no_rings_is_told_by_its_parent";
    if is_child(name) {
        ringtrace::init();
        let before = limit_descriptors(3);
        wait(fork(|| fire(2)));
        limit_descriptors(before);
        fire(1);
        return;
    }
    let (directory, said) = run(name, Some("follow:numbered; follow; memory 2M; output trace"));
    assert!(said.contains("whose events are lost") && said.contains("100 lost: no ring for them"), "{said}");
    let traces = traces(directory.path());
    assert_eq!(traces.len(), 1);
    assert_eq!((traces[0].1.numbers("follow:numbered", "number"), traces[0].1.discarded), (numbers(1), 100));
    std::fs::remove_dir_all(runtime(directory.path())).expect("it is removed");
}

/// Mounts a small file system in memory, which only this process and its children see. Returns false where that is not allowed.
fn mount_memory(path: &Path) -> bool {
    let path = std::ffi::CString::new(path.to_str().expect("a text")).expect("a path");
    // SAFETY: the texts live until the calls return; the mounts are this process's own.
    unsafe {
        let (nothing, private) = (std::ptr::null(), libc::MS_REC | libc::MS_PRIVATE);
        libc::unshare(libc::CLONE_NEWNS) == 0
            && libc::mount(nothing, c"/".as_ptr(), nothing, private, std::ptr::null()) == 0
            && libc::mount(c"none".as_ptr(), path.as_ptr(), c"tmpfs".as_ptr(), 0, c"size=4m".as_ptr().cast()) == 0
    }
}

/// Takes all room that is left there.
fn fill(directory: &Path) {
    let mut file = std::fs::File::create(directory.join("full")).expect("a file");
    while std::io::Write::write(&mut file, &[1; 4096]).is_ok() {}
}

#[test]
fn without_room_in_memory_a_childs_events_are_recorded_or_counted() {
    let name = "without_room_in_memory_a_childs_events_are_recorded_or_counted";
    if is_child(name) {
        let runtime = PathBuf::from(std::env::var_os("RINGTRACE_DIR").expect("the test's"));
        std::fs::create_dir_all(&runtime).expect("a directory");
        if !mount_memory(&runtime) {
            eprintln!("skipped: not allowed to mount");
            return;
        }
        std::fs::set_permissions(&runtime, std::os::unix::fs::PermissionsExt::from_mode(0o700)).expect("it is ours");
        ringtrace::init();
        // Full when the rings get their memory, and when they are made.
        wait(fork(|| {
            fill(&runtime);
            fire(2);
        }));
        wait(fork(|| fire(3)));
        return;
    }
    let (directory, said) = run(name, Some("follow:numbered; follow; memory 1M; output trace"));
    let _ = std::fs::remove_dir_all(runtime(directory.path()));
    if said.contains("skipped") {
        return;
    }
    let traces = traces(directory.path());
    assert_eq!(traces.len(), 3, "{said}");
    let told: Vec<_> = traces[1..].iter().map(|(_, contents)| (contents.events(), contents.discarded)).collect();
    assert!(told.iter().all(|(events, lost)| events + lost == 100), "{told:?}: {said}");
    assert!(told.iter().any(|(_, lost)| *lost > 0) && told.contains(&(100, 0)), "{told:?}: {said}");
}
