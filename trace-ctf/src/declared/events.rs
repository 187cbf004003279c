//! The event classes of a stream class, found by their IDs.

use std::collections::HashMap;
use std::sync::Arc;

use super::{EventClass, Root};

/// IDs below this are looked up by index. Tracers number their classes from 0.
const DENSE: usize = 1 << 12;

const NONE: u32 = u32::MAX;

/// Where the structures of an event lie behind its header, in bits, where no value changes that.
///
/// Only for events whose structures are byte aligned, and whole bytes before the payload, behind a header that ends with a byte.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Layout {
    pub(crate) event_context: u32,
    pub(crate) payload: u32,
    /// Nothing where values decide how long the payload is.
    pub(crate) end: Option<u32>,
}

impl Layout {
    pub(crate) fn new(stream_context: Option<&Root>, class: &EventClass) -> Option<Self> {
        let size = |root: Option<&Root>| {
            let Some(root) = root else { return Some(0) };
            let bits = u32::try_from(root.plan.fixed()?).ok()?;
            (root.structure.align <= 8 && bits % 8 == 0).then_some(bits)
        };
        let event_context = size(stream_context)?;
        let payload = event_context.checked_add(size(class.context.as_ref())?)?;
        if class.fields.as_ref().is_some_and(|root| root.structure.align > 8) {
            return None;
        }
        let end = size(class.fields.as_ref()).and_then(|bits| payload.checked_add(bits));
        Some(Self { event_context, payload, end })
    }
}

/// An event class and where its structures lie.
#[derive(Clone, Debug, PartialEq)]
struct Row {
    layout: Option<Layout>,
    class: Arc<EventClass>,
}

/// Event classes in the order of their declaration, and where each ID is among them.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct EventTable {
    rows: Vec<Row>,
    /// Places of small IDs.
    dense: Vec<u32>,
    /// Places of all others.
    sparse: HashMap<u64, u32>,
}

impl EventTable {
    /// Where a class is, for [`EventTable::at`].
    #[inline]
    pub(crate) fn place(&self, id: u64) -> Option<u32> {
        if id < DENSE as u64 {
            return self.dense.get(id as usize).copied().filter(|&place| place != NONE);
        }
        self.sparse.get(&id).copied()
    }

    /// # Panics
    ///
    /// Where `place` is none that [`EventTable::place`] gave.
    #[inline]
    pub(crate) fn at(&self, place: u32) -> &EventClass {
        &self.rows[place as usize].class
    }

    /// As [`EventTable::at`], with its layout.
    #[inline(always)]
    pub(crate) fn row(&self, place: u32) -> (&EventClass, Option<Layout>) {
        let row = &self.rows[place as usize];
        (&row.class, row.layout)
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = &EventClass> {
        self.rows.iter().map(|row| &*row.class)
    }

    /// Adds a class, in place of one that has its ID.
    pub(crate) fn insert(&mut self, stream_context: Option<&Root>, class: EventClass) {
        let layout = Layout::new(stream_context, &class);
        let place = self.rows.len() as u32;
        let id = class.id;
        self.rows.push(Row { layout, class: Arc::new(class) });
        if id < DENSE as u64 {
            let id = id as usize;
            if self.dense.len() <= id {
                self.dense.resize(id + 1, NONE);
            }
            self.dense[id] = place;
        } else {
            self.sparse.insert(id, place);
        }
    }
}
