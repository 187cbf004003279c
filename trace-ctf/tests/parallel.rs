//! What all cores read together is what one reads.

mod common;

use std::num::NonZero;
use std::ops::ControlFlow;
use std::panic;

use common::{field, read, schema, write_trace};
use proptest::prelude::*;
use trace_ctf::reader::parallel::Step;
use trace_ctf::reader::{Entry, Event, Merge, Selection, Trace, parallel};
use trace_ctf::schema::FieldClass;
use trace_ctf::text::Formatter;

#[test]
fn a_merge_ends_early_and_with_a_panic() {
    let directory = tempfile::tempdir().unwrap();
    let schema = schema(Vec::new(), vec![vec![field("n", FieldClass::unsigned(64))]]);
    let events = write_trace(directory.path(), &schema, 3, 40, 7);
    let trace = Trace::open(directory.path()).unwrap();
    let streams = || trace.streams().iter().map(|stream| trace.packets(stream));
    for threads in (1..4).filter_map(NonZero::new) {
        let mut seen = 0;
        let done = parallel::merge(
            streams(),
            threads,
            || |_: &Event<'_>, _: &mut Vec<u8>| Some(()),
            |step| match step {
                Step::Event(..) if seen == events / 2 => ControlFlow::Break(seen),
                Step::Event(..) => {
                    seen += 1;
                    ControlFlow::Continue(())
                }
                _ => ControlFlow::Continue(()),
            },
        );
        assert_eq!(done, ControlFlow::Break(events / 2));

        let mapper = || {
            let mut count = 0;
            move |_: &Event<'_>, _: &mut Vec<u8>| -> Option<()> {
                count += 1;
                assert!(count < 20, "the twentieth");
                Some(())
            }
        };
        let ends = || parallel::merge(streams(), threads, mapper, |_| -> ControlFlow<()> { ControlFlow::Continue(()) });
        assert!(panic::catch_unwind(panic::AssertUnwindSafe(ends)).is_err());
    }
}

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

        let packets = || trace.streams().iter().map(|stream| trace.packets(stream));
        let states = parallel::fold(packets(), threads, || (0, 0), |(events, losses), part| match part {
            parallel::Part::Packet(packet, lost) => {
                *losses += lost.len();
                let mut all = packet.events();
                while let Some(event) = all.next_event() {
                    event.unwrap();
                    *events += 1;
                }
                ControlFlow::Continue(())
            }
            parallel::Part::Error(error) => panic!("{error}"),
        });
        prop_assert_eq!(states.iter().map(|(events, _)| events).sum::<u64>(), events);
        prop_assert_eq!(states.iter().map(|(_, losses)| losses).sum::<usize>(), read(directory.path()).unwrap().losses.len());
        let some = packets().filter_map(|mut packets| packets.next()).count();
        let first = parallel::fold(packets(), NonZero::<usize>::MIN, || 0, |count, _| {
            *count += 1;
            ControlFlow::Break(())
        });
        prop_assert_eq!(first, [some]);
    }

    #[test]
    fn the_order_is_that_of_a_merge(streams in 1u64..7, packets in 0u64..40, seed in any::<u64>(), threads in 1usize..5, cut in 0u64..2000) {
        let directory = tempfile::tempdir().unwrap();
        let text = field("text", FieldClass::String { length_bits: 8 });
        let fields = vec![vec![field("n", FieldClass::unsigned(64))], vec![text]];
        let schema = schema(vec![field("vtid", FieldClass::signed(32))], fields);
        write_trace(directory.path(), &schema, streams, packets, seed);
        if let Some(file) = Trace::open(directory.path()).unwrap().streams().first().and_then(|stream| stream.files().next()) {
            let file = std::fs::OpenOptions::new().write(true).open(file).unwrap();
            file.set_len(file.metadata().unwrap().len().saturating_sub(cut)).unwrap();
        }
        let trace = Trace::open(directory.path()).unwrap();
        let (mut merge, mut events) = (trace.merge(), 0);
        while let Some(entry) = merge.next_entry() {
            events += u64::from(matches!(entry, Ok(Entry::Event(_))));
        }
        let mut merge = Merge::select([&trace], Selection::default().classes(|_, class| class.id != 0));
        let (mut expected, mut expected_errors, mut formatter) = (Vec::new(), Vec::new(), Formatter::utc());
        while let Some(entry) = merge.next_entry() {
            match entry {
                Ok(Entry::Event(event)) => formatter.event(&event, &mut expected),
                Ok(Entry::Loss(loss)) => formatter.loss(&loss, &mut expected),
                Err(error) => expected_errors.push(error.to_string()),
            }
        }

        let (mut all, mut errors, mut seen, mut formatter) = (Vec::new(), Vec::new(), 0, Formatter::utc());
        let mapper = || {
            let mut formatter = Formatter::utc();
            move |event: &Event<'_>, line: &mut Vec<u8>| {
                let place = formatter.event_without_distance(event, line);
                (event.class().id != 0).then_some(place)
            }
        };
        let streams = trace.streams().iter().map(|stream| trace.packets(stream));
        let done: ControlFlow<()> = parallel::merge(streams, NonZero::new(threads).unwrap(), mapper, |step| {
            match step {
                Step::Event(event, place, line) => {
                    seen += 1;
                    all.extend(&line[..place]);
                    formatter.distance(&event, &mut all);
                    all.extend(&line[place..]);
                }
                Step::Passed(count) => seen += count,
                Step::Loss(loss) => formatter.loss(&loss, &mut all),
                Step::Error(error) => errors.push(error.to_string()),
            }
            ControlFlow::Continue(())
        });
        prop_assert!(done.is_continue());
        prop_assert_eq!(seen, events);
        prop_assert_eq!(errors, expected_errors);
        prop_assert_eq!(String::from_utf8_lossy(&all), String::from_utf8_lossy(&expected));
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
