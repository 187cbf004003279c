//! `init()` and the environment variable `RINGTRACE`.

use crate::agent;
use crate::environment::{self, Plan, Wish};
use crate::follow;
use crate::per_image::PerImage;
use crate::rcu::lock;
use crate::report;
use std::sync::{Mutex, Once};
use trace_registry::sync::{AtomicBool, Ordering};

static ONCE: PerImage<Once> = PerImage::new(Once::new);
/// What the variable says, while its session waits for a key.
static WAITING: PerImage<Mutex<Option<String>>> = PerImage::new(Mutex::default);
/// Whether the program has an agent.
static HAS_AGENT: AtomicBool = AtomicBool::new(false);

/// Lets the next call do something again; for a forked child.
pub(crate) fn renew() {
    ONCE.renew();
    WAITING.renew();
    LACKS_THREADS.store(false, Ordering::Relaxed);
}

/// Starts what the environment variable `RINGTRACE` asks for.
///
/// | `RINGTRACE` | Effect |
/// | --- | --- |
/// | unset or empty | nothing now; sessions may be started, by the program and by the `ringtrace` command |
/// | `0`, `off` | tracing is off, and cannot be controlled from outside: sessions are refused too |
/// | `1` | records every event into `./PROGRAM-TIME.ringtrace` |
/// | `print` | prints every event on stderr, from the consumer's thread |
/// | rules, such as `storage:* level info; !storage:noise` | records what they match |
/// | `follow` | children after fork(2) are recorded as well, each into `DIR-PID` |
/// | `when request if us > 5000 then snapshot` | adds a [trigger](crate::Session::trigger), which begins with `when` |
/// | `overwrite`, `memory 64M`, `sub-buffer 1M`, `rings DIR`, `output DIR`, `context vtid,cpu`, `clock ordered`, `sensitive`, `session NAME`, `snapshot on SIGUSR2`, `snapshot on panic`, `rotate 256M`, `rotate 10min`, `quota 10G` | options of the session, separated by `;` from rules and from each other |
/// | `modules` | probe modules may be [loaded from outside](crate::Module::allow_from_outside); by itself, it records nothing |
/// | `@FILE`, `@FILE; overwrite` | rules and options from a file, in its place among others: one part a line, `#` begins a comment |
///
/// It may be called any number of times and from anywhere; only the first call does something, and in a child after fork(2) the
/// first call there, if it has one thread: it makes the child a process of its own. It never fails the program:
/// where tracing is not possible it says why on stderr, once, and tracing stays off. What was recorded is complete when the
/// process ends by returning from `main` or by `exit`. A setuid program ignores the variable.
///
/// ```
/// trace_runtime::init();
/// ```
pub fn init() {
    begin_once(false);
    follow::rouse();
    if LACKS_THREADS.swap(false, Ordering::Relaxed) {
        start_threads();
    }
}

/// The same as [`init`], without starting a thread: for programs that have to have one thread for a while, as before
/// `unshare(CLONE_NEWUSER)` or `setns`.
///
/// What `RINGTRACE` asks for is recorded from now on, into rings of which all memory is made present before this returns. Nobody
/// consumes them, the program cannot be controlled, and rules with a time or a rate are not looked after, until the program calls
/// [`init`] or starts a session; at the end of the process all is delivered.
///
/// ```
/// trace_runtime::init_without_threads();
/// // unshare(CLONE_NEWUSER | CLONE_NEWPID), …
/// trace_runtime::init();
/// ```
pub fn init_without_threads() {
    begin_once(true);
}

/// What [`init_without_threads`] left to be done.
static LACKS_THREADS: AtomicBool = AtomicBool::new(false);

fn start_threads() {
    let _ = agent::start(report_agent, Vec::new());
    if !crate::attach::sessions().is_empty() {
        // Where that fails, it is tried again at the end of the process.
        let _ = crate::consumer::ensure_running();
    }
}

fn begin_once(is_threadless: bool) {
    if follow::is_being_made() {
        return;
    }
    if follow::is_child() {
        follow::renew();
    }
    ONCE.get().call_once(|| {
        follow::own();
        if crate::sys::is_secure_execution() {
            return;
        }
        let wish = environment::read(&value());
        if environment::allows_modules(&value()) {
            crate::Module::allow_from_outside();
        }
        if matches!(wish, Ok(Some(Wish::Off))) {
            return;
        }
        // Without the agent the environment is obeyed all the same.
        HAS_AGENT.store(true, Ordering::Relaxed);
        if is_threadless {
            LACKS_THREADS.store(true, Ordering::Relaxed);
        } else {
            let _ = agent::start(report_agent, Vec::new());
        }
        match wish {
            Ok(Some(Wish::Begin(plan))) => match &plan.awaits {
                None => begin(*plan, is_threadless),
                Some(key) => {
                    report::say(format_args!("RINGTRACE: nothing is recorded until the program registers the key `{key}`"));
                    *lock(WAITING.get()) = Some(value());
                    // Another thread may have done so meanwhile.
                    key_registered();
                }
            },
            Ok(_) => {}
            Err(trouble) => report::say(format_args!("RINGTRACE: {trouble}\n  nothing is recorded")),
        }
    });
}

/// Checks a text for `RINGTRACE` as far as another program can: that its options, rules and triggers can be read.
///
/// # Errors
///
/// What cannot be read, with a pointer into the text.
#[doc(hidden)]
pub fn check_environment(text: &str) -> Result<(), String> {
    match environment::read(text) {
        Ok(Some(Wish::Begin(plan))) => plan.builder.parse().map_err(|error| plan.trouble(&error).to_string()),
        Ok(_) => Ok(()),
        Err(trouble) => Err(trouble.to_string()),
    }
}

fn value() -> String {
    std::env::var_os("RINGTRACE").unwrap_or_default().to_string_lossy().into_owned()
}

/// Begins the session of the environment, if it waited for a key that is registered now.
pub(crate) fn key_registered() {
    if follow::is_child() {
        return;
    }
    let mut waiting = lock(WAITING.get());
    if let Some(plan) = waiting.as_deref().and_then(plan_of).filter(|plan| plan.awaits.is_none()) {
        *waiting = None;
        drop(waiting);
        begin(plan, LACKS_THREADS.load(Ordering::Relaxed));
    }
}

/// The key that the session of the environment waits for.
pub(crate) fn awaits() -> Option<String> {
    lock(WAITING.get()).as_deref().and_then(plan_of)?.awaits
}

fn plan_of(text: &str) -> Option<Plan> {
    match environment::read(text) {
        Ok(Some(Wish::Begin(plan))) => Some(*plan),
        _ => None,
    }
}

/// Leaves [`init`] nothing to do, but to wake a forked child that is followed.
pub(crate) fn take_over() {
    ONCE.get().call_once(|| {});
}

/// Starts the agent in a forked child, where the parent had one; `bound` ends unless somebody takes it over.
pub(crate) fn start_agent_again(bound: Vec<String>) {
    if HAS_AGENT.load(Ordering::Relaxed) {
        let _ = agent::start(report_agent, bound);
    }
}

/// A program that nobody wants to trace is silent, unless somebody keeps it from being traced.
fn report_agent(error: &std::io::Error) {
    if error.kind() == std::io::ErrorKind::PermissionDenied || std::env::var_os("RINGTRACE").is_some() {
        report::say(format_args!("the program cannot be controlled from outside: {error}"));
    }
}

/// Starts the session that the environment asks for.
fn begin(plan: Plan, is_threadless: bool) {
    let builder = plan.builder.clone().announced(!plan.is_printed);
    match if is_threadless { builder.threadless() } else { builder }.begin() {
        // It ends with the process, or when somebody ends it from outside.
        Ok(recording) => {
            crate::state::dump_aside(&recording, None);
            for warning in lock(&recording.warnings).iter() {
                report::say(format_args!("{}", environment::Cut(warning)));
            }
        }
        Err(error) => report::say(format_args!("RINGTRACE: {}\n  nothing is recorded", plan.trouble(&error))),
    }
}

/// Calls [`init`] when the program is loaded, before `main`.
#[cfg(feature = "auto")]
#[used]
// SAFETY: `.init_array` holds functions of this type, which the loader calls once.
#[unsafe(link_section = ".init_array")]
#[expect(unsafe_code, reason = "a constructor")]
static AUTO: extern "C" fn() = {
    extern "C" fn auto() {
        init();
    }
    auto
};

/// Whether the environment says that nothing is to be traced.
pub(crate) fn is_switched_off() -> bool {
    !crate::sys::is_secure_execution() && environment::is_off(&value())
}
