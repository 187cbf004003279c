//! Children after fork(2): off until they are traced by themselves.
//!
//! A child has the parent's memory and one of its threads: neither the agent nor the consumer, and locks that nobody may ever
//! release. What belongs to the image is wiped or compared, so it runs no probe (PR-1). It becomes a process of its own, with
//! agent, sessions and rings of its own, where
//! - it calls [`init`](crate::init()), or
//! - a session of the parent [follows](crate::Builder::follow): then before fork(2) returns in it.
//!
//! # Invariants
//!
//! - FO-1: Nothing of the parent's is repaired, locked, dropped or written to in a child: it is left as it is, and made anew
//!   ([`PerImage`]). Lists and rings that the forking thread is inside of stay readable.
//! - FO-2: The handlers of pthread_atfork(3) are installed when the first session is made, not before. They take no lock, neither of
//!   ours nor of the C library's or the loader's, and call no allocator. A followed child that was not forked by a handler of a
//!   signal ([`sys::may_be_in_handler`]) starts a thread, for which glibc has made its own allocator usable. The program's may have
//!   been left locked: only that thread calls it, and nobody waits for it without limit. Where no thread can be started, it is called
//!   to count what is lost.
//! - FO-3: What is [told](tell) to forks is not changed, and lives until no fork is under way that may have seen it, rings included:
//!   the address of no other mapping can be taken for theirs.
//! - FO-4: The tracer's threads hold no lock that a child may need, of the standard library or the C library: not when they begin and
//!   end ([`sys::spawn_with_signals_blocked`]), not when they write to stderr ([`sys::write_stderr`]).
//!
//! # What the handlers do
//!
//! | Handler | Does | May wait for |
//! | --- | --- | --- |
//! | `before` | counts the fork, loads an address | nothing |
//! | `in_parent` | counts it back | nothing |
//! | `in_child`, always | puts memory of its own over the parent's rings, so that an append that a handler's fork interrupted goes nowhere, and closes their files | nothing |
//! | `in_child`, followed, from a handler | says that it is not traced, by write(2) | nothing |
//! | `in_child`, followed | closes gates; starts a thread that makes sessions anew, from what was told | the caches of stacks and of thread-local storage, which glibc makes anew before; that thread, for a second at most |
//!
//! A followed child sleeps until its first event: its rings are files without names and without memory, and its one thread of ours waits.
//! So one that runs another program, or ends, leaves nothing, however it does so. With the first event the thread that fires it gives
//! the rings memory and names, by system calls alone; then the other thread starts the agent, and makes the trace when it has something for it.
//!
//! What else a C library locks, no child finds made anew, so nothing here calls it: the lock of dl_iterate_phdr(3) (images are told),
//! of localtime(3) (remembered), of getenv(3) (asked once, in the first of a family), of stdio and atexit(3) (registered once).

#![expect(unsafe_code, reason = "what is told to forks is reached by address")]

use crate::agent;
use crate::attach::{self, Watch};
use crate::builder::{self, Builder};
use crate::catalogue::{self, Site};
use crate::clock::Clock;
use crate::consumer;
use crate::init;
use crate::module;
use crate::per_image::PerImage;
use crate::process;
use crate::rcu::{self, lock};
use crate::recording::Recording;
use crate::report;
use crate::ring_buffer::Core;
use crate::storage::{self, Inherited, Names};
use crate::sys;
use crate::trigger;
use rustix::thread::futex;
use std::cell::Cell;
use std::ffi::c_void;
use std::mem::MaybeUninit;
use std::path::{Path, PathBuf};
use std::ptr::{self, NonNull};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};
use trace_registry::condition::Conditional;
use trace_registry::field::Piece;
use trace_registry::image::Image;
use trace_registry::probe::{Functions, Loss, Target};
use trace_registry::read_side;
use trace_registry::sync::{AtomicBool, AtomicPtr, AtomicU32, AtomicU64, AtomicUsize, Ordering};

/// The process whose state the statics hold; 0: none yet.
static OWNER: AtomicU32 = AtomicU32::new(0);

/// Says that the state is this process's.
pub(crate) fn own() {
    sys::remember_stderr();
    // Relaxed: read by the same process's control plane, or after a fork.
    OWNER.store(std::process::id(), Ordering::Relaxed);
}

/// Whether this is a forked child that has not been made a process of its own.
pub(crate) fn is_child() -> bool {
    let owner = OWNER.load(Ordering::Relaxed);
    // In a new PID namespace a child may have its parent's number, but not its wiped page.
    (owner != 0 && owner != std::process::id()) || process::get().is_some_and(|process| !process.is_alive())
}

/// Makes a forked child a process of its own, without sessions; for its one thread.
pub(crate) fn renew() {
    leave_behind();
    catalogue::close_gates(&catalogue::sites());
}

/// Leaves what is the parent's, but for its gates. Async-signal-safe.
fn leave_behind() {
    // Lists that this thread may be inside of stay (FO-1).
    OUTDATED.renew();
    RINGS.renew();
    BOUND.renew();
    UNMADE.renew();
    // Relaxed: there is no other thread.
    HAS_BEGUN.store(false, Ordering::Relaxed);
    consumer::set_asleep(false);
    catalogue::renew();
    process::renew();
    Clock::renew();
    attach::renew();
    module::renew();
    rcu::renew();
    consumer::renew();
    agent::renew();
    trigger::renew();
    crate::state::renew();
    init::renew();
    storage::close_inherited_sockets();
    own();
}

/// Where a child of this number writes its trace: beside that of the first of the family.
pub(crate) fn output(root: &Path, pid: u32) -> PathBuf {
    let mut path = root.as_os_str().to_owned();
    path.push(format!("-{pid}"));
    path.into()
}

/// From now on, what forks are [told](tell) takes effect.
fn install() {
    static IS_INSTALLED: AtomicBool = AtomicBool::new(false);
    // Relaxed: it decides only who calls. A child has its parent's handlers.
    if !IS_INSTALLED.swap(true, Ordering::Relaxed) {
        sys::at_fork(before, in_parent, in_child);
    }
}

/// What a fork finds out, without asking anybody.
struct Told {
    /// What a child is to record.
    heirs: Vec<Builder>,
    /// Whose declarations its catalogue begins with.
    images: Vec<&'static Image>,
    /// Whose gates it closes.
    sites: Arc<Vec<Site>>,
    /// Those that it must not write to.
    rings: Vec<Rings>,
    /// Counts children that cannot be made ready.
    unmade: Option<Lost>,
}

/// The rings of a session.
#[derive(Clone)]
struct Rings {
    file: Inherited,
    /// `None`: they are not mapped yet.
    core: Option<Arc<Core>>,
}

/// Those of all sessions, also of one that is being made, or that has ended while somebody reads its rings.
static RINGS: PerImage<Mutex<Vec<Rings>>> = PerImage::new(Mutex::default);

/// Has forks be [told](tell) of rings, as long as it is there: a child does not keep them mapped, nor their file open, and so held.
pub(crate) struct ToldRings(Inherited);

impl ToldRings {
    /// Takes the file of rings that are not mapped yet.
    pub(crate) fn new(file: Inherited) -> ToldRings {
        install();
        lock(RINGS.get()).push(Rings { file, core: None });
        tell();
        ToldRings(file)
    }

    /// Takes what the file is mapped as.
    pub(crate) fn map(&self, core: &Arc<Core>) {
        let mut all = lock(RINGS.get());
        let own = all.iter_mut().filter(|rings| rings.file == self.0);
        own.for_each(|rings| rings.core = Some(core.clone()));
        drop(all);
        tell();
    }
}

impl Drop for ToldRings {
    fn drop(&mut self) {
        if is_child() {
            return; // FO-1
        }
        lock(RINGS.get()).retain(|rings| rings.file != self.0);
        tell();
    }
}

/// Null: there is nothing to tell.
static TOLD: AtomicPtr<Told> = AtomicPtr::new(ptr::null_mut());
/// Forks under way.
static FORKS: AtomicU32 = AtomicU32::new(0);
/// What was told before, and may have been seen by a fork that is under way.
#[expect(clippy::vec_box, reason = "the fork has their addresses")]
static OUTDATED: PerImage<Mutex<Vec<Box<Told>>>> = PerImage::new(Mutex::default);

/// Tells forks what is now, after each change of sessions, rings, rules, triggers and images.
pub(crate) fn tell() {
    // Of several threads the last one tells of all changes.
    let mut outdated = lock(OUTDATED.get());
    let recordings = attach::recordings();
    let told = Box::into_raw(Box::new(Told {
        heirs: recordings.iter().filter_map(|recording| recording.heir()).collect(),
        images: catalogue::images(),
        sites: catalogue::sites(),
        rings: lock(RINGS.get()).clone(),
        unmade: *UNMADE.get(),
    }));
    // SeqCst, with the load below: pairs with the addition and the load in `before`.
    //  - If the load finds no fork, each that begins later sees what is told now.
    //  - Otherwise what was told before stays (FO-3).
    let before = TOLD.swap(told, Ordering::SeqCst);
    // SAFETY: made by `Box::into_raw` above, and taken out once.
    outdated.extend((!before.is_null()).then(|| unsafe { Box::from_raw(before) }));
    let gone = if FORKS.load(Ordering::SeqCst) == 0 { std::mem::take(&mut *outdated) } else { Vec::new() };
    drop(outdated);
    // What goes with it may tell in its turn.
    drop(gone);
}

/// Waits until forks that may have been told of an image which is gone by now are over, for a moment at most.
pub(crate) fn wait_for_forks() {
    let begun = Instant::now();
    // Acquire: pairs with the Release in `in_parent`.
    while FORKS.load(Ordering::Acquire) > 0 && begun.elapsed() < Duration::from_secs(1) {
        std::thread::sleep(Duration::from_micros(100));
    }
}

thread_local! {
    /// What the fork(2) that this thread is in was told. Without a destructor, which would have to be registered.
    static SEEN: Cell<*const Told> = const { Cell::new(ptr::null()) };
}

extern "C" fn before() {
    // SeqCst: see `tell`.
    FORKS.fetch_add(1, Ordering::SeqCst);
    let is_alive = process::get().is_some_and(process::Process::is_alive);
    // Acquire, in it: what was told comes before its address.
    SEEN.set(if is_alive { TOLD.load(Ordering::SeqCst) } else { ptr::null() });
}

extern "C" fn in_parent() {
    // Not below 0, in the child of a handler that forked while this fork was under way. Release: see `wait_for_forks`.
    let _ = FORKS.fetch_update(Ordering::Release, Ordering::Relaxed, |forks| forks.checked_sub(1));
}

extern "C" fn in_child() {
    // Relaxed, here and below: there is no other thread.
    FORKS.store(0, Ordering::Relaxed);
    TOLD.store(ptr::null_mut(), Ordering::Relaxed);
    MAKING.store(0, Ordering::Relaxed);
    // SAFETY: FO-3: the parent's memory had it when this thread forked, and this process never frees it.
    let Some(told) = (unsafe { SEEN.replace(ptr::null()).as_ref() }) else { return };
    for rings in &told.rings {
        if let Some(core) = &rings.core {
            core.leave_to_parent();
        }
        rings.file.close();
    }
    catalogue::inherit(&told.images);
    if told.heirs.is_empty() {
        return;
    }
    if sys::may_be_in_handler() {
        report::say_at_once(FROM_A_HANDLER);
        return;
    }
    sys::keep_utc_offset();
    leave_behind();
    catalogue::close_gates(&told.sites);
    MAKING.store(1, Ordering::Relaxed);
    // SAFETY: never freed in this process, and only read.
    if unsafe { sys::spawn(make, ptr::from_ref(told).cast_mut().cast()) }.is_err() {
        // Without threads there is no recording, but a count of what is lost.
        follow(&told.heirs);
    } else if !wait_until_made(patience(told.unmade)) {
        told.unmade.inspect(|unmade| unmade.add(1));
        report::say_at_once(NOT_MADE);
    }
}

const FROM_A_HANDLER: &[u8] =
    b"ringtrace: a process was forked while a signal that has a handler was blocked, as it is in the handler: \
    it is not traced until it calls `ringtrace::init`\n";

const NOT_MADE: &[u8] =
    b"ringtrace: a forked process could not be made ready for tracing in time, and runs on. Its events are lost \
    until it is, which may be never: the program's allocator has a lock that another thread held when it forked\n";

/// 1 while the sessions of a child are made.
static MAKING: AtomicU32 = AtomicU32::new(0);

/// Whether they are still being made: by a thread that may wait for the program's allocator for ever.
pub(crate) fn is_being_made() -> bool {
    // Acquire: pairs with the Release in `follow`.
    MAKING.load(Ordering::Acquire) != 0
}

/// How long a fork waits: a second, and half as long after each child of the family that could not be made ready by then.
fn patience(unmade: Option<Lost>) -> Duration {
    Duration::from_secs(1) / (1 << unmade.map_or(0, |unmade| unmade.events().min(6)))
}

/// Returns whether the sessions are made, after `patience` at most.
fn wait_until_made(patience: Duration) -> bool {
    let begun = Instant::now();
    while is_being_made() {
        let Some(rest) = patience.checked_sub(begun.elapsed()) else { return false };
        let rest = rustix::time::Timespec { tv_sec: 0, tv_nsec: rest.subsec_nanos().into() };
        // Woken for nothing, it looks again.
        let _ = futex::wait(&MAKING, futex::Flags::PRIVATE, 1, Some(&rest));
    }
    true
}

/// Children of the family that could not be made ready in time; not taken from.
static UNMADE: PerImage<Option<Lost>> = PerImage::new(Lost::new);

/// Warns of them, once.
pub(crate) fn tell_of_the_unmade() {
    static IS_TOLD: AtomicBool = AtomicBool::new(false);
    let is_news = UNMADE.peek().copied().flatten().is_some_and(|unmade| unmade.events() > 0);
    if is_news && !IS_TOLD.swap(true, Ordering::Relaxed) {
        attach::sessions().iter().filter(|session| session.heir().is_some()).for_each(|session| session.warn(UNTOLD.to_owned()));
    }
}

const UNTOLD: &str = "forked processes are not followed, and their events are not counted: another thread had the lock of the program's \
                      allocator when they were forked";

/// The thread that makes the sessions of a child.
extern "C" fn make(told: *mut c_void) -> *mut c_void {
    sys::begin_thread(c"ringtrace-fork", || {
        sys::mark_thread_untraced();
        // SAFETY: what `in_child` gave.
        follow(unsafe { &(*told.cast::<Told>()).heirs });
    })
}

/// Makes the sessions of a child, which sleep until its first event.
fn follow(heirs: &[Builder]) {
    struct Made;
    impl Drop for Made {
        fn drop(&mut self) {
            // Release: pairs with the load in `is_being_made`: the thread that forked sees what was made.
            MAKING.store(0, Ordering::Release);
            let _ = futex::wake(&MAKING, futex::Flags::PRIVATE, 1);
        }
    }
    let _made = Made;
    init::take_over();
    consumer::set_asleep(true);
    let bound: Vec<String> = heirs.iter().filter(|builder| builder.bound).map(|builder| builder.name.clone()).collect();
    for builder in heirs {
        let mut builder = builder.clone();
        if let Some(root) = builder.root.clone() {
            builder = builder.moved(output(&root, std::process::id()));
        }
        let wanted = builder.clone();
        if let Err(error) = builder.begin() {
            let (name, pid) = (&wanted.name, std::process::id());
            report::say(format_args!("session {name} does not follow process {pid}, whose events are lost: {error}"));
            count_lost(&wanted);
        }
    }
    *lock(BOUND.get()) = Some(bound);
    let rings = |recording: &Arc<Recording>| (recording.channel.core.clone(), recording.names());
    let first = attach::recordings().iter().map(rings).collect::<Vec<_>>();
    if first.is_empty() {
        consumer::set_asleep(false);
        start_agent();
        return;
    }
    // Relaxed: published with the function that reads it. Never freed: it may be read for as long as threads begin.
    FIRST.store(Box::into_raw(Box::new(first)), Ordering::Relaxed);
    read_side::run_before_first(Some(before_first));
}

/// A count in memory that a family shares: of events that could not be recorded.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Lost(&'static AtomicU64);

impl Lost {
    /// Takes the next one. `None`: there is no memory for them. Those of more sessions than a page has words for share them.
    pub(crate) fn new() -> Option<Lost> {
        const WORDS: usize = 512;
        static PAGE: AtomicPtr<AtomicU64> = AtomicPtr::new(ptr::null_mut());
        static NEXT: AtomicUsize = AtomicUsize::new(0);
        // Relaxed, in all: sessions begin one at a time, under the control lock; and words that order nothing.
        if PAGE.load(Ordering::Relaxed).is_null() {
            let page = sys::memory::map_shared_with_children(WORDS * size_of::<AtomicU64>()).ok()?;
            PAGE.store(page.as_ptr().cast(), Ordering::Relaxed);
        }
        let index = NEXT.fetch_add(1, Ordering::Relaxed) % WORDS;
        // SAFETY: as many zeroed words were mapped, and are never unmapped.
        Some(Lost(unsafe { &*PAGE.load(Ordering::Relaxed).add(index) }))
    }

    fn events(self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }

    pub(crate) fn add(self, events: u64) {
        self.0.fetch_add(events, Ordering::Relaxed);
    }

    /// Takes what was counted, so that it is told once. `None`: nothing.
    pub(crate) fn take(self) -> Option<u64> {
        // Loaded before: the line stays shared while nothing is lost.
        (self.events() > 0).then(|| self.0.swap(0, Ordering::Relaxed)).filter(|events| *events > 0)
    }
}

impl Watch for Lost {
    fn conditional(&self) -> Conditional {
        let functions = Functions { words: None, tail: None, pieces: lose_pieces, lose: lose_one };
        // Payloads are thrown away.
        const LIMIT: u32 = 4 << 10;
        let word = ptr::from_ref(self.0).cast();
        // SAFETY: the functions may be called from any thread and signal handler; the word is never unmapped.
        Conditional::always(unsafe { Target::new(functions, [MaybeUninit::uninit(); 8], word, LIMIT, 0, true) })
    }
}

/// # Safety
///
/// `target` was made by [`Lost::conditional`](Watch::conditional) and is in a list that the caller reads.
///
/// # Signal safety
///
/// Async-signal-safe and wait-free.
unsafe extern "C" fn lose_pieces(target: *const Target, _: NonNull<Piece>, _: usize, _: usize) -> u8 {
    // SAFETY: the caller's duty.
    unsafe { lose_one(&*target, Loss::TooLarge) };
    0
}

/// # Safety
///
/// As for [`lose_pieces`].
unsafe fn lose_one(target: &Target, loss: Loss) {
    if loss != Loss::Cut {
        // SAFETY: the caller's duty: it is a word of `Lost`.
        unsafe { &*target.channel().cast::<AtomicU64>() }.fetch_add(1, Ordering::Relaxed);
    }
}

/// Counts what a session would have recorded, if there were memory and descriptors for it.
fn count_lost(wanted: &Builder) {
    let Some(lost) = wanted.heir.as_ref().and_then(|heir| heir.lost) else { return };
    let parsed =
        |text: &String| attach::rules(text, false, !wanted.sensitive, wanted.is_agents, &mut Vec::new()).unwrap_or_default();
    let rules: Vec<_> = wanted.rules.iter().flat_map(parsed).collect();
    let taken = attach::probes().filter(|probe| probe.probe.class.is_some() && attach::decides(&rules, probe));
    let watches: Vec<_> = taken.map(|probe| (probe, Arc::new(lost) as Arc<dyn Watch>)).collect();
    attach::control().watch(&watches);
}

/// Rings that have no room and no names before the first event, with what gives them those.
type First = Vec<(Arc<Core>, Option<Arc<Names>>)>;

static FIRST: AtomicPtr<First> = AtomicPtr::new(ptr::null_mut());
/// Whether an event was fired since the last [look](awaken), or the program wants to be controlled.
static HAS_BEGUN: AtomicBool = AtomicBool::new(false);
/// Sessions that end with a connection to the agent, until that is started.
static BOUND: PerImage<Mutex<Option<Vec<String>>>> = PerImage::new(Mutex::default);

/// Runs before the first event of a child, in each thread that has its first one meanwhile: gives the rings what they need so that no
/// event is lost, however the child ends, and leaves the rest to the thread that it wakes.
extern "C" fn before_first() {
    // SAFETY: `follow` stored it for ever before it named this function.
    if let Some(first) = unsafe { FIRST.load(Ordering::Acquire).as_ref() } {
        for (core, names) in first {
            core.make_ready();
            if let Some(names) = names {
                names.give();
            }
        }
    }
    read_side::run_before_first(None);
    HAS_BEGUN.store(true, Ordering::Release);
    consumer::wake();
}

/// Has a child that sleeps become one that can be controlled.
pub(crate) fn rouse() {
    if consumer::is_asleep() {
        HAS_BEGUN.store(true, Ordering::Release);
        consumer::wake();
    }
}

/// Makes what a child has beside its rings, where that is due; for the consumer's thread.
pub(crate) fn awaken() {
    // Acquire: pairs with the Release stores above.
    if !HAS_BEGUN.load(Ordering::Relaxed) || !HAS_BEGUN.swap(false, Ordering::Acquire) {
        return;
    }
    start_agent();
    for recording in attach::recordings().iter() {
        if recording.names().is_some_and(|names| names.are_refused()) {
            recording.warn("the ring buffers got no name, so they do not outlive the process".to_owned());
        }
        builder::populate_the_rest(recording);
        if recording.source().is_none() {
            crate::state::dump_aside(recording, None);
        }
    }
}

fn start_agent() {
    if let Some(bound) = lock(BOUND.get()).take() {
        init::start_agent_again(bound);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::storage::OwnFile;

    /// Its lock would say that the rings are used, as long as the child lives.
    #[test]
    fn a_child_that_is_forked_while_a_session_is_made_has_its_file_not_open() {
        process::current().expect("it traces");
        let open = |file: &OwnFile| {
            let descriptor = std::os::fd::AsRawFd::as_raw_fd(&**file);
            // SAFETY: the child makes async-signal-safe calls only.
            unsafe {
                let child = libc::fork();
                if child == 0 {
                    libc::_exit(i32::from(libc::fcntl(descriptor, libc::F_GETFD) >= 0));
                }
                let mut status = 0;
                assert_eq!(libc::waitpid(child, &raw mut status, 0), child);
                assert!(libc::WIFEXITED(status), "{status:x}");
                libc::WEXITSTATUS(status) == 1
            }
        };
        let file = rustix::fs::memfd_create("rings", rustix::fs::MemfdFlags::CLOEXEC).expect("a file");
        let file = OwnFile::nameless(file).expect("a file");
        assert!(open(&file));
        let told = ToldRings::new(file.inheritance());
        assert!(!open(&file));
        drop(told);
        assert!(open(&file), "forks are told of a file that is gone");
    }
}
