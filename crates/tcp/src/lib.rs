//! TCP endpoints without I/O or clock: how much may be in flight now, and what was lost.
//!
//! What travels is a [`Segment`], in absolute stream offsets; what decides how much of it may be
//! under way is a [`CongestionControl`].

pub mod congestion;
mod segment;

pub use congestion::CongestionControl;
pub use segment::{Flags, SackBlock, Segment};
