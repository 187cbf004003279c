//! Snapshots: what a session in overwrite mode holds now becomes a trace of its own, while writers go on.
//!
//! Writers do not take part: sub-buffers are copied and checked against being overtaken, what is committed of the present ones
//! too. Nothing is switched, stopped or consumed, so snapshots of a ring that rests are equal.
//!
//! ```text
//! beside the session's trace:   SESSION.snapshots/TIME-REASON.ringtrace
//! ```
//!
//! Each stream begins with an empty packet of the time from which it is whole: when recording began, or when its first packet
//! does, if older ones were overwritten or lie before what was asked for. The latest of these is when the trace is whole.
//!
//! A snapshot is written under another name and renamed when it is complete. Processes of one program share the directory, and a file in
//! each snapshot says whose it is: the newest are kept of a process's own and of those whose process is gone. What another process
//! that lives has made is left alone. What a killed process had not completed is removed by [`recovery`].

use crate::consumer::{self, Request};
use crate::error::{Error, Kind, Result};
use crate::keep::{self, NotKept, Sieve, Tally};
use crate::metadata;
use crate::output::{Directory, Packet, Sink, StreamId};
use crate::process::{self, Process};
use crate::rcu::lock;
use crate::recording::Recording;
use crate::recovery;
use crate::ring_buffer::{Mode, Purpose};
use crate::state;
use crate::sys;
use crate::transfer::{Front, Span, Told, Transfer};
use rustix::fs::{CWD, RenameFlags};
use std::fmt;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::time::Duration;
use trace_control::place::{self, ImageName};
use trace_control::protocol::Snapshots;
use trace_ctf::schema as ctf;
use trace_registry::sync::{AtomicU64, Ordering};

/// What a snapshot holds.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Receipt {
    /// The trace directory.
    pub path: PathBuf,
    /// Why it was made.
    pub reason: String,
    /// Events in it.
    pub events: u64,
    /// Bytes of their records.
    pub bytes: u64,
    /// What it covers of each ring that had events: the span of time is that of its sub-buffers.
    pub rings: Vec<Covered>,
    /// Events that were there when it was begun, and were overwritten before they were copied.
    pub overwritten: u64,
    /// Events that are missing between the first and the last: lost when they happened, or overwritten meanwhile.
    pub lost: u64,
    /// Events that were left out, where events are kept by keys: nothing had marked theirs.
    pub not_kept: u64,
    /// Keys that were marked and of which there was no event any more.
    pub keys_gone: u64,
    /// Events of state dumps, which were run for it. They are among the others, and in none of the rings.
    pub state_events: u64,
    /// Whether a state dump had not returned within a second, so that its rest is missing; or none could be run.
    pub is_state_late: bool,
}

/// What a snapshot covers of one ring.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Covered {
    /// CPU or concurrency ID of the ring; `None`: the fallback region.
    pub cpu: Option<u32>,
    /// From this time, in ns of the trace's clock.
    pub begin_ns: u64,
    /// To this time.
    pub end_ns: u64,
    /// Events.
    pub events: u64,
    /// Whether older ones had been overwritten before.
    pub was_lapped: bool,
}

/// What is asked for.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Wanted<'a> {
    pub(crate) reason: &'a str,
    /// Only what happened in this time; everything without it.
    pub(crate) last: Option<Duration>,
    /// Snapshots that are kept, this one included.
    pub(crate) keep: usize,
}

/// Name of a snapshot's directory until it is complete: this, the process and a number.
const UNFINISHED: &str = ".unfinished-";

impl Recording {
    /// Takes a snapshot. Waits for no writer and no grace period.
    pub(crate) fn snapshot(self: &Arc<Self>, wanted: Wanted<'_>) -> Result<Receipt> {
        self.check_process()?;
        let core = &self.channel.core;
        if core.settings().mode != Mode::Overwrite {
            return Err(Kind::NoFlightRecorder(self.name.clone()).into());
        }
        if !self.is_recording() {
            return Err(Kind::Delivered(self.name.clone()).into());
        }
        let overwritten_at = |buffer| core.buffer_losses(buffer).overwritten;
        let before: Vec<u64> = (0..core.geometry().buffers).map(overwritten_at).collect();
        let records = core.records();
        let since_ns = wanted.last.map_or(0, |last| self.process.clock.now_ns().saturating_sub(last.as_nanos() as u64));
        let reader = core.reader(Purpose::Snapshot);
        let reader = reader.ok_or_else(|| Error::io("cannot read", "the rings", io::ErrorKind::ResourceBusy))?;
        let keeps = self.kept.wait().is_some();
        if keeps && !consumer::is_this_thread() {
            // What marks keys is followed up to where the reader ends. Without the thread nothing marks any.
            let _ = consumer::request(|reply| Request::Follow(self.clone(), reply));
        }
        let (state, is_state_late) = match state::now(self) {
            Ok(Some(state::Now { reader, is_late })) => (Some(reader), is_late),
            Ok(None) => (None, false),
            Err(error) => {
                self.warn(format!("a snapshot is without the program's state: {error}"));
                (None, true)
            }
        };
        // After the readers: the classes of whatever it finds are described (JR-1).
        let (mut trace, classes, names, origin_ns) = {
            let mut delivery = lock(&self.delivery);
            let (trace, classes, names) = delivery.description(self.process.clock.now_ns());
            (trace, classes, names, delivery.origin_ns)
        };
        let made = state.as_ref().map_or(0, |_| self.process.clock.now_ns()); // the state is of a moment
        trace.uuid = uuid(trace.uuid, records ^ made, wanted.last);
        trace.environment.push(("snapshot_reason".to_owned(), ctf::EnvValue::String(wanted.reason.to_owned())));

        let parent = self.snapshots.clone();
        place_for(&parent)?;
        let unfinished = Unfinished::new(&parent);
        let mut directory = Directory::create(&unfinished.0, &trace, self.builder.format, None)?.at_once();
        // First: it says who may remove what is not completed.
        directory.put(OWNER, Owner::own(self.process).to_string().as_bytes())?;
        directory.describe(&classes)?;
        let tally = Arc::new(Mutex::new(Tally::default()));
        let sink: Box<dyn Sink> = match keeps {
            true => Box::new(Sieve::new(Box::new(directory), self.kept.clone(), &trace, &classes, Some(tally.clone()))?),
            false => Box::new(directory),
        };
        let mut transfer = Transfer::new(reader, Front::of(&trace), Span::Since(since_ns), sink);
        transfer.origin_ns = Some(origin_ns);
        transfer.deliver(true, true)?;
        transfer.close(0)?;
        let lapped = (0..core.geometry().buffers).filter(|buffer| core.buffer_losses(*buffer).overwritten > 0);
        let mut lapped: Vec<Option<u32>> = lapped.map(|buffer| transfer.reader.cpu(buffer)).collect();
        lapped.extend(transfer.reader.fallback_was_lapped().then_some(None));
        let overwritten = before.iter().zip(0..).map(|(before, buffer)| {
            // Overtaken by a whole lap, the reader found nothing.
            transfer.overwritten(buffer).unwrap_or_else(|| overwritten_at(buffer)).saturating_sub(*before)
        });
        let overwritten = overwritten.sum();
        let rings: Vec<Covered> = {
            let tally = lock(&tally);
            let covered = |(stream, told): (&StreamId, &Told)| {
                let cpu = (stream.class == metadata::RINGS).then_some(stream.instance);
                let left_out = tally.left_out.get(stream).copied().unwrap_or(0);
                let events = told.records.saturating_sub(left_out);
                Covered { cpu, begin_ns: told.begin_ns, end_ns: told.end_ns, events, was_lapped: lapped.contains(&cpu) }
            };
            transfer.told().iter().map(covered).collect()
        };
        if let Some(state) = state {
            transfer.go_on_with(state);
            transfer.deliver(true, true)?;
            transfer.close(0)?;
        }
        let begin_ns = transfer.told().values().map(|told| told.begin_ns).min().unwrap_or(since_ns);
        if let Some(content) = metadata::thread_names(&names, begin_ns) {
            let stream = StreamId { class: metadata::CONSUMER, instance: 0 };
            let (begin_ns, end_ns) = (begin_ns, begin_ns);
            transfer.sink.deliver(&Packet { stream, cpu: 0, begin_ns, end_ns, discarded: 0, content: &content })?;
        }
        let tally = lock(&tally);
        let not_kept = tally.left_out.values().sum();
        if not_kept > 0 {
            let end_ns = transfer.told().values().map(|told| told.end_ns).max().unwrap_or(begin_ns);
            keep::tell(&mut *transfer.sink, &NotKept { events: not_kept, ..NotKept::default() }, end_ns)?;
        }
        transfer.sink.flush()?;
        let events = transfer.told().values().map(|told| told.records).sum::<u64>() - not_kept;
        let receipt = Receipt {
            path: PathBuf::new(),
            reason: wanted.reason.to_owned(),
            events,
            state_events: events - rings.iter().map(|ring| ring.events).sum::<u64>(),
            is_state_late,
            bytes: transfer.bytes - tally.left_out_bytes,
            overwritten,
            lost: transfer.told().values().map(|told| told.discarded).sum(),
            not_kept,
            keys_gone: tally.gone(),
            rings,
        };
        drop(transfer);
        let path = unfinished.finish(&parent, wanted.reason)?;
        keep_newest(&parent, &path, wanted.keep, &Owner::own(self.process));
        let kept = |saved: u64| Some((saved + 1).min(wanted.keep.max(1) as u64));
        // Relaxed: a figure for people. It never fails.
        let _ = self.saved.fetch_update(Ordering::Relaxed, Ordering::Relaxed, kept);
        Ok(Receipt { path, ..receipt })
    }

    /// How many snapshots of it are kept, and where; `None`: none was taken.
    pub(crate) fn saved(&self) -> Option<Snapshots> {
        // Relaxed: as above.
        let kept = self.saved.load(Ordering::Relaxed);
        (kept > 0).then(|| Snapshots { kept, directory: self.snapshots.clone() })
    }
}

/// Where the snapshots of a session lie, beside its trace: an absolute path, since the program may go elsewhere. By the session's name,
/// or the program's, whatever the trace is called: so those of earlier processes are found there, and only the newest of all are kept.
pub(crate) fn directory_of(session: &str, trace: Option<&Path>) -> PathBuf {
    let program = process::session_name();
    let name = if session == crate::environment::SESSION_NAME { &program } else { session };
    let path = trace.and_then(Path::parent).unwrap_or(Path::new("")).join(format!("{name}.snapshots"));
    std::path::absolute(&path).unwrap_or(path)
}

/// Removes the snapshots that a process, which has ended, had not completed. Returns how many those were.
pub(crate) fn remove_unfinished(snapshots: &Path, image: ImageName) -> usize {
    let prefix = format!("{UNFINISHED}{image}-");
    let entries = fs::read_dir(snapshots).into_iter().flatten().flatten();
    let unfinished = entries.filter(|entry| entry.file_name().to_string_lossy().starts_with(&prefix));
    unfinished.filter(|entry| fs::remove_dir_all(entry.path()).is_ok()).count()
}

/// A UUID that is the same only for a snapshot of the same events: readers take traces with one UUID for parts of one.
fn uuid(mut session: [u8; 16], records: u64, last: Option<Duration>) -> [u8; 16] {
    const ODD: u64 = 0x9e37_79b9_7f4a_7c15;
    let last = last.map_or(0, |last| last.as_nanos() as u64 | 1);
    let mixed = records.wrapping_add(1).wrapping_mul(ODD) ^ last.wrapping_mul(ODD).rotate_left(32);
    for (byte, mixed) in session[8..].iter_mut().zip(mixed.to_le_bytes()) {
        *byte ^= mixed;
    }
    session[8] = session[8] & 0x3f | 0x80; // RFC 9562: the variant
    session
}

fn place_for(parent: &Path) -> Result<()> {
    if let Some(above) = parent.parent() {
        fs::create_dir_all(above).map_err(|e| Error::io("cannot create", above, e))?;
    }
    place::private_directory(parent).map_err(|e| Error::io("cannot keep snapshots in", parent, e))
}

/// A snapshot that is being written; removed when it is dropped.
struct Unfinished(PathBuf);

impl Unfinished {
    fn new(parent: &Path) -> Unfinished {
        static NUMBER: AtomicU64 = AtomicU64::new(0);
        // Relaxed: only different.
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        Unfinished(parent.join(format!("{UNFINISHED}{}-{number}", process::image_name())))
    }

    /// Gives it its name: the time, why, and a number where that exists.
    fn finish(self, parent: &Path, reason: &str) -> Result<PathBuf> {
        let stamp = sys::local_time_stamp_ms();
        let word = word(reason);
        let mut number = 1;
        loop {
            let more = if number == 1 { String::new() } else { format!("-{number}") };
            let path = parent.join(format!("{stamp}{word}{more}.ringtrace"));
            match rustix::fs::renameat_with(CWD, &self.0, CWD, &path, RenameFlags::NOREPLACE) {
                Ok(()) => return Ok(path),
                Err(rustix::io::Errno::EXIST) if number < 1000 => number += 1,
                Err(error) => return Err(Error::io("cannot name the snapshot", path, error)),
            }
        }
    }
}

impl Drop for Unfinished {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0); // it has another name now, if it is complete
    }
}

/// A reason as a part of a file's name.
fn word(reason: &str) -> String {
    let words: Vec<String> =
        reason.split(|c: char| !c.is_alphanumeric()).filter(|word| !word.is_empty()).map(str::to_lowercase).collect();
    let word: String = words.join("-").chars().take(40).collect();
    if word.is_empty() { word } else { format!("-{}", word.trim_end_matches('-')) }
}

/// Name of the file in a snapshot that says whose it is.
const OWNER: &str = ".owner";

/// The process that made a snapshot.
#[derive(Debug, PartialEq, Eq)]
struct Owner {
    image: ImageName,
    /// Of process IDs.
    namespace: u64,
    boot: u64,
    host: String,
}

impl Owner {
    fn own(process: &Process) -> Owner {
        let (namespace, boot) = (sys::pid_namespace(), recovery::boot_word(&process.boot_id));
        Owner { image: process::image_name(), namespace, boot, host: process.host.clone() }
    }

    fn of(snapshot: &Path) -> Option<Owner> {
        let text = fs::read_to_string(snapshot.join(OWNER)).ok()?;
        let mut words = text.split(' ');
        let image = words.next()?.parse().ok()?;
        let mut number = || words.next()?.parse().ok();
        Some(Owner { image, namespace: number()?, boot: number()?, host: words.collect::<Vec<_>>().join(" ") })
    }

    /// Whether it has ended, as far as this process can know: of another container, or of another machine, it cannot.
    fn is_gone(&self, own: &Owner) -> bool {
        let is_of_earlier_boot = self.boot != own.boot;
        self.host == own.host && (is_of_earlier_boot || self.namespace == own.namespace && !self.image.is_running())
    }
}

impl fmt::Display for Owner {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {} {} {}", self.image, self.namespace, self.boot, self.host)
    }
}

/// Removes the oldest snapshots of this process, and of those that are gone, but never `newest`; and what the latter did not complete.
fn keep_newest(parent: &Path, newest: &Path, keep: usize, own: &Owner) {
    let mut found = Vec::new();
    for entry in fs::read_dir(parent).into_iter().flatten().flatten() {
        let (path, name) = (entry.path(), entry.file_name());
        let name = name.to_string_lossy();
        let is_snapshot = name.ends_with(".ringtrace") && name.starts_with(|c: char| c.is_ascii_digit());
        match Owner::of(&path) {
            Some(owner) if is_snapshot && path != newest && (owner == *own || owner.is_gone(own)) => {
                // Names begin with the local time, which is set back each autumn.
                found.push((entry.metadata().and_then(|metadata| metadata.modified()).ok(), path));
            }
            Some(owner) if name.starts_with(UNFINISHED) && owner.is_gone(own) => drop(fs::remove_dir_all(path)),
            _ => {}
        }
    }
    found.sort();
    // One more is the newest.
    for (_, path) in found.iter().take((found.len() + 1).saturating_sub(keep.max(1))) {
        let _ = fs::remove_dir_all(path);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reasons_become_words_of_a_name() {
        assert_eq!(word("p99 above 5 ms!"), "-p99-above-5-ms");
        assert_eq!(word("../../etc"), "-etc");
        assert_eq!(word("?"), "");
        assert!(word(&"long ".repeat(50)).len() <= 41);
    }

    #[test]
    fn the_newest_snapshots_stay_whatever_the_clock_said() {
        let directory = tempfile::tempdir().expect("a directory");
        let here = directory.path();
        let own = Owner { image: process::image_name(), namespace: 1, boot: 2, host: "here".to_owned() };
        // Of an earlier boot.
        let gone = Owner { image: ImageName { id: 7, ..own.image }, namespace: 1, boot: 1, host: "here".to_owned() };
        let make = |name: &str, owner: &Owner, age: u64| {
            let path = here.join(name);
            fs::create_dir(&path).expect("a directory");
            fs::write(path.join(OWNER), owner.to_string()).expect("a file");
            let time = std::time::SystemTime::now() - Duration::from_secs(age);
            fs::File::open(&path).and_then(|directory| directory.set_modified(time)).expect("its time");
            path
        };
        let left = || {
            let mut names: Vec<_> =
                fs::read_dir(here).expect("it").flatten().map(|e| e.file_name().into_string().expect("text")).collect();
            names.sort();
            names
        };
        // By the zone of before, these are of an hour that comes again.
        for (name, age) in
            [("20261025-024000.ringtrace", 30), ("20261025-025000.ringtrace", 20), ("20261025-025900.ringtrace", 10)]
        {
            make(name, &own, age);
        }
        make(".unfinished-1-1-00000007-0", &gone, 5);
        make(".unfinished-1-1-00000008-0", &own, 5);
        let newest = make("20261025-020000.ringtrace", &own, 0);
        keep_newest(here, &newest, 2, &own);
        assert_eq!(left(), [".unfinished-1-1-00000008-0", "20261025-020000.ringtrace", "20261025-025900.ringtrace"]);
        // The clock was set back by more than that.
        let newest = make("20261024-120000.ringtrace", &own, 90_000);
        keep_newest(here, &newest, 1, &own);
        assert_eq!(left(), [".unfinished-1-1-00000008-0", "20261024-120000.ringtrace"]);
    }

    #[test]
    fn uuids_differ_where_events_do() {
        let session = [7; 16];
        let all = [uuid(session, 1, None), uuid(session, 2, None), uuid(session, 1, Some(Duration::from_secs(1)))];
        assert!(all[0] != all[1] && all[0] != all[2] && all[1] != all[2]);
        assert_eq!(uuid(session, 2, None), all[1]);
    }
}
