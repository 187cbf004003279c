//! Why an event is recorded or not, and whether anything is wrong with tracing in this process.

use crate::attach::{self, NamedProbe};
use crate::catalogue::{self, NamedDump};
use crate::init;
use crate::module::Module;
use crate::process;
use crate::rcu::lock;
use crate::recording::Recording;
use crate::rule::Rule;
use crate::state;
use std::fmt::Write as _;
use trace_control::protocol::{Diagnosis, Finding, Hits, Verdict};
use trace_registry::condition::{FILTERED, LIMITED};
use trace_registry::registry::{self, Match};
use trace_registry::sync::Ordering;
use trace_registry::{Glob, functions_of};

/// So many tracepoints without a probe are named.
const NAMED: usize = 20;

#[derive(Default)]
struct Findings(Vec<Finding>);

impl Findings {
    /// Adds a finding. One that says what another said of the same thing is that one.
    fn add(&mut self, verdict: Verdict, about: &str, says: impl Into<String>, remedy: impl Into<String>) {
        let (says, remedy) = (says.into(), remedy.into());
        if !self.0.iter().any(|known| known.about == about && known.says == says) {
            self.0.push(Finding { about: about.to_owned(), verdict, says, remedy });
        }
    }

    fn good(&mut self, about: &str, says: impl Into<String>) {
        self.add(Verdict::Good, about, says, "");
    }
}

/// Examines an event, or those of a traced function. Returns the probes too whose hits are worth counting.
pub(super) fn why(event: &str) -> (Vec<&'static NamedProbe>, Diagnosis) {
    let mut found = Findings::default();
    let probes = examine(event, &mut found);
    let events = probes.iter().map(|probe| probe.name.clone()).collect();
    (probes, Diagnosis { events, findings: found.0 })
}

fn examine(event: &str, found: &mut Findings) -> Vec<&'static NamedProbe> {
    match registry::find(&Glob::new(event), attach::probes(), |p| p.name.clone()) {
        Match::Some(probes) if probes.len() == 1 || Glob::new(event).is_exact() => {
            let probe = probes[0];
            found.good("tracepoint", format!("{} is declared at {}", probe.tracepoint.name, probe.tracepoint.location));
            if of_one(probe, &probe.name, found) { vec![probe] } else { Vec::new() }
        }
        Match::Some(probes) => function(probes, found).unwrap_or_else(|probes| {
            let names: Vec<&str> = probes.iter().map(|p| p.name.as_str()).take(NAMED).collect();
            found.add(Verdict::Bad, "name", format!("`{event}` matches {} events", probes.len()), "ask for one of them");
            names.into_iter().for_each(|name| found.add(Verdict::Note, "name", name, ""));
            Vec::new()
        }),
        Match::Ambiguous { candidates } => {
            let says = format!("`{event}` is the end of more than one name: {}", registry::some_of(&candidates));
            found.add(Verdict::Bad, "name", says, "give the whole name");
            Vec::new()
        }
        Match::NoneByGlob | Match::NoneByName { .. } => function(taken(event), found).unwrap_or_else(|_| {
            no_probe(event, found);
            Vec::new()
        }),
    }
}

type Probes = Vec<&'static NamedProbe>;

/// Examines probes, if they are the events of one traced function or span, and gives back what they are otherwise.
fn function(mut probes: Probes, found: &mut Findings) -> Result<Probes, Probes> {
    let tells_of = |event: &NamedProbe, function: &str| functions_of(&event.name).any(|name| name == function);
    let is_entry = |probe: &&&NamedProbe| probe.name.ends_with("::entry");
    let mut names = probes.iter().filter(is_entry).flat_map(|probe| functions_of(&probe.name));
    let name = names.find(|name| probes.iter().all(|probe| tells_of(probe, name))).map(str::to_owned);
    let Some(name) = name else { return Err(probes) };
    // The linker's order is its own.
    probes.sort_by(|a, b| a.name.cmp(&b.name));
    let events: Vec<&str> = probes.iter().map(|p| p.name.as_str()).collect();
    let location = probes[0].tracepoint.location;
    found.good("function", format!("{name} is traced, at {location}; its events are {}", events.join(", ")));
    probes.retain(|probe| of_one(probe, &name, found));
    Ok(probes)
}

/// The probes that a rule takes by this name.
fn taken(name: &str) -> Probes {
    let rules = Rule::parse_all(name, false).ok().filter(|rules| rules.len() == 1 && rules[0].text == rules[0].glob.as_str());
    let Some(mut rule) = rules.and_then(|mut rules| rules.pop()) else { return Vec::new() };
    match attach::resolve(&mut rule, &mut Vec::new()) {
        Ok(()) => attach::probes().filter(|p| rule.matches(p.probe, &p.name)).collect(),
        Err(_) => Vec::new(),
    }
}

/// Examines an event, which rules take by the name `by`. Returns whether its hits are worth counting.
fn of_one(named: &'static NamedProbe, by: &str, found: &mut Findings) -> bool {
    let probe = named.probe;
    found.good("probe", format!("{} is linked, from {}, at level {}", named.name, probe.location, probe.level));
    if let Some((first, second)) = catalogue::twins().into_iter().find(|(first, _)| first.name == named.name) {
        let says = format!("two probes are called {}, at {} and {}", first.name, first.probe.location, second.probe.location);
        found.add(Verdict::Note, "probe", says, "give one of them `name = \"…\"`");
    }
    if probe.panics.load(Ordering::Relaxed) > 0 {
        found.add(Verdict::Bad, "probe", format!("{} panicked, and is detached", named.name), after_a_panic(named));
        return false;
    }
    if probe.class.is_none() {
        found.add(Verdict::Note, "probe", "it returns `()`: it acts, and records no event", "");
    }
    let sessions = attach::sessions();
    environment_waits(found);
    if sessions.is_empty() {
        let remedy = format!("ringtrace record '{by}'");
        found.add(Verdict::Bad, "sessions", "there is no session, so nothing is recorded", remedy);
    }
    sessions.iter().for_each(|session| in_session(session, named, by, found));
    probe.class.is_some()
}

/// What to do about a probe that panicked. A module's is attached again when that is loaded anew.
fn after_a_panic(named: &NamedProbe) -> String {
    match Module::loaded().iter().find(|module| module.probes().contains(&named.name)) {
        Some(module) => format!(
            "fix the probe and build the module again, then `ringtrace module unload {}` and `ringtrace module load {}`",
            module.name(),
            module.path().display()
        ),
        None => "fix the probe and restart the program".to_owned(),
    }
}

/// Says which key the session of `RINGTRACE` waits for.
fn environment_waits(found: &mut Findings) {
    if let Some(key) = init::awaits() {
        let says = format!("its session begins when the program registers the key `{key}`");
        found.add(Verdict::Note, "RINGTRACE", says, registration(&key));
    }
}

fn registration(key: &str) -> String {
    format!("the program calls `Key::register(\"{key}\")`, or the key has another name")
}

fn no_probe(event: &str, found: &mut Findings) {
    let sites = attach::sites();
    match registry::find(&Glob::new(event), sites.iter(), |s| s.tracepoint.name.to_string()) {
        Match::Some(sites) => {
            for site in sites {
                let tracepoint = site.tracepoint;
                found.good("tracepoint", format!("{} is declared at {}", tracepoint.name, tracepoint.location));
                if site.is_unhit() {
                    let says = "it was not hit yet; on this system an event without a declaration appears at its first hit";
                    found.add(Verdict::Note, "probe", says, "rules apply to it from then on");
                    continue;
                }
                if !site.probes.is_empty() {
                    let names: Vec<&str> = site.probes.iter().map(|p| p.name.as_str()).collect();
                    let says = format!("its probes have names of their own: {}", names.join(", "));
                    found.add(Verdict::Bad, "probe", says, format!("ringtrace why '{}'", names[0]));
                    continue;
                }
                let says = "no probe for it is linked, so there is nothing to record";
                let remedy = "name the crate that has it once (use storage_probes as _;), or declare it #[tracepoint(record)]";
                found.add(Verdict::Bad, "probe", says, remedy);
            }
        }
        _ => {
            let dumps = catalogue::state_dumps();
            if let Match::Some(dumps) = registry::find(&Glob::new(event), dumps.iter(), |d| d.name.clone()) {
                dumps.into_iter().for_each(|dump| state_dump(dump, found));
                return;
            }
            let tracepoints = sites.iter().map(|s| s.tracepoint.name.to_string());
            let names = tracepoints.chain(attach::probes().map(|p| p.name.clone())).chain(dumps.into_iter().map(|d| d.name));
            let near = if Glob::new(event).is_exact() { registry::near(event, names) } else { Vec::new() };
            let near = if near.is_empty() { String::new() } else { format!("; did you mean `{}`?", near.join("`, `")) };
            let says = format!("no tracepoint and no probe of this program is called `{event}`{near}");
            let remedy = "`ringtrace list` shows all; a crate that is named nowhere in the program is not linked \
                          (use the_crate as _;)";
            found.add(Verdict::Bad, "name", says, remedy);
        }
    }
}

fn state_dump(dump: &NamedDump, found: &mut Findings) {
    found.good("state dump", format!("{} is declared at {}", dump.name, dump.location));
    for session in attach::sessions() {
        let about = format!("session {}", session.name);
        if state::wants(&session, dump) {
            found.good(&about, "its rules take the state dump, which ran when it began, or when it was given the rule");
        } else {
            let remedy = format!("ringtrace enable -s {} '{}'", session.name, dump.name);
            found.add(Verdict::Note, &about, "none of its rules takes the state dump", remedy);
        }
    }
}

/// Of a session.
const NO_RULES: &str = "it has no rules, or their time (`for`) is over";

fn in_session(session: &Recording, named: &NamedProbe, by: &str, found: &mut Findings) {
    let name = &session.name;
    let about = format!("session {name}");
    let (decides, gated) = session.with_rules(|rules| {
        let decides = rules.iter().rev().find(|r| r.matches(named.probe, &named.name)).cloned();
        let gated = rules.iter().rev().find(|r| !r.excludes && r.glob.names(&named.name)).cloned();
        (decides, gated)
    });
    match (decides, gated) {
        (Some(rule), _) if rule.excludes => {
            let says = format!("the rule `{rule}` leaves it out");
            found.add(Verdict::Bad, &about, says, format!("ringtrace enable -s {name} '{by}'"));
        }
        (Some(rule), _) => recorded(session, named, &rule, &about, found),
        (None, Some(rule)) => {
            let says = format!("its level {} is less severe than the rule `{rule}` takes", named.probe.level);
            let remedy = format!("ringtrace enable -s {name} '{} level {}'", rule.glob, named.probe.level);
            found.add(Verdict::Bad, &about, says, remedy);
        }
        (None, None) => {
            let remedy = format!("ringtrace enable -s {name} '{by}'");
            let says = if session.rules().is_empty() { NO_RULES } else { "none of its rules matches" };
            found.add(Verdict::Note, &about, says, remedy);
        }
    }
}

fn recorded(session: &Recording, named: &NamedProbe, rule: &Rule, about: &str, found: &mut Findings) {
    if let Some(failure) = session.failure() {
        return found.add(Verdict::Bad, about, failure.to_string(), after_a_failure(session));
    }
    if !session.is_recording() {
        let remedy = format!("ringtrace session start {}", session.name);
        return found.add(Verdict::Bad, about, format!("the rule `{rule}` matches, but the session is stopped"), remedy);
    }
    if named.probe.class.is_some() && named.probe.least > session.channel.payload_limit() {
        let says = format!("an event takes at least {} bytes, a record {}", named.probe.least, session.channel.payload_limit());
        return found.add(Verdict::Bad, about, says, "give the session larger sub-buffers");
    }
    if let Some(key) = rule.awaits() {
        let says = format!("the rule `{rule}` takes it when the program registers the key `{key}`");
        return found.add(Verdict::Bad, about, says, registration(key));
    }
    if !session.wants(named) {
        let says = format!("the condition of the rule `{rule}` does not fit its events");
        let remedy = "`ringtrace list` shows its fields; the session's warnings in `ringtrace status` say which name is wrong";
        return found.add(Verdict::Bad, about, says, remedy);
    }
    let (head, tail) = (format!("the rule `{rule}` takes it"), session.path.as_ref().map(|p| format!(" into {}", p.display())));
    found.good(about, head + &tail.unwrap_or_else(|| ", and it is printed".to_owned()));
    passed_over(rule, about, found);
    losses(session, about, found);
}

/// Says how many events the condition of a rule kept from being recorded.
fn passed_over(rule: &Rule, about: &str, found: &mut Findings) {
    let Some(counts) = rule.progress.as_ref().filter(|_| rule.is_conditional()).map(|p| &p.counts) else { return };
    let (filtered, limited) = (counts.sum::<FILTERED>(), counts.sum::<LIMITED>());
    let says = format!("of all events that `{rule}` matches, its filter rejected {filtered} and its limit left out {limited}");
    found.add(Verdict::Note, about, says, "");
}

fn losses(session: &Recording, about: &str, found: &mut Findings) {
    let statistics = session.statistics();
    if statistics.lost.total() > 0 {
        let says = format!("of all its events: {statistics}");
        let remedy = if statistics.lost.full > 0 {
            "give the session more memory, or record fewer events"
        } else {
            "`ringtrace status` shows the causes"
        };
        found.add(Verdict::Note, about, says, remedy);
    }
}

/// Says whether the event happens at all.
pub(super) fn add_hits(found: &mut Diagnosis, hits: &Hits) {
    let mut findings = Findings(std::mem::take(&mut found.findings));
    for hit in &hits.hits {
        let seconds = hits.ns as f64 / 1e9;
        if hit.count == 0 {
            let says = match hits.hits.len() {
                1 => format!("its tracepoint did not make an event within {seconds:.1} s"),
                _ => format!("no {} within {seconds:.1} s", hit.name),
            };
            let remedy = "is that code reached? does the probe return `None`? watch for longer with --for";
            findings.add(Verdict::Bad, "hits", says, remedy);
        } else {
            let last = hit.last_ns.unwrap_or(0) as f64 / 1e6;
            let what = if hits.hits.len() == 1 { "events" } else { &*hit.name };
            findings.good("hits", format!("{} {what} within {seconds:.1} s, the last {last:.1} ms ago", hit.count));
        }
    }
    found.findings = findings.0;
}

/// File-backed shared memory in /proc/PID/coredump_filter, core(5).
const SHARED_FILES: u64 = 1 << 3;

/// Says whether a core dump has the rings, and where it goes.
fn core_dumps(found: &mut Findings) {
    let read = |path: &str| crate::sys::read_kernel_file(path).map(|text| text.trim().to_owned()).unwrap_or_default();
    let Ok(filter) = u64::from_str_radix(&read("/proc/self/coredump_filter"), 16) else { return };
    let pattern = read("/proc/sys/kernel/core_pattern");
    let place = match pattern.strip_prefix('|') {
        Some(program) => format!("given to {}", program.split(' ').next().unwrap_or_default()),
        None => format!("a file `{pattern}`"),
    };
    let is_limited = rustix::process::getrlimit(rustix::process::Resource::Core).current == Some(0);
    let (about, pid) = ("core dump", process::image_name().pid);
    if filter & SHARED_FILES == 0 {
        let says = format!("it would not have the rings: coredump_filter is {filter:#x}; it is {place}");
        let remedy = format!("echo {:#x} > /proc/{pid}/coredump_filter, and `ringtrace core` reads them", filter | SHARED_FILES);
        found.add(Verdict::Note, about, says, remedy);
    } else if is_limited && !pattern.starts_with('|') {
        let says = format!("none is made: its size is limited to 0; it would be {place}");
        found.add(Verdict::Note, about, says, format!("prlimit --core=unlimited --pid {pid}"));
    } else {
        found.good(about, format!("it has the rings (coredump_filter {filter:#x}), for `ringtrace core`; it is {place}"));
    }
}

/// Examines the whole process.
pub(super) fn doctor() -> Diagnosis {
    let mut found = Findings::default();
    registered(&mut found);
    machine(&mut found);
    core_dumps(&mut found);
    environment_waits(&mut found);
    let sessions = attach::sessions();
    if sessions.is_empty() {
        found.add(Verdict::Note, "sessions", "none", "ringtrace record '*'");
    }
    sessions.iter().for_each(|session| of_session(session, &mut found));
    Diagnosis { events: Vec::new(), findings: found.0 }
}

fn after_a_failure(session: &Recording) -> String {
    format!("fix the cause, then `ringtrace session destroy {}` and create it again", session.name)
}

/// One verdict, and notes of what it lost and found questionable.
fn of_session(session: &Recording, found: &mut Findings) {
    let about = format!("session {}", session.name);
    let probes = attach::probes().filter(|p| session.wants(p)).count();
    match session.failure() {
        Some(failure) => found.add(Verdict::Bad, &about, failure.to_string(), after_a_failure(session)),
        None if !session.is_recording() => {
            found.add(Verdict::Note, &about, "stopped", format!("ringtrace session start {}", session.name));
        }
        None if probes > 0 => found.good(&about, format!("records the events of {probes} probes")),
        None if session.rules().is_empty() => {
            found.add(Verdict::Note, &about, NO_RULES, format!("ringtrace enable -s {} '*'", session.name));
        }
        None if session.with_rules(|rules| rules.iter().any(|rule| rule.awaits().is_some())) => {} // its warnings tell
        None => found.add(Verdict::Bad, &about, "its rules match no probe", "`ringtrace list` shows all"),
    }
    lock(&session.warnings).iter().for_each(|warning| found.add(Verdict::Note, &about, warning, ""));
    losses(session, &about, found);
}

fn registered(found: &mut Findings) {
    let (tracepoints, probes) = (attach::sites().len(), attach::probes().count());
    if tracepoints == 0 {
        let remedy = "name the crates that declare them once (use the_crate as _;)";
        found.add(Verdict::Bad, "tracepoints", "none is linked into this program", remedy);
    } else {
        found.good("tracepoints", format!("{tracepoints}, with {probes} probes"));
    }
    let sites = attach::sites();
    let unprobed: Vec<_> = sites.iter().filter(|s| s.probes.is_empty() && !s.is_unhit()).map(|s| s.tracepoint).collect();
    if let Some(first) = unprobed.first() {
        let mut says = format!("{} without a probe: nothing of them can be recorded:", unprobed.len());
        for tracepoint in unprobed.iter().take(NAMED) {
            let _ = write!(says, "\n  {} ({})", tracepoint.name, tracepoint.location);
        }
        let krate = first.name.to_string();
        let krate = krate.split(':').next().unwrap_or_default();
        let remedy =
            format!("name the crate with the probes once (use {krate}_probes as _;), or declare them #[tracepoint(record)]");
        found.add(Verdict::Note, "tracepoints", says, remedy);
    }
    for (first, second) in catalogue::twins() {
        let says = format!("two are called {}, at {} and {}", first.name, first.probe.location, second.probe.location);
        found.add(Verdict::Note, "probes", says, "rules cannot tell them apart; give one of them `name = \"…\"`");
    }
    for named in attach::probes().filter(|p| p.probe.panics.load(Ordering::Relaxed) > 0) {
        let says = format!("{} ({}) panicked and is detached", named.name, named.probe.location);
        found.add(Verdict::Bad, "probes", says, after_a_panic(named));
    }
}

fn machine(found: &mut Findings) {
    let process = match process::current() {
        Ok(process) => process,
        Err(error) => return found.add(Verdict::Bad, "process", error.to_string(), ""),
    };
    if process.clock.is_counter() {
        found.good("clock", "the processor's time stamp counter");
    } else {
        let says = "the operating system's: the time stamp counter is not the kernel's clock source; some 13 ns more per event";
        found.add(Verdict::Note, "clock", says, "cat /sys/devices/system/clocksource/clocksource0/current_clocksource");
    }
    if trace_registry::sys::cpu_id() == u32::MAX {
        let says = "none: all threads share one region, at some 20 ns more per event";
        found.add(Verdict::Note, "restartable sequences", says, "they need Linux 4.18; valgrind and sanitizers have none");
    } else if crate::sys::has_membarrier() {
        found.good("restartable sequences", format!("on {} CPUs", process.cpus.len()));
    } else {
        let says = "membarrier(2) is refused, so that each event takes some 10 ns more";
        found.add(Verdict::Note, "restartable sequences", says, "a seccomp policy may forbid it");
    }
}
