//! Weighted and deficit round robin between classes of DSCPs.
//!
//! Deficit round robin: Shreedhar and Varghese, "Efficient Fair Queueing Using Deficit Round Robin"
//! (1995), section 3: each class in its turn may send its weight times the quantum in bytes, and
//! keeps what it could not use while it still has packets. Weighted round robin is the same with
//! packets for bytes: its weight in packets per turn, so shares of bytes follow the sizes.
//!
//! Departure: a class is by DSCP and has an equal part of the limit to itself, as in
//! [`Priority`](crate::Priority). A quantum below the largest packet is allowed, at the price of
//! several turns per packet.

use std::collections::VecDeque;

use serde::{Deserialize, Serialize};
use weir_units::{Bytes, Time};

use crate::class::Classes;
use crate::error::require;
use crate::{
    Amount, Backlog, ClassCounters, Dropped, Limit, Packet, QueueDiscipline, QueueError,
    WeightedClass,
};

/// Parameters of weighted round robin.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(default, deny_unknown_fields)]
pub struct WrrConfig {
    /// What may wait in all classes together; each has an equal part. No limit if absent.
    pub limit: Option<Amount>,
    /// The classes, in the order of their turns; the weight is in packets per turn.
    pub classes: Vec<WeightedClass>,
}

impl Default for WrrConfig {
    fn default() -> Self {
        Self { limit: None, classes: WeightedClass::defaults() }
    }
}

impl WrrConfig {
    pub(crate) fn build<P: Packet>(&self, limit: Limit) -> Result<RoundRobin<P>, QueueError> {
        RoundRobin::new(&self.classes, 1, Measure::Packets, limit)
    }
}

/// Parameters of deficit round robin.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(default, deny_unknown_fields)]
pub struct DrrConfig {
    /// What may wait in all classes together; each has an equal part. No limit if absent.
    pub limit: Option<Amount>,
    /// The classes, in the order of their turns.
    pub classes: Vec<WeightedClass>,
    /// Bytes per turn for a weight of 1.
    pub quantum_bytes: u64,
}

impl Default for DrrConfig {
    fn default() -> Self {
        Self { limit: None, classes: WeightedClass::defaults(), quantum_bytes: 1_514 }
    }
}

impl DrrConfig {
    pub(crate) fn build<P: Packet>(&self, limit: Limit) -> Result<RoundRobin<P>, QueueError> {
        let quantum = self.quantum_bytes;
        let reason = "64 to 1000000 are allowed";
        require((64..=1_000_000).contains(&quantum), "quantum_bytes", quantum, reason)?;
        RoundRobin::new(&self.classes, quantum, Measure::Bytes, limit)
    }
}

/// What a turn is measured in.
#[derive(Clone, Copy, Debug)]
enum Measure {
    Packets,
    Bytes,
}

impl Measure {
    fn cost(self, size: Bytes) -> u64 {
        match self {
            Self::Packets => 1,
            Self::Bytes => size.count(),
        }
    }
}

/// Round robin with weights, by packets or by bytes.
#[derive(Debug)]
pub struct RoundRobin<P> {
    classes: Classes<P>,
    measure: Measure,
    /// What each class may send in a turn.
    quanta: Vec<u64>,
    /// What each has left of its turn.
    deficits: Vec<u64>,
    /// The classes that have packets; the first is at its turn.
    turns: VecDeque<usize>,
    /// The first has not yet got its quantum.
    begins: bool,
}

impl<P: Packet> RoundRobin<P> {
    fn new(
        classes: &[WeightedClass],
        quantum: u64,
        measure: Measure,
        limit: Limit,
    ) -> Result<Self, QueueError> {
        let by_dscp = WeightedClass::map(classes)?;
        Ok(Self {
            classes: Classes::new(by_dscp, limit),
            measure,
            quanta: classes.iter().map(|class| u64::from(class.weight) * quantum).collect(),
            deficits: vec![0; classes.len()],
            turns: VecDeque::new(),
            begins: true,
        })
    }

    fn end_turn(&mut self) {
        self.turns.rotate_left(1);
        self.begins = true;
    }
}

impl<P: Packet> QueueDiscipline<P> for RoundRobin<P> {
    fn enqueue(&mut self, packet: P, now: Time, dropped: &mut Vec<Dropped<P>>) {
        if let Some(woken) = self.classes.push(packet, now, dropped) {
            self.turns.push_back(woken);
        }
    }

    fn dequeue(&mut self, now: Time, _dropped: &mut Vec<Dropped<P>>) -> Option<P> {
        loop {
            let at = *self.turns.front()?;
            if std::mem::replace(&mut self.begins, false) {
                self.deficits[at] += self.quanta[at];
            }
            let class = &mut self.classes.each[at];
            let cost = self.measure.cost(class.head_size()?);
            if cost > self.deficits[at] {
                self.end_turn();
                continue;
            }
            self.deficits[at] -= cost;
            let packet = class.send(now);
            if class.is_empty() {
                self.deficits[at] = 0;
                self.turns.pop_front();
                self.begins = true;
            }
            return packet;
        }
    }

    fn backlog(&self) -> Backlog {
        self.classes.backlog()
    }

    fn classes(&self) -> Vec<&ClassCounters> {
        self.classes.counters()
    }
}
