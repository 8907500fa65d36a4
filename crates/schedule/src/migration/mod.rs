//! Live migration of many virtual machines at once: who sends when, on which path, at which rate,
//! so that the total performance degradation is least.
//!
//! The model is that of 003-spec section 5: time is cut into steps, a machine is charged its cost
//! in every step until its migration has finished, whether or not it sends, and a link carries a
//! fixed number of bytes a step. [`Problem`] is what is asked, [`Plan`] what is answered.
//!
//! - [`fair_sharing`]: what happens with no plan, every migration a TCP flow (section 5.10);
//! - [`greedy()`]: highest cost per byte first, whole paths reserved (section 5.9);
//! - [`Search`]: Weir's own planner, which improves an order and a choice of paths, and has a
//!   proven [lower bound](Search::bound) for every answer.
//!
//! Amounts are whole bytes and whole steps; a plan never exceeds a link by a byte. Randomness is a
//! seed.

mod bound;
mod error;
mod fair;
mod greedy;
mod json;
mod list;
mod plan;
mod problem;
mod progress;
mod random;
mod routes;
mod search;

pub use error::MigrationError;
pub use fair::fair_sharing;
pub use greedy::{PathChoice, greedy};
pub use plan::{Migration, Piece, Plan, PlanError};
pub use problem::{Problem, Profile, Route, Vm, VmRequest};
pub use search::Search;
