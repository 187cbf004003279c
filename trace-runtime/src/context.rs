#![expect(unsafe_code, reason = "writes in front of a payload")]

use crate::key::{self, KeyText};
use crate::process::{self, Process};
use crate::provider::{self, Provide, Provider};
use crate::threads::{self, Name};
use std::ops::BitOr;
use trace_ctf::schema as ctf;
use trace_registry::field::Finished;

/// Most bytes of context in front of a payload.
pub(crate) const LARGEST: usize = 4 * 4 + 2 * size_of::<Name>() + provider::MOST * KeyText::BYTES;

/// Context fields: what every event record of a session carries beside its own fields.
///
/// Any beside [`VTID`](Self::VTID) and [`THREADS`](Self::THREADS) make records take a longer way, which costs 1.2 times a clock
/// read more, once.
///
/// ```
/// use trace_runtime::Context;
/// let both = Context::VTID | Context::CPU;
/// assert!(both.contains(Context::CPU) && !both.contains(Context::VPID));
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Context(u64);

impl Context {
    /// None: the smallest records.
    pub const NONE: Context = Context(0);
    /// Thread ID, 4 bytes. The default. A load for each event; in a thread's first event, a system call.
    pub const VTID: Context = Context(1);
    /// Process ID, 4 bytes. A load for each event. The trace's environment has it too.
    pub const VPID: Context = Context(2);
    /// CPU, 4 bytes. A load for each event. The rings are per CPU and their packets say which, so this is for rings by
    /// concurrency ID.
    pub const CPU: Context = Context(4);
    /// Names of all threads: not in each record, but as `ringtrace:thread_name` events by thread ID. Implies [`VTID`](Self::VTID).
    /// Costs events nothing: the consumer's thread looks the names up, ten times a second. A thread that ends sooner may stay
    /// without a name; [`THREAD_NAME`](Self::THREAD_NAME) has it.
    pub const THREADS: Context = Context(8 | 1);
    /// Number of other tracepoints that the thread is inside of, 4 bytes: 0 in ordinary code, more in events of probes, signal
    /// handlers and allocators that run during an event. A load for each event.
    pub const NESTING: Context = Context(16);

    /// The first of the program's own.
    const PROVIDED: u64 = 32;
    const ALL_PROVIDED: u64 = Self::PROVIDED * ((1 << provider::MOST) - 1);
    /// Which of them are texts: the first.
    const TEXT: u64 = 1 << 32;
    const ALL_TEXTS: u64 = Self::TEXT * ((1 << provider::MOST) - 1);

    /// Name of the process, 16 bytes: the program's file name, of which longer ones lose the end. Two loads for each event. The
    /// trace's environment has all of it.
    pub const PROCNAME: Context = Context(1 << 21);
    /// Name of the thread, 16 bytes, as the kernel has it (`PR_GET_NAME`, pthread_setname_np(3)). Four loads for each event, in a
    /// thread's first event a system call. A name that is given after that is in records from the thread's first event after the
    /// consumer's thread saw it, which takes up to 0.1 s in the first 0.3 s of a thread and up to 1.1 s later, and a system call.
    pub const THREAD_NAME: Context = Context(1 << 22);

    /// Registers a context field of the program's own, 8 bytes: `provide` says its value, for each event of sessions that record
    /// it, and for filters that name it, `$ctx.NAME`. A program has at most 16, [keys](crate::Key) included; the same name and
    /// function may be registered again. Each event costs the call.
    ///
    /// ```
    /// # fn main() -> Result<(), trace_runtime::Error> {
    /// # use trace_runtime::{Context, Session};
    /// thread_local!(static REQUEST: std::cell::Cell<u64> = const { std::cell::Cell::new(0) });
    ///
    /// let request = Context::provide("request", || REQUEST.try_with(|r| r.get()).unwrap_or(0))?;
    /// # let directory = tempfile::tempdir().expect("a directory");
    /// let session = Session::builder("requests")
    ///     .enable("* if $ctx.request > 0")
    ///     .context(Context::VTID | request)
    /// #   .output(directory.path().join("trace"))
    ///     .start()?;
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    ///
    /// A name that is no identifier, is that of a field there is, or was registered with another function; or a seventeenth field.
    ///
    /// # Signal safety
    ///
    /// `provide` runs on the event path, also in signal handlers and allocators where tracepoints are: it must not allocate,
    /// lock or block, nor use thread-local storage that initialises itself or has a destructor. If it panics, that is contained and
    /// reported, and the field is 0 from then on.
    pub fn provide(name: &'static str, provide: fn() -> u64) -> crate::Result<Context> {
        let provide = Provide::Function(provide);
        provider::register(name, provide).map(|number| Context::provided_by(number, provide))
    }

    /// The field of the program's own that has this number.
    pub(crate) fn provided_by(number: usize, provide: Provide) -> Context {
        let text = if matches!(provide, Provide::Text) { Self::TEXT << number } else { 0 };
        Context(Self::PROVIDED << number | text)
    }

    /// The fields of the program's own that this has, by number.
    fn provided(self) -> impl Iterator<Item = &'static Provider> {
        provider::providers().enumerate().filter(move |(i, _)| self.0 & (Self::PROVIDED << i) != 0).map(|(_, p)| p)
    }

    /// By name, as the command and the environment spell them.
    const NAMES: [(&'static str, Context); 7] = [
        ("vtid", Self::VTID),
        ("vpid", Self::VPID),
        ("cpu", Self::CPU),
        ("nesting", Self::NESTING),
        ("procname", Self::PROCNAME),
        ("thread_name", Self::THREAD_NAME),
        ("threads", Self::THREADS),
    ];

    /// All there are, by name.
    fn known() -> impl Iterator<Item = (&'static str, Context)> {
        let provided = provider::providers().enumerate().map(|(i, p)| (p.name, Context::provided_by(i, p.provide)));
        Self::NAMES.into_iter().chain(provided)
    }

    /// Returns the fields of these names; `none` is one for none.
    pub(crate) fn named<'a>(names: impl Iterator<Item = &'a str>) -> Result<Context, String> {
        let mut context = Context::NONE;
        for name in names.filter(|n| *n != "none") {
            let Some((_, field)) = Self::known().find(|(known, _)| *known == name) else {
                let known: Vec<&str> = Self::known().map(|(known, _)| known).collect();
                return Err(format!(
                    "no context field is called `{name}`; there are {}, none; a key of the program is one when it has registered it",
                    known.join(", ")
                ));
            };
            context = context | field;
        }
        Ok(context)
    }

    /// Returns the names of the fields.
    pub(crate) fn names(self) -> impl Iterator<Item = &'static str> {
        Self::known().filter(move |(_, field)| self.contains(*field)).map(|(name, _)| name)
    }

    /// Whether all of `other` is part of this.
    pub const fn contains(self, other: Context) -> bool {
        self.0 & other.0 == other.0
    }

    /// The fields of the stream class, in the order in which records have them: the CPU last, which the consumer adds to records
    /// of the fallback region.
    pub(crate) fn fields(self) -> Vec<ctf::Field> {
        let number = |name| ctf::Field::new(name, ctf::FieldClass::signed(32));
        let one = |context, name| self.contains(context).then(|| number(name));
        let text = |name, bytes: usize| ctf::Field::new(name, ctf::FieldClass::Text { length: bytes as u64 });
        let name = |context, name| self.contains(context).then(|| text(name, size_of::<Name>()));
        let numbers = [one(Context::VPID, "vpid"), one(Context::VTID, "vtid"), one(Context::NESTING, "nesting")];
        let names = [name(Context::PROCNAME, "procname"), name(Context::THREAD_NAME, "thread_name")];
        let provided = self.provided().map(|p| match p.provide {
            Provide::Text => text(p.name, KeyText::BYTES),
            Provide::Function(_) | Provide::Number => ctf::Field::new(p.name, ctf::FieldClass::unsigned(64)),
        });
        let first = numbers.into_iter().chain(names).flatten();
        first.chain(provided).chain(one(Context::CPU, "cpu")).collect()
    }

    pub(crate) fn with_cpu(self) -> Context {
        self | Context::CPU
    }

    /// Bytes in front of each payload.
    pub(crate) fn size(self) -> usize {
        let count = |fields: u64| (self.0 & fields).count_ones() as usize;
        let names = Self::PROCNAME.0 | Self::THREAD_NAME.0;
        let texts = count(Self::ALL_TEXTS) * (KeyText::BYTES - 8);
        count(7 | 16) * 4 + count(Self::ALL_PROVIDED) * 8 + texts + count(names) * size_of::<Name>()
    }

    /// Whether an appender puts the fields in front of a payload by itself: none, or the thread's ID.
    pub(crate) fn is_appenders(self) -> bool {
        self.0 & !(Context::VTID.0 | Context::THREADS.0) == 0
    }

    /// Puts the fields in front of a payload. Returns their bytes.
    ///
    /// # Safety
    ///
    /// Nothing was put there before, and all have [room](Self::size) in the headroom.
    pub(crate) unsafe fn put(self, process: &Process, payload: &mut Finished<'_>) -> usize {
        let (pid, tid) = (process.pid, process::thread_id());
        let cpu = trace_registry::sys::cpu_id;
        // SAFETY: the caller's duty.
        unsafe {
            match self.0 & !8 {
                0 => payload.set_context([]),
                1 => payload.set_context([tid]),
                2 => payload.set_context([pid]),
                3 => payload.set_context([pid, tid]),
                4 => payload.set_context([cpu()]),
                5 => payload.set_context([tid, cpu()]),
                6 => payload.set_context([pid, cpu()]),
                7 => payload.set_context([pid, tid, cpu()]),
                _ => self.put_all(process, tid, &mut Headroom(payload)),
            }
        }
        self.size()
    }

    /// Puts the fields into memory of their own, for a payload whose headroom they are too many for.
    #[inline(always)]
    pub(crate) fn put_apart(self, process: &Process, apart: &mut Apart) {
        self.put_all(process, process::thread_id(), apart);
    }

    #[inline(never)]
    fn put_all(self, process: &Process, tid: u32, front: &mut impl InFront) {
        // From the last field to the first: each goes in front of what is there.
        if self.contains(Context::CPU) {
            front.put([trace_registry::sys::cpu_id()]);
        }
        for number in (0..provider::MOST).rev().filter(|n| self.0 & (Self::PROVIDED << n) != 0) {
            let provider = provider::provider(number);
            match provider.map(|p| p.provide) {
                Some(Provide::Function(provide)) => front.put(u64_words(provider.map_or(0, |p| p.value(provide)))),
                Some(Provide::Number) => front.put(u64_words(key::number(number))),
                // SAFETY: copied at once (KY-1).
                Some(Provide::Text) => front.put(unsafe { key::text(number) }.words()),
                None => {}
            }
        }
        if self.contains(Context::THREAD_NAME) {
            front.put(threads::name());
        }
        if self.contains(Context::PROCNAME) {
            front.put(process.name);
        }
        if self.contains(Context::NESTING) {
            front.put([provider::nesting()]);
        }
        if self.contains(Context::VTID) {
            front.put([tid]);
        }
        if self.contains(Context::VPID) {
            front.put([process.pid]);
        }
    }
}

/// Where context goes, from its last field to its first.
trait InFront {
    fn put<const N: usize>(&mut self, words: [u32; N]);
}

/// The headroom of a payload; of a context that has room there ([`Context::put`]).
struct Headroom<'f, 'p>(&'f mut Finished<'p>);

impl InFront for Headroom<'_, '_> {
    #[inline(always)]
    fn put<const N: usize>(&mut self, words: [u32; N]) {
        // SAFETY: as for `Context::put`, which alone makes one.
        unsafe { self.0.set_context(words) };
    }
}

/// Memory for any context.
pub(crate) struct Apart {
    bytes: [u8; LARGEST],
    /// Where the context begins; it ends with the memory.
    begin: usize,
}

impl Apart {
    #[inline(always)]
    pub(crate) fn new() -> Apart {
        Apart { bytes: [0; LARGEST], begin: LARGEST }
    }

    /// What was put there.
    #[inline(always)]
    pub(crate) fn bytes(&self) -> &[u8] {
        self.bytes.get(self.begin..).unwrap_or_default()
    }
}

impl InFront for Apart {
    #[inline(always)]
    fn put<const N: usize>(&mut self, words: [u32; N]) {
        let begin = self.begin.saturating_sub(N * 4);
        let place = self.bytes.get_mut(begin..self.begin).unwrap_or_default();
        place.chunks_exact_mut(4).zip(words).for_each(|(place, word)| place.copy_from_slice(&word.to_ne_bytes()));
        self.begin = begin;
    }
}

/// The words of a number, in the order of memory.
fn u64_words(value: u64) -> [u32; 2] {
    let [a, b, c, d, e, f, g, h] = value.to_ne_bytes();
    [u32::from_ne_bytes([a, b, c, d]), u32::from_ne_bytes([e, f, g, h])]
}

impl Default for Context {
    fn default() -> Context {
        Context::VTID
    }
}

impl BitOr for Context {
    type Output = Context;
    fn bitor(self, other: Context) -> Context {
        Context(self.0 | other.0)
    }
}
