//! What the tests of this directory share: reading a trace with both readers, and comparing them.
#![allow(dead_code, unreachable_pub, reason = "each test binary uses a part")]

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;
use trace_ctf::reader::{Entry, LossKind, Trace, Value};
use trace_ctf::text::Formatter;

/// Where workspaces of their own are built, so that what they share is built once.
pub fn nested_target() -> PathBuf {
    Path::new(env!("CARGO_TARGET_TMPDIR")).with_file_name("nested")
}

/// What a trace holds.
#[derive(Debug, Default)]
pub struct Contents {
    /// Lines as `ringtrace view --utc --babeltrace` shows them.
    pub lines: Vec<String>,
    /// Events by name.
    pub counts: BTreeMap<String, u64>,
    /// Events discarded, in all streams.
    pub discarded: u64,
    /// Payload of each event as `name`, `field = value`…, without time and context.
    pub payloads: Vec<(String, Vec<(String, String)>)>,
}

impl Contents {
    /// Events of any class.
    pub fn events(&self) -> u64 {
        self.counts.values().sum()
    }

    /// Values of one field, of the events that have it, in the order of time.
    pub fn values(&self, event: &str, field: &str) -> Vec<String> {
        let of = |fields: &Vec<(String, String)>| fields.iter().find(|(n, _)| n == field).map(|(_, v)| v.clone());
        self.payloads.iter().filter(|(name, _)| name == event).filter_map(|(_, fields)| of(fields)).collect()
    }

    /// The numbers of one field.
    pub fn numbers(&self, event: &str, field: &str) -> Vec<u64> {
        self.values(event, field).iter().map(|v| v.parse().expect("a number")).collect()
    }
}

/// Reads a trace with our reader alone.
pub fn read(directory: &Path) -> Contents {
    let trace = Trace::open(directory).unwrap_or_else(|e| panic!("{}: {e}", directory.display()));
    assert!(trace.damage().is_empty(), "{:?}", trace.damage());
    let mut formatter = Formatter::utc();
    let mut contents = Contents::default();
    let mut merge = trace.merge();
    while let Some(entry) = merge.next_entry() {
        match entry.unwrap_or_else(|e| panic!("{}: {e}", directory.display())) {
            Entry::Event(event) => {
                let mut line = Vec::new();
                formatter.event(&event, &mut line);
                contents.lines.push(String::from_utf8_lossy(&line).trim_end().to_owned());
                *contents.counts.entry(event.name().to_owned()).or_default() += 1;
                contents.payloads.push((event.name().to_owned(), fields(&event.payload())));
            }
            Entry::Loss(loss) => match loss.kind {
                LossKind::DiscardedEvents => contents.discarded += loss.count.expect("every stream begins with an empty packet"),
                _ => panic!("packets are missing: {loss:?}"),
            },
        }
    }
    contents
}

fn fields(payload: &Value<'_>) -> Vec<(String, String)> {
    match payload {
        Value::Structure(members) => members.iter().map(|(name, value)| (name.to_string(), shown(value))).collect(),
        _ => Vec::new(),
    }
}

fn shown(value: &Value<'_>) -> String {
    value.as_str().map(str::to_owned).or_else(|| value.as_u64().map(|n| n.to_string())).unwrap_or_else(|| format!("{value:?}"))
}

/// Reads a trace with both readers, and asserts that they say the same: each event with its time, context and fields, and the
/// number of discarded events. babeltrace2 must have no other complaint.
pub fn read_by_both(directory: &Path) -> Contents {
    let ours = read(directory);
    let output = Command::new("babeltrace2").args(["--clock-gmt"]).arg(directory).output();
    let output = output.expect("babeltrace2 is needed: apt-get install babeltrace2");
    let (theirs, messages) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    for (number, (ours, theirs)) in ours.lines.iter().zip(theirs.lines()).enumerate() {
        assert_eq!(ours, theirs, "line {number} of {}", directory.display());
    }
    assert_eq!(ours.lines.len(), theirs.lines().count(), "{}: {messages}", directory.display());
    let mut discarded = 0;
    for message in messages.lines().filter(|l| !l.is_empty()) {
        let count = message.split_once("Tracer discarded ").and_then(|(_, rest)| rest.split(' ').next()?.parse::<u64>().ok());
        discarded += count.unwrap_or_else(|| panic!("babeltrace2 complains: {message}"));
    }
    assert_eq!(ours.discarded, discarded, "{messages}");
    ours
}

/// Runs this test binary again, as the test `name` with `RINGTRACE_TEST_CHILD` set, so that it may crash, exit or change
/// what belongs to the whole process.
pub fn child(name: &str) -> Command {
    let mut command = Command::new(std::env::current_exe().expect("the test binary has a path"));
    command.args([name, "--exact", "--nocapture", "--test-threads=1"]).env("RINGTRACE_TEST_CHILD", name);
    command
}

/// Whether this process is such a child.
pub fn is_child(name: &str) -> bool {
    std::env::var_os("RINGTRACE_TEST_CHILD").is_some_and(|v| v == name)
}

/// Keeps other tests of the same binary out: they fire the same tracepoints, and count.
pub fn alone() -> std::sync::MutexGuard<'static, ()> {
    static ALONE: std::sync::Mutex<()> = std::sync::Mutex::new(());
    ALONE.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
}

/// Lets the calling thread run before the consumer's: both on one CPU, where the consumer has what others leave. What is fired then
/// in one go finds small rings full, however fast the machine is.
#[expect(unsafe_code, reason = "scheduling of threads")]
pub fn outrun_the_consumer() {
    let mut outrun = 0;
    for task in std::fs::read_dir("/proc/self/task").expect("threads are listed").flatten() {
        let name = std::fs::read_to_string(task.path().join("comm")).unwrap_or_default();
        if name.trim_end() == "ringtrace" {
            let thread = task.file_name().to_str().and_then(|id| id.parse().ok()).expect("a thread's ID");
            // SAFETY: both are plain data, zeroes are valid; the calls concern these threads of this process alone.
            unsafe {
                let mut here: libc::cpu_set_t = std::mem::zeroed();
                libc::CPU_SET(libc::sched_getcpu() as usize, &mut here);
                [0, thread]
                    .into_iter()
                    .for_each(|t| assert_eq!(libc::sched_setaffinity(t, size_of_val(&here), &raw const here), 0));
                let parameters: libc::sched_param = std::mem::zeroed();
                // The system call: musl's function refuses.
                let done = libc::syscall(libc::SYS_sched_setscheduler, thread, libc::SCHED_IDLE, &raw const parameters);
                assert_eq!(done, 0);
            }
            outrun += 1;
        }
    }
    assert!(outrun > 0, "no thread is the consumer's");
}

/// Sets a flag when it goes, also when a test fails: threads that wait for the flag end then.
pub struct SetOnDrop<'a>(pub &'a std::sync::atomic::AtomicBool);

impl Drop for SetOnDrop<'_> {
    fn drop(&mut self) {
        self.0.store(true, std::sync::atomic::Ordering::Relaxed);
    }
}
