//! `tracy-client`: a zone with a value and a text; without a viewer, all of it stays queued.

use compare::Tracer;
use tracy_client::{Client, span_location};

struct Tracy(Client);

impl Tracer for Tracy {
    type Thread<'a> = &'a Client;

    /// It keeps everything.
    const MOST: u64 = 10_000;

    fn thread(&self) -> &Client {
        &self.0
    }

    #[inline(always)]
    fn number(client: &mut &Client, value: u64) {
        client.clone().span(span_location!("number"), 0).emit_value(value);
    }

    #[inline(always)]
    fn mix(client: &mut &Client, small: u32, large: u64, text: &str) {
        let zone = client.clone().span(span_location!("mixed"), 0);
        zone.emit_value(u64::from(small));
        zone.emit_value(large);
        zone.emit_text(text);
    }

    fn arrived(&self, _: u64) -> Option<u64> {
        None
    }
}

fn main() {
    compare::serve(&Tracy(Client::start()));
}
