//! What relays are told.

use std::net::{IpAddr, Ipv6Addr, SocketAddr};
use std::str::FromStr;
use std::time::Duration;

use crate::announced::Announced;
use crate::hold::Filter;

/// How long a client or a server may say nothing, not even when it is asked whether it is there.
pub const GONE_AFTER: Duration = Duration::from_secs(100);

/// How many connections a client's address may have at a time: a quarter of all that there can be.
pub const EACH_AT_MOST: usize = 1 << 14;
/// Addresses of IPv6 that begin with so many equal bits are one client's.
const CLIENT_BITS: u8 = 64;

/// How long the other end of an aggregate may say nothing.
pub const HEARD_WITHIN: Duration = Duration::from_secs(40);

/// Addresses that begin alike.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Network {
    address: IpAddr,
    bits: u8,
}

impl Network {
    /// What is one client's: an address of IPv4, or a network of IPv6, in which a host gives
    /// itself as many addresses as it likes.
    pub(crate) fn of_client(address: IpAddr) -> Self {
        match address.to_canonical() {
            IpAddr::V4(ip) => Self { address: ip.into(), bits: 32 },
            IpAddr::V6(ip) => {
                let begin = ip.to_bits() >> CLIENT_BITS << CLIENT_BITS;
                Self { address: Ipv6Addr::from_bits(begin).into(), bits: CLIENT_BITS }
            }
        }
    }

    /// Whether an address is one of it.
    pub fn contains(&self, other: IpAddr) -> bool {
        match (self.address, other.to_canonical()) {
            (IpAddr::V4(ours), IpAddr::V4(other)) => {
                let mask = u32::MAX.checked_shl(32 - u32::from(self.bits)).unwrap_or(0);
                (u32::from(ours) ^ u32::from(other)) & mask == 0
            }
            (IpAddr::V6(ours), IpAddr::V6(other)) => {
                let mask = u128::MAX.checked_shl(128 - u32::from(self.bits)).unwrap_or(0);
                (u128::from(ours) ^ u128::from(other)) & mask == 0
            }
            _ => false,
        }
    }
}

impl FromStr for Network {
    type Err = String;

    /// `10.0.0.0/8`, or an address alone.
    fn from_str(text: &str) -> Result<Self, String> {
        let (address, bits) = text.split_once('/').map_or((text, None), |(a, b)| (a, Some(b)));
        let address: IpAddr = address.parse().map_err(|_| format!("{text:?} is no network"))?;
        let most = if address.is_ipv4() { 32 } else { 128 };
        let bits =
            bits.map_or(Ok(most), str::parse).map_err(|_| format!("{text:?} is no network"))?;
        if bits > most {
            return Err(format!("{text:?}: at most {most} bits"));
        }
        Ok(Self { address, bits })
    }
}

/// Servers that may be reached: addresses, and a port if not any.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Allowed {
    /// Which addresses.
    pub network: Network,
    /// Which port; none: any.
    pub port: Option<u16>,
}

impl Allowed {
    /// Whether it is one of them.
    pub fn contains(&self, server: SocketAddr) -> bool {
        self.network.contains(server.ip()) && self.port.is_none_or(|port| port == server.port())
    }
}

/// The weights of clients, by their addresses: the first network that fits counts.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Weights(pub Vec<(Network, u32)>);

impl Weights {
    /// The weight of a client; 1 where nothing is said.
    pub fn of(&self, client: IpAddr) -> u32 {
        self.0.iter().find(|(network, _)| network.contains(client)).map_or(1, |(_, weight)| *weight)
    }
}

/// What clients' acknowledgements mean.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LinkedAck {
    /// That the relay has the data.
    Off,
    /// The same; and the split end tells what servers have acknowledged, for the status.
    Told,
    /// That the server's kernel has them: the kernel's own acknowledgements to clients are held
    /// back by this filter.
    Strict(Filter),
    /// As the work prints it: that all servers' kernels together have as much as all clients were
    /// acknowledged, which are held back likewise.
    Literal(Filter),
}

/// What the end that accepts clients is told.
#[derive(Clone, Debug)]
pub struct JoinSettings {
    /// Where clients connect.
    pub listen: SocketAddr,
    /// The split end.
    pub split: SocketAddr,
    /// The server of all clients; none: each client's own, to which it was on its way when a router
    /// gave it to us (TPROXY).
    pub server: Option<SocketAddr>,
    /// Weights from the begin.
    pub weights: Weights,
    /// The aggregate's congestion control; none: this host's default.
    pub congestion: Option<String>,
    /// What clients' acknowledgements mean.
    pub linked_ack: LinkedAck,
    /// A controller's: nobody else is accepted, and the UIDs are those that it gives; none: whoever
    /// comes is.
    pub announced: Option<Announced>,
    /// After so long a client that is silent, and is not there when it is asked, is given up.
    pub gone_after: Duration,
    /// How many connections a client's address may have at a time, where no controller says who may
    /// come; with IPv6 a network of 64 bits.
    pub each_at_most: usize,
    /// How many connections are joined at a time, where no controller says who may come. Where a
    /// router gives us what is on its way to others, next to no room has new ones go by themselves.
    pub at_most: usize,
    /// After so long without a sign of the other end the aggregate is given up; where its kernel
    /// acknowledges nothing, after three quarters of it.
    pub heard_within: Duration,
}

/// What the end that connects to servers is told.
#[derive(Clone, Debug)]
pub struct SplitSettings {
    /// Where aggregates come.
    pub listen: SocketAddr,
    /// From where they may come.
    pub from: Vec<Network>,
    /// Which servers they may reach.
    pub servers: Vec<Allowed>,
    /// Whether servers are to see the clients' addresses: a router has to bring their answers here.
    pub as_client: bool,
    /// The congestion control of the aggregate's way back; none: this host's default.
    pub congestion: Option<String>,
    /// A controller's: from where servers are connected to and what they are offered, and for whom;
    /// none: for whoever comes, as this host does.
    pub announced: Option<Announced>,
    /// After so long a server that is silent, and is not there when it is asked, is given up.
    pub gone_after: Duration,
    /// As at the other end.
    pub heard_within: Duration,
}

/// What a proxy alone is told.
#[derive(Clone, Debug)]
pub struct ProxySettings {
    /// Where clients connect.
    pub listen: SocketAddr,
    /// The server; none: each client's own (TPROXY).
    pub server: Option<SocketAddr>,
    /// Whether servers are to see the clients' addresses.
    pub as_client: bool,
    /// The congestion control towards servers; none: this host's default.
    pub congestion: Option<String>,
    /// After so long a client or a server that is silent, and is not there when it is asked, is
    /// given up.
    pub gone_after: Duration,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_client_is_an_address_of_ipv4_or_a_network_of_ipv6() {
        let of = |text: &str| Network::of_client(text.parse().expect("an address"));
        assert_ne!(of("10.0.0.1"), of("10.0.0.2"));
        assert_eq!(of("10.0.0.1"), of("::ffff:10.0.0.1"));
        assert_eq!(of("fd00:1:2:3::9"), of("fd00:1:2:3:ffff::"));
        assert_ne!(of("fd00:1:2:3::9"), of("fd00:1:2:4::9"));
        assert!(of("fd00:1:2:3::9").contains("fd00:1:2:3::1".parse().expect("an address")));
    }
}
