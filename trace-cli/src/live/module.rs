//! `ringtrace module`: probe modules of running programs.

use std::io::Write as _;
use std::path::PathBuf;
use std::time::Duration;

use serde_json::json;
use trace_control::protocol::{LoadModule, Module, Modules, Request, UnloadModule};
use trace_registry::units;

use super::process::Process;
use super::target::Target;
use super::text;
use crate::Outcome;
use crate::common::Common;
use crate::failure::Failure;

/// Loads probe modules into running programs, unloads them, and shows which are loaded.
///
/// A probe module is a shared object with probes: a crate of type `cdylib` with `ringtrace::probe_module!`. Its probes are listed,
/// and rules apply to them, as soon as it is loaded. It must fit the program; what does not is refused with the reason. A program
/// takes modules only if it was started with RINGTRACE=modules, or calls `ringtrace::Module::allow_from_outside()`.
#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    #[command(subcommand)]
    verb: Verb,
}

#[derive(Debug, clap::Subcommand)]
enum Verb {
    /// Loads a module. Its code runs in the program from then on.
    ///
    /// Which allocator a module uses, no check can tell: a program that has a `#[global_allocator]` needs it in its modules too, unless
    /// their probes neither keep nor free what the program allocated.
    Load(Load),
    /// Detaches a module's probes, waits until none of them runs, and unloads it. What they recorded stays.
    Unload(Unload),
    /// Shows the modules that are loaded.
    List(List),
}

#[derive(Debug, clap::Args)]
struct Load {
    /// The module's file: lib….so.
    file: PathBuf,

    #[command(flatten)]
    target: Target,
}

#[derive(Debug, clap::Args)]
struct Unload {
    /// Name of the module, as `list` shows it.
    name: String,

    /// How long to wait for probes that run.
    #[arg(short, long, value_name = "TIME", value_parser = units::duration, default_value = "10s")]
    wait: Duration,

    #[command(flatten)]
    target: Target,
}

#[derive(Debug, clap::Args)]
struct List {
    #[command(flatten)]
    target: Target,
}

pub(crate) fn run(arguments: &Arguments, common: &Common) -> Result<Outcome, Failure> {
    match &arguments.verb {
        Verb::Load(load) => {
            // The program may have another working directory.
            let path = std::path::absolute(&load.file).unwrap_or_else(|_| load.file.clone());
            load.target.each(|process| {
                let module: Module = process.demand(&Request::LoadModule(LoadModule { path: path.clone() }))?;
                show(process, "loaded", &module, common)
            })
        }
        Verb::Unload(unload) => unload.target.each(|process| {
            let ms = u64::try_from(unload.wait.as_millis()).unwrap_or(u64::MAX);
            let module: Module = process.demand(&Request::UnloadModule(UnloadModule { name: unload.name.clone(), ms }))?;
            show(process, "unloaded", &module, common)
        }),
        Verb::List(list) => list.target.each(|process| {
            let Modules { modules } = process.demand(&Request::Modules)?;
            modules.iter().try_for_each(|module| show(process, "", module, common))
        }),
    }
}

fn show(process: &Process, done: &str, module: &Module, common: &Common) -> Result<(), Failure> {
    let mut out = text::out(common.json);
    if common.json {
        writeln!(out, "{}", process.line(json!({ "process": process.is.pid, "module": module })))?;
    } else {
        let done = if done.is_empty() { String::new() } else { format!("{done} ") };
        let Module { name, version, path, probes } = module;
        writeln!(out, "{}: {done}{name} {version} ({}): {}", process.name(), path.display(), probes.join(", "))?;
    }
    Ok(out.flush()?)
}
