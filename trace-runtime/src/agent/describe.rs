//! What there is, in the words of the protocol.

use crate::attach::{self, NamedProbe};
use crate::builder::CEILING;
use crate::catalogue;
use crate::keep::NotKept;
use crate::module::Module;
use crate::process;
use crate::rcu::lock;
use crate::recording::Recording;
use crate::ring_buffer::{HeaderKind, Mode};
use crate::rule;
use crate::snapshot::{Covered, Receipt};
use crate::state;
use crate::trigger::{self, Firing, Saved, TriggerState};
use std::time::Duration;
use trace_control::protocol as words;
use trace_registry::format::Type;
use trace_registry::sync::Ordering;

pub(super) fn process() -> words::Process {
    let sessions = attach::sessions();
    let name = process::image_name();
    words::Process {
        pid: name.pid,
        start_time: name.start_time,
        program: process::program(),
        command: command(),
        ringtrace: env!("CARGO_PKG_VERSION").to_owned(),
        directory: std::env::current_dir().unwrap_or_default(),
        tracepoints: attach::sites().len(),
        sessions: sessions.iter().map(|s| s.name.clone()).collect(),
        memory: attach::recordings().iter().map(|s| s.memory).sum(),
        memory_ceiling: CEILING.load(Ordering::Relaxed),
    }
}

/// The command line, as far as it fits into an answer with everything else.
fn command() -> Vec<String> {
    const LONGEST: usize = 64 << 10;
    let mut left = LONGEST;
    let fits = |argument: &String| {
        let fits = argument.len() <= left;
        left -= argument.len().min(left);
        fits
    };
    std::env::args_os().map(|argument| argument.to_string_lossy().into_owned()).take_while(fits).collect()
}

pub(super) fn listing() -> words::Listing {
    let sessions = attach::sessions();
    let describe = |named: &NamedProbe| words::Probe {
        name: named.name.clone(),
        level: named.probe.level.to_string(),
        location: named.probe.location.to_string(),
        records: named.probe.class.is_some(),
        fields: named.probe.class.map_or(&[][..], |class| class.fields).iter().map(field).collect(),
        skipped: named.probe.skipped.iter().map(|f| f.name.to_owned()).collect(),
        sessions: sessions.iter().filter(|s| s.is_recording() && s.wants(named)).map(|s| s.name.clone()).collect(),
        panics: named.probe.panics.load(Ordering::Relaxed),
    };
    // Gates of shared objects are there as long as this is held (CA-1).
    let _control = attach::control();
    let mut tracepoints: Vec<words::Tracepoint> = attach::sites()
        .iter()
        .map(|site| {
            let tracepoint = site.tracepoint;
            let mut probes: Vec<words::Probe> = site.probes.iter().map(|p| describe(p)).collect();
            // The linker's order is any.
            probes.sort_by(|a, b| (&a.name, &a.location).cmp(&(&b.name, &b.location)));
            words::Tracepoint {
                name: tracepoint.name.to_string(),
                // As the compiler prints it, which breaks lines where it likes.
                signature: tracepoint.signature.split_whitespace().collect::<Vec<_>>().join(" ").replace(", )", ")"),
                location: tracepoint.location.to_string(),
                on: site.is_on(),
                reentrant: tracepoint.reentrant,
                unhit: site.is_unhit(),
                probes,
            }
        })
        .collect();
    tracepoints.sort_by(|a, b| a.name.cmp(&b.name));
    let mut state_dumps: Vec<words::StateDump> = catalogue::state_dumps()
        .into_iter()
        .map(|dump| words::StateDump {
            sessions: sessions.iter().filter(|s| s.is_recording() && state::wants(s, &dump)).map(|s| s.name.clone()).collect(),
            name: dump.name,
            location: dump.location,
        })
        .collect();
    state_dumps.sort_by(|a, b| a.name.cmp(&b.name));
    words::Listing { tracepoints, state_dumps }
}

fn field(field: &trace_registry::field::FieldDescriptor) -> words::Field {
    words::Field {
        name: field.name.to_owned(),
        class: Type(&field.class).to_string(),
        unit: field.unit.to_owned(),
        sensitive: field.sensitive,
    }
}

pub(super) fn status(describe: impl Fn(&Recording) -> words::SessionState) -> words::Status {
    let now = rustix::time::clock_gettime(rustix::time::ClockId::Monotonic);
    let now = Duration::new(now.tv_sec.unsigned_abs(), u32::try_from(now.tv_nsec).unwrap_or(0));
    words::Status {
        now_ns: nanoseconds(now),
        process: process(),
        sessions: attach::sessions().iter().map(|s| describe(s)).collect(),
    }
}

pub(super) fn session(session: &Recording) -> words::SessionState {
    let statistics = session.statistics();
    let core = &session.channel.core;
    words::SessionState {
        name: session.name.clone(),
        recording: session.is_recording(),
        bound: false,
        external: session.is_consumed_elsewhere(),
        follow: session.builder.follow,
        rules: session.rules(),
        probes: attach::probes().filter(|p| session.wants(p)).count(),
        state_dumps: catalogue::state_dumps().iter().filter(|dump| state::wants(session, dump)).count(),
        mode: match core.settings().mode {
            Mode::Discard => "discard",
            Mode::Overwrite => "overwrite",
        }
        .to_owned(),
        context: session.channel.context.names().map(str::to_owned).collect(),
        header: match session.channel.header() {
            HeaderKind::Compact => "compact",
            HeaderKind::Large => "large",
        }
        .to_owned(),
        output: session.path.as_deref().map(absolute),
        rings: session.rings_path(),
        age_ns: nanoseconds(session.begun.elapsed()),
        events: statistics.events,
        bytes: statistics.bytes,
        written: statistics.written,
        memory: statistics.memory,
        resident: session.resident(),
        buffers: statistics.buffers,
        lost: statistics.lost.into(),
        cut: statistics.cut,
        filtered: statistics.filtered,
        limited: statistics.limited,
        not_kept: not_kept(statistics.not_kept),
        snapshots: session.saved().map(|saved| words::Snapshots { directory: absolute(&saved.directory), ..saved }),
        triggers: trigger::states(session).into_iter().map(|state| trigger_state(session, state)).collect(),
        warnings: lock(&session.warnings).clone(),
        failure: session.failure().map(|e| e.to_string()),
        plan: plan(session),
    }
}

fn not_kept(not_kept: NotKept) -> words::NotKept {
    let NotKept { events, hurried, late, forgotten } = not_kept;
    words::NotKept { events, hurried, late_keys: late, forgotten_keys: forgotten }
}

/// What would make a session like this one.
fn plan(session: &Recording) -> words::SessionPlan {
    let builder = &session.builder;
    words::SessionPlan {
        session: session.name.clone(),
        rules: session.rules(),
        triggers: trigger::texts(session),
        overwrite: builder.overwrite,
        memory: Some(builder.memory),
        sub_buffer: builder.sub_buffer,
        rings: builder.rings.clone(),
        context: Some(builder.context.names().map(str::to_owned).collect()),
        clock: Some(builder.clock.name().to_owned()),
        format: Some(builder.format.name().to_owned()),
        sensitive: builder.sensitive,
        follow: builder.follow,
        snapshot_on: builder.snapshot_on.iter().map(|occasion| occasion.name()).collect(),
        rotate: builder.rotation.size,
        rotate_ms: builder.rotation.time.map(|time| time.as_millis() as u64),
        quota: builder.rotation.quota,
        output: None,
        bound: false,
        external: session.is_consumed_elsewhere(),
    }
}

/// As it is seen from where the process is now: a program that changed its directory since is told a wrong one.
fn absolute(path: &std::path::Path) -> std::path::PathBuf {
    std::path::absolute(path).unwrap_or_else(|_| path.to_owned())
}

fn nanoseconds(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}

/// A probe module that is, or was, loaded.
pub(super) fn module(module: &Module) -> words::Module {
    words::Module {
        name: module.name().to_owned(),
        version: module.version().to_owned(),
        path: module.path().to_owned(),
        probes: module.probes().to_vec(),
    }
}

/// What a snapshot holds.
pub(super) fn receipt(session: &str, receipt: Receipt) -> words::Receipt {
    let Receipt { path, reason, events, bytes, rings, overwritten, lost, not_kept, keys_gone, state_events, is_state_late } =
        receipt;
    let covered = |c: &Covered| {
        let Covered { cpu, begin_ns, end_ns, events, was_lapped } = *c;
        words::Covered { cpu, begin_ns, end_ns, events, lapped: was_lapped }
    };
    // The program may have another working directory than who reads this.
    let path = std::path::absolute(&path).unwrap_or(path);
    let rings = rings.iter().map(covered).collect();
    words::Receipt {
        session: session.to_owned(),
        path,
        reason,
        events,
        bytes,
        rings,
        overwritten,
        lost,
        not_kept,
        keys_gone,
        state_events,
        state_late: is_state_late,
    }
}

fn trigger_state(session: &Recording, state: TriggerState) -> words::TriggerState {
    let TriggerState { name, trigger, fired, folded, lost, is_exhausted, last } = state;
    let last = last.map(|last| firing(&session.name, last));
    words::TriggerState { name, trigger, fired, folded, lost, exhausted: is_exhausted, last }
}

/// A firing of a trigger of `session`.
pub(super) fn firing(session: &str, firing: Firing) -> words::Firing {
    let describe = |saved: Saved| words::Saved {
        complete: saved.is_complete(),
        receipt: receipt(session, saved.receipt),
        before_ns: saved.before_ns,
        covered_before_ns: saved.covered_before_ns,
        after_ns: saved.after_ns,
        covered_after_ns: saved.covered_after_ns,
        has_moment: saved.has_moment,
    };
    words::Firing {
        session: firing.session,
        trigger: firing.trigger,
        number: firing.number,
        at_ns: firing.at_ns,
        time_ns: firing.time_ns,
        what: firing.what,
        message: firing.message,
        delay_ns: firing.delay_ns,
        lost: firing.lost,
        frozen_ns: firing.frozen_ns,
        saved: firing.saved.map(describe),
        failures: firing.failures,
    }
}

/// Which of the rules of a text name something.
pub(super) fn named(text: &str) -> Vec<words::NamedRule> {
    let rules = rule::split(text).into_iter().map(|span| &text[span]);
    rules.map(|rule| words::NamedRule { rule: rule.to_owned(), names: attach::names_something(rule) }).collect()
}
