//! Follows a source: its packets are decoded, and become what the trigger sees.

use super::grammar::Condition;
use super::matching::{Cause, Key, Seen};
use super::{Source, Trigger};
use crate::error::{Error, Result};
use crate::keep::{key_at, place_of};
use crate::output::{Packet, Sink, StreamId};
use crate::rcu::lock;
use std::collections::HashMap;
use std::sync::Arc;
use trace_ctf::reader::{Decoder, Event, Field, Value};
use trace_ctf::schema as ctf;

/// Most bytes of an event's text.
const LONGEST: usize = 300;

pub(crate) struct Follower {
    source: Source,
    decoder: Decoder,
    /// Where each class has the key, by stream class and ID.
    keys: HashMap<(u64, u64), Option<Field>>,
    lost: HashMap<StreamId, u64>,
}

impl Follower {
    pub(crate) fn new(source: Source, trace: &ctf::Trace) -> Result<Follower> {
        let decoder = ctf::Schema::new(trace.clone()).and_then(|schema| Decoder::new(&schema)).map_err(unreadable)?;
        Ok(Follower { source, decoder, keys: HashMap::new(), lost: HashMap::new() })
    }

    fn take(&mut self, packet: &trace_ctf::reader::Packet) -> Result<()> {
        let trigger: &Arc<Trigger> = &self.source.trigger;
        let condition = &trigger.spec.condition;
        let mut state = lock(&trigger.seen);
        let mut events = packet.events();
        while let Some(event) = events.next_event() {
            let event = event.map_err(unreadable)?;
            match condition {
                Condition::Event(_) | Condition::Maximum(..) => {
                    // The text takes longer than to know that nobody will read it.
                    let is_wanted = trigger.on_path.is_closed() || state.admission.is_free(&trigger.spec.limits, event.cycles());
                    let what = if is_wanted { text(&event) } else { String::new() };
                    trigger.fire(&mut state, Cause { ns: event.cycles(), what, latency_ns: None, key: Key::All });
                }
                Condition::Keyed(..) => {
                    let Some(key) = key(condition, &event, &mut self.keys) else { continue };
                    trigger.fire(&mut state, Cause { ns: event.cycles(), what: String::new(), latency_ns: None, key });
                }
                _ => {
                    let Some(key) = key(condition, &event, &mut self.keys) else { continue };
                    state.matcher.see(Seen { ns: event.cycles(), source: self.source.index, key });
                }
            }
        }
        Ok(())
    }
}

/// The source's own description is wrong, which is our fault.
fn unreadable(error: trace_ctf::Error) -> Error {
    Error::io("cannot follow", "a trigger's events", std::io::Error::other(error))
}

/// `None`: the event has no value there, so it belongs to no other.
fn key(condition: &Condition, event: &Event<'_>, keys: &mut HashMap<(u64, u64), Option<Field>>) -> Option<Key> {
    let Some(key) = condition.key() else { return Some(Key::All) };
    let stream = event.packet().stream_class();
    let find = || place_of(key.part.as_str(), stream, event);
    let field = keys.entry((stream.id, event.class().id)).or_insert_with(find);
    key_at(field.as_ref()?, event)
}

/// `request id = 7, us = 950`.
fn text(event: &Event<'_>) -> String {
    let mut text = event.name().to_owned();
    if let Value::Structure(members) = event.payload() {
        for (i, (name, value)) in members.iter().enumerate() {
            let shown = match (value.as_i64(), value.as_u64(), value.as_f64(), value) {
                (.., Value::Enumeration(_, labels)) if !labels.is_empty() => labels[0].clone(),
                (Some(number), ..) => number.to_string(),
                (_, Some(number), ..) => number.to_string(),
                (_, _, Some(number), _) => number.to_string(),
                (.., Value::Text(text)) => format!("{text:?}"),
                (.., Value::Absent) => "-".to_owned(),
                _ => "…".to_owned(),
            };
            let space = if i == 0 { " " } else { ", " };
            text.extend([space, name, " = ", &shown]);
        }
    }
    if text.len() > LONGEST {
        let end = (0..=LONGEST).rev().find(|at| text.is_char_boundary(*at)).unwrap_or(0);
        text.truncate(end);
        text.push('…');
    }
    text
}

impl Sink for Follower {
    fn describe(&mut self, classes: &[ctf::EventClass]) -> Result<()> {
        classes.iter().try_for_each(|class| self.decoder.add(class).map_err(unreadable))
    }

    fn deliver(&mut self, packet: &Packet<'_>) -> Result<()> {
        self.lost.insert(packet.stream, packet.discarded);
        lock(&self.source.trigger.seen).lost[self.source.index] = self.lost.values().sum();
        let content = self.decoder.packet(&packet.header(), packet.content).map_err(unreadable)?;
        self.take(&content)
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
