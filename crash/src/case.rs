//! What is varied from ending to ending: the means of death, and what the program is like.

use std::fmt;

/// How a program is ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Means {
    Panic,
    Exit,
    Abort,
    Segfault,
    StackOverflow,
    UnderscoreExit,
    Sigterm,
    Sigkill,
    /// By the kernel, as its memory cgroup is full; where there are none, by an allocation that fails.
    OutOfMemory,
    /// SIGKILL while a packet is written.
    InWrite,
    /// The trace's file system is full; then SIGKILL.
    DiskFull,
    /// The trace's files may not grow (RLIMIT_FSIZE); then SIGKILL.
    FileLimit,
    /// SIGKILL while the program starts.
    AtStart,
}

impl Means {
    pub(crate) const ALL: [Means; 13] = [
        Means::Panic,
        Means::Exit,
        Means::Abort,
        Means::Segfault,
        Means::StackOverflow,
        Means::UnderscoreExit,
        Means::Sigterm,
        Means::Sigkill,
        Means::OutOfMemory,
        Means::InWrite,
        Means::DiskFull,
        Means::FileLimit,
        Means::AtStart,
    ];

    pub(crate) fn name(self) -> &'static str {
        match self {
            Means::Panic => "panic",
            Means::Exit => "exit",
            Means::Abort => "abort",
            Means::Segfault => "SIGSEGV",
            Means::StackOverflow => "stack overflow",
            Means::UnderscoreExit => "_exit",
            Means::Sigterm => "SIGTERM",
            Means::Sigkill => "SIGKILL",
            Means::OutOfMemory => "out of memory",
            Means::InWrite => "SIGKILL in a write",
            Means::DiskFull => "disk full, SIGKILL",
            Means::FileLimit => "file limit, SIGKILL",
            Means::AtStart => "SIGKILL at start",
        }
    }

    /// Whether the program ends itself.
    pub(crate) fn is_own(self) -> bool {
        use Means::{Abort, Exit, OutOfMemory, Panic, Segfault, StackOverflow, UnderscoreExit};
        matches!(self, Panic | Exit | Abort | Segfault | StackOverflow | UnderscoreExit | OutOfMemory)
    }
}

impl fmt::Display for Means {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

/// Who writes the traces.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Consumer {
    /// The program itself.
    Own,
    /// `ringtrace record --external` writes that of a third session, and outlives the program.
    External,
    /// The same, and it is killed with the program.
    ExternalKilled,
}

/// One ending, as its number decides it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Case {
    pub(crate) number: u64,
    pub(crate) means: Means,
    pub(crate) consumer: Consumer,
    /// Events go to the fallback region.
    pub(crate) fallback: bool,
    /// More than 31 classes.
    pub(crate) large: bool,
    /// Names of threads in the trace, and more context.
    pub(crate) named: bool,
    /// At full speed; else with pauses.
    pub(crate) flood: bool,
    /// Memory of a session, in bytes.
    pub(crate) memory: u64,
    /// The moment: µs after the threads began, or after the start of the program.
    pub(crate) moment_us: u64,
}

impl Case {
    /// `means`: this one; else in turns.
    pub(crate) fn new(seed: u64, number: u64, means: Option<Means>) -> Case {
        let mut random = Random(seed ^ number.wrapping_mul(0x9e37_79b9_7f4a_7c15));
        let means = means.unwrap_or(Means::ALL[(number % Means::ALL.len() as u64) as usize]);
        let consumer = match (means, random.below(12)) {
            (Means::AtStart | Means::DiskFull | Means::FileLimit, _) => Consumer::Own,
            (_, 0) => Consumer::External,
            (_, 1) => Consumer::ExternalKilled,
            _ => Consumer::Own,
        };
        let fallback = random.below(4) == 0;
        Case {
            number,
            means,
            consumer,
            // A write that is long enough to be met.
            memory: if means == Means::InWrite { 8 << 20 } else { (1 << 19) << random.below(3) },
            fallback: fallback && means != Means::InWrite,
            large: random.below(3) == 0,
            named: random.below(2) == 0,
            flood: means == Means::InWrite || random.below(2) == 0,
            moment_us: random.below(20_000),
        }
    }

    /// As the program is given it.
    pub(crate) fn flags(&self) -> String {
        let all = [
            ("fallback", self.fallback),
            ("large", self.large),
            ("named", self.named),
            ("flood", self.flood),
            ("external", self.consumer != Consumer::Own),
        ];
        all.iter().filter(|(_, is)| *is).map(|(name, _)| *name).collect::<Vec<_>>().join(",")
    }
}

impl fmt::Display for Case {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Case { number, means, consumer, memory, moment_us, .. } = self;
        write!(f, "ending {number}: {means}, {consumer:?}, {} KiB, {moment_us} us, {}", memory >> 10, self.flags())
    }
}

/// xorshift64*: numbers that look random, the same for the same seed.
pub(crate) struct Random(pub(crate) u64);

impl Random {
    pub(crate) fn below(&mut self, limit: u64) -> u64 {
        self.0 |= 1 << 63;
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        (self.0.wrapping_mul(0x2545_f491_4f6c_dd1d) >> 33) % limit
    }
}
