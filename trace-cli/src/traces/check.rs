//! `ringtrace check`: whether a trace is as a trace should be.

use std::fs;
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};

use serde_json::json;
use trace_ctf::index::{self, Entry};
use trace_ctf::reader::{LossKind, Packet, PacketInfo, Stream, Trace};

use super::open::Place;
use super::whole::Whole;
use super::{source, time};
use crate::Outcome;
use crate::common::Common;
use crate::failure::{Failure, remedy};
use crate::live::text::{out, table};

/// Findings that are shown of each stream.
const SHOWN: usize = 10;

/// Examines a trace: metadata, packets, their order and sizes, time stamps, counters, indexes.
///
/// Each problem is told with its file, packet and byte; the exit code is 5 if there is one. What the tracer itself counts as lost
/// is told too, and is no problem, as is that the CPUs of a snapshot begin at different times.
#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    #[command(flatten)]
    place: Place,
}

/// What was found about one stream.
#[derive(Debug, Default)]
struct Report {
    packets: u64,
    events: u64,
    discarded: u64,
    lost: u64,
    findings: Vec<String>,
    /// Findings beyond those that are kept.
    more: u64,
}

impl Report {
    fn find(&mut self, finding: impl FnOnce() -> String) {
        if self.findings.len() < SHOWN {
            self.findings.push(finding());
        } else {
            self.more += 1;
        }
    }
}

pub(crate) fn run(arguments: &Arguments, common: &Common) -> Result<Outcome, Failure> {
    let mut traces = arguments.place.open()?;
    let mut out = io::BufWriter::new(out(common.json));
    let (mut rows, mut findings, mut events) = (Vec::new(), Vec::new(), 0);
    for trace in &mut traces {
        let damage = trace.take_damage();
        findings.extend(damage.iter().map(|error| format!("{error}\n  {}", remedy(error))));
        let trace = &*trace;
        for stream in trace.streams() {
            let mut report = Report::default();
            examine(trace, stream, &mut report);
            let file = stream.files().next().map_or_else(String::new, |file| file.display().to_string());
            if common.json {
                let row = json!({ "stream": file, "stream_class": stream.class_id(), "instance": stream.instance_id(),
                    "packets": report.packets, "events": report.events, "discarded_events": report.discarded,
                    "lost_packets": report.lost, "problems": report.findings, "more_problems": report.more });
                writeln!(out, "{row}")?;
            }
            let name = Path::new(&file).file_name().map_or_else(|| file.clone(), |name| name.to_string_lossy().into_owned());
            let counts =
                [report.packets, report.events, report.discarded, report.lost, report.findings.len() as u64 + report.more];
            rows.push([counts.map(|count| count.to_string()).as_slice(), &[name]].concat());
            findings.extend(report.findings);
            if report.more > 0 {
                findings.push(format!("{file}: and {} more of this stream", report.more));
            }
            events += report.events;
        }
    }
    let whole = Whole::of(&traces, None, None);
    let extent = source::first(&traces).and_then(|first| whole.extent(first, None));
    if common.json {
        let problems = json!({ "events": events, "well": findings.is_empty(), "problems": findings,
            "whole": whole.json(extent.as_ref()) });
        writeln!(out, "{problems}")?;
    } else {
        write!(out, "{}", table(&[">packets", ">events", ">discarded", ">lost", ">problems", "stream"], rows))?;
        if !findings.is_empty() {
            writeln!(out)?;
        }
        findings.iter().try_for_each(|finding| writeln!(out, "problem: {finding}"))?;
        match findings.len() {
            0 => writeln!(out, "no problems: {events} events")?,
            1 => writeln!(out, "1 problem, {events} events are whole")?,
            count => writeln!(out, "{count} problems, {events} events are whole")?,
        }
        if let Some(extent) = &extent {
            writeln!(out, "whole: {}", whole.describe(extent, &time::zone(false)))?;
        }
    }
    out.flush()?;
    Ok(if findings.is_empty() { Outcome::Complete } else { Outcome::Unwell })
}

fn examine(trace: &Trace, stream: &Stream, report: &mut Report) {
    let mut packets = trace.packets(stream);
    let mut previous: Option<PacketInfo> = None;
    let mut last_event = None;
    let mut index: Option<Indexed> = None;
    while let Some(next) = packets.next() {
        let (packet, losses) = match next {
            Ok(next) => next,
            Err(error) => {
                report.find(|| format!("{error}\n  {}", remedy(&error)));
                return;
            }
        };
        report.packets += u64::from(!packet.is_continued());
        for loss in &losses {
            match loss.kind {
                LossKind::DiscardedEvents => report.discarded += loss.count.unwrap_or_default(),
                LossKind::LostPackets => report.lost += loss.count.unwrap_or_default(),
            }
        }
        let info = packet.info().clone();
        if !packet.is_continued() {
            headers(&packet, previous.as_ref(), report);
        }
        let mut events = packet.events();
        while let Some(event) = events.next_event() {
            let event = match event {
                Ok(event) => event,
                Err(error) => {
                    report.find(|| format!("{error}\n  {}", remedy(&error)));
                    return;
                }
            };
            report.events += 1;
            let cycles = event.cycles();
            let at = event.byte_offset();
            let problem = |what: String| place(&packet, at) + &what;
            if last_event.is_some_and(|last| cycles < last) {
                let last = last_event.unwrap_or_default();
                report.find(|| problem(format!("the time of {} goes back by {} cycles", event.name(), last - cycles)));
            }
            if info.timestamp_begin.is_some_and(|begin| cycles < begin) || info.timestamp_end.is_some_and(|end| cycles > end) {
                report.find(|| problem(format!("the time of {} lies outside of its packet", event.name())));
            }
            last_event = Some(cycles);
        }
        if let Some(file) = packet.file().filter(|_| !packet.is_continued()) {
            if index.as_ref().is_none_or(|index| index.stream.as_path() != &**file) {
                index.replace(Indexed::open(file, report)).into_iter().for_each(|index| index.close(report));
            }
            if let Some(index) = &mut index {
                index.compare(packet.byte_offset(), &info, report);
            }
        }
        previous = Some(info);
        packets.recycle(packet);
    }
    index.into_iter().for_each(|index| index.close(report));
}

fn place(packet: &Packet, at: u64) -> String {
    let file = packet.file().map_or_else(String::new, |file| file.display().to_string());
    format!("{file}: packet {}, byte {at}: ", packet.number())
}

fn headers(packet: &Packet, previous: Option<&PacketInfo>, report: &mut Report) {
    let info = packet.info();
    let problem = |what: String| place(packet, packet.byte_offset()) + &what;
    if let (Some(begin), Some(end)) = (info.timestamp_begin, info.timestamp_end)
        && begin > end
    {
        report.find(|| problem("the packet ends before it begins".to_owned()));
    }
    // Once for all that follow each other.
    if info.is_of_another_trace && previous.is_none_or(|previous| !previous.is_of_another_trace) {
        report.find(|| problem("the packet has another UUID than the metadata: it may be of another trace".to_owned()));
    }
    let Some(previous) = previous else { return };
    if let (Some(end), Some(begin)) = (previous.timestamp_end, info.timestamp_begin)
        && begin < end
    {
        report.find(|| problem(format!("the packet begins {} cycles before the one in front of it ends", end - begin)));
    }
    if let (Some(before), Some(now)) = (previous.sequence, info.sequence)
        && now <= before
    {
        report.find(|| problem(format!("packet number {now} follows {before}")));
    }
    if let (Some(before), Some(now)) = (previous.events_discarded, info.events_discarded)
        && now < before
    {
        report.find(|| problem(format!("the count of discarded events goes back from {before} to {now}")));
    }
}

/// The index beside a stream file, where there is one, on the way through the file.
struct Indexed {
    stream: PathBuf,
    path: PathBuf,
    entries: Vec<Entry>,
    /// Packets of the file so far.
    packets: usize,
    is_compared: bool,
}

impl Indexed {
    fn open(stream: &Path, report: &mut Report) -> Self {
        let name = stream.file_name().unwrap_or_default().to_string_lossy();
        let path = stream.with_file_name("index").join(format!("{name}.idx"));
        let entries = match fs::read(&path).map(|bytes| index::decode(&bytes)) {
            Ok(Ok(entries)) => Some(entries),
            Ok(Err(error)) => {
                report.find(|| format!("{}: {error}", path.display()));
                None
            }
            Err(_) => None,
        };
        let is_compared = entries.is_some();
        Self { stream: stream.to_owned(), path, entries: entries.unwrap_or_default(), packets: 0, is_compared }
    }

    /// Compares the next packet; one difference of a file is enough.
    fn compare(&mut self, offset: u64, info: &PacketInfo, report: &mut Report) {
        let number = self.packets;
        self.packets += 1;
        let Some(what) = self.entries.get(number).and_then(|entry| differs(entry, offset, info)) else { return };
        if core::mem::take(&mut self.is_compared) {
            let path = self.path.display();
            report.find(|| format!("{path}: entry {number} has another {what} than the packet at byte {offset}"));
        }
    }

    fn close(self, report: &mut Report) {
        let Self { path, entries, packets, is_compared, .. } = self;
        if is_compared && entries.len() != packets {
            report.find(|| format!("{}: {} packets, the stream has {packets}", path.display(), entries.len()));
        }
    }
}

/// What an entry of an index says otherwise than the packet; what the packet does not say may be anything.
fn differs(entry: &Entry, offset: u64, info: &PacketInfo) -> Option<&'static str> {
    let packet = &entry.packet;
    let pairs = [
        ("offset", Some(offset), entry.offset),
        ("size", info.packet_bits, packet.packet_bits),
        ("content size", info.content_bits, packet.content_bits),
        ("begin", info.timestamp_begin, packet.timestamp_begin),
        ("end", info.timestamp_end, packet.timestamp_end),
        ("count of discarded events", info.events_discarded, packet.events_discarded),
        ("stream class", Some(info.stream_class_id), packet.stream_class_id.into()),
        ("stream", info.stream_instance_id, packet.stream_instance_id),
        ("number", info.sequence, packet.sequence),
    ];
    pairs.into_iter().find(|(_, own, indexed)| own.is_some_and(|own| own != *indexed)).map(|(what, ..)| what)
}
