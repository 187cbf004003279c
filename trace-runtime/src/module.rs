//! Probe modules: shared objects with probes, loaded into the running program and unloaded again.
#![expect(unsafe_code, reason = "a module's code becomes the program's")]

use crate::attach;
use crate::catalogue;
use crate::closure;
use crate::consumer;
use crate::error::{Kind, Result};
use crate::follow;
use crate::per_image::PerImage;
use crate::process;
use crate::rcu::{self, lock};
use crate::state;
use crate::sys;
use crate::sys::library::{self, Library};
use crate::sys::object_file;
use std::mem::ManuallyDrop;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};
use trace_registry::image::{Build, Image};
use trace_registry::sync::{AtomicBool, Ordering};
use trace_registry::{Name, ProbeDescriptor};

/// A probe module that is loaded. Dropping this changes nothing: the module stays until it is [unloaded](Module::unload).
#[derive(Clone, Debug)]
pub struct Module(Arc<Loaded>);

#[derive(Debug)]
struct Loaded {
    name: String,
    version: String,
    path: PathBuf,
    /// Names of its probes.
    probes: Vec<String>,
    /// Where their functions begin.
    functions: Vec<usize>,
    place: Place,
}

/// Where its image is. Taken by who unloads it.
struct Place {
    image: &'static Image,
    code: Range<usize>,
    library: Mutex<Option<Library>>,
}

impl std::fmt::Debug for Place {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{:x?}", self.code)
    }
}

/// The modules, in the order in which they were loaded. Held while one is loaded: they come one after the other.
static MODULES: PerImage<Mutex<Vec<Module>>> = PerImage::new(Mutex::default);

/// Leaves the parent's modules as they are; for a forked child.
pub(crate) fn renew() {
    MODULES.renew();
}

/// Whether modules may be loaded from outside. A forked child has its parent's word.
static IS_ALLOWED_FROM_OUTSIDE: AtomicBool = AtomicBool::new(false);

/// Whether the program, or its environment, has allowed that modules are loaded from outside.
pub(crate) fn is_allowed_from_outside() -> bool {
    // Relaxed: nothing else is read with it.
    IS_ALLOWED_FROM_OUTSIDE.load(Ordering::Relaxed)
}

impl Module {
    /// Allows that the `ringtrace` command loads probe modules into this process, from now on.
    ///
    /// A module is code of whoever asks for it, and runs with all privileges of the process. So nobody outside may load one
    /// unless the program says so by this function, or its environment by `RINGTRACE=modules`; what the program loads itself
    /// ([`load`](Module::load)) needs no permission.
    ///
    /// ```
    /// trace_runtime::Module::allow_from_outside();
    /// ```
    pub fn allow_from_outside() {
        // Relaxed: as above.
        IS_ALLOWED_FROM_OUTSIDE.store(true, Ordering::Relaxed);
    }

    /// Loads a probe module and attaches its probes, as far as rules of sessions match them.
    ///
    /// Its tracepoints and probes are listed, and rules apply to them, from now on. The module is accepted only if the same
    /// version of ringtrace and of the compiler made it, and if it agrees with the program on the arguments of the tracepoints that
    /// it has probes for; see `docs/modules.md`.
    ///
    /// # Errors
    ///
    /// [`Error::is_module`](crate::Error::is_module): the file is no probe module, or does not fit the program. The message names the tracepoint,
    /// what differs, and what to do. Nothing is attached then. Also where tracing is off, and from inside a probe.
    ///
    /// # Safety
    ///
    /// The code of the module runs in this process: its constructors, and its probes as if they were linked into the program.
    /// Until it is unloaded the file is not changed in place (replace it by renaming a new one). When it is unloaded, no thread of its own
    /// runs, nothing is called in it but by tracepoints, and no thread fires a tracepoint of its own code.
    ///
    /// Whatever module and program allocate and free for each other, they do by the same allocator: if the program, or the module, has a
    /// `#[global_allocator]`, the other has the same one, or the module's probes neither keep a share in what they are given (`Arc`, `Rc`)
    /// nor change it, and nothing of the module's reaches the program but its events. No check can tell.
    pub unsafe fn load(path: impl AsRef<Path>) -> Result<Module> {
        let given = path.as_ref();
        process::current()?;
        process::may_wait("`Module::load`")?;
        rcu::admit()?;
        consumer::ensure_running()?;
        let path = given.canonicalize().map_err(|e| crate::Error::io("cannot load", given, e))?;
        let refused = |why: String| crate::Error::from(Kind::Module { path: path.clone(), why });
        let nothing =
            || refused("it has nothing of ringtrace in it; a probe module is a `cdylib` with `ringtrace::probe_module!`".into());
        // Before any of its code runs.
        let build = object_file::check(&path).map_err(refused)?.ok_or_else(nothing)?;
        check_build(&build, &Build::own()).map_err(refused)?;
        let mut modules = lock(MODULES.get());
        let library = Library::open(&path).map_err(refused)?;
        let (image, code) = library.image().ok_or_else(nothing)?;
        let contents = image.contents().ok_or_else(|| refused("it was built otherwise than the program".into()))?;
        let info = contents.module.ok_or_else(|| refused(NO_MODULE.into()))?;
        if let Some(other) = modules.iter().find(|m| std::ptr::eq(m.0.place.image, image) || m.name() == info.name) {
            let why = format!(
                "a module called {} is loaded already: version {}, from {}; unload it first",
                other.name(),
                other.version(),
                other.path().display()
            );
            return Err(refused(why));
        }
        let probes = contents.probes();
        check_probes(&probes).map_err(refused)?;
        let module = Module(Arc::new(Loaded {
            name: info.name.to_owned(),
            version: info.version.to_owned(),
            path: path.clone(),
            probes: probes.iter().map(|p| p.name().to_string()).collect(),
            functions: probes.iter().map(|p| (p.function)().addr()).collect(),
            place: Place { image, code, library: Mutex::new(Some(library)) },
        }));
        // SAFETY: the module holds its library; IM-2.
        unsafe { image.adopt() };
        attach::control().add_image(image, &contents);
        modules.push(module.clone());
        Ok(module)
    }

    /// Returns the modules that are loaded.
    pub fn loaded() -> Vec<Module> {
        lock(MODULES.get()).clone()
    }

    /// Returns its name.
    pub fn name(&self) -> &str {
        &self.0.name
    }

    /// Returns its version.
    pub fn version(&self) -> &str {
        &self.0.version
    }

    /// Returns its file, as it was when it was loaded.
    pub fn path(&self) -> &Path {
        &self.0.path
    }

    /// Returns the names of its probes.
    pub fn probes(&self) -> &[String] {
        &self.0.probes
    }

    /// Detaches the module's probes, waits until none of them runs, for at most `limit`, and unloads it.
    ///
    /// What they recorded stays readable, and the classes of their events stay described.
    ///
    /// # Errors
    ///
    /// [`Error::is_module`](crate::Error::is_module): a probe has not returned within `limit`. It is detached, and the module is unloaded when the probe has
    /// returned. Also from inside a probe, and if the module is unloaded already; then nothing is done.
    pub fn unload(&self, limit: Duration) -> Result<()> {
        process::may_wait("`Module::unload`")?;
        process::current()?;
        let place = &self.0.place;
        let Some(library) = lock(&place.library).take() else {
            return Err(Kind::Module { path: self.0.path.clone(), why: "it is unloaded already".into() }.into());
        };
        lock(MODULES.get()).retain(|m| !Arc::ptr_eq(&m.0, &self.0));
        attach::control().remove_image(place.image);
        follow::wait_for_forks();
        let begun = Instant::now();
        let is_reclaimed = closure::wait_for_reclaimer(limit);
        let dumps = state::wait_for(place.image, limit.saturating_sub(begun.elapsed()));
        if is_reclaimed && dumps.is_empty() {
            drop(library);
            return Ok(());
        }
        let mut stuck = if is_reclaimed { Vec::new() } else { self.stuck() };
        if dumps.is_empty() {
            // Behind the lists that name its functions.
            rcu::retire(Box::new(library));
        } else {
            stuck.extend(dumps);
            retire_behind_dumps(place.image, library);
        }
        Err(Kind::ModuleStuck { name: self.0.name.clone(), probes: stuck, limit }.into())
    }

    /// The probes to which a thread that waits will return; all of them, where none is seen to wait.
    fn stuck(&self) -> Vec<String> {
        let Loaded { probes, functions, place, .. } = &*self.0;
        let of = |address: usize| {
            let begun = functions.iter().zip(probes).filter(|(begin, _)| (**begin..**begin + LONGEST).contains(&address));
            begun.max_by_key(|(begin, _)| **begin).map(|(_, name)| name.clone())
        };
        let mut stuck: Vec<String> = library::addresses_on_stacks(&place.code).into_iter().filter_map(of).collect();
        stuck.sort();
        stuck.dedup();
        if stuck.is_empty() { probes.clone() } else { stuck }
    }
}

/// Unmaps a module when its state dumps have returned. Without a thread that waits for them, it stays mapped.
fn retire_behind_dumps(image: &'static Image, library: Library) {
    let library = ManuallyDrop::new(library);
    let body = move || {
        sys::mark_thread_untraced();
        state::wait_for(image, Duration::MAX);
        rcu::retire(Box::new(ManuallyDrop::into_inner(library)));
    };
    let _ = sys::spawn_with_signals_blocked(c"ringtrace-unload", body);
}

/// Bytes of code that a probe's function is taken to have at most.
const LONGEST: usize = 4096;

const NO_MODULE: &str =
    "it is no probe module: it has no `ringtrace::probe_module!`, so that its tracepoints and probes were its own";

/// Whether what made an image made this program (IM-1), and made it a module.
fn check_build(theirs: &Build, ours: &Build) -> std::result::Result<(), String> {
    if theirs.version != ours.version {
        let (theirs, ours) = (&theirs.version, &ours.version);
        return Err(format!(
            "it has ringtrace {theirs}, and the program {ours}; build the module with the program's `Cargo.lock`"
        ));
    }
    if theirs.compiler != ours.compiler {
        let (theirs, ours) = (&theirs.compiler, &ours.compiler);
        return Err(format!(
            "it was compiled by `{theirs}`, and the program by `{ours}`, which may lay out every type otherwise; build the module \
             with the program's compiler"
        ));
    }
    if theirs.layout != ours.layout {
        let why = "its ringtrace was built in another configuration than the program's (`--cfg ringtrace_…`); build both alike";
        return Err(why.to_owned());
    }
    if !theirs.is_module {
        return Err(NO_MODULE.to_owned());
    }
    if !theirs.contains_panics {
        let why = "a panic of its probes would end the program: enable the feature `module` of ringtrace in it";
        return Err(why.to_owned());
    }
    Ok(())
}

/// Whether the program and a module agree on the tracepoints that the module has probes for. What a crate in it records of its own
/// tracepoints is no matter: where they disagree, that goes on by itself (CA-2).
fn check_probes(probes: &[&ProbeDescriptor]) -> std::result::Result<(), String> {
    let problem = |probe: &&ProbeDescriptor| {
        let tracepoint = (probe.tracepoint)();
        if krate(probe.module_path) == krate(tracepoint.module_path) {
            return None;
        }
        match catalogue::compare(tracepoint) {
            Some(None) => None,
            Some(Some(difference)) => Some(format!("{}: {difference}", tracepoint.name)),
            None => Some(missing(&tracepoint.name, probe)),
        }
    };
    let mut problems: Vec<String> = probes.iter().filter_map(problem).collect();
    problems.dedup();
    if problems.is_empty() { Ok(()) } else { Err(problems.join("\n  ")) }
}

fn missing(name: &Name, probe: &ProbeDescriptor) -> String {
    let names = attach::sites().iter().map(|s| s.tracepoint.name.to_string()).collect::<Vec<_>>();
    let near = trace_registry::registry::near(&name.to_string(), names.into_iter());
    let near = if near.is_empty() { String::new() } else { format!("; it has {}", near.join(", ")) };
    format!(
        "{name}: the program has no such tracepoint{near}; the module's probe at {} is for it, so build the module with the program's \
         version of the crate that declares it",
        probe.location
    )
}

pub(crate) fn krate(module_path: &str) -> &str {
    module_path.split("::").next().unwrap_or_default()
}

/// What the constructor of a shared object of the program asks for.
pub(crate) fn register(image: &'static Image) {
    if follow::is_child() {
        return; // a forked child: the lock may have been held when it was forked
    }
    let Some(contents) = image.contents() else { return };
    // Whoever is in its code when dlclose(3) is called must find it there, and that does not wait (CA-3). Now it can be kept: this
    // thread has the dynamic linker's lock, and not the control lock, for which another's constructor may wait.
    if !contents.state_dumps.is_empty() && library::keep(image) {
        catalogue::note_stay(image); // the tracer's threads run them
    }
    attach::control().add_image(image, &contents);
    for wanted in catalogue::wanted_elsewhere() {
        if library::keep(wanted) {
            attach::control().lend(wanted);
        }
    }
}

/// What its destructor asks for. The object goes when this returns, or the process ends. Under the dynamic linker's lock, so it waits
/// for nobody, and need not (CA-3).
pub(crate) fn unregister(image: &'static Image) {
    if follow::is_child() || consumer::is_ending() {
        return; // in a forked child nothing is attached, and what ends stays mapped
    }
    attach::control().remove_image(image);
    follow::wait_for_forks();
}
