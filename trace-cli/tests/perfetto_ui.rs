//! What `export` writes for Perfetto and as Chrome's JSON, in Perfetto's own trace processor and user interface: every event is found by
//! SQL. Run by `cargo xtask browser`, which gets what it needs.

mod chromium;
#[path = "../../trace-ctf/tests/common/classes.rs"]
mod classes;
#[path = "../../trace-ctf/tests/common/mod.rs"]
mod common;
mod sample;

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::Command;

use chromium::{Browser, serve};
use classes::{class, fields};
use proptest::prelude::prop;
use proptest::strategy::{Strategy as _, ValueTree as _};
use sample::{ORIGIN, REQUESTS, Variation};
use serde_json::{Value, json};
use trace_ctf::schema::FieldClass;

/// Exports a trace.
fn exported(here: &Path, arguments: &[&str]) -> PathBuf {
    let path = here.join("exported");
    let mut command = Command::new(env!("CARGO_BIN_EXE_ringtrace"));
    let output = command.arg("export").args(arguments).arg("-o").arg(&path).current_dir(here).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    path
}

/// The user interface with a trace in it.
struct Perfetto(Browser);

impl Perfetto {
    /// Opens a trace, with these nanoseconds in sight.
    fn open(trace: PathBuf, (begin, end): (u64, u64)) -> Perfetto {
        let ui =
            std::env::var_os("PERFETTO_UI").expect("PERFETTO_UI names the directory of the user interface: cargo xtask browser");
        let address = serve(Path::new(&ui), &[("trace", trace)]);
        let mut browser = Browser::open(&format!("{address}/#!/?url={address}/trace&visStart={begin}&visEnd={end}"));
        browser.wait("Boolean(self.app && self.app.trace && self.app.trace.engine)");
        Perfetto(browser)
    }

    /// The rows of a query, each as an array.
    fn rows(&mut self, query: &str) -> Vec<Value> {
        let script = format!(
            "(async () => {{ const result = await self.app.trace.engine.query({}), rows = [], names = result.columns(); \
             for (const row = result.iter({{}}); row.valid(); row.next()) rows.push(names.map(name => {{ const value = row.get(name); \
             return typeof value === 'bigint' ? Number(value) : value; }})); return rows; }})()",
            Value::from(query)
        );
        self.0.evaluate(&script).as_array().unwrap().clone()
    }

    fn screenshot(&mut self, name: &str) {
        self.0.evaluate("self.app.trace.workspace.flatTracks.forEach(track => track.expand()); self.waitForPerfettoIdle(500)");
        self.0.screenshot(name);
    }

    /// That nothing was skipped or is wrong.
    fn assert_whole(&mut self) {
        let of = "select name, value from stats where";
        assert_eq!(self.rows(&format!("{of} name = 'tokenizer_skipped_packets'")), [json!(["tokenizer_skipped_packets", 0])]);
        let wrong = self.rows(&format!("{of} severity in ('error', 'data_loss') and value > 0"));
        assert!(wrong.iter().all(|row| row[0] == "traced_buf_sequence_packet_loss"), "{wrong:?}");
    }
}

#[test]
#[ignore = "needs Chromium and the Perfetto UI"]
fn sql_finds_every_event() {
    let here = tempfile::tempdir().unwrap();
    sample::write(&here.path().join("shop"), Variation { discarded: 3, ..Variation::default() });
    let options = ["shop", "--to", "perfetto", "--counter", "cache_lookup.bytes", "--flow", "status"];
    let mut perfetto = Perfetto::open(exported(here.path(), &options), (46_000_000, 46_160_000));
    perfetto.assert_whole();
    let all = 2 * REQUESTS;
    let kinds = perfetto.rows("select name, dur > 0, count(*) from slice group by 1, 2 order by 1");
    let expected =
        [json!(["ringtrace:thread_name", 0, 2]), json!(["shop:cache_lookup", 0, all]), json!(["shop:request", 1, all])];
    assert_eq!(kinds, expected);
    let of_threads = "slice join thread_track on track_id = thread_track.id join thread using (utid) join process using (upid)";
    let threads = format!("select process.name, pid, tid, thread.name, count(*) from {of_threads} group by 3 order by 3");
    let thread = |tid: u64, name: &str| json!(["shop", 4200, tid, name, 2 * REQUESTS + 1]);
    assert_eq!(perfetto.rows(&threads), [thread(4201, "worker-0"), thread(4202, "worker-1")]);
    // Times and durations are exact: those that the sample was written with.
    let durations = (0..REQUESTS).map(|number| 2 * (100 + number) * 1000).sum::<u64>();
    let times = perfetto.rows("select min(ts), max(ts), sum(dur) from slice where name = 'shop:request'");
    assert_eq!(times, [json!([1000, (REQUESTS - 1) * 1_000_000 + 2000, durations])]);
    let clock =
        "select clock_name, clock_value - ts from clock_snapshot where clock_name in ('MONOTONIC', 'REALTIME') order by 1";
    assert_eq!(perfetto.rows(clock), [json!(["MONOTONIC", 0]), json!(["REALTIME", ORIGIN])]);
    let inside =
        "select count(*) from slice join slice as outside on outside.id = slice.parent_id where outside.name = 'shop:request'";
    assert_eq!(perfetto.rows(inside), [json!([all])]);
    let arguments = "select key, count(*), min(int_value), max(int_value), min(string_value) from slice join args using (arg_set_id) group by 1";
    let arguments = perfetto.rows(arguments);
    assert!(arguments.contains(&json!(["debug.bytes", all, 64, 8192, null])), "{arguments:?}");
    assert!(arguments.contains(&json!(["debug.outcome", all, null, null, "HIT"])), "{arguments:?}");
    let counters =
        "select counter_track.name, count(*), max(value) from counter join counter_track on track_id = counter_track.id";
    assert_eq!(perfetto.rows(counters), [json!(["shop:cache_lookup.bytes", all, 8192])]);
    // From each end of a request to the next with the same status.
    let flows = "select count(*), sum(slice_out = slice_in) from flow";
    assert_eq!(perfetto.rows(flows), [json!([all - 2, 0])]);
    perfetto.screenshot("perfetto.png");
}

/// Every field class, from several streams, some of which have lost packets; as protobuf, and as Chrome's JSON.
#[test]
#[ignore = "needs Chromium and the Perfetto UI"]
fn sql_finds_events_of_every_field_class() {
    let here = tempfile::tempdir().unwrap();
    let mut runner = proptest::test_runner::TestRunner::deterministic();
    let payloads = prop::collection::vec(fields(class(), 1..6), 8).new_tree(&mut runner).unwrap().current();
    let schema = common::schema(vec![common::field("vtid", FieldClass::signed(32))], payloads);
    let events = common::write_trace(&here.path().join("all"), &schema, 5, 40, 11);
    for form in ["perfetto", "chrome"] {
        let mut perfetto = Perfetto::open(exported(here.path(), &["all", "--to", form]), (0, 1));
        perfetto.assert_whole();
        assert_eq!(perfetto.rows("select count(*) from slice"), [json!([events])], "{form}");
        let expected: BTreeSet<&str> = schema.events().iter().map(|class| &*class.name).collect();
        let names = perfetto.rows("select distinct name from slice");
        assert_eq!(names.iter().filter_map(|row| row[0].as_str()).collect::<BTreeSet<_>>(), expected);
    }
}
