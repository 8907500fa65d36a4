//! How the connections of an application are made, as JSON.

use serde::Deserialize;

/// Both sides of a TCP connection.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TcpConfig {
    /// The congestion control with its options: "cubic", "reno:ecn=on".
    #[serde(default = "cubic")]
    pub congestion: String,
    /// Whether a SYN that was sent twice in vain no longer asks for ECN.
    #[serde(default = "yes")]
    pub ecn_fallback: bool,
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
    /// The tail loss probe restarts likewise (TLPR).
    #[serde(default)]
    pub probe_restart: bool,
    /// Redundant data bundling (RDB).
    #[serde(default)]
    pub bundling: bool,
    /// Whose loss recovery the sender has.
    #[serde(default)]
    pub recovery: Recovery,
    /// Whether it probes for losses at the tail of a flight.
    #[serde(default = "yes")]
    pub tail_loss_probe: bool,
    /// Retransmission on the first duplicate acknowledgement and linear timeouts of thin streams.
    #[serde(default)]
    pub thin: bool,
    /// Whether segments wait for others to leave with, as under segmentation offload.
    #[serde(default)]
    pub segmentation_offload: bool,
    /// Controls that take its place, `[ns since the connection began, control, bit/s at most]` in
    /// order, the last null for unpaced.
    #[serde(default)]
    pub turns: Vec<(u64, String, Option<u64>)>,
}

/// How a sender finds losses.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
pub enum Recovery {
    /// RACK-TLP (RFC 8985), as Linux does today.
    #[default]
    #[serde(rename = "rack")]
    Rack,
    /// Three duplicates (RFC 6675), fewer for a short flight, and the probe of Linux 3.18.
    #[serde(rename = "linux-3.18")]
    Linux318,
}

impl Default for TcpConfig {
    fn default() -> Self {
        Self {
            congestion: cubic(),
            ecn_fallback: true,
            send_buffer_bytes: buffer_most(),
            receive_buffer_bytes: buffer_most(),
            nagle: true,
            rto_restart: false,
            probe_restart: false,
            bundling: false,
            recovery: Recovery::default(),
            tail_loss_probe: true,
            thin: false,
            segmentation_offload: false,
            turns: Vec::new(),
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
