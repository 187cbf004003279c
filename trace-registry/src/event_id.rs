//! Event IDs: numbers of event classes within one stream class, assigned when a class is first enabled.

use crate::event::EventClass;
use crate::level::Level;
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
pub struct EventIds(Vec<EventKey>);

impl EventIds {
    /// Returns the class's ID, and whether it is new, so that it must be described before its first record.
    pub fn assign(&mut self, key: EventKey) -> (u32, bool) {
        if let Some(at) = self.0.iter().position(|k| *k == key) {
            return (at as u32, false);
        }
        self.0.push(key);
        (self.0.len() as u32 - 1, true)
    }

    /// Takes back the ID that was assigned last, because its class could not be described. Others stay.
    pub fn take_back(&mut self, id: u32) {
        if id as usize + 1 == self.0.len() {
            self.0.pop();
        }
    }

    /// Returns the assigned classes; the index is the ID.
    pub fn classes(&self) -> &[EventKey] {
        &self.0
    }
}
