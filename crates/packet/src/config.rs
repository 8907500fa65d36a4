//! What to simulate, as JSON. Keys end in their unit; nodes are named.

use serde::Deserialize;
use weir_link::DirectionConfig;
use weir_tcp::{Bundling, Nagle, ReceiveBuffer, RestartFrom};

use crate::PacketError;

/// IPv4 and TCP headers with timestamps.
const TCP_HEADERS: u32 = 52;
/// `tcp_rmem` of a node of the lab.
const RECEIVE_BUFFER: u64 = 131_072;

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
    /// Greedy TCP: `streams` connections that send all they can, or `size_bytes` each.
    Bulk {
        /// Of all connections.
        #[serde(default)]
        tcp: TcpConfig,
        /// Parallel connections.
        #[serde(default = "one")]
        streams: u32,
        /// Of all streams together, paced by the sender's host.
        #[serde(default)]
        rate_bps: Option<u64>,
        /// What each connection carries; nothing for no end.
        #[serde(default)]
        size_bytes: Option<u64>,
    },
    /// Requests for objects at exponentially distributed intervals, a connection for each; sizes
    /// follow a truncated Pareto law (004-spec section 6.5).
    Web {
        /// Of all connections.
        #[serde(default)]
        tcp: TcpConfig,
        /// Mean number of requests in a second.
        requests_per_s: f64,
        /// Of the Pareto law.
        #[serde(default = "web_shape")]
        shape: f64,
        /// Smallest object.
        #[serde(default = "web_least")]
        least_bytes: u64,
        /// Largest object.
        #[serde(default = "web_most")]
        most_bytes: u64,
    },
    /// Messages of one size over one connection, one each `interval_ns` (a game server), or after
    /// a pause of that length once the one before is acknowledged (bursts).
    Messages {
        /// Of the connection.
        #[serde(default)]
        tcp: TcpConfig,
        /// Of a message.
        size_bytes: u64,
        /// From write to write, or from end to write.
        interval_ns: u64,
        /// Which of them.
        #[serde(default)]
        from_end: bool,
    },
    /// HTTP adaptive video (004-spec section 6.3).
    Video {
        /// Of both connections.
        #[serde(default)]
        tcp: TcpConfig,
        /// How many chunks the player's estimate looks back.
        #[serde(default = "video_samples")]
        samples: u32,
        /// How many standard deviations it takes off.
        #[serde(default = "video_caution")]
        caution: f64,
    },
}

const fn one() -> u32 {
    1
}

const fn web_shape() -> f64 {
    0.9
}

const fn web_least() -> u64 {
    1_000
}

const fn web_most() -> u64 {
    1_000_000
}

const fn video_samples() -> u32 {
    10
}

const fn video_caution() -> f64 {
    1.0
}

/// Both sides of a TCP connection.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TcpConfig {
    /// The congestion control with its options: "cubic", "reno:ecn=on".
    #[serde(default = "cubic")]
    pub congestion: String,
    /// What a sender may have unacknowledged.
    #[serde(default = "buffer_most")]
    pub send_buffer_bytes: u64,
    /// What the receive buffer may grow to.
    #[serde(default = "buffer_most")]
    pub receive_buffer_bytes: u64,
    /// Whether short segments wait for company.
    #[serde(default = "yes")]
    pub nagle: bool,
    /// RTO restart (RFC 7765).
    #[serde(default)]
    pub rto_restart: bool,
    /// The same for the tail loss probe (TLPR).
    #[serde(default)]
    pub probe_restart: bool,
    /// Redundant data bundling (RDB).
    #[serde(default)]
    pub bundling: bool,
    /// Retransmission on the first duplicate acknowledgement and linear timeouts of thin streams.
    #[serde(default)]
    pub thin: bool,
}

impl Default for TcpConfig {
    fn default() -> Self {
        Self {
            congestion: cubic(),
            send_buffer_bytes: buffer_most(),
            receive_buffer_bytes: buffer_most(),
            nagle: true,
            rto_restart: false,
            probe_restart: false,
            bundling: false,
            thin: false,
        }
    }
}

fn cubic() -> String {
    "cubic".to_owned()
}

/// What a node of the lab has.
const fn buffer_most() -> u64 {
    64 << 20
}

const fn yes() -> bool {
    true
}

impl TcpConfig {
    /// The options of an endpoint on a path of this MTU.
    pub(crate) fn endpoint(&self, mtu: u32) -> weir_tcp::Config {
        let most = self.receive_buffer_bytes;
        weir_tcp::Config {
            mss: mtu.saturating_sub(TCP_HEADERS).max(1),
            send_buffer: self.send_buffer_bytes,
            receive_buffer: ReceiveBuffer::Auto { initial: RECEIVE_BUFFER.min(most), most },
            nagle: if self.nagle { Nagle::Minshall } else { Nagle::Off },
            rto_restart: self.rto_restart.then_some(RestartFrom::Earliest),
            probe_restart: self.probe_restart.then_some(RestartFrom::Earliest),
            bundling: self.bundling.then(Bundling::default),
            thin_dupack: self.thin,
            thin_linear_timeouts: self.thin,
            ..weir_tcp::Config::default()
        }
    }
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
