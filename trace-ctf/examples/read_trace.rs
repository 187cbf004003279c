//! Reads a trace: `read_trace DIRECTORY`. Without one, a small trace in memory.
//!
//! Whatever recorded it: LTTng, barectf, this tracer; in CTF 1.8 or CTF 2.

use std::path::Path;

use trace_ctf::metadata::{self, Format};
use trace_ctf::packet::{HEADER_LEN, PacketHeader};
use trace_ctf::reader::{Entry, Item, Merge, Scope, Selection, Trace};
use trace_ctf::schema::{self, Clock, EventClass, EventHeader, FieldClass, Schema, StreamClass};
use trace_ctf::text::Readable;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut trace = match std::env::args().nth(1) {
        Some(directory) => Trace::open(Path::new(&directory))?,
        None => example()?,
    };
    // What cannot be read is told, and does not keep the rest from being read.
    for error in trace.take_damage() {
        eprintln!("{error}");
    }

    // The schema: event classes with their fields.
    let declarations = trace.declarations();
    println!("{}: {} event classes", trace.format().name(), declarations.events().len());
    for class in declarations.events() {
        let fields = class.fields.iter().flat_map(|root| &root.structure.members);
        let names: Vec<&str> = fields.filter(|field| !field.is_companion()).map(|field| field.name()).collect();
        println!("{}: {}", class.name, names.join(", "));
    }

    // The streams, packet by packet. An event is a view of its packet: nothing is copied or allocated for it.
    let mut first: Option<i64> = None;
    for stream in trace.streams() {
        let (mut events, mut bytes) = (0, 0);
        for next in trace.packets(stream) {
            let (packet, losses) = next?;
            losses.iter().for_each(|loss| println!("lost: {:?} {:?}", loss.kind, loss.count));
            let mut all = packet.events();
            while let Some(event) = all.next_event() {
                let event = event?;
                first = first.min(event.timestamp()).or(event.timestamp());
                // Each value as it lies there.
                event.visit(Scope::Payload, |item| {
                    if let Item::Text(text) = item {
                        bytes += text.len();
                    }
                });
                events += 1;
            }
        }
        println!("stream {:?}: {events} events, {bytes} bytes of text", stream.instance_id());
    }

    // All streams in the order of time: from a time on, which an index finds, and only some classes of events.
    let from = first.unwrap_or_default() + 1_000;
    let selection = Selection::default().from(from).classes(|_, class| class.name.ends_with("request"));
    let mut merge = Merge::select([&trace], selection);
    let (mut lines, mut readable) = (Vec::new(), Readable::utc());
    while let Some(entry) = merge.next_entry() {
        if let Entry::Event(event) = entry? {
            // By its name; `Field` finds a field once for many events.
            let status = event.field("status").and_then(|value| value.as_u64());
            if status.is_some_and(|status| status >= 500) {
                readable.event(&event, &mut lines);
            }
        }
    }
    print!("{}", String::from_utf8_lossy(&lines));

    // The same trace for readers of the other version of the format: its streams stay as they are.
    let other = if trace.format() == Format::Ctf2 { Format::Ctf18 } else { Format::Ctf2 };
    println!("as {}: {} bytes of metadata", other.name(), other.convert(declarations)?.len());
    Ok(())
}

/// A trace of one stream with four requests, as a tracer would write it.
fn example() -> trace_ctf::Result<Trace> {
    let clock = Clock { uuid: [3; 16], offset_s: 1_700_000_000, ..Clock::default() };
    let streams = vec![StreamClass { id: 0, header: EventHeader::Compact, context: Vec::new() }];
    let mut schema = Schema::new(schema::Trace { uuid: [7; 16], environment: Vec::new(), clock, streams })?;
    schema.add(EventClass {
        stream_id: 0,
        id: 0,
        name: "app:request".into(),
        level: None,
        source: None,
        fields: vec![
            schema::Field::new("status", FieldClass::unsigned(16)),
            schema::Field::new("path", FieldClass::String { length_bits: 8 }),
        ],
    })?;
    let mut content = Vec::new();
    for (number, status) in (0_u64..).zip([500_u16, 200, 503, 200]) {
        let time = number * 1_000;
        EventHeader::Compact.encode(0, time, time.saturating_sub(1_000), &mut content);
        content.extend(status.to_le_bytes());
        content.extend(b"\x06/index");
    }
    let bits = (HEADER_LEN + content.len()) as u64 * 8;
    let header = PacketHeader { timestamp_end: 3_000, content_bits: bits, packet_bits: bits, ..PacketHeader::default() };
    let stream = [&header.encode(&schema.trace.uuid)[..], &content].concat();
    Trace::in_memory(metadata::write(&schema).as_bytes(), [("stream", stream)])
}
