//! Room for a flow by slowing others down to their minimum (000-spec section 4.5.3, `pace`).

use weir_topology::{LinkId, Path};

use super::book::{Book, LinkBook, Slot};
use super::policy::Order;

/// Whom to slow down, and what that makes free.
#[derive(Clone, Debug, Default)]
pub(super) struct Plan {
    /// The flows, each with the rate that it gives up: all its slack.
    pub(super) taken: Vec<(Slot, u64)>,
    /// The least over the path's links of what was found when that was enough.
    pub(super) rate: u64,
}

/// Remembers which flows are in the plan at hand without clearing between plans.
#[derive(Clone, Debug, Default)]
pub(super) struct Marks {
    round_of: Vec<u64>,
    round: u64,
}

impl Marks {
    fn start(&mut self, slot_count: usize) {
        self.round += 1;
        self.round_of.resize(slot_count.max(self.round_of.len()), 0);
    }

    /// Whether the slot was not yet marked in this round.
    fn mark(&mut self, slot: Slot) -> bool {
        let round = &mut self.round_of[slot.index()];
        let new = *round != self.round;
        *round = self.round;
        new
    }
}

/// Finds `needed` on every link of the path: what is free, what flows already in the plan give up,
/// then the slack of further flows, longest first for SJF and shortest first for LJF. `None` when
/// some link has too little even so.
pub(super) fn plan(
    book: &Book,
    marks: &mut Marks,
    path: &Path,
    needed: u64,
    order: Order,
    now: u64,
) -> Option<Plan> {
    marks.start(book.slot_count());
    let mut plan = Plan { taken: Vec::new(), rate: u64::MAX };
    for link in path.links() {
        let shared = shared_slack(book, &plan, *link);
        let mut search = Search { book, marks, plan: &mut plan, needed, now };
        let link_book = book.link(*link);
        let found = search.take(link_book, order, link_book.residual() + shared);
        if found < needed {
            return None;
        }
        plan.rate = plan.rate.min(found);
    }
    Some(plan)
}

/// What flows of the plan give up on a link.
fn shared_slack(book: &Book, plan: &Plan, link: LinkId) -> u64 {
    let crossing = |slot: &Slot| book.flow(*slot).path.links().contains(&link);
    plan.taken.iter().filter(|(slot, _)| crossing(slot)).map(|(_, slack)| slack).sum()
}

struct Search<'a> {
    book: &'a Book,
    marks: &'a mut Marks,
    plan: &'a mut Plan,
    needed: u64,
    now: u64,
}

impl Search<'_> {
    /// Adds flows of the link to the plan until `found` reaches what is needed.
    fn take(&mut self, link: &LinkBook, order: Order, mut found: u64) -> u64 {
        let mut loose = link.loose.iter();
        while found < self.needed {
            let next = match order {
                Order::Shortest => loose.next_back(),
                Order::Longest => loose.next(),
            };
            let Some(entry) = next else { break };
            found += self.take_flow(entry.slot, self.book.flow(entry.slot).slack(self.now));
        }
        // What rounding left to flows at their minimum decides only the closest of calls, but
        // without it a refusal would not be exact.
        for entry in &link.tight {
            if found >= self.needed {
                break;
            }
            found += self.take_flow(entry.slot, entry.slack(self.now));
        }
        found
    }

    fn take_flow(&mut self, slot: Slot, slack: u64) -> u64 {
        if slack == 0 || !self.marks.mark(slot) {
            return 0;
        }
        self.plan.taken.push((slot, slack));
        slack
    }
}

/// The most that the path could give to one more flow, with every other at its minimum, and the
/// link that sets it; of several, the first.
pub(super) fn available(book: &Book, path: &Path, now: u64) -> (LinkId, u64) {
    let mut links: Vec<(u64, usize)> = path
        .links()
        .iter()
        .enumerate()
        .map(|(position, link)| (without_rounding(book, book.link(*link), now), position))
        .collect();
    links.sort_unstable();
    let mut best = (u64::MAX, usize::MAX);
    for (at_least, position) in links {
        if (at_least, position) > best {
            break;
        }
        let tight = &book.link(path.links()[position]).tight;
        let rounding: u64 = tight.iter().map(|entry| entry.slack(now)).sum();
        best = best.min((at_least + rounding, position));
    }
    (path.links()[best.1], best.0)
}

fn without_rounding(book: &Book, link: &LinkBook, now: u64) -> u64 {
    let slack: u64 = link.loose.iter().map(|entry| book.flow(entry.slot).slack(now)).sum();
    link.residual() + slack
}
