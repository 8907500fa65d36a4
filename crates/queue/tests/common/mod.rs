//! What the tests of every discipline share: a packet, and a link that serves a queue.

#![allow(dead_code, unreachable_pub, reason = "each test file uses its part")]

pub(crate) mod calls;
pub(crate) mod link;
pub(crate) mod sources;

use weir_queue::{DisciplineConfig, Dropped, Dscp, Ecn, Packet, QueueDiscipline, Random};
use weir_units::{Bytes, Rate, Time};

/// A packet that is nothing but its fields.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct TestPacket {
    pub(crate) number: u64,
    pub(crate) arrived: Time,
    pub(crate) size: u64,
    pub(crate) dscp: Dscp,
    pub(crate) ecn: Ecn,
    pub(crate) flow: u32,
}

impl TestPacket {
    pub(crate) fn new(number: u64, size: u64) -> Self {
        Self { number, arrived: Time::ZERO, size, dscp: Dscp::CS0, ecn: Ecn::Ect0, flow: 0 }
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
        self.flow
    }
}

/// Every discipline by name, with a rate of [`RATE`]; some twice, with options of their own.
pub(crate) const DISCIPLINES: [(&str, &str); 23] = [
    ("fifo", r#"{"discipline": "fifo", "limit": {"ns": 50000000}}"#),
    ("priority", r#"{"discipline": "priority", "limit": {"packets": 60}}"#),
    (
        "priority-3",
        r#"{"discipline": "priority", "limit": {"bytes": 90000}, "classes": [[46], [], [8]]}"#,
    ),
    ("wrr", r#"{"discipline": "wrr", "limit": {"packets": 80}}"#),
    ("drr", r#"{"discipline": "drr", "limit": {"packets": 80}, "quantum_bytes": 300}"#),
    ("wfq", r#"{"discipline": "wfq", "limit": {"packets": 80}}"#),
    ("red", r#"{"discipline": "red", "weight": 0.02, "max_probability": 0.1}"#),
    (
        "red-bytes",
        r#"{"discipline": "red", "gentle": true, "byte_mode": true, "weight": 0.02, "ecn": false}"#,
    ),
    ("ared", r#"{"discipline": "ared"}"#),
    ("pie", r#"{"discipline": "pie"}"#),
    (
        "pie-linux-3.18",
        r#"{"discipline": "pie", "variant": "linux-3.18", "target_ns": 20000000,
            "update_interval_ns": 30000000, "max_burst_ns": 100000000, "derandomize": false}"#,
    ),
    (
        "pie-gate",
        r#"{"discipline": "pie", "activity_gate": true, "delay_estimate": "departure-rate",
            "byte_mode": true, "limit": {"packets": 90}}"#,
    ),
    ("codel", r#"{"discipline": "codel"}"#),
    ("fq-codel", r#"{"discipline": "fq-codel", "limit": {"packets": 120}}"#),
    ("curvy-red", r#"{"discipline": "curvy-red", "classifier": "any-ect"}"#),
    ("dual-pi2", r#"{"discipline": "dual-pi2"}"#),
    (
        "dual-pi2-random",
        r#"{"discipline": "dual-pi2", "scheduler": "time-shifted-fifo", "derandomize": false,
            "drop_on_overload": false}"#,
    ),
    ("dual-curvy-red", r#"{"discipline": "dual-curvy-red"}"#),
    (
        "dual-curvy-red-tsf",
        r#"{"discipline": "dual-curvy-red", "scheduler": "time-shifted-fifo",
            "threshold": {"ns": 1000000}, "classifier": "any-ect", "curviness": 2}"#,
    ),
    (
        "token-bucket",
        r#"{"discipline": "token-bucket", "rate_bps": 8000000, "burst_bytes": 3000,
            "limit": {"packets": 40}}"#,
    ),
    (
        "token-bucket-peak",
        r#"{"discipline": "token-bucket", "rate_bps": 6000000, "burst_bytes": 15000,
            "peak_rate_bps": 9000000, "peak_burst_bytes": 1500, "limit": {"packets": 40}}"#,
    ),
    ("policer", r#"{"discipline": "policer", "rate_bps": 8000000, "burst_bytes": 15000}"#),
    ("phantom", r#"{"discipline": "phantom", "limit": {"packets": 100}}"#),
];

/// Rate of the link before which the disciplines of this test stand.
pub(crate) const RATE: Rate = Rate::from_mbit_per_s(10);

pub(crate) type Queue = Box<dyn QueueDiscipline<TestPacket> + Send>;

/// A discipline as its JSON says, before a link of [`RATE`].
pub(crate) fn build(json: &str) -> Queue {
    build_at(json, RATE)
}

pub(crate) fn build_at(json: &str, rate: Rate) -> Queue {
    let config: DisciplineConfig = serde_json::from_str(json).expect("a discipline");
    Box::new(config.build(Some(rate), Random::of_source(1, &["queue"])).expect("valid parameters"))
}

/// Offers packets numbered from 0 and returns the numbers dropped.
pub(crate) fn offer(
    queue: &mut dyn QueueDiscipline<TestPacket>,
    packets: &[TestPacket],
) -> Vec<u64> {
    let mut dropped = Vec::new();
    for packet in packets {
        queue.enqueue(*packet, Time::ZERO, &mut dropped);
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
