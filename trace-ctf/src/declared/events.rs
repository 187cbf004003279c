//! The event classes of a stream class, found by their IDs.

use std::collections::HashMap;
use std::sync::Arc;

use super::EventClass;

/// IDs below this are looked up by index. Tracers number their classes from 0.
const DENSE: usize = 1 << 12;

const NONE: u32 = u32::MAX;

/// Event classes in the order of their declaration, and where each ID is among them.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct EventTable {
    classes: Vec<Arc<EventClass>>,
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
        &self.classes[place as usize]
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = &EventClass> {
        self.classes.iter().map(|class| &**class)
    }

    /// Adds a class, in place of one that has its ID.
    pub(crate) fn insert(&mut self, class: EventClass) {
        let place = self.classes.len() as u32;
        let id = class.id;
        self.classes.push(Arc::new(class));
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
