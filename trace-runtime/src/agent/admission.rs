//! Whether a peer is answered: the agent does for nobody what the kernel keeps from them.
//!
//! What a peer asks for is what a process that may attach to this one could do by itself: read its memory, write files in its
//! name, change what it does. The kernel lets processes of one user do so, unless it guards the process ([`Guard`]), or keeps the
//! peer in a sandbox: a user namespace, Landlock. So a peer shows first that the kernel lets it in, by a secret of this process
//! ([`trace_control::proof`]).
//!
//! # Invariants
//!
//! - AD-1: A proof counts as long as the guard is what it was when the proof was given: privileges that the process takes
//!   later, and memory that it closes later, need another one.
//! - AD-2: A secret is not in children that are forked later: its mapping is left out (MADV_DONTFORK), and its descriptor is
//!   closed.

use crate::storage::OwnFile;
use crate::sys;
use crate::sys::memory::Mapping;
use rustix::fs::MemfdFlags;
use rustix::process::DumpableBehavior;
use std::io;
use trace_control::Peer;
use trace_control::proof::{self, BYTES, NAME};
use trace_control::protocol::{Refusal, RefusalKind};
use trace_registry::sync::Ordering;

/// Why the kernel keeps this process from others, also of its own user.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Guard {
    is_dumpable: bool,
    /// Whether `kernel.yama.ptrace_scope` lets only superusers attach. Its scope 1 is no matter: it is about debuggers.
    is_attaching_restricted: bool,
    /// Users, groups and capabilities of the first thread, by which the kernel judges, and of this one, which acts.
    credentials: String,
}

impl Guard {
    fn now() -> Guard {
        // A process that cannot read them is guarded.
        let status = |of: &str| sys::read_kernel_file(&format!("/proc/{of}/status")).unwrap_or_default();
        Guard {
            is_dumpable: matches!(rustix::process::dumpable_behavior(), Ok(DumpableBehavior::Dumpable)),
            is_attaching_restricted: sys::read_kernel_file(proof::YAMA).is_ok_and(|scope| proof::is_restricting(&scope)),
            credentials: credentials(&status("self")) + &credentials(&status("thread-self")),
        }
    }

    /// Says why the kernel keeps it from a peer of the same user and group; `None`: the reason is the peer's.
    fn reason(&self) -> Option<&'static str> {
        if !self.is_dumpable {
            return Some("it is not dumpable (prctl(2), PR_SET_DUMPABLE)");
        }
        if self.is_attaching_restricted {
            return Some("kernel.yama.ptrace_scope lets only superusers look into processes");
        }
        reason_of(&self.credentials)
    }
}

/// The lines of proc_pid_status(5) that say what a thread may do.
fn credentials(status: &str) -> String {
    let is_wanted = |line: &&str| ["Uid:", "Gid:", "CapPrm:", "CapEff:"].iter().any(|name| line.starts_with(name));
    status.lines().filter(is_wanted).flat_map(|line| [line, "\n"]).collect()
}

fn reason_of(credentials: &str) -> Option<&'static str> {
    const LINES: usize = 2 * 4;
    let lines: Vec<(&str, Vec<&str>)> =
        credentials.lines().filter_map(|l| l.split_once(':')).map(|(name, of)| (name, of.split_whitespace().collect())).collect();
    if lines.len() != LINES {
        return Some("it cannot read its credentials in /proc");
    }
    if lines.iter().any(|(name, of)| name.starts_with("Cap") && !of.iter().all(|set| set.bytes().all(|digit| digit == b'0'))) {
        return Some("it holds capabilities");
    }
    let ids = |wanted: &str| lines.iter().filter(|(name, _)| *name == wanted).flat_map(|(_, of)| of).collect::<Vec<_>>();
    let is_one = |wanted: &str| ids(wanted).windows(2).all(|pair| pair[0] == pair[1]);
    if is_one("Uid") && is_one("Gid") { None } else { Some("it has several users or groups") }
}

/// Who a connection is from, and what it has shown.
pub(super) struct Visitor {
    peer: Peer,
    proven: Option<Guard>,
}

impl Visitor {
    pub(super) fn new(peer: Peer) -> Visitor {
        Visitor { peer, proven: None }
    }
}

/// The agent's.
#[derive(Default)]
pub(super) struct Door {
    secret: Option<Secret>,
}

/// What is to be shown, and the mapping in which it is.
struct Secret {
    guard: Guard,
    name: String,
    content: String,
    _mapping: Mapping,
}

impl Door {
    /// Lets a request pass, where the kernel would let the peer in.
    pub(super) fn admit(&mut self, visitor: &Visitor) -> Result<(), Refusal> {
        let guard = Guard::now();
        if visitor.proven.as_ref() == Some(&guard) {
            return Ok(()); // AD-1
        }
        let own = (rustix::process::geteuid().as_raw(), rustix::process::getegid().as_raw());
        let is_other = (visitor.peer.uid, visitor.peer.gid) != own;
        let of_peer = if is_other { "it is of another user or group" } else { "yours is in a sandbox, or sees no /proc" };
        let reason = guard.reason().unwrap_or(of_peer);
        let file = if guard.is_attaching_restricted { "mem" } else { "maps" };
        // There for the peer to be found.
        let what = match self.secret(&guard) {
            Ok(_) => format!("only a process that may read /proc/PID/{file} is answered"),
            Err(error) => format!("what would have to be shown cannot be made: {error}"),
        };
        let message = format!(
            "the kernel keeps this process from yours, because {reason}; {what}: run the command as the program's user with the \
             program's capabilities, or as a superuser with CAP_SYS_PTRACE, where /proc shows the process"
        );
        Err(Refusal::new(RefusalKind::Unproven, message))
    }

    /// Takes a proof.
    pub(super) fn prove(&mut self, visitor: &mut Visitor, shown: &str) -> Result<(), Refusal> {
        let guard = Guard::now();
        // Whoever guesses has 2^128 secrets to choose from.
        if self.secret(&guard).is_ok_and(|secret| secret == shown) {
            visitor.proven = Some(guard);
            return Ok(());
        }
        Err(Refusal::new(RefusalKind::Unproven, "this is not the secret of this process"))
    }

    /// Returns the secret of this guard, which is another one when the guard has changed.
    fn secret(&mut self, guard: &Guard) -> io::Result<&str> {
        let secret = match self.secret.take() {
            Some(secret) if secret.guard == *guard => secret,
            _ => Secret::new(guard)?,
        };
        let Secret { name, content, .. } = self.secret.insert(secret);
        Ok(if guard.is_attaching_restricted { content } else { name })
    }
}

impl Secret {
    fn new(guard: &Guard) -> io::Result<Secret> {
        let (name, content) = (proof::digits(&sys::random::<BYTES>()), sys::random::<BYTES>());
        let mut file = OwnFile::nameless(rustix::fs::memfd_create(format!("{NAME}{name}"), MemfdFlags::CLOEXEC)?)?;
        file.file()?.set_len(BYTES as u64)?;
        let mapping = Mapping::new(file.file()?, BYTES as u64, true)?;
        mapping.keep_from_children()?;
        for (at, bytes) in (0..).step_by(8).zip(content.chunks_exact(8)) {
            let word = mapping.word(at).ok_or(io::ErrorKind::InvalidData)?;
            // Relaxed: it is read by way of the kernel, after the refusal that follows.
            word.store(u64::from_ne_bytes(bytes.try_into().map_err(io::Error::other)?), Ordering::Relaxed);
        }
        Ok(Secret { guard: guard.clone(), name, content: proof::digits(&content), _mapping: mapping })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_kernel_guards_a_process_that_has_more_than_its_user() {
        let of =
            |uid: &str, gid: &str, caps: &str| format!("Name:\tx\nUid:\t{uid}\nGid:\t{gid}\nCapPrm:\t{caps}\nCapEff:\t0000\n");
        let plain = of("7 7 7 7", "8 8 8 8", "0000");
        let reason = |first: &str, second: &str| reason_of(&(credentials(first) + &credentials(second)));
        assert_eq!(reason(&plain, &plain), None);
        for (other, phrase) in [
            (of("7 7 7 7", "8 8 8 8", "2000"), "capabilities"),
            (of("7 7 0 7", "8 8 8 8", "0000"), "several users"),
            (of("9 9 9 9", "8 8 8 8", "0000"), "several users"),
            (of("7 7 7 7", "8 0 8 8", "0000"), "or groups"),
            (String::new(), "cannot read"),
        ] {
            for reason in [reason(&plain, &other), reason(&other, &plain)] {
                assert!(reason.is_some_and(|r| r.contains(phrase)), "{other}: {reason:?}");
            }
        }
    }

    #[test]
    fn a_proof_counts_for_the_guard_of_its_time() {
        let guard = |is_dumpable| Guard { is_dumpable, is_attaching_restricted: false, credentials: String::new() };
        let mut door = Door::default();
        let first = door.secret(&guard(true)).expect("a mapping").to_owned();
        assert_eq!(door.secret(&guard(true)).expect("it is there"), first);
        assert_ne!(door.secret(&guard(false)).expect("a mapping"), first);
        let restricted = Guard { is_attaching_restricted: true, ..guard(true) };
        let content = door.secret(&restricted).expect("a mapping").to_owned();
        let kept = door.secret.as_ref().expect("it is there");
        assert!(content == kept.content && content != kept.name && content.len() == 2 * BYTES);
        // What the kernel shows who may look.
        let own = proof::Opened::process(std::process::id()).expect("the kernel lets it");
        assert!(own.secrets().contains(&kept.name));
    }
}
