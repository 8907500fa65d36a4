//! Datagrams: when a source sends the next one and how large it is. Nothing answers them but echo
//! requests, and nothing that happens to them changes what is sent.

mod bursts;
mod config;
mod paced;
mod poisson;
mod requests;

use weir_units::Time;

pub use bursts::{BurstLaw, Bursts};
pub use config::{BurstConfig, DatagramConfig, RATE_MAX};
pub use paced::{Paced, Rates};
pub use poisson::Poisson;
pub use requests::Requests;

/// IPv4 and UDP headers.
const HEADERS: u32 = 28;
const NS_PER_S: u64 = 1_000_000_000;

fn packet_nanobits(size: u16) -> u64 {
    u64::from(size) * 8 * NS_PER_S
}

/// A sequence of packets: when each leaves and how large it is, IP header included.
#[derive(Clone, Debug)]
pub enum DatagramSource {
    /// By a rate.
    Paced(Paced),
    /// At random.
    Poisson(Poisson),
    /// To be sent back.
    Requests(Requests),
}

impl Iterator for DatagramSource {
    type Item = (Time, u16);

    fn next(&mut self) -> Option<(Time, u16)> {
        match self {
            Self::Paced(paced) => paced.next().map(|at| (at, paced.size())),
            Self::Poisson(poisson) => poisson.next(),
            Self::Requests(requests) => requests.next().map(|at| (at, requests.size)),
        }
    }
}
