//! What the tests of every discipline share: a packet, and a link that serves a queue.

#![allow(dead_code, reason = "each test file uses its part")]

use weir_queue::{Dropped, Dscp, Ecn, Packet, QueueDiscipline, Random};
use weir_units::{Bytes, Time};

/// A packet that is nothing but its fields.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct TestPacket {
    pub(crate) number: u64,
    pub(crate) arrived: Time,
    pub(crate) size: u64,
    pub(crate) dscp: Dscp,
    pub(crate) ecn: Ecn,
}

impl TestPacket {
    pub(crate) fn new(number: u64, size: u64) -> Self {
        Self { number, arrived: Time::ZERO, size, dscp: Dscp::CS0, ecn: Ecn::Ect0 }
    }

    pub(crate) fn scavenger(number: u64, size: u64) -> Self {
        Self { dscp: Dscp::CS1, ..Self::new(number, size) }
    }

    pub(crate) fn is_scavenger(&self) -> bool {
        self.dscp == Dscp::CS1
    }
}

impl Packet for TestPacket {
    fn size(&self) -> Bytes {
        Bytes::new(self.size)
    }
    fn ecn(&self) -> Ecn {
        self.ecn
    }
    fn mark_ce(&mut self) {
        self.ecn = Ecn::Ce;
    }
    fn dscp(&self) -> Dscp {
        self.dscp
    }
    fn flow_hash(&self) -> u32 {
        0
    }
}

/// Offers packets numbered from 0 and returns the numbers dropped.
pub(crate) fn offer(
    queue: &mut dyn QueueDiscipline<TestPacket>,
    packets: &[TestPacket],
) -> Vec<u64> {
    let mut dropped = Vec::new();
    for packet in packets {
        queue.enqueue(packet.clone(), Time::ZERO, &mut dropped);
    }
    dropped.iter().map(|dropped| dropped.packet.number).collect()
}

/// Takes everything out and returns the numbers in order.
pub(crate) fn drain(queue: &mut dyn QueueDiscipline<TestPacket>) -> Vec<u64> {
    let mut dropped: Vec<Dropped<TestPacket>> = Vec::new();
    std::iter::from_fn(|| queue.dequeue(Time::ZERO, &mut dropped)).map(|p| p.number).collect()
}

/// Mean wait of `arrivals` (in order of time) in seconds, ordinary and scavenger packets apart,
/// on a link that takes `service` for each packet.
pub(crate) fn mean_waits(
    queue: &mut dyn QueueDiscipline<TestPacket>,
    arrivals: Vec<TestPacket>,
    service: Time,
) -> [f64; 2] {
    let (mut free_at, mut dropped) = (Time::ZERO, Vec::new());
    let mut waits = [(0.0, 0.0); 2];
    let mut arrivals = arrivals.into_iter().peekable();
    loop {
        let next = arrivals.peek().map_or(Time::MAX, |packet| packet.arrived);
        if !queue.backlog().is_empty() && free_at <= next {
            let packet = queue.dequeue(free_at, &mut dropped).expect("backlogged");
            let (sum, count) = &mut waits[usize::from(packet.is_scavenger())];
            *sum += (free_at - packet.arrived).as_s();
            *count += 1.0;
            free_at += service;
        } else if let Some(packet) = arrivals.next() {
            free_at = if queue.backlog().is_empty() { free_at.max(next) } else { free_at };
            queue.enqueue(packet, next, &mut dropped);
        } else {
            return waits.map(|(sum, count)| sum / count);
        }
    }
}

/// Poisson arrivals of `per_s` packets per second, each a scavenger with probability `low`.
pub(crate) fn poisson(per_s: f64, low: f64, packets: u64, random: &mut Random) -> Vec<TestPacket> {
    let mut at = 0.0;
    let next = |number| {
        at -= (1.0 - random.unit()).ln() / per_s;
        let kind = if random.chance(low) { TestPacket::scavenger } else { TestPacket::new };
        TestPacket { arrived: Time::from_s(at), ..kind(number, 1_000) }
    };
    (0..packets).map(next).collect()
}
