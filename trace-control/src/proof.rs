//! How a peer shows that the kernel lets it look into a process.
//!
//! Processes of one user may look into each other, and so an agent answers its user. But the kernel keeps some processes from
//! their own user: those that are not dumpable, hold capabilities that the other one lacks, have several users, or are of
//! another user namespace (ptrace(2), "Ptrace access mode checking"), and all from whoever is in a sandbox. Whether it does that
//! cannot be told by looking at the peer, whose privileges may change with each exec(2). So the kernel is asked, always: a process
//! has a mapping whose name, and content, is a secret.
//!
//! A secret is shown only to the process that has it: whoever passes on to a peer what another process wants to know would be
//! taken for that peer otherwise. Who listened says nothing: it may be another program by now. So the process that sent the
//! refusal (SCM_CREDENTIALS) is [opened](Opened) first, and then asked once more, under a number that nobody could know before. If
//! it refuses again, what was opened is the program that is at the other end.
//!
//! | `kernel.yama.ptrace_scope` | The secret | Where the kernel guards it |
//! | --- | --- | --- |
//! | 0, 1 | the end of the mapping's name, `memfd:ringtrace-proof-SECRET` | `/proc/PID/maps`: PTRACE_MODE_READ |
//! | 2, 3 | its first 16 bytes, in hexadecimal digits | `/proc/PID/mem`: PTRACE_MODE_ATTACH |

use std::fmt::Write as _;
use std::fs::File;
use std::io::{self, BufRead as _, BufReader, Read as _};
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

/// Most secrets of a process that are tried. One with two run times has two.
const MOST: usize = 4;

/// A process that the kernel lets this one look into. It is the program that ran when it was opened: what the process becomes by
/// exec(2) later, or another process of its number, cannot be seen by it.
#[derive(Debug)]
pub struct Opened {
    maps: File,
    /// Where the secrets are in memory.
    mem: Option<File>,
}

impl Opened {
    /// Opens a process.
    ///
    /// # Errors
    ///
    /// It has ended, or the kernel guards it.
    pub fn process(pid: u32) -> io::Result<Opened> {
        let open = |name| File::open(format!("/proc/{pid}/{name}"));
        let is_in_memory = std::fs::read_to_string(YAMA).is_ok_and(|scope| is_restricting(&scope));
        Ok(Opened { maps: open("maps")?, mem: is_in_memory.then(|| open("mem")).transpose()? })
    }

    /// Returns its secrets, at most four.
    pub fn secrets(&self) -> Vec<String> {
        let lines = BufReader::new((&self.maps).take(LONGEST_LIST)).split(b'\n').map_while(Result::ok);
        lines.filter_map(|line| self.secret(&String::from_utf8_lossy(&line))).take(MOST).collect()
    }

    /// The secret that a line of the list stands for: `7f0000000000-7f0000001000 rw-s … /memfd:NAME (deleted)`.
    fn secret(&self, line: &str) -> Option<String> {
        let (_, name) = line.split_once(&format!("/memfd:{NAME}"))?;
        let Some(mem) = &self.mem else { return name.split(' ').next().map(str::to_owned) };
        let address = u64::from_str_radix(line.split('-').next()?, 16).ok()?;
        let mut secret = [0; BYTES];
        mem.read_exact_at(&mut secret, address).ok()?;
        Some(digits(&secret))
    }
}
