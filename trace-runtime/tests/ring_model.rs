//! The bytes of a ring against a plain model of headers and positions: whatever is recorded, each packet holds the bytes that the
//! table in `header.rs` and RB-5 say, no more and no fewer.
#![cfg(all(target_os = "linux", target_arch = "x86_64", not(ringtrace_portable)))]

mod ring_support;

use proptest::prelude::*;
use ring_support::{BY_CPU, BY_THREAD, NO_CLOCK, OS, Of, RAW, cpus, file, has_sequences, record_in_words, served};
use trace_runtime::clock::Clock;
use trace_runtime::ring_buffer::{ClockKind, Config, Geometry, HeaderKind, Outcome, Purpose};

const SUB_BUFFER: u64 = 4096;
/// Bytes at the beginning of a sub-buffer that are no record's.
const OPENING: u64 = 8;

/// One event: nanoseconds since the one before, event ID, bytes of payload.
type Event = (u64, u32, usize);

fn event() -> impl Strategy<Value = Event> {
    let bits = |bits: u32| (1_u64 << bits) - 2..(1_u64 << bits) + 2;
    let gap = prop_oneof![4 => 0_u64..1000, 1 => bits(27), 1 => bits(32), 1 => 0_u64..1 << 40];
    let id = prop_oneof![4 => 0_u32..=30, 1 => 29_u32..33, 1 => 65_533_u32..65_538, 1 => any::<u32>()];
    (gap, id, 0_usize..400)
}

/// What the packets of a buffer hold.
#[derive(Default)]
struct Model {
    packets: Vec<Vec<u8>>,
    /// Where the next record goes in the sub-buffer; 0: there is none that is open.
    offset: u64,
    last: u64,
}

impl Model {
    fn record<C: Config>(&mut self, now: u64, id: u32, payload: &[u8]) {
        let (bits, largest, short_len, mark) = match C::HEADER {
            HeaderKind::Compact => (27, 30, 4, &[0x1f_u8][..]),
            HeaderKind::Large => (32, 65_534, 6, &[0xff, 0xff][..]),
        };
        loop {
            if self.offset == 0 {
                self.packets.push(Vec::new());
                (self.offset, self.last) = (OPENING, now);
            }
            let is_extended = id > largest || now - self.last >= 1 << bits;
            let mut bytes = match C::HEADER {
                _ if is_extended => [mark, &id.to_le_bytes(), &now.to_le_bytes()].concat(),
                HeaderKind::Compact => ((now as u32) << 5 | id).to_le_bytes().to_vec(),
                HeaderKind::Large => [&(id as u16).to_le_bytes()[..], &(now as u32).to_le_bytes()].concat(),
            };
            assert_eq!(bytes.len(), if is_extended { mark.len() + 12 } else { short_len });
            bytes.extend(payload);
            // A record never ends where its sub-buffer ends.
            if self.offset + bytes.len() as u64 >= SUB_BUFFER {
                self.offset = 0;
                continue;
            }
            (self.offset, self.last) = (self.offset + bytes.len() as u64, now);
            self.packets.last_mut().expect("one is open").extend(bytes);
            return;
        }
    }
}

fn agrees<C: Config>(events: &[Event]) -> Result<(), TestCaseError> {
    ring_support::pin();
    let clock = Clock::fixed(1 << 40);
    let geometry = Geometry { buffers: cpus(), sub_buffer: SUB_BUFFER as u32, sub_buffers: 64, fallback: 4096 };
    let channel = ring_support::create::<C>(file(), geometry, &served::<C>(geometry), clock).expect("a channel");
    let (mut now, mut model) = (1_u64 << 40, Model::default());
    for (number, (gap, id, len)) in events.iter().enumerate() {
        now += gap;
        clock.set_fixed(now);
        let payload = vec![number as u8; *len];
        let outcome = match number % 2 {
            0 => channel.record(*id, &[&payload]),
            _ => record_in_words(&channel, *id, &payload, *gap as usize % 25),
        };
        prop_assert_eq!(outcome, Outcome::Recorded);
        model.record::<C>(if C::CLOCK == ClockKind::None { 0 } else { now }, *id, &payload);
    }
    // An interrupted sequence may have gone to the fallback region eight times in a row: then this says nothing.
    prop_assume!(channel.core().losses().diverted == 0);
    let mut reader = channel.reader(Purpose::Consume).expect("the first reader");
    let mut packets = Vec::new();
    for buffer in 0..geometry.buffers {
        while let Some(packet) = reader.next(buffer, true) {
            packets.push(packet.to_vec());
            reader.consume(packet);
        }
    }
    prop_assert_eq!(packets, model.packets);
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn what_is_in_the_ring_is_what_a_plain_model_says(events in prop::collection::vec(event(), 1..200)) {
        if !has_sequences() || !Clock::process().is_counter() {
            return Ok(());
        }
        agrees::<Of<false, RAW, false, BY_CPU>>(&events)?;
        agrees::<Of<true, RAW, true, BY_CPU>>(&events)?;
        agrees::<Of<false, OS, true, BY_THREAD>>(&events)?;
        agrees::<Of<true, RAW, false, BY_THREAD>>(&events)?;
        agrees::<Of<false, NO_CLOCK, false, BY_CPU>>(&events)?;
    }
}
