//! A converted trace says what the one before said.

mod sample;

use std::fs;
use std::path::Path;
use std::process::{Command, Output};

use sample::Variation;

fn run(arguments: &[&str], directory: &Path) -> Output {
    Command::new(env!("CARGO_BIN_EXE_ringtrace")).args(arguments).env("TZ", "UTC").current_dir(directory).output().unwrap()
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

#[test]
fn the_streams_stay_and_say_the_same() {
    let here = tempfile::tempdir().unwrap();
    let here = here.path();
    for name in ["all/shop", "all/deep/second"] {
        sample::write(&here.join(name), Variation { discarded: 3, ..Variation::default() });
        fs::create_dir(here.join(name).join("index")).unwrap();
        fs::write(here.join(name).join("index/other.idx"), "whatever is there").unwrap();
    }
    let converted = run(&["convert", "all", "-o", "new", "--format", "ctf2"], here);
    assert_eq!(converted.status.code(), Some(0), "{}", text(&converted.stderr));
    assert!(text(&converted.stderr).contains("new/deep/second: 4 event classes in 1 stream class, now ctf2"));
    for file in ["stream_0", "stream_1", "index/other.idx"] {
        let read = |trace: &str| fs::read(here.join(trace).join(file)).unwrap();
        assert_eq!(read("new/deep/second"), read("all/deep/second"), "{file}");
    }
    assert_eq!(fs::read(here.join("new/shop/metadata")).unwrap()[0], 0x1E);
    // Back again, and what has the form already keeps its words.
    for (from, to, format) in [("new", "back", "ctf1.8"), ("all", "same", "ctf1.8")] {
        let converted = run(&["convert", from, "-o", to, "--format", format, "--json"], here);
        let line: serde_json::Value = serde_json::from_str(text(&converted.stdout).lines().next().unwrap()).unwrap();
        assert_eq!((&line["converted"], &line["event_classes"]), (&(from == "new").into(), &4.into()));
    }
    let same = |trace: &str| fs::read(here.join(trace).join("shop/metadata")).unwrap();
    assert_eq!(same("same"), same("all"));
    let shown = |verb: &[&str], trace: &str| text(&run(&[verb, &[trace]].concat(), here).stdout);
    for verb in [&["view"][..], &["view", "--json"], &["formats"], &["stats"]] {
        for trace in ["new", "back"] {
            assert_eq!(shown(verb, trace), shown(verb, "all"), "{verb:?} {trace}");
        }
    }
    let theirs = |trace: &str| {
        let output = Command::new("babeltrace2").args(["--clock-gmt", trace]).current_dir(here).output().unwrap();
        assert!(output.status.success(), "{}", text(&output.stderr));
        text(&output.stdout)
    };
    assert_eq!(theirs("back/shop"), theirs("all/shop"));
}

#[test]
fn what_cannot_be_said_leaves_nothing_behind() {
    let here = tempfile::tempdir().unwrap();
    let here = here.path();
    fs::create_dir(here.join("trace")).unwrap();
    let fragment = |json: &str| format!("\u{1E}{json}\n");
    let metadata = [
        r#"{"type":"preamble","version":2}"#,
        r#"{"type":"trace-class"}"#,
        r#"{"type":"data-stream-class"}"#,
        r#"{"type":"event-record-class","name":"app:it","payload-field-class":{"type":"structure","member-classes":[
            {"name":"count","field-class":{"type":"variable-length-unsigned-integer"}}]}}"#,
    ];
    fs::write(here.join("trace/metadata"), metadata.map(fragment).concat()).unwrap();
    fs::write(here.join("trace/stream"), [5, 6]).unwrap();
    let refused = run(&["convert", "trace", "-o", "out", "--format", "ctf1.8"], here);
    let said = text(&refused.stderr);
    assert!(
        refused.status.code() == Some(1) && said.contains("trace: app:it, count: CTF 1.8 has no integers of variable length"),
        "{said}"
    );
    assert!(!here.join("out").exists());
    fs::create_dir(here.join("out")).unwrap();
    let refused = run(&["convert", "trace", "-o", "out", "--format", "ctf2"], here);
    assert!(refused.status.code() == Some(1) && text(&refused.stderr).contains("out: File exists"), "{}", text(&refused.stderr));
    assert_eq!(run(&["convert", "trace", "-o", "out"], here).status.code(), Some(2));
}
