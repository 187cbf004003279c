//! What all cores read together is what one reads.

mod common;

use std::num::NonZero;

use common::{field, read, schema, write_trace};
use proptest::prelude::*;
use trace_ctf::reader::{Entry, Merge, Selection, Trace, parallel};
use trace_ctf::schema::FieldClass;

proptest! {
    #![proptest_config(ProptestConfig { cases: 24, ..ProptestConfig::default() })]

    #[test]
    fn threads_change_nothing(streams in 1u64..7, packets in 0u64..40, seed in any::<u64>(), threads in 1usize..5) {
        let directory = tempfile::tempdir().unwrap();
        let text = field("text", FieldClass::String { length_bits: 8 });
        let schema = schema(vec![field("vtid", FieldClass::signed(32))], vec![vec![field("n", FieldClass::unsigned(64))], vec![text]]);
        let events = write_trace(directory.path(), &schema, streams, packets, seed);
        let trace = Trace::open(directory.path()).unwrap();
        let threads = NonZero::new(threads).unwrap();

        let states = parallel::fold([&trace], threads, || (0, 0), |(events, losses), part| match part {
            parallel::Part::Packet(packet, lost) => {
                *losses += lost.len();
                let mut all = packet.events();
                while let Some(event) = all.next_event() {
                    event.unwrap();
                    *events += 1;
                }
            }
            parallel::Part::Error(error) => panic!("{error}"),
        });
        prop_assert_eq!(states.iter().map(|(events, _)| events).sum::<u64>(), events);
        prop_assert_eq!(states.iter().map(|(_, losses)| losses).sum::<usize>(), read(directory.path()).unwrap().losses.len());
    }

    #[test]
    fn a_selection_is_a_part_of_all(seed in any::<u64>(), from in 0u64..100, length in 0u64..100) {
        let directory = tempfile::tempdir().unwrap();
        let schema = schema(Vec::new(), vec![vec![field("n", FieldClass::unsigned(64))], Vec::new()]);
        write_trace(directory.path(), &schema, 4, 12, seed);
        let trace = Trace::open(directory.path()).unwrap();
        let mut times = Vec::new();
        let mut merge = trace.merge();
        while let Some(entry) = merge.next_entry() {
            if let Entry::Event(event) = entry.unwrap() {
                times.push((event.timestamp().unwrap(), event.class().id));
            }
        }
        let Some((first, last)) = times.first().zip(times.last()) else { return Ok(()) };
        let at = |percent: u64| first.0 + (last.0 - first.0) / 100 * percent as i64;
        let (from, to) = (at(from), at(from + length));
        let selection = Selection::default().from(from).to(to).classes(|_, class| class.id == 0);
        let mut merge = Merge::select([&trace], selection);
        let mut selected = Vec::new();
        while let Some(entry) = merge.next_entry() {
            if let Entry::Event(event) = entry.unwrap() {
                selected.push((event.timestamp().unwrap(), event.class().id));
            }
        }
        times.retain(|(time, class)| (from..to).contains(time) && *class == 0);
        prop_assert_eq!(selected, times);
    }
}
