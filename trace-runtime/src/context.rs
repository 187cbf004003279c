use crate::process::{self, Process};
use std::ops::BitOr;
use trace_ctf::schema as ctf;
use trace_registry::field::Finished;

/// Context fields: what every event record of a session carries beside its own fields.
///
/// ```
/// use trace_runtime::Context;
/// let both = Context::VTID | Context::CPU;
/// assert!(both.contains(Context::CPU) && !both.contains(Context::VPID));
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Context(u8);

impl Context {
    /// None: the smallest records.
    pub const NONE: Context = Context(0);
    /// Thread ID, 4 bytes. The default.
    pub const VTID: Context = Context(1);
    /// Process ID, 4 bytes.
    pub const VPID: Context = Context(2);
    /// CPU, 4 bytes. The rings are per CPU and their packets say which, so this is for rings by concurrency ID.
    pub const CPU: Context = Context(4);
    /// Names of the threads: not in each record, but as `ringtrace:thread_name` events by thread ID. Implies [`VTID`](Self::VTID).
    pub const THREAD_NAME: Context = Context(8 | 1);

    /// By name, as the command and the environment spell them.
    const NAMES: [(&'static str, Context); 4] =
        [("vtid", Self::VTID), ("vpid", Self::VPID), ("cpu", Self::CPU), ("thread-name", Self::THREAD_NAME)];

    /// Returns the fields of these names; `none` is one for none.
    pub(crate) fn named<'a>(names: impl Iterator<Item = &'a str>) -> Result<Context, String> {
        let mut context = Context::NONE;
        for name in names.filter(|n| *n != "none") {
            let Some((_, field)) = Self::NAMES.iter().find(|(known, _)| *known == name) else {
                let known: Vec<&str> = Self::NAMES.iter().map(|(known, _)| *known).collect();
                return Err(format!("no context field is called `{name}`; there are {}, none", known.join(", ")));
            };
            context = context | *field;
        }
        Ok(context)
    }

    /// Returns the names of the fields.
    pub(crate) fn names(self) -> impl Iterator<Item = &'static str> {
        Self::NAMES.iter().filter(move |(_, field)| self.contains(*field)).map(|(name, _)| *name)
    }

    /// Whether all of `other` is part of this.
    pub const fn contains(self, other: Context) -> bool {
        self.0 & other.0 == other.0
    }

    /// The fields of the stream class, in the order in which records have them.
    pub(crate) fn fields(self) -> Vec<ctf::Field> {
        let all = [(Context::VPID, "vpid"), (Context::VTID, "vtid"), (Context::CPU, "cpu")];
        all.into_iter()
            .filter(|(c, _)| self.contains(*c))
            .map(|(_, name)| ctf::Field::new(name, ctf::FieldClass::signed(32)))
            .collect()
    }

    pub(crate) fn with_cpu(self) -> Context {
        self | Context::CPU
    }

    /// Bytes in front of each payload.
    pub(crate) fn size(self) -> usize {
        (self.0 & 7).count_ones() as usize * 4
    }

    /// Whether an appender puts the fields in front of a payload by itself: none, or the thread's ID.
    pub(crate) fn is_appenders(self) -> bool {
        !self.contains(Context::VPID) && !self.contains(Context::CPU)
    }

    /// Puts the fields in front of a payload. Returns their bytes.
    pub(crate) fn put(self, process: &Process, payload: &mut Finished<'_>) -> usize {
        let (pid, tid) = (process.pid, process::thread_id());
        let cpu = trace_registry::sys::cpu_id;
        match self.0 & 7 {
            0 => payload.set_context([]),
            1 => payload.set_context([tid]),
            2 => payload.set_context([pid]),
            3 => payload.set_context([pid, tid]),
            4 => payload.set_context([cpu()]),
            5 => payload.set_context([tid, cpu()]),
            6 => payload.set_context([pid, cpu()]),
            _ => payload.set_context([pid, tid, cpu()]),
        }
        self.size()
    }
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
