//! What to simulate, as JSON. Keys end in their unit; nodes are named.

use serde::Deserialize;
use weir_link::DirectionConfig;

use crate::PacketError;

/// A whole simulation.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Config {
    /// Every random choice follows from it.
    pub seed: u64,
    /// How long it runs.
    pub duration_ns: u64,
    /// What happens before this is not measured.
    #[serde(default)]
    pub warmup_ns: u64,
    /// How often queues and windows are looked at, for means and traces.
    #[serde(default = "default_sample_ns")]
    pub sample_ns: u64,
    /// Whether every look is kept.
    #[serde(default)]
    pub trace: bool,
    /// Hosts and routers.
    pub nodes: Vec<NodeConfig>,
    /// Between them.
    pub links: Vec<LinkConfig>,
    /// Who sends what.
    pub traffic: Vec<TrafficConfig>,
}

fn default_sample_ns() -> u64 {
    10_000_000
}

/// A host or a router.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct NodeConfig {
    /// Unique.
    pub name: String,
    /// Whether packets of others pass it.
    #[serde(default)]
    pub forwards: bool,
}

/// A link; `forward` runs from the first end to the second.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LinkConfig {
    /// Unique.
    pub name: String,
    /// Names of two nodes.
    pub ends: [String; 2],
    /// Largest IP packet.
    #[serde(default = "default_mtu")]
    pub mtu_bytes: u32,
    /// First end to second.
    pub forward: DirectionConfig,
    /// Second end to first.
    pub backward: DirectionConfig,
}

fn default_mtu() -> u32 {
    1500
}

/// Traffic between two hosts.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TrafficConfig {
    /// Unique.
    pub name: String,
    /// The host that sends (and, of applications with two sides, serves).
    pub from: String,
    /// The host that receives.
    pub to: String,
    /// From the beginning of the simulation.
    #[serde(default)]
    pub start_ns: u64,
    /// Likewise; nothing to go on to the end.
    #[serde(default)]
    pub stop_ns: Option<u64>,
    /// Code point of its packets, 0 to 63.
    #[serde(default)]
    pub dscp: u8,
    /// What it is.
    pub application: ApplicationConfig,
}

/// What generates the traffic.
#[derive(Clone, Debug, Deserialize)]
#[serde(tag = "kind", rename_all = "kebab-case", deny_unknown_fields)]
pub enum ApplicationConfig {
    /// UDP at a constant rate, or `on_ns` at the rate, `off_ns` silent, and again.
    Udp {
        /// Of the IP packets while sending.
        rate_bps: u64,
        /// Of a packet.
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
        /// Of a packet.
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
}

impl Config {
    /// Reads a configuration.
    ///
    /// # Errors
    /// [`PacketError::Value`], with the path of the key.
    pub fn from_json(text: &str) -> Result<Self, PacketError> {
        let mut json = serde_json::Deserializer::from_str(text);
        let config = serde_path_to_error::deserialize(&mut json).map_err(|error| {
            PacketError::value(error.path().to_string(), error.inner().to_string())
        })?;
        let after = |error: serde_json::Error| {
            PacketError::value("after the simulation", error.to_string())
        };
        json.end().map_err(after)?;
        Ok(config)
    }
}
