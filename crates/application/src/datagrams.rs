//! Datagrams that are sent without a connection, as JSON. Keys end in their unit.

use serde::Deserialize;

use crate::config::one;

/// What sends the datagrams of a traffic.
#[derive(Clone, Debug, Deserialize)]
#[serde(tag = "kind", rename_all = "kebab-case", deny_unknown_fields)]
pub enum DatagramConfig {
    /// UDP at a constant rate, or `on_ns` at the rate, `off_ns` silent, and again.
    Udp {
        /// Rate of the IP packets while sending.
        rate_bps: u64,
        /// Payload of a packet.
        payload_bytes: u32,
        /// Length of a burst, together with `off_ns`.
        #[serde(default)]
        on_ns: Option<u64>,
        /// Silence between bursts.
        #[serde(default)]
        off_ns: Option<u64>,
    },
    /// UDP at a rate that changes: `[instant_ns, rate_bps]`, in order, from the traffic's start.
    UdpRates {
        /// Instant and rate from then on.
        changes: Vec<(u64, u64)>,
        /// Payload of a packet.
        payload_bytes: u32,
    },
    /// UDP packets at exponentially distributed intervals.
    Poisson {
        /// Mean, of the IP packets.
        rate_bps: u64,
        /// (Mean) size of an IP packet.
        size_bytes: u32,
        /// Whether sizes are exponentially distributed too.
        #[serde(default)]
        exponential_sizes: bool,
    },
    /// Echo requests over UDP, each sent back as it came: every `interval_ns` so many `requests`,
    /// `spacing_ns` apart.
    Echo {
        /// From a sample to the next.
        interval_ns: u64,
        /// Requests of a sample.
        #[serde(default = "one")]
        requests: u32,
        /// From a request to the next of its sample.
        #[serde(default = "millisecond")]
        spacing_ns: u64,
        /// Payload of a request and of its reply.
        #[serde(default = "echo_payload")]
        payload_bytes: u32,
    },
}

impl DatagramConfig {
    /// Every [`kind`](Self::kind).
    pub const KINDS: [&str; 4] = ["udp", "udp-rates", "poisson", "echo"];

    /// What it is called.
    pub const fn kind(&self) -> &'static str {
        match self {
            Self::Udp { .. } => "udp",
            Self::UdpRates { .. } => "udp-rates",
            Self::Poisson { .. } => "poisson",
            Self::Echo { .. } => "echo",
        }
    }
}

const fn millisecond() -> u64 {
    1_000_000
}

/// What `ping` sends unless told otherwise.
const fn echo_payload() -> u32 {
    56
}
