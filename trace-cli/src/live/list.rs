//! `ringtrace list`: what can be traced in a process.

use std::collections::HashMap;
use std::io::{self, Write as _};
use std::time::Duration;

use serde_json::json;
use trace_control::protocol::{Hit, Hits, Listing, Probe, Request, StateDump, Tracepoint, Watch};
use trace_registry::Glob;
use trace_registry::registry::{Match, find, some_of};
use trace_registry::units;

use super::target::Target;
use super::text::{self, line};
use crate::Outcome;
use crate::common::Common;
use crate::failure::{self, Failure};

/// Lists the tracepoints of a process with signature and source line, and their probes with level, fields and sessions.
///
/// A tracepoint is where the program says that something happens; a probe makes an event of it, and rules match the probes'
/// names. `+` marks what is recorded now. Functions that record the program's state stand behind them.
#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    /// Only those whose name, or whose probe's name, matches: a glob, a name, or the unique end of one.
    pattern: Option<String>,

    /// Only what is recorded now.
    #[arg(long)]
    on: bool,

    /// Count how often each probe makes an event, for this time. Probes that are off are on meanwhile: else nothing counts them.
    #[arg(long, value_name = "TIME", num_args = 0..=1, default_missing_value = "1s", value_parser = units::duration)]
    hits: Option<Duration>,

    #[command(flatten)]
    target: Target,
}

pub(crate) fn run(arguments: &Arguments, common: &Common) -> Result<Outcome, Failure> {
    let mut processes = arguments.target.chosen()?;
    let several = processes.len() > 1;
    let mut out = text::Out::new(io::BufWriter::new(io::stdout().lock()), common.json);
    let (mut is_any, mut unmatched) = (false, None);
    for process in &mut processes {
        let mut listing: Listing = process.demand(&Request::List)?;
        if let Some(pattern) = &arguments.pattern {
            listing = match matching(pattern, listing) {
                // Another copy of ringtrace in the process may have it.
                Err(failure) if process.copy.is_some() => {
                    unmatched = Some(failure);
                    continue;
                }
                found => found?,
            };
        }
        is_any = true;
        if arguments.on {
            listing.tracepoints.retain(|t| t.probes.iter().any(|p| !p.sessions.is_empty()));
            listing.state_dumps.retain(|dump| !dump.sessions.is_empty());
        }
        let hits = match arguments.hits {
            Some(time) => {
                let rules = arguments.pattern.as_deref().filter(|p| !Glob::new(p).is_exact()).unwrap_or("*");
                let watch = Watch { rules: rules.to_owned(), ms: u64::try_from(time.as_millis()).unwrap_or(u64::MAX) };
                let hits: Hits = process.demand(&Request::Watch(watch))?;
                Some(hits.hits.into_iter().map(|hit| (hit.name.clone(), hit)).collect::<HashMap<_, _>>())
            }
            None => None,
        };
        if several && !common.json {
            writeln!(out, "{}:", process.name())?;
        }
        for tracepoint in &listing.tracepoints {
            if common.json {
                let mut line = process.line(json!({ "pid": process.is.pid, "tracepoint": tracepoint }));
                if let Some(hits) = &hits {
                    let of = |p: &Probe| hits.get(&p.name).cloned();
                    line["hits"] = json!(tracepoint.probes.iter().filter_map(of).collect::<Vec<Hit>>());
                }
                writeln!(out, "{line}")?;
            } else {
                show(&mut out, tracepoint, hits.as_ref())?;
            }
        }
        for dump in &listing.state_dumps {
            if common.json {
                writeln!(out, "{}", process.line(json!({ "pid": process.is.pid, "state_dump": dump })))?;
            } else {
                show_dump(&mut out, dump)?;
            }
        }
        if listing.tracepoints.is_empty() && listing.state_dumps.is_empty() {
            failure::note(format_args!("{}: nothing to list", process.name()));
        }
    }
    out.flush()?;
    unmatched.filter(|_| !is_any).map_or(Ok(Outcome::Complete), Err)
}

/// Those that a pattern stands for, by the tracepoint's name, a probe's, or a state dump's.
fn matching(pattern: &str, mut all: Listing) -> Result<Listing, Failure> {
    let tracepoints = all.tracepoints.iter().flat_map(|t| t.probes.iter().map(|p| &p.name).chain([&t.name]));
    let names: Vec<String> = tracepoints.chain(all.state_dumps.iter().map(|dump| &dump.name)).cloned().collect();
    let found = match find(&Glob::new(pattern), names.iter(), |n| (*n).clone()) {
        Match::Some(found) => found,
        Match::NoneByGlob => return Ok(Listing::default()),
        Match::NoneByName { near } => {
            let hint = if near.is_empty() { String::new() } else { format!("; did you mean `{}`?", near.join("`, `")) };
            return Err(Failure::Wrong(format!("no tracepoint, probe or state dump is called `{pattern}`{hint}")));
        }
        Match::Ambiguous { candidates } => {
            return Err(Failure::Wrong(format!("`{pattern}` is the end of more than one name: {}", some_of(&candidates))));
        }
    };
    let is_meant = |t: &Tracepoint| found.iter().any(|name| **name == t.name || t.probes.iter().any(|p| p.name == **name));
    all.tracepoints.retain(is_meant);
    all.state_dumps.retain(|dump| found.iter().any(|name| **name == dump.name));
    Ok(all)
}

fn show_dump(out: &mut impl io::Write, dump: &StateDump) -> io::Result<()> {
    line(out, format_args!("{}  {}", dump.name, dump.location))?;
    let taken = if dump.sessions.is_empty() { String::new() } else { format!("; taken by {}", dump.sessions.join(", ")) };
    line(out, format_args!("    state dump: runs when a session that takes it begins, or is given a rule that does{taken}"))
}

fn show(out: &mut impl io::Write, tracepoint: &Tracepoint, hits: Option<&HashMap<String, Hit>>) -> io::Result<()> {
    let reentrant = if tracepoint.reentrant { "  (reentrant)" } else { "" };
    line(out, format_args!("{}  {}{reentrant}", tracepoint.name, tracepoint.location))?;
    line(out, format_args!("    {}", tracepoint.signature))?;
    if tracepoint.unhit {
        writeln!(out, "    appears at its first hit: then its fields are known, and rules apply to it")?;
    } else if tracepoint.probes.is_empty() {
        writeln!(out, "    no probe is linked: nothing can be recorded")?;
    }
    for probe in &tracepoint.probes {
        let mark = if probe.sessions.is_empty() { '-' } else { '+' };
        let mut said = format!("  {mark} {}  {}  {}", probe.name, probe.level, probe.location);
        if !probe.sessions.is_empty() {
            said.push_str(&format!("  in {}", probe.sessions.join(", ")));
        }
        if probe.panics > 0 {
            said.push_str("  panicked, detached");
        }
        if let Some(hit) = hits.and_then(|h| h.get(&probe.name)) {
            said.push_str(&format!("  {} hits", hit.count));
        }
        line(out, format_args!("{said}"))?;
        if !probe.records {
            writeln!(out, "      acts, and makes no event")?;
        }
        for field in &probe.fields {
            let unit = if field.unit.is_empty() { String::new() } else { format!(" {}", field.unit) };
            let sensitive = if field.sensitive { "  (sensitive)" } else { "" };
            line(out, format_args!("      {}: {}{unit}{sensitive}", field.name, field.class))?;
        }
        if !probe.skipped.is_empty() {
            line(out, format_args!("      without {}: no field types", probe.skipped.join(", ")))?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use trace_control::protocol::Field;

    #[test]
    fn state_dumps_are_listed_and_found() {
        let dump = |name: &str| StateDump { name: name.into(), location: "app.rs:9".into(), sessions: vec!["a".into()] };
        let listing = Listing { state_dumps: vec![dump("app:tables"), dump("net:peers")], ..Listing::default() };
        let found = matching("tables", listing).expect("there is one");
        assert_eq!(found.state_dumps, [dump("app:tables")]);
        let mut said = Vec::new();
        show_dump(&mut said, &found.state_dumps[0]).expect("memory");
        let expected = "app:tables  app.rs:9\n    state dump: runs when a session that takes it begins, or is given a rule that does; \
                        taken by a\n";
        assert_eq!(String::from_utf8_lossy(&said), expected);
    }

    #[test]
    fn what_a_traced_function_leaves_out_is_said() {
        let probe = Probe {
            name: "app:load::entry".into(),
            level: "info".into(),
            location: "app.rs:7".into(),
            records: true,
            fields: vec![Field { name: "id".into(), class: "u64".into(), ..Field::default() }],
            skipped: vec!["from".into(), "parser".into()],
            ..Probe::default()
        };
        let tracepoint = Tracepoint {
            name: "app:load".into(),
            signature: "fn load<R>(id: u64, from: R, parser: Parser)".into(),
            location: "app.rs:7".into(),
            probes: vec![probe],
            ..Tracepoint::default()
        };
        let mut said = Vec::new();
        show(&mut said, &tracepoint, None).expect("memory");
        let expected = "app:load  app.rs:7\n    fn load<R>(id: u64, from: R, parser: Parser)\n  - app:load::entry  info  app.rs:7\n      \
                        id: u64\n      without from, parser: no field types\n";
        assert_eq!(String::from_utf8_lossy(&said), expected);
    }
}
