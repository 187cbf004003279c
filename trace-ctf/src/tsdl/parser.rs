//! Blocks: trace, environment, clocks, streams, events.

use std::collections::HashMap;
use std::sync::Arc;

use super::lexer::{Kind, Token, tokens};
use super::types::C_WORDS;
use crate::declared::{
    Array, Clock, Declarations, EnvValue, EventClass, Level, Role, Root, Sequence, Source, StreamClass, Structure, Type,
};
use crate::metadata::{is_keyword, says};
use crate::reader::Scope;
use crate::resolve::{self, Earlier};
use crate::{Error, Result};

/// Reads metadata text in as many pieces as it comes in.
#[derive(Debug)]
pub struct Parser {
    declarations: Declarations,
    scopes: Vec<HashMap<String, Type>>,
    nodes_left: usize,
    has_trace: bool,
    /// The line that the last piece ended with.
    last_line: u32,
}

/// Types inside each other, as deep as recursion over them goes. A schema's deepest nesting needs about 70.
const DEPTH_MAX: usize = 128;

/// What a type expression may add up to, repeated uses of a name counted each time.
const NODES_MAX: usize = 1 << 20;

/// The clock of time stamps where none is declared.
const IMPLICIT_CLOCK: &str = "default";

/// One piece of text on its way.
pub(super) struct Input<'p, 't> {
    pub(super) parser: &'p mut Parser,
    tokens: Vec<Token<'t>>,
    at: usize,
    pub(super) depth: usize,
    drafts: Vec<Draft>,
    /// Where the last stream class begins.
    stream_line: u32,
}

/// An event class that waits for its stream class.
struct Draft {
    event: EventClass,
    has_id: bool,
    /// Its context and its fields.
    types: [Option<Type>; 2],
    stream_id: Option<u64>,
    line: u32,
}

/// What stands right of an `=`.
pub(super) enum Value {
    Number(i128),
    Text(String),
    /// A word or words joined by dots.
    Path(String),
}

impl Default for Parser {
    fn default() -> Self {
        Self::new()
    }
}

impl Parser {
    /// Makes a parser that has read nothing.
    pub fn new() -> Self {
        let declarations = Declarations::default();
        Self { declarations, scopes: vec![HashMap::new()], nodes_left: NODES_MAX, has_trace: false, last_line: 1 }
    }

    /// Reads the next piece: whole declarations.
    ///
    /// # Errors
    ///
    /// As for [`parse`](super::parse); what precedes the mistake is kept.
    pub fn append(&mut self, text: &str) -> Result<()> {
        let tokens = tokens(text)?;
        // Aliases may precede the block that says how their bytes are ordered.
        let order = |window: &[Token<'_>]| match window {
            [Token { kind: Kind::Word("byte_order"), .. }, _, Token { kind: Kind::Word(order), .. }] => big_endian(order),
            _ => None,
        };
        let block = |window: &[Token<'_>]| window[0].kind == Kind::Word("trace") && window[1].kind == Kind::Sign("{");
        if let Some(start) = tokens.windows(2).position(block) {
            self.declarations.big_endian = tokens[start..].windows(3).find_map(order).unwrap_or_default();
        }
        self.scopes.truncate(1);
        self.last_line = 1 + text.bytes().filter(|&byte| byte == b'\n').count() as u32;
        Input { parser: self, tokens, at: 0, depth: 0, drafts: Vec::new(), stream_line: 0 }.file()
    }

    /// What has been declared so far.
    pub fn declarations(&self) -> &Declarations {
        &self.declarations
    }

    /// What has been declared.
    ///
    /// # Errors
    ///
    /// [`Error::is_metadata`] where no `trace` block was among it: the others mean nothing without it.
    pub fn into_declarations(self) -> Result<Declarations> {
        if self.has_trace { Ok(self.declarations) } else { Err(Error::metadata(self.last_line, "no trace block")) }
    }

    pub(super) fn big_endian(&self) -> bool {
        self.declarations.big_endian
    }

    pub(super) fn declare(&mut self, name: String, class: Type, line: u32) -> Result<()> {
        let Some(scope) = self.scopes.last_mut() else { return Ok(()) };
        if scope.contains_key(&name) {
            return Err(Error::metadata(line, format!("two types {name}")));
        }
        scope.insert(name, class);
        Ok(())
    }

    /// A copy of a named type, charged to the budget.
    pub(super) fn named(&mut self, name: &str, line: u32) -> Result<Type> {
        let found = self.scopes.iter().rev().find_map(|scope| scope.get(name));
        let class = found.cloned().ok_or_else(|| Error::metadata(line, format!("no type {name}")))?;
        let (nodes, depth) = class.extent();
        too_deep(depth, line)?;
        self.nodes_left = self.nodes_left.checked_sub(nodes).ok_or_else(|| Error::metadata(line, "the types are too large"))?;
        Ok(class)
    }
}

impl Input<'_, '_> {
    fn file(&mut self) -> Result<()> {
        self.clocks()?;
        while let Some(token) = self.tokens.get(self.at) {
            let next = self.tokens.get(self.at + 1).map(|token| &token.kind);
            match (&token.kind, next) {
                (Kind::Word("trace"), Some(Kind::Sign("{"))) => self.trace()?,
                (Kind::Word("env"), Some(Kind::Sign("{"))) => self.environment()?,
                // It was read before all others.
                (Kind::Word("clock"), Some(Kind::Sign("{"))) => self.block(|_, _, _| Ok(()))?,
                (Kind::Word("stream"), Some(Kind::Sign("{"))) => self.stream()?,
                (Kind::Word("event"), Some(Kind::Sign("{"))) => self.event()?,
                (Kind::Word("callsite"), Some(Kind::Sign("{"))) => self.block(|_, _, _| Ok(()))?,
                (Kind::Sign(";"), _) => self.at += 1,
                _ => self.declaration()?,
            }
        }
        // Behind all blocks: the one of the trace may be the last.
        let known = &self.parser.declarations;
        if known.streams.len() > 1 && !says(known.packet_header.as_deref(), Role::StreamClassId) {
            let what = "several stream classes, and no packet says of which it is; add the field `stream_id` to `packet.header` of the \
                        trace block";
            return Err(Error::metadata(self.stream_line, what));
        }
        let drafts = core::mem::take(&mut self.drafts);
        drafts.into_iter().try_for_each(|draft| self.declare_event(draft))
    }

    /// Reads the clocks, wherever they stand: what follows depends on how many there are.
    fn clocks(&mut self) -> Result<()> {
        let mut depth = 0;
        let kinds: Vec<_> = self.tokens.iter().map(|token| &token.kind).collect();
        let mut found = Vec::new();
        for (at, pair) in kinds.windows(2).enumerate() {
            match pair {
                [Kind::Word("clock"), Kind::Sign("{")] if depth == 0 => found.push(at),
                [Kind::Sign("{"), _] => depth += 1,
                [Kind::Sign("}"), _] => depth -= 1,
                _ => {}
            }
        }
        for at in found {
            self.at = at;
            self.clock()?;
        }
        self.at = 0;
        Ok(())
    }

    /// A `typealias`, a `typedef`, or named structures, enumerations or variants.
    pub(super) fn declaration(&mut self) -> Result<()> {
        let line = self.line();
        if self.accept("typealias") {
            let class = self.type_and_suffix()?;
            self.expect(":=")?;
            let mut name = self.type_word()?;
            while let Some(Kind::Word(_)) = self.peek() {
                name = name + " " + &self.type_word()?;
            }
            self.declare_alias(name, class, line)?;
        } else if self.accept("typedef") {
            let class = self.type_specifier()?;
            let (name, class, line) = self.declarator(class)?;
            self.declare_alias(name, class, line)?;
        } else {
            self.type_specifier()?;
            // As in C, nothing need stand between them.
            while matches!(self.peek_word(), Some("struct" | "enum" | "variant")) {
                self.type_specifier()?;
            }
        }
        self.expect(";")
    }

    fn declare_alias(&mut self, name: String, class: Type, line: u32) -> Result<()> {
        // Outside of every block there is no field yet that could be a length.
        if let Some(length) = unbound(&class).filter(|_| self.parser.scopes.len() == 1) {
            return Err(Error::metadata(line, format!("no field {length} in front of {name}, which it is to be the length of")));
        }
        self.parser.declare(name, class, line)
    }

    /// Reads `WORD { ITEM; … };` and hands over each item's name and value.
    fn block(&mut self, mut item: impl FnMut(&mut Self, &str, Item) -> Result<()>) -> Result<()> {
        self.at += 1;
        self.expect("{")?;
        self.enter();
        while !self.accept("}") {
            let first = self.peek_word();
            if matches!(first, Some("typealias" | "typedef")) || first.is_some() && !self.assigns() {
                self.declaration()?;
                continue;
            }
            let name = self.path()?;
            if self.accept(":=") {
                let class = self.type_and_suffix()?;
                self.expect(";")?;
                item(self, &name, Item::Type(class))?;
            } else {
                self.expect("=")?;
                let value = self.value()?;
                self.expect(";")?;
                item(self, &name, Item::Value(value))?;
            }
        }
        self.leave();
        self.expect(";")
    }

    /// Whether an item begins here: a path, then `=` or `:=`.
    fn assigns(&self) -> bool {
        let rest = self.tokens[self.at..].iter().map(|token| &token.kind);
        let mut rest = rest.skip_while(|kind| matches!(kind, Kind::Word(_) | Kind::Sign(".")));
        matches!(rest.next(), Some(Kind::Sign("=" | ":=")))
            && !matches!(self.tokens.get(self.at + 1).map(|token| &token.kind), Some(Kind::Word(_)))
    }

    fn trace(&mut self) -> Result<()> {
        self.parser.has_trace = true;
        let (line, mut has_order) = (self.line(), false);
        self.block(|this, name, item| {
            has_order |= name == "byte_order";
            match (name, item) {
                ("uuid", Item::Value(Value::Text(text))) => this.parser.declarations.uuid = Some(this.uuid(&text)?),
                ("packet.header", Item::Type(class)) => {
                    let root = this.root(class, this.line(), Scope::PacketHeader, resolve::PACKET_HEADER, &[])?;
                    this.parser.declarations.packet_header = Some(Arc::new(root));
                }
                ("byte_order", Item::Value(Value::Path(word))) if big_endian(&word).is_none() => {
                    return Err(Error::metadata(this.line(), format!("{word} is no byte order")));
                }
                ("major", Item::Value(Value::Number(major))) if major != 1 => {
                    return Err(Error::unsupported(this.line(), format!("CTF {major}")));
                }
                ("minor", Item::Value(Value::Number(minor))) if minor != 8 => {
                    return Err(Error::unsupported(this.line(), format!("CTF 1.{minor}")));
                }
                _ => {}
            }
            Ok(())
        })?;
        if !has_order {
            let what = "the trace block does not say how bytes are ordered; add `byte_order = le;` or `byte_order = be;`";
            return Err(Error::metadata(line, what));
        }
        Ok(())
    }

    fn environment(&mut self) -> Result<()> {
        self.block(|this, name, item| {
            let value = match item {
                Item::Value(Value::Number(number)) => EnvValue::Int(number as i64),
                Item::Value(Value::Text(text) | Value::Path(text)) => EnvValue::String(text),
                Item::Type(_) => return Err(Error::metadata(this.line(), "type in the environment")),
            };
            this.parser.declarations.environment.push((name.to_owned(), value));
            Ok(())
        })
    }

    fn clock(&mut self) -> Result<()> {
        let mut clock = Clock::new();
        self.block(|this, name, item| {
            match (name, item) {
                ("name", Item::Value(Value::Text(text) | Value::Path(text))) => clock.name = text,
                ("description", Item::Value(Value::Text(text))) => clock.description = text,
                ("uuid", Item::Value(Value::Text(text))) => clock.uuid = Some(this.uuid(&text)?),
                ("freq", Item::Value(Value::Number(0))) => return Err(Error::metadata(this.line(), "a clock of 0 Hz")),
                ("freq", Item::Value(Value::Number(number))) => clock.frequency_hz = this.unsigned(number)?,
                ("offset_s", Item::Value(Value::Number(number))) => clock.offset_s = this.signed(number)?,
                ("offset", Item::Value(Value::Number(number))) => clock.offset_cycles = this.signed(number)?,
                _ => {}
            }
            Ok(())
        })?;
        self.parser.declarations.clocks.push(clock);
        Ok(())
    }

    fn stream(&mut self) -> Result<()> {
        let line = self.line();
        let mut stream = StreamClass::default();
        let mut types = [None, None, None];
        self.block(|this, name, item| {
            match (name, item) {
                ("id", Item::Value(value)) => stream.id = this.id(&value)?,
                ("packet.context", Item::Type(class)) => types[0] = Some(class),
                ("event.header", Item::Type(class)) => types[1] = Some(class),
                ("event.context", Item::Type(class)) => types[2] = Some(class),
                _ => {}
            }
            Ok(())
        })?;
        let [packet_context, event_header, event_context] = types;
        let trace = self.parser.declarations.packet_header.clone();
        let header = (Scope::PacketHeader, trace.as_deref());
        let mut root = |class: Option<Type>, scope, roles, earlier: Earlier<'_>| {
            class.map(|class| self.root(class, line, scope, roles, earlier)).transpose()
        };
        stream.packet_context = root(packet_context, Scope::PacketContext, resolve::PACKET_CONTEXT, &[header])?;
        let context = (Scope::PacketContext, stream.packet_context.as_ref());
        stream.event_header = root(event_header, Scope::EventHeader, resolve::EVENT_HEADER, &[header, context])?;
        let earlier = [header, context, (Scope::EventHeader, stream.event_header.as_ref())];
        stream.event_context = root(event_context, Scope::StreamContext, &[], &earlier)?;
        let mut names = Vec::new();
        for root in [&stream.packet_context, &stream.event_header].into_iter().flatten() {
            clock_names(&root.structure, &mut names);
        }
        names.dedup();
        if let Some(name) = names.first() {
            if names.len() > 1 {
                return Err(Error::unsupported(line, format!("stream class {} with several clocks", stream.id)));
            }
            let found = self.parser.declarations.clocks.iter().find(|clock| clock.name == **name);
            stream.clock = Some(found.cloned().ok_or_else(|| Error::metadata(line, format!("no clock {name}")))?);
        }
        stream.compile();
        if self.parser.declarations.stream(stream.id).is_some() {
            return Err(Error::metadata(line, format!("stream class {} is declared twice", stream.id)));
        }
        self.stream_line = line;
        self.parser.declarations.streams.push(Arc::new(stream));
        Ok(())
    }

    fn event(&mut self) -> Result<()> {
        let line = self.line();
        let mut event = EventClass::default();
        let mut types = [None, None];
        let (mut stream_id, mut has_id) = (None, false);
        self.block(|this, name, item| {
            match (name, item) {
                ("name", Item::Value(Value::Text(text) | Value::Path(text))) => event.name = text,
                ("id", Item::Value(value)) => (event.id, has_id) = (this.id(&value)?, true),
                ("stream_id", Item::Value(value)) => stream_id = Some(this.id(&value)?),
                ("loglevel", Item::Value(Value::Number(number))) => {
                    event.level = u64::try_from(number).ok().and_then(Level::from_number)
                }
                ("model.emf.uri", Item::Value(Value::Text(text))) => event.source = source(&text),
                ("context", Item::Type(class)) => types[0] = Some(class),
                ("fields", Item::Type(class)) => types[1] = Some(class),
                _ => {}
            }
            Ok(())
        })
        .map_err(|error| if event.name.is_empty() { error } else { error.within(format_args!("event {:?}", event.name)) })?;
        self.drafts.push(Draft { event, has_id, types, stream_id, line });
        Ok(())
    }

    /// Adds an event class to its stream class, which may stand behind it.
    fn declare_event(&mut self, draft: Draft) -> Result<()> {
        let Draft { mut event, has_id, types, stream_id, line } = draft;
        let known = &mut self.parser.declarations;
        event.stream_id = match (stream_id, &known.streams[..]) {
            (Some(id), _) => id,
            // An event class that names no stream class belongs to the only one, which need not be declared.
            (None, [only]) => only.id,
            (None, []) => {
                let mut stream = StreamClass::default();
                stream.compile();
                known.streams.push(Arc::new(stream));
                0
            }
            (None, _) => {
                return Err(Error::metadata(
                    line,
                    format!("event class {:?} says of no stream class that it is its own", event.name),
                ));
            }
        };
        let Some(stream) = known.stream(event.stream_id).cloned() else {
            return Err(Error::metadata(line, format!("event class {:?} without its stream class", event.name)));
        };
        let has_header_id = says(stream.event_header.as_ref(), Role::EventClassId);
        if !has_header_id {
            event.id = 0; // the only one, which no header names
        }
        let name = &event.name;
        match stream.events().next() {
            Some(other) if !has_id => {
                let what = format!("event class {name:?} has no ID beside {:?}; add `id = N;`, a number of its own", other.name);
                return Err(Error::metadata(line, what));
            }
            Some(other) if !has_header_id => {
                let what = format!(
                    "event classes {:?} and {name:?}, and no event says of which it is; add the field `id` to `event.header` of stream \
                     class {}",
                    other.name, stream.id
                );
                return Err(Error::metadata(line, what));
            }
            _ => {}
        }
        let trace = known.packet_header.clone();
        let earlier = [
            (Scope::PacketHeader, trace.as_deref()),
            (Scope::PacketContext, stream.packet_context.as_ref()),
            (Scope::EventHeader, stream.event_header.as_ref()),
            (Scope::StreamContext, stream.event_context.as_ref()),
        ];
        let [context, fields] = types;
        event.context = context.map(|class| self.root(class, line, Scope::EventContext, &[], &earlier)).transpose()?;
        let earlier: Vec<_> = earlier.into_iter().chain([(Scope::EventContext, event.context.as_ref())]).collect();
        event.fields = fields.map(|class| self.root(class, line, Scope::Payload, &[], &earlier)).transpose()?;
        drop(earlier);
        let mut names = Vec::new();
        for root in [&stream.event_context, &event.context, &event.fields].into_iter().flatten() {
            clock_names(&root.structure, &mut names);
        }
        let own = stream.clock.as_ref().map(|clock| &*clock.name);
        if let Some(other) = names.iter().find(|name| own.is_some_and(|own| own != &***name)) {
            let what =
                format!("event {:?}: a field of the clock {other}, beside {} in its header", event.name, own.unwrap_or_default());
            return Err(Error::unsupported(line, what));
        }
        drop(stream);
        let streams = &mut self.parser.declarations.streams;
        let Some(stream) = streams.iter_mut().find(|stream| stream.id == event.stream_id) else { return Ok(()) };
        if let Some(other) = stream.event(event.id) {
            let (id, one, two) = (event.id, &other.name, &event.name);
            return Err(Error::metadata(line, format!("event ID {id} for both {one:?} and {two:?}")));
        }
        let stream = Arc::make_mut(stream);
        stream.events.insert(stream.event_context.as_ref(), event);
        Ok(())
    }

    fn root(&mut self, class: Type, line: u32, scope: Scope, roles: &[(&str, Role)], earlier: Earlier<'_>) -> Result<Root> {
        too_deep(class.extent().1, line)?;
        let Type::Structure(mut structure) = class else {
            return Err(Error::metadata(line, "a structure is needed here"));
        };
        resolve::assign(&mut structure, roles, scope == Scope::EventHeader).map_err(|what| Error::unsupported(line, what))?;
        let clocks = &mut self.parser.declarations.clocks;
        match &clocks[..] {
            [only] => _ = resolve::map_clock(&mut structure, &only.name),
            // As in babeltrace2, nanoseconds from the Unix epoch: LTTng before 2.0 declares no clock.
            [] => {
                if resolve::map_clock(&mut structure, IMPLICIT_CLOCK) {
                    clocks.push(Clock { name: IMPLICIT_CLOCK.into(), ..Clock::new() });
                }
            }
            several => {
                if resolve::map_clock(&mut structure, "") {
                    let what = format!("a time stamp that says of none of {} clocks that it is its own", several.len());
                    return Err(Error::metadata(line, what));
                }
            }
        }
        resolve::root(structure, scope, earlier).map_err(|what| Error::metadata(line, what))
    }

    fn uuid(&self, text: &str) -> Result<[u8; 16]> {
        crate::metadata::parse_uuid(text).ok_or_else(|| Error::metadata(self.line(), format!("{text:?} is no UUID")))
    }

    fn value(&mut self) -> Result<Value> {
        match self.peek().cloned() {
            Some(Kind::Number(_) | Kind::Sign("+" | "-")) => self.number().map(Value::Number),
            Some(Kind::Text(text)) => {
                self.at += 1;
                Ok(Value::Text(text))
            }
            _ => Ok(Value::Path(self.path()?)),
        }
    }

    /// Reads `{ NAME = VALUE; … }`, the attributes of a type.
    pub(super) fn attributes(&mut self, mut attribute: impl FnMut(&mut Self, &str, Value) -> Result<()>) -> Result<()> {
        self.expect("{")?;
        while !self.accept("}") {
            let name = self.path()?;
            self.expect("=")?;
            let value = self.value()?;
            attribute(self, &name, value)?;
            self.expect(";")?;
        }
        Ok(())
    }

    /// A number, with or without a sign.
    pub(super) fn number(&mut self) -> Result<i128> {
        let negative = self.accept("-");
        if !negative {
            self.accept("+");
        }
        let Some(&Kind::Number(number)) = self.peek() else { return Err(self.unexpected("a number")) };
        self.at += 1;
        Ok(if negative { -i128::from(number) } else { number.into() })
    }

    fn id(&self, value: &Value) -> Result<u64> {
        match value {
            Value::Number(number) => self.unsigned(*number),
            Value::Text(text) | Value::Path(text) => Err(Error::metadata(self.line(), format!("the ID {text:?} is no number"))),
        }
    }

    /// Words joined by dots.
    pub(super) fn path(&mut self) -> Result<String> {
        let mut path = self.word()?;
        while self.accept(".") || self.accept("->") {
            path = path + "." + &self.word()?;
        }
        Ok(path)
    }

    pub(super) fn unsigned(&self, number: i128) -> Result<u64> {
        u64::try_from(number).map_err(|_| Error::metadata(self.line(), format!("{number} is out of range")))
    }

    fn signed(&self, number: i128) -> Result<i64> {
        i64::try_from(number).map_err(|_| Error::metadata(self.line(), format!("{number} is out of range")))
    }

    pub(super) fn peek(&self) -> Option<&Kind<'_>> {
        self.tokens.get(self.at).map(|token| &token.kind)
    }

    pub(super) fn peek_word(&self) -> Option<&str> {
        match self.peek() {
            Some(Kind::Word(word)) => Some(word),
            _ => None,
        }
    }

    pub(super) fn accept(&mut self, what: &str) -> bool {
        let found = matches!(self.peek(), Some(Kind::Sign(sign)) if *sign == what) || self.peek_word() == Some(what);
        self.at += usize::from(found);
        found
    }

    /// Steps over a token that was looked at.
    pub(super) fn skip(&mut self) {
        self.at += 1;
    }

    pub(super) fn expect(&mut self, what: &'static str) -> Result<()> {
        if self.accept(what) { Ok(()) } else { Err(self.unexpected(what)) }
    }

    pub(super) fn word(&mut self) -> Result<String> {
        let word = self.peek_word().map(str::to_owned).ok_or_else(|| self.unexpected("a name"))?;
        self.at += 1;
        Ok(word)
    }

    /// A word that may name something.
    pub(super) fn name(&mut self) -> Result<String> {
        let line = self.line();
        let name = self.word()?;
        if is_keyword(&name) { Err(Error::metadata(line, format!("{name} is a keyword, and no name"))) } else { Ok(name) }
    }

    /// A word that may name a type, alone or with others.
    fn type_word(&mut self) -> Result<String> {
        match self.peek_word() {
            Some(word) if C_WORDS.contains(&word) => self.word(),
            _ => self.name(),
        }
    }

    pub(super) fn text(&mut self) -> Option<String> {
        let Some(Kind::Text(text)) = self.peek() else { return None };
        let text = text.clone();
        self.at += 1;
        Some(text)
    }

    pub(super) fn unexpected(&self, wanted: &str) -> Error {
        let found = match self.peek() {
            Some(Kind::Word(word)) => (*word).to_owned(),
            Some(Kind::Number(number)) => number.to_string(),
            Some(Kind::Text(text)) => format!("{text:?}"),
            Some(Kind::Sign(sign)) => (*sign).to_owned(),
            None => "the end".to_owned(),
        };
        Error::metadata(self.line(), format!("{wanted} is needed before {found}"))
    }

    /// The unit comment behind the token read last.
    pub(super) fn unit(&mut self) -> Option<Box<str>> {
        self.tokens.get_mut(self.at.checked_sub(1)?)?.unit.take()
    }

    /// Line of the token that is next, or of the last one.
    pub(super) fn line(&self) -> u32 {
        self.tokens.get(self.at).or(self.tokens.last()).map_or(1, |token| token.line)
    }

    pub(super) fn enter(&mut self) {
        self.parser.scopes.push(HashMap::new());
    }

    pub(super) fn leave(&mut self) {
        self.parser.scopes.pop();
    }
}

enum Item {
    Type(Type),
    Value(Value),
}

pub(super) fn too_deep(depth: usize, line: u32) -> Result<()> {
    if depth > DEPTH_MAX { Err(Error::metadata(line, "the types are nested too deep")) } else { Ok(()) }
}

/// Whether a word means the most significant byte first.
pub(super) fn big_endian(word: &str) -> Option<bool> {
    match word {
        "le" => Some(false),
        "be" | "network" => Some(true),
        _ => None,
    }
}

/// The field that arrays inside each other name as a length, if it is not one of an earlier structure.
fn unbound(class: &Type) -> Option<&str> {
    match class {
        Type::Sequence(sequence) if !sequence.length.name.contains('.') => Some(&sequence.length.name),
        Type::Sequence(Sequence { element, .. }) | Type::Array(Array { element, .. }) => unbound(element),
        _ => None,
    }
}

fn clock_names(structure: &Structure, names: &mut Vec<Box<str>>) {
    for member in &structure.members {
        match &member.class {
            Type::Integer(integer) => names.extend(integer.clock.clone()),
            Type::Structure(inner) => clock_names(inner, names),
            Type::Variant(variant) => {
                let members = variant.options.clone();
                clock_names(&Structure { members, align: 1 }, names);
            }
            _ => {}
        }
    }
}

/// Takes apart what [`metadata`](crate::metadata) makes of a [`Source`]; other addresses are none of ours.
fn source(uri: &str) -> Option<Source> {
    let (rest, line) = uri.rsplit_once("#L")?;
    let (file, function) = rest.split_once("?function=").unwrap_or((rest, ""));
    Some(Source { file: percent_decode(file)?, line: line.parse().ok()?, function: percent_decode(function)? })
}

fn percent_decode(text: &str) -> Option<String> {
    let mut out = Vec::new();
    let mut rest = text.as_bytes();
    while let [first, tail @ ..] = rest {
        rest = tail;
        if *first == b'%' {
            let [high, low, tail @ ..] = tail else { return None };
            let digit = |byte: u8| char::from(byte).to_digit(16);
            out.push((digit(*high)? << 4 | digit(*low)?) as u8);
            rest = tail;
        } else {
            out.push(*first);
        }
    }
    String::from_utf8(out).ok()
}
