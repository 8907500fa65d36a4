//! Why something is not a migration problem.

use thiserror::Error;
use weir_topology::TopologyError;
use weir_units::Time;

/// What is wrong with a problem, with the name of the item.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum MigrationError {
    /// The network is not one, or an end, link or path is not in it.
    #[error(transparent)]
    Network(#[from] TopologyError),
    /// A wrong value of one machine.
    #[error("VM \"{vm}\": {error}")]
    Vm {
        /// The machine.
        vm: String,
        /// What its source, destination or path does not fit.
        error: TopologyError,
    },
    /// Two machines of one name.
    #[error("VM \"{vm}\" is there twice")]
    DuplicateVm {
        /// The name.
        vm: String,
    },
    /// A machine whose name is the empty text.
    #[error("a VM has an empty name")]
    EmptyName,
    /// No machine at all.
    #[error("there is no VM to migrate")]
    NoVm,
    /// A machine without memory.
    #[error("VM \"{vm}\" has size 0; there is nothing to move")]
    EmptyVm {
        /// The machine.
        vm: String,
    },
    /// A cost or growth given as a list of no values.
    #[error("VM \"{vm}\": {key} is an empty list")]
    EmptyProfile {
        /// The machine.
        vm: String,
        /// `"cost"` or `"growth"`.
        key: &'static str,
    },
    /// A cost beyond what is summed without overflow.
    #[error("VM \"{vm}\": a cost of {cost} is above the limit of {limit}")]
    CostTooLarge {
        /// The machine.
        vm: String,
        /// What was given.
        cost: u64,
        /// What is allowed.
        limit: u64,
    },
    /// A given path that does not lead from the source to the destination.
    #[error("VM \"{vm}\": its path does not lead from its source to its destination")]
    WrongPath {
        /// The machine.
        vm: String,
    },
    /// A given path that passes a node twice.
    #[error("VM \"{vm}\": its path passes a node twice")]
    LoopedPath {
        /// The machine.
        vm: String,
    },
    /// More shortest paths than are worth listing.
    #[error("VM \"{vm}\" has more than {limit} shortest paths; give it a path")]
    TooManyPaths {
        /// The machine.
        vm: String,
        /// What is allowed.
        limit: usize,
    },
    /// A machine whose memory changes faster than its widest path carries.
    #[error("VM \"{vm}\" grows as fast as its widest path carries; its migration never ends")]
    NeverEnds {
        /// The machine.
        vm: String,
    },
    /// Time that is not cut into steps.
    #[error("the step is {step}; give a time above 0")]
    NoStep {
        /// What was given.
        step: Time,
    },
    /// A link that carries less than a byte in a step.
    #[error("link \"{link}\" carries less than one byte in a step of {step}")]
    ThinLink {
        /// The link.
        link: String,
        /// The step.
        step: Time,
    },
    /// A plan would need more steps than are counted.
    #[error("one migration after the other takes more than {limit} steps; give a longer step")]
    TooLong {
        /// What is allowed.
        limit: u64,
    },
    /// Text that is not the JSON form of a problem.
    #[error("{place}: {reason}")]
    Json {
        /// Where in the document, as `vms[3].size_bytes`.
        place: String,
        /// What is wrong there.
        reason: String,
    },
}
