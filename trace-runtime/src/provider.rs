//! Context values: what the thread, the process and the program's own providers say of an event, for filters and records.
//!
//! Everything is cached or at hand: no value takes a system call, but for the thread ID in a thread's first event.
#![expect(unsafe_code, reason = "providers are reached by address")]

use crate::error::{Kind, Result};
use crate::key;
use crate::process;
use crate::threads::{self, Name};
use std::cell::OnceCell;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::ptr;
use trace_filter::{Field, Kind as ValueKind, Value};
use trace_registry::sync::{AtomicBool, AtomicPtr, Ordering};
use trace_registry::{read_side, sys};

/// Most providers of a program.
pub(crate) const MOST: usize = 16;

/// A context field of the program's own.
#[derive(Debug)]
pub(crate) struct Provider {
    pub(crate) name: &'static str,
    pub(crate) provide: Provide,
    has_panicked: AtomicBool,
    is_reported: AtomicBool,
}

impl Provider {
    fn new(name: &'static str, provide: Provide) -> Provider {
        Provider { name, provide, has_panicked: AtomicBool::new(false), is_reported: AtomicBool::new(false) }
    }

    /// Returns the value of its function for an event. A panic is contained: the value is 0 then and in all later events, for which the
    /// function is not called, and the consumer's thread reports it.
    ///
    /// # Signal safety
    ///
    /// Async-signal-safe, if the function is.
    pub(crate) fn value(&self, provide: fn() -> u64) -> u64 {
        // Relaxed: a thread that does not see it yet calls the function once more, and contains that too.
        if self.has_panicked.load(Ordering::Relaxed) {
            return 0;
        }
        // Unwind safety: nothing of ours is half changed when it is called.
        catch_unwind(AssertUnwindSafe(provide)).unwrap_or_else(|panic| {
            // The payload's destructor is foreign code that may panic again.
            std::mem::forget(panic);
            self.panicked()
        })
    }

    #[cold]
    fn panicked(&self) -> u64 {
        self.has_panicked.store(true, Ordering::Relaxed);
        // Relaxed: a count, read by the consumer's thread some time later.
        read_side::panics().fetch_add(1, Ordering::Relaxed);
        0
    }
}

/// What to say of the providers that panicked since the last call.
pub(crate) fn panicked() -> Vec<String> {
    let is_new = |p: &&Provider| p.has_panicked.load(Ordering::Relaxed) && !p.is_reported.swap(true, Ordering::Relaxed);
    let text = |p: &Provider| format!("the provider of the context field `{}` panicked; it is 0 from now on", p.name);
    providers().filter(is_new).map(text).collect()
}

/// Where the values of a context field of the program's own come from.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Provide {
    /// A function of the program.
    Function(fn() -> u64),
    /// A [key](crate::Key) for numbers, which has the provider's number.
    Number,
    /// The same for texts.
    Text,
}

impl Provide {
    fn is_same(self, other: Provide) -> bool {
        match (self, other) {
            (Provide::Function(one), Provide::Function(other)) => ptr::fn_addr_eq(one, other),
            (Provide::Number, Provide::Number) | (Provide::Text, Provide::Text) => true,
            _ => false,
        }
    }
}

/// Filled in order, never emptied; each is null or a provider that is never freed. A look is one load, so the event path may take it,
/// and there is no lock that a forked child might inherit locked.
static PROVIDERS: [AtomicPtr<Provider>; MOST] = [const { AtomicPtr::new(ptr::null_mut()) }; MOST];

/// The provider of this number.
#[inline]
pub(crate) fn provider(number: usize) -> Option<&'static Provider> {
    // Acquire: orders the provider before its address. Pairs with the exchange in `register`.
    let provider = PROVIDERS.get(number)?.load(Ordering::Acquire);
    // SAFETY: `register` made it by `Box::into_raw`, and nobody frees it.
    unsafe { provider.as_ref() }
}

/// All providers, in the order of their numbers.
pub(crate) fn providers() -> impl Iterator<Item = &'static Provider> {
    (0..MOST).map_while(provider)
}

/// Whether a field that a program registers may have this name.
pub(crate) fn may_be_registered(name: &str) -> bool {
    name.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_')
        && name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_')
        && !BUILT_IN.contains(&name)
        && !matches!(name, "threads" | "none")
}

/// Whether a program may register a field of this name, and has not yet.
pub(crate) fn is_awaited(name: &str) -> bool {
    may_be_registered(name) && !providers().any(|provider| provider.name == name)
}

/// Registers a provider. Returns its number; the same for what is the same. What waits for it begins before this returns.
pub(crate) fn register(name: &'static str, provide: Provide) -> Result<usize> {
    if !may_be_registered(name) {
        return Err(Kind::ContextName(name).into());
    }
    for (number, place) in PROVIDERS.iter().enumerate() {
        if provider(number).is_none() {
            let new = Box::into_raw(Box::new(Provider::new(name, provide)));
            // Release: orders the provider before its address. Pairs with the load in `provider`.
            if place.compare_exchange(ptr::null_mut(), new, Ordering::Release, Ordering::Relaxed).is_ok() {
                crate::attach::key_registered(name);
                crate::init::key_registered();
                return Ok(number);
            }
            // SAFETY: nobody else has seen it.
            drop(unsafe { Box::from_raw(new) });
        }
        // Where another thread was first just now, its provider may be the same.
        if let Some(known) = provider(number).filter(|known| known.name == name) {
            return if known.provide.is_same(provide) { Ok(number) } else { Err(Kind::ContextTaken(name).into()) };
        }
    }
    Err(Kind::TooManyContexts(MOST).into())
}

/// Names of all context fields that there are.
pub(crate) fn names() -> impl Iterator<Item = &'static str> {
    BUILT_IN.into_iter().chain(providers().map(|p| p.name))
}

/// Names of what needs no provider.
const BUILT_IN: [&str; 6] = ["vpid", "vtid", "cpu", "nesting", "procname", "thread_name"];

/// A context field of a filter.
#[derive(Clone, Copy, Debug)]
pub(crate) enum ContextValue {
    Vpid(u32),
    Vtid,
    Cpu,
    Nesting,
    ProcessName(&'static str),
    ThreadName,
    Provided(&'static Provider, fn() -> u64),
    KeyNumber(usize),
    KeyText(usize),
}

impl ContextValue {
    /// What there is now: [`BUILT_IN`], then the providers.
    pub(crate) fn fields() -> Vec<Field> {
        let kind = |is_text| if is_text { ValueKind::Text } else { ValueKind::Integer };
        let built_in = BUILT_IN.into_iter().map(|name| Field::new(name, kind(matches!(name, "procname" | "thread_name"))));
        let provided = providers().map(|p| Field::new(p.name, kind(matches!(p.provide, Provide::Text))));
        built_in.chain(provided).collect()
    }

    /// Whether its values are texts.
    pub(crate) fn is_text(self) -> bool {
        matches!(self, ContextValue::ProcessName(_) | ContextValue::ThreadName | ContextValue::KeyText(_))
    }

    /// The one of this index in [`fields`](Self::fields).
    pub(crate) fn of(index: u16) -> Option<ContextValue> {
        let process = process::get()?;
        Some(match index {
            0 => ContextValue::Vpid(process.pid),
            1 => ContextValue::Vtid,
            2 => ContextValue::Cpu,
            3 => ContextValue::Nesting,
            4 => ContextValue::ProcessName(&process.program),
            5 => {
                threads::want_names();
                ContextValue::ThreadName
            }
            _ => {
                let number = usize::from(index) - BUILT_IN.len();
                let provider = provider(number)?;
                match provider.provide {
                    Provide::Function(provide) => ContextValue::Provided(provider, provide),
                    Provide::Number => ContextValue::KeyNumber(number),
                    Provide::Text => ContextValue::KeyText(number),
                }
            }
        })
    }

    /// Its value, for an event of this thread; `room` for what is no constant.
    ///
    /// # Signal safety
    ///
    /// Async-signal-safe, if a provider is.
    #[inline]
    pub(crate) fn value(self, room: &Room) -> Value<'_> {
        match self {
            ContextValue::Vpid(pid) => Value::Integer(pid.into()),
            ContextValue::Vtid => Value::Integer(process::thread_id().into()),
            ContextValue::Cpu => match sys::cpu_id() {
                // Threads without restartable sequences do not know.
                cpu if cpu as i32 >= 0 => Value::Integer(cpu.into()),
                _ => Value::Missing,
            },
            ContextValue::Nesting => Value::Integer(nesting().into()),
            ContextValue::ProcessName(name) => Value::Text(name.as_bytes()),
            ContextValue::ThreadName => Value::Text(threads::bytes(room.0.get_or_init(|| threads::in_bytes(threads::name())))),
            ContextValue::Provided(provider, provide) => Value::Integer(provider.value(provide).into()),
            ContextValue::KeyNumber(slot) => Value::Integer(key::number(slot).into()),
            // SAFETY: a room is of one evaluation, in which no scope ends that was there before it (KY-1).
            ContextValue::KeyText(slot) => Value::Text(unsafe { key::text(slot) }.as_bytes()),
        }
    }
}

/// Where an evaluation keeps the name of its thread, which the thread's block may lose meanwhile, to that of a handler.
#[derive(Debug, Default)]
pub(crate) struct Room(OnceCell<[u8; size_of::<Name>()]>);

/// How many other tracepoints this thread is inside of: 0 in ordinary code, more in the tracepoints of probes, handlers and
/// allocators that run during an event.
#[inline]
pub(crate) fn nesting() -> u32 {
    sys::depth().saturating_sub(1)
}
