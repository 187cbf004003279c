//! What belongs to this process image: its generation, its identity, the read side's counters.
//!
//! # Invariants
//!
//! - PR-1: The generation is not 0 in a process whose tracer was initialised, and 0 in every child that was forked from it
//!   (MADV_WIPEONFORK), however it was forked. A child made by vfork(2) or CLONE_VM shares it, and must not trace.
//! - PR-2: The counters of the read side lie in the same mapping, so a child starts with none.
#![expect(unsafe_code, reason = "maps the page that is wiped on fork")]

use crate::clock::Clock;
use crate::error::{Error, Kind, Result};
use crate::follow;
use crate::per_image::PerImage;
use crate::sys;
use crate::threads::{self, Name};
use std::path::Path;
use std::sync::OnceLock;
use trace_control::place::ImageName;
use trace_registry::read_side::{self, CpuCounters, Header};
use trace_registry::sync::{AtomicBool, AtomicU64, Ordering};

/// State of the process image.
pub(crate) struct Process {
    generation: &'static AtomicU64,
    pub(crate) pid: u32,
    /// Clock ticks from boot to the start of the process: with the PID, what identifies it.
    pub(crate) start_time: u64,
    pub(crate) boot_id: [u8; 16],
    pub(crate) host: String,
    pub(crate) program: String,
    /// The same, as records have it.
    pub(crate) name: Name,
    /// CPUs that the process may run on, ascending.
    pub(crate) cpus: Vec<u32>,
    /// CPU numbers are below this.
    pub(crate) cpu_limit: u32,
    pub(crate) clock: &'static Clock,
}

/// Blocks whoever comes while it is made: two read sides must not be.
static PROCESS: PerImage<OnceLock<std::result::Result<Process, &'static str>>> = PerImage::new(OnceLock::new);

/// Whether the state was made, here or in the parent.
static IS_ON: AtomicBool = AtomicBool::new(false);

/// Returns the process's state, made at the first call.
///
/// # Errors
///
/// [`Error::is_off`] in a forked child, and where the kernel lacks what tracing needs.
pub(crate) fn current() -> Result<&'static Process> {
    // Asked until tracing has begun, and in no child: getenv(3) has a lock.
    if !IS_ON.load(Ordering::Relaxed) && crate::init::is_switched_off() {
        return Err(Kind::Off("the environment variable RINGTRACE says so").into());
    }
    if trace_registry::closure::is_hosted() {
        return Err(Kind::Off("it has a run time of its own, which traces this shared object too").into());
    }
    if follow::is_child() {
        return Err(Kind::Off("it was forked from one that traces; call `ringtrace::init` in it, or let a session follow").into());
    }
    match PROCESS.get().get_or_init(Process::new) {
        Ok(process) => {
            IS_ON.store(true, Ordering::Relaxed);
            Ok(process)
        }
        Err(why) => Err(Kind::Off(why).into()),
    }
}

/// Returns the state if it was made, in the parent or here. Async-signal-safe.
pub(crate) fn get() -> Option<&'static Process> {
    PROCESS.peek()?.get()?.as_ref().ok()
}

/// Leaves the parent's state behind, and this thread's number; for a forked child.
pub(crate) fn renew() {
    PROCESS.renew();
    NAME.renew();
    sys::forget_membarrier();
    sys::register_membarrier();
    trace_registry::sys::with_thread(|thread| {
        // Relaxed: this thread's own words.
        thread.tid.store(0, Ordering::Relaxed);
        thread.named.store(0, Ordering::Relaxed);
        thread.set_fresh();
    });
}

impl Process {
    fn new() -> std::result::Result<Process, &'static str> {
        follow::own();
        let cpu_limit = possible_cpus();
        let counters = cpu_limit as usize * size_of::<CpuCounters>();
        let start = sys::memory::map_wiped_on_fork(size_of::<Header>() + counters).map_err(|error| match error.kind() {
            std::io::ErrorKind::InvalidInput => "the kernel has no MADV_WIPEONFORK (Linux 4.14)",
            std::io::ErrorKind::OutOfMemory => "there is no memory for its counters (RLIMIT_AS?)",
            _ => "the kernel forbids memory of its own (mmap, madvise; seccomp?)",
        })?;
        let header = start.cast::<Header>();
        // SAFETY: the mapping is page-aligned, zeroed, long enough and never unmapped.
        let generation: &'static AtomicU64 = unsafe { &header.as_ref().generation };
        generation.store(1, Ordering::Relaxed);
        trace_registry::site::set_clock(|| Clock::process().now_ns());
        sys::init_sequences();
        let sequenced = if sys::has_membarrier() && trace_registry::sys::cpu_id() != u32::MAX { cpu_limit } else { 0 };
        // SAFETY: PR-2: behind the header lie `cpu_limit` zeroed entries, for ever; `sequenced` is not 0 only where this
        // process is registered for membarrier, which `rcu.rs` then uses.
        // `PROCESS` runs this once in a process image.
        unsafe { read_side::install(header.as_ptr(), cpu_limit, sequenced) };
        Ok(Process {
            generation,
            pid: image_name().pid,
            start_time: image_name().start_time,
            boot_id: boot_id().unwrap_or_default(),
            host: rustix::system::uname().nodename().to_string_lossy().into_owned(),
            name: threads::fitting(&program()),
            program: program(),
            cpus: sys::allowed_cpus(cpu_limit),
            cpu_limit,
            clock: Clock::process(),
        })
    }

    /// Returns the generation: 1, or 0 in a forked child.
    #[inline(always)]
    pub(crate) fn generation(&self) -> u64 {
        // Relaxed: the page is written once before any list is published, and wiped before a child runs.
        self.generation.load(Ordering::Relaxed)
    }

    pub(crate) fn is_alive(&self) -> bool {
        self.generation() != 0
    }
}

/// Lets readers count by rseq, where the process was registered for membarrier(2) only after the counters were installed.
pub(crate) fn use_sequences() {
    if let Some(process) = get().filter(|_| sys::has_membarrier() && trace_registry::sys::cpu_id() != u32::MAX) {
        // SAFETY: registered, and `rcu.rs` uses it.
        unsafe { read_side::set_sequenced(process.cpu_limit) };
    }
}

/// What tells this process image, and this copy of the run time, from others.
pub(crate) fn image_name() -> ImageName {
    *NAME.get()
}

static NAME: PerImage<ImageName> = PerImage::new(|| ImageName {
    pid: std::process::id(),
    start_time: start_time().unwrap_or(0),
    id: u32::from_le_bytes(sys::random()),
});

/// The program's name as a session can have it.
pub(crate) fn session_name() -> String {
    let good = |c: char| if c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.') { c } else { '_' };
    let name: String = program().chars().take(64).map(good).collect();
    match name.strip_prefix('.') {
        Some(rest) => format!("_{rest}"),
        None => name,
    }
}

/// Returns this thread's ID as the kernel knows it.
///
/// # Signal safety
///
/// Async-signal-safe; one system call at most in a thread's life.
pub(crate) fn thread_id() -> u32 {
    let tid = trace_registry::sys::with_thread(|thread| {
        // Relaxed: this thread's own word. A forked child forgets the parent's number before it records anything (`renew`).
        let mut tid = thread.tid.load(Ordering::Relaxed);
        if tid == 0 {
            tid = sys::gettid();
            thread.tid.store(tid, Ordering::Relaxed);
        }
        tid
    });
    tid.unwrap_or(0)
}

/// The CPU numbers that can ever appear are below this.
fn possible_cpus() -> u32 {
    let listed = sys::read_kernel_file("/sys/devices/system/cpu/possible").ok();
    // "0-7", "0", "0,2-5": the last number.
    let last = listed.as_deref().and_then(|l| l.trim().rsplit([',', '-']).next()).and_then(|n| n.parse::<u32>().ok());
    last.map_or(1024, |n| n.saturating_add(1)).min(1 << 16)
}

fn start_time() -> Option<u64> {
    let stat = sys::read_kernel_file("/proc/self/stat").ok()?;
    // proc_pid_stat(5): the name in parentheses may hold anything; `starttime` is field 22, the 20th behind it.
    stat.rsplit_once(')')?.1.split_whitespace().nth(19)?.parse().ok()
}

pub(crate) fn boot_id() -> Option<[u8; 16]> {
    let text = sys::read_kernel_file("/proc/sys/kernel/random/boot_id").ok()?;
    let digits: Vec<u8> = text.trim().bytes().filter(|b| *b != b'-').collect();
    let mut id = [0; 16];
    for (byte, pair) in id.iter_mut().zip(digits.chunks_exact(2)) {
        *byte = u8::from_str_radix(std::str::from_utf8(pair).ok()?, 16).ok()?;
    }
    (digits.len() == 32).then_some(id)
}

pub(crate) fn program() -> String {
    let first = std::env::args_os().next();
    let name = first.as_deref().map(Path::new).and_then(Path::file_name).map(|n| n.to_string_lossy().into_owned());
    name.filter(|n| !n.is_empty()).unwrap_or_else(|| "unknown".to_owned())
}

/// Returns an error unless the calling thread may wait for probes to end.
pub(crate) fn may_wait(what: &'static str) -> Result<()> {
    let nested = trace_registry::sys::depth() != 0;
    // The consumer's thread would wait for itself.
    if nested || crate::consumer::is_this_thread() { Err(Error::from(Kind::InsideProbe(what))) } else { Ok(()) }
}
