//! What must hold for every discipline and any sequence of calls.

mod common;

use common::calls::{Call, play};
use common::{DISCIPLINES, TestPacket};
use proptest::prelude::*;
use weir_queue::{DisciplineConfig, Limit, Priority, QueueDiscipline};
use weir_units::{Bytes, Time};

fn calls() -> impl Strategy<Value = Vec<Call>> {
    prop::collection::vec(any::<[u8; 4]>().prop_map(Call::of_bytes), 0..600)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    /// Conservation of packets and bytes, no packet before its time, order within a flow, marks
    /// only where allowed, limits, timers that advance, repeatability: see `common::calls`.
    #[test]
    fn every_discipline_keeps_its_contract(calls in calls()) {
        for (name, json) in DISCIPLINES {
            let config: DisciplineConfig = serde_json::from_str(json).expect(name);
            play(&config, &calls);
        }
    }

    #[test]
    fn a_scavenger_never_leaves_while_another_waits(
        calls in prop::collection::vec(0u8..5, 0..300),
    ) {
        let mut queue = Priority::new(Limit::Bytes(Bytes::new(10_000)));
        let mut dropped = Vec::new();
        for (number, call) in (0..).zip(calls) {
            let high_waits = queue.classes()[0].backlog.packets > 0;
            match call {
                0 | 1 => queue.enqueue(TestPacket::new(number, 700), Time::ZERO, &mut dropped),
                2 => queue.enqueue(TestPacket::scavenger(number, 900), Time::ZERO, &mut dropped),
                _ => {
                    let left = queue.dequeue(Time::ZERO, &mut dropped);
                    prop_assert!(!(high_waits && left.is_some_and(|p| p.is_scavenger())));
                }
            }
        }
    }
}
