//! Flows with deadlines on one link: which of them sends in the next slot, and who is given up.
//!
//! The question of a partition-aggregate service: workers answer at nearly the same time through
//! one switch port, an answer that is late is worth nothing, and as many as possible must be on
//! time. [`Policy`] is the contract between a rule and the world that runs it; [`Kind`] names the
//! rules. [`optimal`] says what could be reached at best, [`model`] is the slotted world of the
//! published evaluation with its workloads and experiments.
//!
//! Source: V. GopalaKrishna, "Preemptive efficient queueing for scheduling deadline-bound data
//! center flows", NJIT 2017, called work 002 here, with its chapter or figure.

mod d3;
mod edf;
pub mod fabric;
mod fair;
mod fcfs;
mod kind;
mod lst;
pub mod model;
pub mod optimal;
mod pdq;
mod peq;
mod random;
mod sjf;
mod weir;

pub use d3::{D3, Stateful, StatelessOrder};
pub use edf::Edf;
pub use fair::Fair;
pub use fcfs::Fcfs;
pub use kind::{Kind, UnknownPolicy};
pub use lst::Lst;
pub use pdq::Pdq;
pub use peq::{Peq, Place, Refused};
pub use sjf::Sjf;
pub use weir::{Weir, WeirFirm};

use weir_units::Time;

/// A flow as its sender announces it each round trip.
///
/// What is left to send is counted as the time the whole link needs for it, so that no policy has
/// to know the link's rate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Flow {
    /// Its name; later flows have larger ones.
    pub id: u64,
    /// Whose it is.
    pub source: u32,
    /// When it appeared.
    pub arrival: Time,
    /// When all of it must have been sent.
    pub deadline: Time,
    /// What is left of it, as time on the whole link; not zero.
    pub remaining: Time,
    /// When it was first given a share; `None` until then.
    pub first_served: Option<Time>,
}

impl Flow {
    /// The last moment at which it can still be on time if it has the link to itself from then
    /// on; `None` if no instant will do, not even the origin of time.
    pub(crate) fn latest_start(&self) -> Option<Time> {
        (self.remaining <= self.deadline).then(|| self.deadline - self.remaining)
    }

    /// Whether it can still be on time.
    pub fn feasible(&self, now: Time) -> bool {
        self.latest_start().is_some_and(|latest| now <= latest)
    }

    /// How long it may stand still from `now` on (work 002, section 1.4); zero if not even that.
    pub fn cushion(&self, now: Time) -> Time {
        self.deadline.saturating_sub(self.remaining).saturating_sub(now)
    }
}

/// What a policy decides for the next slot. Flows are named by their position in the list that it
/// was given.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Decision {
    /// Shares of the slot, as time on the whole link: none is zero, they sum to at most a slot.
    pub service: Vec<(usize, Time)>,
    /// Flows that are given up for good.
    pub discarded: Vec<usize>,
    /// How long the same flows keep their shares unless a flow comes, leaves or becomes hopeless
    /// before; a slot or more. A world may then skip the slots between.
    pub holds: Time,
}

impl Decision {
    /// Forgets the last decision.
    pub fn clear(&mut self) {
        self.service.clear();
        self.discarded.clear();
        self.holds = Time::ZERO;
    }

    /// The whole link for one flow; to be asked again after `holds`.
    fn serve(&mut self, flow: usize, slot: Time, holds: Time) {
        self.service.push((flow, slot));
        self.holds = holds.max(slot);
    }
}

/// A rule for one link.
pub trait Policy {
    /// Decides on the slot that starts at `now`.
    ///
    /// Every flow is feasible unless the world keeps hopeless ones. Identifiers are distinct;
    /// their order in the list means nothing. `decision` is cleared first; no memory is
    /// allocated once its lists have grown.
    fn decide(&mut self, now: Time, slot: Time, flows: &[Flow], decision: &mut Decision);
}

/// The position of the flow with the smallest key.
fn first_by<K: Ord>(flows: &[Flow], key: impl Fn(&Flow) -> K) -> Option<usize> {
    (0..flows.len()).min_by_key(|index| key(&flows[*index]))
}
