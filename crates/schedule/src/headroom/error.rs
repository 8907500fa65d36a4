//! What can be wrong with a question about headroom.

use thiserror::Error;
use weir_topology::TopologyError;

/// Why there is no answer.
#[derive(Clone, Debug, PartialEq, Error)]
#[non_exhaustive]
pub enum HeadroomError {
    /// A number out of its range.
    #[error("{name} is {value}, it must be above 0 and finite")]
    Parameter {
        /// Which.
        name: &'static str,
        /// What it is.
        value: f64,
    },
    /// Sizes without the moments that the model needs.
    #[error("the shape of the sizes is {shape}, the model needs one above {least}")]
    HeavyTail {
        /// What it is.
        shape: f64,
        /// What it must be above.
        least: f64,
    },
    /// No steady state: the number of flows grows for ever.
    #[error("elephant flows ask for {utilisation:.3} of the headroom, it must be below 1")]
    Overload {
        /// What they ask for, over what there is.
        utilisation: f64,
    },
    /// Room for no path at all.
    #[error("at most 0 candidate paths are asked for, there must be at least one")]
    NoCandidates,
    /// A flow that may not send.
    #[error("elephant flow {flow} has a maximum rate of 0")]
    ZeroRate {
        /// The flow.
        flow: u64,
    },
    /// A flow that starts while it is under way.
    #[error("elephant flow {flow} is already under way")]
    DuplicateFlow {
        /// The flow.
        flow: u64,
    },
    /// A flow that ends and is not under way.
    #[error("elephant flow {flow} is not under way")]
    UnknownFlow {
        /// The flow.
        flow: u64,
    },
    /// Options that are not the JSON form of any.
    #[error("{place}: {reason}")]
    Json {
        /// Where in the document.
        place: String,
        /// What is wrong there.
        reason: String,
    },
    /// Ends that cannot be, or no path between them.
    #[error(transparent)]
    Network(#[from] TopologyError),
}
