//! Flow-level simulation.
pub mod sharing;
mod error;
mod heap;
mod routes;
pub use error::FluidError;
pub use routes::{RouteId, Routes};
