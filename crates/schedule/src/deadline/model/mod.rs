//! The slotted world of work 002: one link of one packet per slot, workers that answer through it.
//!
//! A slot is the time of one packet and one round trip. The model's slot is a second, so that the
//! fractional rates of D3 are whole nanoseconds, a billionth of a packet.

mod estimate;
mod fat_tree;
mod figures;
mod link;
mod setting;
mod workload;

pub use estimate::Estimate;
pub use fat_tree::FatTree;
pub use figures::{Figure, Probability, Readings, figures, figures_json};
pub use link::{EarlyTermination, Link, Report, serve};
pub use setting::{Arrivals, Sample, Setting, SettingError};
pub use workload::{
    ClosedLoop, Deadlines, NewFlow, Reading, Sizes, Source, Trace, TraceError, Workload,
};

pub use super::random::Random;

use weir_units::Time;

/// The length of a slot.
pub const SLOT: Time = Time::from_ns(1_000_000_000);

/// The most slots that a size, a deadline or a run may have, so that all times can be counted.
pub const SLOTS_MAX: u64 = 1_000_000_000;

/// A time of whole slots, saturating.
pub const fn slots(count: u64) -> Time {
    Time::from_ns(count.saturating_mul(SLOT.as_ns()))
}
