//! A shared library of the program, no probe module, with a probe for a tracepoint that the program's own code fires.

#[ringtrace::probe(storage::page_evicted, name = "provider:waits")]
fn waits(_page: &storage::Page, _reason: storage::Reason) {
    println!("inside");
    let _ = std::io::stdin().read_line(&mut String::new());
}
