//! Distances between time series by dynamic time warping, and nearest neighbours under it.
//!
//! [`Windows`] are series of one length; [`matrix()`] is the distance between any two of them, and
//! [`Neighbours`] finds those nearest to another one. Warping is limited to a band (Sakoe and Chiba
//! 1978): sample i of one series may stand beside samples i - band to i + band of the other.
//!
//! Eight distances are computed at a time, one in each lane of the processor's vectors: within one
//! distance every cell waits for its neighbour, between distances nothing waits.

mod dtw;
mod error;
mod matrix;
mod neighbours;
mod windows;

pub use dtw::{Cost, Warping};
pub use error::SeriesError;
pub use matrix::matrix;
pub use neighbours::{Neighbour, Neighbours};
pub use windows::Windows;
