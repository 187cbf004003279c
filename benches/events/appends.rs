//! The append alone, without tracepoint, probe list or context: the ring buffer used as a library.

use ringtrace::clock::Clock;
use ringtrace::ring_buffer::{Appender, Channel, ClockKind, Config, Geometry, HeaderKind, Mode, Placement};
use std::hint::black_box;
use std::sync::OnceLock;

pub(crate) struct Of<const CLOCK: u8, const PLACEMENT: u8>;

impl<const CLOCK: u8, const PLACEMENT: u8> Config for Of<CLOCK, PLACEMENT> {
    const MODE: Mode = Mode::Overwrite;
    const CLOCK: ClockKind = match CLOCK {
        0 => ClockKind::Raw,
        1 => ClockKind::Ordered,
        2 => ClockKind::Os,
        _ => ClockKind::None,
    };
    const HEADER: HeaderKind = HeaderKind::Compact;
    const PLACEMENT: Placement = match PLACEMENT {
        0 => Placement::Cpu,
        1 => Placement::Thread,
        _ => Placement::Global,
    };
}

pub(crate) fn possible_cpus() -> u32 {
    let cpus = std::fs::read_to_string("/sys/devices/system/cpu/possible").unwrap_or_default();
    cpus.trim().rsplit([',', '-']).next().and_then(|n| n.parse::<u32>().ok()).unwrap_or(63) + 1
}

fn channel<C: Config>() -> Result<Channel<C>, std::io::Error> {
    let buffers = if C::PLACEMENT == Placement::Global { 0 } else { possible_cpus() };
    let geometry = Geometry { buffers, sub_buffer: 64 << 10, sub_buffers: 16, fallback: 1 << 20 };
    let channel = Channel::<C>::in_memory(geometry)?;
    channel.core().populate(16);
    Ok(channel)
}

/// Appends numbers. The compiler knows the configuration, and nothing else.
fn append<C: Config>(appender: &Appender, n: u64) {
    for i in 0..n {
        // SAFETY: the channel was made with `C`, and is never dropped; the thread's ID is not asked for.
        #[expect(unsafe_code, reason = "the configuration is named again")]
        let outcome = unsafe { appender.append_words::<C>([i, 0, 0]) };
        _ = black_box(outcome);
    }
}

macro_rules! work {
    ($($name:ident $clock:literal $placement:literal;)*) => {$(
        #[inline(never)]
        pub(crate) fn $name(n: u64) {
            type C = Of<$clock, $placement>;
            static CHANNEL: OnceLock<Option<(Channel<C>, Appender)>> = OnceLock::new();
            let made = CHANNEL.get_or_init(|| {
                let channel = channel::<C>().ok()?;
                let appender = channel.core().appender(channel.core().generation(), 1, false, 8);
                Some((channel, appender))
            });
            let Some((channel, appender)) = made else { return };
            let before = channel.core().records();
            append::<C>(black_box(appender), n);
            assert_eq!(channel.core().records() - before, n, "events are missing");
        }
    )*};
}

work! {
    raw 0 0;
    ordered 1 0;
    os 2 0;
    none 3 0;
    by_thread 0 1;
    global 0 2;
}

/// Whether the counter is a clock here.
pub(crate) fn has_counter() -> bool {
    Clock::process().is_counter()
}
