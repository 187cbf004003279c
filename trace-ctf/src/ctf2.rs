//! CTF 2 metadata, a sequence of JSON texts, to [`Declarations`].
//!
//! Every field class and role of the specification is understood, but for integers of more than 128 bits, those with mappings,
//! flags or a role of more than 64, and numbers of more than 64; those are refused by name. User attributes are passed over,
//! except LTTng's for levels and this tracer's own for units and places.
//!
//! # References
//!
//! Common Trace Format version 2, CTF2-SPEC-2.0, <https://diamon.org/ctf/>; JSON text sequences, RFC 7464.

mod classes;

use std::sync::Arc;

use serde_json::{Map, Value};

use crate::declared::{Clock, Declarations, EnvValue, EventClass, Level, Role, Root, Source, StreamClass};
use crate::reader::Scope;
use crate::resolve::{self, Earlier};
use crate::{Error, Result};
use classes::Classes;

/// A JSON object.
type Object = Map<String, Value>;

/// Begins a fragment.
const RECORD_SEPARATOR: u8 = 0x1E;

/// What attributes of this tracer are under.
pub(crate) const NAMESPACE: &str = "ringtrace";

/// What attributes of LTTng are under.
pub(crate) const LTTNG: &str = "lttng.org,2009";

/// Parses whole metadata.
///
/// # Errors
///
/// [`Error::is_metadata`] or [`Error::is_unsupported`], with the line of the fragment.
pub fn parse(bytes: &[u8]) -> Result<Declarations> {
    match parse_or_cut(bytes)? {
        (declarations, None) => Ok(declarations),
        (_, Some(error)) => Err(error),
    }
}

/// Parses metadata; where only its last fragment is broken, as after a crash of its writer, without that one.
pub(crate) fn parse_or_cut(bytes: &[u8]) -> Result<(Declarations, Option<Error>)> {
    let mut parser = Parser::default();
    let mut line = 1;
    let mut fragments = bytes.split(|&byte| byte == RECORD_SEPARATOR).peekable();
    let mut known = 0;
    while let Some(fragment) = fragments.next() {
        if !fragment.iter().all(u8::is_ascii_whitespace) {
            let parsed = serde_json::from_slice(fragment)
                .map_err(|error| Error::metadata(line + error.line() as u32 - 1, format!("not JSON: {error}")))
                .and_then(|value| parser.fragment(&value, line));
            match parsed {
                Ok(()) => known += 1,
                Err(error) if known > 1 && fragments.peek().is_none() && error.is_metadata() => {
                    return Ok((parser.declarations, Some(error)));
                }
                Err(error) => return Err(error),
            }
        }
        line += fragment.iter().filter(|&&byte| byte == b'\n').count() as u32;
    }
    if known == 0 {
        return Err(Error::metadata(1, "no fragments"));
    }
    if parser.declarations.streams.is_empty() {
        return Err(Error::metadata(line, "no data stream class"));
    }
    Ok((parser.declarations, None))
}

#[derive(Default)]
struct Parser {
    declarations: Declarations,
    /// Identifiers of the clocks, in the order of the clocks.
    clock_ids: Vec<String>,
    classes: Classes,
    has_preamble: bool,
}

impl Parser {
    fn fragment(&mut self, value: &Value, line: u32) -> Result<()> {
        let fragment = value.as_object().ok_or_else(|| Error::metadata(line, "a fragment is no object"))?;
        let kind = fragment.get("type").and_then(Value::as_str).unwrap_or_default();
        self.classes.line = line;
        if !self.has_preamble && kind != "preamble" {
            return Err(Error::metadata(line, "metadata does not begin with its preamble"));
        }
        match kind {
            "preamble" => self.preamble(fragment, line),
            "trace-class" => self.trace(fragment),
            "clock-class" => self.clock(fragment),
            "data-stream-class" => self.stream(fragment),
            "event-record-class" => self.event(fragment),
            "field-class-alias" => self.alias(fragment),
            other => Err(Error::unsupported(line, format!("a fragment of type {other:?}"))),
        }
    }

    fn mistake(&self, what: impl Into<std::borrow::Cow<'static, str>>) -> Error {
        Error::metadata(self.classes.line, what)
    }

    fn preamble(&mut self, fragment: &Object, line: u32) -> Result<()> {
        match fragment.get("version").and_then(Value::as_u64) {
            Some(2) => {}
            Some(other) => return Err(Error::unsupported(line, format!("version {other} of the format"))),
            None => return Err(Error::metadata(line, "the preamble has no version")),
        }
        self.has_preamble = true;
        if let Some(uuid) = fragment.get("uuid") {
            let bytes = uuid.as_array().map(|bytes| bytes.iter().filter_map(|byte| u8::try_from(byte.as_u64()?).ok()).collect());
            let uuid = bytes.and_then(|bytes: Vec<u8>| bytes.try_into().ok());
            self.declarations.uuid = Some(uuid.ok_or_else(|| self.mistake("the UUID is no array of 16 bytes"))?);
        }
        Ok(())
    }

    fn trace(&mut self, fragment: &Object) -> Result<()> {
        if let Some(environment) = fragment.get("environment").and_then(Value::as_object) {
            for (name, value) in environment {
                let value = match value {
                    Value::String(text) => EnvValue::String(text.clone()),
                    value => EnvValue::Int(value.as_i64().ok_or_else(|| self.mistake(format!("environment entry {name:?}")))?),
                };
                self.declarations.environment.push((name.clone(), value));
            }
        }
        let header = self.root(fragment, "packet-header-field-class", Scope::PacketHeader, None, &[])?;
        self.declarations.packet_header = header.map(Arc::new);
        Ok(())
    }

    fn clock(&mut self, fragment: &Object) -> Result<()> {
        let text = |name: &str| fragment.get(name).and_then(Value::as_str).map(str::to_owned);
        let offset = |name: &str| {
            let offset = fragment.get("offset-from-origin").and_then(|offset| offset.get(name));
            offset.and_then(|value| value.as_i64().or_else(|| value.as_u64().map(|value| value as i64))).unwrap_or_default()
        };
        let id = text("id").ok_or_else(|| self.mistake("clock class without an ID"))?;
        let frequency = fragment.get("frequency").and_then(Value::as_u64).filter(|&frequency| frequency > 0);
        let clock = Clock {
            name: text("name").unwrap_or_else(|| id.clone()),
            uuid: text("uid").as_deref().and_then(crate::metadata::parse_uuid),
            description: text("description").unwrap_or_default(),
            frequency_hz: frequency.ok_or_else(|| self.mistake("clock class without a frequency"))?,
            precision_cycles: fragment.get("precision").and_then(Value::as_u64),
            offset_s: offset("seconds"),
            offset_cycles: offset("cycles"),
            absolute: fragment.get("origin").and_then(Value::as_str) == Some("unix-epoch"),
        };
        self.clock_ids.push(id);
        self.declarations.clocks.push(clock);
        Ok(())
    }

    fn stream(&mut self, fragment: &Object) -> Result<()> {
        let mut stream = StreamClass { id: self.number(fragment, "id")?.unwrap_or_default(), ..StreamClass::default() };
        if self.declarations.stream(stream.id).is_some() {
            return Err(self.mistake(format!("stream class {} is declared twice", stream.id)));
        }
        let clock_id = fragment.get("default-clock-class-id").and_then(Value::as_str);
        if let Some(id) = clock_id {
            let place = self.clock_ids.iter().position(|known| known == id);
            let clock = place.and_then(|place| self.declarations.clocks.get(place));
            stream.clock = Some(clock.cloned().ok_or_else(|| self.mistake(format!("no clock class {id:?}")))?);
        }
        let trace = self.declarations.packet_header.clone();
        let header = (Scope::PacketHeader, trace.as_deref());
        let name = "packet-context-field-class";
        stream.packet_context = self.root(fragment, name, Scope::PacketContext, clock_id, &[header])?;
        let context = (Scope::PacketContext, stream.packet_context.as_ref());
        let name = "event-record-header-field-class";
        stream.event_header = self.root(fragment, name, Scope::EventHeader, clock_id, &[header, context])?;
        let earlier = [header, context, (Scope::EventHeader, stream.event_header.as_ref())];
        let name = "event-record-common-context-field-class";
        stream.event_context = self.root(fragment, name, Scope::StreamContext, None, &earlier)?;
        stream.compile();
        self.declarations.streams.push(Arc::new(stream));
        Ok(())
    }

    fn event(&mut self, fragment: &Object) -> Result<()> {
        let text = |name: &str| fragment.get(name).and_then(Value::as_str).unwrap_or_default().to_owned();
        let mut event = EventClass {
            id: self.number(fragment, "id")?.unwrap_or_default(),
            stream_id: self.number(fragment, "data-stream-class-id")?.unwrap_or_default(),
            name: text("name"),
            ..EventClass::default()
        };
        let attributes = |namespace: &str| fragment.get("attributes").and_then(|all| all.get(namespace));
        event.level = attributes(LTTNG).and_then(|all| level(all.get("log-level")?));
        event.source = attributes(NAMESPACE).and_then(|all| source(all.get("source")?));
        let Some(stream) = self.declarations.stream(event.stream_id).cloned() else {
            return Err(self.mistake(format!("event class {:?} without its stream class", event.name)));
        };
        if let Some(other) = stream.event(event.id) {
            return Err(self.mistake(format!("event ID {} for both {:?} and {:?}", event.id, other.name, event.name)));
        }
        let trace = self.declarations.packet_header.clone();
        let mut earlier = vec![
            (Scope::PacketHeader, trace.as_deref()),
            (Scope::PacketContext, stream.packet_context.as_ref()),
            (Scope::EventHeader, stream.event_header.as_ref()),
            (Scope::StreamContext, stream.event_context.as_ref()),
        ];
        let context = self.root(fragment, "specific-context-field-class", Scope::EventContext, None, &earlier)?;
        earlier.push((Scope::EventContext, context.as_ref()));
        event.fields = self.root(fragment, "payload-field-class", Scope::Payload, None, &earlier)?;
        drop(earlier);
        event.context = context;
        drop(stream);
        let stream = self.declarations.streams.iter_mut().find(|stream| stream.id == event.stream_id);
        if let Some(stream) = stream.map(Arc::make_mut) {
            stream.events.insert(stream.event_context.as_ref(), event);
        }
        Ok(())
    }

    fn alias(&mut self, fragment: &Object) -> Result<()> {
        let name = fragment.get("name").and_then(Value::as_str);
        let name = name.ok_or_else(|| self.mistake("field class alias without a name"))?.to_owned();
        let class = fragment.get("field-class").ok_or_else(|| self.mistake("field class alias without a class"))?;
        let class = self.classes.class(class)?;
        self.classes.aliases.insert(name, class);
        Ok(())
    }

    /// A structure of an event or a packet.
    fn root(
        &mut self,
        fragment: &Object,
        name: &str,
        scope: Scope,
        clock: Option<&str>,
        earlier: Earlier<'_>,
    ) -> Result<Option<Root>> {
        let Some(class) = fragment.get(name) else { return Ok(None) };
        let mut structure = self.classes.structure(class)?;
        if scope == Scope::PacketContext {
            for member in &mut structure.members {
                if let Some(integer) = member.class.integer_mut() {
                    match integer.role {
                        // What is the time of an event in its header is that of the packet's begin here.
                        Some(Role::Timestamp) => integer.role = Some(Role::PacketBegin),
                        None if &*member.declared_name == "cpu_id" => integer.role = Some(Role::CpuId),
                        _ => {}
                    }
                }
            }
        }
        if let Some(clock) = clock {
            resolve::map_clock(&mut structure, clock);
        }
        resolve::root(structure, scope, earlier).map(Some).map_err(|what| self.mistake(what))
    }

    fn number(&self, object: &Object, name: &str) -> Result<Option<u64>> {
        let Some(value) = object.get(name) else { return Ok(None) };
        value.as_u64().map(Some).ok_or_else(|| self.mistake(format!("{name} is no unsigned integer")))
    }
}

/// LTTng's word for a level, or its number.
fn level(value: &Value) -> Option<Level> {
    if let Some(number) = value.as_u64() {
        return Level::from_number(number);
    }
    let word = value.as_str()?;
    let name = match word {
        "emergency" => "EMERG".to_owned(),
        "critical" => "CRIT".to_owned(),
        "error" => "ERR".to_owned(),
        word => word.trim_start_matches("TRACE_").replace([':', '-', ' '], "_").to_ascii_uppercase(),
    };
    (0..15).filter_map(Level::from_number).find(|level| level.name() == name)
}

fn source(value: &Value) -> Option<Source> {
    Some(Source {
        file: value.get("file")?.as_str()?.to_owned(),
        line: u32::try_from(value.get("line")?.as_u64()?).ok()?,
        function: value.get("function").and_then(Value::as_str).unwrap_or_default().to_owned(),
    })
}
