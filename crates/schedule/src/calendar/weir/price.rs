//! What a bit on a link is worth: the price of admitting a request, learnt from those that came.
//!
//! Each link has a price per bit. It falls while less is asked of the link than it can carry and
//! rises while more is, so that it settles where the load that is worth its price is what the link
//! can carry: dual mirror descent (S. Balseiro, H. Lu, V. Mirrokni, "The Best of Many Worlds: Dual
//! Mirror Descent for Online Allocation Problems", Operations Research 2023), with the passing of
//! time as the budget. A request that is worth less than the capacity it takes is refused, though
//! it might fit, because what would come later in its place is worth more.
//!
//! Nobody understands such a refusal whose link is idle otherwise, and there it is wrong: a price
//! counts only where what lighter requests lately asked for, over as long as this one has, would
//! not fit beside it and all that is reserved ([`lately`](super::lately)).

use weir_topology::{LinkId, Network};
use weir_units::{Bytes, Time};

use super::lately::{Lately, octave};

/// What a request is worth.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Worth {
    /// Everything that fits is admitted.
    #[default]
    Anything,
    /// Its weight: as many requests as possible are admitted, the large ones last.
    Request,
}

impl Worth {
    /// The name of the policy that admits by it.
    pub fn policy_name(self) -> &'static str {
        match self {
            Self::Anything => "weir-all",
            Self::Request => "weir",
        }
    }
}

/// Over how much traffic of a link a price is learnt: this long at full rate.
const MEMORY_S: f64 = 600.0;
/// How much of a link prices let through, against its capacity. Above one, because what is asked
/// of one path may find room on another; higher, plans fill up and small requests find no room.
const TARGET: f64 = 1.05;
/// How far below the usual value of a bit prices begin, and end when little is asked: the
/// exponent of e.
const DEPTH: f64 = 4.0;
/// Over how many requests the usual value is learnt.
const USUAL: f64 = 100.0;

/// What is asked for.
pub(super) struct Wanted<'a> {
    pub(super) weight: u32,
    pub(super) size: Bytes,
    /// The links of its shortest path.
    pub(super) hops: usize,
    /// From its start to its deadline.
    pub(super) span_s: f64,
    /// Bits, and the links that they would take.
    pub(super) plan: Vec<(f64, &'a [LinkId])>,
}

impl Wanted<'_> {
    fn value(&self) -> f64 {
        f64::from(self.weight)
    }

    fn bits(&self) -> f64 {
        self.size.count() as f64 * 8.0
    }

    fn octave(&self) -> i32 {
        octave(self.bits(), self.hops, self.weight)
    }

    fn links(&self) -> impl Iterator<Item = LinkId> {
        self.plan.iter().flat_map(|(_, links)| *links).copied()
    }
}

/// The prices of all links.
#[derive(Clone, Debug)]
pub(super) struct Prices {
    worth: Worth,
    /// Bits per second.
    capacities: Vec<f64>,
    /// How the price of a bit on a link stands to the usual value of a bit: exponents of e.
    logs: Vec<f64>,
    /// The mean logarithm of a request's value per bit.
    usual: f64,
    seen: f64,
    as_of: Time,
    pub(super) lately: Lately,
}

/// What of the prices is kept while what is learnt may be taken back.
pub(super) struct Learnt {
    logs: Vec<f64>,
    usual: f64,
    seen: f64,
    as_of: Time,
}

impl Prices {
    pub(super) fn new(network: &Network, worth: Worth) -> Self {
        let capacity = |link| network.link(link).capacity.as_bit_per_s() as f64;
        let capacities: Vec<f64> = network.links().map(capacity).collect();
        let logs = vec![-DEPTH; capacities.len()];
        let lately = Lately::new(logs.len());
        Self { worth, capacities, logs, usual: 0.0, seen: 0.0, as_of: Time::ZERO, lately }
    }

    /// What was learnt: the prices of all links, the usual value, over how many requests, and when.
    pub(super) fn learnt(&self) -> (&[f64], f64, f64, Time) {
        (&self.logs, self.usual, self.seen, self.as_of)
    }

    /// Goes on from what was learnt; `false` if that is nothing that could have been.
    pub(super) fn go_on(&mut self, logs: Vec<f64>, usual: f64, seen: f64, as_of: Time) -> bool {
        let is_sound = logs.len() == self.logs.len()
            && logs.iter().all(|log| (-DEPTH..=DEPTH).contains(log))
            && usual.is_finite()
            && (0.0..=USUAL).contains(&seen);
        if is_sound {
            (self.logs, self.usual, self.seen, self.as_of) = (logs, usual, seen, as_of);
        }
        is_sound
    }

    /// What was learnt by now, so that all that follows can be taken back.
    pub(super) fn note(&mut self) -> Learnt {
        self.lately.note();
        let Self { usual, seen, as_of, .. } = *self;
        Learnt { logs: self.logs.clone(), usual, seen, as_of }
    }

    /// Takes back all that was learnt since [`Prices::note`].
    pub(super) fn take_back(&mut self, learnt: Learnt) {
        self.lately.take_back();
        let Learnt { logs, usual, seen, as_of } = learnt;
        (self.logs, self.usual, self.seen, self.as_of) = (logs, usual, seen, as_of);
    }

    /// The price of a bit along a path, against the usual value of a bit.
    pub(super) fn of(&self, links: &[LinkId]) -> f64 {
        links.iter().map(|link| self.logs[link.index()].exp()).sum()
    }

    /// Nothing if a request is worth the capacity of its plan; if it is not, the dearest of the
    /// links. `filled` is the share of a link that is reserved in the request's time: what lies
    /// idle then costs nothing, whatever was learnt. Nor does a link whose `left`, the bits that
    /// nobody has of it in that time, is enough for all that lighter requests are expected to ask.
    pub(super) fn judge(
        &self,
        wanted: &Wanted<'_>,
        filled: impl Fn(LinkId) -> f64,
        left: impl Fn(LinkId) -> f64,
    ) -> Option<LinkId> {
        if self.worth == Worth::Anything {
            return None;
        }
        // A link at the lowest price costs nothing.
        let lowest = (-DEPTH).exp();
        let octave = wanted.octave();
        let cost = |link: LinkId| {
            let above = self.logs[link.index()].exp() - lowest;
            let expected = || self.lately.expected(link, self.as_of, octave, wanted.span_s);
            let is_scarce = above > 0.0 && Some(expected()).filter(|x| *x > 0.0) > Some(left(link));
            if is_scarce { above * filled(link) } else { 0.0 }
        };
        let mut costs: Vec<(LinkId, f64)> = Vec::new();
        for link in wanted.links() {
            if costs.iter().all(|(known, _)| *known != link) {
                costs.push((link, cost(link)));
            }
        }
        let of = |link: &LinkId| costs.iter().find(|(known, _)| known == link).map_or(0.0, |x| x.1);
        let price = |(bits, links): &(f64, &[LinkId])| bits * links.iter().map(of).sum::<f64>();
        let price = self.usual_with(wanted).1.exp() * wanted.plan.iter().map(price).sum::<f64>();
        if wanted.value() >= price {
            return None;
        }
        costs.into_iter().max_by(|a, b| a.1.total_cmp(&b.1)).map(|(link, _)| link)
    }

    /// Learns from what was asked for: prices only from what was worth them.
    pub(super) fn learn(&mut self, wanted: &Wanted<'_>, is_worthy: bool) {
        (self.seen, self.usual) = self.usual_with(wanted);
        let octave = wanted.octave();
        for (bits, links) in &wanted.plan {
            for link in *links {
                let at = link.index();
                if is_worthy {
                    let log = self.logs[at] + bits / (self.capacities[at] * MEMORY_S);
                    self.logs[at] = log.min(DEPTH);
                }
                if self.worth != Worth::Anything {
                    self.lately.add(*link, self.as_of, octave, *bits);
                }
            }
        }
    }

    /// Over how many requests the usual value is learnt, and what it is, with this one.
    fn usual_with(&self, wanted: &Wanted<'_>) -> (f64, f64) {
        let seen = (self.seen + 1.0).min(USUAL);
        let value = wanted.value() / wanted.bits();
        (seen, self.usual + (value.ln() - self.usual) / seen)
    }

    /// Capacity that was not asked for by now is lost.
    pub(super) fn pass(&mut self, now: Time) {
        let span = now.saturating_sub(self.as_of).as_s();
        self.as_of = self.as_of.max(now);
        for log in &mut self.logs {
            *log = (*log - TARGET * span / MEMORY_S).max(-DEPTH);
        }
    }
}
