use std::cmp::Reverse;

use weir_units::Time;

use super::{FabricPolicy, Flow, Route, Taken};

/// Weir's policy across several links.
///
/// Flows are taken shortest first; one is accepted if on every link of its path it and the flows
/// accepted there can all be on time, earliest deadline first, as if the link were the only one.
/// Accepted flows send in order of their deadlines, each that finds its links free; what is left
/// goes to the others, shortest first. On a single link this is [`Weir`](crate::deadline::Weir)
/// without its rule for overload. On several it is a heuristic: what every link could serve alone
/// they need not be able to serve together.
#[derive(Clone, Debug)]
pub struct Weir {
    taken: Taken,
    /// Shortest first: what is left, the later deadline, identifier and position.
    order: Vec<(Time, Reverse<Time>, u64, usize)>,
    /// By link: deadline, identifier and what is left of the flows accepted there, in order.
    queues: Vec<Vec<(Time, u64, Time)>>,
    /// Deadline, what is left, identifier and position.
    accepted: Vec<(Time, Time, u64, usize)>,
    /// Positions, shortest first.
    others: Vec<usize>,
}

impl Weir {
    /// For so many links.
    pub fn new(links: usize) -> Self {
        Self {
            taken: Taken::new(links),
            order: Vec::new(),
            queues: vec![Vec::new(); links],
            accepted: Vec::new(),
            others: Vec::new(),
        }
    }

    fn accept(&mut self, now: Time, flows: &[Flow], routes: &[Route]) {
        self.queues.iter_mut().for_each(Vec::clear);
        self.accepted.clear();
        self.others.clear();
        for place in 0..self.order.len() {
            let index = self.order[place].3;
            let (flow, links) = (&flows[index], routes[index].links());
            let entry = (flow.deadline, flow.id, flow.remaining);
            if links.iter().all(|link| fits(now, &self.queues[*link as usize], entry)) {
                for link in links {
                    let queue = &mut self.queues[*link as usize];
                    queue.insert(queue.partition_point(|other| *other < entry), entry);
                }
                self.accepted.push((flow.deadline, flow.remaining, flow.id, index));
            } else {
                self.others.push(index);
            }
        }
        self.accepted.sort_unstable();
    }
}

/// Whether a link can serve the flow and its queue in time, earliest deadline first.
fn fits(now: Time, queue: &[(Time, u64, Time)], entry: (Time, u64, Time)) -> bool {
    let (before, after) = queue.split_at(queue.partition_point(|other| *other < entry));
    let mut end = before.iter().fold(now, |end, other| end.saturating_add(other.2));
    std::iter::once(&entry).chain(after).all(|(deadline, _, remaining)| {
        end = end.saturating_add(*remaining);
        end <= *deadline
    })
}

impl FabricPolicy for Weir {
    fn decide(&mut self, now: Time, flows: &[Flow], routes: &[Route], served: &mut Vec<usize>) {
        served.clear();
        self.taken.clear();
        self.order.clear();
        let keys = flows.iter().enumerate();
        let keys = keys.map(|(i, flow)| (flow.remaining, Reverse(flow.deadline), flow.id, i));
        self.order.extend(keys);
        self.order.sort_unstable();
        self.accept(now, flows, routes);
        self.taken.serve(self.accepted.iter().map(|key| key.3), routes, served);
        self.taken.serve(self.others.iter().copied(), routes, served);
    }
}
