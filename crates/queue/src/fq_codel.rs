//! FQ-CoDel: flow queueing with CoDel on each queue (RFC 8290).
//!
//! Section 4.1 enqueue: a salted hash of the flow picks one of `flows` queues; when the limit is
//! passed, the queue with most bytes loses half its packets, at most 64, from its head; 4.2
//! dequeue: deficit round robin over new queues before old ones, with a new queue that runs empty
//! sent once through the old list; 5.2 its parameters. CoDel on each queue is that of
//! [`crate::Codel`], with `ce_threshold` as in Linux. `perturbation` is the salt, to have two flows
//! collide on purpose, or not at all.
//!
//! Departures from Linux: no second limit on memory; the fattest queue is searched among the queues
//! in use. Flows are told apart by [`Packet::flow_hash`] alone, so two flows of equal hash share
//! their queue as two that collide do.

use std::collections::VecDeque;

use serde::{Deserialize, Serialize};
use weir_units::{Bytes, Time};

use crate::class::Taken;
use crate::codel::{Controlled, Law, State};
use crate::error::require;
use crate::ns;
use crate::{
    Amount, Backlog, ClassCounters, DropCause, Dropped, Limit, Packet, QueueDiscipline, QueueError,
    Random,
};

/// Packets dropped at most from one queue when the limit is passed.
const DROP_BATCH: u64 = 64;
const NONE: u32 = u32::MAX;

/// Parameters of [`FqCodel`].
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(default, deny_unknown_fields)]
pub struct FqCodelConfig {
    /// What may wait in all queues together; 10240 packets if absent.
    pub limit: Option<Amount>,
    /// How many queues.
    pub flows: u32,
    /// Bytes that each queue sends in its turn.
    pub quantum_bytes: u64,
    /// Standing delay that is acceptable in a queue.
    #[serde(rename = "target_ns", with = "ns")]
    pub target: Time,
    /// How long it may be exceeded.
    #[serde(rename = "interval_ns", with = "ns")]
    pub interval: Time,
    /// Mark ECN-capable packets instead of dropping them.
    pub ecn: bool,
    /// Mark every ECN-capable packet that waited longer; never if absent.
    #[serde(rename = "ce_threshold_ns", with = "ns")]
    pub ce_threshold: Time,
    /// What hashes of flows are salted with; random if absent.
    pub perturbation: Option<u64>,
}

impl Default for FqCodelConfig {
    fn default() -> Self {
        Self {
            limit: None,
            flows: 1_024,
            quantum_bytes: 1_514,
            target: Time::from_ms(5),
            interval: Time::from_ms(100),
            ecn: true,
            ce_threshold: Time::MAX,
            perturbation: None,
        }
    }
}

impl FqCodelConfig {
    pub(crate) fn limit(&self) -> Amount {
        self.limit.unwrap_or(Amount::Packets(10_240))
    }

    pub(crate) fn build<P: Packet>(
        &self,
        limit: Limit,
        mut random: Random,
    ) -> Result<FqCodel<P>, QueueError> {
        let flows = self.flows;
        require((1..=65_536).contains(&flows), "flows", flows, "1 to 65536 are allowed")?;
        let quantum = self.quantum_bytes;
        let reason = "64 to 1000000 are allowed";
        require((64..=1_000_000).contains(&quantum), "quantum_bytes", quantum, reason)?;
        Ok(FqCodel {
            law: Law::new(self.target, self.interval, self.ecn, self.ce_threshold)?,
            limit,
            quantum: quantum as i64,
            salt: self.perturbation.unwrap_or_else(|| random.up_to(u64::MAX)),
            flows: vec![Flow::default(); flows as usize],
            fresh: VecDeque::new(),
            old: VecDeque::new(),
            store: Store { nodes: Vec::new(), free: NONE },
            counters: ClassCounters::new("all"),
        })
    }
}

/// The list that a queue is in.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum List {
    #[default]
    None,
    New,
    Old,
}

/// One queue: a chain of nodes of the store.
#[derive(Clone, Copy, Debug)]
struct Flow {
    head: u32,
    tail: u32,
    backlog: Backlog,
    deficit: i64,
    list: List,
    codel: State,
}

impl Default for Flow {
    fn default() -> Self {
        Self {
            head: NONE,
            tail: NONE,
            backlog: Backlog::default(),
            deficit: 0,
            list: List::None,
            codel: State::default(),
        }
    }
}

/// The packets of all queues: memory grows with the backlog, not with the number of queues.
#[derive(Debug)]
struct Store<P> {
    nodes: Vec<Node<P>>,
    /// The first node not in use.
    free: u32,
}

#[derive(Debug)]
struct Node<P> {
    since: Time,
    packet: Option<P>,
    next: u32,
}

impl<P: Packet> Store<P> {
    fn push(&mut self, flow: &mut Flow, packet: P, now: Time) {
        flow.backlog.packets += 1;
        flow.backlog.bytes += packet.size();
        let node = Node { since: now, packet: Some(packet), next: NONE };
        let index = self.free;
        let index = if index == NONE {
            self.nodes.push(node);
            self.nodes.len() as u32 - 1
        } else {
            self.free = self.nodes[index as usize].next;
            self.nodes[index as usize] = node;
            index
        };
        match flow.tail {
            NONE => flow.head = index,
            tail => self.nodes[tail as usize].next = index,
        }
        flow.tail = index;
    }

    fn pop(&mut self, flow: &mut Flow, now: Time) -> Option<Taken<P>> {
        let node = self.nodes.get_mut(flow.head as usize)?;
        let packet = node.packet.take()?;
        let (index, sojourn) = (flow.head, now - node.since);
        flow.head = std::mem::replace(&mut node.next, self.free);
        self.free = index;
        if flow.head == NONE {
            flow.tail = NONE;
        }
        flow.backlog.packets -= 1;
        flow.backlog.bytes -= packet.size();
        Some(Taken { packet, sojourn })
    }
}

/// One queue under CoDel.
struct OneFlow<'a, P> {
    flow: &'a mut Flow,
    store: &'a mut Store<P>,
    counters: &'a mut ClassCounters,
    dropped: &'a mut Vec<Dropped<P>>,
}

impl<P: Packet> Controlled<P> for OneFlow<'_, P> {
    fn pop(&mut self, now: Time) -> Option<Taken<P>> {
        let taken = self.store.pop(self.flow, now)?;
        self.counters.on_taken(&taken.packet);
        Some(taken)
    }

    fn bytes(&self) -> Bytes {
        self.flow.backlog.bytes
    }

    fn mark(&mut self, packet: &mut P) {
        packet.mark_ce();
        self.counters.marked += 1;
    }

    fn drop(&mut self, packet: P) {
        self.counters.on_dropped(&packet, DropCause::Aqm);
        self.dropped.push(Dropped { packet, cause: DropCause::Aqm });
    }
}

/// Flow queueing with CoDel on each queue.
#[derive(Debug)]
pub struct FqCodel<P> {
    law: Law,
    limit: Limit,
    quantum: i64,
    salt: u64,
    flows: Vec<Flow>,
    fresh: VecDeque<u32>,
    old: VecDeque<u32>,
    store: Store<P>,
    counters: ClassCounters,
}

impl<P: Packet> FqCodel<P> {
    fn flow_of(&self, packet: &P) -> u32 {
        // Multiplicative hashing of the salted hash; the high half is scaled to the queues.
        let mixed = (u64::from(packet.flow_hash()) ^ self.salt).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        (((mixed >> 32) * self.flows.len() as u64) >> 32) as u32
    }

    /// RFC 8290 section 4.1.
    fn drop_from_fattest(&mut self, now: Time, dropped: &mut Vec<Dropped<P>>) {
        let in_use = self.fresh.iter().chain(&self.old);
        let fattest = in_use.copied().max_by_key(|&at| self.flows[at as usize].backlog.bytes);
        let Some(fattest) = fattest else { return };
        let flow = &mut self.flows[fattest as usize];
        let count = flow.backlog.packets.div_ceil(2).min(DROP_BATCH);
        for _ in 0..count {
            let Some(taken) = self.store.pop(flow, now) else { return };
            self.counters.on_taken(&taken.packet);
            self.counters.on_dropped(&taken.packet, DropCause::Overflow);
            dropped.push(Dropped { packet: taken.packet, cause: DropCause::Overflow });
        }
    }
}

impl<P: Packet> QueueDiscipline<P> for FqCodel<P> {
    fn enqueue(&mut self, packet: P, now: Time, dropped: &mut Vec<Dropped<P>>) {
        self.counters.on_offer(&packet);
        self.counters.on_queued(&packet);
        let at = self.flow_of(&packet);
        let flow = &mut self.flows[at as usize];
        self.store.push(flow, packet, now);
        if flow.list == List::None {
            flow.list = List::New;
            flow.deficit = self.quantum;
            self.fresh.push_back(at);
        }
        while !self.limit.holds(self.counters.backlog) {
            self.drop_from_fattest(now, dropped);
        }
    }

    fn dequeue(&mut self, now: Time, dropped: &mut Vec<Dropped<P>>) -> Option<P> {
        loop {
            let is_new = !self.fresh.is_empty();
            let list = if is_new { &mut self.fresh } else { &mut self.old };
            let at = *list.front()?;
            let flow = &mut self.flows[at as usize];
            if flow.deficit <= 0 {
                flow.deficit += self.quantum;
                flow.list = List::Old;
                list.pop_front();
                self.old.push_back(at);
                continue;
            }
            let mut codel = flow.codel;
            let (store, counters) = (&mut self.store, &mut self.counters);
            let mut one = OneFlow { flow, store, counters, dropped };
            let taken = codel.dequeue(&mut one, &self.law, now);
            flow.codel = codel;
            if let Some(taken) = taken {
                flow.deficit -= taken.packet.size().count() as i64;
                self.counters.on_left(&taken.packet, taken.sojourn);
                return Some(taken.packet);
            }
            list.pop_front();
            // A new queue goes through the old list once, lest a flow that sends one packet at a
            // time be new for ever.
            if is_new && !self.old.is_empty() {
                flow.list = List::Old;
                self.old.push_back(at);
            } else {
                flow.list = List::None;
            }
        }
    }

    fn backlog(&self) -> Backlog {
        self.counters.backlog
    }

    fn classes(&self) -> Vec<&ClassCounters> {
        vec![&self.counters]
    }
}
