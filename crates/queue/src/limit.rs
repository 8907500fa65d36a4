//! How much may wait.

use serde::{Deserialize, Serialize};
use weir_units::{Bytes, Rate, Time};

use crate::Backlog;

/// An amount of waiting traffic as a configuration gives it: `{"bytes": 6291456}`,
/// `{"packets": 1000}`, or `{"ns": 100000000}`, which is what the link sends in that time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Amount {
    /// Bytes of IP packets.
    Bytes(u64),
    /// Packets of any size.
    Packets(u64),
    /// Nanoseconds at the link's rate.
    Ns(u64),
}

impl Amount {
    /// As a limit on a link of `rate`; a time does not limit a link that sends in no time.
    pub fn limit(self, rate: Option<Rate>) -> Limit {
        match (self, rate) {
            (Self::Bytes(bytes), _) => Limit::Bytes(Bytes::new(bytes)),
            (Self::Packets(packets), _) => Limit::Packets(packets),
            (Self::Ns(ns), Some(rate)) => Limit::of_time(Time::from_ns(ns), rate),
            (Self::Ns(_), None) => Limit::None,
        }
    }
}

/// How much may wait, the packet being sent not counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Limit {
    /// At most so many bytes.
    Bytes(Bytes),
    /// At most so many packets of any size.
    Packets(u64),
    /// No limit.
    None,
}

impl Limit {
    /// The bytes that a link of `rate` sends in `time`: a limit on the delay that the queue adds.
    pub fn of_time(time: Time, rate: Rate) -> Self {
        Self::Bytes(rate.bytes_in(time))
    }

    /// One of `parts` equal parts, rounded down: a statically split buffer.
    pub const fn split(self, parts: u64) -> Self {
        match self {
            Self::Bytes(bytes) => Self::Bytes(Bytes::new(bytes.count() / parts)),
            Self::Packets(packets) => Self::Packets(packets / parts),
            Self::None => Self::None,
        }
    }

    /// Whether `backlog` is within it.
    pub(crate) fn holds(self, backlog: Backlog) -> bool {
        match self {
            Self::Bytes(bytes) => backlog.bytes <= bytes,
            Self::Packets(packets) => backlog.packets <= packets,
            Self::None => true,
        }
    }

    #[inline]
    pub(crate) fn admits(self, backlog: Backlog, size: Bytes) -> bool {
        match self {
            Self::Bytes(bytes) => backlog.bytes.saturating_add(size) <= bytes,
            Self::Packets(packets) => backlog.packets < packets,
            Self::None => true,
        }
    }
}
