//! Redistribution at epochs of what completed flows have left (000-spec section 4.5.3, `on_epoch`).

use std::cmp::{Ordering, Reverse};
use std::collections::BTreeSet;

use weir_topology::{LinkId, Network};

use super::book::{Book, Slot};
use super::flow::Flow;
use super::policy::{Order, ReshapeKey, Scope};

/// New rates for the flows concerned; only those that differ.
pub(super) fn reshape(
    network: &Network,
    book: &Book,
    freed: &BTreeSet<LinkId>,
    scope: Scope,
    order: Order,
    key: ReshapeKey,
    now: u64,
) -> Vec<(Slot, u64)> {
    let slots = match scope {
        Scope::Global => flows_on(book, freed, now),
        Scope::Local => match bottleneck(network, book, freed) {
            Some(link) => flows_on(book, &BTreeSet::from([link]), now),
            None => return Vec::new(),
        },
    };
    let mut shares: Vec<Share> =
        slots.into_iter().map(|slot| Share::new(book, slot, now)).collect();
    let mut spare = Spare::new(book);
    for share in &shares {
        spare.give_back(book.flow(share.slot), share.before - share.rate);
    }
    let sort_key = |share: &Share| {
        let flow = book.flow(share.slot);
        let time = match key {
            ReshapeKey::Completion => flow.completion(),
            ReshapeKey::Deadline => flow.deadline,
        };
        (time, flow.sequence)
    };
    match order {
        Order::Shortest => shares.sort_unstable_by_key(sort_key),
        Order::Longest => shares.sort_unstable_by_key(|share| Reverse(sort_key(share))),
    }
    for share in &mut shares {
        let flow = book.flow(share.slot);
        share.rate += spare.take(flow, flow.rate_max - share.rate);
    }
    shares.retain(|share| share.rate != share.before);
    shares.into_iter().map(|share| (share.slot, share.rate)).collect()
}

struct Share {
    slot: Slot,
    before: u64,
    rate: u64,
}

impl Share {
    /// A flow at its minimum, or at its rate if that is less: a flow behind its deadline has been
    /// given what there is already.
    fn new(book: &Book, slot: Slot, now: u64) -> Self {
        let flow = book.flow(slot);
        Self { slot, before: flow.rate, rate: flow.minimum(now).min(flow.rate) }
    }
}

/// What is free on every link while rates are being set.
struct Spare(Vec<u64>);

impl Spare {
    fn new(book: &Book) -> Self {
        Self(book.links().map(|link| link.residual()).collect())
    }

    fn give_back(&mut self, flow: &Flow, rate: u64) {
        for link in flow.path.links() {
            self.0[link.index()] += rate;
        }
    }

    /// Takes all that is free along the flow's path, at most `limit`.
    fn take(&mut self, flow: &Flow, limit: u64) -> u64 {
        let free = flow.path.links().iter().map(|link| self.0[link.index()]).min();
        let rate = free.expect("a path has at least one link").min(limit);
        for link in flow.path.links() {
            self.0[link.index()] -= rate;
        }
        rate
    }
}

/// Every flow on any of the links, once. A flow that is finishing is left alone: by the model
/// nothing remains of it, so only a report can say what it needs.
fn flows_on(book: &Book, links: &BTreeSet<LinkId>, now: u64) -> Vec<Slot> {
    let mut slots: Vec<Slot> = links.iter().flat_map(|link| book.link(*link).flows()).collect();
    slots.sort_unstable();
    slots.dedup();
    slots.retain(|slot| !book.flow(*slot).is_finishing(now));
    slots
}

/// The link with the flow that completes last; of several, the one whose other flows complete last
/// on average; of several, the one whose name comes first. Links without flows do not count.
fn bottleneck(network: &Network, book: &Book, links: &BTreeSet<LinkId>) -> Option<LinkId> {
    let mut best: Option<(LinkId, Completions)> = None;
    for link in links {
        let times = book.link(*link).flows().map(|slot| book.flow(slot).completion());
        let Some(found) = Completions::of(times) else { continue };
        let name = |id: LinkId| &network.link(id).name;
        let better = |(known_link, known): &(LinkId, Completions)| {
            found.compare(known).then(name(*known_link).cmp(name(*link))) == Ordering::Greater
        };
        if best.as_ref().is_none_or(better) {
            best = Some((*link, found));
        }
    }
    best.map(|(link, _)| link)
}

struct Completions {
    last: u64,
    sum_of_others: u128,
    others: u128,
}

impl Completions {
    fn of(times: impl Iterator<Item = u64>) -> Option<Self> {
        let (mut last, mut sum, mut count) = (0, 0, 0);
        for time in times {
            last = last.max(time);
            sum += u128::from(time);
            count += 1;
        }
        let others = || Self { last, sum_of_others: sum - u128::from(last), others: count - 1 };
        (count > 0).then(others)
    }

    fn compare(&self, other: &Self) -> Ordering {
        // Averages are compared as fractions; no others count as an average of zero.
        let of_self = self.sum_of_others * other.others.max(1);
        let of_other = other.sum_of_others * self.others.max(1);
        self.last.cmp(&other.last).then(of_self.cmp(&of_other))
    }
}
