//! Numbers, tables and hints for people.

use std::fmt;
use std::fs;
use std::io::{self, Write};
use std::os::unix::fs::MetadataExt as _;
use std::time::Duration;

use comfy_table::{CellAlignment, Table, presets};
use trace_control::place;
use trace_control::terminal::{escaped, printable};

/// Standard output, without the control characters that other processes put into their names and messages: they are replaced in
/// text, and escaped in JSON.
pub(crate) struct Out<W: Write> {
    inner: W,
    is_json: bool,
}

/// Standard output.
pub(crate) type Stdout = Out<io::StdoutLock<'static>>;

/// Returns standard output, for JSON or for text.
pub(crate) fn out(is_json: bool) -> Stdout {
    Out::new(io::stdout().lock(), is_json)
}

/// What another process says, in one line: it begins no line of its own.
pub(crate) fn one_line(text: &str) -> String {
    printable(text).replace(['\n', '\t'], " ")
}

/// Writes a line, and one only.
pub(super) fn line(out: &mut impl Write, what: fmt::Arguments<'_>) -> io::Result<()> {
    writeln!(out, "{}", one_line(&what.to_string()))
}

impl<W: Write> Out<W> {
    pub(crate) fn new(inner: W, is_json: bool) -> Out<W> {
        Out { inner, is_json }
    }

    /// Writes text of this command's own, which may colour the terminal or move its cursor.
    pub(crate) fn write_own(&mut self, text: &str) -> io::Result<()> {
        self.inner.write_all(text.as_bytes())
    }
}

impl<W: Write> Write for Out<W> {
    /// Takes whole characters, as `write!` gives them.
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let text = String::from_utf8_lossy(bytes);
        self.inner.write_all(if self.is_json { escaped(&text) } else { printable(&text) }.as_bytes())?;
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.inner.flush()
    }
}

/// A number of bytes, in units of 1024.
pub(crate) struct Bytes(pub(crate) u64);

impl fmt::Display for Bytes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut value = self.0 as f64;
        for unit in ["B", "KiB", "MiB", "GiB", "TiB"] {
            if value < 1024.0 || unit == "TiB" {
                return match unit {
                    "B" => write!(f, "{} B", self.0),
                    _ => write!(f, "{value:.1} {unit}"),
                };
            }
            value /= 1024.0;
        }
        Ok(())
    }
}

/// Events in a second.
pub(crate) struct Rate(pub(crate) f64);

impl fmt::Display for Rate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            rate if rate >= 1e6 => write!(f, "{:.1} M/s", rate / 1e6),
            rate if rate >= 1e3 => write!(f, "{:.1} k/s", rate / 1e3),
            rate => write!(f, "{rate:.0} /s"),
        }
    }
}

/// A time in nanoseconds.
pub(super) struct Nanoseconds(pub(super) u64);

impl fmt::Display for Nanoseconds {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            ns @ ..1_000 => write!(f, "{ns} ns"),
            ns @ ..1_000_000 => write!(f, "{:.1} us", ns as f64 / 1e3),
            ns @ ..1_000_000_000 => write!(f, "{:.1} ms", ns as f64 / 1e6),
            ns => write!(f, "{:.1} s", ns as f64 / 1e9),
        }
    }
}

/// How long something has lasted.
pub(super) fn age(duration: Duration) -> String {
    let seconds = duration.as_secs();
    match seconds {
        0..=59 => format!("{:.1} s", duration.as_secs_f64()),
        60..=3599 => format!("{} min {} s", seconds / 60, seconds % 60),
        _ => format!("{} h {} min", seconds / 3600, seconds / 60 % 60),
    }
}

/// A table without lines. Columns whose heading begins with `>` are aligned right.
pub(crate) fn table(headings: &[&str], rows: Vec<Vec<String>>) -> String {
    let mut table = Table::new();
    table.load_style(presets::NOTHING).set_header(headings.iter().map(|h| h.trim_start_matches('>')));
    table.add_rows(rows.into_iter().map(|row| row.into_iter().map(|cell| one_line(&cell)).collect::<Vec<_>>()));
    for (column, heading) in table.column_iter_mut().zip(headings) {
        column.set_padding((0, 2));
        if heading.starts_with('>') {
            column.set_cell_alignment(CellAlignment::Right);
        }
    }
    let lines = table.to_string();
    lines.lines().map(|line| format!("{}\n", line.trim_end())).collect()
}

/// The names most like `wanted`.
pub(super) fn near<'a>(wanted: &str, names: impl Iterator<Item = &'a str>) -> Vec<String> {
    match trace_registry::registry::find(&trace_registry::Glob::new(wanted), Vec::from_iter(names).into_iter(), |n| n.to_string())
    {
        trace_registry::registry::Match::NoneByName { near } => near,
        _ => Vec::new(),
    }
}

/// Whether a process of this machine, and of this user, began no longer ago than `youth`, and has not ended.
pub(super) fn has_just_begun(pid: u32, youth: Duration) -> bool {
    let Ok(stat) = fs::read_to_string(format!("/proc/{pid}/stat")) else { return false };
    // proc_pid_stat(5): behind the name the state, and as 20th word the start in clock ticks since boot.
    let words: Vec<&str> = stat.rsplit_once(')').map(|(_, rest)| rest.split_whitespace().take(20).collect()).unwrap_or_default();
    let begun = words.get(19).and_then(|word| word.parse::<u64>().ok());
    let has_ended = matches!(words.first(), Some(&("Z" | "X")));
    let since_boot = rustix::time::clock_gettime(rustix::time::ClockId::Boottime).tv_sec.unsigned_abs();
    begun.is_some_and(|ticks| since_boot.saturating_sub(ticks / rustix::param::clock_ticks_per_second()) <= youth.as_secs())
        && !has_ended
}

/// Whether a file is this user's, to whom all are if that is the superuser.
fn is_own(path: &str) -> bool {
    let user = rustix::process::geteuid();
    user.is_root() || fs::metadata(path).is_ok_and(|m| m.uid() == user.as_raw())
}

/// Why a process of this machine has no agent; `None`: there is no such process.
pub(super) fn why_not_traceable(pid: u32) -> Option<String> {
    let process = format!("/proc/{pid}");
    let program = fs::read_to_string(format!("{process}/comm")).ok()?.trim().to_owned();
    let environment = fs::read(format!("{process}/environ"));
    let environment = match environment {
        Ok(environment) => environment,
        Err(_) if !is_own(&process) => return Some(format!("{program} is another user's")),
        Err(error) => return Some(format!("{program} cannot be looked into: {error}")),
    };
    let value = |name: &str| {
        let prefix = format!("{name}=");
        let of = |entry: &[u8]| Some(String::from_utf8_lossy(entry.strip_prefix(prefix.as_bytes())?).into_owned());
        environment.split(|byte| *byte == 0).find_map(of)
    };
    if value("RINGTRACE").is_some_and(|v| matches!(v.trim(), "off" | "0")) {
        return Some(format!("{program} was started with RINGTRACE=off"));
    }
    let is_agent = |task: fs::DirEntry| fs::read_to_string(task.path().join("comm")).is_ok_and(|n| n.trim() == "ringtrace-agent");
    if fs::read_dir(format!("{process}/task")).ok()?.flatten().any(is_agent) {
        let user = fs::metadata(&process).ok()?.uid();
        let theirs = || place::of_others().into_iter().find(|other| other.user == user);
        let place = match (value("XDG_RUNTIME_DIR"), theirs()) {
            (_, Some(theirs)) => format!("; it is of user {user}: try --dir {}", theirs.path.display()),
            (Some(d), None) => format!("; it has XDG_RUNTIME_DIR={d}: try --dir {d}"),
            (None, None) => String::new(),
        };
        return Some(format!("{program} has an agent, but no directory of it was found{place}"));
    }
    Some(format!("{program} does not call ringtrace::init(), or has no ringtrace in it"))
}

#[cfg(test)]
mod tests {
    use super::*;

    const HOSTILE: &str = "a\x1b]0;x\x07\x1b[2J\u{9b}31m\u{7f}é\r";

    fn written(is_json: bool, write: impl FnOnce(&mut Out<Vec<u8>>) -> io::Result<()>) -> String {
        let mut out = Out::new(Vec::new(), is_json);
        write(&mut out).expect("memory");
        String::from_utf8(out.inner).expect("text")
    }

    #[test]
    fn no_control_character_of_others_reaches_a_terminal() {
        let text = written(false, |out| {
            out.write_own("\x1b[1m")?;
            writeln!(out, "{HOSTILE}\tb")
        });
        let r = char::REPLACEMENT_CHARACTER;
        assert_eq!(text, format!("\x1b[1ma{r}]0;x{r}{r}[2J{r}31m{r}é{r}\tb\n"));
        let json = written(true, |out| writeln!(out, "{}", serde_json::json!({ "name": HOSTILE })));
        assert!(!json.trim_end().contains(char::is_control), "{json:?}");
        assert_eq!(serde_json::from_str::<serde_json::Value>(&json).expect("JSON")["name"], HOSTILE);
    }

    #[test]
    fn a_cell_is_one_line() {
        let text = table(&["A", "B"], vec![vec!["x\nforged".into(), "1".into()], vec!["\x1b[31m".into(), "2".into()]]);
        assert_eq!(text.lines().count(), 3, "{text}");
        assert!(!text.contains('\x1b'), "{text}");
    }
}
