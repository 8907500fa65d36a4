//! What goes into a calendar and what comes out.

use std::fmt;
use std::sync::Arc;

use thiserror::Error;
use weir_topology::{LinkId, NodeId, Path, TopologyError};
use weir_units::{Bytes, Rate, Time};

/// The caller's name for a transfer; unique among those that are not yet over.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct FlowId(Arc<str>);

impl FlowId {
    /// An identifier of that text.
    pub fn new(text: &str) -> Self {
        Self(text.into())
    }

    /// The text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for FlowId {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(&self.0)
    }
}

/// A transfer that someone asks for, to start at once.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Request {
    /// Its name from now on.
    pub id: FlowId,
    /// Where the data is.
    pub source: NodeId,
    /// Where it must be.
    pub destination: NodeId,
    /// How much there is to move; not zero.
    pub size: Bytes,
    /// When all of it must be there.
    pub deadline: Time,
    /// What the end points can do; [`Rate::MAX`] when they do not limit it.
    pub rate_max: Rate,
    /// What it asks for beyond that.
    pub terms: Terms,
}

impl Request {
    /// Refuses terms that cannot be right.
    pub(super) fn check_terms(&self) -> Result<(), CalendarError> {
        let flow = || self.id.clone();
        if self.terms.weight == 0 {
            return Err(CalendarError::ZeroWeight { flow: flow() });
        }
        if self.terms.paths == 0 {
            return Err(CalendarError::ZeroPaths { flow: flow() });
        }
        match self.terms.least {
            Some(least) if least == Bytes::ZERO || least > self.size => {
                Err(CalendarError::LeastSize { flow: flow(), least, size: self.size })
            }
            _ => Ok(()),
        }
    }
}

/// What a request may ask for beyond being there in time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Terms {
    /// When the data is there to be sent; at once if that is past.
    pub start: Time,
    /// The least that is worth moving, if less than all of it; the calendar then admits as much
    /// as it can promise. `None` for all or nothing.
    pub least: Option<Bytes>,
    /// How much it is worth against others; not zero.
    pub weight: u32,
    /// How long the answer may wait; zero for at once. Only Weir's own policy makes use of it.
    pub hold: Time,
    /// Over how many paths it may be sent at most, the shortest ones that the calendar knows; not
    /// zero. Only Weir's own policy knows more than one.
    pub paths: usize,
    /// Whether it was promised before and is only planned anew: whether its place is worth more to
    /// others was asked then. Only Weir's own policy asks that.
    pub is_promised: bool,
}

impl Default for Terms {
    /// At once, all or nothing, worth as much as any other, answered at once, over all paths, asked
    /// for the first time.
    fn default() -> Self {
        Self {
            start: Time::ZERO,
            least: None,
            weight: 1,
            hold: Time::ZERO,
            paths: usize::MAX,
            is_promised: false,
        }
    }
}

/// A new rate for a flow, valid until the next change.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Change {
    /// Which flow.
    pub flow: FlowId,
    /// What it may send from now on, over all its paths.
    pub rate: Rate,
    /// How much of it on which path; empty when all of it takes the path told at acceptance.
    pub split: Split,
}

/// Rates on paths.
pub type Split = Vec<(Arc<Path>, Rate)>;

/// The answer to a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Decision {
    /// The deadline will hold.
    Accepted(Accepted),
    /// It could not; nothing has changed.
    Refused(Refused),
    /// The answer comes at an epoch: the next one
    /// ([`Admission::AtEpoch`](super::Admission::AtEpoch)), or later ([`Terms::hold`]).
    Waiting,
}

/// How an accepted transfer starts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Accepted {
    /// Its first rate, over all its paths.
    pub rate: Rate,
    /// The links it takes, the first of its paths if there are several.
    pub path: Arc<Path>,
    /// How much of the rate on which path; empty when all of it takes `path`.
    pub split: Split,
    /// The same of all paths that it may take, in an order that never changes; zero where nothing
    /// is sent now.
    pub lanes: Split,
    /// How much will be there in time: the size, unless less was offered.
    pub size: Bytes,
    /// What others must do to make room; not the new flow itself.
    pub changes: Vec<Change>,
}

/// Why not, and what would be possible instead.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refused {
    /// What stands in the way.
    pub reason: Reason,
    /// The smallest deadline with which this very request would be accepted now; `None` if no
    /// deadline would be.
    pub earliest_deadline: Option<Time>,
}

/// What stands in the way of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reason {
    /// The deadline is not after now.
    DeadlinePassed {
        /// The deadline asked for.
        deadline: Time,
    },
    /// The request's own limit is below what its deadline needs.
    RateLimit {
        /// What the deadline needs.
        needed: Rate,
        /// The limit of the end points.
        limit: Rate,
    },
    /// A link of the path has too little left even if every other flow on it is slowed down as
    /// far as the policy may.
    Link {
        /// The tightest link of the path; the first of several.
        link: LinkId,
        /// What the deadline needs.
        needed: Rate,
        /// What the link could give.
        available: Rate,
    },
    /// The links are in demand, and it is worth less than what they are likely to be asked for
    /// instead.
    Worth {
        /// The link most in demand.
        link: LinkId,
    },
}

/// What an epoch brought.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Epoch {
    /// New rates of flows that were there before.
    pub changes: Vec<Change>,
    /// Answers to the requests that waited, in order of submission.
    pub decisions: Vec<(FlowId, Decision)>,
}

/// A flow that ended by the fluid model.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Completion {
    /// Which flow.
    pub flow: FlowId,
    /// When its last bit was through.
    pub at: Time,
    /// When it had to be.
    pub deadline: Time,
}

/// How a flow stands against its deadline.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FlowState {
    /// At its rate it will be on time.
    OnTime,
    /// By the model everything is through; the report of it is awaited and the rate kept.
    Finishing,
    /// At its rate it will be late, and the links allow no more.
    AtRisk,
    /// The deadline has passed.
    Late,
}

/// An admitted flow as it stands.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FlowView {
    /// Which flow.
    pub flow: FlowId,
    /// The links it takes.
    pub path: Arc<Path>,
    /// All that it has to move.
    pub size: Bytes,
    /// What is left, rounded up.
    pub remaining: Bytes,
    /// When it may be sent; zero with policies that start everything at once.
    pub start: Time,
    /// When it must be there.
    pub deadline: Time,
    /// What it may send, over all its paths.
    pub rate: Rate,
    /// How much of it on which path; empty when all of it takes `path`.
    pub split: Split,
    /// The least that keeps the deadline; above `rate` only at risk.
    pub rate_min: Rate,
    /// What its end points can do; [`Rate::MAX`] when they do not limit it.
    pub rate_max: Rate,
    /// When it ends at this rate, or by its plan if it does not send now.
    pub completion: Time,
    /// How it stands.
    pub state: FlowState,
}

/// A link as it stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LinkView {
    /// Which link.
    pub link: LinkId,
    /// What it can carry.
    pub capacity: Rate,
    /// What is handed out.
    pub allotted: Rate,
    /// How many flows cross it.
    pub flows: usize,
}

/// Why a call to a calendar could not be right. Nothing has changed.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum CalendarError {
    /// A flow that is not there, or no longer.
    #[error("transfer \"{flow}\" is not in the calendar")]
    UnknownFlow {
        /// The identifier.
        flow: FlowId,
    },
    /// An identifier that is in use.
    #[error("transfer \"{flow}\" is in the calendar already")]
    DuplicateFlow {
        /// The identifier.
        flow: FlowId,
    },
    /// An empty identifier.
    #[error("a transfer has an empty id")]
    EmptyId,
    /// Nothing to move.
    #[error("transfer \"{flow}\" has size 0")]
    ZeroSize {
        /// The identifier.
        flow: FlowId,
    },
    /// End points that can do nothing.
    #[error("transfer \"{flow}\" has a maximum rate of 0")]
    ZeroRateMax {
        /// The identifier.
        flow: FlowId,
    },
    /// A start in the future, asked of a policy that only knows now.
    #[error("transfer \"{flow}\" starts later; this policy admits only what can start at once")]
    StartAhead {
        /// The identifier.
        flow: FlowId,
    },
    /// A least size of nothing, or above the size.
    #[error("transfer \"{flow}\" takes no less than {least} of its {size}")]
    LeastSize {
        /// The identifier.
        flow: FlowId,
        /// The least that is worth moving.
        least: Bytes,
        /// What was asked for.
        size: Bytes,
    },
    /// A request that is worth nothing.
    #[error("transfer \"{flow}\" has a weight of 0")]
    ZeroWeight {
        /// The identifier.
        flow: FlowId,
    },
    /// A request that may take no path.
    #[error("transfer \"{flow}\" may be sent over 0 paths")]
    ZeroPaths {
        /// The identifier.
        flow: FlowId,
    },
    /// More is left than there was.
    #[error("transfer \"{flow}\" has {remaining} left, more than its size of {size}")]
    RemainingAboveSize {
        /// The identifier.
        flow: FlowId,
        /// What was reported.
        remaining: Bytes,
        /// What was asked for.
        size: Bytes,
    },
    /// A time before that of an earlier call.
    #[error("time goes back from {last} to {now}")]
    TimeWentBack {
        /// The time of the last call.
        last: Time,
        /// The time of this one.
        now: Time,
    },
    /// A part of a link's capacity over time that lasts no time.
    #[error("a capacity from {from} to {to} lasts no time")]
    EmptyPiece {
        /// Its beginning.
        from: Time,
        /// Its end.
        to: Time,
    },
    /// Two parts of a link's capacity over time that are there at once.
    #[error("two capacities of one link overlap at {at}")]
    OverlappingPieces {
        /// Where the second begins.
        at: Time,
    },
    /// More than a link can have.
    #[error("a capacity of {rate} is more than any link has")]
    CapacityTooLarge {
        /// What was said.
        rate: Rate,
    },
    /// A way of working that a policy has not.
    #[error("policy \"{policy}\" {what}")]
    Unable {
        /// The name of the policy.
        policy: String,
        /// What it does instead.
        what: &'static str,
    },
    /// An epoch without length.
    #[error("the epoch is 0")]
    ZeroEpoch,
    /// Ends or network that cannot be.
    #[error(transparent)]
    Topology(#[from] TopologyError),
    /// A name that chooses nothing.
    #[error(transparent)]
    Switch(#[from] ParseSwitchError),
    /// A snapshot of a form that this version does not read.
    #[error("a snapshot of version {found} cannot be read, only version {readable}")]
    SnapshotVersion {
        /// The version found.
        found: u64,
        /// The one that can be read.
        readable: u64,
    },
    /// Text that is not a snapshot, or one that contradicts itself.
    #[error("snapshot, {place}: {reason}")]
    Snapshot {
        /// Where in the document, as `flows[3].rate_bps`.
        place: String,
        /// What is wrong there.
        reason: String,
    },
}

/// A name that is not a value of a switch.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("\"{name}\" is not a {switch}: {known} are")]
pub struct ParseSwitchError {
    /// What the name was to choose, as `"policy"`.
    pub switch: &'static str,
    /// The name.
    pub name: String,
    /// The names that there are.
    pub known: String,
}
