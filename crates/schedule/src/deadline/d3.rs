use weir_units::Time;

use super::random::Random;
use super::{Decision, Flow, Policy};

/// In which order the requests of one round trip reach a switch that keeps no state; the published
/// text does not say.
#[derive(Clone, Debug)]
pub enum StatelessOrder {
    /// Unrelated to the flows: a fresh permutation in every slot.
    Shuffled(Random),
    /// Always the same, by server: a hidden static priority.
    Fixed,
}

/// Whether a flow that is new to a switch with state may start with less than it asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stateful {
    /// It takes what is left.
    Partial,
    /// It waits until all it asks for is left.
    Admitted,
}

/// D3 on one link (Wilson et al., SIGCOMM 2011, as modelled in work 002, sections 2.3 and 2.4):
/// each flow asks for what is left over the time left, and greedily gets that and a fair share of
/// the rest, first come, first served.
#[derive(Clone, Debug)]
pub struct D3 {
    order: Order,
    requests: Vec<Request>,
}

#[derive(Clone, Debug)]
enum Order {
    Stateless(StatelessOrder),
    Stateful(Stateful),
}

/// What a flow asks for in one slot.
#[derive(Clone, Copy, Debug)]
struct Request {
    flow: usize,
    rate: Time,
    may_start: bool,
}

impl D3 {
    /// The published protocol: the switch remembers no flow.
    pub(crate) fn stateless(order: StatelessOrder) -> Self {
        Self { order: Order::Stateless(order), requests: Vec::new() }
    }

    /// The variant of work 002: flows once served come first, in the order in which they were.
    pub(crate) fn stateful(kind: Stateful) -> Self {
        Self { order: Order::Stateful(kind), requests: Vec::new() }
    }

    /// The requests of this slot, in the order in which they are answered.
    fn collect(&mut self, now: Time, slot: Time, flows: &[Flow]) {
        self.requests.clear();
        self.requests.extend(flows.iter().enumerate().map(|(flow, asking)| {
            let slots_left = asking.deadline.saturating_sub(now).as_ns() / slot.as_ns();
            // Rounded up: whoever always gets what it asks for must not end a nanosecond late.
            let rate = Time::from_ns(asking.remaining.as_ns().div_ceil(slots_left.max(1)));
            Request { flow, rate, may_start: true }
        }));
        let age = |request: &Request| {
            let flow = &flows[request.flow];
            (flow.first_served.unwrap_or(Time::MAX), flow.arrival, flow.id)
        };
        match &mut self.order {
            Order::Stateless(order) => {
                // The permutation must not depend on the order of the list.
                self.requests.sort_unstable_by_key(|request| {
                    (flows[request.flow].source, flows[request.flow].id)
                });
                if let StatelessOrder::Shuffled(random) = order {
                    random.shuffle(&mut self.requests);
                }
            }
            Order::Stateful(kind) => {
                self.requests.sort_unstable_by_key(age);
                for request in &mut self.requests {
                    request.may_start =
                        *kind == Stateful::Partial || flows[request.flow].first_served.is_some();
                }
            }
        }
    }
}

impl Policy for D3 {
    fn decide(&mut self, now: Time, slot: Time, flows: &[Flow], decision: &mut Decision) {
        decision.clear();
        decision.holds = slot;
        self.collect(now, slot, flows);
        let Ok(count @ 1..) = u64::try_from(flows.len()) else { return };
        let demand =
            self.requests.iter().map(|request| request.rate).fold(Time::ZERO, Time::saturating_add);
        let fair = Time::from_ns(slot.saturating_sub(demand).as_ns() / count);
        let mut left = slot;
        for &Request { flow, rate, may_start } in &self.requests {
            let wanted = if left > rate { left.min(rate + fair) } else { left };
            let share = wanted.min(flows[flow].remaining);
            if share > Time::ZERO && (may_start || left >= rate) {
                left -= share;
                decision.service.push((flow, share));
            }
        }
    }
}
