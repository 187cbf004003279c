//! Fields by their names, of events of any class: columns, keys, and what is measured.

use std::collections::HashMap;
use std::fmt::Write as _;

use trace_ctf::declared::{EventClass, Member, StreamClass, Type};
use trace_ctf::reader::{Event, Field, Scalar, Scope};
use trace_registry::registry::near;

use super::source::{Class, there_are};
use crate::failure::Failure;

/// What every event has.
const BUILT_IN: [&str; 4] = ["time", "event", "level", "cpu"];

/// A field that classes may have under one name.
#[derive(Clone, Debug)]
pub(super) struct Column {
    pub(super) name: String,
    fields: HashMap<Class, Access>,
    last: Option<(Class, Option<Access>)>,
}

/// How a class has it.
#[derive(Clone, Debug)]
enum Access {
    Field(Field),
    /// Perhaps, under a key that is known only at run time.
    Extra,
}

/// Some columns of a table of events.
#[derive(Clone, Debug)]
pub(super) struct Columns(Vec<Column>);

impl Column {
    /// Finds a field in the classes; it is an error where none has it.
    pub(super) fn new(name: &str, classes: &[(&StreamClass, &EventClass)]) -> Result<Self, Failure> {
        let column = Self::anywhere(name, classes);
        if !column.fields.is_empty() {
            return Ok(column);
        }
        let mut names: Vec<String> = classes.iter().flat_map(|(stream, class)| names(stream, class)).collect();
        let mut known = std::collections::HashSet::new();
        names.retain(|name| known.insert(name.clone()));
        let near = near(name, names.iter().cloned());
        let near = if near.is_empty() { String::new() } else { format!("did you mean {}? ", near.join(" or ")) };
        let names: Vec<&str> = names.iter().map(String::as_str).collect();
        Err(Failure::Wrong(format!("{name}: no such field\n  {near}{}", there_are("fields", &names))))
    }

    /// Finds a field in the classes that have it.
    pub(super) fn anywhere(name: &str, classes: &[(&StreamClass, &EventClass)]) -> Self {
        let find = |(stream, class): &(&StreamClass, &EventClass)| {
            let extra = class.has_extras().then_some(Access::Extra);
            Some((Class::of(class), find(stream, class, name).map(Access::Field).or(extra)?))
        };
        Self { name: name.to_owned(), fields: classes.iter().filter_map(find).collect(), last: None }
    }

    /// Whether it is of the events themselves, and not of their context.
    pub(super) fn is_payload(&self) -> bool {
        self.fields.values().any(|access| match access {
            Access::Field(field) => field.scope() == Scope::Payload,
            Access::Extra => true,
        })
    }

    pub(super) fn is_of(&self, class: &EventClass) -> bool {
        self.fields.contains_key(&Class::of(class))
    }

    pub(super) fn get<'e>(&mut self, event: &Event<'e>) -> Option<Scalar<'e>> {
        let class = Class::of(event.class());
        if self.last.as_ref().is_none_or(|(known, _)| *known != class) {
            self.last = Some((class, self.fields.get(&class).cloned()));
        }
        match self.last.as_ref()?.1.as_ref()? {
            Access::Field(field) => event.get(field),
            Access::Extra => event.extra(&self.name),
        }
    }

    /// The value as text in one line; `None` where the event has none.
    pub(super) fn text(&mut self, event: &Event<'_>) -> Option<String> {
        show(self.get(event)?)
    }

    /// The value as text, with all its characters.
    pub(super) fn raw(&mut self, event: &Event<'_>) -> Option<String> {
        match self.get(event)? {
            value @ (Scalar::Text(_) | Scalar::Wide(..)) => value.as_str().map(|text| text.into_owned()),
            value => show(value),
        }
    }
}

/// Finds a field; of an optional value, what is in it.
fn find(stream: &StreamClass, class: &EventClass, name: &str) -> Option<Field> {
    let name = name.strip_prefix("$ctx.").unwrap_or(name);
    let field = Field::find(stream, class, name)?;
    let inside = match field.member(stream, class).map(|member| &member.class) {
        Some(Type::Structure(structure)) if structure.members.iter().any(|member| member.name() == "value") => "value",
        Some(Type::Variant(variant)) if variant.options.iter().any(|option| option.name() == "some") => "some",
        _ => return Some(field),
    };
    find(stream, class, &format!("{name}.{inside}"))
}

/// The names of the fields that have single values, of the payload and of the contexts.
pub(super) fn names(stream: &StreamClass, class: &EventClass) -> Vec<String> {
    let mut all = Vec::new();
    let roots = [&class.fields, &class.context, &stream.event_context];
    for root in roots.into_iter().flatten() {
        collect(&root.structure.members, "", &mut all);
    }
    let context = stream.packet_context.iter().flat_map(|root| &root.structure.members);
    all.extend(context.filter(|member| member.name() == "cpu_id").map(|member| member.name().to_owned()));
    all
}

fn collect(members: &[Member], before: &str, all: &mut Vec<String>) {
    for member in members.iter().filter(|member| !member.is_companion()) {
        let name = format!("{before}{}", member.name());
        match &member.class {
            Type::Structure(structure) if structure.members.iter().any(|member| member.name() == "value") => all.push(name),
            Type::Structure(structure) => collect(&structure.members, &format!("{name}."), all),
            Type::Variant(variant) if !variant.options.iter().any(|option| option.name() == "some") => {
                all.push(name.clone());
                collect(&variant.options, &format!("{name}."), all);
            }
            _ => all.push(name),
        }
    }
}

/// A value as text, in one line.
pub(super) fn show(value: Scalar<'_>) -> Option<String> {
    Some(match value {
        Scalar::Unsigned(number) | Scalar::Flags(_, number) => number.to_string(),
        Scalar::Signed(number) => number.to_string(),
        Scalar::Long(number) => number.to_string(),
        Scalar::Float(number) => number.to_string(),
        Scalar::Boolean(value) => value.to_string(),
        Scalar::Enumeration(_, number) if value.as_str().is_none() => number.to_string(),
        Scalar::Blob(bytes) => bytes.iter().fold(String::new(), |mut text, byte| {
            let _ = write!(text, "{byte:02x}");
            text
        }),
        Scalar::Absent => return None,
        _ => {
            let text = value.as_str()?;
            text.chars().flat_map(|char| if char.is_control() { char.escape_default().collect() } else { vec![char] }).collect()
        }
    })
}

impl Columns {
    pub(super) fn new(names: &[String], classes: &[(&StreamClass, &EventClass)]) -> Result<Self, Failure> {
        let column = |name: &String| {
            if BUILT_IN.contains(&name.as_str()) { Ok(Column::anywhere(name, classes)) } else { Column::new(name, classes) }
        };
        Ok(Self(names.iter().map(column).collect::<Result<_, _>>()?))
    }

    /// Appends a line; what an event does not have is `-`.
    pub(super) fn line(&mut self, event: &Event<'_>, time: &str, line: &mut Vec<u8>) {
        for (place, column) in self.0.iter_mut().enumerate() {
            if place > 0 {
                line.push(b'\t');
            }
            let value = match (column.text(event), column.name.as_str()) {
                (Some(value), _) => value,
                (None, "time") if !time.is_empty() => time.to_owned(),
                (None, "event") => event.name().escape_debug().to_string(),
                (None, "level") => event.class().level.map_or_else(|| "-".to_owned(), |level| level.name().to_owned()),
                (None, "cpu") => event.packet().info().cpu_id.map_or_else(|| "-".to_owned(), |cpu| cpu.to_string()),
                (None, _) => "-".to_owned(),
            };
            line.extend(value.as_bytes());
        }
        line.push(b'\n');
    }
}
