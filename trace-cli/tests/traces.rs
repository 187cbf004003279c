//! The verbs about traces, on a trace whose every event is known.

mod sample;

use std::path::Path;
use std::process::{Command, Output};

use sample::{ORIGIN, REQUESTS, Variation};
use serde_json::Value;

/// A directory with the trace in `shop.ringtrace`, and the number of its events.
fn here() -> (tempfile::TempDir, u64) {
    let here = tempfile::tempdir().unwrap();
    let events = sample::write(&here.path().join("shop.ringtrace"), Variation::default());
    (here, events)
}

fn run(arguments: &[&str], directory: &Path) -> Output {
    Command::new(env!("CARGO_BIN_EXE_ringtrace")).args(arguments).env("TZ", "UTC").current_dir(directory).output().unwrap()
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// What a command prints, which must succeed.
fn succeed(arguments: &[&str], directory: &Path) -> String {
    let output = run(arguments, directory);
    assert_eq!(output.status.code(), Some(0), "{arguments:?}: {}", text(&output.stderr));
    text(&output.stdout)
}

fn json(arguments: &[&str], directory: &Path) -> Vec<Value> {
    let printed = succeed(&[arguments, &["--json"]].concat(), directory);
    printed.lines().map(|line| serde_json::from_str(line).unwrap_or_else(|error| panic!("{line}: {error}"))).collect()
}

/// What a command says, which must fail with an exit code.
fn fail(arguments: &[&str], code: i32, phrases: &[&str], directory: &Path) {
    let output = run(arguments, directory);
    let said = text(&output.stderr);
    assert_eq!(output.status.code(), Some(code), "{arguments:?}: {said}");
    phrases.iter().for_each(|phrase| assert!(said.contains(phrase), "{phrase} in {said}"));
}

#[test]
fn times_have_the_same_names_in_every_verb() {
    let here = tempfile::tempdir().unwrap();
    let verbs = succeed(&["--help"], here.path());
    let verbs = verbs.lines().filter_map(|line| line.strip_prefix("  ")?.split(' ').next().filter(|verb| !verb.is_empty()));
    let helps = verbs
        .filter(|verb| verb.bytes().all(|byte| byte.is_ascii_lowercase()))
        .map(|verb| text(&run(&[verb, "--help"], here.path()).stdout));
    let with_times: Vec<String> = helps.filter(|help| help.contains("--from <TIME>")).collect();
    assert!(with_times.len() >= 9, "{}", with_times.len());
    for help in with_times {
        assert!(help.contains("--until <TIME>") && !help.contains("--to <TIME>"), "{help}");
    }
}

#[test]
fn view_takes_times_names_and_expressions() {
    let (here, events) = here();
    let here = here.path();
    let count = |arguments: &[&str]| succeed(&[&["view"], arguments].concat(), here).lines().count() as u64;
    assert_eq!(count(&[]), events);
    assert_eq!(count(&["--from", "22:13:20.010"]), events - 2 - 2 * 3 * 10);
    assert_eq!(count(&["--until", "+10ms"]), 2 + 2 * 3 * 10);
    assert_eq!(count(&["--from", "2023-11-14T22:13:20.010Z", "--until", "1700000000.020"]), 2 * 3 * 10);
    assert_eq!(count(&["--event", "*_begin", "--event", "request_end"]), 4 * REQUESTS);
    assert_eq!(count(&["--event", "!*_begin", "--event", "!request_end"]), 2 + 2 * REQUESTS);
    assert_eq!(count(&["--event", "shop:*", "--event", "!*request*", "--event", "request_end"]), 4 * REQUESTS);
    assert_eq!(count(&["--if", "status == 500"]), 2);
    assert_eq!(count(&["--if", "path ~ \"/s*\" && $ctx.vtid == 4202"]), 10);
    assert_eq!(count(&["--if", "outcome == \"MISS\""]), 10);
    assert_eq!(count(&["--if", "has(age) && age > 10.0"]), 2 * (REQUESTS - 41));
    assert_eq!(count(&["--if", "!has(age)"]), 10);
    assert_eq!(count(&["--if", "$ctx.cpu_id == 1 && bytes >= 4K"]), 12);
    let first = succeed(&["view", "--head", "1", "--time", "unix", "--event", "request_begin"], here);
    assert!(first.starts_with("1700000000.000001000  shop:request_begin  id=0 "), "{first}");
    let first = succeed(&["view", "--head", "1", "--time", "date", "--color", "always", "--event", "request_begin"], here);
    assert!(first.starts_with("\u{1b}[2m2023-11-14 22:13:20.000001000\u{1b}[0m  "), "{first:?}");
    let columns = succeed(&["view", "--columns", "time,event,id,path,vtid,age", "--time", "relative", "--head", "4"], here);
    let expected = "0.000000000\tringtrace:thread_name\t-\t-\t4201\t-\n0.000000000\tringtrace:thread_name\t-\t-\t4202\t-\n\
                    0.000000500\tshop:request_begin\t0\t/search\t4201\t-\n0.000001500\tshop:request_begin\t1\t/search\t4202\t-\n";
    assert_eq!(columns, expected);
    fail(&["view", "--event", "shop:request_bgin"], 1, &["did you mean shop:request_begin"], here);
    fail(&["view", "--event", "net*"], 1, &["no event has this name", "the events are: ringtrace:thread_name, shop:"], here);
    let all = "the fields are: id (integer), path (text), status (integer), outcome (enumeration), bytes (integer)";
    fail(&["view", "--if", "byte > 4"], 1, &["no field is called `byte`", "did you mean `bytes`? ", all], here);
    fail(&["view", "--columns", "sttus"], 1, &["no such field", "did you mean status?", "the fields are: id, path"], here);
    fail(&["view", "--from", "soon"], 1, &["soon: no time", "+250ms"], here);
    fail(&["view", "--from", "+2s", "--until", "+1s"], 1, &["nothing lies between"], here);
}

#[test]
fn stats_count_everything_once() {
    let (here, events) = here();
    let stats = &json(&["stats"], here.path())[0];
    assert_eq!(stats["total"]["events"], events);
    let named = |key: &str, kind: &str, name: &Value| {
        let rows = stats[kind].as_array().unwrap();
        rows.iter().find(|row| row[key] == *name).unwrap_or_else(|| panic!("{name} in {rows:?}")).clone()
    };
    let begins = named("name", "classes", &"shop:request_begin".into());
    assert_eq!(begins["events"], 2 * REQUESTS);
    // Header, vtid, id, length and text.
    assert_eq!(begins["bytes"], 2 * (10 * (4 + 4 + 8 + 2 + 7) + 40 * (4 + 4 + 8 + 2 + 1)));
    assert_eq!(begins["first_ns"], ORIGIN + 1000);
    let worker = named("tid", "threads", &4202.into());
    assert_eq!((&worker["name"], &worker["events"]), (&"worker-1".into(), &(events / 2).into()));
    assert_eq!(named("cpu", "cpus", &0.into())["events"], events / 2);
    let shown = succeed(&["stats", "--if", "status == 500"], here.path());
    assert!(shown.contains("2 events") && shown.contains("shop:request_end") && !shown.contains("begin"), "{shown}");
    let top = json(&["top", "--by", "thread", "-n", "1"], here.path());
    assert_eq!((top.len(), &top[0]["events"]), (1, &(events / 2).into()));
    let lossy = tempfile::tempdir().unwrap();
    sample::write(&lossy.path().join("a.ringtrace"), Variation { discarded: 3, ..Variation::default() });
    assert_eq!(json(&["stats"], lossy.path())[0]["losses"]["discarded_events"], 2 * 2 * 3);
}

#[test]
fn what_follows_damage_does_not_count_on_however_many_cores() {
    let (here, events) = here();
    let path = here.path().join("shop.ringtrace/stream_1");
    let trace = trace_ctf::reader::Trace::open(&here.path().join("shop.ringtrace")).unwrap();
    let packet = trace.packets(&trace.streams()[1]).nth(1).unwrap().unwrap().0;
    let mut bytes = std::fs::read(&path).unwrap();
    // An ID that no class has.
    bytes[packet.byte_offset() as usize + trace_ctf::packet::HEADER_LEN] |= 0x1E;
    std::fs::write(&path, bytes).unwrap();
    let whole = run(&["view", "shop.ringtrace"], here.path());
    let whole = text(&whole.stdout).lines().count() as u64;
    assert!(whole < events);
    for _ in 0..8 {
        let output = run(&["stats", "shop.ringtrace", "--json"], here.path());
        assert_eq!(output.status.code(), Some(3));
        let stats: Value = serde_json::from_slice(&output.stdout).unwrap();
        assert_eq!(
            (&stats["total"]["events"], &stats["losses"]["damaged"]),
            (&whole.into(), &1.into()),
            "{}",
            text(&output.stderr)
        );
        assert_eq!(text(&output.stderr).matches(r#"{"error":"#).count(), 1);
    }
}

#[test]
fn histograms_of_numbers_texts_and_groups() {
    let (here, _) = here();
    let here = here.path();
    let bytes = &json(&["hist", "shop:cache_lookup.bytes"], here)[0];
    assert_eq!((&bytes["numbers"]["count"], &bytes["numbers"]["max"]), (&(2 * REQUESTS).into(), &(64.0 * 128.0).into()));
    let buckets: Vec<(f64, u64)> = bytes["buckets"]
        .as_array()
        .unwrap()
        .iter()
        .map(|bucket| (bucket["low"].as_f64().unwrap(), bucket["count"].as_u64().unwrap()))
        .collect();
    let expected: Vec<(f64, u64)> = (0..8).map(|power| (f64::from(64 << power), if power < 2 { 14 } else { 12 })).collect();
    assert_eq!(buckets, expected);
    let groups = json(&["hist", "cache_lookup.bytes", "by", "outcome"], here);
    let counts: Vec<_> =
        groups.iter().map(|group| (group["by"]["outcome"].as_str().unwrap(), &group["numbers"]["count"])).collect();
    assert_eq!(counts, [("HIT", &90.into()), ("MISS", &10.into())]);
    let linear = &json(&["hist", "request_end.status", "--linear", "3"], here)[0]["buckets"];
    let counts: Vec<_> = linear.as_array().unwrap().iter().map(|bucket| &bucket["count"]).collect();
    assert_eq!(counts, [98, 0, 2]);
    let paths = &json(&["hist", "request_begin.path"], here)[0]["texts"];
    assert_eq!(paths, &serde_json::json!({ "/": 80, "/search": 20 }));
    let plot = succeed(&["hist", "request_begin.path"], here);
    assert!(plot.contains("100 values, 2 different") && plot.contains(&"█".repeat(40)), "{plot}");
    // What is missing is not counted.
    assert_eq!(json(&["hist", "cache_lookup.age"], here)[0]["numbers"]["count"], 90);
    fail(&["hist", "cache_lookup"], 1, &["write EVENT.FIELD", "the fields are: outcome, bytes, age, vtid, cpu_id"], here);
    fail(&["hist", "cache_lookup.byte"], 1, &["byte: no such field", "did you mean bytes?"], here);
    fail(&["hist", "cache_lookup.bytes", "of", "outcome"], 1, &["write `by FIELD`"], here);
    fail(&["hist", "cache_lookup.bytes", "by", "shelf"], 1, &["shelf: no such field"], here);
}

#[test]
fn latencies_are_those_that_were_written() {
    let (here, _) = here();
    let here = here.path();
    for by in [&[][..], &["by", "id"], &["by", "cpu_id"]] {
        let latency = &json(&[&["latency", "request_begin", "request_end", "--slowest", "2"], by].concat(), here)[0];
        let of = &latency["latency_ns"];
        assert_eq!((&of["count"], &of["min"], &of["max"]), (&(2 * REQUESTS).into(), &100_000.0.into(), &149_000.0.into()));
        let median = of["p50"].as_f64().unwrap();
        assert!((median - 124_000.0).abs() < 1240.0, "{median}");
        let slowest = latency["slowest"].as_array().unwrap();
        assert_eq!(slowest.len(), 2);
        assert_eq!(slowest[0]["begin_ns"], ORIGIN + 49_001_000);
        assert_eq!(slowest[1]["thread"], "worker-1");
        assert_eq!(latency["unpaired"], serde_json::json!({ "a": 0, "b": 0, "open": 0, "forgotten": 0, "without_field": 0 }));
    }
    let latency = &json(&["latency", "request_begin", "request_end", "--until", "+100us"], here)[0];
    assert_eq!(latency["unpaired"]["open"], 2);
    // From one event to the next of its kind.
    let every = &json(&["latency", "request_begin", "request_begin"], here)[0];
    assert_eq!(every["latency_ns"]["count"], 2 * (REQUESTS - 1));
    assert_eq!(every["latency_ns"]["max"], 1_000_000.0);
    fail(&["latency", "request_begin", "request_end", "by", "path"], 1, &["path: no such field"], here);
    fail(&["latency", "request_begin", "request_end", "by"], 1, &["by: the name of a field belongs behind it"], here);
    fail(
        &["latency", "request_begin", "by", "id"],
        1,
        &["request_begin: an event, and no function", "latency request_begin B"],
        here,
    );
    fail(&["latency", "request_begin", "request_end", "with", "id"], 1, &["with: write `by FIELD`"], here);
}

#[test]
fn diff_tells_what_changed() {
    let (here, events) = here();
    let here = here.path();
    sample::write(&here.join("slow"), Variation { slower: 3, discarded: 1 });
    let rows = json(&["diff", "shop.ringtrace", "slow", "--event", "*request*"], here);
    assert_eq!(rows.len(), 3);
    assert!(rows[..2].iter().all(|row| row["a"]["events"] == row["b"]["events"]), "{rows:?}");
    assert_eq!(rows[2]["total"]["b"]["losses"]["discarded_events"], 4);
    let shown = succeed(&["diff", "shop.ringtrace", "slow"], here);
    assert!(shown.contains(&format!("a: {events} events in ")) && shown.contains("×0.99  shop:request_end"), "{shown}");
    fail(&["diff", "shop.ringtrace", "nowhere"], 1, &["nowhere: "], here);
}

#[test]
fn check_finds_what_is_wrong() {
    let (here, events) = here();
    let here = here.path();
    let good = json(&["check"], here);
    assert_eq!((good.len(), &good[2]["events"], &good[2]["well"]), (3, &events.into(), &true.into()));
    sample::write(&here.join("lossy"), Variation { discarded: 3, ..Variation::default() });
    assert_eq!(json(&["check", "lossy"], here)[0]["discarded_events"], 6);
    // Header of the second packet of a stream with events; the opening packet has 128 bytes, and one without tells each loss.
    let file = here.join("lossy/stream_0");
    let bytes = std::fs::read(&file).unwrap();
    let packets: Vec<usize> = (0..bytes.len() - 4).filter(|at| bytes[*at..].starts_with(&[0xC1, 0x1F, 0xFC, 0xC1])).collect();
    assert_eq!(packets.len(), 6);
    let problems = |at: usize, value: u64| {
        let mut broken = bytes.clone();
        broken[packets[3] + at..][..8].copy_from_slice(&value.to_le_bytes());
        std::fs::write(&file, broken).unwrap();
        let output = run(&["check", "lossy"], here);
        assert_eq!(output.status.code(), Some(5), "{}", text(&output.stdout));
        text(&output.stdout)
    };
    assert!(problems(32, 5).contains("stream_0: packet 3, byte "), "time of begin");
    assert!(problems(32, 5).contains("cycles before the one in front of it ends"));
    assert!(problems(40, 7).contains("the packet ends before it begins"));
    assert!(problems(64, 1).contains("packet number 1 follows 2"));
    assert!(problems(72, 100).contains("discarded events goes back from 100 to 6"));
    // An index of it, good and then with one field of one entry changed.
    std::fs::write(&file, &bytes).unwrap();
    let mut index = trace_ctf::index::header().to_vec();
    for offset in packets {
        let (packet, _) = trace_ctf::packet::PacketHeader::decode(&bytes[offset..]).unwrap();
        index.extend(trace_ctf::index::Entry { offset: offset as u64, packet }.encode());
    }
    std::fs::create_dir(here.join("lossy/index")).unwrap();
    let told = |index: &[u8]| {
        std::fs::write(here.join("lossy/index/stream_0.idx"), index).unwrap();
        text(&run(&["check", "lossy"], here).stdout)
    };
    assert!(told(&index).contains("no problems"), "{}", told(&index));
    for (word, phrase) in ["offset", "size", "content size", "begin", "end", "count of discarded events"].iter().enumerate() {
        let mut wrong = index.clone();
        wrong[16 + 72 * 2 + 8 * word + 7] ^= 1;
        let said = told(&wrong);
        assert!(said.contains(&format!("stream_0.idx: entry 2 has another {phrase} than the packet")), "{said}");
    }
    assert!(told(&index[..index.len() - 72]).contains("5 packets, the stream has 6"));
    assert!(told(&index[..index.len() - 1]).contains("truncated"));
    std::fs::write(&file, &bytes[..bytes.len() - 1]).unwrap();
    let output = run(&["check", "lossy"], here);
    assert_eq!((output.status.code(), text(&output.stdout).contains("truncated")), (Some(5), true), "{}", text(&output.stdout));
}

/// Every event is there, and yet something is not as it says.
#[test]
fn check_finds_what_hides_no_event() {
    let (here, _) = here();
    let here = here.path();
    sample::write(&here.join("odd"), Variation::default());
    let file = here.join("odd/stream_0");
    let bytes = std::fs::read(&file).unwrap();
    let last = (0..bytes.len() - 4).rfind(|at| bytes[*at..].starts_with(&[0xC1, 0x1F, 0xFC, 0xC1])).unwrap();
    let events = succeed(&["view", "odd"], here);
    let problems = |bytes: &[u8], code: i32| {
        std::fs::write(&file, bytes).unwrap();
        let (checked, viewed) = (run(&["check", "odd"], here), run(&["view", "odd"], here));
        assert_eq!((checked.status.code(), viewed.status.code()), (Some(5), Some(code)), "{}", text(&viewed.stderr));
        assert_eq!(text(&viewed.stdout), events);
        text(&checked.stdout) + &text(&viewed.stderr)
    };
    // The last packet says that its padding is longer than the file.
    let mut longer = bytes.clone();
    let (header, _) = trace_ctf::packet::PacketHeader::decode(&bytes[last..]).unwrap();
    longer[last + 56..][..8].copy_from_slice(&(header.packet_bits + 8).to_le_bytes());
    let (said, size) = (problems(&longer, 3), header.packet_bits / 8);
    let expected = format!("stream_0: packet 3, byte {last}: truncated: {} bytes needed, {size} available", size + 1);
    assert_eq!(said.matches(&expected).count(), 2, "{expected} in {said}");
    // Another UUID, from some packet on or in all of them.
    let mut other = bytes.clone();
    other[last + 4] ^= 1;
    let expected = "another UUID than the metadata";
    assert!(problems(&other, 0).contains(&format!("stream_0: packet 3, byte {last}: the packet has {expected}")));
    for at in (0..bytes.len() - 4).filter(|at| bytes[*at..].starts_with(&[0xC1, 0x1F, 0xFC, 0xC1])) {
        other[at + 4] = bytes[at + 4] ^ 1;
    }
    let said = problems(&other, 0);
    assert!(
        said.contains("stream_0: packet 0, byte 0: the packet has") && said.contains("ringtrace: a stream has another UUID"),
        "{said}"
    );
    assert_eq!(said.matches(expected).count(), 2, "{said}");
}

#[test]
fn trees_have_durations() {
    let (here, events) = here();
    let here = here.path();
    let lines = json(&["tree"], here);
    // The end of a request is no line of its own.
    assert_eq!(lines.len() as u64, events - 2 * REQUESTS);
    let slices: Vec<_> = lines.iter().filter(|line| line["slice"] == true).collect();
    assert_eq!(slices.len() as u64, 2 * REQUESTS);
    assert_eq!((&slices[0]["name"], &slices[0]["duration_ns"]), (&"shop:request".into(), &100_000.into()));
    assert!(lines.iter().filter(|line| line["name"] == "shop:cache_lookup").all(|line| line["depth"] == 1));
    let text = succeed(&["tree", "--utc", "--min", "149us"], here);
    let expected = "\
22:13:20.049001000  149.0 µs  worker-0 4201    shop:request  id=98 path=\"/\" → id=98 status=200
22:13:20.049011000            worker-0 4201      shop:cache_lookup  outcome=HIT bytes=128 B age=12.25
22:13:20.049002000  149.0 µs  worker-1 4202    shop:request  id=99 path=\"/\" → id=99 status=200
22:13:20.049012000            worker-1 4202      shop:cache_lookup  outcome=HIT bytes=128 B age=12.25
";
    assert_eq!(text, expected);
    fail(&["tree", "--event", "cache_lookup"], 1, &["no two events of this trace begin and end", "latency A B"], here);
}

#[test]
fn exports_hold_every_event() {
    let (here, events) = here();
    let here = here.path();
    let lines = succeed(&["export", "--to", "jsonl"], here);
    assert_eq!(lines, succeed(&["view", "--json"], here));
    let csv = succeed(&["export", "--to", "csv", "--event", "cache_lookup", "--until", "+2ms"], here);
    let expected = "timestamp_ns,event,level,cpu_id,outcome,bytes,age,vtid\r\n\
                    1700000000000011000,shop:cache_lookup,DEBUG,0,MISS,64,,4201\r\n";
    assert!(csv.starts_with(expected) && csv.lines().count() == 5, "{csv}");

    succeed(&["export", "--to", "chrome", "-o", "shop.json"], here);
    let chrome: Value = serde_json::from_slice(&std::fs::read(here.join("shop.json")).unwrap()).unwrap();
    let rows = chrome["traceEvents"].as_array().unwrap();
    let count = |letter: &str| rows.iter().filter(|row| row["ph"] == letter).count() as u64;
    assert_eq!((count("B"), count("E"), count("i")), (2 * REQUESTS, 2 * REQUESTS, events - 4 * REQUESTS));
    let named: Vec<_> = rows.iter().filter(|row| row["ph"] == "M").map(|row| row["args"]["name"].as_str().unwrap()).collect();
    assert_eq!(named, ["shop", "worker-0", "worker-1"]);
    let first = rows.iter().find(|row| row["ph"] == "B").unwrap();
    assert_eq!((&first["name"], &first["pid"], &first["tid"]), (&"shop:request".into(), &4200.into(), &4201.into()));
    assert_eq!(first["args"], serde_json::json!({ "id": 0, "path": "/search" }));

    fail(&["export", "--to", "csv", "--flow", "id"], 1, &["--to perfetto"], here);
    fail(&["export", "--to", "perfetto", "-o", "nowhere/a"], 1, &["nowhere/a: "], here);
    fail(&["export", "--to", "perfetto", "--flow", "idd", "-o", "a"], 1, &["did you mean id or tid?"], here);
}

#[test]
fn a_report_is_one_page_with_everything() {
    let (here, events) = here();
    let here = here.path();
    succeed(&["report", "shop.ringtrace", "-o", "report.html"], here);
    let page = std::fs::read_to_string(here.join("report.html")).unwrap();
    assert!(!page.contains("http:") && !page.contains("https:") && !page.contains(" src="), "nothing from a network");
    let begin = page.find("id=\"data\">").unwrap() + "id=\"data\">".len();
    let data: Value = serde_json::from_str(&page[begin..begin + page[begin..].find("</script>").unwrap()]).unwrap();
    let threads = data["threads"].as_array().unwrap();
    let count = |thread: &Value| thread["events"].as_array().unwrap().iter().map(|count| count.as_u64().unwrap()).sum::<u64>();
    assert_eq!(threads.iter().map(count).sum::<u64>(), events);
    assert_eq!(data["slices"].as_array().unwrap().len() as u64, 2 * REQUESTS);
    assert_eq!(data["slices"][0][1], 149_000);
    for part in
        ["worker-0 4201", "<td>shop:request</td><td class=\"n\">100</td>", "shop:cache_lookup.bytes", "0 discarded events"]
    {
        assert!(page.contains(part), "{part}");
    }
    fail(&["report", "shop.ringtrace", "-o", "nowhere/report.html"], 1, &["nowhere/report.html: "], here);
}

/// Writes a trace of one thread: begins and ends of requests, each with its time and number.
fn write_requests(directory: &Path, records: impl Iterator<Item = (u64, bool, u64)>) {
    use trace_ctf::packet::{HEADER_LEN, PacketHeader};
    use trace_ctf::schema::{Clock, EventClass, EventHeader, Field, FieldClass, Schema, StreamClass, Trace};
    let clock = Clock { uuid: [3; 16], offset_s: 1_700_000_000, ..Clock::default() };
    let context = vec![Field::new("vtid", FieldClass::signed(32))];
    let streams = vec![StreamClass { id: 0, header: EventHeader::Full, context }];
    let mut schema = Schema::new(Trace { uuid: [6; 16], environment: Vec::new(), clock, streams }).unwrap();
    for (id, name) in [(0, "app:request_begin"), (1, "app:request_end")] {
        let fields = vec![Field::new("id", FieldClass::unsigned(64))];
        schema.add(EventClass { stream_id: 0, id, name: name.into(), level: None, source: None, fields }).unwrap();
    }
    let (mut content, mut last) = (Vec::new(), 0);
    for (time, is_end, id) in records {
        EventHeader::Full.encode(u32::from(is_end), time, last, &mut content);
        content.extend(7_i32.to_le_bytes());
        content.extend(id.to_le_bytes());
        last = time;
    }
    let bits = (HEADER_LEN + content.len()) as u64 * 8;
    let header = PacketHeader { timestamp_end: last, content_bits: bits, packet_bits: bits, ..PacketHeader::default() };
    std::fs::create_dir_all(directory).unwrap();
    std::fs::write(directory.join("metadata"), trace_ctf::metadata::write(&schema)).unwrap();
    std::fs::write(directory.join("stream"), [&header.encode(&[6; 16])[..], &content].concat()).unwrap();
}

#[test]
fn however_many_wait_none_is_forgotten() {
    let here = tempfile::tempdir().unwrap();
    // All begin before the first one ends: more at once than are kept in memory. Each takes a time of its own.
    const COUNT: u64 = 140_000;
    let begins = (0..COUNT).map(|id| (1000 + id, false, id));
    let ends = (0..COUNT).map(|id| (1_000_000 + 3 * id, true, id));
    write_requests(&here.path().join("trace"), begins.chain(ends));
    let command = ["latency", "request_begin", "request_end", "by", "id", "--in", "trace", "--slowest", "2"];
    let output = run(&[&command[..], &["--json"]].concat(), here.path());
    assert_eq!(text(&output.stderr).lines().count(), 1, "what is told is told once: {}", text(&output.stderr));
    let row: Value = serde_json::from_slice(&output.stdout).unwrap();
    let of = &row["latency_ns"];
    let took = |id: u64| (1_000_000 + 3 * id) - (1000 + id);
    assert_eq!((&of["count"], &of["min"]), (&COUNT.into(), &(took(0) as f64).into()), "{row}");
    let mean = (0..COUNT).map(took).sum::<u64>() as f64 / COUNT as f64;
    assert!((of["mean"].as_f64().unwrap() - mean).abs() < 1e-3, "{row}");
    assert_eq!(row["unpaired"], serde_json::json!({ "a": 0, "b": 0, "open": 0, "forgotten": 0, "without_field": 0 }));
    let slowest = row["slowest"].as_array().unwrap().iter().map(|pair| pair["by"]["id"].as_str().unwrap().to_owned());
    assert_eq!(slowest.collect::<Vec<_>>(), [(COUNT - 1).to_string(), (COUNT - 2).to_string()]);
}

#[test]
fn slices_that_are_too_many_to_draw_are_not_idleness() {
    let here = tempfile::tempdir().unwrap();
    // The short ones take all of the first time, and then a half of some; the long ones take the rest.
    let slice = |begin: u64, took: u64, id: u64| [(begin, false, id), (begin + took, true, id)];
    let full = (0..5_000).flat_map(|id| slice(1000 * (id + 1), 1000, id));
    let half = (0..5_000).flat_map(|id| slice(6_001_000 + 1000 * id, 500, id));
    let long = (0..20_000).flat_map(|id| slice(12_001_000 + 2000 * id, 2000, id));
    write_requests(&here.path().join("trace"), full.chain(half).chain(long));
    succeed(&["report", "trace", "-o", "report.html"], here.path());
    let page = std::fs::read_to_string(here.path().join("report.html")).unwrap();
    assert!(page.contains("The 20000 longest slices are drawn one by one. The 10000 others are merged"), "it says so");
    let begin = page.find("id=\"data\">").unwrap() + "id=\"data\">".len();
    let data: Value = serde_json::from_str(&page[begin..begin + page[begin..].find("</script>").unwrap()]).unwrap();
    assert_eq!(data["slices"].as_array().unwrap().len(), 20_000);
    let (duration, bins) = (data["duration_ns"].as_f64().unwrap(), data["bins"].as_f64().unwrap());
    let mut shares = vec![0.0; bins as usize];
    for bin in data["threads"][0]["merged"][0].as_array().unwrap() {
        shares[bin[0].as_u64().unwrap() as usize] = bin[1].as_f64().unwrap();
    }
    for (place, share) in shares.into_iter().enumerate() {
        let (from, to) = (place as f64 * duration / bins, (place + 1) as f64 * duration / bins);
        // Relative to the first event; bins on a border have a part.
        let expected = match () {
            () if to < 4_999_000.0 => 1.0,
            () if from > 5_001_000.0 && to < 5_999_000.0 => 0.0,
            () if from > 6_001_000.0 && to < 10_999_000.0 => 0.5,
            () if from > 11_001_000.0 => 0.0,
            () => continue,
        };
        assert!((share - expected).abs() < 0.02, "{place}: {share} {expected}");
    }
}

#[test]
fn trees_are_shown_in_part() {
    let here = tempfile::tempdir().unwrap();
    let here = here.path();
    // The first one has two in it, of which the first has another; then one by itself.
    let records =
        [(1, false, 1), (2, false, 2), (3, false, 3), (4, true, 3), (8, true, 2), (9, false, 4), (10, true, 4), (30, true, 1)];
    let behind = [(40, false, 5), (45, true, 5)];
    write_requests(&here.join("trace"), records.into_iter().chain(behind).map(|(at, is_end, id)| (1000 * at, is_end, id)));
    let shown = |arguments: &[&str]| {
        let lines = json(&[&["tree", "trace"], arguments].concat(), here);
        let shown = |line: &Value| {
            (line["depth"].as_u64().unwrap(), line["fields"]["id"].as_u64().unwrap(), line["shorter"].as_u64().unwrap())
        };
        lines.iter().map(shown).collect::<Vec<_>>()
    };
    assert_eq!(shown(&[]), [(0, 1, 0), (1, 2, 0), (2, 3, 0), (1, 4, 0), (0, 5, 0)]);
    assert_eq!(shown(&["--depth", "1"]), [(0, 1, 0), (0, 5, 0)]);
    assert_eq!(shown(&["--depth", "2"]), [(0, 1, 0), (1, 2, 0), (1, 4, 0), (0, 5, 0)]);
    assert_eq!(shown(&["--min", "2us"]), [(0, 1, 1), (1, 2, 1), (0, 5, 0)]);
    assert_eq!(shown(&["--min", "2us", "--depth", "2"]), [(0, 1, 1), (1, 2, 0), (0, 5, 0)]);
    assert_eq!(shown(&["--min", "10us"]), [(0, 1, 2)]);
    assert_eq!(shown(&["--head", "1"]), [(0, 1, 0), (1, 2, 0), (2, 3, 0), (1, 4, 0)]);
    assert_eq!(shown(&["--head", "0"]), []);
    assert_eq!(shown(&["--function", "app:re?uest", "--depth", "1"]), [(0, 1, 0), (0, 5, 0)]);
    let text = succeed(&["tree", "trace", "--min", "10us"], here);
    assert!(text.ends_with("app:request  id=1 → id=1  (2 shorter calls)\n"), "{text}");
    fail(&["tree", "trace", "--function", "reqest"], 1, &["reqest: no call has this name", "did you mean app:request?"], here);
}

#[test]
fn a_directory_may_stand_anywhere() {
    let (here, events) = here();
    let here = here.path();
    let requests = (0..100).map(|number| (1000 * number, number % 2 == 1, number / 2));
    write_requests(&here.join("below/other"), requests);
    std::fs::create_dir_all(here.join("empty/also")).unwrap();
    // Names, although directories are called so.
    ["request_begin", "by"].iter().for_each(|name| std::fs::create_dir(here.join(name)).unwrap());

    let latency = json(&["latency", "request_begin", "request_end", "by", "id", "--in", "shop.ringtrace"], here);
    for words in [
        ["shop.ringtrace", "request_begin", "request_end", "by", "id"],
        ["request_begin", "shop.ringtrace", "request_end", "by", "id"],
        ["request_begin", "request_end", "by", "id", "./shop.ringtrace/"],
    ] {
        assert_eq!(json(&[&["latency"], &words[..]].concat(), here), latency, "{words:?}");
    }
    let hist = json(&["hist", "cache_lookup.bytes", "by", "outcome", "--in", "shop.ringtrace"], here);
    assert_eq!(json(&["hist", "shop.ringtrace", "cache_lookup.bytes", "by", "outcome"], here), hist);
    assert_eq!(json(&["hist", "cache_lookup.bytes by outcome", "shop.ringtrace"], here), hist);
    for verb in ["view", "stats", "top", "tree", "check", "formats"] {
        assert_eq!(succeed(&[verb, "--in", "below"], here), succeed(&[verb, "below/other"], here), "{verb}");
    }
    for command in [&["report"][..], &["trim"], &["convert", "--format", "ctf2"], &["export", "--to", "perfetto"]] {
        let made = format!("{}.made", command[0]);
        succeed(&[command, &["-o", &made, "--in", "below/other"]].concat(), here);
        assert!(here.join(made).exists());
    }
    assert_eq!(succeed(&["view", "trim.made"], here), succeed(&["view", "below"], here));

    // Several are one, in the order of time; what lies in two of them is read once.
    for directories in
        [&["shop.ringtrace", "below"][..], &["below/other", "shop.ringtrace", "below"], &["below", "--in", "shop.ringtrace"]]
    {
        let all = json(&[&["view"], directories].concat(), here);
        assert_eq!(all.len() as u64, events + 100);
        assert!(all.is_sorted_by_key(|event| event["timestamp_ns"].as_i64()));
        assert_eq!(json(&[&["check"], directories].concat(), here).last().unwrap()["events"], events + 100);
    }
    for command in [&["trim"][..], &["convert", "--format", "ctf2"]] {
        let command = [command, &["-o", "two", "shop.ringtrace", "below"]].concat();
        fail(&command, 1, &["shop.ringtrace, below: one directory is wanted"], here);
    }

    let nothing = "empty: no trace here: no metadata file in it or below it";
    for command in [
        &["view", "empty"][..],
        &["stats", "--in", "empty"],
        &["view", "shop.ringtrace", "empty"],
        &["latency", "request_begin", "request_end", "empty"],
        &["latency", "empty", "request_begin", "request_end"],
        &["hist", "cache_lookup.bytes", "empty"],
        &["hist", "empty", "cache_lookup.bytes"],
    ] {
        fail(command, 1, &[nothing], here);
    }
    for command in
        [&["view", "no/where"][..], &["latency", "no/where", "request_end"], &["hist", "cache_lookup.bytes", "no/where"]]
    {
        fail(command, 1, &["no/where: No such file or directory"], here);
    }
    let neither = "where: write `by FIELD`, or a directory in which there is a trace";
    fail(&["hist", "cache_lookup.bytes", "where"], 1, &[neither], here);
    fail(&["latency", "shop.ringtrace"], 1, &["name the event at which time begins"], here);
    fail(&["hist", "cache_lookup.bytes", "no/where"], 1, &["no/where: No such file or directory"], &here.join("empty"));
}

#[test]
fn a_trace_that_cannot_be_opened_hides_no_other() {
    let (here, events) = here();
    let here = here.path();
    sample::write(&here.join("broken"), Variation::default());
    std::fs::write(here.join("broken/metadata"), "/* CTF 1.8 */ trace { major = ").unwrap();
    for arguments in
        [&["view", "."][..], &["view", "broken", "shop.ringtrace"], &["stats", "."], &["hist", "cache_lookup.bytes", "."]]
    {
        let output = run(arguments, here);
        assert_eq!(output.status.code(), Some(3), "{arguments:?}: {}", text(&output.stderr));
        assert!(text(&output.stderr).contains("broken/metadata: "), "{}", text(&output.stderr));
    }
    assert_eq!(text(&run(&["view", "."], here).stdout).lines().count() as u64, events);
    fail(&["view", "broken"], 1, &["the metadata is damaged"], here);
}

#[test]
fn a_function_that_is_not_there_is_called_what_it_was_called() {
    let (here, _) = here();
    fail(&["latency", "nothing", "shop.ringtrace"], 1, &["error: nothing: no event has this name"], here.path());
}
