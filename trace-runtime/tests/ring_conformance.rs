//! The same cases over every configuration: content, order, stamps and counts, record by record.

mod ring_support;

use ring_support::{
    BY_CPU, Random, Seen, buffers, cpus, cut, drain, file, has_sequences, losses, payload, pin, record_in_words, served,
};
use trace_runtime::clock::Clock;
use trace_runtime::ring_buffer::{Channel, ClockKind, Config, Geometry, LONGEST_HEADER, Mode, Outcome, Placement, Purpose};

fn geometry<C: Config>(sub_buffer: u32, sub_buffers: u32) -> Geometry {
    Geometry { buffers: buffers::<C>(), sub_buffer, sub_buffers, fallback: 64 << 10 }
}

fn channel<C: Config>(geometry: Geometry, clock: &'static Clock) -> Channel<C> {
    ring_support::create(file(), geometry, &served::<C>(geometry), clock).expect("a channel")
}

/// Writes with a model beside it: what must be read, in which order, with which stamps.
struct Model<C: Config> {
    channel: Channel<C>,
    clock: &'static Clock,
    now: u64,
    last: u64,
    expected: Vec<Seen>,
    outcomes: [u64; 5],
}

impl<C: Config> Model<C> {
    fn new(geometry: Geometry) -> Model<C> {
        let clock = Clock::fixed(1 << 40);
        Model { channel: channel(geometry, clock), clock, now: 1 << 40, last: 0, expected: Vec::new(), outcomes: [0; 5] }
    }

    fn advance(&mut self, ns: i64) {
        self.now = self.now.wrapping_add_signed(ns);
        self.clock.set_fixed(self.now);
    }

    fn record(&mut self, id: u32, payload: &[u8], random: &mut Random) -> Outcome {
        let outcome = match random.below(2) {
            0 => self.channel.record(id, &cut(payload, random)),
            _ => record_in_words(&self.channel, id, payload, random.below(25) as usize),
        };
        self.outcomes[outcome as usize] += 1;
        if outcome == Outcome::Recorded {
            // A clock that goes back is held; each record has its own stamp or that of the one before.
            self.last = self.last.max(self.now);
            let ns = if C::CLOCK == ClockKind::None { 0 } else { self.last };
            self.expected.push(Seen { ns, id, payload: payload.to_vec() });
        }
        outcome
    }

    /// With one thread on one CPU there is one order. Concurrency IDs may change under the thread.
    fn check(&mut self, mut seen: Vec<Seen>) {
        let mut expected = std::mem::take(&mut self.expected);
        if C::PLACEMENT == Placement::MmCid {
            seen.sort();
            expected.sort();
        }
        assert_eq!(seen.len(), expected.len(), "records of {:?}", self.channel);
        for (at, (seen, expected)) in seen.iter().zip(&expected).enumerate() {
            assert_eq!(seen, expected, "record {at} of {:?}", self.channel);
        }
    }
}

fn sizes_ids_and_gaps<C: Config>() {
    let mut model = Model::<C>::new(geometry::<C>(16 << 10, 7));
    let mut reader = model.channel.reader(Purpose::Consume).expect("the first reader");
    let mut random = Random(0x1234_5678_9abc_def1);
    let gaps = [0, 1, 100, 5_000, (1 << 27) - 1, 1 << 27, (1 << 32) - 1, 1 << 32, 1 << 45];
    let mut seen = Vec::new();
    for turn in 0..6000_u64 {
        let id = match random.below(20) {
            0 => 31 + random.below(1000) as u32,
            1 => 65_530 + random.below(20) as u32,
            _ => random.below(31) as u32,
        };
        let len = match id % 4 {
            0 => 0,
            1 => 1,
            _ => 2 + if random.below(50) == 0 { random.below(4000) } else { turn % 300 } as usize,
        };
        // Not backwards: with concurrency IDs another buffer may not know of the stamp that was last. See `clocks_that_go_back`.
        model.advance(gaps[random.below(gaps.len() as u64) as usize]);
        let payload = payload(id, len, &mut random);
        assert_eq!(model.record(id, &payload, &mut random), Outcome::Recorded);
        if random.below(40) == 0 {
            let cut = random.below(2) == 0;
            seen.extend(drain(&mut reader, cut));
        }
        if reader.pending(0) > 64 << 10 || turn % 100 == 0 {
            seen.extend(drain(&mut reader, true));
        }
    }
    seen.extend(drain(&mut reader, true));
    model.check(seen);
    assert_eq!(losses(&reader).total(), 0);
    assert_eq!(model.channel.core().records(), 6000);
}

#[test]
fn every_size_id_and_gap_comes_back() {
    pin();
    for_each_config!(sizes_ids_and_gaps, false);
    for_each_config!(sizes_ids_and_gaps, true);
}

fn switches_at_every_offset<C: Config>() {
    if C::PLACEMENT == Placement::Global {
        return; // no sub-buffers
    }
    let mut random = Random(77);
    for distance in 1..60_usize {
        for len in [0_usize, 1, 9, 40] {
            let mut model = Model::<C>::new(Geometry { buffers: cpus(), sub_buffer: 4096, sub_buffers: 2, fallback: 4096 });
            let mut reader = model.channel.reader(Purpose::Consume).expect("the first reader");
            // Fill to `distance` bytes before the end with records of 512, then one of what is left.
            let mut left = 4096 - 8 - distance;
            let header = C::HEADER.len(false);
            while left > 0 {
                let record = if left > 1000 { 512 } else { left.min(900) };
                let record = if left - record != 0 && left - record < header + 2 { record - header - 2 } else { record };
                let bytes = payload(2, record - header, &mut random);
                assert_eq!(model.record(2, &bytes, &mut random), Outcome::Recorded);
                left -= record;
            }
            let id = match len {
                0 => 0,
                1 => 1,
                _ => 3,
            };
            for _ in 0..2 {
                let bytes = payload(id, len, &mut random);
                assert_eq!(model.record(id, &bytes, &mut random), Outcome::Recorded);
            }
            let seen = drain(&mut reader, true);
            model.check(seen);
        }
    }
}

#[test]
fn sub_buffers_switch_at_every_offset() {
    pin();
    if has_sequences() {
        for_each_config!(switches_at_every_offset, false);
    }
}

fn largest<C: Config>() {
    let mut random = Random(5);
    for sub_buffer in [4096, 16 << 10, 128 << 10, 1 << 20] {
        let mut model = Model::<C>::new(Geometry { fallback: 256 << 10, ..geometry::<C>(sub_buffer, 2) });
        let mut reader = model.channel.reader(Purpose::Consume).expect("the first reader");
        let limit = model.channel.core().largest_record() - LONGEST_HEADER;
        assert!(limit <= 32 << 10);
        let mut seen = Vec::new();
        for (id, over) in [(2, 0), (2, 0), (31, 0), (2, 1), (2, 5000), (35, 1)] {
            let bytes = payload(id, limit + over, &mut random);
            let outcome = model.record(id, &bytes, &mut random);
            assert_eq!(outcome, if over == 0 { Outcome::Recorded } else { Outcome::TooLarge });
            seen.extend(drain(&mut reader, true));
        }
        model.check(seen);
        assert_eq!((losses(&reader).too_large, losses(&reader).total()), (3, 3));
    }
}

#[test]
fn the_largest_record_is_recorded_and_one_byte_more_is_counted() {
    pin();
    for_each_config!(largest, false);
    for_each_config!(largest, true);
}

fn full<C: Config>() {
    assert_eq!(C::MODE, Mode::Discard);
    let mut model = Model::<C>::new(geometry::<C>(4096, 5));
    let mut reader = model.channel.reader(Purpose::Consume).expect("the first reader");
    let mut random = Random(9);
    let mut seen = Vec::new();
    let mut told = 0;
    for round in 0..5 {
        for _ in 0..3000 + round * 100 {
            model.advance(10);
            let bytes = payload(2, 2 + random.below(60) as usize, &mut random);
            let outcome = model.record(2, &bytes, &mut random);
            assert!(matches!(outcome, Outcome::Recorded | Outcome::Full), "{outcome:?}");
        }
        for buffer in 0..reader.geometry().buffers {
            while let Some(packet) = reader.next(buffer, true) {
                // Each packet's losses continue where the one before ended.
                assert!(packet.discarded_before <= packet.losses.discarded());
                told = told.max(packet.losses.full);
                seen.extend(ring_support::decode(&packet, C::HEADER));
                reader.consume(packet);
            }
        }
        seen.extend(drain(&mut reader, true));
    }
    let refused = model.outcomes[Outcome::Full as usize];
    assert!(refused > 0);
    assert_eq!((losses(&reader).full, losses(&reader).total()), (refused, refused));
    assert_eq!(model.channel.core().losses().full, refused);
    assert!(told <= refused);
    model.check(seen);
}

#[test]
fn a_full_ring_discards_and_counts_exactly() {
    pin();
    for_each_config!(full, false);
}

fn overwrite<C: Config>() {
    assert_eq!(C::MODE, Mode::Overwrite);
    for consumes in [false, true] {
        let mut model = Model::<C>::new(geometry::<C>(4096, 5));
        let mut random = Random(11);
        let mut reader = model.channel.reader(Purpose::Consume).expect("the first reader");
        let mut seen = Vec::new();
        for turn in 0..20_000 {
            model.advance(10);
            let bytes = payload(2, 2 + random.below(60) as usize, &mut random);
            assert_eq!(model.record(2, &bytes, &mut random), Outcome::Recorded);
            if consumes && turn % 997 == 0 {
                seen.extend(drain(&mut reader, turn % 2 == 0));
            }
        }
        let snapshot =
            |model: &Model<C>| drain(&mut model.channel.reader(Purpose::Snapshot).expect("a snapshot is always possible"), true);
        let copy = snapshot(&model);
        assert_eq!(copy, snapshot(&model), "snapshots of an idle ring are equal");
        assert!(!copy.is_empty());
        seen.extend(drain(&mut reader, true));
        assert_eq!(seen.len() as u64 + losses(&reader).overwritten, 20_000, "{:?} {}", losses(&reader), seen.len());
        assert_eq!(losses(&reader).discarded(), 0);
        if C::PLACEMENT != Placement::MmCid {
            assert!(model.expected.ends_with(&copy));
            // What was read is what was written, less what was overwritten, in order.
            let mut written = model.expected.iter();
            for record in &seen {
                assert!(written.any(|w| w == record), "{record:?} was not written, or not in this order");
            }
            assert_eq!(seen.last(), model.expected.last());
        }
    }
}

#[test]
fn overwriting_keeps_the_newest_and_counts_the_rest_exactly() {
    pin();
    for_each_config!(overwrite, true);
}

fn overtaken<C: Config>() {
    if !has_sequences() || matches!(C::PLACEMENT, Placement::Global | Placement::MmCid) {
        return; // in no ring, or in that of another concurrency ID now and then
    }
    let mut model = Model::<C>::new(geometry::<C>(4096, 8));
    let mut random = Random(5);
    let mut write = |sub_buffers| {
        for _ in 0..sub_buffers * (4096 / 256) {
            model.advance(10);
            assert_eq!(model.record(2, &payload(2, 240, &mut random), &mut random), Outcome::Recorded);
        }
        model.channel.reader(Purpose::Snapshot).expect("a snapshot is always possible")
    };
    let (mut there, mut reader) = (write(40), write(0));
    let buffer = (0..there.geometry().buffers).find(|buffer| there.pending(*buffer) > 0).expect("one is written");
    let end = std::iter::from_fn(|| there.next(buffer, true)).last().expect("it is full").sequence;
    let found = std::iter::from_fn(|| {
        let packet = reader.next(buffer, true);
        write(2); // twice as fast
        packet
    });
    let found: Vec<u64> = found.map(|packet| packet.sequence).collect();
    assert!(found.ends_with(&[end - 2, end - 1, end]), "{found:?}, {end}");
}

#[test]
fn a_snapshot_that_writers_overtake_has_the_newest_without_a_hole() {
    pin();
    for_each_config!(overtaken, true);
}

fn backwards<C: Config>() {
    if C::CLOCK == ClockKind::None || C::PLACEMENT == Placement::MmCid {
        return;
    }
    let mut model = Model::<C>::new(geometry::<C>(4096, 5));
    let mut reader = model.channel.reader(Purpose::Consume).expect("the first reader");
    let mut random = Random(3);
    let mut clamped = 0;
    for step in [10, -5, -1000, 2, 1 << 33, -(1 << 33), 0, 1 << 34] {
        model.advance(step);
        clamped += u64::from(model.now < model.last);
        let bytes = payload(2, 30, &mut random);
        assert_eq!(model.record(2, &bytes, &mut random), Outcome::Recorded);
    }
    let seen = drain(&mut reader, true);
    model.check(seen);
    if has_sequences() && C::PLACEMENT != Placement::Global {
        assert_eq!(losses(&reader).clamped, clamped);
    }
}

#[test]
fn clocks_that_go_back_are_held_and_counted() {
    pin();
    for_each_config!(backwards, false);
}

fn disabled<C: Config>() {
    let channel = channel::<C>(geometry::<C>(4096, 2), Clock::fixed(1));
    let core = channel.core();
    let generation = core.generation();
    let bytes = [1_u8; 4];
    let pieces = [trace_registry::field::Piece { start: bytes.as_ptr(), len: 4 }];
    let append = |generation| {
        #[expect(unsafe_code, reason = "names an old generation")]
        // SAFETY: the channel's configuration is `C`; the piece names `bytes`.
        unsafe {
            core.appender(generation, 1, false, 0).append::<C>(&pieces, 4)
        }
    };
    assert_eq!(append(generation), Outcome::Recorded);
    assert_eq!(append(0), Outcome::Refused);
    assert_ne!(core.bump_generation(), generation);
    assert_eq!(append(generation), Outcome::Refused);
    assert_eq!(append(core.generation()), Outcome::Recorded);
    assert_eq!((core.records(), core.losses().total()), (2, 0));
}

#[test]
fn an_old_generation_is_refused_and_not_counted() {
    for_each_config!(disabled, false);
    for_each_config!(disabled, true);
}

#[test]
fn one_reader_consumes_at_a_time() {
    type C = ring_support::Of<false, { ring_support::OS }, false, BY_CPU>;
    let channel = channel::<C>(geometry::<C>(4096, 2), Clock::fixed(1));
    let mut reader = channel.reader(Purpose::Consume).expect("the first reader");
    assert!(channel.reader(Purpose::Consume).is_none());
    assert!(channel.reader(Purpose::Snapshot).is_some());
    assert_eq!(channel.record(0, &[]), Outcome::Recorded);
    let packet = (0..cpus()).find_map(|b| reader.next(b, true));
    drop(reader);
    // A packet that lies in the ring keeps it.
    assert_eq!(channel.reader(Purpose::Consume).is_none(), packet.is_some());
    drop(packet);
    assert!(channel.reader(Purpose::Consume).is_some());
}

#[test]
fn geometries_that_cannot_be_are_refused() {
    type C = ring_support::Of<false, { ring_support::OS }, false, BY_CPU>;
    let good = geometry::<C>(4096, 2);
    for bad in [
        Geometry { sub_buffer: 2048, ..good },
        Geometry { sub_buffer: 5000, ..good },
        Geometry { sub_buffer: 8 << 20, ..good },
        Geometry { sub_buffers: 1, ..good },
        Geometry { sub_buffers: 65537, ..good },
        Geometry { fallback: 5000, ..good },
        Geometry { buffers: 0, fallback: 0, ..good },
    ] {
        let error = ring_support::create::<C>(file(), bad, &[], Clock::fixed(1)).expect_err("refused");
        assert_eq!(error.kind(), std::io::ErrorKind::InvalidInput);
    }
    let twice = ring_support::create::<C>(file(), Geometry { buffers: 2, ..good }, &[1, 1], Clock::fixed(1));
    assert!(twice.is_err());
}

#[test]
fn without_a_buffer_or_a_fallback_region_events_are_counted() {
    type C = ring_support::Of<false, { ring_support::OS }, false, BY_CPU>;
    let geometry = Geometry { buffers: 1, fallback: 0, ..geometry::<C>(4096, 2) };
    let channel = ring_support::create::<C>(file(), geometry, &[], Clock::fixed(1)).expect("a channel");
    assert_eq!(channel.record(0, &[]), Outcome::NoBuffer);
    assert_eq!(channel.core().losses().no_buffer, 1);
    for cpu in 0..cpus() {
        assert_eq!(channel.core().add_cpu(cpu), cpu == 0);
    }
}
