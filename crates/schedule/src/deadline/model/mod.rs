//! The slotted world of work 002: one link of one packet per slot, workers that answer through it.
//!
//! A slot is the time of one packet and one round trip. The model's slot is a second, so that the
//! fractional rates of D3 are whole nanoseconds, a billionth of a packet.

mod link;
mod random;
mod workload;

pub use link::{EarlyTermination, Link, Report};
pub use random::Random;
pub use workload::{ClosedLoop, DeadlineReading, NewFlow, Sizes, Source, Trace, Workload};

use weir_units::Time;

/// The length of a slot.
pub const SLOT: Time = Time::from_ns(1_000_000_000);

/// A time of whole slots.
pub const fn slots(count: u64) -> Time {
    Time::from_ns(count * SLOT.as_ns())
}
