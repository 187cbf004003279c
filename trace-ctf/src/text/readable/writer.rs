//! Values as people write them.

use std::fmt::{Binary, Display, LowerHex, Octal};
use std::io::Write as _;

use super::escape;
use super::threads::Threads;
use crate::declared::{Base, Enumeration, Flags, Float, Integer, Member, Structure, Type};
use crate::decode::Item;
use crate::extras::{Pairs, Piece, is_extras};
use crate::reader::{Event, Long, Scope};

/// What one event after the other needs, kept for its memory.
#[derive(Clone, Debug, Default)]
pub(super) struct Scratch {
    frames: Vec<Frame>,
    /// Units of the members that are open, one behind the other.
    units: Vec<u8>,
}

/// Something that was begun.
#[derive(Clone, Copy, Debug, Default)]
struct Frame {
    /// Ends it.
    close: &'static str,
    /// Stands between its parts.
    between: &'static str,
    /// Stands between the name of a part and its value; parts without names have none.
    assign: Option<u8>,
    /// Whether it has a part.
    begun: bool,
    /// Whether it ends with the one value in it, as members and variants do.
    is_holder: bool,
    /// Whether it is an option whose name says all that an empty structure could.
    is_option: bool,
    /// Where its unit begins in [`Scratch::units`].
    unit: Option<usize>,
}

/// Writes the members of one structure of an event.
pub(super) struct Writer<'w> {
    event: &'w Event<'w>,
    scope: Scope,
    threads: &'w Threads,
    scratch: &'w mut Scratch,
    out: &'w mut Vec<u8>,
    /// Stands before the first member; empty behind it.
    first: &'static str,
    /// Whether the next value is one that only readers need.
    is_hidden: bool,
    /// Whether the next integer is the ID of a thread.
    is_thread: bool,
    /// Whether the value has nothing that the unit could be one of.
    is_unitless: bool,
    /// Within a field whose keys are known only at run time.
    extras: Option<Pairs>,
}

impl<'w> Writer<'w> {
    pub(super) fn new(
        event: &'w Event<'w>,
        scope: Scope,
        threads: &'w Threads,
        scratch: &'w mut Scratch,
        out: &'w mut Vec<u8>,
    ) -> Self {
        scratch.frames.clear();
        scratch.units.clear();
        let (is_hidden, is_thread, is_unitless) = (false, false, false);
        Self { event, scope, threads, scratch, out, first: "", is_hidden, is_thread, is_unitless, extras: None }
    }

    /// Appends the members with `first` before them; `false` where there are none.
    pub(super) fn write(mut self, first: &'static str) -> bool {
        self.first = first;
        self.event.visit(self.scope, |item| self.item(&item));
        self.first.is_empty()
    }

    fn item(&mut self, item: &Item<'_, '_>) {
        if core::mem::take(&mut self.is_hidden) {
            return;
        }
        if let Some(mut pairs) = self.extras.take() {
            let part = pairs.step(item);
            self.extras = if let Piece::End = part { None } else { Some(pairs) };
            match part {
                Piece::Key(key) => return self.key(key),
                Piece::Form | Piece::End => return,
                Piece::Value => {}
            }
        }
        match *item {
            Item::Unsigned(class, value) => self.integer(class, value),
            Item::Signed(class, value) => self.integer(class, value as u64),
            Item::Long(class, value) => self.long(class, value),
            Item::Enumeration(class, value) => self.enumeration(class, value),
            Item::Float(class, value) => self.float(class, value),
            Item::Text(bytes) => self.text(bytes),
            Item::Wide(encoding, bytes) => {
                escape::quoted(encoding.decode(bytes).as_bytes(), self.out);
                self.end_value();
            }
            Item::Boolean(value) => {
                self.out.extend(if value { &b"true"[..] } else { b"false" });
                self.end_value();
            }
            Item::Flags(class, value) => self.flags(class, value),
            Item::Blob(_, bytes) => {
                self.out.extend(b"0x");
                bytes.iter().for_each(|byte| drop(write!(self.out, "{byte:02x}")));
                self.end_value();
            }
            Item::Absent => {
                self.out.extend(b"none");
                self.is_unitless = true;
                self.end_value();
            }
            Item::Member(member) => self.member(member),
            Item::Element(_) => self.separate(),
            Item::VariantBegin(option) => self.option(option),
            // It has ended with its value.
            Item::VariantEnd | Item::OptionalEnd => {}
            Item::OptionalBegin => self.open("", Frame { is_holder: true, ..Frame::default() }),
            Item::StructureBegin(class) => self.structure(class),
            Item::ArrayBegin(_) => self.open("[", Frame { close: "]", between: ", ", ..Frame::default() }),
            Item::StructureEnd | Item::ArrayEnd => {
                if let Some(frame) = self.scratch.frames.pop() {
                    self.out.extend(frame.close.as_bytes());
                }
                self.end_value();
            }
        }
    }

    fn member(&mut self, member: &Member) {
        let is_outer = self.scratch.frames.len() == 1;
        if member.is_companion() || is_outer && self.scope == Scope::PacketContext && self.is_known_otherwise(member) {
            self.is_hidden = true;
            return;
        }
        if is_extras(&member.class) {
            self.extras = Some(Pairs::default());
            return;
        }
        self.separate();
        if let Some(assign) = self.scratch.frames.last().and_then(|frame| frame.assign) {
            let name = match member.name() {
                "cpu_id" if is_outer && self.scope == Scope::PacketContext => "cpu",
                name => name,
            };
            // In CTF 2 it may be any text.
            escape::bare(name, self.out);
            self.out.push(assign);
        }
        let unit = member.unit.as_ref().map(|unit| {
            let start = self.scratch.units.len();
            escape::bare(unit, &mut self.scratch.units);
            start
        });
        self.scratch.frames.push(Frame { is_holder: true, unit, ..Frame::default() });
        self.is_thread = is_outer && self.scope != Scope::Payload && member.name() == "vtid";
    }

    /// Begins what looks like a member, and has its name from the event.
    fn key(&mut self, key: &[u8]) {
        self.separate();
        escape::label(&String::from_utf8_lossy(key), self.out);
        self.out.push(b'=');
    }

    /// Whether a member of the packet context is told better by the event's own context.
    fn is_known_otherwise(&self, member: &Member) -> bool {
        let is_cpu = |member: &Member| matches!(member.class, Type::Integer(_)) && matches!(member.name(), "cpu" | "cpu_id");
        let context = self.event.packet().stream_class().event_context.as_ref();
        is_cpu(member) && context.is_some_and(|root| root.structure.members.iter().any(is_cpu))
    }

    fn option(&mut self, option: &Member) {
        let is_structure = matches!(option.class, Type::Structure(_));
        let holder = Frame { is_holder: true, ..Frame::default() };
        match (option.name(), &option.class) {
            ("some", _) => self.open("", holder),
            ("none", Type::Structure(class)) if class.members.is_empty() => {
                self.is_unitless = true;
                self.open("none", Frame { is_option: true, ..holder });
            }
            (name, _) => {
                escape::label(name, self.out);
                let (open, close) = if is_structure { ("", "") } else { ("(", ")") };
                self.open(open, Frame { is_option: is_structure, close, ..holder });
            }
        }
    }

    fn structure(&mut self, class: &Structure) {
        let Some(&outer) = self.scratch.frames.last() else {
            let assign = if self.scope == Scope::Payload { b'=' } else { b' ' };
            return self.open("", Frame { between: " ", assign: Some(assign), ..Frame::default() });
        };
        if class.members.is_empty() && outer.is_option || is_wrapper(class) && !outer.is_option {
            self.open("", Frame::default());
        } else if is_tuple(class) {
            self.open("(", Frame { close: ")", between: ", ", ..Frame::default() });
        } else {
            self.open("{", Frame { close: "}", between: " ", assign: Some(b'='), ..Frame::default() });
        }
    }

    fn open(&mut self, text: &'static str, frame: Frame) {
        self.out.extend(text.as_bytes());
        self.scratch.frames.push(frame);
    }

    fn separate(&mut self) {
        self.out.extend(core::mem::take(&mut self.first).as_bytes());
        if let Some(frame) = self.scratch.frames.last_mut() {
            if core::mem::replace(&mut frame.begun, true) {
                self.out.extend(frame.between.as_bytes());
            }
        }
    }

    /// Ends what ends with its value.
    fn end_value(&mut self) {
        while let Some(frame) = self.scratch.frames.last().copied().filter(|frame| frame.is_holder) {
            self.scratch.frames.pop();
            self.out.extend(frame.close.as_bytes());
            if let Some(start) = frame.unit {
                if !self.is_unitless {
                    self.out.push(b' ');
                    self.out.extend(&self.scratch.units[start..]);
                }
                self.scratch.units.truncate(start);
            }
        }
        self.is_unitless = false;
    }

    fn integer(&mut self, class: &Integer, value: u64) {
        self.number(class, value);
        if core::mem::take(&mut self.is_thread) {
            if let Some(name) = self.threads.name(self.event, value as i64) {
                self.out.push(b' ');
                escape::label(name, self.out);
            }
        }
        self.end_value();
    }

    fn number(&mut self, class: &Integer, value: u64) {
        match class.base {
            Base::Dec if class.signed => drop(write!(self.out, "{}", value as i64)),
            base => self.based(base, value & u64::MAX >> 64u8.saturating_sub(class.bits)),
        }
    }

    fn long(&mut self, class: &Integer, value: u128) {
        match class.base {
            Base::Dec => drop(write!(self.out, "{}", Long::new(class, value))),
            base => self.based(base, value & u128::MAX >> (128 - class.bits)),
        }
        self.end_value();
    }

    fn based<N: Binary + Octal + Display + LowerHex>(&mut self, base: Base, bits: N) {
        let _ = match base {
            Base::Bin => write!(self.out, "{bits:#b}"),
            Base::Oct => write!(self.out, "{bits:#o}"),
            Base::Hex => write!(self.out, "{bits:#x}"),
            Base::Dec => write!(self.out, "{bits}"),
        };
    }

    fn enumeration(&mut self, class: &Enumeration, value: i128) {
        let mut labels = class.labels(value).peekable();
        if is_redacted(class) && labels.peek().is_some() {
            self.out.extend(b"<redacted>");
            self.is_unitless = true;
        } else if labels.peek().is_some() {
            for (place, label) in labels.enumerate() {
                if place > 0 {
                    self.out.push(b'|');
                }
                escape::label(label, self.out);
            }
        } else {
            self.number(&class.integer, value as u64);
        }
        self.end_value();
    }

    fn flags(&mut self, class: &Flags, value: u64) {
        let mut labels = class.labels(value).peekable();
        if labels.peek().is_none() {
            self.number(&class.integer, value);
        }
        for (place, label) in labels.enumerate() {
            if place > 0 {
                self.out.push(b'|');
            }
            escape::label(label, self.out);
        }
        self.end_value();
    }

    /// Appends the shortest digits that mean this number and no other of its width.
    fn float(&mut self, class: &Float, value: f64) {
        let _ = if class.bits == 32 { write!(self.out, "{:?}", value as f32) } else { write!(self.out, "{value:?}") };
        self.end_value();
    }

    fn text(&mut self, bytes: &[u8]) {
        escape::quoted(bytes, self.out);
        self.end_value();
    }
}

/// Whether a structure is only there because its one value takes several declarations, or one that elements cannot have.
fn is_wrapper(class: &Structure) -> bool {
    let is_value = |member: &Member| member.name() == "value";
    match &class.members[..] {
        [value] => is_value(value) && matches!(value.class, Type::Array(_)),
        [companion, value] => companion.is_companion() && companion.name().starts_with("_value_") && is_value(value),
        _ => false,
    }
}

/// Whether the members have no names but numbers: `_0`, `_1`, …
fn is_tuple(class: &Structure) -> bool {
    let mut values = class.members.iter().filter(|member| !member.is_companion()).enumerate().peekable();
    let is_number =
        |(place, member): (usize, &Member)| member.name().strip_prefix('_').is_some_and(|number| number.parse() == Ok(place));
    values.peek().is_some() && values.all(is_number)
}

/// Whether an enumeration stands for a value that was not to be recorded.
fn is_redacted(class: &Enumeration) -> bool {
    matches!(&class.labels[..], [only] if only.label == "redacted" && only.low == 0 && only.high == 0)
}
