//! `ringtrace trim`: a part of a trace as a trace.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::{self, BufWriter, Write as _};
use std::path::{Path, PathBuf};

use trace_ctf::declared::{Clock, Member, StreamClass, Type};
use trace_ctf::packet::{HEADER_LEN, PacketHeader};
use trace_ctf::reader::{Event, LossKind, Packet, PacketInfo, Stream, Trace};
use trace_ctf::schema::EventHeader;

use super::names::THREAD_NAME;
use super::open;
use super::source::{Opened, Source};
use super::summary::Summary;
use crate::Outcome;
use crate::common::Common;
use crate::failure::Failure;

/// Writes the wanted events into a new trace: of some time, of some names, for which an expression holds.
///
/// Records are copied as they are, and what was lost between them is told as before. Names of threads stay: those that were told
/// before the part begins stand at its beginning. Other events from before are left out, those of state dumps too. For traces whose packets are those of this tracer and of LTTng-UST.
///
/// Example: ringtrace trim shop.ringtrace -o incident.ringtrace --from 14:05:09 --until 14:05:12
#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    #[command(flatten)]
    source: Source,

    /// Directory to make.
    #[arg(short, long, value_name = "DIRECTORY")]
    output: PathBuf,

    /// Only events of a thread. May be given several times.
    #[arg(long, value_name = "TID", help_heading = "Which events")]
    thread: Vec<i64>,
}

pub(crate) fn run(arguments: &Arguments, common: &Common) -> Result<Outcome, Failure> {
    let mut summary = Summary::default();
    let place = arguments.source.place.one()?;
    let opened = Opened::new(open::traces(&place)?, &arguments.source.wanted, &mut summary)?;
    let told = |path: &Path| {
        let path = path.to_owned();
        move |error| Failure::file(&path, error)
    };
    fs::create_dir(&arguments.output).map_err(told(&arguments.output))?;
    for trace in &opened.traces {
        // One trace becomes the directory itself, several keep their places below it.
        let inside = trace.path().strip_prefix(&place).unwrap_or(Path::new(""));
        let directory = arguments.output.join(inside);
        fs::create_dir_all(&directory).map_err(told(&directory))?;
        let metadata = directory.join("metadata");
        fs::copy(trace.path().join("metadata"), &metadata).map_err(told(&metadata))?;
        for stream in trace.streams() {
            let Some(name) = stream.files().next().and_then(Path::file_name) else { continue };
            let path = directory.join(name);
            let file = BufWriter::with_capacity(1 << 18, File::create(&path).map_err(told(&path))?);
            let trimmed =
                Trimmed { file, told: Box::new(told(&path)), uuid: trace.declarations().uuid.unwrap_or_default(), last: None };
            trimmed.stream(&opened, trace, stream, &arguments.thread, &mut summary)?;
        }
    }
    summary.written(&arguments.output, common)?;
    Ok(opened.close(&summary))
}

/// A stream on its way to its new file.
struct Trimmed {
    file: BufWriter<File>,
    told: Box<dyn Fn(io::Error) -> Failure>,
    uuid: [u8; 16],
    /// Header of the packet that was written last.
    last: Option<PacketHeader>,
}

/// An event's record in its packet.
struct Record {
    start: usize,
    cycles: u64,
    is_wanted: bool,
}

impl Trimmed {
    fn stream(
        mut self,
        opened: &Opened,
        trace: &Trace,
        stream: &Stream,
        threads: &[i64],
        summary: &mut Summary,
    ) -> Result<(), Failure> {
        let mut chooser = opened.chooser();
        let mut who = super::names::Who::default();
        let names = EarlyNames::read(opened, trace, stream);
        let mut packets = opened.packets(trace, stream);
        let mut discarded = 0;
        let (mut lost, mut end) = (0, None);
        while let Some(next) = packets.next() {
            let (packet, losses) = match next {
                Ok(next) => next,
                Err(error) => {
                    summary.damage(&error);
                    break;
                }
            };
            losses.iter().for_each(|loss| summary.loss(loss));
            lost += losses.iter().filter(|loss| loss.kind == LossKind::LostPackets).filter_map(|loss| loss.count).sum::<u64>();
            let header = self.header(&packet)?;
            if self.last.is_none() {
                // What was lost before the first packet is not of this part.
                let known = losses.iter().filter(|loss| loss.kind == LossKind::DiscardedEvents).filter_map(|loss| loss.count);
                discarded = header.events_discarded.saturating_sub(known.sum());
                let opening =
                    PacketHeader { sequence: 0, events_discarded: discarded, timestamp_end: header.timestamp_begin, ..header };
                self.begin(opening, names.as_ref(), summary)?;
            }
            let (mut records, mut broken) = (Vec::new(), None);
            let mut events = packet.events();
            while let Some(event) = events.next_event() {
                match event {
                    Ok(event) => {
                        let is_of_thread = threads.is_empty() || who.thread(&event).tid.is_some_and(|tid| threads.contains(&tid));
                        let is_wanted =
                            chooser.accepts(&event) && is_of_thread || event.name() == THREAD_NAME && chooser.is_in_time(&event);
                        summary.events += 1;
                        summary.shown += u64::from(is_wanted);
                        records.push(Record { start: event.place(), cycles: event.cycles(), is_wanted });
                    }
                    Err(error) => {
                        broken = Some(error);
                        break;
                    }
                }
            }
            if let Some(error) = broken {
                summary.damage(&error);
                // How long the last whole record is cannot be told from what follows it.
                records.pop();
                self.pieces(&packet, header, &records, (discarded, lost))?;
                break;
            }
            self.pieces(&packet, header, &records, (discarded, lost))?;
            lost = 0;
            discarded = header.events_discarded;
            end = Some(header);
            packets.recycle(packet);
        }
        if let (None, Some(names)) = (&self.last, &names) {
            let header = self.header(&names.packet)?;
            self.begin(
                PacketHeader { sequence: 0, timestamp_begin: names.at, timestamp_end: names.at, ..header },
                Some(names),
                summary,
            )?;
        }
        if let (Some(header), Some(last)) = (end, self.last) {
            // Losses behind the last event that was kept.
            if header.events_discarded > last.events_discarded {
                self.packet(PacketHeader { timestamp_begin: last.timestamp_end, ..header }, last.timestamp_end, &[], lost)?;
            }
        }
        self.file.flush().map_err(&self.told)
    }

    /// Begins the file with an empty packet, and with the names that were told before.
    fn begin(&mut self, opening: PacketHeader, names: Option<&EarlyNames>, summary: &mut Summary) -> Result<(), Failure> {
        let opening = names.map_or(opening, |names| PacketHeader {
            timestamp_begin: opening.timestamp_begin.min(names.at),
            timestamp_end: opening.timestamp_end.min(names.at),
            ..opening
        });
        self.file.write_all(&opening.encode_opening(&self.uuid)).map_err(&self.told)?;
        self.last = Some(opening);
        let Some(names) = names else { return Ok(()) };
        summary.events += names.records.len() as u64;
        summary.shown += names.records.len() as u64;
        let content = names.records.values().flatten().copied().collect::<Vec<_>>();
        self.packet(PacketHeader { timestamp_begin: names.at, ..opening }, names.at, &content, 0)
    }

    /// The header of a packet, which must be of the one form that is written here.
    fn header(&self, packet: &Packet) -> Result<PacketHeader, Failure> {
        let info = packet.info();
        let header = header(info);
        let is_known = header.is_some_and(|header| packet.bytes().starts_with(&header.encode(&self.uuid)));
        header.filter(|_| is_known && is_packed(packet.stream_class())).ok_or_else(|| {
            let file = packet.file().map_or_else(String::new, |file| file.display().to_string());
            Failure::Wrong(format!(
                "{file}: packets of a form that `trim` does not write\n  it takes those of this tracer and of LTTng-UST; `ringtrace export` \
                 takes all"
            ))
        })
    }

    /// Writes what is wanted of a packet: in several packets, where short time stamps do not bridge what is left out.
    fn pieces(
        &mut self,
        packet: &Packet,
        header: PacketHeader,
        records: &[Record],
        (before, mut lost): (u64, u64),
    ) -> Result<(), Failure> {
        let period = period(packet.stream_class());
        let bytes = packet.bytes();
        let (mut content, mut begin, mut last) = (Vec::new(), 0, 0);
        for (place, record) in records.iter().enumerate().filter(|(_, record)| record.is_wanted) {
            if !content.is_empty() && record.cycles.saturating_sub(last) >= period {
                let piece = PacketHeader { timestamp_begin: begin, events_discarded: before, ..header };
                self.packet(piece, last, &content, core::mem::take(&mut lost))?;
                content.clear();
            }
            if content.is_empty() {
                begin = if place == 0 && !packet.is_continued() { header.timestamp_begin } else { record.cycles };
                // Names that were told before stand where the part begins.
                begin = begin.max(self.last.map_or(0, |last| last.timestamp_end)).min(record.cycles);
            }
            let end = records.get(place + 1).map_or(bytes.len(), |next| next.start);
            content.extend(bytes.get(record.start..end).unwrap_or_default());
            last = record.cycles;
        }
        if content.is_empty() {
            return Ok(());
        }
        self.packet(PacketHeader { timestamp_begin: begin, ..header }, last, &content, lost)
    }

    fn packet(&mut self, header: PacketHeader, end: u64, content: &[u8], lost: u64) -> Result<(), Failure> {
        let bits = (HEADER_LEN + content.len()) as u64 * 8;
        let sequence = self.last.map_or(0, |last| last.sequence + 1) + lost;
        let header = PacketHeader { timestamp_end: end, content_bits: bits, packet_bits: bits, sequence, ..header };
        self.file.write_all(&header.encode(&self.uuid)).and_then(|()| self.file.write_all(content)).map_err(&self.told)?;
        self.last = Some(header);
        Ok(())
    }
}

/// The names of threads that a stream told before the part of it that is wanted.
struct EarlyNames {
    /// When the part begins, in cycles.
    at: u64,
    /// The last record of each thread, as one of that time.
    records: BTreeMap<i64, Vec<u8>>,
    /// A packet of the stream.
    packet: Packet,
}

impl EarlyNames {
    /// `None`: there are none. Damage is left to the reading of the part.
    fn read(opened: &Opened, trace: &Trace, stream: &Stream) -> Option<Self> {
        let from = opened.from()?;
        let class = trace.declarations().stream(stream.class_id())?;
        class.events().find(|class| class.name == THREAD_NAME)?;
        let at = first_cycle(class.clock()?, from);
        let (mut records, mut last) = (BTreeMap::new(), None);
        for (packet, _) in trace.packets(stream).between(None, Some(from)).map_while(Result::ok) {
            let mut events = packet.events();
            // A record ends where the next one begins.
            let mut open: Option<(i64, usize, Vec<u8>)> = None;
            let mut put = |open: Option<(i64, usize, Vec<u8>)>, end: usize| {
                if let Some((tid, start, mut record)) = open {
                    record.extend(packet.bytes().get(start..end).unwrap_or_default());
                    records.insert(tid, record);
                }
            };
            while let Some(Ok(event)) = events.next_event() {
                put(open.take(), event.place());
                let tid = event.field("tid").and_then(|tid| tid.as_i64());
                if let Some(tid) = tid.filter(|_| event.name() == THREAD_NAME && event.timestamp() < Some(from)) {
                    open = restamped(&event, at).map(|(head, length)| (tid, event.place() + length, head));
                }
            }
            put(open, packet.bytes().len());
            last = Some(packet);
        }
        let packet = last.filter(|_| !records.is_empty())?;
        Some(Self { at, records, packet })
    }
}

/// The header of a record as one of another time, at which its packet begins, and how many bytes it has now.
fn restamped(event: &Event<'_>, at: u64) -> Option<(Vec<u8>, usize)> {
    let bytes = event.packet().bytes().get(event.place()..)?;
    let id = u32::try_from(event.class().id).ok()?;
    let encoded = |header: EventHeader, time, previous| {
        let mut out = Vec::new();
        header.encode(id, time, previous, &mut out);
        out
    };
    // Of a long time stamp and of a short one.
    let forms = [EventHeader::Full, EventHeader::Compact, EventHeader::Large]
        .into_iter()
        .flat_map(|form| [(form, 0), (form, event.cycles())]);
    let (form, old) =
        forms.map(|(form, before)| (form, encoded(form, event.cycles(), before))).find(|(_, old)| bytes.starts_with(old))?;
    Some((encoded(form, at, at), old.len()))
}

/// The first cycle of a clock that is not before a time.
fn first_cycle(clock: &Clock, time: i64) -> u64 {
    let (mut low, mut high) = (0, u64::MAX >> 1);
    while low < high {
        let middle = low + (high - low) / 2;
        if clock.nanoseconds(middle).is_some_and(|ns| ns < time) { low = middle + 1 } else { high = middle }
    }
    low
}

fn header(info: &PacketInfo) -> Option<PacketHeader> {
    Some(PacketHeader {
        stream_class_id: info.stream_class_id.try_into().ok()?,
        stream_instance_id: info.stream_instance_id?,
        timestamp_begin: info.timestamp_begin?,
        timestamp_end: info.timestamp_end?,
        content_bits: info.content_bits?,
        packet_bits: info.packet_bits?,
        sequence: info.sequence?,
        events_discarded: info.events_discarded?,
        cpu_id: info.cpu_id?.try_into().ok()?,
    })
}

/// Cycles after which the shortest time stamps of a stream begin anew.
fn period(class: &StreamClass) -> u64 {
    fn shortest(members: &[Member]) -> u32 {
        let bits = |member: &Member| match &member.class {
            Type::Integer(integer) if integer.clock.is_some() => u32::from(integer.bits),
            Type::Structure(structure) => shortest(&structure.members),
            Type::Variant(variant) => shortest(&variant.options),
            _ => 64,
        };
        members.iter().map(bits).min().unwrap_or(64)
    }
    let bits = class.event_header.as_ref().map_or(64, |root| shortest(&root.structure.members));
    1_u64.checked_shl(bits).unwrap_or(u64::MAX)
}

/// Whether records can lie at any byte.
fn is_packed(class: &StreamClass) -> bool {
    let roots = class.events().flat_map(|event| [&event.context, &event.fields]);
    [&class.event_header, &class.event_context].into_iter().chain(roots).flatten().all(|root| root.structure.align <= 8)
}
