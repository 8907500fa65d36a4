//! The monotonic clock, by which what runs live is timed.

use rustix::time::{ClockId, clock_gettime};
use weir_units::Time;

pub(crate) fn monotonic() -> Time {
    let now = clock_gettime(ClockId::Monotonic);
    Time::from_ns(now.tv_sec as u64 * 1_000_000_000 + now.tv_nsec as u64)
}
