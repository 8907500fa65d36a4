//! First in, first out, with tail drop.
//!
//! Every buffer of the 001-spec testbed is one (section 2.3: drop-tail, 6 MiB). Departures from
//! Linux `bfifo`/`pfifo`: none in what is dropped; a packet that would pass the limit is dropped
//! even when it is the only one.

use serde::{Deserialize, Serialize};
use weir_units::Time;

use crate::class::Class;
use crate::{Amount, Backlog, ClassCounters, DropCause, Dropped, Limit, Packet, QueueDiscipline};

/// Parameters of a [`Fifo`].
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(default, deny_unknown_fields)]
pub struct FifoConfig {
    /// What may wait; no limit if absent.
    pub limit: Option<Amount>,
}

/// First in, first out; a packet that would pass the limit is dropped on arrival.
#[derive(Debug)]
pub struct Fifo<P> {
    class: Class<P>,
    limit: Limit,
}

impl<P: Packet> Fifo<P> {
    /// An empty queue.
    pub fn new(limit: Limit) -> Self {
        Self { class: Class::new("all"), limit }
    }
}

impl<P: Packet> QueueDiscipline<P> for Fifo<P> {
    #[inline]
    fn enqueue(&mut self, packet: P, now: Time, dropped: &mut Vec<Dropped<P>>) {
        if self.limit.admits(self.class.backlog(), packet.size()) {
            self.class.push(packet, now);
        } else {
            self.class.refuse(packet, DropCause::Overflow, dropped);
        }
    }

    #[inline]
    fn dequeue(&mut self, now: Time, _dropped: &mut Vec<Dropped<P>>) -> Option<P> {
        self.class.send(now)
    }

    #[inline]
    fn backlog(&self) -> Backlog {
        self.class.backlog()
    }

    fn classes(&self) -> Vec<&ClassCounters> {
        vec![self.class.counters()]
    }
}
