//! A probe module for a tracepoint whose types have no `Abi`, with a tracepoint of its own.

ringtrace::probe_module!();

#[derive(ringtrace::Event)]
struct Read {
    key: u32,
}

#[ringtrace::probe(storage::row_read)]
fn record_read(row: &storage::Row) -> Read {
    looked(row.key);
    Read { key: row.key }
}

/// Fired by the probe above.
#[ringtrace::tracepoint(record)]
fn looked(key: u32);

/// A second probe for a tracepoint that another module has one for.
#[ringtrace::probe(storage::page_evicted, name = "rows:evicted")]
fn record_evicted(page: &storage::Page, _reason: storage::Reason) -> Read {
    Read { key: page.id as u32 }
}
