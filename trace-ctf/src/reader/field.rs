//! One field of many events.

use std::borrow::Cow;

use crate::declared::{Encoding, Enumeration, EventClass, Flags, Member, Root, StreamClass, Type};
use crate::decode::{Cursor, Imports, Item};
use crate::reader::{Long, Scope};

/// A field of an event class, found once and then read from many events with [`Event::get`](crate::reader::Event::get).
///
/// # Examples
///
/// ```no_run
/// use trace_ctf::reader::{Entry, Field, Trace};
///
/// # fn main() -> trace_ctf::Result<()> {
/// let trace = Trace::open("app.ringtrace".as_ref())?;
/// let stream = trace.declarations().stream(0).expect("stream class 0");
/// let class = stream.events().find(|class| class.name == "app:request").expect("requests");
/// let bytes = Field::find(stream, class, "bytes").expect("a field bytes");
/// let (mut merge, mut sum) = (trace.merge(), 0);
/// while let Some(entry) = merge.next_entry() {
///     if let Entry::Event(event) = entry? {
///         // Nothing where the event is of another class.
///         sum += event.get(&bytes).and_then(|value| value.as_u64()).unwrap_or(0);
///     }
/// }
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct Field {
    pub(super) scope: Scope,
    stream_id: u64,
    /// Nothing where all events of the stream class have it.
    event_id: Option<u64>,
    path: Vec<u32>,
}

/// A value without parts.
#[derive(Clone, Copy, Debug, PartialEq)]
#[allow(missing_docs)]
pub enum Scalar<'p> {
    Unsigned(u64),
    Signed(i64),
    Long(Long),
    Float(f64),
    Boolean(bool),
    /// A value and its class, which knows its names.
    Enumeration(&'p Enumeration, i128),
    Flags(&'p Flags, u64),
    /// The bytes of a text; not always UTF-8.
    Text(&'p [u8]),
    /// The bytes of a text in another encoding.
    Wide(Encoding, &'p [u8]),
    Blob(&'p [u8]),
    /// An optional value that is not there.
    Absent,
    /// The name of the option that a variant has; its value is found by that name.
    Option(&'p str),
}

impl Field {
    /// Finds a field by its name, with dots between the names of structures and of what is in them.
    ///
    /// The payload is searched first, then the contexts of the event, of its stream and of its packet. Of a variant, the name
    /// of an option leads on.
    pub fn find(stream: &StreamClass, class: &EventClass, name: &str) -> Option<Self> {
        let scopes = [
            (Scope::Payload, &class.fields, Some(class.id)),
            (Scope::EventContext, &class.context, Some(class.id)),
            (Scope::StreamContext, &stream.event_context, None),
            (Scope::PacketContext, &stream.packet_context, None),
        ];
        scopes.into_iter().find_map(|(scope, root, event_id)| {
            let path = path(&root.as_ref()?.structure.members, name)?;
            Some(Self { scope, stream_id: stream.id, event_id, path })
        })
    }

    /// The structure it lies in.
    pub fn scope(&self) -> Scope {
        self.scope
    }

    /// Its declaration in a class that it was found in.
    pub fn member<'c>(&self, stream: &'c StreamClass, class: &'c EventClass) -> Option<&'c Member> {
        let root = match self.scope {
            Scope::Payload => class.fields.as_ref(),
            Scope::EventContext => class.context.as_ref(),
            Scope::StreamContext => stream.event_context.as_ref(),
            _ => stream.packet_context.as_ref(),
        };
        let (first, rest) = self.path.split_first()?;
        let first = root?.structure.members.get(*first as usize)?;
        rest.iter().try_fold(first, |member, &place| parts(&member.class)?.get(place as usize))
    }

    /// Whether events of a class have it.
    #[inline]
    pub(super) fn belongs_to(&self, stream: &StreamClass, class: &EventClass) -> bool {
        self.stream_id == stream.id && self.event_id.is_none_or(|id| id == class.id)
    }

    #[inline]
    pub(super) fn read<'p>(&self, root: &'p Root, cursor: Cursor<'p>, imports: Imports<'_>) -> Option<Scalar<'p>> {
        read(root, &self.path, cursor, imports)
    }
}

/// Reads the value at a path through a root.
#[inline]
pub(super) fn read<'p>(root: &'p Root, path: &[u32], mut cursor: Cursor<'p>, imports: Imports<'_>) -> Option<Scalar<'p>> {
    let mut found = None;
    let mut is_first = true;
    let read = cursor.field(root, path, imports, &mut |item| {
        // What has parts is no scalar.
        if !matches!(item, Item::OptionalBegin) && core::mem::take(&mut is_first) {
            found = scalar(item);
        }
    });
    read.ok()?;
    found
}

pub(super) fn scalar<'p>(item: Item<'p, 'p>) -> Option<Scalar<'p>> {
    Some(match item {
        Item::Unsigned(_, value) => Scalar::Unsigned(value),
        Item::Signed(_, value) => Scalar::Signed(value),
        Item::Long(class, value) => Scalar::Long(Long::new(class, value)),
        Item::Float(_, value) => Scalar::Float(value),
        Item::Boolean(value) => Scalar::Boolean(value),
        Item::Enumeration(class, value) => Scalar::Enumeration(class, value),
        Item::Flags(class, value) => Scalar::Flags(class, value),
        Item::Text(bytes) => Scalar::Text(bytes),
        Item::Wide(encoding, bytes) => Scalar::Wide(encoding, bytes),
        Item::Blob(_, bytes) => Scalar::Blob(bytes),
        Item::Absent => Scalar::Absent,
        Item::VariantBegin(option) => Scalar::Option(option.name()),
        _ => return None,
    })
}

/// Finds the places of a dotted name; names themselves may have dots in CTF 2.
pub(crate) fn path(members: &[Member], name: &str) -> Option<Vec<u32>> {
    members.iter().enumerate().find_map(|(place, member)| {
        for own in [member.name(), &member.declared_name] {
            let Some(rest) = name.strip_prefix(own) else { continue };
            if rest.is_empty() {
                return Some(vec![place as u32]);
            }
            let inner = rest.strip_prefix('.').and_then(|rest| path(parts(&member.class)?, rest));
            if let Some(mut inner) = inner {
                inner.insert(0, place as u32);
                return Some(inner);
            }
        }
        None
    })
}

/// What has a name in a type.
pub(crate) fn parts(class: &Type) -> Option<&[Member]> {
    match class {
        Type::Structure(structure) => Some(&structure.members),
        Type::Variant(variant) => Some(&variant.options),
        Type::Optional(optional) => parts(&optional.inner),
        _ => None,
    }
}

impl<'p> Scalar<'p> {
    /// The number, if it is one that fits.
    pub fn as_u64(&self) -> Option<u64> {
        match *self {
            Self::Unsigned(value) | Self::Flags(_, value) => Some(value),
            Self::Signed(value) => value.try_into().ok(),
            Self::Long(value) => value.as_u128()?.try_into().ok(),
            Self::Boolean(value) => Some(value.into()),
            Self::Enumeration(_, value) => value.try_into().ok(),
            _ => None,
        }
    }

    /// The number, if it is one that fits.
    pub fn as_i64(&self) -> Option<i64> {
        match *self {
            Self::Signed(value) => Some(value),
            Self::Long(value) => value.as_i128()?.try_into().ok(),
            Self::Enumeration(_, value) => value.try_into().ok(),
            _ => self.as_u64()?.try_into().ok(),
        }
    }

    /// The number, rounded where it has more digits.
    pub fn as_f64(&self) -> Option<f64> {
        match *self {
            Self::Float(value) => Some(value),
            Self::Unsigned(value) | Self::Flags(_, value) => Some(value as f64),
            Self::Signed(value) => Some(value as f64),
            Self::Long(value) => Some(value.as_f64()),
            Self::Boolean(value) => Some(u8::from(value).into()),
            Self::Enumeration(_, value) => Some(value as f64),
            _ => None,
        }
    }

    /// The text, the first name of an enumeration's value, or the name of an option; what is not UTF-8 in it is replaced.
    pub fn as_str(&self) -> Option<Cow<'p, str>> {
        match *self {
            Self::Text(bytes) => Some(String::from_utf8_lossy(bytes)),
            Self::Wide(encoding, bytes) => Some(encoding.decode(bytes).into()),
            Self::Enumeration(class, value) => class.labels(value).next().map(Cow::Borrowed),
            Self::Option(name) => Some(Cow::Borrowed(name)),
            _ => None,
        }
    }

    /// The bytes of a text or blob.
    pub fn as_bytes(&self) -> Option<&'p [u8]> {
        match *self {
            Self::Text(bytes) | Self::Wide(_, bytes) | Self::Blob(bytes) => Some(bytes),
            _ => None,
        }
    }
}
