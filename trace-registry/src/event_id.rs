//! Event IDs: numbers of event classes within one stream class, assigned when a class is first enabled.

use crate::event::EventClass;
use crate::level::Level;
use alloc::collections::BTreeMap;
use alloc::string::String;
use alloc::vec::Vec;

/// What tells two classes of a stream apart.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EventKey {
    /// Name of the event.
    pub name: String,
    /// Severity.
    pub level: Level,
    /// Fields.
    pub class: &'static EventClass,
}

/// The event IDs of one stream class: dense from 0, and never given to another class.
///
/// ```
/// # use trace_registry::{EventClass, Level, event_id::{EventIds, EventKey}, tracepoint::Location};
/// static CLASS: EventClass = EventClass {
///     name: "Opened", module_path: "app", location: Location { file: "app.rs", line: 1 }, fields: &[],
/// };
/// let key = |name: &str| EventKey { name: name.into(), level: Level::Info, class: &CLASS };
/// let mut ids = EventIds::default();
/// assert_eq!(ids.assign(key("app:open")), (0, true));
/// assert_eq!(ids.assign(key("app:close")), (1, true));
/// assert_eq!(ids.assign(key("app:open")), (0, false)); // enabled again: the same ID
/// ```
#[derive(Debug, Default)]
pub struct EventIds {
    classes: Vec<EventKey>,
    /// The IDs of each name.
    by_name: BTreeMap<String, Vec<u32>>,
}

impl EventIds {
    /// Returns the class's ID, and whether it is new, so that it must be described before its first record.
    pub fn assign(&mut self, key: EventKey) -> (u32, bool) {
        let next = self.classes.len() as u32;
        match self.by_name.get_mut(&key.name) {
            Some(ids) => match ids.iter().find(|id| self.classes[**id as usize] == key) {
                Some(id) => return (*id, false),
                None => ids.push(next),
            },
            None => drop(self.by_name.insert(key.name.clone(), alloc::vec![next])),
        }
        self.classes.push(key);
        (next, true)
    }

    /// Returns the ID of a class that has one.
    pub fn find(&self, name: &str, level: Level, class: &EventClass) -> Option<u32> {
        let is_it = |id: &&u32| {
            let key = &self.classes[**id as usize];
            key.level == level && (core::ptr::eq(key.class, class) || key.class == class)
        };
        self.by_name.get(name)?.iter().find(is_it).copied()
    }

    /// Returns the assigned classes; the index is the ID.
    pub fn classes(&self) -> &[EventKey] {
        &self.classes
    }
}
