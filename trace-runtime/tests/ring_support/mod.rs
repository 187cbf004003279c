//! What the tests of the ring buffer share: configurations as types, and a decoder that takes nothing on trust.
#![allow(dead_code, reason = "each test uses a part")]

use trace_runtime::clock::Clock;
use trace_runtime::ring_buffer::{
    Channel, ClockKind, Config, Geometry, HeaderKind, Losses, Mode, Outcome, Packet, Placement, Reader,
};

/// A configuration by numbers.
pub(crate) struct Of<const OVERWRITE: bool, const CLOCK: u8, const LARGE: bool, const PLACEMENT: u8>;

impl<const OVERWRITE: bool, const CLOCK: u8, const LARGE: bool, const PLACEMENT: u8> Config
    for Of<OVERWRITE, CLOCK, LARGE, PLACEMENT>
{
    const MODE: Mode = if OVERWRITE { Mode::Overwrite } else { Mode::Discard };
    const CLOCK: ClockKind = match CLOCK {
        0 => ClockKind::Raw,
        1 => ClockKind::Ordered,
        2 => ClockKind::Os,
        _ => ClockKind::None,
    };
    const HEADER: HeaderKind = if LARGE { HeaderKind::Large } else { HeaderKind::Compact };
    const PLACEMENT: Placement = match PLACEMENT {
        0 => Placement::Cpu,
        1 => Placement::MmCid,
        2 => Placement::Thread,
        _ => Placement::Global,
    };
}

pub(crate) const RAW: u8 = 0;
pub(crate) const ORDERED: u8 = 1;
pub(crate) const OS: u8 = 2;
pub(crate) const NO_CLOCK: u8 = 3;

pub(crate) const BY_CPU: u8 = 0;
pub(crate) const BY_CID: u8 = 1;
pub(crate) const BY_THREAD: u8 = 2;
pub(crate) const GLOBAL: u8 = 3;

/// Calls `$test::<C>($arguments)` for each configuration that this machine offers.
#[macro_export]
macro_rules! for_each_config {
    (@one $test:ident, $overwrite:literal, $clock:literal, $large:literal) => {
        $test::<$crate::ring_support::Of<$overwrite, $clock, $large, 0>>();
        if trace_runtime::ring_buffer::Placement::MmCid.is_available() {
            $test::<$crate::ring_support::Of<$overwrite, $clock, $large, 1>>();
        }
        $test::<$crate::ring_support::Of<$overwrite, $clock, $large, 2>>();
        $test::<$crate::ring_support::Of<$overwrite, $clock, $large, 3>>();
    };
    (@clock $test:ident, $overwrite:literal, $clock:literal) => {
        $crate::for_each_config!(@one $test, $overwrite, $clock, false);
        $crate::for_each_config!(@one $test, $overwrite, $clock, true);
    };
    ($test:ident, $overwrite:literal) => {
        $crate::for_each_config!(@clock $test, $overwrite, 0);
        $crate::for_each_config!(@clock $test, $overwrite, 1);
        $crate::for_each_config!(@clock $test, $overwrite, 2);
        $crate::for_each_config!(@clock $test, $overwrite, 3);
    };
}

/// Whether appends use restartable sequences here; else everything goes to the fallback region.
pub(crate) fn has_sequences() -> bool {
    trace_registry::sys::init()
}

/// Number of CPUs and of concurrency IDs that threads may have.
pub(crate) fn cpus() -> u32 {
    std::thread::available_parallelism().map_or(1, |n| n.get() as u32).max(configured())
}

fn configured() -> u32 {
    std::fs::read_to_string("/sys/devices/system/cpu/possible")
        .ok()
        .and_then(|s| s.trim().rsplit(['-', ',']).next().and_then(|n| n.parse::<u32>().ok()))
        .map_or(1, |last| last + 1)
}

/// What buffers serve from the beginning: CPUs or concurrency IDs; nothing where threads take them.
pub(crate) fn served<C: Config>(geometry: Geometry) -> Vec<u32> {
    (0..geometry.buffers).filter(|_| C::PLACEMENT.is_assigned()).collect()
}

/// Buffers that a channel of this placement has: as many as there are CPUs, or none.
pub(crate) fn buffers<C: Config>() -> u32 {
    if C::PLACEMENT == Placement::Global { 0 } else { cpus() }
}

/// A file without a name, in memory where there is such a thing.
pub(crate) fn file() -> std::fs::File {
    #[cfg(target_os = "linux")]
    if let Ok(fd) = rustix::fs::memfd_create("ring", rustix::fs::MemfdFlags::CLOEXEC) {
        return fd.into();
    }
    tempfile::tempfile().expect("a file")
}

/// Makes a channel in a file of the test's own.
#[expect(unsafe_code, reason = "says that nobody shortens the file")]
pub(crate) fn create<C: Config>(
    file: std::fs::File,
    geometry: Geometry,
    cpus: &[u32],
    clock: &'static Clock,
) -> std::io::Result<Channel<C>> {
    // SAFETY: no test does while the channel is there.
    unsafe { Channel::create(file, geometry, cpus, clock) }
}

/// Keeps the calling thread on one CPU.
pub(crate) fn pin() {
    #[cfg(target_os = "linux")]
    {
        let allowed = rustix::thread::sched_getaffinity(None).expect("affinity");
        let cpu = (0..rustix::thread::CpuSet::MAX_CPU).find(|cpu| allowed.is_set(*cpu)).expect("a CPU");
        let mut set = rustix::thread::CpuSet::new();
        set.set(cpu);
        rustix::thread::sched_setaffinity(None, &set).expect("pinned");
    }
}

/// A record as it was read, or is expected.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Seen {
    pub(crate) ns: u64,
    pub(crate) id: u32,
    pub(crate) payload: Vec<u8>,
}

/// Bytes of the payload of records with this ID: 0, 1, or what their first two bytes say.
pub(crate) fn payload_len(id: u32, rest: &[u8]) -> usize {
    match id % 4 {
        0 => 0,
        1 => 1,
        _ => rest.first_chunk::<2>().map_or(usize::MAX, |n| usize::from(u16::from_le_bytes(*n))),
    }
}

/// Takes a packet apart and checks what it says of itself.
pub(crate) fn decode(packet: &Packet, header: HeaderKind) -> Vec<Seen> {
    let bytes = packet.to_vec();
    let mut seen = Vec::new();
    let mut last = packet.begin_ns;
    let mut at = 0;
    while at < bytes.len() {
        let read = header.read(&bytes[at..], last).expect("a whole header");
        assert!(read.ns >= last && read.ns <= packet.end_ns, "{read:?} in {}..={}", last, packet.end_ns);
        last = read.ns;
        at += read.len;
        let len = payload_len(read.id, &bytes[at..]);
        let payload = bytes.get(at..at + len).expect("a whole payload").to_vec();
        at += len;
        seen.push(Seen { ns: read.ns, id: read.id, payload });
    }
    assert_eq!(seen.len(), packet.records as usize, "number of records in {packet:?}");
    seen
}

/// Reads everything that a reader gives, buffers first, and consumes it.
pub(crate) fn drain(reader: &mut Reader, cut: bool) -> Vec<Seen> {
    let header = reader.settings().header;
    let mut seen = Vec::new();
    for buffer in 0..reader.geometry().buffers {
        while let Some(packet) = reader.next(buffer, cut) {
            seen.extend(decode(&packet, header));
            reader.consume(packet);
        }
    }
    while let Some(record) = reader.next_fallback(true) {
        seen.push(Seen { ns: record.ns, id: record.id, payload: record.payload.to_vec() });
    }
    reader.consume_fallback();
    seen
}

/// The losses of all buffers and the fallback region, as a reader sees them.
pub(crate) fn losses(reader: &Reader) -> Losses {
    (0..reader.geometry().buffers).fold(reader.fallback_losses(), |sum, b| sum.plus(&reader.buffer_losses(b)))
}

/// Numbers that look random and are the same each time.
pub(crate) struct Random(pub(crate) u64);

impl Random {
    pub(crate) fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0.wrapping_mul(0x2545_f491_4f6c_dd1d)
    }

    pub(crate) fn below(&mut self, n: u64) -> u64 {
        (self.next() >> 11) % n
    }
}

/// A payload of `len` bytes for an ID of [`payload_len`]; 0 and 1 only where the ID says so.
pub(crate) fn payload(id: u32, len: usize, random: &mut Random) -> Vec<u8> {
    let mut bytes: Vec<u8> = (0..len).map(|_| random.next() as u8).collect();
    if id % 4 > 1 {
        bytes[..2].copy_from_slice(&(len as u16).to_le_bytes());
    }
    bytes
}

/// Cuts `bytes` into some pieces, empty ones included.
pub(crate) fn cut<'b>(bytes: &'b [u8], random: &mut Random) -> Vec<&'b [u8]> {
    let mut cuts: Vec<usize> = (0..random.below(5)).map(|_| random.below(bytes.len() as u64 + 1) as usize).collect();
    cuts.sort_unstable();
    let ends = cuts.iter().copied().chain([bytes.len()]);
    let starts = std::iter::once(0).chain(cuts.iter().copied());
    starts.zip(ends).map(|(from, to)| &bytes[from..to]).collect()
}

/// Records one event in words, with what they do not take as the tail behind them: `head` bytes, of at most 24, go in words.
#[expect(unsafe_code, reason = "names the configuration again")]
pub(crate) fn record_in_words<C: Config>(channel: &Channel<C>, id: u32, payload: &[u8], head: usize) -> Outcome {
    let (head, tail) = payload.split_at(head.min(24).min(payload.len()));
    let mut words = [0; 24];
    words[..head.len()].copy_from_slice(head);
    let words = std::array::from_fn(|i| u64::from_ne_bytes(std::array::from_fn(|at| words[i * 8 + at])));
    let core = channel.core();
    let appender = core.appender(core.generation(), id, false, head.len());
    // SAFETY: `C` made the channel, and the appender is for as many bytes.
    unsafe { if tail.is_empty() { appender.append_words::<C>(words) } else { appender.append_tail::<C>(words, tail) } }
}
