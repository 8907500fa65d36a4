//! Who holds how much of which link: the state that policies decide on.
//!
//! A link keeps its flows in two lists. `loose` has those that were above their minimum when their
//! rate was last set, by completion time: the ones worth pacing. `tight` has the rest, which can
//! spare at most what rounding left over. A saturated link has few loose flows however many cross
//! it, because whoever is given all that is free saturates a link of its path and the others there
//! are at their minimum; so decisions cost little even with thousands of flows.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashMap};

use weir_topology::{LinkId, Network, Path};

use super::flow::{Flow, slack};
use crate::calendar::amount::Nanobits;
use crate::calendar::request::FlowId;

/// Where a flow is kept; reused after it has gone.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) struct Slot(u32);

impl Slot {
    pub(super) fn index(self) -> usize {
        self.0 as usize
    }
}

/// A flow above its minimum, in order of completion, then of admission.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Loose {
    completion: u64,
    sequence: u64,
    pub(super) slot: Slot,
}

/// A flow at its minimum, in order of admission, with what its rounding left over.
#[derive(Clone, Copy, Debug)]
pub(super) struct Tight {
    sequence: u64,
    surplus: i128,
    deadline: u64,
    completion: u64,
    pub(super) slot: Slot,
}

impl Tight {
    pub(super) fn slack(&self, now: u64) -> u64 {
        slack(self.surplus, self.deadline, self.completion, now)
    }
}

#[derive(Clone, Debug)]
pub(super) struct LinkBook {
    capacity: u64,
    used: u64,
    pub(super) loose: Vec<Loose>,
    pub(super) tight: Vec<Tight>,
}

impl LinkBook {
    pub(super) fn capacity(&self) -> u64 {
        self.capacity
    }

    pub(super) fn used(&self) -> u64 {
        self.used
    }

    pub(super) fn residual(&self) -> u64 {
        self.capacity - self.used
    }

    pub(super) fn flows(&self) -> impl Iterator<Item = Slot> + '_ {
        self.loose.iter().map(|entry| entry.slot).chain(self.tight.iter().map(|entry| entry.slot))
    }

    pub(super) fn flow_count(&self) -> usize {
        self.loose.len() + self.tight.len()
    }
}

/// When a flow ends by the model; stale once its rate has changed.
type Ending = Reverse<(u64, u64, Slot)>;

#[derive(Clone, Debug)]
pub(super) struct Book {
    flows: Vec<Option<Flow>>,
    free: Vec<Slot>,
    by_id: HashMap<FlowId, Slot>,
    links: Vec<LinkBook>,
    /// `None` where completions are reported, not modelled.
    endings: Option<BinaryHeap<Ending>>,
    next_sequence: u64,
}

impl Book {
    pub(super) fn new(network: &Network, modelled: bool) -> Self {
        let link_book = |id| LinkBook {
            capacity: network.link(id).capacity.as_bit_per_s(),
            used: 0,
            loose: Vec::new(),
            tight: Vec::new(),
        };
        Self {
            flows: Vec::new(),
            free: Vec::new(),
            by_id: HashMap::new(),
            links: network.links().map(link_book).collect(),
            endings: modelled.then(BinaryHeap::new),
            next_sequence: 0,
        }
    }

    pub(super) fn link(&self, id: LinkId) -> &LinkBook {
        &self.links[id.index()]
    }

    /// Sets what a link can carry, which is no less than what is handed out.
    pub(super) fn set_capacity(&mut self, id: LinkId, capacity: u64) {
        let book = &mut self.links[id.index()];
        assert!(book.used <= capacity, "flows were slowed down before");
        book.capacity = capacity;
    }

    /// Every link, in the network's order.
    pub(super) fn links(&self) -> impl Iterator<Item = &LinkBook> {
        self.links.iter()
    }

    pub(super) fn flow(&self, slot: Slot) -> &Flow {
        self.flows[slot.index()].as_ref().expect("a slot is kept no longer than its flow")
    }

    pub(super) fn find(&self, id: &FlowId) -> Option<Slot> {
        self.by_id.get(id).copied()
    }

    /// One more than the highest slot in use or used before.
    pub(super) fn slot_count(&self) -> usize {
        self.flows.len()
    }

    /// Every flow, in order of admission.
    pub(super) fn in_order(&self) -> Vec<Slot> {
        let mut slots = self.matching(|_| true);
        slots.sort_unstable_by_key(|slot| self.flow(*slot).sequence);
        slots
    }

    /// The flows behind their deadline, the most urgent first.
    pub(super) fn behind(&self, now: u64) -> Vec<Slot> {
        let mut slots = self.matching(|flow| flow.is_behind(now));
        slots.sort_unstable_by_key(|slot| {
            let flow = self.flow(*slot);
            (flow.deadline, flow.sequence)
        });
        slots
    }

    fn matching(&self, wanted: impl Fn(&Flow) -> bool) -> Vec<Slot> {
        let slots = (0..).map(Slot).zip(&self.flows);
        let matching = slots.filter(|(_, flow)| flow.as_ref().is_some_and(&wanted));
        matching.map(|(slot, _)| slot).collect()
    }

    /// What is free all along a path.
    pub(super) fn residual(&self, path: &Path) -> u64 {
        let residuals = path.links().iter().map(|link| self.link(*link).residual());
        residuals.min().expect("a path has at least one link")
    }

    pub(super) fn next_sequence(&self) -> u64 {
        self.next_sequence
    }

    /// The number that the next admitted flow gets; for a snapshot being restored.
    pub(super) fn set_next_sequence(&mut self, sequence: u64) {
        self.next_sequence = sequence;
    }

    pub(super) fn insert(&mut self, flow: Flow) -> Slot {
        let slot = self.free.pop().unwrap_or_else(|| {
            self.flows.push(None);
            let index = self.flows.len() - 1;
            Slot(u32::try_from(index).expect("2^32 flows do not fit in memory"))
        });
        self.next_sequence = self.next_sequence.max(flow.sequence + 1);
        self.by_id.insert(flow.id.clone(), slot);
        self.attach(slot, &flow);
        self.flows[slot.index()] = Some(flow);
        slot
    }

    pub(super) fn remove(&mut self, slot: Slot) -> Flow {
        let flow = self.flows[slot.index()].take().expect("a slot is kept no longer than its flow");
        self.detach(&flow);
        self.by_id.remove(&flow.id);
        self.free.push(slot);
        flow
    }

    pub(super) fn set_rate(&mut self, slot: Slot, now: u64, rate: u64) {
        self.edit(slot, |flow| flow.set_rate(now, rate));
    }

    pub(super) fn set_remaining(&mut self, slot: Slot, now: u64, remaining: Nanobits) {
        self.edit(slot, |flow| flow.set_remaining(now, remaining));
    }

    /// Removes the next flow that has ended by `now`, if completions are modelled; in order of
    /// ending, then of admission.
    pub(super) fn pop_ended(&mut self, now: u64) -> Option<Flow> {
        loop {
            let endings = self.endings.as_mut()?;
            let Reverse((completion, sequence, slot)) = *endings.peek()?;
            if completion > now {
                return None;
            }
            endings.pop();
            let current = self.flows[slot.index()].as_ref();
            let valid = |flow: &Flow| flow.sequence == sequence && flow.completion() == completion;
            if current.is_some_and(valid) {
                return Some(self.remove(slot));
            }
        }
    }

    fn edit(&mut self, slot: Slot, change: impl FnOnce(&mut Flow)) {
        let mut flow =
            self.flows[slot.index()].take().expect("a slot is kept no longer than its flow");
        self.detach(&flow);
        change(&mut flow);
        self.attach(slot, &flow);
        self.flows[slot.index()] = Some(flow);
    }

    fn attach(&mut self, slot: Slot, flow: &Flow) {
        let (sequence, completion) = (flow.sequence, flow.completion());
        for link in flow.path.links() {
            let book = &mut self.links[link.index()];
            book.used += flow.rate;
            assert!(book.used <= book.capacity, "policies hand out no more than there is");
            if flow.is_loose() {
                let entry = Loose { completion, sequence, slot };
                let place = book.loose.partition_point(|other| *other < entry);
                book.loose.insert(place, entry);
            } else {
                let (surplus, deadline) = (flow.surplus(), flow.deadline);
                let place = book.tight.partition_point(|other| other.sequence < sequence);
                let entry = Tight { sequence, surplus, deadline, completion, slot };
                book.tight.insert(place, entry);
            }
        }
        self.expect_ending(Reverse((completion, sequence, slot)));
    }

    fn detach(&mut self, flow: &Flow) {
        let key = (flow.completion(), flow.sequence);
        for link in flow.path.links() {
            let book = &mut self.links[link.index()];
            book.used -= flow.rate;
            if flow.is_loose() {
                let place =
                    book.loose.partition_point(|other| (other.completion, other.sequence) < key);
                book.loose.remove(place);
            } else {
                let place = book.tight.partition_point(|other| other.sequence < flow.sequence);
                book.tight.remove(place);
            }
        }
    }

    fn expect_ending(&mut self, ending: Ending) {
        let Some(endings) = &mut self.endings else { return };
        endings.push(ending);
        // Stale entries are dropped when they outnumber the flows, so that memory stays bounded.
        if endings.len() > 4 * self.flows.len() + 64 {
            let flows = &self.flows;
            endings.retain(|entry| {
                let Reverse((completion, sequence, slot)) = *entry;
                *entry == ending
                    || flows[slot.index()].as_ref().is_some_and(|flow| {
                        flow.sequence == sequence && flow.completion() == completion
                    })
            });
        }
    }
}
