//! The agent: a thread that lets the `ringtrace` command see and change what is traced, over a socket.
//!
//! ```text
//! ringtrace ──▶ $XDG_RUNTIME_DIR/ringtrace/PID-STARTTIME-ID/control ──▶ agent ──▶ sessions
//! ```
//!
//! It waits in poll(2), for all connections at once, and does one request after the other; what has to wait, for the consumer
//! or for time to pass, is answered later. `trace_control` has the words and the place.
//!
//! # Invariants
//!
//! - AG-1: Nobody of another user is answered: the directory is the user's alone, and the kernel says who connects
//!   (SO_PEERCRED, unix(7)). Nor is anybody who does not show that the kernel lets it into this process ([`admission`]).
//! - AG-2: What a peer can make the agent hold is bounded: connections, the bytes of a request, one answer each.
//! - AG-3: A peer that sends without end, sends nonsense, or does not read its answers keeps no other from being answered.
//! - AG-4: A descriptor is used only as long as it is the agent's own (ST-1 of [`storage`](crate::storage)).

mod admission;
mod aggregates;
mod connection;
mod describe;
mod diagnose;
mod hits;
mod modules;
mod place;
mod serve;

pub(crate) use place::renew;

use crate::sys;
use connection::Connection;
use place::Place;
use rustix::event::{PollFd, PollFlags, Timespec};
use serve::Sessions;
use std::io;
use std::time::{Duration, Instant};

/// Most connections at a time. A further one takes the place of the one that was silent longest and holds no session.
const CONNECTIONS: usize = 32;
/// The agent looks so often whether the program closed its descriptors.
const IDLE: Duration = Duration::from_secs(1);
/// So often it looks whether what it waits for has come.
const WAITING: Duration = Duration::from_millis(2);

/// Starts the agent. What goes wrong is told to `trouble`, in the agent's thread. Sessions of `orphans` end unless a connection
/// takes them over.
pub(crate) fn start(trouble: fn(&io::Error), orphans: Vec<String>) -> io::Result<()> {
    sys::spawn_with_signals_blocked(c"ringtrace-agent", move || {
        sys::mark_thread_untraced();
        match Place::take() {
            Ok(place) => Agent { place, connections: Vec::new(), sessions: Sessions::new(orphans) }.run(),
            Err(error) if !place::has_ended() => trouble(&error),
            Err(_) => {}
        }
    })
}

struct Agent {
    place: Place,
    connections: Vec<Connection>,
    sessions: Sessions,
}

impl Agent {
    fn run(mut self) {
        loop {
            self.place.keep();
            self.wait();
            self.accept();
            self.sessions.end_orphans();
            for connection in &mut self.connections {
                connection.round(&mut self.sessions);
            }
            self.connections.retain_mut(|connection| {
                if connection.has_ended() {
                    self.sessions.end_bound(&connection.held.sessions);
                }
                !connection.has_ended()
            });
        }
    }

    /// Waits until somebody wants something.
    fn wait(&mut self) {
        let now = Instant::now();
        let mut timeout = IDLE;
        let mut polled = Vec::with_capacity(1 + self.connections.len());
        if let Some(listener) = self.place.listener() {
            polled.push(PollFd::new(listener, PollFlags::IN));
        }
        for connection in &self.connections {
            timeout = timeout.min(connection.due(now));
            let wanted = connection.wants();
            if !wanted.is_empty() {
                polled.push(PollFd::new(connection.file(), wanted));
            }
        }
        // A limit that does not fit is the largest; an interrupted wait is a short one.
        let timeout = Timespec::try_from(timeout).ok();
        let _ = rustix::event::poll(&mut polled, timeout.as_ref());
    }

    fn accept(&mut self) {
        while let Some((file, peer)) = self.place.accept() {
            if self.connections.len() >= CONNECTIONS {
                let silent = self.connections.iter().enumerate().filter(|(_, c)| !c.holds_something());
                let Some((index, _)) = silent.min_by_key(|(_, c)| c.last_active()) else {
                    Connection::turn_away(file, peer);
                    continue;
                };
                self.connections.swap_remove(index);
            }
            self.connections.push(Connection::new(file, peer));
        }
    }
}
