//! Which path an elephant flow takes through the headroom of a provider's network.
//!
//! Elephant flows travel in a class below best effort, so they share only what is left and affect
//! only each other (000-spec section 3). Under *static* headroom they keep the network's default
//! paths; under *dynamic* headroom the [`Provider`] gives each the least loaded path when it
//! starts; the *merged* service does so where it pays for the set-up of a path. [`Options`] names
//! the readings of the work and what was added to it.
//!
//! [`Elephants`] is the closed form for one link.

mod analytic;
mod defaults;
mod error;
mod links;
mod options;
mod provider;

pub use analytic::{Elephants, Expectation, Sharing};
pub use defaults::default_paths;
pub use error::HeadroomError;
pub use options::{HopLimit, Measure, Options, Service, Ties};
pub use provider::{Choice, Elephant, Provider};
