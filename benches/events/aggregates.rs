//! Events that are aggregated, and not recorded.

use ringtrace::Aggregation;
use std::hint::black_box;

macro_rules! events {
    ($($tracepoint:ident($($argument:ident: $type:ty),*) $work:ident $aggregation:expr;)*) => {
        $(
            #[ringtrace::tracepoint(record)]
            fn $tracepoint($($argument: $type),*);

            #[inline(never)]
            pub(crate) fn $work(n: u64) {
                let text = black_box("sixteen bytes ok");
                for i in 0..n {
                    $tracepoint($(of(i, text).$argument),*);
                }
            }
        )*

        /// All of them.
        pub(crate) fn start() -> ringtrace::Result<Vec<Aggregation>> {
            Ok(vec![$($aggregation(stringify!($tracepoint)).start()?),*])
        }
    };
}

/// What events are made of.
struct Of {
    value: u64,
    key: u32,
    shard: u32,
    table: &'static str,
    index: &'static str,
    path: &'static str,
    perhaps: Option<u32>,
    a: u64,
    b: u64,
    c: u64,
}

#[inline(always)]
fn of(i: u64, table: &'static str) -> Of {
    let key = i as u32 & 15;
    let (index, path) = ("a text of 16 too", "/var/lib/some/path/of/35/characters");
    Of { value: i, key, shard: i as u32 & 3, table, index, path, perhaps: Some(key), a: i, b: i, c: i }
}

events! {
    counted(value: u64) count |event| Aggregation::of(&format!("*:{event}"));
    counted_by(value: u64, key: u32) count_by |event| Aggregation::of(&format!("*:{event} by key"));
    counted_by_text(value: u64, table: &str) count_by_text |event| Aggregation::of(&format!("*:{event} by table"));
    counted_by_both(key: u32, table: &str) count_by_both |event| Aggregation::of(&format!("*:{event} by key, table"));
    counted_by_two(key: u32, shard: u32) count_by_two |event| Aggregation::of(&format!("*:{event} by key, shard"));
    summed(value: u64) values |event| Aggregation::of(&format!("*:{event}.value"));
    summed_by(value: u64, key: u32) values_by |event| Aggregation::of(&format!("*:{event}.value by key"));
    summed_by_text(value: u64, table: &str) values_by_text |event| Aggregation::of(&format!("*:{event}.value by table"));
    counted_by_texts(table: &str, index: &str) count_by_texts |event| Aggregation::of(&format!("*:{event} by table, index"));
    counted_by_long(value: u64, path: &str) count_by_long |event| Aggregation::of(&format!("*:{event} by path"));
    counted_by_context(value: u64) count_by_context |event| Aggregation::of(&format!("*:{event} by vtid"));
    counted_by_option(value: u64, perhaps: Option<u32>) count_by_option |event| Aggregation::of(&format!("*:{event} by perhaps"));
    summed_wide(value: u64, a: u64, b: u64, c: u64, key: u32, shard: u32) values_wide |event| Aggregation::of(&format!("*:{event}.c by key, shard"));
    summed_behind(table: &str, key: u32, value: u64) values_behind |event| Aggregation::of(&format!("*:{event}.value by key"));
    summed_asked(perhaps: Option<u32>, key: u32, value: u64) values_asked |event| Aggregation::of(&format!("*:{event}.value by key"));
    counted_asked(perhaps: Option<u32>, table: &str) count_by_text_asked |event| Aggregation::of(&format!("*:{event} by table"));
    summed_by_texts(table: &str, index: &str, value: u64) values_by_texts |event| Aggregation::of(&format!("*:{event}.value by table, index"));
    counted_by_two_long(table: &str, path: &str) count_by_two_long |event| Aggregation::of(&format!("*:{event} by table, path"));
    counted_by_key_and_long(key: u32, path: &str) count_by_key_and_long |event| Aggregation::of(&format!("*:{event} by key, path"));
    counted_by_three_texts(table: &str, index: &str) count_by_three_texts |event| Aggregation::of(&format!("*:{event} by table, index, table"));
    quantized_by(value: u64, key: u32) quantize_by |event| Aggregation::of(&format!("*:{event}.value by key")).quantize();
}

/// Events in the figures of all.
pub(crate) fn counted_in(aggregations: &[Aggregation]) -> u64 {
    aggregations.iter().flat_map(|a| a.read().groups).map(|group| group.figures.count).sum()
}
