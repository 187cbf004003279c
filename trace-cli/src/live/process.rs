//! A process that answers.

use std::io;
use std::path::PathBuf;
use std::time::Duration;

use serde::de::DeserializeOwned;
use serde_json::Value;
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
    /// Where the process has several copies of ringtrace, each with an agent: which one this is, by its version.
    pub(super) copy: Option<String>,
    /// The rules that concern this copy.
    pub(super) share: Option<String>,
    client: Client,
}

/// How long a process may take to say who it is, before it counts as stopped.
const GREETING: Duration = Duration::from_secs(2);
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
        Ok(Process { image, is, copy: None, share: None, client })
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

    /// Adds to a line of JSON about it which copy of ringtrace it is, where its process has several.
    pub(super) fn line(&self, mut line: Value) -> Value {
        if let Some(copy) = &self.copy {
            line["copy"] = copy.as_str().into();
        }
        line
    }

    /// For people: program and number, and which copy of ringtrace in it.
    pub(super) fn name(&self) -> String {
        match &self.copy {
            Some(copy) => one_line(&format!("{} ({}, ringtrace {copy})", self.is.program, self.is.pid)),
            None => one_line(&format!("{} ({})", self.is.program, self.is.pid)),
        }
    }

    /// Its program as a part of a file's name, whatever it calls that.
    pub(super) fn file_name(&self) -> String {
        self.is.program.trim_start_matches('.').replace(|c: char| c == '/' || c.is_control(), "_")
    }

    /// Whether another one is a copy of ringtrace in the same process.
    pub(super) fn is_beside(&self, other: &Process) -> bool {
        let (own, its) = (&self.is, &other.is);
        let is_one_process = (own.pid, own.start_time, &own.program) == (its.pid, its.start_time, &its.program);
        is_one_process && self.image.name != other.image.name
    }

    /// The version of ringtrace in it, and what else tells it from another copy.
    pub(super) fn version(&self) -> &str {
        self.copy.as_ref().unwrap_or(&self.is.ringtrace)
    }

    /// What `-p` takes for this copy alone.
    pub(super) fn chosen_by(&self) -> String {
        one_line(&format!("{}@{}", self.is.pid, self.version()))
    }

    /// Of some rules, those that concern it.
    pub(super) fn rules<'r>(&'r self, rules: &'r str) -> &'r str {
        self.share.as_deref().unwrap_or(rules)
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
