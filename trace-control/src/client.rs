//! The asking side.

use crate::place::{Image, is_orphaned};
use crate::protocol::{Answer, LONGEST_REQUEST, Refusal, RefusalKind, Request};
use serde::de::DeserializeOwned;
use std::fmt;
use std::io::{self, BufRead as _, BufReader, Write as _};
use std::os::unix::net::UnixStream;
use std::time::{Duration, Instant};

/// A connection to a program's agent.
#[derive(Debug)]
pub struct Client {
    stream: BufReader<UnixStream>,
    next_id: u64,
    patience: Duration,
}

/// How long an answer may take that needs no waiting in the program.
const PATIENCE: Duration = Duration::from_secs(5);

/// So often it is looked whether the program that is to answer still runs.
const LOOK: Duration = Duration::from_millis(200);

/// Why there is no answer.
#[derive(Debug)]
pub enum Error {
    /// The program refused.
    Refused(Refusal),
    /// The connection failed: the program has ended, is stopped, or is not ours.
    Lost(io::Error),
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Error::Refused(refusal) => f.write_str(&refusal.message),
            Error::Lost(error) if error.kind() == io::ErrorKind::UnexpectedEof => f.write_str("the process has ended"),
            Error::Lost(error) if matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut) => {
                f.write_str("the process does not answer; is it stopped?")
            }
            Error::Lost(error) => error.fmt(f),
        }
    }
}

impl std::error::Error for Error {}

impl From<io::Error> for Error {
    fn from(error: io::Error) -> Error {
        // The peer ended while it was written to, or with lines unread.
        match error.kind() {
            io::ErrorKind::BrokenPipe | io::ErrorKind::ConnectionReset => Error::Lost(io::ErrorKind::UnexpectedEof.into()),
            _ => Error::Lost(error),
        }
    }
}

impl Client {
    /// Connects to the agent of a process image.
    ///
    /// # Errors
    ///
    /// As for [`Image::connect`].
    pub fn connect(image: &Image) -> io::Result<Client> {
        let stream = image.connect()?;
        stream.set_write_timeout(Some(PATIENCE))?;
        Ok(Client { stream: BufReader::new(stream), next_id: 1, patience: PATIENCE })
    }

    /// Sets how long an answer may take.
    pub fn set_patience(&mut self, patience: Duration) {
        self.patience = patience;
    }

    /// Sends a request and waits for its answer.
    ///
    /// # Errors
    ///
    /// The program refused, has ended, or does not answer in time.
    pub fn ask<T: DeserializeOwned>(&mut self, request: &Request) -> Result<T, Error> {
        let id = self.next_id;
        self.next_id += 1;
        let line = request.to_line(id);
        if line.len() > LONGEST_REQUEST {
            // The program would end the connection before it has read it all.
            let message =
                format!("a request has at most {LONGEST_REQUEST} bytes, and this one {}: are the rules too many?", line.len());
            return Err(Error::Refused(Refusal::new(RefusalKind::TooLong, message)));
        }
        self.stream.get_mut().write_all(line.as_bytes())?;
        // What the program waits for itself comes on top.
        let own = match request {
            Request::Watch(watch) => watch.ms,
            Request::Why(why) => why.ms,
            Request::Firings(after) => after.ms,
            Request::Stop(_) | Request::Destroy(_) => 60_000,
            _ => 0,
        };
        let line = self.read_line(Instant::now() + self.patience + Duration::from_millis(own))?;
        let answer: Answer =
            serde_json::from_slice(&line).map_err(|e| Error::Lost(io::Error::new(io::ErrorKind::InvalidData, e)))?;
        answer.read().map_err(Error::Refused)
    }

    fn read_line(&mut self, until: Instant) -> io::Result<Vec<u8>> {
        let mut line = Vec::new();
        self.stream.get_ref().set_read_timeout(Some(LOOK))?;
        loop {
            match self.stream.read_until(b'\n', &mut line) {
                Ok(_) if line.ends_with(b"\n") => return Ok(line),
                Ok(_) => return Err(io::ErrorKind::UnexpectedEof.into()),
                Err(error) if matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut) => {
                    // A child that it forked may hold the connection open.
                    if is_orphaned(self.stream.get_ref()) {
                        return Err(io::ErrorKind::UnexpectedEof.into());
                    }
                    if Instant::now() >= until {
                        return Err(error);
                    }
                }
                Err(error) => return Err(error),
            }
        }
    }
}
