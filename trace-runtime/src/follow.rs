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
//!   ([`PerImage`](crate::per_image::PerImage)). Lists and rings that the forking thread is inside of stay readable.
//! - FO-2: The handlers of pthread_atfork(3) are installed when the first session follows, not before.

use crate::agent;
use crate::attach;
use crate::builder::Builder;
use crate::catalogue;
use crate::clock::Clock;
use crate::consumer;
use crate::init;
use crate::module;
use crate::process;
use crate::rcu;
use crate::report;
use crate::storage;
use crate::sys;
use crate::trigger;
use std::cell::Cell;
use std::path::{Path, PathBuf};
use trace_registry::sync::{AtomicBool, AtomicU32, Ordering};

/// The process whose state the statics hold; 0: none yet.
static OWNER: AtomicU32 = AtomicU32::new(0);

/// Says that the state is this process's.
pub(crate) fn own() {
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
    // Lists that this thread may be inside of stay (FO-1).
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

/// From now on, sessions that follow do.
pub(crate) fn install() {
    static IS_INSTALLED: AtomicBool = AtomicBool::new(false);
    // Relaxed: it decides only who calls. A child has its parent's handlers.
    if !IS_INSTALLED.swap(true, Ordering::Relaxed) {
        sys::at_fork(before, in_parent, in_child);
    }
}

thread_local! {
    /// What the child of the fork(2) that this thread is in is to record.
    static HEIRS: Cell<Vec<Builder>> = const { Cell::new(Vec::new()) };
}

extern "C" fn before() {
    if process::get().is_some_and(process::Process::is_alive) {
        let heirs = attach::sessions().iter().filter_map(|session| session.heir()).collect();
        sys::remember_utc_offset();
        // A thread that is ending forks without being followed.
        let _ = HEIRS.try_with(|place| place.set(heirs));
    }
}

extern "C" fn in_parent() {
    let _ = HEIRS.try_with(Cell::take);
}

extern "C" fn in_child() {
    let heirs = HEIRS.try_with(Cell::take).unwrap_or_default();
    if heirs.is_empty() {
        return;
    }
    sys::keep_utc_offset();
    renew();
    let bound = heirs.iter().filter(|builder| builder.bound).map(|builder| builder.name.clone()).collect();
    init::start_agent_again(bound);
    for mut builder in heirs {
        if let Some(root) = builder.root.clone() {
            builder = builder.moved(output(&root, std::process::id()));
        }
        let name = builder.name.clone();
        match builder.begin() {
            Ok(recording) => crate::state::dump_aside(&recording, None),
            Err(error) => {
                report::say(format_args!("session {name} does not follow process {}: {error}", std::process::id()));
            }
        }
    }
}
