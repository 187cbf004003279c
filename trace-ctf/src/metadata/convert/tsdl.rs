//! Declarations as CTF 1.8.
//!
//! What other readers know by a role has the name that TSDL gives the role. A selector becomes an enumeration whose labels are the
//! options it chooses.

use std::collections::{HashMap, HashSet};
use std::fmt::Write as _;

use super::{Lookup, Target, Writing, clock, each_event_root, each_stream_root, elements, role, says, writing};
use crate::declared::{
    Declarations, EnvValue, EventClass, Flags, Integer, Label, Length, Member, Reference, Role, Root, StreamClass, Structure,
    Type,
};
use crate::metadata::{Quoted, SIGNATURE, Uuid, identifier, indent, names, unit, uri};
use crate::reader::Scope;
use crate::resolve::{self, ABSOLUTE};
use crate::schema::Base;
use crate::{Error, Result};

/// Names that selectors of optional values give to both cases.
const OPTIONAL: [&str; 2] = ["none", "some"];

/// The whole metadata.
pub(in crate::metadata) fn tsdl(all: &Declarations) -> Result<String> {
    let mut out = String::from(SIGNATURE);
    let order = if all.big_endian { "be" } else { "le" };
    let _ = writeln!(out, "\ntrace {{\n\tmajor = 1;\n\tminor = 8;\n\tbyte_order = {order};");
    if let Some(uuid) = &all.uuid {
        let _ = writeln!(out, "\tuuid = \"{}\";", Uuid(uuid));
    }
    let clocks = clock_names(all);
    if let Some(root) = &all.packet_header {
        let writing = writing("packet header".to_owned(), Scope::PacketHeader, root, Vec::new(), None);
        let _ = writeln!(out, "\tpacket.header := {};", Text::new(writing, &clocks)?.root()?);
    }
    out.push_str("};\n");
    if !all.environment.is_empty() {
        out.push_str("\nenv {\n");
        for (name, value) in &all.environment {
            let name = identifier(name);
            let _ = match value {
                EnvValue::Int(number) => writeln!(out, "\t{name} = {number};"),
                EnvValue::String(text) => writeln!(out, "\t{name} = {};", Quoted(text)),
            };
        }
        out.push_str("};\n");
    }
    for (clock, name) in all.clocks.iter().zip(&clocks) {
        let _ = writeln!(out, "\nclock {{\n\tname = \"{name}\";");
        if let Some(uuid) = &clock.uuid {
            let _ = writeln!(out, "\tuuid = \"{}\";", Uuid(uuid));
        }
        if !clock.description.is_empty() {
            let _ = writeln!(out, "\tdescription = {};", Quoted(&clock.description));
        }
        if let Some(precision) = clock.precision_cycles {
            let _ = writeln!(out, "\tprecision = {precision};");
        }
        // As LTTng has it: a clock that can be recognised is compared by its UUID.
        let absolute = clock.absolute && clock.uuid.is_none();
        let (frequency, seconds, cycles) = (clock.frequency_hz, clock.offset_s, clock.offset_cycles);
        let _ =
            writeln!(out, "\tfreq = {frequency};\n\toffset_s = {seconds};\n\toffset = {cycles};\n\tabsolute = {absolute};\n}};");
    }
    for stream in all.streams() {
        stream_class(&mut out, all, stream, &clocks)?;
        for event in stream.events() {
            event_class(&mut out, all, stream, event, &clocks)?;
        }
    }
    Ok(out)
}

fn clock_names(all: &Declarations) -> Vec<String> {
    names::labels(all.clocks.iter().map(|clock| &*clock.name)).collect()
}

fn stream_class(out: &mut String, all: &Declarations, stream: &StreamClass, clocks: &[String]) -> Result<()> {
    out.push_str("\nstream {\n");
    // babeltrace2 takes IDs only where something in the streams says them.
    if says(all.packet_header.as_deref(), Role::StreamClassId) {
        let _ = writeln!(out, "\tid = {};", stream.id);
    }
    each_stream_root(all, stream, |writing| {
        let name = match writing.scope {
            Scope::PacketContext => "packet.context",
            Scope::EventHeader => "event.header",
            _ => "event.context",
        };
        let _ = writeln!(out, "\t{name} := {};", Text::new(writing, clocks)?.root()?);
        Ok(())
    })?;
    out.push_str("};\n");
    // Otherwise nothing would say which of several clocks it is.
    let is_mapped = |root: &Option<Root>| root.as_ref().is_some_and(|root| has_stamp(&root.structure.members));
    if clock(all, stream).is_some() && !is_mapped(&stream.event_header) && !is_mapped(&stream.packet_context) && clocks.len() > 1
    {
        let what = format!("stream class {}: CTF 1.8 knows its clock only by a time stamp, which it has not", stream.id);
        return Err(Error::from(crate::error::Kind::NoWord(what.into())));
    }
    Ok(())
}

fn has_stamp(members: &[Member]) -> bool {
    members
        .iter()
        .any(|member| member.class.integer().is_some_and(|integer| integer.clock.is_some()) || has_stamp(elements(&member.class)))
}

fn event_class(out: &mut String, all: &Declarations, stream: &StreamClass, event: &EventClass, clocks: &[String]) -> Result<()> {
    let _ = writeln!(out, "\n{SIGNATURE}event {{\n\tname = {};", Quoted(&event.name));
    if says(stream.event_header.as_ref(), Role::EventClassId) {
        let _ = writeln!(out, "\tid = {};", event.id);
    }
    if says(all.packet_header.as_deref(), Role::StreamClassId) {
        let _ = writeln!(out, "\tstream_id = {};", event.stream_id);
    }
    if let Some(level) = event.level {
        let _ = writeln!(out, "\tloglevel = {};", level as u8);
    }
    if let Some(source) = &event.source {
        let _ = writeln!(out, "\tmodel.emf.uri = {};", Quoted(&uri(source)));
    }
    each_event_root(all, stream, event, |writing| {
        let name = if writing.scope == Scope::Payload { "fields" } else { "context" };
        let _ = writeln!(out, "\t{name} := {};", Text::new(writing, clocks)?.root()?);
        Ok(())
    })?;
    if event.fields.is_none() {
        out.push_str("\tfields := struct { };\n");
    }
    out.push_str("};\n");
    Ok(())
}

/// What the members of a structure are called.
fn member_names(scope: Scope, members: &[Member]) -> Vec<String> {
    let roles = match scope {
        Scope::PacketHeader => resolve::PACKET_HEADER,
        Scope::PacketContext => resolve::PACKET_CONTEXT,
        Scope::EventHeader => resolve::EVENT_HEADER,
        _ => &[],
    };
    let mut used = HashSet::new();
    let by_role = |member: &Member| {
        let own =
            role(&member.class).or(member.class.integer().and_then(|integer| integer.clock.as_ref()).map(|_| Role::Timestamp));
        let (name, _) = roles.iter().find(|(_, role)| Some(*role) == own)?;
        used.insert(names::key(name)).then(|| (*name).to_owned())
    };
    let known: Vec<Option<String>> = members.iter().map(by_role).collect();
    let others: Vec<&str> = members.iter().zip(&known).filter(|(_, known)| known.is_none()).map(|(one, _)| one.name()).collect();
    let mut others = names::escaped(&others, &mut used).into_iter();
    known.into_iter().map(|known| known.or_else(|| others.next()).unwrap_or_default()).collect()
}

fn option_names(options: &[Member]) -> Vec<String> {
    names::labels(options.iter().map(Member::name)).collect()
}

/// A root on its way.
struct Text<'d, 'c> {
    writing: Writing<'d>,
    clocks: &'c [String],
    /// The labels that selectors need, by where they stand.
    labels: HashMap<Vec<u32>, Vec<Label>>,
    depth: usize,
}

impl<'d, 'c> Text<'d, 'c> {
    fn new(writing: Writing<'d>, clocks: &'c [String]) -> Result<Self> {
        let mut this = Self { writing, clocks, labels: HashMap::new(), depth: 1 };
        this.selectors(&this.writing.root.structure.members)?;
        Ok(this)
    }

    /// Gathers what selectors choose.
    fn selectors(&mut self, members: &'d [Member]) -> Result<()> {
        for (place, member) in members.iter().enumerate() {
            self.writing.at.push(place as u32);
            self.selector(&member.class)?;
            self.writing.at.pop();
        }
        Ok(())
    }

    fn selector(&mut self, class: &'d Type) -> Result<()> {
        if let Some((tag, wanted)) = self.wanted(class)? {
            self.choose(tag, wanted)?;
        }
        match class {
            Type::Variant(variant) => self.selectors(&variant.options),
            Type::Optional(optional) => self.selector(&optional.inner),
            Type::Structure(structure) => self.selectors(&structure.members),
            Type::Array(array) => self.selector(&array.element),
            Type::Sequence(sequence) => self.selector(&sequence.element),
            _ => Ok(()),
        }
    }

    /// What is chosen by a selector: the labels of the options.
    fn wanted(&self, class: &'d Type) -> Result<Option<(&'d Reference, Vec<Label>)>> {
        let label = |label: &str, low, high| Label { label: label.to_owned(), low, high };
        Ok(match class {
            Type::Variant(variant) => {
                let names = option_names(&variant.options);
                let choices = variant.choices.iter();
                let labels = choices.map(|&(low, high, option)| label(&names[option as usize], low, high));
                Some((&variant.tag, labels.collect()))
            }
            Type::Optional(optional) => {
                let choices = optional_choices(&optional.choices, self.tag(&optional.tag)?).into_iter();
                let labels = choices.map(|(low, high, is_there)| label(OPTIONAL[usize::from(is_there)], low, high));
                Some((&optional.tag, labels.collect()))
            }
            _ => None,
        })
    }

    /// The integer that a reference is to.
    fn tag(&self, reference: &Reference) -> Result<&'d Integer> {
        let target = self.writing.target(reference)?;
        let mut members = &target.root.structure.members[..];
        let mut found = None;
        for place in &target.path {
            let Some(member) = members.get(*place as usize) else { break };
            found = member.class.integer();
            members = elements(&member.class);
        }
        found.ok_or_else(|| self.writing.error("its selector is no integer"))
    }

    fn choose(&mut self, tag: &Reference, wanted: Vec<Label>) -> Result<()> {
        let target = self.writing.target(tag)?;
        let mut own = labels_of(&target);
        let is_own = is_chosen(&own, &wanted);
        if target.scope != self.writing.scope {
            if is_own {
                return Ok(());
            }
            return Err(self
                .writing
                .error("CTF 1.8 has no selector of another structure that is not an enumeration of the options"));
        }
        if !is_own {
            // They say otherwise what the options say.
            let is_other =
                |own: &Label, wanted: &Label| own.label != wanted.label && (own.high < wanted.low || wanted.high < own.low);
            own.retain(|own| wanted.iter().all(|wanted| is_other(own, wanted)));
        }
        let known = self.labels.entry(target.path.clone()).or_insert(own);
        for label in wanted {
            if !known.contains(&label) {
                known.push(label);
            }
        }
        Ok(())
    }

    fn root(mut self) -> Result<String> {
        let structure = &self.writing.root.structure;
        let text = self.structure(structure)?;
        // What one variant took for itself, another may have needed.
        self.check(&structure.members)?;
        Ok(text)
    }

    /// Makes sure that each selector chooses as it should.
    fn check(&mut self, members: &'d [Member]) -> Result<()> {
        for (place, member) in members.iter().enumerate() {
            self.writing.at.push(place as u32);
            if let Some((tag, wanted)) = self.wanted(&member.class)? {
                let target = self.writing.target(tag)?;
                let labels = self.labels.get(&target.path).filter(|_| target.scope == self.writing.scope);
                if labels.is_some_and(|labels| !is_chosen(labels, &wanted)) {
                    return Err(self.writing.error("CTF 1.8 has no selector that chooses differently for two variants"));
                }
            }
            self.check(elements(&member.class))?;
            self.writing.at.pop();
        }
        Ok(())
    }

    fn structure(&mut self, structure: &'d Structure) -> Result<String> {
        self.writing.open.push(self.writing.at.clone());
        let names = member_names(self.writing.scope, &structure.members);
        let mut text = self.members("struct {", &structure.members, names)?;
        self.writing.open.pop();
        if structure.align > structure.members.iter().map(|member| member.class.align()).max().unwrap_or(1) {
            let _ = write!(text, " align({})", structure.align);
        }
        Ok(text)
    }

    fn members(&mut self, head: &str, members: &'d [Member], names: Vec<String>) -> Result<String> {
        let mut out = format!("{head}\n");
        self.depth += 1;
        for (place, (member, name)) in members.iter().zip(names).enumerate() {
            self.writing.at.push(place as u32);
            indent(&mut out, self.depth);
            let (class, dimensions) = self.class(&member.class)?;
            let _ = write!(out, "{class} {name}{dimensions};");
            if let Some(text) = &member.unit {
                unit(&mut out, text);
            }
            out.push('\n');
            self.writing.at.pop();
        }
        self.depth -= 1;
        indent(&mut out, self.depth);
        out.push('}');
        Ok(out)
    }

    /// A type, and the dimensions that stand behind the name.
    fn class(&mut self, class: &'d Type) -> Result<(String, String)> {
        let word = match class {
            Type::Integer(integer) | Type::Long(integer) => self.selected(integer, &[])?,
            Type::Enumeration(enumeration) => self.selected(&enumeration.integer, &enumeration.labels)?,
            Type::Boolean(integer) => self.selected(integer, &boolean(integer))?,
            Type::Flags(Flags { integer, .. }) => self.selected(integer, &[])?,
            Type::Float(float) => {
                let digits = match float.bits {
                    32 => "exp_dig = 8; mant_dig = 24;",
                    64 => "exp_dig = 11; mant_dig = 53;",
                    bits => return Err(self.no(format!("floating point numbers of {bits} bits"))),
                };
                if float.reversed {
                    return Err(self.no("bits in an unusual order"));
                }
                let order = if float.big_endian { "be" } else { "le" };
                format!("floating_point {{ {digits} align = {}; byte_order = {order}; }}", float.align)
            }
            Type::Text(text) if text.encoding.unit() == 1 => "string { encoding = UTF8; }".to_owned(),
            Type::Text(_) => return Err(self.no("texts that are not UTF-8")),
            Type::Blob(blob) => {
                let length = match &blob.length {
                    Length::Fixed(length) => length.to_string(),
                    Length::Field(length) => self.path(length)?,
                };
                let byte = Integer { base: Base::Hex, ..Integer::unsigned(8, false) };
                return Ok((self.integer(&byte)?, format!("[{length}]")));
            }
            Type::Structure(structure) => self.structure(structure)?,
            Type::Variant(variant) => {
                let head = format!("variant <{}> {{", self.path(&variant.tag)?);
                self.members(&head, &variant.options, option_names(&variant.options))?
            }
            Type::Optional(optional) => {
                let mut out = format!("variant <{}> {{\n", self.path(&optional.tag)?);
                self.depth += 1;
                indent(&mut out, self.depth);
                let _ = writeln!(out, "struct {{ }} {};", OPTIONAL[0]);
                indent(&mut out, self.depth);
                let (class, dimensions) = self.class(&optional.inner)?;
                let _ = writeln!(out, "{class} {}{dimensions};", OPTIONAL[1]);
                self.depth -= 1;
                indent(&mut out, self.depth);
                out + "}"
            }
            Type::Array(array) => {
                self.dense(array.align, &array.element)?;
                let (class, inner) = self.class(&array.element)?;
                return Ok((class, format!("[{}]{inner}", array.length)));
            }
            Type::Sequence(sequence) => {
                self.dense(sequence.align, &sequence.element)?;
                let (class, inner) = self.class(&sequence.element)?;
                return Ok((class, format!("[{}]{inner}", self.path(&sequence.length)?)));
            }
        };
        Ok((word, String::new()))
    }

    fn no(&self, what: impl std::fmt::Display) -> Error {
        self.writing.error(format!("CTF 1.8 has no {what}"))
    }

    fn dense(&self, align: u32, element: &Type) -> Result<()> {
        if align > element.align() { Err(self.no("alignment of an array as a whole")) } else { Ok(()) }
    }

    /// An integer with its labels, or with those that make it a selector.
    fn selected(&self, integer: &Integer, labels: &[Label]) -> Result<String> {
        let labels = self.labels.get(&self.writing.at).map_or(labels, |labels| labels);
        let text = self.integer(integer)?;
        if labels.is_empty() {
            return Ok(text);
        }
        let mut out = format!("enum : {text} {{");
        for (place, Label { label, low, high }) in labels.iter().enumerate() {
            let comma = if place == 0 { "" } else { "," };
            let _ = write!(out, "{comma} {} = {low}", Quoted(label));
            if low != high {
                let _ = write!(out, " ... {high}");
            }
        }
        Ok(out + " }")
    }

    fn integer(&self, integer: &Integer) -> Result<String> {
        if integer.variable {
            return Err(self.no("integers of variable length"));
        }
        if integer.reversed {
            return Err(self.no("bits in an unusual order"));
        }
        let Integer { bits, align, signed, base, big_endian, .. } = integer;
        let (base, order) = (*base as u8, if *big_endian { "be" } else { "le" });
        let mut out =
            format!("integer {{ size = {bits}; align = {align}; signed = {signed}; base = {base}; byte_order = {order};");
        match integer.text {
            None => {}
            Some(encoding) if encoding.unit() == 1 => out.push_str(" encoding = UTF8;"),
            Some(_) => return Err(self.no("texts that are not UTF-8")),
        }
        if let (Some(_), Some(clock)) = (&integer.clock, self.writing.clock) {
            let _ = write!(out, " map = clock.{}.value;", self.clocks[clock]);
        }
        Ok(out + " }")
    }

    fn path(&self, reference: &Reference) -> Result<String> {
        let target = self.writing.target(reference)?;
        let names = target.identifiers();
        Ok(match self.writing.lookup(&target) {
            Lookup::Here => names.last().cloned().unwrap_or_default(),
            Lookup::Absolute => {
                let prefix = ABSOLUTE.iter().find(|(_, scope)| *scope == target.scope).map_or("", |(prefix, _)| prefix);
                format!("{prefix}{}", names.join("."))
            }
            Lookup::Outward { depth, .. } => names[depth.min(names.len())..].join("."),
        })
    }
}

impl Target<'_> {
    /// The identifiers of the members that lead there.
    fn identifiers(&self) -> Vec<String> {
        let mut members = &self.root.structure.members[..];
        let (mut all, mut is_variant) = (Vec::new(), false);
        for place in &self.path {
            let names = if is_variant { option_names(members) } else { member_names(self.scope, members) };
            all.extend(names.into_iter().nth(*place as usize));
            let Some(member) = members.get(*place as usize) else { break };
            is_variant = matches!(member.class, Type::Variant(_));
            members = elements(&member.class);
        }
        all
    }
}

/// The labels that a selector has of its own.
fn labels_of(target: &Target<'_>) -> Vec<Label> {
    let mut members = &target.root.structure.members[..];
    let mut labels = Vec::new();
    for place in &target.path {
        let Some(member) = members.get(*place as usize) else { break };
        labels = match &member.class {
            Type::Enumeration(enumeration) => enumeration.labels.to_vec(),
            Type::Boolean(integer) => boolean(integer),
            _ => Vec::new(),
        };
        members = elements(&member.class);
    }
    labels
}

/// Whether labels are all that are wanted, and none of these stands for something else as well.
fn is_chosen(labels: &[Label], wanted: &[Label]) -> bool {
    let is_named = |label: &&Label| wanted.iter().any(|wanted| wanted.label == label.label);
    wanted.iter().all(|wanted| labels.contains(wanted)) && labels.iter().filter(is_named).all(|label| wanted.contains(label))
}

fn boolean(integer: &Integer) -> Vec<Label> {
    let label = |label: &str, low, high| Label { label: label.to_owned(), low, high };
    vec![label("false", 0, 0), label("true", 1, greatest(integer))]
}

fn greatest(integer: &Integer) -> i128 {
    i128::from(u64::MAX >> (64 - u32::from(integer.bits))) >> u32::from(integer.signed)
}

/// When an optional value is there, and when it is not.
fn optional_choices(choices: &[(i128, i128)], tag: &Integer) -> Vec<(i128, i128, bool)> {
    let (least, most) = (if tag.signed { -greatest(tag) - 1 } else { 0 }, greatest(tag));
    let mut there: Vec<(i128, i128)> = choices.to_vec();
    if there.is_empty() {
        there = [(least, -1), (1, most)].into_iter().filter(|(low, high)| low <= high).collect();
    }
    there.sort_unstable();
    let (mut all, mut next) = (Vec::new(), least);
    for (low, high) in there {
        if next < low {
            all.push((next, low - 1, false));
        }
        all.push((low, high, true));
        next = next.max(high + 1);
    }
    if next <= most {
        all.push((next, most, false));
    }
    all
}
