//! A shared object that appends, is refused, and is unloaded.

use ringtrace::ring_buffer::{Channel, ClockKind, Config, Geometry, HeaderKind, Mode, Outcome, Placement};
use std::path::Path;

struct Small;

impl Config for Small {
    const MODE: Mode = Mode::Discard;
    const CLOCK: ClockKind = ClockKind::None;
    const HEADER: HeaderKind = HeaderKind::Compact;
    const PLACEMENT: Placement = Placement::Cpu;
}

/// Appends two events by restartable sequences of this object: the first opens a sub-buffer, the second is an append and nothing
/// else. Returns whether both were recorded.
#[unsafe(no_mangle)]
pub extern "C" fn ends_with_a_commit() -> bool {
    append() == Some(2)
}

/// Appends until events are refused. Returns whether they were, and some were not.
#[unsafe(no_mangle)]
pub extern "C" fn ends_with_a_refusal() -> bool {
    append_until_full().is_some_and(|recorded| recorded > 2)
}

fn channel() -> Option<Channel<Small>> {
    let is_there = |cpu: &u32| Path::new(&format!("/sys/devices/system/cpu/cpu{cpu}")).exists();
    let buffers = (0..).take_while(is_there).count() as u32;
    Channel::in_memory(Geometry { buffers, sub_buffer: 4096, sub_buffers: 2, fallback: 0 }).ok()
}

fn append() -> Option<usize> {
    let channel = channel()?;
    Some((0..2).filter(|_| channel.record(1, &[&[7; 600]]) == Outcome::Recorded).count())
}

fn append_until_full() -> Option<usize> {
    let channel = channel()?;
    let recorded = (0..1000).take_while(|_| channel.record(1, &[&[7; 600]]) == Outcome::Recorded).count();
    // The first that is refused closes the last sub-buffer, by another sequence; this one finds it closed, and is refused only.
    (channel.record(1, &[&[7; 600]]) == Outcome::Full).then_some(recorded)
}
