//! `ringtrace:trigger_fired`: what a firing leaves in the trace.

use trace_registry::field::{Field, FieldDescriptor, Payload, Sizes, Step, Value};
use trace_registry::tracepoint::Location;
use trace_registry::{Event, EventClass, Level};

pub(super) const NAME: &str = "ringtrace:trigger_fired";
pub(super) const LEVEL: Level = Level::Notice;

/// A firing.
pub(super) struct Fired<'a> {
    pub(super) trigger: &'a str,
    pub(super) number: u64,
    /// When the condition held.
    pub(super) at_ns: u64,
    pub(super) delay_ns: u64,
    pub(super) lost: u64,
    pub(super) what: &'a str,
}

static CLASS: EventClass = EventClass {
    name: "TriggerFired",
    module_path: "ringtrace",
    location: Location { file: file!(), line: line!() },
    fields: &[
        FieldDescriptor::new("trigger", <str as Field>::CLASS),
        FieldDescriptor::new("number", <u64 as Field>::CLASS),
        FieldDescriptor { unit: "ns", ..FieldDescriptor::new("at_ns", <u64 as Field>::CLASS) },
        FieldDescriptor { unit: "ns", ..FieldDescriptor::new("delay_ns", <u64 as Field>::CLASS) },
        FieldDescriptor::new("lost", <u64 as Field>::CLASS),
        FieldDescriptor::new("what", <str as Field>::CLASS),
    ],
};

pub(crate) fn fired_class() -> &'static EventClass {
    &CLASS
}

pub(super) fn least() -> usize {
    Fired::SIZES.least
}

impl Event for Fired<'_> {
    type Class = Fired<'static>;
    const DESCRIPTION: &'static EventClass = &CLASS;
    const SIZES: Sizes = {
        let (text, number) = (<str as Field>::SIZES, <u64 as Field>::SIZES.times(4));
        text.and(number).and(text)
    };

    fn write<'p>(&'p self, payload: &mut Payload<'p>) {
        self.trigger.write(payload);
        for number in [&self.number, &self.at_ns, &self.delay_ns, &self.lost] {
            number.write(payload);
        }
        self.what.write(payload);
    }

    fn value(&self, _: u16, _: &[Step]) -> Value<'_> {
        Value::Missing // no rule is about it
    }
}
