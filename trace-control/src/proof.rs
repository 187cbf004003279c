//! How a peer shows that the kernel lets it look into a process.
//!
//! Processes of one user may look into each other, and so an agent answers its user. But the kernel keeps some processes from
//! their own user: those that are not dumpable, hold capabilities that the other one lacks, have several users, or are of
//! another user namespace (ptrace(2), "Ptrace access mode checking"). Whether it does that cannot be told by looking at the
//! peer, whose privileges may change with each exec(2). So the kernel is asked: a guarded process has a mapping whose name, and
//! content, is a secret.
//!
//! | `kernel.yama.ptrace_scope` | The secret | Where the kernel guards it |
//! | --- | --- | --- |
//! | 0, 1 | the end of the mapping's name, `memfd:ringtrace-proof-SECRET` | `/proc/PID/maps`: PTRACE_MODE_READ |
//! | 2, 3 | its first 16 bytes, in hexadecimal digits | `/proc/PID/mem`: PTRACE_MODE_ATTACH |

use std::fmt::Write as _;
use std::fs::File;
use std::io::{BufRead as _, BufReader, Read as _};
use std::os::unix::fs::FileExt as _;

/// Beginning of the mapping's name.
pub const NAME: &str = "ringtrace-proof-";

/// Bytes of a secret.
pub const BYTES: usize = 16;

/// Most bytes of a process's list of mappings that are looked through.
const LONGEST_LIST: u64 = 64 << 20;

/// Where Yama's scope is read, if there is Yama.
pub const YAMA: &str = "/proc/sys/kernel/yama/ptrace_scope";

/// Whether this scope lets only superusers, or nobody, attach to processes.
pub fn is_restricting(scope: &str) -> bool {
    scope.trim().parse::<u8>().is_ok_and(|scope| scope >= 2)
}

/// Writes a secret as it is sent.
pub fn digits(secret: &[u8]) -> String {
    secret.iter().fold(String::new(), |mut text, byte| {
        let _ = write!(text, "{byte:02x}");
        text
    })
}

/// Returns the secrets of a process, as far as the kernel lets this one find them. A process with two run times has two.
pub fn secrets(pid: u32) -> Vec<String> {
    let Ok(maps) = File::open(format!("/proc/{pid}/maps")) else { return Vec::new() };
    let lines = BufReader::new(maps.take(LONGEST_LIST)).split(b'\n').map_while(Result::ok);
    lines.filter_map(|line| secret(pid, &String::from_utf8_lossy(&line))).collect()
}

/// The secret that a line of the list stands for: `7f0000000000-7f0000001000 rw-s … /memfd:NAME (deleted)`.
fn secret(pid: u32, line: &str) -> Option<String> {
    let (_, name) = line.split_once(&format!("/memfd:{NAME}"))?;
    if !std::fs::read_to_string(YAMA).is_ok_and(|scope| is_restricting(&scope)) {
        return name.split(' ').next().map(str::to_owned);
    }
    let address = u64::from_str_radix(line.split('-').next()?, 16).ok()?;
    let mut secret = [0; BYTES];
    File::open(format!("/proc/{pid}/mem")).ok()?.read_exact_at(&mut secret, address).ok()?;
    Some(digits(&secret))
}
