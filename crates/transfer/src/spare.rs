//! What a transfer does with what its path has left beside its promise.

use std::time::Duration;

use weir_units::Rate;

use crate::error::TransferError;

/// The congestion control of spare connections that no kernel has: LEDBAT++, run by the mover. It
/// yields where routers do not know the lower class.
pub(crate) const YIELDING: &str = "ledbat";

/// The same as `weir_tcp` names it: queues may be short, and what a lane does not use while it has
/// nothing to send is no news of the path.
pub(crate) const YIELDING_CONTROL: &str = "ledbat:shallow=on,cwv=none";

/// What it adds to the path's delay at most, by its default.
pub(crate) const YIELDING_WAIT: Duration = Duration::from_millis(60);

/// A class of traffic that routers serve after best effort.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LowerClass {
    /// Lower effort (RFC 8622), DSCP 1.
    Le,
    /// Class selector 1 (RFC 3662), DSCP 8.
    Cs1,
}

impl LowerClass {
    /// The class of that name: `le` or `cs1`.
    pub fn named(name: &str) -> Result<Self, TransferError> {
        match name {
            "le" => Ok(Self::Le),
            "cs1" => Ok(Self::Cs1),
            _ => {
                let (item, value) = ("spare", name.to_owned());
                Err(TransferError::Setting { item, value, why: "it is le or cs1" })
            }
        }
    }

    /// The byte of the IP header that carries its DSCP, without ECN.
    pub(crate) fn traffic_class(self) -> u32 {
        let dscp = match self {
            Self::Le => 1,
            Self::Cs1 => 8,
        };
        dscp << 2
    }
}

/// Further data connections of a lower class, which take chunks from the same queue.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Spare {
    /// Which class.
    pub class: LowerClass,
    /// How many connections, beside those of the promise.
    pub streams: u16,
    /// Bound of all of them together; `Rate::MAX` is none, zero lets them take nothing.
    pub rate: Rate,
    /// Congestion control: one of the kernel's, or `ledbat` (LEDBAT++, in user space); empty
    /// leaves the host's default.
    pub congestion: String,
    /// Bytes of their largest packet; none is what the path carries.
    pub packet: Option<u16>,
}

impl Spare {
    /// Whether the mover itself sees to it that they yield.
    pub(crate) fn yields(&self) -> bool {
        self.congestion == YIELDING
    }
}
