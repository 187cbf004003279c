//! A shared object that appends, is refused, and is unloaded.

use ringtrace::ring_buffer::{Channel, ClockKind, Config, Geometry, HeaderKind, Mode, Outcome, Placement};

struct Small;

impl Config for Small {
    const MODE: Mode = Mode::Discard;
    const CLOCK: ClockKind = ClockKind::None;
    const HEADER: HeaderKind = HeaderKind::Compact;
    const PLACEMENT: Placement = Placement::Cpu;
}

/// Appends by restartable sequences of this object; the last one is refused. Returns how many events were recorded.
#[unsafe(no_mangle)]
pub extern "C" fn append_until_refused() -> u32 {
    let geometry = Geometry { buffers: 256, sub_buffer: 4096, sub_buffers: 2, fallback: 0 };
    let Ok(channel) = Channel::<Small>::in_memory(geometry) else { return 0 };
    let mut recorded = 0;
    while channel.record(1, &[&[7; 600]]) == Outcome::Recorded {
        recorded += 1;
    }
    // The first that is refused closes the last sub-buffer, by another sequence; this one finds it closed, and is refused only.
    let last = channel.record(1, &[&[7; 600]]);
    if last == Outcome::Full { recorded } else { 0 }
}
