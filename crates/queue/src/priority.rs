//! Strict priority between classes of DSCPs, with a statically split buffer.
//!
//! By default there are two: packets of DSCP CS1 ("scavenger", RFC 3662) wait in the low class and
//! leave only when the high class, which holds everything else, is empty. Each class has an equal
//! part of the limit to itself (000-spec: equal halves), so that none can take another's buffer.
//! Departure from Linux `prio`: classes by DSCP alone, no filters, no disciplines within.

use serde::{Deserialize, Serialize};
use weir_units::Time;

use crate::class::Classes;
use crate::classify::ByDscp;
use crate::{
    Amount, Backlog, ClassCounters, Dropped, Dscp, Limit, Packet, QueueDiscipline, QueueError,
};

/// Parameters of [`Priority`].
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(default, deny_unknown_fields)]
pub struct PriorityConfig {
    /// What may wait in all classes together; each has an equal part. No limit if absent.
    pub limit: Option<Amount>,
    /// The DSCPs of each class, first served first; the one empty list takes all others.
    pub classes: Vec<Vec<u8>>,
}

impl Default for PriorityConfig {
    fn default() -> Self {
        Self { limit: None, classes: vec![vec![], vec![Dscp::CS1.value()]] }
    }
}

impl PriorityConfig {
    pub(crate) fn build<P: Packet>(&self, limit: Limit) -> Result<Priority<P>, QueueError> {
        let mut by_dscp = ByDscp::new("classes", &self.classes)?;
        if self.classes.len() == 2 {
            by_dscp = by_dscp.renamed(["high", "low"]);
        }
        Ok(Priority { classes: Classes::new(by_dscp, limit) })
    }
}

/// Strict priority; first in, first out within each class.
#[derive(Debug)]
pub struct Priority<P> {
    classes: Classes<P>,
}

impl<P: Packet> Priority<P> {
    /// Everything else over CS1, each of which may hold half of `limit`.
    pub fn new(limit: Limit) -> Self {
        PriorityConfig::default().build(limit).expect("the default classes are valid")
    }
}

impl<P: Packet> QueueDiscipline<P> for Priority<P> {
    fn enqueue(&mut self, packet: P, now: Time, dropped: &mut Vec<Dropped<P>>) {
        self.classes.push(packet, now, dropped);
    }

    fn dequeue(&mut self, now: Time, _dropped: &mut Vec<Dropped<P>>) -> Option<P> {
        self.classes.each.iter_mut().find_map(|class| class.send(now))
    }

    fn backlog(&self) -> Backlog {
        self.classes.backlog()
    }

    fn classes(&self) -> Vec<&ClassCounters> {
        self.classes.counters()
    }
}
