//! What is compared, and what each figure includes.

/// A tracer in one way of using it.
pub(super) struct Tracer {
    pub(super) name: &'static str,
    /// The feature of `benches/compare` and its program, or [`LTTNG`].
    pub(super) feature: &'static str,
    /// The program's argument.
    pub(super) variant: Option<&'static str>,
    pub(super) includes: &'static str,
}

/// The floor.
pub(super) const CLOCK: &str = "rdtsc";
/// What the others are compared with.
pub(super) const OURS: &str = "ringtrace";
/// In C, and built by itself.
pub(super) const LTTNG: &str = "lttng";

const fn tracer(name: &'static str, feature: &'static str, variant: Option<&'static str>, includes: &'static str) -> Tracer {
    Tracer { name, feature, variant, includes }
}

pub(super) const TRACERS: [Tracer; 17] = [
    tracer(CLOCK, "baseline", None, "the clock, read; no event"),
    tracer(OURS, "ringtrace", None, "rdtsc, thread ID, raw fields; per-CPU ring in a file, overwritten; arrival counted"),
    tracer("ringtrace/bare", "ringtrace", Some("bare"), "the same without the thread ID"),
    tracer(
        "lttng-ust",
        LTTNG,
        Some("vtid"),
        "in C; clock_gettime, thread ID, raw fields; per-CPU shared memory, overwritten (snapshot session); checked with a snapshot, \
         later losses unknown",
    ),
    tracer("lttng-ust/bare", LTTNG, None, "the same without the thread ID"),
    tracer("tracing/no-op", "tracing-no-op", None, "dispatch and the fields as values; no clock, nothing kept; arrival counted"),
    tracer(
        "tracing/fmt",
        "tracing-fmt",
        None,
        "clock_gettime, text formatted; the line is discarded in place of a write; arrival counted",
    ),
    tracer(
        "tracing/non_blocking",
        "tracing-appender",
        None,
        "clock_gettime, text formatted, copied to the heap, queue; a thread discards the lines; bursts below the queue's \
         length; arrival counted",
    ),
    tracer(
        "micromegas/metric",
        "micromegas",
        Some("metric"),
        "rdtsc, the integer, other fields as properties (one formatted); mutex of the process, blocks; arrival counted",
    ),
    tracer("micromegas/log", "micromegas", Some("log"), "rdtsc, text formatted; mutex of the process, blocks; arrival counted"),
    tracer(
        "dial9/memory",
        "dial9",
        None,
        "clock_gettime, packed fields, the thread's batch, handed over each 1 MiB; oldest dropped; own handle; checked with a \
         recorder that writes a file, later losses unknown",
    ),
    tracer("dial9/disk", "dial9", Some("disk"), "the same, with files"),
    tracer(
        "fastrace",
        "fastrace",
        None,
        "rdtsc, each field formatted into a string on the heap; a root span for each 1 000 events, handed to a thread; arrival \
         counted",
    ),
    tracer(
        "tracy",
        "tracy",
        None,
        "a zone (two clock reads) with values and a text copied to the heap; queue without bound, no viewer; arrival not checked",
    ),
    tracer(
        "log/ftlog",
        "ftlog",
        None,
        "clock_gettime, text formatted, copied to the heap, queue without bound; a thread makes the lines and discards them; arrival counted",
    ),
    tracer(
        "inqjet",
        "inqjet",
        None,
        "clock_gettime, raw arguments, ring; a thread formats and discards the lines; bursts that fit its ring of 32 MiB; arrival counted",
    ),
    tracer("log/inqjet", "inqjet", Some("log"), "the same through the macros of `log`: text formatted by the caller"),
];

#[cfg(test)]
mod tests {
    use super::*;
    use crate::workspace::root;

    #[test]
    fn every_row_says_what_it_includes() {
        for Tracer { name, includes, .. } in &TRACERS {
            assert!(includes.len() > 10 && !includes.contains("  "), "{name}: `{includes}`");
            assert_eq!(TRACERS.iter().filter(|t| t.name == *name).count(), 1, "{name}");
        }
    }

    #[test]
    fn every_tracer_has_its_program() {
        let manifest = std::fs::read_to_string(root().join("benches/compare/Cargo.toml")).expect("its manifest");
        for Tracer { name, feature, .. } in TRACERS.iter().filter(|t| t.feature != LTTNG) {
            assert!(manifest.contains(&format!("\n{feature} = [")), "{name}: no feature {feature}");
            assert!(manifest.contains(&format!("required-features = [\"{feature}\"]")), "{name}: no program {feature}");
            assert!(root().join(format!("benches/compare/src/bin/{feature}.rs")).exists(), "{name}: no source");
        }
    }
}
