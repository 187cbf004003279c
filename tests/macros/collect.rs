//! Attaches probes to tracepoints, and keeps what they record.

use ringtrace::{ProbeDescriptor, Tracepoint};
use std::mem::MaybeUninit;
use std::ptr::NonNull;
use std::sync::{Mutex, Once};
use trace_registry::condition::Conditional;
use trace_registry::field::{Finished, Piece};
use trace_registry::probe::{Entry, Functions, Loss, Own, Target};
use trace_registry::read_side::{self, CpuCounters, Header};
use trace_registry::{registry, sys};

/// What one target was given.
#[derive(Default)]
pub(crate) struct Collected {
    records: Mutex<Vec<Vec<u8>>>,
    losses: Mutex<Vec<Loss>>,
    cuts: Mutex<usize>,
}

impl Collected {
    /// Takes the records.
    pub(crate) fn records(&self) -> Vec<Vec<u8>> {
        std::mem::take(&mut self.records.lock().expect("no test holds it"))
    }

    /// Takes the one record there is.
    pub(crate) fn record(&self) -> Vec<u8> {
        let mut records = self.records();
        assert_eq!(records.len(), 1, "{records:?}");
        records.remove(0)
    }

    /// Takes the losses.
    pub(crate) fn losses(&self) -> Vec<Loss> {
        std::mem::take(&mut self.losses.lock().expect("no test holds it"))
    }

    /// Takes the number of records with a value that was cut.
    pub(crate) fn cuts(&self) -> usize {
        std::mem::take(&mut self.cuts.lock().expect("no test holds it"))
    }
}

/// A place for records of at most `limit` bytes.
#[derive(Clone, Copy)]
pub(crate) struct Channel {
    pub(crate) collected: &'static Collected,
    pub(crate) limit: u32,
    pub(crate) redact: bool,
}

impl Channel {
    pub(crate) fn new() -> Channel {
        Channel { collected: Box::leak(Box::default()), limit: 4096, redact: false }
    }
}

unsafe extern "C" fn append(target: *const Target, pieces: NonNull<Piece>, count: usize, total: usize) -> u8 {
    // SAFETY: the arguments of a target's functions.
    let finished = unsafe { Finished::from_raw(pieces, count, total) };
    // SAFETY: the channel is the `Collected` of `attach`; the pieces live as long as the payload (PL-3).
    let (collected, record) = unsafe {
        let bytes = |p: &trace_registry::field::Piece| std::slice::from_raw_parts(p.start, p.len);
        let record: Vec<u8> = finished.pieces().iter().filter(|p| p.len > 0).flat_map(bytes).copied().collect();
        (&*(*target).channel().cast::<Collected>(), record)
    };
    assert_eq!(record.len(), finished.total());
    collected.records.lock().expect("no test holds it").push(record);
    0
}

unsafe fn lose(target: &Target, loss: Loss) {
    // SAFETY: the channel is the `Collected` of `attach`.
    let collected = unsafe { &*target.channel().cast::<Collected>() };
    match loss {
        Loss::Cut => *collected.cuts.lock().expect("no test holds it") += 1,
        loss => collected.losses.lock().expect("no test holds it").push(loss),
    }
}

/// The probes of `T`, in the order of their lines.
pub(crate) fn probes<T: Tracepoint>() -> Vec<&'static ProbeDescriptor> {
    let of_t = |p: &&ProbeDescriptor| std::ptr::eq((p.tracepoint)(), T::descriptor());
    let mut found: Vec<_> = registry::probes().filter(of_t).collect();
    found.sort_by_key(|p| p.location.line);
    found
}

/// Attaches every probe of `T`, to record into `channels`.
pub(crate) fn attach<T: Tracepoint>(channels: &[Channel]) {
    static INSTALL: Once = Once::new();
    INSTALL.call_once(|| {
        sys::init();
        // SAFETY: a table of one zeroed entry that is never freed; nobody counts by rseq.
        unsafe {
            let header = std::ptr::from_mut(Box::leak(Box::new(std::mem::zeroed::<[CpuCounters; 2]>()))).cast::<Header>();
            (*header).generation.store(1, std::sync::atomic::Ordering::Relaxed);
            read_side::install(header, 1, 0);
        }
    });
    let target = |channel: &Channel, probe: &ProbeDescriptor| {
        let collected = std::ptr::from_ref(channel.collected).cast();
        let own: Own = [MaybeUninit::uninit(); 8];
        let functions = Functions { words: None, tail: None, pieces: append, lose };
        // SAFETY: what was collected is never freed, and the functions may be called from any thread.
        unsafe { Target::new(functions, own, collected, channel.limit, probe.least, channel.redact) }
    };
    let mut list = None;
    for probe in probes::<T>().into_iter().rev() {
        let targets = channels.iter().map(|channel| Conditional::always(target(channel, probe))).collect();
        list = Some(Box::new(Entry::new(probe, targets, list)));
    }
    // The lists are never freed, so that no test needs a grace period.
    // SAFETY: of the probes of `T`, and never freed.
    unsafe { T::descriptor().gate.publish(list.map_or(std::ptr::null_mut(), Box::into_raw)) };
}

/// Detaches all.
pub(crate) fn detach<T: Tracepoint>() {
    // SAFETY: null.
    unsafe { T::descriptor().gate.publish(std::ptr::null_mut()) };
}

/// Records of one channel for `fire`.
pub(crate) fn collect<T: Tracepoint>(fire: impl FnOnce()) -> &'static Collected {
    let channel = Channel::new();
    attach::<T>(&[channel]);
    fire();
    detach::<T>();
    channel.collected
}
