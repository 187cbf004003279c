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
    /// What of a line was there when patience ended.
    received: Vec<u8>,
    next_id: u64,
    /// The first request whose answer did not come yet. Those before the last one were given up.
    unanswered: u64,
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
        Client::over(image.connect()?)
    }

    fn over(stream: UnixStream) -> io::Result<Client> {
        stream.set_write_timeout(Some(PATIENCE))?;
        stream.set_read_timeout(Some(LOOK))?;
        let stream = BufReader::new(stream);
        Ok(Client { stream, received: Vec::new(), next_id: 1, unanswered: 1, patience: PATIENCE })
    }

    /// Sets how long an answer may take.
    pub fn set_patience(&mut self, patience: Duration) {
        self.patience = patience;
    }

    /// Sends a request and waits for its answer. Answers to earlier requests that came too late are dropped.
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
        let until = Instant::now() + self.patience + Duration::from_millis(own);
        loop {
            let line = self.read_line(until)?;
            let answer: Answer = serde_json::from_slice(&line).map_err(|e| misunderstood(e.to_string()))?;
            match answer.id.as_u64() {
                // Requests are answered in their order.
                Some(of) if (self.unanswered..=id).contains(&of) => {
                    self.unanswered = of + 1;
                    if of == id {
                        return answer.read().map_err(Error::Refused);
                    }
                }
                // Why the connection ends.
                _ if answer.id.is_null() && answer.error.is_some() => return answer.read().map_err(Error::Refused),
                _ => return Err(misunderstood(format!("an answer to a request that waits for none: id {}", answer.id))),
            }
        }
    }

    fn read_line(&mut self, until: Instant) -> io::Result<Vec<u8>> {
        loop {
            match self.stream.read_until(b'\n', &mut self.received) {
                Ok(_) if self.received.ends_with(b"\n") => return Ok(std::mem::take(&mut self.received)),
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

fn misunderstood(problem: String) -> Error {
    Error::Lost(io::Error::new(io::ErrorKind::InvalidData, problem))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::protocol::RefusalKind;
    use serde_json::{Value, json};

    /// A client and its peer's end. What the peer sends is sent before it is asked, so nothing depends on time.
    fn pair() -> (Client, UnixStream) {
        let (own, peer) = UnixStream::pair().expect("sockets");
        let mut client = Client::over(own).expect("a client");
        client.set_patience(Duration::ZERO);
        (client, peer)
    }

    fn line(id: impl Into<Value>, ok: u64) -> String {
        Answer::line(id.into(), Ok(ok.into()))
    }

    fn ask(client: &mut Client) -> Result<u64, Error> {
        client.ask(&Request::Hello)
    }

    fn is_too_late(result: &Result<u64, Error>) -> bool {
        matches!(result, Err(Error::Lost(error)) if error.kind() == io::ErrorKind::WouldBlock)
    }

    #[test]
    fn answers_that_come_too_late_are_no_others() {
        let (mut client, mut peer) = pair();
        let mut send = |text: &str| peer.write_all(text.as_bytes()).expect("it is sent");
        for _ in 0..2 {
            assert!(is_too_late(&ask(&mut client)));
        }
        send(&[line(1, 10), line(2, 20), line(3, 30)].concat());
        assert_eq!(ask(&mut client).expect("an answer"), 30);
        // In the middle of a line.
        let late = line(4, 40);
        let (begin, end) = late.split_at(late.len() / 2);
        send(begin);
        assert!(is_too_late(&ask(&mut client)));
        send(&[end, &Answer::line(5.into(), Err(Refusal::new(RefusalKind::Busy, "later")))].concat());
        assert!(matches!(ask(&mut client), Err(Error::Refused(refusal)) if refusal.message == "later"));
        // The refusal of one that was given up is no other's either.
        assert!(is_too_late(&ask(&mut client)));
        send(&[Answer::line(6.into(), Err(Refusal::new(RefusalKind::Busy, "later"))), line(7, 70)].concat());
        assert_eq!(ask(&mut client).expect("an answer"), 70);
    }

    #[test]
    fn answers_to_what_was_not_asked_are_errors() {
        for wrong in [json!(2), json!(0), json!("1"), json!(-1), Value::Null] {
            let (mut client, mut peer) = pair();
            peer.write_all(line(wrong.clone(), 10).as_bytes()).expect("it is sent");
            let error = ask(&mut client).expect_err("it has another id").to_string();
            assert!(error.contains(&format!("waits for none: id {wrong}")), "{error}");
        }
        // The same twice.
        let (mut client, mut peer) = pair();
        peer.write_all([line(1, 10), line(1, 10)].concat().as_bytes()).expect("it is sent");
        assert_eq!(ask(&mut client).expect("an answer"), 10);
        assert!(ask(&mut client).expect_err("it was answered").to_string().contains("waits for none: id 1"));
        // One that belongs to no request says why the connection ends.
        let (mut client, mut peer) = pair();
        let refusal = Answer::line(Value::Null, Err(Refusal::new(RefusalKind::TooMany, "no room")));
        peer.write_all(refusal.as_bytes()).expect("it is sent");
        assert!(matches!(ask(&mut client), Err(Error::Refused(refusal)) if refusal.kind == RefusalKind::TooMany));
    }
}
