//! One peer: its requests, line by line, and its answers.

use super::admission::Visitor;
use super::serve::{Reply, Sessions, Waiting};
use super::{CONNECTIONS, IDLE, WAITING};
use crate::aggregate::Aggregation;
use crate::storage::OwnFile;
use rustix::event::PollFlags;
use rustix::net::{RecvFlags, SendFlags};
use serde_json::Value;
use std::fs::File;
use std::time::{Duration, Instant};
use trace_control::Peer;
use trace_control::protocol::{Answer, Envelope, LONGEST_REQUEST, Refusal, RefusalKind};

/// A peer that does not read its answer for so long is given up.
const PATIENCE: Duration = Duration::from_secs(30);
/// So many requests of one peer are answered in a [`WINDOW`]; the rest waits for the next, so that the program keeps its CPUs.
const REQUESTS: u32 = 500;
const WINDOW: Duration = Duration::from_millis(100);

pub(super) struct Connection {
    file: OwnFile,
    input: Vec<u8>,
    output: Vec<u8>,
    /// How much of `output` is written.
    written: usize,
    waiting: Option<(Value, Waiting)>,
    pub(super) held: Held,
    last_active: Instant,
    window: Instant,
    answered: u32,
    /// The peer sends nothing more, or is not listened to any more.
    is_closing: bool,
    has_ended: bool,
}

/// What ends with a connection.
pub(super) struct Held {
    pub(super) visitor: Visitor,
    /// Names of sessions.
    pub(super) sessions: Vec<String>,
    pub(super) aggregations: Vec<Aggregation>,
}

impl Held {
    fn is_empty(&self) -> bool {
        self.sessions.is_empty() && self.aggregations.is_empty()
    }
}

impl Connection {
    pub(super) fn new(file: OwnFile, peer: Peer) -> Connection {
        let now = Instant::now();
        Connection {
            file,
            input: Vec::new(),
            output: Vec::new(),
            written: 0,
            waiting: None,
            held: Held { visitor: Visitor::new(peer), sessions: Vec::new(), aggregations: Vec::new() },
            last_active: now,
            window: now,
            answered: 0,
            is_closing: false,
            has_ended: false,
        }
    }

    /// Tells a peer for which there is no room.
    pub(super) fn turn_away(file: OwnFile, peer: Peer) {
        let message = format!("{CONNECTIONS} connections hold sessions or aggregations already; end one of them");
        let mut connection = Connection::new(file, peer);
        connection.answer(Value::Null, Err(Refusal::new(RefusalKind::TooMany, message)));
        connection.write();
    }

    pub(super) fn file(&self) -> &File {
        &self.file
    }

    pub(super) fn holds_something(&self) -> bool {
        !self.held.is_empty()
    }

    pub(super) fn last_active(&self) -> Instant {
        self.last_active
    }

    pub(super) fn has_ended(&self) -> bool {
        self.has_ended
    }

    /// What to poll for.
    pub(super) fn wants(&self) -> PollFlags {
        if !self.output.is_empty() {
            PollFlags::OUT
        } else if self.is_closing || self.is_throttled(Instant::now()) || self.has_request() {
            PollFlags::empty()
        } else {
            // While something is waited for as well: the peer may go away.
            PollFlags::IN
        }
    }

    /// When it is to be looked at, whatever the peer does.
    pub(super) fn due(&self, now: Instant) -> Duration {
        if self.waiting.is_some() {
            return WAITING;
        }
        if !self.output.is_empty() || !self.has_request() {
            return IDLE;
        }
        if self.is_throttled(now) { (self.window + WINDOW).saturating_duration_since(now) } else { Duration::ZERO }
    }

    fn has_request(&self) -> bool {
        self.waiting.is_none() && self.input.contains(&b'\n')
    }

    fn is_throttled(&self, now: Instant) -> bool {
        self.answered >= REQUESTS && now < self.window + WINDOW
    }

    /// Does what can be done without waiting: at most one request, so that the others have their turn (AG-3).
    pub(super) fn round(&mut self, sessions: &mut Sessions) {
        if !self.output.is_empty() {
            self.write();
            return;
        }
        self.read();
        if let Some((id, waiting)) = self.waiting.take() {
            match waiting.poll() {
                Ok(result) => self.answer(id, result),
                Err(waiting) => self.waiting = Some((id, waiting)),
            }
        } else if let Some(line) = self.next_line() {
            self.handle(&line, sessions);
        } else if self.is_closing {
            self.has_ended = true;
        }
        self.write();
    }

    fn next_line(&mut self) -> Option<Vec<u8>> {
        let now = Instant::now();
        if self.is_throttled(now) {
            return None;
        }
        if now >= self.window + WINDOW {
            (self.window, self.answered) = (now, 0);
        }
        let end = self.input.iter().position(|b| *b == b'\n')?;
        self.answered += 1;
        let rest = self.input.split_off(end + 1);
        Some(std::mem::replace(&mut self.input, rest))
    }

    fn handle(&mut self, line: &[u8], sessions: &mut Sessions) {
        if line.iter().all(u8::is_ascii_whitespace) {
            return;
        }
        let envelope: Envelope = match serde_json::from_slice(line) {
            Ok(envelope) => envelope,
            Err(error) => {
                let message = format!("this line is no request: {error}");
                return self.answer(Value::Null, Err(Refusal::new(RefusalKind::BadRequest, message)));
            }
        };
        let id = envelope.id.clone();
        match sessions.serve(envelope, &mut self.held) {
            Reply::Now(result) => self.answer(id, result),
            Reply::Later(waiting) => self.waiting = Some((id, waiting)),
        }
    }

    fn answer(&mut self, id: Value, result: Result<Value, Refusal>) {
        self.output = Answer::line(id, result).into_bytes();
        self.written = 0;
        self.last_active = Instant::now();
    }

    fn read(&mut self) {
        if self.is_closing || self.input.contains(&b'\n') {
            return;
        }
        let mut bytes = [0; 16 << 10];
        let received = match self.file.file() {
            Ok(file) => rustix::net::recv(file, &mut bytes[..], RecvFlags::DONTWAIT),
            // The program closed it (AG-4).
            Err(_) => return self.end(),
        };
        match received {
            Ok((0, _)) => {
                self.is_closing = true;
                if self.waiting.is_some() || !self.held.is_empty() {
                    self.end(); // nobody wants the answer
                }
            }
            Ok((count, _)) => {
                self.last_active = Instant::now();
                self.input.extend_from_slice(&bytes[..count]);
                let line = self.input.iter().position(|b| *b == b'\n').unwrap_or(self.input.len());
                if line >= LONGEST_REQUEST {
                    self.input = Vec::new();
                    self.is_closing = true;
                    let message = format!("a request has at most {LONGEST_REQUEST} bytes; the connection ends");
                    self.answer(Value::Null, Err(Refusal::new(RefusalKind::TooLong, message)));
                }
            }
            Err(rustix::io::Errno::AGAIN | rustix::io::Errno::INTR) => {}
            Err(_) => self.end(),
        }
    }

    fn write(&mut self) {
        while self.written < self.output.len() {
            let sent = match self.file.file() {
                Ok(file) => rustix::net::send(file, &self.output[self.written..], SendFlags::NOSIGNAL | SendFlags::DONTWAIT),
                Err(_) => return self.end(),
            };
            match sent {
                Ok(count) => {
                    self.written += count;
                    self.last_active = Instant::now();
                }
                Err(rustix::io::Errno::AGAIN) if self.last_active.elapsed() < PATIENCE => return,
                Err(rustix::io::Errno::INTR) => {}
                Err(_) => return self.end(),
            }
        }
        self.output = Vec::new();
        self.written = 0;
    }

    fn end(&mut self) {
        self.has_ended = true;
        self.output = Vec::new();
        self.waiting = None;
    }
}
