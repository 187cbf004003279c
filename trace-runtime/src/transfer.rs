//! Transfer: from rings to an output, packet by packet; for a session's consumer, for snapshots, and for recovery.
#![expect(unsafe_code, reason = "hands the rings' memory to the output")]

use crate::error::Result;
use crate::metadata;
use crate::output::{Packet, Sink, StreamId};
use crate::rcu::lock;
use crate::ring_buffer::{Losses, Reader};
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use trace_ctf::schema as ctf;

/// Fallback records are gathered to packets of about this size, in bytes.
const FALLBACK_PACKET: usize = 64 << 10;
const FALLBACK: StreamId = StreamId { class: metadata::FALLBACK, instance: 0 };

/// The event classes of a session, in the order in which they were described; shared with whoever describes more. A leaf among
/// locks: nobody waits for an output under it.
pub(crate) type Classes = Arc<Mutex<Vec<ctf::EventClass>>>;

/// What the packets of a stream told so far.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Told {
    pub(crate) begin_ns: u64,
    pub(crate) end_ns: u64,
    pub(crate) discarded: u64,
    /// Records that this transfer moved.
    pub(crate) records: u64,
}

/// Which packets a transfer takes, and from where it counts losses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Span {
    /// All; losses since the session began.
    Whole,
    /// Those that end at this time or later; losses since the first of them began.
    Since(u64),
}

/// What stands in front of each payload.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Front {
    /// In bytes.
    size: usize,
    has_cpu: bool,
}

impl Front {
    /// That of the records of a trace's rings.
    pub(crate) fn of(trace: &ctf::Trace) -> Front {
        let rings = trace.streams.iter().find(|stream| stream.id == metadata::RINGS);
        let fields = rings.map_or(&[][..], |stream| &stream.context);
        let bytes = |field: &ctf::Field| match field.class {
            ctf::FieldClass::Integer { bits, .. } => usize::from(bits) / 8,
            ctf::FieldClass::Text { length } => length as usize,
            _ => 0, // there are none, see `Context::fields`
        };
        Front { size: fields.iter().map(bytes).sum(), has_cpu: fields.iter().any(|field| field.name == "cpu") }
    }
}

/// A reader of rings, and the output that gets what it reads.
pub(crate) struct Transfer {
    pub(crate) reader: Reader,
    context: Front,
    span: Span,
    told: BTreeMap<StreamId, Told>,
    /// Losses of a stream that came before its span.
    before: BTreeMap<StreamId, u64>,
    /// Losses of earlier readers.
    earlier: BTreeMap<StreamId, u64>,
    /// For a snapshot, when recording began: a stream of which nothing is missing is whole from there on, others from their first packet.
    pub(crate) origin_ns: Option<u64>,
    /// When the last packet, or record, ended that is not in the span.
    left_out: BTreeMap<StreamId, u64>,
    /// Records of each buffer that were overwritten, as its last packet told.
    overwritten: BTreeMap<u32, u64>,
    pub(crate) sink: Box<dyn Sink>,
    /// None where the output has all from the beginning.
    classes: Classes,
    /// How many of them the output has.
    described: usize,
    /// Whether another process may still write to the rings.
    pub(crate) is_foreign: bool,
    /// The records delivered.
    pub(crate) events: u64,
    /// Bytes of those.
    pub(crate) bytes: u64,
}

/// What is known of a packet besides what the output gets.
#[derive(Clone, Copy)]
struct Extent {
    records: u64,
    /// Losses of its stream before it.
    lost_before: u64,
    /// Whether nothing was lost since its first record.
    is_whole: bool,
}

impl Transfer {
    pub(crate) fn new(reader: Reader, context: Front, span: Span, sink: Box<dyn Sink>) -> Transfer {
        let told = sink.told().into_iter().collect();
        Transfer {
            reader,
            context,
            span,
            told,
            before: BTreeMap::new(),
            earlier: BTreeMap::new(),
            origin_ns: None,
            left_out: BTreeMap::new(),
            overwritten: BTreeMap::new(),
            sink,
            classes: Classes::default(),
            described: 0,
            is_foreign: false,
            events: 0,
            bytes: 0,
        }
    }

    /// Goes on with other rings of the same form, in the same streams.
    pub(crate) fn go_on_with(&mut self, reader: Reader) {
        self.earlier = self.told.iter().map(|(stream, told)| (*stream, told.discarded)).collect();
        (self.reader, self.span) = (reader, Span::Whole);
    }

    /// From now on describes these classes, and what comes behind them, to the output.
    pub(crate) fn with_classes(self, classes: Classes) -> Transfer {
        Transfer { classes, ..self }
    }

    /// Describes to the output what it has not yet.
    pub(crate) fn describe(&mut self) -> Result<()> {
        let new = lock(&self.classes)[self.described..].to_vec();
        if !new.is_empty() {
            self.sink.describe(&new)?;
            self.described += new.len();
        }
        Ok(())
    }

    /// The classes that the output has.
    pub(crate) fn described(&self) -> Vec<ctf::EventClass> {
        lock(&self.classes)[..self.described].to_vec()
    }

    /// What was told of each stream.
    pub(crate) fn told(&self) -> &BTreeMap<StreamId, Told> {
        &self.told
    }

    /// Records of a buffer that were overwritten in its life; `None`: it had no packet.
    pub(crate) fn overwritten(&self, buffer: u32) -> Option<u64> {
        self.overwritten.get(&buffer).copied()
    }

    /// How full the fullest ring is, in 1/256.
    pub(crate) fn fullness(&self) -> u32 {
        let geometry = self.reader.geometry();
        let ring = u64::from(geometry.sub_buffer) * u64::from(geometry.sub_buffers);
        (0..geometry.buffers).map(|buffer| (self.reader.pending(buffer) * 256 / ring) as u32).max().unwrap_or(0)
    }

    /// Delivers what is finished, with `cut` what is committed too. `last`: nobody writes any more, or the reader has an end;
    /// otherwise this ends however fast events come: after as much as a ring holds, and after a cut. Returns how full the
    /// fullest ring was, in 1/256.
    pub(crate) fn deliver(&mut self, cut: bool, last: bool) -> Result<u32> {
        let fullness = self.fullness();
        let geometry = self.reader.geometry();
        let most = if last { u32::MAX } else { geometry.sub_buffers };
        let mut going: Vec<(u32, u32)> = (0..geometry.buffers).map(|buffer| (buffer, most)).collect();
        // The fullest go first: their writers are the next to overwrite, or to find no room.
        while let Some(fullest) = going.iter().map(|(buffer, _)| self.reader.pending(*buffer)).max() {
            let mut next = Vec::with_capacity(going.len());
            for (buffer, most) in going {
                if self.reader.pending(buffer) + u64::from(geometry.sub_buffer) <= fullest {
                    next.push((buffer, most)); // it can wait
                } else if let Some(closes) = self.deliver_one(buffer, cut)? {
                    let most = if closes { most - 1 } else { 0 };
                    if most > 0 || last {
                        next.push((buffer, most));
                    }
                }
            }
            going = next;
        }
        self.deliver_fallback(last)?;
        self.sink.settle()?;
        Ok(fullness)
    }

    /// Delivers the next packet of a buffer. Returns whether it closed its sub-buffer; `None`: there is none.
    fn deliver_one(&mut self, buffer: u32, cut: bool) -> Result<Option<bool>> {
        let Some(packet) = self.reader.next(buffer, cut) else { return Ok(None) };
        self.overwritten.insert(buffer, packet.losses.overwritten);
        let is_wanted = match self.span {
            Span::Whole => true,
            Span::Since(since_ns) => packet.end_ns >= since_ns && packet.records > 0,
        };
        let stream = StreamId { class: metadata::RINGS, instance: packet.cpu };
        if !is_wanted && packet.records > 0 {
            self.left_out.insert(stream, packet.end_ns);
        }
        if is_wanted {
            let copy;
            let content = if self.is_foreign {
                copy = packet.to_vec();
                &copy
            } else {
                // SAFETY: CO-1, or it is a snapshot's copy: the session's rings have this reader only, and their file is closed to
                // other users.
                unsafe { packet.as_slice() }
            };
            let (begin_ns, end_ns, overwritten) = (packet.begin_ns, packet.end_ns, packet.losses.overwritten);
            let at_open = packet.discarded_at_open.map(|discarded| discarded.saturating_add(overwritten));
            // The sample of a cut may be older than its sub-buffer.
            let discarded = packet.losses.total().max(at_open.unwrap_or(0));
            let lost_before = packet.discarded_before.saturating_add(overwritten);
            let extent = Extent { records: u64::from(packet.records), lost_before, is_whole: at_open == Some(discarded) };
            self.tell(&Packet { stream, cpu: packet.cpu, begin_ns, end_ns, discarded, content }, extent)?;
        }
        let closes = packet.closes;
        self.reader.consume(packet);
        Ok(Some(closes))
    }

    fn tell(&mut self, packet: &Packet<'_>, extent: Extent) -> Result<()> {
        let had = self.sink.had(packet);
        if had > 0 && had == packet.content.len() {
            return Ok(()); // its losses are told at the end
        }
        if !self.told.contains_key(&packet.stream) {
            self.open(packet, extent.lost_before)?;
        }
        // A packet behind the one that ended the stream, when recording began again, may continue a sub-buffer whose last
        // record came before that end. Its own first record came later, so the later begin completes its short stamps too.
        let told = self.told.get(&packet.stream).copied().unwrap_or_default();
        let before = match self.span {
            Span::Whole => 0,
            Span::Since(_) => *self.before.entry(packet.stream).or_insert(extent.lost_before),
        };
        let earlier = self.earlier.get(&packet.stream).copied().unwrap_or(0);
        let packet = &Packet {
            begin_ns: packet.begin_ns.max(told.end_ns),
            end_ns: packet.end_ns.max(told.end_ns),
            // A reader takes the difference; a sample that was taken earlier than the last one told must not be one of 2⁶⁴.
            discarded: earlier.saturating_add(packet.discarded.saturating_sub(before)).max(told.discarded),
            content: &packet.content[had..],
            ..*packet
        };
        // Behind the look into the rings, so whatever the packet holds was described before this (JR-4).
        self.describe()?;
        if extent.is_whole && had == 0 && packet.discarded > told.discarded {
            // Readers take what a packet tells for lost at any time up to its end: this says that it was before the first record.
            self.sink.deliver(&Packet { end_ns: packet.begin_ns, content: &[], ..*packet })?;
        }
        self.sink.deliver(packet)?;
        self.bytes += packet.content.len() as u64;
        self.events += extent.records;
        let begin_ns = if told.records == 0 { packet.begin_ns } else { told.begin_ns };
        let records = told.records + extent.records;
        self.told.insert(packet.stream, Told { begin_ns, end_ns: packet.end_ns, discarded: packet.discarded, records });
        Ok(())
    }

    /// Says in a snapshot from when a stream is whole: it begins with an empty packet of that time.
    fn open(&mut self, first: &Packet<'_>, lost_before: u64) -> Result<()> {
        let Some(origin_ns) = self.origin_ns else { return Ok(()) };
        let was_lapped = first.stream == FALLBACK && self.reader.fallback_was_lapped();
        let is_whole = lost_before == 0 && !was_lapped && !self.left_out.contains_key(&first.stream);
        let begin_ns = if is_whole { origin_ns.min(first.begin_ns) } else { first.begin_ns };
        self.sink.deliver(&Packet { begin_ns, end_ns: begin_ns, discarded: 0, content: &[], ..*first })
    }

    /// The fallback region's records become packets of a stream class of their own.
    fn deliver_fallback(&mut self, last: bool) -> Result<()> {
        let mut left = if last { usize::MAX } else { self.reader.geometry().fallback as usize };
        let lost_before = self.reader.fallback_losses().discarded();
        while left > 0 {
            let mut content = Vec::new();
            let mut span: Option<(u64, u64)> = None;
            let mut records = 0;
            while content.len() < FALLBACK_PACKET {
                let Some(record) = self.reader.next_fallback(last) else { break };
                if matches!(self.span, Span::Since(since_ns) if record.ns < since_ns) {
                    self.left_out.insert(FALLBACK, record.ns);
                    continue;
                }
                let begin = span.map_or(record.ns, |(begin, _)| begin);
                span = Some((begin, record.ns));
                records += 1;
                content.extend_from_slice(&record.id.to_le_bytes());
                content.extend_from_slice(&record.ns.to_le_bytes());
                let (context, payload) = record.payload.split_at(self.context.size.min(record.payload.len()));
                content.extend_from_slice(context);
                if !self.context.has_cpu {
                    content.extend_from_slice(&record.cpu.to_ne_bytes());
                }
                content.extend_from_slice(payload);
            }
            let Some((begin_ns, end_ns)) = span else { return Ok(()) };
            left = left.saturating_sub(content.len());
            let discarded = self.told_losses(&self.reader.fallback_losses());
            let packet = Packet { stream: FALLBACK, cpu: 0, begin_ns, end_ns, discarded, content: &content };
            self.tell(&packet, Extent { records, lost_before, is_whole: false })?;
            self.reader.consume_fallback();
        }
        Ok(())
    }

    /// Losses of the fallback region as the output is told them: it does not know which of the overwritten records were of a
    /// span.
    fn told_losses(&self, losses: &Losses) -> u64 {
        if self.span == Span::Whole { losses.total() } else { losses.discarded() }
    }

    /// Ends each stream that has packets, or losses to tell, with an empty packet; at `now_ns`, or where its last one ended.
    pub(crate) fn close(&mut self, now_ns: u64) -> Result<()> {
        let rings = (0..self.reader.geometry().buffers).filter_map(|buffer| {
            let cpu = self.reader.cpu(buffer)?;
            let stream = StreamId { class: metadata::RINGS, instance: cpu };
            Some((stream, cpu, self.reader.buffer_losses(buffer).total()))
        });
        let rings = rings.collect::<Vec<_>>();
        let fallback = (FALLBACK, 0, self.told_losses(&self.reader.fallback_losses()));
        for (stream, cpu, discarded) in rings.into_iter().chain([fallback]) {
            let is_told = self.told.contains_key(&stream);
            if let (Some(_), false, Some(&end_ns)) = (self.origin_ns, is_told, self.left_out.get(&stream)) {
                // All of it lies before the span: without a word it would be taken for a stream that never had an event.
                self.sink.deliver(&Packet { stream, cpu, begin_ns: end_ns, end_ns, discarded: 0, content: &[] })?;
            }
            // What was lost after a span is not of it.
            let discarded = if self.span == Span::Whole || stream == FALLBACK { discarded } else { 0 };
            if is_told || discarded > 0 && self.span == Span::Whole {
                let packet = Packet { stream, cpu, begin_ns: now_ns, end_ns: now_ns, discarded, content: &[] };
                self.tell(&packet, Extent { records: 0, lost_before: 0, is_whole: false })?;
            }
        }
        Ok(())
    }
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use super::*;
    use crate::clock::Clock;
    use crate::ring_buffer::{Channel, ClockKind, Config, Geometry, HeaderKind, Mode, Outcome, Placement, Purpose};
    use proptest::prelude::*;
    use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};

    struct Discarding;

    impl Config for Discarding {
        const MODE: Mode = Mode::Discard;
        const CLOCK: ClockKind = ClockKind::Os;
        const HEADER: HeaderKind = HeaderKind::Large;
        const PLACEMENT: Placement = Placement::Cpu;
    }

    /// What a packet tells: begin, end, and the events discarded so far.
    type Heard = (u64, u64, u64);

    struct Listener(Arc<Mutex<Vec<Heard>>>);

    impl Sink for Listener {
        fn describe(&mut self, _: &[ctf::EventClass]) -> Result<()> {
            Ok(())
        }

        fn deliver(&mut self, packet: &Packet<'_>) -> Result<()> {
            lock(&self.0).push((packet.begin_ns, packet.end_ns, packet.discarded));
            Ok(())
        }

        fn settle(&mut self) -> Result<()> {
            Ok(())
        }

        fn written(&self) -> u64 {
            0
        }

        fn flush(&mut self) -> Result<()> {
            Ok(())
        }
    }

    /// Stays on one CPU, and returns it.
    fn pin() -> u32 {
        let allowed = sched_getaffinity(None).expect("affinity");
        let cpu = (0..CpuSet::MAX_CPU).find(|cpu| allowed.is_set(*cpu)).expect("a CPU");
        let mut set = CpuSet::new();
        set.set(cpu);
        sched_setaffinity(None, &set).expect("pinned");
        cpu as u32
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]
        /// A reader takes events for lost between the end of the packet before and that of the packet that counts them.
        #[test]
        fn what_a_full_ring_loses_is_lost_between_the_records_around_it(
            bursts in proptest::collection::vec((1_u32..400, any::<bool>(), any::<bool>()), 1..40),
        ) {
            let geometry = Geometry { buffers: pin() + 1, sub_buffer: 4096, sub_buffers: 4, fallback: 0 };
            let channel = Channel::<Discarding>::in_memory(geometry).expect("a channel");
            let heard = Arc::new(Mutex::new(Vec::new()));
            let reader = channel.reader(Purpose::Consume).expect("the first reader");
            let front = Front { size: 0, has_cpu: false };
            let mut transfer = Transfer::new(reader, front, Span::Whole, Box::new(Listener(heard.clone())));
            let (mut recorded, mut lost) = (Vec::new(), Vec::new());
            let now = || Clock::process().os_ns();
            for (count, delivers, cut) in bursts {
                for _ in 0..count {
                    let before = now();
                    let outcome = channel.record(1, &[&[7; 100]]);
                    let span = (before, now());
                    match outcome {
                        Outcome::Recorded => recorded.push(span),
                        Outcome::Full => lost.push(span),
                        // Without restartable sequences, or interrupted again and again.
                        _ => return Ok(()),
                    }
                }
                if delivers {
                    transfer.deliver(cut, false).expect("it is heard");
                }
            }
            transfer.deliver(true, true).expect("it is heard");
            transfer.close(now()).expect("it is heard");
            let (mut holes, mut last) = (Vec::new(), (0, 0, 0));
            for packet in lock(&heard).iter().copied() {
                prop_assert!(packet.0 >= last.1 && packet.1 >= packet.0 && packet.2 >= last.2, "{last:?} {packet:?}");
                if packet.2 > last.2 {
                    holes.push((last.1, packet.1));
                }
                last = packet;
            }
            prop_assert_eq!(last.2, lost.len() as u64);
            for (before, after) in lost {
                prop_assert!(holes.iter().any(|hole| hole.0 <= after && before <= hole.1), "{before} {after}: {holes:?}");
            }
            for (before, after) in recorded {
                prop_assert!(!holes.iter().any(|hole| hole.0 < before && after < hole.1), "{before} {after}: {holes:?}");
            }
        }
    }
}
