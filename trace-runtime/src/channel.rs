//! A channel: the ring buffers of a session, and what is appended to them.
#![expect(unsafe_code, reason = "targets reach their channel by address")]

use crate::clock::Clock;
use crate::context::Context;
use crate::error::{Kind, Result};
use crate::metadata;
use crate::process::Process;
use crate::rcu::lock;
use crate::ring_buffer::{self, ClockKind, Config, Core, Geometry, HeaderKind, Mode, Outcome, Placement};
use std::fs::File;
use std::io;
use std::ptr::NonNull;
use std::sync::Mutex;
use trace_ctf::schema as ctf;
use trace_registry::event_id::{EventIds, EventKey};
use trace_registry::field::{Finished, Piece};
use trace_registry::probe::{Append, Loss, Target};
use trace_registry::sync::{AtomicU64, Ordering};
use trace_registry::{EventClass, Level};

/// The ring buffers of a session, with everything that a target needs at run time.
///
/// # Invariants
///
/// - CH-1: A channel outlives every list that holds a target of it by a grace period: the session keeps it until its lists
///   were retired and reclaimed.
pub(crate) struct Channel {
    pub(crate) core: Core,
    process: &'static Process,
    pub(crate) context: Context,
    pub(crate) header: HeaderKind,
    pub(crate) redact: bool,
    append: Append,
    ids: Mutex<EventIds>,
    /// Records in which a value was cut.
    cut: AtomicU64,
}

impl Channel {
    pub(crate) fn new(core: Core, process: &'static Process, plan: Plan, context: Context, redact: bool) -> Channel {
        Channel {
            core,
            process,
            context,
            header: plan.header,
            redact,
            append: plan.append(context),
            ids: Mutex::default(),
            cut: AtomicU64::new(0),
        }
    }

    /// Bytes of payload that a record may have.
    pub(crate) fn payload_limit(&self) -> usize {
        self.core.largest_record().saturating_sub(ring_buffer::LONGEST_HEADER + self.context.size())
    }

    /// Returns the event ID of a class; where it is new, after `describe` has written its descriptions.
    pub(crate) fn event_id(
        &self,
        name: &str,
        level: Level,
        class: &'static EventClass,
        least: usize,
        describe: impl FnOnce(&[ctf::EventClass]) -> Result<()>,
    ) -> Result<u32> {
        self.check_class(class, least)?;
        let key = EventKey { name: name.to_owned(), level, class };
        self.assign(std::iter::once(key), describe).map(|ids| ids[0])
    }

    /// Whether an event of a class fits.
    pub(crate) fn check_class(&self, class: &'static EventClass, least: usize) -> Result<()> {
        if least > self.payload_limit() {
            return Err(Kind::ClassTooLarge { class: class.name, least, limit: self.payload_limit() }.into());
        }
        Ok(())
    }

    /// Returns the event IDs of classes that fit, after `describe` has written the descriptions of those that are new.
    pub(crate) fn assign(
        &self,
        keys: impl Iterator<Item = EventKey>,
        describe: impl FnOnce(&[ctf::EventClass]) -> Result<()>,
    ) -> Result<Vec<u32>> {
        // Held until the classes are described: nobody else may use their IDs before (JR-1).
        let mut ids = lock(&self.ids);
        let (mut assigned, mut new, mut descriptions) = (Vec::new(), Vec::new(), Vec::new());
        for key in keys {
            let (id, is_new) = ids.assign(key);
            assigned.push(id);
            if is_new {
                let EventKey { name, level, class } = &ids.classes()[id as usize];
                let of = |stream| metadata::event(stream, id, name, *level, class, self.redact);
                new.push(id);
                descriptions.extend([of(metadata::RINGS), of(metadata::FALLBACK)]);
            }
        }
        if !descriptions.is_empty() {
            if let Err(error) = describe(&descriptions) {
                new.into_iter().rev().for_each(|id| ids.take_back(id));
                return Err(error);
            }
        }
        Ok(assigned)
    }

    /// Makes a target that is valid while the channel has this generation.
    pub(crate) fn target(&self, event_id: u32, generation: u64) -> Target {
        let limit = u32::try_from(self.payload_limit()).unwrap_or(u32::MAX);
        // SAFETY: both functions may be called from any thread and signal handler (see there); CH-1.
        unsafe { Target::new(self.append, lose, std::ptr::from_ref(self).cast(), event_id, limit, self.redact, generation) }
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
    pub(crate) placement: Placement,
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
        _ => ClockKind::Os,
    };
    const HEADER: HeaderKind = if LARGE { HeaderKind::Large } else { HeaderKind::Compact };
    const PLACEMENT: Placement = if BY_CID { Placement::MmCid } else { Placement::Cpu };
}

/// Evaluates `$body` with `$C` as the configuration that a plan stands for.
macro_rules! with_config {
    ($plan:expr, $C:ident => $body:expr) => {{
        macro_rules! placement {
            ($overwrite:literal, $clock:literal, $large:literal) => {
                match $plan.placement {
                    Placement::Cpu => {
                        type $C = Chosen<$overwrite, $clock, $large, false>;
                        $body
                    }
                    Placement::MmCid => {
                        type $C = Chosen<$overwrite, $clock, $large, true>;
                        $body
                    }
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
                    ClockKind::Os | ClockKind::None => header!($overwrite, 2),
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
    /// Creates the ring buffers in `file`; buffer `i` serves the CPU (or concurrency ID) `indices[i]`.
    pub(crate) fn create(self, file: &File, geometry: Geometry, indices: &[u32], clock: &'static Clock) -> io::Result<Core> {
        with_config!(self, C => Core::create::<C>(file, geometry, indices, clock))
    }

    fn append(self, context: Context) -> Append {
        with_config!(self, C => match context.words() {
            Context::NO_WORDS => append::<C, { Context::NO_WORDS }>,
            Context::VTID_WORD => append::<C, { Context::VTID_WORD }>,
            _ => append::<C, { Context::ANY_WORDS }>,
        })
    }
}

/// Appends a payload to the channel of `target`, whose context fields are `CONTEXT` ([`Context::words`]).
///
/// One function from the target to the commit: the sequence is inlined here.
///
/// # Safety
///
/// `target` was made by [`Channel::target`] and is in a list that the caller reads, or its channel is held (CH-1).
///
/// # Signal safety
///
/// Async-signal-safe and wait-free.
unsafe fn append<C: Config, const CONTEXT: u8>(target: &Target, pieces: NonNull<Piece>, count: usize, total: usize) -> u8 {
    // SAFETY: the caller's duty.
    let (channel, mut payload) = unsafe { (&*target.channel().cast::<Channel>(), Finished::from_raw(pieces, count, total)) };
    let (tid, context) = channel.context.put::<CONTEXT>(channel.process, &mut payload);
    let total = payload.total() + context;
    // SAFETY: the pieces name initialised bytes that outlive this call (PL-1, PL-3), `total` is their sum, and `C` is the
    // configuration that the core was created with.
    let outcome =
        unsafe { ring_buffer::append::<C>(&channel.core, target.generation, target.event_id, payload.pieces(), total, tid) };
    const { assert!(Outcome::Recorded as u8 == 0) };
    outcome as u8
}

/// Counts a firing that was not recorded, or not all of it.
///
/// # Safety
///
/// As for [`append`].
unsafe fn lose(target: &Target, loss: Loss) {
    // SAFETY: the caller's duty.
    let channel = unsafe { &*target.channel().cast::<Channel>() };
    // A target of an earlier generation, or of the parent process, is off: what it does not record is no loss.
    if target.generation != channel.core.generation() {
        return;
    }
    match loss {
        Loss::Cut => {
            channel.cut.fetch_add(1, Ordering::Relaxed);
        }
        _ => channel.core.count_loss(loss),
    }
}
