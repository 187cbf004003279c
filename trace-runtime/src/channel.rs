//! A channel: the ring buffers of a session, and what is appended to them.
#![expect(unsafe_code, reason = "targets reach their channel by address")]

use crate::clock::Clock;
use crate::context::{Apart, Context};
use crate::error::{Kind, Result};
use crate::metadata;
use crate::process::Process;
use crate::rcu::lock;
use crate::ring_buffer::{
    self, AHEAD, Appender, ClockKind, Config, Core, Direct, Geometry, HeaderKind, Mode, Outcome, Placement,
};
use std::fs::File;
use std::io;
use std::mem::transmute;
use std::ptr::NonNull;
use std::sync::{Arc, Mutex};
use trace_ctf::schema as ctf;
use trace_registry::event_id::{EventIds, EventKey};
use trace_registry::field::{Finished, HEADROOM, MAX_PIECES, Piece};
use trace_registry::probe::{Functions, Loss, Own, Target};
use trace_registry::sync::{AtomicU64, Ordering};
use trace_registry::{EventClass, Level};

/// The ring buffers of a session, with everything that a target needs at run time.
///
/// # Invariants
///
/// - CH-1: A channel outlives every list that holds a target of it by a grace period: the session keeps it until its lists
///   were retired and reclaimed.
pub(crate) struct Channel {
    pub(crate) core: Arc<Core>,
    process: &'static Process,
    pub(crate) context: Context,
    plan: Plan,
    pub(crate) redact: bool,
    /// Of the classes that are described (JR-1). A leaf among locks.
    ids: Mutex<EventIds>,
    /// Records in which a value was cut.
    cut: AtomicU64,
}

impl Channel {
    pub(crate) fn new(core: Arc<Core>, process: &'static Process, plan: Plan, context: Context, redact: bool) -> Channel {
        Channel { core, process, context, plan, redact, ids: Mutex::default(), cut: AtomicU64::new(0) }
    }

    /// Makes one whose records have the form of this one's, and its event IDs.
    pub(crate) fn like(&self, file: &File, mode: Mode, geometry: Geometry, by_cid: bool) -> io::Result<Channel> {
        let plan = Plan { mode, by_cid, ..self.plan };
        let indices = if by_cid { (0..geometry.buffers).collect() } else { self.process.cpus.clone() };
        let core = plan.create(file, geometry, &indices[..geometry.buffers as usize], self.process.clock, Some(AHEAD))?;
        Ok(Channel::new(core, self.process, plan, self.context, self.redact))
    }

    /// Bytes of payload that a record may have.
    pub(crate) fn payload_limit(&self) -> usize {
        self.core.largest_record().saturating_sub(ring_buffer::LONGEST_HEADER + self.context.size())
    }

    /// Returns the event ID of a class; `None`: it is not described yet.
    pub(crate) fn event_id(&self, name: &str, level: Level, class: &EventClass) -> Option<u32> {
        lock(&self.ids).find(name, level, class)
    }

    /// Whether an event of a class fits.
    pub(crate) fn check_class(&self, class: &'static EventClass, least: usize) -> Result<()> {
        if least > self.payload_limit() {
            return Err(Kind::ClassTooLarge { class: class.name, least, limit: self.payload_limit() }.into());
        }
        Ok(())
    }

    /// Finds those of `keys` that have no event ID. Returns them in the order of the IDs that they will [have](Self::take), and how
    /// they are to be described. The caller sees to it that there is one at a time.
    pub(crate) fn new_classes(&self, keys: impl IntoIterator<Item = EventKey>) -> (EventIds, Vec<ctf::EventClass>) {
        let ids = lock(&self.ids);
        let first = ids.classes().len() as u32;
        let (mut new, mut descriptions) = (EventIds::default(), Vec::new());
        for key in keys.into_iter().filter(|key| ids.find(&key.name, key.level, key.class).is_none()) {
            let (number, is_new) = new.assign(key);
            if is_new {
                let EventKey { name, level, class } = &new.classes()[number as usize];
                let of = |stream| metadata::event(stream, first + number, name, *level, class, self.redact);
                descriptions.extend([of(metadata::RINGS), of(metadata::FALLBACK)]);
            }
        }
        (new, descriptions)
    }

    /// Gives [new classes](Self::new_classes), which are described now, their event IDs.
    pub(crate) fn take(&self, new: &EventIds) {
        let mut ids = lock(&self.ids);
        new.classes().iter().for_each(|key| _ = ids.assign(key.clone()));
    }

    /// Form of the record headers.
    pub(crate) fn header(&self) -> HeaderKind {
        self.plan.header
    }

    /// Makes a target for events of a class, whose payload has at least `least` bytes; it is valid while the channel has this
    /// generation.
    pub(crate) fn target(&self, event_id: u32, generation: u64, least: usize) -> Target {
        let limit = u32::try_from(self.payload_limit()).unwrap_or(u32::MAX);
        let by_appender = self.context.is_appenders();
        let appender = self.core.appender(generation, event_id, by_appender && self.context.contains(Context::VTID), least);
        let functions = self.plan.functions(by_appender, event_id, least);
        // SAFETY: they have the same size, and `Own` may hold anything.
        let own = unsafe { transmute::<Appender, Own>(appender) };
        // SAFETY: the functions may be called from any thread and signal handler (see there); CH-1.
        unsafe { Target::new(functions, own, std::ptr::from_ref(self).cast(), limit, least, self.redact) }
    }

    /// How many records hold a value that was cut.
    pub(crate) fn cut_records(&self) -> u64 {
        self.cut.load(Ordering::Relaxed)
    }
}

/// The compile-time configuration of the rings, chosen at run time.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Plan {
    pub(crate) mode: Mode,
    pub(crate) clock: ClockKind,
    pub(crate) header: HeaderKind,
    /// By concurrency ID in place of CPU. The streams of a trace are those of CPUs, so nothing else is to be chosen.
    pub(crate) by_cid: bool,
}

/// One of the configurations that a [`Plan`] can choose.
struct Chosen<const OVERWRITE: bool, const CLOCK: u8, const LARGE: bool, const BY_CID: bool>;

impl<const OVERWRITE: bool, const CLOCK: u8, const LARGE: bool, const BY_CID: bool> Config
    for Chosen<OVERWRITE, CLOCK, LARGE, BY_CID>
{
    const MODE: Mode = if OVERWRITE { Mode::Overwrite } else { Mode::Discard };
    const CLOCK: ClockKind = match CLOCK {
        0 => ClockKind::Raw,
        1 => ClockKind::Ordered,
        2 => ClockKind::Os,
        _ => ClockKind::None,
    };
    const HEADER: HeaderKind = if LARGE { HeaderKind::Large } else { HeaderKind::Compact };
    const PLACEMENT: Placement = if BY_CID { Placement::MmCid } else { Placement::Cpu };
}

/// Evaluates `$body` with `$C` as the configuration that a plan stands for.
macro_rules! with_config {
    ($plan:expr, $C:ident => $body:expr) => {{
        macro_rules! placement {
            ($overwrite:literal, $clock:literal, $large:literal) => {
                if $plan.by_cid {
                    type $C = Chosen<$overwrite, $clock, $large, true>;
                    $body
                } else {
                    type $C = Chosen<$overwrite, $clock, $large, false>;
                    $body
                }
            };
        }
        macro_rules! header {
            ($overwrite:literal, $clock:literal) => {
                match $plan.header {
                    HeaderKind::Compact => placement!($overwrite, $clock, false),
                    HeaderKind::Large => placement!($overwrite, $clock, true),
                }
            };
        }
        macro_rules! clock {
            ($overwrite:literal) => {
                match $plan.clock {
                    ClockKind::Raw => header!($overwrite, 0),
                    ClockKind::Ordered => header!($overwrite, 1),
                    ClockKind::Os => header!($overwrite, 2),
                    ClockKind::None => header!($overwrite, 3),
                }
            };
        }
        match $plan.mode {
            Mode::Discard => clock!(false),
            Mode::Overwrite => clock!(true),
        }
    }};
}

impl Plan {
    /// Creates the ring buffers in `file`, of which `ahead` bytes have room at once ([`Core::create`]); buffer `i` serves the CPU (or concurrency ID) `indices[i]`.
    pub(crate) fn create(
        self,
        file: &File,
        geometry: Geometry,
        indices: &[u32],
        clock: &'static Clock,
        ahead: Option<u64>,
    ) -> io::Result<Arc<Core>> {
        // SAFETY: a file of `storage.rs`: one without a name is sealed against it, and in the directory of this user nobody but this
        // user can shorten one, who may do with the process what he wants.
        with_config!(self, C => unsafe { Core::create::<C>(file, geometry, indices, clock, ahead) })
    }

    /// How a channel takes the events of a class: by the sequences' own functions wherever they do all there is to do.
    fn functions(self, by_appender: bool, event_id: u32, least: usize) -> Functions {
        with_config!(self, C => {
            let direct = Direct::of::<C>(least);
            let is_short = by_appender && event_id <= self.header.largest_short_id();
            // SAFETY: the types differ in what the first argument is said to point to: a target begins with its appender.
            let words = direct.words.filter(|_| is_short).map(|function| unsafe { transmute(function) });
            // SAFETY: as above.
            let tail = direct.tail.filter(|_| is_short).map(|function| unsafe { transmute(function) });
            // SAFETY: as above.
            let pieces = direct.pieces.filter(|_| by_appender).map(|function| unsafe { transmute(function) });
            Functions { words, tail, pieces: pieces.unwrap_or(append::<C>), lose }
        })
    }
}

/// Appends a payload to the channel of `target`.
///
/// # Safety
///
/// `target` was made by [`Channel::target`] and is in a list that the caller reads, or its channel is held (CH-1). The rest is
/// what a [`Target`] hands over.
///
/// # Signal safety
///
/// Async-signal-safe and wait-free.
unsafe extern "C" fn append<C: Config>(target: *const Target, pieces: NonNull<Piece>, count: usize, mut total: usize) -> u8 {
    // SAFETY: the caller's duty.
    let (channel, appender, mut payload) =
        unsafe { (channel(&*target), &*target.cast::<Appender>(), Finished::from_raw(pieces, count, total)) };
    if !channel.context.is_appenders() {
        if channel.context.size() > HEADROOM {
            // SAFETY: as below.
            return unsafe { append_behind::<C>(channel, appender, payload.pieces(), total) } as u8;
        }
        // SAFETY: the payload is as a target hands it over.
        total += unsafe { channel.context.put(channel.process, &mut payload) };
    }
    // SAFETY: the pieces name initialised bytes that outlive this call (PL-1, PL-3), `total` is their sum, and `C` is the
    // configuration that the core was created with. A thread that fires or records is prepared.
    let outcome = unsafe { appender.append::<C>(payload.pieces(), total) };
    const { assert!(Outcome::Recorded as u8 == 0) };
    outcome as u8
}

/// Appends a payload behind a context that its headroom has no room for.
///
/// # Safety
///
/// As for [`append`]: the pieces are those of the payload, `total` bytes.
#[inline(never)]
unsafe fn append_behind<C: Config>(channel: &Channel, appender: &Appender, payload: &[Piece], total: usize) -> Outcome {
    let mut context = Apart::new();
    channel.context.put_apart(channel.process, &mut context);
    let front = context.bytes();
    let mut pieces = [Piece { start: front.as_ptr(), len: front.len() }; MAX_PIECES + 1];
    let count = payload.len() + 1;
    let Some(behind) = pieces.get_mut(1..count) else {
        channel.core.count_loss(Loss::TooLarge); // no payload has so many
        return Outcome::TooLarge;
    };
    behind.copy_from_slice(payload);
    // SAFETY: as in `append`; the first piece names the context, which is there until this returns.
    unsafe { appender.append::<C>(pieces.get(..count).unwrap_or_default(), total + front.len()) }
}

/// The channel of a target.
///
/// # Safety
///
/// As for [`append`].
unsafe fn channel(target: &Target) -> &Channel {
    // SAFETY: the caller's duty.
    unsafe { &*target.channel().cast::<Channel>() }
}

/// Counts a firing that was not recorded, or not all of it.
///
/// # Safety
///
/// As for [`append`].
unsafe fn lose(target: &Target, loss: Loss) {
    // SAFETY: the caller's duty; a target begins with its appender.
    let (channel, appender) = unsafe { (channel(target), &*std::ptr::from_ref(target).cast::<Appender>()) };
    // A target of an earlier generation, or of the parent process, is off: what it does not record is no loss.
    if appender.generation() != channel.core.generation() {
        return;
    }
    match loss {
        Loss::Cut => {
            channel.cut.fetch_add(1, Ordering::Relaxed);
        }
        _ => channel.core.count_loss(loss),
    }
}
