//! What can be wrong with a simulation.

use thiserror::Error;
use weir_schedule::calendar::CalendarError;
use weir_schedule::headroom::HeadroomError;
use weir_topology::TopologyError;
use weir_units::Time;

/// Why a simulation cannot be run.
#[derive(Clone, Debug, PartialEq, Error)]
#[non_exhaustive]
pub enum FluidError {
    /// A route over one link twice.
    #[error("a route crosses link \"{link}\" twice")]
    RouteRepeatsLink {
        /// The link.
        link: String,
    },
    /// More routes than can be numbered.
    #[error("there are more than 2^32 links on all routes together")]
    TooManyRoutes,
    /// More flows than can be numbered.
    #[error("there are more than 2^32 flows")]
    TooManyFlows,
    /// A flow on a route that is not there.
    #[error("flow {flow} takes route {route}, and there are {routes}")]
    UnknownRoute {
        /// The flow, by order of arrival.
        flow: usize,
        /// The route asked for.
        route: usize,
        /// How many there are.
        routes: usize,
    },
    /// A flow with nothing to send.
    #[error("flow {flow} has size 0")]
    ZeroSize {
        /// The flow, by order of arrival.
        flow: usize,
    },
    /// A flow without a share.
    #[error("flow {flow} has weight 0")]
    ZeroWeight {
        /// The flow, by order of arrival.
        flow: usize,
    },
    /// A flow that may not send.
    #[error("flow {flow} has a rate limit of 0")]
    ZeroLimit {
        /// The flow, by order of arrival.
        flow: usize,
    },
    /// A flow that may send before anybody knows of it.
    #[error("flow {flow} arrives at {at}, its start is {start}")]
    StartBeforeArrival {
        /// The flow, by order of arrival.
        flow: usize,
        /// When it arrives.
        at: Time,
        /// From when it may send.
        start: Time,
    },
    /// A deadline that is past when the flow may start.
    #[error("flow {flow} starts at {start}, its deadline is {deadline}")]
    DeadlineBeforeStart {
        /// The flow, by order of arrival.
        flow: usize,
        /// From when it may send.
        start: Time,
        /// When it had to be over.
        deadline: Time,
    },
    /// A priority that the sharing model does not have.
    #[error(
        "flow {flow} has priority {priority}, the sharing model has priorities below {classes}"
    )]
    UnknownPriority {
        /// The flow, by order of arrival.
        flow: usize,
        /// The priority asked for.
        priority: u8,
        /// How many there are.
        classes: u8,
    },
    /// A source of flows that goes back in time.
    #[error("flow {flow} arrives at {at}, before the one ahead of it at {last}")]
    ArrivalsOutOfOrder {
        /// The flow, by order of arrival.
        flow: usize,
        /// When it arrives.
        at: Time,
        /// When the one ahead of it arrived.
        last: Time,
    },
    /// A rate for a flow that is not there.
    #[error("the scheduler set the rate of flow {flow}, which is not under way")]
    RateOfUnknownFlow {
        /// The flow.
        flow: usize,
    },
    /// A rate on a route that does not lead from the flow's source to its destination.
    #[error("the scheduler set a rate of flow {flow} on route {route}, which has other ends")]
    RouteElsewhere {
        /// The flow.
        flow: usize,
        /// The route.
        route: usize,
    },
    /// A rate for a flow that must wait.
    #[error(
        "at {at}, the scheduler set the rate of flow {flow}, which cannot start before {start}"
    )]
    RateBeforeStart {
        /// The flow.
        flow: usize,
        /// When the rate was set.
        at: Time,
        /// From when the flow may send.
        start: Time,
    },
    /// Rates that the links cannot carry.
    #[error("at {at}, the scheduler's rates ask link \"{link}\" for more than its capacity")]
    LinkOverloaded {
        /// The link.
        link: String,
        /// When.
        at: Time,
    },
    /// A number that makes no sense where it stands.
    #[error("{place}: {reason}")]
    Parameter {
        /// Where, as `sizes.shape` or `line 3`.
        place: String,
        /// What is wrong there.
        reason: String,
    },
    /// A flow without a deadline where every flow needs one.
    #[error("flow {flow} has no deadline")]
    NoDeadline {
        /// The flow, by order of arrival.
        flow: usize,
    },
    /// A calendar that sends a flow over links that are not a route of the simulation.
    #[error("the calendar's path for flow {flow} is not among the routes")]
    PathOffRoutes {
        /// The flow.
        flow: usize,
    },
    /// What a calendar refuses to be asked.
    #[error(transparent)]
    Calendar(#[from] CalendarError),
    /// Ends or a network that cannot be.
    #[error(transparent)]
    Topology(#[from] TopologyError),
    /// What a provider's controller refuses.
    #[error(transparent)]
    Headroom(#[from] HeadroomError),
}
