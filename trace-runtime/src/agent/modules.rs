//! Probe modules, loaded and unloaded for a peer: each on a thread of its own, since the agent has others to serve.
#![expect(unsafe_code, reason = "a module's code becomes the program's")]

use super::describe;
use super::serve::{Reply, Waiting};
use crate::error::{Kind, Result};
use crate::module::{self, Module};
use crate::sys;
use std::time::Duration;
use trace_control::protocol::{self as words, LoadModule, Refusal, RefusalKind, UnloadModule};

const NOT_ALLOWED: &str = "nobody has allowed that modules are loaded into this process from outside: start the program with \
                           `modules` in its environment (RINGTRACE=modules, or behind other parts: RINGTRACE='storage:*; \
                           modules'), or let it call `ringtrace::Module::allow_from_outside()`";

pub(super) fn load(wanted: LoadModule) -> Reply {
    if !module::is_allowed_from_outside() {
        return Reply::Now(Err(Refusal::new(RefusalKind::Forbidden, NOT_ALLOWED)));
    }
    // SAFETY: whoever is answered could make the process do anything (AG-1), and the program or its environment has allowed
    // this; that the module is fit to be loaded is the user's promise, as for `Module::load`.
    later(move || unsafe { Module::load(&wanted.path) }.map(|m| describe::module(&m)))
}

pub(super) fn unload(wanted: UnloadModule) -> Reply {
    later(move || {
        let modules = Module::loaded();
        let Some(module) = modules.iter().find(|m| m.name() == wanted.name) else {
            let loaded = modules.iter().map(|m| m.name().to_owned()).collect();
            return Err(Kind::NoModule { name: wanted.name, loaded }.into());
        };
        module.unload(Duration::from_millis(wanted.ms))?;
        Ok(describe::module(module))
    })
}

fn later(work: impl FnOnce() -> Result<words::Module> + Send + 'static) -> Reply {
    let (sender, receiver) = std::sync::mpsc::channel();
    let body = move || {
        sys::mark_thread_untraced();
        // Whoever asked may have gone.
        let _ = sender.send(work());
    };
    match sys::spawn_with_signals_blocked(c"ringtrace-mod", body) {
        Ok(()) => Reply::Later(Waiting::Module(receiver)),
        Err(error) => Reply::Now(Err(Refusal::new(RefusalKind::Other, format!("cannot start a thread: {error}")))),
    }
}
