//! What users and machines do wrong: each mistake gets a clear error or a count, and the program goes on.

mod common;

use ringtrace::{Context, Session, probe, tracepoint};
use std::path::Path;
use std::process::Command;

#[ringtrace::tracepoint(record)]
fn request(id: u64, path: &str);

#[tracepoint(record)]
fn enclosed_in_texts(front: &str, id: u64, behind: &str);

#[ringtrace::tracepoint(record)]
fn blob(bytes: &[u8]);

/// Nobody wrote a probe for it.
#[ringtrace::tracepoint]
fn unprobed(id: u64);

#[derive(ringtrace::Event)]
struct Big {
    numbers: [u64; 200],
}

#[ringtrace::tracepoint]
fn big(seed: u64);

#[ringtrace::probe(big)]
fn record_big(seed: u64) -> Big {
    Big { numbers: [seed; 200] }
}

fn refused(rules: &str) -> String {
    let error = Session::builder("refused").enable(rules).print().start().expect_err("the rule is wrong");
    assert!(error.is_rule(), "{error}");
    error.to_string()
}

#[test]
fn an_unknown_name_gets_the_names_near_it() {
    let message = refused("mistakes:reqeust");
    assert!(message.contains("no probe is called `mistakes:reqeust`; did you mean `mistakes:request`?"), "{message}");
    let message = refused("nothing-like-it");
    assert!(message.contains("no probe is called `nothing-like-it`"), "{message}");
}

#[test]
fn the_end_of_a_name_is_enough() {
    let session = Session::builder("suffix").enable("request").print().start().expect("`request` is unique");
    assert!(request::enabled());
    drop(session);
}

#[test]
fn a_pattern_without_a_match_is_a_warning() {
    let session = Session::builder("pattern").enable("nowhere:*").print().start().expect("a pattern may match later");
    assert_eq!(session.warnings(), ["`nowhere:*` matches no probe"]);
}

#[test]
fn a_level_that_no_probe_has_is_a_warning() {
    let session = Session::builder("level").enable("mistakes:request level crit").print().start().expect("a session");
    let most = |name: &str| format!("takes no probe: the most severe that it names, mistakes:{name}, has level info");
    assert_eq!(session.warnings(), [format!("`mistakes:request level crit` {}", most("request"))]);
    session.enable("mistakes:blob level alert; !mistakes:big level crit; mistakes:big level info").expect("they are rules");
    assert_eq!(session.warnings()[1..], [format!("`mistakes:blob level alert` {}", most("blob"))]);
}

#[test]
fn a_tracepoint_without_a_probe_says_what_to_do() {
    let message = refused("mistakes:unprobed");
    for part in ["mistakes:unprobed is declared at tests/mistakes.rs:", "no probe for it is linked", "#[tracepoint(record)]"] {
        assert!(message.contains(part), "{message}");
    }
    assert!(!unprobed::enabled());
    unprobed(1);
}

#[tracepoint(record)]
fn twice(id: u64);

/// By its tracepoint's name, which the recording declaration has taken.
#[probe(twice)]
fn again(_id: u64) {}

#[test]
fn two_probes_of_one_name_are_named_with_both_places() {
    let session = Session::builder("duplicates").enable("mistakes:twice").print().start().expect("a session");
    let warnings = session.warnings();
    assert_eq!(warnings.len(), 1, "{warnings:?}");
    assert!(warnings[0].contains("two probes are called mistakes:twice"), "{warnings:?}");
    assert_eq!(warnings[0].matches("tests/mistakes.rs:").count(), 2, "{warnings:?}");
    twice(1);
}

#[tracepoint]
fn generic<T: ringtrace::Field + Copy>(value: T) -> T {
    value
}

#[test]
fn many_ad_hoc_events_of_one_name_are_nothing_to_warn_of() {
    let session = Session::builder("many").enable("many:*; mistakes:generic").print().start().expect("a session");
    assert_eq!(session.warnings(), [""; 0]);
    ringtrace::event!("many:same", a = generic(1));
    ringtrace::event!("many:same", b = generic("x"));
}

#[test]
fn a_wrong_rule_is_pointed_at() {
    let message = refused("mistakes:* levle info");
    assert!(message.contains("found `levle`") && message.contains("\n             ^^^^^\n"), "{message}");
    let message = refused("mistakes:request if idd > 4");
    assert!(message.contains("no field is called `idd`") && message.contains("\n                      ^^^\n"), "{message}");
}

#[test]
fn two_sessions_of_one_name() {
    let first = Session::builder("twin").enable("mistakes:request").print().start().expect("a session");
    let error = Session::builder("twin").print().start().expect_err("the name is taken");
    assert!(error.is_session_exists() && error.to_string().contains("`twin` exists already"), "{error}");
    drop(first);
    Session::builder("twin").print().start().expect("the name is free again");
}

#[test]
fn too_little_memory_shows_the_arithmetic() {
    let error = Session::builder("tiny").memory(10_000).print().start().expect_err("10 000 bytes are too few");
    assert!(error.is_memory(), "{error}");
    let message = error.to_string();
    assert!(
        message.contains("10000 bytes of memory are too small") && message.contains("give the session at least"),
        "{message}"
    );
}

#[test]
fn an_unwritable_directory_is_named() {
    let error = Session::builder("nowhere").output("/proc/no-such-place/trace").start().expect_err("it cannot be written");
    assert!(error.is_io() && error.path() == Some(Path::new("/proc/no-such-place/trace")), "{error}");
    assert!(error.to_string().contains("cannot create the trace directory /proc/no-such-place/trace"), "{error}");
}

#[test]
fn a_record_beyond_the_limit_is_cut_or_counted() {
    let directory = tempfile::tempdir().expect("a directory");
    let path = directory.path().join("trace");
    let builder = Session::builder("limit").enable("mistakes:request; mistakes:enclosed_in_texts; mistakes:blob; mistakes:big");
    let session = builder.sub_buffer(4096).memory(1 << 20).context(Context::NONE).output(&path).start().expect("a session");
    // The largest record is a quarter of 4096 bytes: a class of 1600 can never be recorded.
    let warnings = session.warnings();
    assert!(
        warnings.iter().any(|w| w.contains("mistakes:big is not recorded") && w.contains("larger sub-buffers")),
        "{warnings:?}"
    );
    big(1);
    // Texts are cut at a character and marked, slices cut at an element; both are counted.
    request(1, &"ä".repeat(3000));
    blob(&[7; 5000]);
    request(2, "short");
    enclosed_in_texts("front", 3, &"b".repeat(3000));
    enclosed_in_texts(&"f".repeat(3000), 4, "behind");
    enclosed_in_texts("front", 5, "behind");
    let statistics = session.stop().expect("it stops");
    assert_eq!((statistics.events, statistics.cut), (6, 4), "{statistics}");
    drop(session);
    let contents = common::read_by_both(&path);
    let paths = contents.values("mistakes:request", "path");
    assert!(paths[0].starts_with("ää") && paths[0].ends_with("ä…") && paths[0].len() > 900 && paths[0].len() < 1024, "{paths:?}");
    assert_eq!(paths[1], "short");
    assert_eq!(contents.values("mistakes:enclosed_in_texts", "id"), ["3", "4", "5"]);
    let [front, behind] = ["front", "behind"].map(|name| contents.values("mistakes:enclosed_in_texts", name));
    assert_eq!((front[0].as_str(), front[2].as_str(), behind[2].as_str()), ("front", "front", "behind"));
    assert!(behind[0].ends_with("b…") && front[1].ends_with("f…") && front[1].len() > 800, "{front:?} {behind:?}");
    assert_eq!(behind[1], "", "nothing is left for it");
}

#[test]
fn a_full_disk_ends_the_recording_and_keeps_what_is_whole() {
    let name = "a_full_disk_ends_the_recording_and_keeps_what_is_whole";
    if common::is_child(name) {
        // A limit on the size of files does what a full disk does: write(2) is short, then fails.
        let path = std::env::var_os("RINGTRACE_TEST_PATH").expect("a path");
        let session =
            Session::builder("full").enable("mistakes:request").memory(8 << 20).sub_buffer(16 << 10).output(path).start();
        let session = session.expect("a session");
        limit_file_size(200_000); // only now: the rings are a file too
        for id in 0..200_000 {
            request(id, "a path that takes some room in the file");
        }
        let error = session.stop().expect_err("the file cannot grow");
        assert!(error.is_io(), "{error}");
        assert!(error.to_string().contains("what was written before is a complete trace"), "{error}");
        let again = session.start().expect_err("a failed output stays failed");
        assert!(again.is_io());
        return;
    }
    let directory = tempfile::tempdir().expect("a directory");
    let path = directory.path().join("trace");
    // What could not be written is kept in the rings, whose directory goes with the test.
    let rings = tempfile::tempdir_in("/dev/shm").expect("a directory in memory");
    let mut child = common::child(name);
    let output = child.env("RINGTRACE_TEST_PATH", &path).env("XDG_RUNTIME_DIR", rings.path()).output().expect("the child runs");
    let messages = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{messages}");
    assert!(messages.contains("recording ended"), "{messages}");
    assert!(messages.contains("is kept in"), "{messages}");
    let contents = common::read_by_both(&path);
    assert!(contents.events() > 1000, "{} events were kept", contents.events());
    let ids = contents.numbers("mistakes:request", "id");
    assert!(ids.windows(2).all(|w| w[0] < w[1]));
}

/// Makes writes beyond `bytes` fail with EFBIG, without the signal that goes with it.
#[expect(unsafe_code, reason = "setrlimit and signal")]
fn limit_file_size(bytes: libc::rlim_t) {
    // SAFETY: both calls concern this process only.
    unsafe {
        libc::signal(libc::SIGXFSZ, libc::SIG_IGN);
        let limit = libc::rlimit { rlim_cur: bytes, rlim_max: libc::RLIM_INFINITY };
        assert_eq!(libc::setrlimit(libc::RLIMIT_FSIZE, &limit), 0);
    }
}

#[test]
fn an_error_in_the_environment_leaves_the_program_alone() {
    let name = "an_error_in_the_environment_leaves_the_program_alone";
    if common::is_child(name) {
        ringtrace::init();
        ringtrace::init();
        request(1, "/");
        println!("the program goes on");
        return;
    }
    let run = |value: &str| -> (String, String) {
        let output = common::child(name).env("RINGTRACE", value).output().expect("the child runs");
        assert!(output.status.success());
        (String::from_utf8_lossy(&output.stdout).into_owned(), String::from_utf8_lossy(&output.stderr).into_owned())
    };
    let (out, messages) = run("mistakes:* max 3");
    assert!(out.contains("the program goes on"));
    assert_eq!(messages.matches("ringtrace:").count(), 1, "{messages}");
    assert!(messages.contains("this is no rate\n  mistakes:* max 3\n                 ^\n  such as `max 1000/s`"), "{messages}");
    let (_, messages) = run("off");
    assert_eq!(messages, "");
    let (_, messages) = run("print");
    assert!(messages.contains("two probes are called mistakes:twice"), "{messages}");
    assert!(messages.contains("mistakes:request") && messages.contains("path=\"/\""), "{messages}");
    let (_, messages) = run("print; mistakes:request level crit");
    assert!(messages.contains("ringtrace: `mistakes:request level crit` takes no probe"), "{messages}");
}

#[test]
fn off_refuses_sessions() {
    let name = "off_refuses_sessions";
    if common::is_child(name) {
        let error = Session::builder("x").print().start().expect_err("RINGTRACE=off");
        assert!(error.is_off(), "{error}");
        return;
    }
    let status: std::process::ExitStatus = Command::status(common::child(name).env("RINGTRACE", "off")).expect("the child runs");
    assert!(status.success());
}

fn provide_none() -> u64 {
    panic!("a provider")
}

#[test]
fn a_context_provider_that_panics_is_contained() {
    let name = "a_context_provider_that_panics_is_contained";
    if !common::is_child(name) {
        let output = common::child(name).env("RUST_BACKTRACE", "0").output().expect("the child runs");
        let messages = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{}: {messages}", output.status);
        // By the program's own hook, and by us.
        for said in ["a provider", "ringtrace: the provider of the context field `broken` panicked; it is 0 from now on"] {
            assert_eq!(messages.lines().filter(|line| line.contains(said)).count(), 1, "{messages}");
        }
        return;
    }
    let directory = tempfile::tempdir().expect("a directory");
    let (recorded, filtered) = (directory.path().join("recorded"), directory.path().join("filtered"));
    let broken = Context::provide("broken", provide_none).expect("the first");
    let of_records = Session::builder("of-records").enable("mistakes:request").context(Context::VTID | broken).output(&recorded);
    let of_records = of_records.start().expect("a session");
    (0..10).for_each(|id| request(id, "/"));
    while of_records.warnings().is_empty() {
        std::thread::yield_now(); // until the consumer's thread has told
    }
    assert_eq!(of_records.warnings(), ["the provider of the context field `broken` panicked; it is 0 from now on"]);
    let of_filters = Session::builder("of-filters").enable("mistakes:request if $ctx.broken == 0").output(&filtered);
    let of_filters = of_filters.start().expect("a session");
    (10..20).for_each(|id| request(id, "/"));
    for (session, path, expected) in [(of_records, &recorded, 0..20), (of_filters, &filtered, 10..20)] {
        let statistics = session.stop().expect("it stops");
        assert_eq!((statistics.events, statistics.lost.total()), (expected.end - expected.start, 0));
        let contents = common::read_by_both(path);
        assert!(contents.numbers("mistakes:request", "id").into_iter().eq(expected));
        assert_eq!(
            contents.lines.iter().filter(|line| line.contains("broken = 0")).count(),
            if path == &recorded { 20 } else { 0 }
        );
    }
}

/// Events whose destructors panic, of every shape that is recorded in a way of its own.
mod dropped {
    use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

    pub(super) static DROPS: AtomicU64 = AtomicU64::new(0);

    macro_rules! shapes {
        ($($tracepoint:ident, $probe:ident: |$id:ident, $text:ident| $event:expr => $output:ty, dropped $dropped:ty;)*) => {
            $(
                #[ringtrace::tracepoint]
                fn $tracepoint(id: u64, text: &str);

                #[ringtrace::probe($tracepoint)]
                fn $probe($id: u64, $text: &str) -> $output {
                    $event
                }

                impl Drop for $dropped {
                    fn drop(&mut self) {
                        DROPS.fetch_add(1, Relaxed);
                        panic!("a destructor");
                    }
                }
            )*

            pub(super) const SHAPES: u64 = [$(stringify!($tracepoint)),*].len() as u64;

            /// Fires each.
            pub(super) fn fire(text: &str) {
                $($tracepoint(7, text);)*
            }

            pub(super) fn is_any_attached() -> bool {
                [$($tracepoint::enabled()),*].contains(&true)
            }
        };
    }

    shapes! {
        words, record_words: |id, _text| Words { id } => Words, dropped Words;
        skipping, record_skipping: |id, _text| Some(Skipping { id }) => Option<Skipping>, dropped Skipping;
        large, record_large: |id, _text| Large { id, numbers: [id; 4] } => Large, dropped Large;
        tail, record_tail: |_id, text| Tail { text } => Tail<'_>, dropped Tail<'_>;
        long_tail, record_long_tail: |id, text| LongTail { id, text } => LongTail<'_>, dropped LongTail<'_>;
        texts, record_texts: |id, text| Texts { front: text, id, text } => Texts<'_>, dropped Texts<'_>;
        huge, record_huge: |id, _text| Huge { id, numbers: [id; 40] } => Huge, dropped Huge;
        both, record_both: |id, _text| Both { id, bomb: Bomb } => Both, dropped Both;
    }

    #[derive(ringtrace::Event)]
    struct Words {
        id: u64,
    }

    #[derive(ringtrace::Event)]
    struct Skipping {
        id: u64,
    }

    #[derive(ringtrace::Event)]
    struct Large {
        id: u64,
        numbers: [u64; 4],
    }

    #[derive(ringtrace::Event)]
    struct Tail<'a> {
        text: &'a str,
    }

    #[derive(ringtrace::Event)]
    struct LongTail<'a> {
        id: u64,
        text: &'a str,
    }

    #[derive(ringtrace::Event)]
    struct Texts<'a> {
        front: &'a str,
        id: u64,
        #[field(sensitive)]
        text: &'a str,
    }

    #[derive(ringtrace::Event)]
    struct Huge {
        id: u64,
        numbers: [u64; 40],
    }

    #[derive(ringtrace::Event)]
    struct Both {
        id: u64,
        #[field(debug)]
        bomb: Bomb,
    }

    /// A field that panics, so that the destructor of its event is the second to do so.
    struct Bomb;

    impl std::fmt::Debug for Bomb {
        fn fmt(&self, _: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
            panic!("a field")
        }
    }
}

#[test]
fn a_destructor_that_panics_is_contained_whatever_the_rules_are() {
    let name = "a_destructor_that_panics_is_contained_whatever_the_rules_are";
    const RULES: &str = "RINGTRACE_TEST_RULES";
    const SUB_BUFFER: &str = "RINGTRACE_TEST_SUB_BUFFER";
    if !common::is_child(name) {
        let [accepted, rejected] =
            ["==", "!="].map(|is| format!("mistakes:dropped::* if id {is} 7; mistakes:dropped::tail if text {is} \"text\""));
        for rules in ["mistakes:dropped::*", "mistakes:dropped::* max 1000/s", "", &accepted, &rejected] {
            for (sessions, sub_buffer) in [("1", "65536"), ("2", "65536"), ("1", "4096"), ("2", "4096")] {
                let scenario = format!("{sessions} with `{rules}`, {sub_buffer}");
                let mut child = common::child(name);
                child
                    .env("RUST_BACKTRACE", "0")
                    .env(SUB_BUFFER, sub_buffer)
                    .env("RINGTRACE_TEST_SESSIONS", sessions)
                    .env(RULES, rules);
                let output = child.output().expect("the child runs");
                let messages = String::from_utf8_lossy(&output.stderr);
                assert!(output.status.success(), "{scenario}: {}: {messages}", output.status);
            }
        }
        return;
    }
    let variable = |name: &str| std::env::var(name).expect("a variable");
    let (rules, sub_buffer) = (variable(RULES), variable(SUB_BUFFER).parse::<u32>().expect("a size"));
    // A record has a quarter of a sub-buffer at most: in the smaller ones texts are cut.
    let text = if sub_buffer < 8192 && !rules.contains("if") { "text ".repeat(400) } else { "text".to_owned() };
    let sessions: Vec<Session> = ["a", "b"][..variable("RINGTRACE_TEST_SESSIONS").parse().expect("a number")]
        .iter()
        .filter(|_| !rules.is_empty())
        .map(|name| {
            Session::builder(name).enable(&rules).sub_buffer(sub_buffer).memory(4 << 20).print().start().expect("a session")
        })
        .collect();
    let _aggregation = ringtrace::Aggregation::of("mistakes:dropped::*");
    let _aggregation = sessions.is_empty().then(|| _aggregation.start().expect("an aggregation"));
    dropped::fire(&text);
    dropped::fire(&text); // each probe is out of service
    assert_eq!(dropped::DROPS.load(std::sync::atomic::Ordering::Relaxed), dropped::SHAPES);
    while dropped::is_any_attached() {
        std::thread::yield_now(); // until the consumer's thread has detached them
    }
    let shapes = ringtrace::registry::probes().filter(|p| p.name().to_string().starts_with("mistakes:dropped::"));
    let panics: u64 = shapes.map(|p| p.panics.load(std::sync::atomic::Ordering::Relaxed)).sum();
    let of_fields = u64::from(!rules.contains("!="));
    assert_eq!(panics, dropped::SHAPES + of_fields);
    for session in sessions {
        let statistics = session.stop().expect("it stops");
        // What was recorded, or rejected, before its destructor panicked is no loss.
        let recorded = of_fields * (dropped::SHAPES - 1);
        assert_eq!((statistics.events, statistics.lost.panicked, statistics.lost.total()), (recorded, of_fields, of_fields));
        assert_eq!(statistics.cut > 0, text.len() > 4);
    }
}
