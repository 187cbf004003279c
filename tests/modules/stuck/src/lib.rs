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
