//! Context values: what the thread, the process and the program's own providers say of an event, for filters and records.
//!
//! Everything is cached or at hand: no value takes a system call, but for the thread ID in a thread's first event.
#![expect(unsafe_code, reason = "providers are reached by address")]

use crate::error::{Kind, Result};
use crate::process;
use crate::threads::{self, Name};
use std::cell::OnceCell;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::ptr;
use trace_filter::{Field, Kind as ValueKind, Value};
use trace_registry::sync::{AtomicBool, AtomicPtr, Ordering};
use trace_registry::{read_side, sys};

/// Most providers of a program: with all other context fields, theirs fill the room in front of a payload.
pub(crate) const MOST: usize = 4;
const _: () = assert!(4 * 4 + 2 * size_of::<Name>() + MOST * 8 <= trace_registry::field::HEADROOM);

/// A function of the program that gives a context field its values.
#[derive(Debug)]
pub(crate) struct Provider {
    pub(crate) name: &'static str,
    provide: fn() -> u64,
    has_panicked: AtomicBool,
    is_reported: AtomicBool,
}

impl Provider {
    fn new(name: &'static str, provide: fn() -> u64) -> Provider {
        Provider { name, provide, has_panicked: AtomicBool::new(false), is_reported: AtomicBool::new(false) }
    }

    /// Returns the value for an event. A panic is contained: the value is 0 then and in all later events, for which the function is
    /// not called, and the consumer's thread reports it.
    ///
    /// # Signal safety
    ///
    /// Async-signal-safe, if the function is.
    pub(crate) fn value(&self) -> u64 {
        // Relaxed: a thread that does not see it yet calls the function once more, and contains that too.
        if self.has_panicked.load(Ordering::Relaxed) {
            return 0;
        }
        // Unwind safety: nothing of ours is half changed when it is called.
        catch_unwind(AssertUnwindSafe(self.provide)).unwrap_or_else(|panic| {
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

/// Registers a provider. Returns its number; the same for the same name and function.
pub(crate) fn register(name: &'static str, provide: fn() -> u64) -> Result<usize> {
    register_by_number(name, [provide; MOST])
}

/// Registers a provider whose function depends on the number that it gets.
pub(crate) fn register_by_number(name: &'static str, by_number: [fn() -> u64; MOST]) -> Result<usize> {
    let is_identifier = name.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_')
        && name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_');
    if !is_identifier || BUILT_IN.contains(&name) || matches!(name, "threads" | "none") {
        return Err(Kind::ContextName(name).into());
    }
    for (number, (place, provide)) in PROVIDERS.iter().zip(by_number).enumerate() {
        if provider(number).is_none() {
            let new = Box::into_raw(Box::new(Provider::new(name, provide)));
            // Release: orders the provider before its address. Pairs with the load in `provider`.
            if place.compare_exchange(ptr::null_mut(), new, Ordering::Release, Ordering::Relaxed).is_ok() {
                return Ok(number);
            }
            // SAFETY: nobody else has seen it.
            drop(unsafe { Box::from_raw(new) });
        }
        // Where another thread was first just now, its provider may be the same.
        if let Some(known) = provider(number).filter(|known| known.name == name) {
            let is_same = std::ptr::fn_addr_eq(known.provide, provide);
            return if is_same { Ok(number) } else { Err(Kind::ContextTaken(name).into()) };
        }
    }
    Err(Kind::TooManyContexts(MOST).into())
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
    Provided(&'static Provider),
}

impl ContextValue {
    /// What there is now: [`BUILT_IN`], then the providers.
    pub(crate) fn fields() -> Vec<Field> {
        let kind = |name: &str| match name {
            "procname" | "thread_name" => ValueKind::Text,
            _ => ValueKind::Integer,
        };
        BUILT_IN.into_iter().chain(providers().map(|p| p.name)).map(|name| Field::new(name, kind(name))).collect()
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
            _ => ContextValue::Provided(provider(usize::from(index) - BUILT_IN.len())?),
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
            ContextValue::Provided(provider) => Value::Integer(provider.value().into()),
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
