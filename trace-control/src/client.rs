//! The asking side.

use crate::place::{Image, is_orphaned};
use crate::proof;
use crate::protocol::{LONGEST_ANSWER, LONGEST_REQUEST, Proof, Received, Refusal, RefusalKind, Request, VERSION, VersionOnly};
use crate::sys::receive;
use serde::de::{DeserializeOwned, IgnoredAny};
use std::fmt;
use std::hash::{BuildHasher as _, RandomState};
use std::io::{self, Write as _};
use std::os::unix::net::UnixStream;
use std::time::{Duration, Instant};

/// A connection to a program's agent. Nothing that the peer does makes it take more memory than an answer has, or more time than
/// its patience and that for a proof.
#[derive(Debug)]
pub struct Client {
    stream: UnixStream,
    /// What was received and not yet taken.
    received: Vec<u8>,
    /// The process that sent all of that.
    sender: Option<u32>,
    /// The process that sent the last answer.
    answered_by: Option<u32>,
    next_id: u64,
    /// The first request whose answer did not come yet. Those before the last one were given up.
    unanswered: u64,
    patience: Duration,
    longest_answer: usize,
}

/// How long an answer may take that needs no waiting in the program.
const PATIENCE: Duration = Duration::from_secs(5);

/// How often the client checks whether the program that is to answer still runs.
const LOOK: Duration = Duration::from_millis(200);

/// Most characters of a refusal's message.
const LONGEST_MESSAGE: usize = 16 << 10;

/// Why there is no answer.
#[derive(Debug)]
pub enum Error {
    /// The program refused.
    Refused(Refusal),
    /// The program speaks this version of the control protocol, and not [`VERSION`].
    Version(u32),
    /// The connection failed: the program has ended, is stopped, or is not ours.
    Lost(io::Error),
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Error::Refused(refusal) => f.write_str(&refusal.message),
            Error::Version(theirs) => write!(
                f,
                "the process speaks version {theirs} of the control protocol, and this ringtrace ({}) version {VERSION}; use the \
                 ringtrace of the version that the program was built with",
                env!("CARGO_PKG_VERSION")
            ),
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
        #[cfg(target_os = "linux")]
        rustix::net::sockopt::set_socket_passcred(&stream, true)?;
        Ok(Client {
            stream,
            received: Vec::new(),
            sender: None,
            answered_by: None,
            next_id: 1,
            unanswered: 1,
            patience: PATIENCE,
            longest_answer: LONGEST_ANSWER,
        })
    }

    /// Sets how long an answer may take.
    pub fn set_patience(&mut self, patience: Duration) {
        self.patience = patience;
    }

    /// Sets how many bytes an answer may have, its line end included; at first [`LONGEST_ANSWER`].
    pub fn set_longest_answer(&mut self, bytes: usize) {
        self.longest_answer = bytes;
    }

    /// Returns the connection, for who sends lines of their own; what was asked is answered.
    pub fn into_stream(self) -> UnixStream {
        self.stream
    }

    /// Sends a request and waits for its answer. Answers to earlier requests that came too late are dropped. Where the program
    /// asks for a [proof], and the kernel lets this process find it, it is given, which takes no longer than one answer may.
    ///
    /// # Errors
    ///
    /// The program refused, has ended, speaks another version, or does not answer in time.
    pub fn ask<T: DeserializeOwned>(&mut self, request: &Request) -> Result<T, Error> {
        // What the program waits for itself comes on top.
        let own = match request {
            Request::Watch(watch) => watch.ms,
            Request::Why(why) => why.ms,
            Request::Firings(after) => after.ms,
            Request::Stop(_) | Request::Destroy(_) => 60_000,
            _ => 0,
        };
        let own = Duration::from_millis(own);
        match self.ask_once(request, Instant::now() + self.patience + own) {
            Err(Error::Refused(refusal)) if refusal.kind == RefusalKind::Unproven => {
                // It is not stopped, so what follows has time.
                self.ask_with_proof(request, refusal, Instant::now() + PATIENCE + own)
            }
            answered => answered,
        }
    }

    /// Shows that the kernel lets this process look into the program, and asks again. What is shown is of the process that
    /// refused, and no other ([`proof`]).
    fn ask_with_proof<T: DeserializeOwned>(&mut self, request: &Request, first: Refusal, until: Instant) -> Result<T, Error> {
        let asked = self.answered_by;
        let Some(opened) = asked.and_then(|pid| proof::Opened::process(pid).ok()) else { return Err(Error::Refused(first)) };
        // Nobody can have answered it already.
        self.next_id += RandomState::new().hash_one(self.next_id) >> 16;
        let refusal = match self.ask_once(request, until) {
            Err(Error::Refused(refusal)) if refusal.kind == RefusalKind::Unproven => refusal,
            answered => return answered,
        };
        if self.answered_by != asked {
            return Err(Error::Refused(refusal));
        }
        for secret in opened.secrets() {
            match self.ask_once::<IgnoredAny>(&Request::Prove(Proof { secret }), until) {
                Ok(_) => return self.ask_once(request, until),
                Err(Error::Refused(_)) => {}
                Err(lost) => return Err(lost),
            }
        }
        Err(Error::Refused(refusal))
    }

    fn ask_once<T: DeserializeOwned>(&mut self, request: &Request, until: Instant) -> Result<T, Error> {
        let id = self.next_id;
        self.next_id += 1;
        let line = request.to_line(id);
        if line.len() > LONGEST_REQUEST {
            // The program would end the connection before it has read it all.
            let message =
                format!("a request has at most {LONGEST_REQUEST} bytes, and this one {}: are the rules too many?", line.len());
            return Err(Error::Refused(Refusal::new(RefusalKind::TooLong, message)));
        }
        self.stream.write_all(line.as_bytes())?;
        loop {
            let line = self.read_line(until)?;
            let version: VersionOnly = serde_json::from_slice(&line).map_err(|e| misunderstood(&e.to_string()))?;
            if version.v != VERSION {
                return Err(Error::Version(version.v));
            }
            let answer: Received<'_> = serde_json::from_slice(&line).map_err(|e| misunderstood(&e.to_string()))?;
            match answer.id.map(|id| id.get().parse()) {
                // Requests are answered in their order.
                Some(Ok(of)) if (self.unanswered..=id).contains(&of) => {
                    self.unanswered = of + 1;
                    if of == id {
                        return answer.read().map_err(refused);
                    }
                }
                // Why the connection ends. It may have been sent before the request, so it says nothing of who is there.
                None if answer.error.is_some() => {
                    self.answered_by = None;
                    return answer.read().map_err(refused);
                }
                _ => {
                    let id = answer.id.map_or("null", |id| id.get()).chars().take(32).collect::<String>();
                    return Err(misunderstood(&format!("an answer to a request that waits for none: id {id}")));
                }
            }
        }
    }

    /// Returns the next line, where it is there by then: many that come slowly are no reason to wait longer.
    fn read_line(&mut self, until: Instant) -> io::Result<Vec<u8>> {
        let is_late = || Instant::now() >= until;
        let mut searched = 0;
        loop {
            let end = self.received[searched..].iter().position(|b| *b == b'\n').map(|at| searched + at + 1);
            searched = self.received.len();
            if end.unwrap_or(searched) > self.longest_answer {
                let problem = format!("the answer has more than {} bytes, which is the most that is read", self.longest_answer);
                return Err(io::Error::new(io::ErrorKind::InvalidData, problem));
            }
            if let Some(end) = end {
                let rest = self.received.split_off(end);
                self.answered_by = self.sender;
                return Ok(std::mem::replace(&mut self.received, rest));
            }
            let mut bytes = [0; 16 << 10];
            match receive(&self.stream, &mut bytes) {
                Ok((0, _)) => return Err(io::ErrorKind::UnexpectedEof.into()),
                Ok((count, sender)) => {
                    let is_begun = !self.received.is_empty();
                    self.sender = sender.filter(|_| !is_begun || self.sender == sender);
                    self.received.extend_from_slice(&bytes[..count]);
                    // Once more where that was its end.
                    if is_late() && !bytes[..count].contains(&b'\n') {
                        return Err(io::ErrorKind::WouldBlock.into());
                    }
                }
                Err(error) if matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut) => {
                    // A child that it forked may hold the connection open.
                    if is_orphaned(&self.stream) {
                        return Err(io::ErrorKind::UnexpectedEof.into());
                    }
                    if is_late() {
                        return Err(error);
                    }
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
    }
}

fn misunderstood(problem: &str) -> Error {
    let problem = format!("the process does not speak the control protocol: {problem}");
    Error::Lost(io::Error::new(io::ErrorKind::InvalidData, problem))
}

/// A refusal that people can read.
fn refused(mut refusal: Refusal) -> Error {
    if refusal.message.len() > LONGEST_MESSAGE {
        refusal.message = refusal.message.chars().take(LONGEST_MESSAGE).chain(" …".chars()).collect();
    }
    Error::Refused(refusal)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::protocol::{Answer, Listing};
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

    #[test]
    fn an_answer_without_end_is_given_up_and_takes_no_more_memory_than_an_answer() {
        let (mut client, mut peer) = pair();
        client.set_patience(Duration::from_secs(60));
        client.set_longest_answer(1 << 20);
        let sending = std::thread::spawn(move || (0_u64..).take_while(|_| peer.write_all(&[b'['; 4096]).is_ok()).count());
        let error = ask(&mut client).expect_err("it does not end").to_string();
        assert!(error.contains("more than 1048576 bytes"), "{error}");
        assert!(client.received.capacity() <= 2 << 20);
        drop(client);
        assert!(sending.join().expect("it ends when nobody reads") >= (1 << 20) / 4096);
    }

    #[test]
    fn patience_is_for_the_whole_answer() {
        let (mut client, mut peer) = pair();
        client.set_patience(Duration::from_millis(300));
        // A byte is there whenever the client looks.
        let sending = std::thread::spawn(move || {
            while peer.write_all(b" ").is_ok() {
                std::thread::sleep(Duration::from_millis(1));
            }
        });
        let error = ask(&mut client).expect_err("it does not end").to_string();
        assert!(error.contains("does not answer"), "{error}");
        drop(client);
        sending.join().expect("it ends when nobody reads");
    }

    #[test]
    fn an_answer_of_another_version_is_named_as_such() {
        for answer in [r#"{"v":3,"id":1,"ok":7}"#, r#"{"result":{},"v":3}"#, r#"{"v":3,"error":{"reason":[]}}"#] {
            let (mut client, mut peer) = pair();
            peer.write_all(format!("{answer}\n").as_bytes()).expect("it is sent");
            let error = ask(&mut client).expect_err("it is of another version").to_string();
            let own = format!("version 3 of the control protocol, and this ringtrace ({}) version 1", env!("CARGO_PKG_VERSION"));
            assert!(error.contains(&own), "{error}");
        }
    }

    #[test]
    fn nonsense_is_an_error() {
        let deep = |open: &str| open.repeat(100_000);
        let long = Answer::line(1.into(), Err(Refusal::new(RefusalKind::Other, "é".repeat(1 << 20))));
        for (answer, phrase) in [
            ("HTTP/1.1 400 Bad Request".to_owned(), "does not speak the control protocol"),
            ("{}".to_owned(), "missing field `v`"),
            (deep("["), "does not speak the control protocol"),
            (format!(r#"{{"v":1,"id":1,"ok":{}"#, deep(r#"{"a":"#)), "does not speak the control protocol"),
            (format!(r#"{{"v":1,"id":1,"ok":{}{}}}"#, deep("["), deep("]")), "is not understood"),
            (r#"{"v":1,"id":1,"ok":{"tracepoints":7}}"#.to_owned(), "is not understood"),
            (format!(r#"{{"v":1,"id":{}{}}}"#, deep("["), deep("]")), "waits for none"),
            (long, "éé"),
        ] {
            let (mut client, mut peer) = pair();
            client.set_patience(Duration::from_secs(60));
            // The peer stays: what it has not read would end the connection before the answer is read.
            let sending = std::thread::spawn(move || peer.write_all(format!("{answer}\n").as_bytes()).map(|()| peer));
            let error = client.ask::<Listing>(&Request::List).expect_err("it is nonsense").to_string();
            assert!(error.contains(phrase) && error.len() < 3 * LONGEST_MESSAGE, "{}", &error[..error.len().min(200)]);
            drop(sending.join().expect("it is sent").expect("it is read"));
        }
    }
}
