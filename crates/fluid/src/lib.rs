//! The world of event time: flows as fluid over links, hours of traffic in seconds.
//!
//! [`simulate`] takes a network, the [`Routes`] of the flows, who decides on their rates
//! ([`Sharing`]) and where they come from (a [`Source`]); it gives an [`Outcome`]. Rates come from
//! a rule of fairness that the links apply ([`sharing`]), or from a [`Scheduler`], such as a
//! calendar, flow by flow. [`Study`] is all of it as one JSON document, [`trace`] a text form for
//! lists of flows, [`workload`] draws flows at random; [`calendar`] runs calendars here and
//! measures them.
//!
//! Time and sizes go in and out as [`weir_units`] types; inside, volumes and rates are doubles.
//! The same seed gives the same outcome.

mod assigned;
pub mod calendar;
mod document;
mod error;
mod flow;
pub mod headroom;
mod heap;
mod outcome;
mod router;
mod routes;
pub mod sharing;
mod simulation;
mod study;
pub mod trace;
pub mod workload;

pub use assigned::{Rates, Scheduler};
pub use error::FluidError;
pub use flow::{Flow, Listed, Source};
pub use outcome::{Fate, Outcome, Record};
pub use router::{AsGiven, Placement, Router};
pub use routes::{RouteId, Routes};
pub use simulation::{Sharing, simulate, simulate_routed};
pub use study::{Model, Study};
