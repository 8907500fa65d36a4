//! Flow-level simulation.
mod assigned;
mod error;
mod flow;
mod heap;
mod outcome;
mod routes;
pub mod sharing;
mod simulation;
pub mod trace;

pub use assigned::{Rates, Scheduler};
pub use error::FluidError;
pub use flow::{Flow, Listed, Source};
pub use outcome::{Fate, Outcome, Record};
pub use routes::{RouteId, Routes};
pub use simulation::{Sharing, simulate};
