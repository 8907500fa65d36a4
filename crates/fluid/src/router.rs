//! Who decides on the route of a flow.

use weir_units::Time;

use crate::{Flow, FluidError, RouteId};

/// What a [`Router`] decides on a flow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Placement {
    /// The route that it takes.
    pub route: RouteId,
    /// When it begins to send; at its own start if that is later.
    pub start: Time,
}

/// Chooses the route of each flow when it arrives, and is told when it is over. Calls come in order
/// of time, at one instant ends first. The defaults leave every flow on its source's route.
pub trait Router {
    /// Flow `number`, counted by arrival from zero, has arrived.
    ///
    /// # Errors
    /// A flow that cannot be routed.
    fn place(&mut self, number: usize, flow: &Flow) -> Result<Placement, FluidError> {
        let _ = number;
        Ok(Placement { route: flow.route, start: flow.start })
    }

    /// A flow is over or was refused, at `now`.
    ///
    /// # Errors
    /// A flow that is not known.
    fn ended(&mut self, now: Time, number: usize) -> Result<(), FluidError> {
        let _ = (now, number);
        Ok(())
    }
}

/// Every flow on the route that its source gave it.
#[derive(Clone, Copy, Debug, Default)]
pub struct AsGiven;

impl Router for AsGiven {}
