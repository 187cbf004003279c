//! A probe module with a probe that does not return before a line comes.

ringtrace::probe_module!();

#[ringtrace::probe(storage::page_evicted, name = "stuck:quick")]
fn quick(_page: &storage::Page, _reason: storage::Reason) {}

#[ringtrace::probe(storage::page_evicted, name = "stuck:waits")]
fn waits(_page: &storage::Page, _reason: storage::Reason) {
    println!("inside");
    let _ = std::io::stdin().read_line(&mut String::new());
}

#[ringtrace::probe(storage::page_evicted, name = "stuck:panics")]
fn panics(page: &storage::Page, _reason: storage::Reason) {
    assert_ne!(page.id, 7, "as the test wants");
}

#[derive(ringtrace::Event)]
struct Held {
    number: u32,
}

#[ringtrace::state_dump]
fn state(dump: &ringtrace::StateDump<'_>) {
    dump.record(Held { number: 7 });
}

#[ringtrace::state_dump]
fn broken(_: &ringtrace::StateDump<'_>) {
    panic!("as the test wants");
}

/// Returns when a file that it makes is removed.
#[ringtrace::state_dump]
fn dump_waits(_: &ringtrace::StateDump<'_>) {
    let file = std::env::var_os("STUCK_WHILE").expect("a path");
    std::fs::write(&file, "").expect("a file");
    while std::fs::exists(&file).expect("a directory") {
        std::thread::yield_now();
    }
}
