//! What must hold for every discipline and any sequence of calls.

mod common;

use common::TestPacket;
use proptest::prelude::*;
use weir_queue::{Dropped, Fifo, Limit, Priority, QueueDiscipline};
use weir_units::{Bytes, Time};

#[derive(Clone, Debug)]
enum Call {
    Enqueue { size: u64, scavenger: bool },
    Dequeue,
}

fn calls() -> impl Strategy<Value = Vec<Call>> {
    let enqueue = (1u64..3_000, any::<bool>())
        .prop_map(|(size, scavenger)| Call::Enqueue { size, scavenger });
    prop::collection::vec(prop_oneof![3 => enqueue, 2 => Just(Call::Dequeue)], 0..300)
}

/// What came out of a discipline, and what it admitted to on the way.
#[derive(Default)]
struct Outcome {
    offered: Vec<TestPacket>,
    left: Vec<TestPacket>,
    dropped: Vec<Dropped<TestPacket>>,
    largest_backlog: Bytes,
    most_packets: u64,
}

fn play(queue: &mut dyn QueueDiscipline<TestPacket>, calls: &[Call]) -> Outcome {
    let mut outcome = Outcome::default();
    for (number, call) in calls.iter().enumerate() {
        let now = Time::from_us(number as u64);
        match *call {
            Call::Enqueue { size, scavenger } => {
                let kind = if scavenger { TestPacket::scavenger } else { TestPacket::new };
                let packet = kind(number as u64, size);
                outcome.offered.push(packet.clone());
                queue.enqueue(packet, now, &mut outcome.dropped);
            }
            Call::Dequeue => outcome.left.extend(queue.dequeue(now, &mut outcome.dropped)),
        }
        outcome.largest_backlog = outcome.largest_backlog.max(queue.backlog().bytes);
        outcome.most_packets = outcome.most_packets.max(queue.backlog().packets);
    }
    outcome
}

/// Nothing is lost or made up, by the packets and by the counters.
fn assert_conserved(
    queue: &mut dyn QueueDiscipline<TestPacket>,
    mut outcome: Outcome,
) -> Result<(), TestCaseError> {
    for class in queue.classes() {
        let accounted = class.packets_out + class.dropped() + class.backlog.packets;
        prop_assert_eq!(class.packets_in, accounted, "packets of class {}", class.name);
        let bytes = class.bytes_out + class.dropped_bytes + class.backlog.bytes;
        prop_assert_eq!(class.bytes_in, bytes, "bytes of class {}", class.name);
    }
    let end = Time::from_ms(1_000);
    outcome.left.extend(std::iter::from_fn(|| queue.dequeue(end, &mut outcome.dropped)));
    prop_assert!(queue.backlog().is_empty() && queue.backlog().bytes == Bytes::ZERO);
    let mut seen = outcome.left;
    seen.extend(outcome.dropped.into_iter().map(|dropped| dropped.packet));
    seen.sort_by_key(|packet| packet.number);
    prop_assert_eq!(seen, outcome.offered);
    Ok(())
}

fn is_in_order<'a>(packets: impl Iterator<Item = &'a TestPacket>) -> bool {
    packets.map(|packet| packet.number).is_sorted()
}

proptest! {
    #[test]
    fn a_fifo_conserves_packets_keeps_order_and_stays_within_bytes(
        calls in calls(), limit in 0u64..20_000,
    ) {
        let mut queue = Fifo::new(Limit::Bytes(Bytes::new(limit)));
        let outcome = play(&mut queue, &calls);
        prop_assert!(outcome.largest_backlog.count() <= limit);
        prop_assert!(is_in_order(outcome.left.iter()));
        assert_conserved(&mut queue, outcome)?;
    }

    #[test]
    fn a_fifo_stays_within_packets(calls in calls(), limit in 0u64..20) {
        let mut queue = Fifo::new(Limit::Packets(limit));
        let outcome = play(&mut queue, &calls);
        prop_assert!(outcome.most_packets <= limit);
        assert_conserved(&mut queue, outcome)?;
    }

    #[test]
    fn an_unlimited_fifo_drops_nothing(calls in calls()) {
        let mut queue = Fifo::new(Limit::None);
        let outcome = play(&mut queue, &calls);
        prop_assert!(outcome.dropped.is_empty());
        assert_conserved(&mut queue, outcome)?;
    }

    #[test]
    fn priority_conserves_packets_and_keeps_each_class_in_order(
        calls in calls(), limit in 0u64..20_000,
    ) {
        let mut queue = Priority::new(Limit::Bytes(Bytes::new(limit)));
        let outcome = play(&mut queue, &calls);
        prop_assert!(queue.classes().iter().all(|c| c.backlog.bytes.count() <= limit / 2));
        prop_assert!(is_in_order(outcome.left.iter().filter(|p| p.is_scavenger())));
        prop_assert!(is_in_order(outcome.left.iter().filter(|p| !p.is_scavenger())));
        assert_conserved(&mut queue, outcome)?;
    }

    #[test]
    fn a_scavenger_never_leaves_while_another_waits(calls in calls()) {
        let mut queue = Priority::new(Limit::Bytes(Bytes::new(10_000)));
        let mut dropped = Vec::new();
        for (number, call) in calls.iter().enumerate() {
            let high_waits = queue.classes()[0].backlog.packets > 0;
            match *call {
                Call::Enqueue { size, scavenger } => {
                    let kind = if scavenger { TestPacket::scavenger } else { TestPacket::new };
                    queue.enqueue(kind(number as u64, size), Time::ZERO, &mut dropped);
                }
                Call::Dequeue => {
                    let left = queue.dequeue(Time::ZERO, &mut dropped);
                    prop_assert!(!(high_waits && left.is_some_and(|p| p.is_scavenger())));
                }
            }
        }
    }
}
