//! Weighted fair queueing between classes of DSCPs.
//!
//! Demers, Keshav and Shenker (1989) with weights: each packet has a finish tag, its size over its
//! class's weight after the later of its predecessor's tag and the virtual time, and the smallest
//! tag leaves first. Departure: the virtual time is self-clocked (Golestani 1994), the tag of the
//! packet that left last, instead of a simulated fluid server; shares are the same, a packet may
//! wait one packet of each other class longer. Classes and limits are those of
//! [`Priority`](crate::Priority).

use serde::{Deserialize, Serialize};
use weir_units::Time;

use crate::class::{Class, Classes};
use crate::{
    Amount, Backlog, ClassCounters, Dropped, Limit, Packet, QueueDiscipline, QueueError,
    WeightedClass,
};

/// Virtual time per byte at a weight of 1: keeps divisions by weights exact to 2^-20 bytes.
const SCALE: u128 = 1 << 20;

/// Parameters of [`Wfq`].
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(default, deny_unknown_fields)]
pub struct WfqConfig {
    /// What may wait in all classes together; each has an equal part. No limit if absent.
    pub limit: Option<Amount>,
    /// The classes; of two equal tags the earlier class's leaves first.
    pub classes: Vec<WeightedClass>,
}

impl Default for WfqConfig {
    fn default() -> Self {
        Self { limit: None, classes: WeightedClass::defaults() }
    }
}

impl WfqConfig {
    pub(crate) fn build<P: Packet>(&self, limit: Limit) -> Result<Wfq<P>, QueueError> {
        let by_dscp = WeightedClass::map(&self.classes)?;
        Ok(Wfq {
            classes: Classes::new(by_dscp, limit),
            weights: self.classes.iter().map(|class| class.weight.into()).collect(),
            finish: vec![0; self.classes.len()],
            virtual_time: 0,
        })
    }
}

/// Weighted fair queueing, self-clocked.
#[derive(Debug)]
pub struct Wfq<P> {
    classes: Classes<P>,
    weights: Vec<u128>,
    /// The tag of each class's head, or of the last that left while none waits.
    finish: Vec<u128>,
    virtual_time: u128,
}

impl<P: Packet> Wfq<P> {
    /// Moves a class's tag on by its head, if there is one.
    fn tag_head(&mut self, at: usize) {
        if let Some(size) = self.classes.each[at].head_size() {
            self.finish[at] += u128::from(size.count()) * SCALE / self.weights[at];
        }
    }
}

impl<P: Packet> QueueDiscipline<P> for Wfq<P> {
    fn enqueue(&mut self, packet: P, now: Time, dropped: &mut Vec<Dropped<P>>) {
        if let Some(woken) = self.classes.push(packet, now, dropped) {
            self.finish[woken] = self.finish[woken].max(self.virtual_time);
            self.tag_head(woken);
        }
    }

    fn dequeue(&mut self, now: Time, _dropped: &mut Vec<Dropped<P>>) -> Option<P> {
        let waiting = (0..self.weights.len()).filter(|&at| !self.classes.each[at].is_empty());
        let at = waiting.min_by_key(|&at| self.finish[at])?;
        self.virtual_time = self.finish[at];
        let packet = self.classes.each[at].send(now);
        self.tag_head(at);
        if self.classes.each.iter().all(Class::is_empty) {
            // An idle server forgets: the next busy period begins with equal tags.
            self.virtual_time = 0;
            self.finish.fill(0);
        }
        packet
    }

    fn backlog(&self) -> Backlog {
        self.classes.backlog()
    }

    fn classes(&self) -> Vec<&ClassCounters> {
        self.classes.counters()
    }
}
