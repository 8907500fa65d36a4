//! What to simulate, as JSON. Keys end in their unit; nodes are named.

use serde::Deserialize;
use weir_application::{Recovery, TcpConfig};
use weir_link::{ChannelConfig, CreditConfig, DirectionConfig};
use weir_tcp::{Bundling, LossDetection, Nagle, ReceiveBuffer, RestartFrom, TailLossProbe};

use crate::PacketError;
use crate::traffic::TrafficConfig;

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
    /// Whether looks and requests are kept in the result.
    #[serde(default)]
    pub trace: bool,
    /// Whether destinations are spread over equally short ways; otherwise the first one is taken.
    #[serde(default)]
    pub spread: bool,
    /// Hosts and routers.
    pub nodes: Vec<NodeConfig>,
    /// What wireless links share.
    #[serde(default)]
    pub channels: Vec<NamedChannel>,
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

/// A wireless channel.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct NamedChannel {
    /// Unique.
    pub name: String,
    /// What its stations have in common.
    pub config: ChannelConfig,
}

/// What a link is; the same in both directions.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(tag = "kind", rename_all = "kebab-case", deny_unknown_fields)]
pub enum MediumConfig {
    /// Each direction has its line to itself.
    #[default]
    Wired,
    /// Both directions contend for a channel with all others on it; their rates are the PHY's.
    Wlan {
        /// The name of the channel.
        channel: String,
    },
    /// Nothing is sent that the far end has no room for. All such links are one subnet.
    Credits(CreditConfig),
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
    /// What it is.
    #[serde(default)]
    pub medium: MediumConfig,
    /// First end to second.
    pub forward: DirectionConfig,
    /// Second end to first.
    pub backward: DirectionConfig,
}

fn default_mtu() -> u32 {
    1500
}

/// The options of an endpoint of `tcp` on a path of this MTU.
pub(crate) fn endpoint(tcp: &TcpConfig, mtu: u32) -> weir_tcp::Config {
    let most = tcp.receive_buffer_bytes;
    let (loss_detection, probe) = match tcp.recovery {
        Recovery::Rack => (LossDetection::Rack, TailLossProbe::Rfc8985),
        Recovery::Linux318 => (LossDetection::DupThresh, TailLossProbe::Linux318),
    };
    weir_tcp::Config {
        mss: mtu.saturating_sub(TCP_HEADERS).max(1),
        ecn_fallback: tcp.ecn_fallback,
        send_buffer: tcp.send_buffer_bytes,
        receive_buffer: ReceiveBuffer::Auto { initial: RECEIVE_BUFFER.min(most), most },
        nagle: if tcp.nagle { Nagle::Minshall } else { Nagle::Off },
        rto_restart: tcp.rto_restart.then_some(RestartFrom::Earliest),
        // From the earliest one, probes would be spurious (004-spec section 13, 1).
        probe_restart: tcp.probe_restart.then_some(RestartFrom::Last),
        bundling: tcp.bundling.then(Bundling::default),
        loss_detection,
        early_retransmit: tcp.recovery == Recovery::Linux318,
        tail_loss_probe: tcp.tail_loss_probe.then_some(probe),
        thin_dupack: tcp.thin,
        thin_linear_timeouts: tcp.thin,
        segmentation_offload: tcp.segmentation_offload,
        ..weir_tcp::Config::default()
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
