//! What the program declares: its tracepoints and probes, collected by the linker.

use crate::name::{Glob, distance, has_suffix};
use crate::probe::ProbeDescriptor;
use crate::state_dump::StateDumpDescriptor;
use crate::sys;
use crate::tracepoint::TracepointDescriptor;
use alloc::collections::BTreeSet;
use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec::Vec;

// The names carry the version: two versions of this crate in one program have sections of their own. `cargo xtask tidy` holds
// them to the workspace's version.

/// Every tracepoint of the program, or of the shared object that this code is linked into.
#[linkme::distributed_slice]
pub static RINGTRACE_TRACEPOINTS_0_1_0: [TracepointDescriptor];

/// Every probe.
#[linkme::distributed_slice]
pub static RINGTRACE_PROBES_0_1_0: [ProbeDescriptor];

/// Every state dump.
#[linkme::distributed_slice]
pub static RINGTRACE_STATE_DUMPS_0_1_0: [StateDumpDescriptor];

/// Returns every state dump, in the linker's order.
pub fn state_dumps() -> &'static [StateDumpDescriptor] {
    &RINGTRACE_STATE_DUMPS_0_1_0
}

/// Returns every tracepoint, in the linker's order.
pub fn tracepoints() -> &'static [TracepointDescriptor] {
    &RINGTRACE_TRACEPOINTS_0_1_0
}

/// Returns every probe, in the linker's order; those of traced functions and ad-hoc events last. On other systems than x86-64 and
/// aarch64 Linux the latter are those that were hit until now.
pub fn probes() -> impl Iterator<Item = &'static ProbeDescriptor> + Clone {
    RINGTRACE_PROBES_0_1_0.iter().chain(inferred())
}

/// The probes of [sites](crate::site).
fn inferred() -> Vec<&'static ProbeDescriptor> {
    let mut known = BTreeSet::new();
    let identity = |p: &ProbeDescriptor| (core::ptr::from_ref((p.tracepoint)()).addr(), (p.function)().addr());
    // The compiler may have copied the code of an emitter.
    sys::collected().filter(|probe| known.insert(identity(probe))).collect()
}

/// Two probes that go by one name.
pub struct Duplicate {
    /// The name.
    pub name: String,
    /// The probe that keeps it in rules and traces.
    pub first: &'static ProbeDescriptor,
    /// The other one.
    pub second: &'static ProbeDescriptor,
}

/// Returns each pair of probes of one name: rules cannot tell them apart.
pub fn duplicates() -> Vec<Duplicate> {
    let mut named: Vec<_> = probes().map(|p| (p.name().to_string(), p)).collect();
    named.sort_by(|(a, p), (b, q)| (a, p.location.file, p.location.line).cmp(&(b, q.location.file, q.location.line)));
    named
        .windows(2)
        .filter(|pair| pair[0].0 == pair[1].0)
        .map(|pair| Duplicate { name: pair[0].0.clone(), first: pair[0].1, second: pair[1].1 })
        .collect()
}

/// What a pattern stands for among some names.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Match<T> {
    /// These, at least one.
    Some(Vec<T>),
    /// A glob that matches nothing.
    NoneByGlob,
    /// An exact name that nothing has; the nearest names.
    NoneByName {
        /// At most three, the nearest first.
        near: Vec<String>,
    },
    /// A suffix of more than one name.
    Ambiguous {
        /// The names, sorted.
        candidates: Vec<String>,
    },
}

/// Looks `pattern` up among `items`: as a glob, which stands for the events of a function or span too, as an exact name, or as the
/// last part of exactly one name.
///
/// ```
/// use trace_registry::{Glob, registry::{Match, find}};
/// let names = ["storage:cache::evict", "storage:open", "net:open"];
/// let look = |p| find(&Glob::new(p), names.iter().copied(), |n| n.to_string());
/// assert_eq!(look("storage:*"), Match::Some(vec!["storage:cache::evict", "storage:open"]));
/// assert_eq!(look("evict"), Match::Some(vec!["storage:cache::evict"]));
/// assert!(matches!(look("open"), Match::Ambiguous { .. }));
/// assert_eq!(look("storage:opne"), Match::NoneByName { near: vec!["storage:open".to_string()] });
/// ```
pub fn find<T>(pattern: &Glob, items: impl Iterator<Item = T> + Clone, name: impl Fn(&T) -> String) -> Match<T> {
    let named = |test: &dyn Fn(&str) -> bool| items.clone().filter(|i| test(&name(i))).collect::<Vec<T>>();
    if !pattern.is_exact() {
        let found = named(&|n| pattern.names(n));
        return if found.is_empty() { Match::NoneByGlob } else { Match::Some(found) };
    }
    let exact = named(&|n| n == pattern.as_str());
    if !exact.is_empty() {
        return Match::Some(exact);
    }
    let by_suffix = named(&|n| has_suffix(n, pattern.as_str()));
    let mut candidates: Vec<String> = by_suffix.iter().map(&name).collect();
    candidates.sort();
    candidates.dedup();
    match candidates.len() {
        0 => Match::NoneByName { near: near(pattern.as_str(), items.map(|i| name(&i))) },
        1 => Match::Some(by_suffix),
        _ => Match::Ambiguous { candidates },
    }
}

/// Names for a message: some, and how many there are besides.
pub fn some_of(names: &[String]) -> String {
    const SHOWN: usize = 10;
    match names.get(..SHOWN) {
        Some(first) if names.len() > SHOWN => format!("{} and {} more", first.join(", "), names.len() - SHOWN),
        _ => names.join(", "),
    }
}

/// Returns the names most like `wanted`, at most three, the nearest first: by the whole name, or by its last part where only
/// that was given.
pub fn near(wanted: &str, names: impl Iterator<Item = String>) -> Vec<String> {
    let most = 1 + wanted.len() / 3;
    let mut found: Vec<(usize, String)> = names
        .map(|n| {
            let last = if wanted.contains(':') { n.as_str() } else { n.rsplit(':').next().unwrap_or(&n) };
            (distance(wanted, last, most), n)
        })
        .filter(|(d, _)| *d <= most)
        .collect();
    found.sort();
    found.dedup();
    found.into_iter().map(|(_, n)| n).take(3).collect()
}
