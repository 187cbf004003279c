//! A process that answers.

use std::io;
use std::path::PathBuf;
use std::time::Duration;

use serde::de::DeserializeOwned;
use trace_control::place::Image;
use trace_control::protocol::{self, LONGEST_ANSWER, LONGEST_GREETING, Request, SessionState};
use trace_control::{Client, Error};

use super::text::one_line;
use crate::failure::Failure;

/// A process with an agent, and a connection to it.
#[derive(Debug)]
pub(super) struct Process {
    pub(super) image: Image,
    pub(super) is: protocol::Process,
    client: Client,
}

/// How long a process may take to say who it is, before it counts as stopped.
const GREETING: Duration = Duration::from_millis(500);
/// How long it may take to answer what is asked then.
const PATIENCE: Duration = Duration::from_secs(5);

impl Process {
    /// Connects to a process and asks who it is.
    pub(super) fn meet(image: Image) -> Result<Process, Error> {
        let mut client = Client::connect(&image)?;
        client.set_patience(GREETING);
        client.set_longest_answer(LONGEST_GREETING);
        let is = client.ask(&Request::Hello)?;
        client.set_patience(PATIENCE);
        client.set_longest_answer(LONGEST_ANSWER);
        Ok(Process { image, is, client })
    }

    pub(super) fn ask<T: DeserializeOwned>(&mut self, request: &Request) -> Result<T, Error> {
        self.client.ask(request)
    }

    /// Asks what needs no waiting in the process, of one that may be stopped.
    pub(super) fn ask_in_passing<T: DeserializeOwned>(&mut self, request: &Request) -> Result<T, Error> {
        self.client.set_patience(GREETING);
        let answer = self.client.ask(request);
        self.client.set_patience(PATIENCE);
        answer
    }

    /// Asks, and says which process an error comes from.
    pub(super) fn demand<T: DeserializeOwned>(&mut self, request: &Request) -> Result<T, Failure> {
        self.ask(request).map_err(|error| self.failure(error))
    }

    pub(super) fn failure(&self, error: Error) -> Failure {
        Failure::Process { name: self.name(), error }
    }

    /// For people: program and number.
    pub(super) fn name(&self) -> String {
        one_line(&format!("{} ({})", self.is.program, self.is.pid))
    }

    /// Its program as a part of a file's name, whatever it calls that.
    pub(super) fn file_name(&self) -> String {
        self.is.program.trim_start_matches('.').replace(|c: char| c == '/' || c.is_control(), "_")
    }

    /// The directory of a session, with rings and journal: as the process sees it or, through a mount, where the process was
    /// found. `None`: its rings have no name.
    pub(super) fn directory(&self, session: &SessionState) -> Option<PathBuf> {
        let seen = session.rings.as_ref()?.parent()?;
        let mounted = self.image.path.join(seen.file_name()?);
        Some(if mounted.join("rings").exists() { mounted } else { seen.to_owned() })
    }

    /// Whether an error says that there is nobody who could answer: the process has ended, or has no agent.
    pub(super) fn is_absent(image: &Image, error: &Error) -> bool {
        let Error::Lost(error) = error else { return false };
        match error.kind() {
            io::ErrorKind::NotFound | io::ErrorKind::ConnectionRefused => true,
            // Or it let nobody in.
            io::ErrorKind::UnexpectedEof => image.is_gone(),
            _ => false,
        }
    }

    /// Whether an error says that the process did not answer in time.
    pub(super) fn is_silent(error: &Error) -> bool {
        matches!(error, Error::Lost(error) if matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut))
    }

    /// Its directory again: the process may have ended meanwhile.
    pub(super) fn has_ended(error: &Error) -> bool {
        matches!(error, Error::Lost(error) if matches!(error.kind(), io::ErrorKind::UnexpectedEof | io::ErrorKind::ConnectionRefused))
    }
}
