//! What an application is, as JSON. Keys end in their unit.

use serde::Deserialize;

use crate::tcp::TcpConfig;

/// What uses the connections of a traffic.
#[derive(Clone, Debug, Deserialize)]
#[serde(tag = "kind", rename_all = "kebab-case", deny_unknown_fields)]
pub enum ApplicationConfig {
    /// Greedy TCP: `streams` connections that send all they can, or `size_bytes` each.
    Bulk {
        /// Settings of all connections.
        #[serde(default)]
        tcp: TcpConfig,
        /// Parallel connections.
        #[serde(default = "one")]
        streams: u32,
        /// Rate of all streams together, paced by the sender's host.
        #[serde(default)]
        rate_bps: Option<u64>,
        /// What each connection carries; nothing for no end.
        #[serde(default)]
        size_bytes: Option<u64>,
    },
    /// Requests for objects at exponentially distributed intervals, a connection for each; sizes
    /// follow a truncated Pareto law (004-spec section 6.5).
    Web {
        /// Settings of all connections.
        #[serde(default)]
        tcp: TcpConfig,
        /// Mean number of requests in a second.
        requests_per_s: f64,
        /// Shape of the Pareto law.
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
        /// Settings of the connection.
        #[serde(default)]
        tcp: TcpConfig,
        /// Size of a message.
        size_bytes: u64,
        /// From write to write, or from end to write.
        interval_ns: u64,
        /// Which of them.
        #[serde(default)]
        from_end: bool,
    },
    /// One connection, opened by the receiver, with the writes of a list.
    Writes {
        /// Settings of the connection.
        #[serde(default)]
        tcp: TcpConfig,
        /// `[instant_ns, bytes]`, in order, from the traffic's start.
        writes: Vec<(u64, u64)>,
    },
    /// HTTP adaptive video (004-spec section 6.3).
    Video {
        /// Settings of both connections.
        #[serde(default)]
        tcp: TcpConfig,
        /// How many chunks the player's estimate looks back.
        #[serde(default = "video_samples")]
        samples: u32,
        /// How many standard deviations it takes off.
        #[serde(default = "video_caution")]
        caution: f64,
        /// Whether a sample counts what both connections brought while a chunk came, or the chunk.
        #[serde(default)]
        of_both: bool,
    },
    /// Web pages with page-load times: a root document, then objects over parallel connections;
    /// pages begin at exponentially distributed intervals.
    Pages {
        /// Settings of all connections.
        #[serde(default)]
        tcp: TcpConfig,
        /// Mean time from one page to the next.
        interval_ns: u64,
        /// Root document.
        #[serde(default = "page_root")]
        root_bytes: u64,
        /// Objects of a page beside the root.
        #[serde(default = "page_objects")]
        objects: u32,
        /// Connections that a browser opens for a page at most.
        #[serde(default = "page_connections")]
        connections: u32,
        /// Shape of the Pareto law of object sizes.
        #[serde(default = "web_shape")]
        shape: f64,
        /// Smallest object.
        #[serde(default = "web_least")]
        least_bytes: u64,
        /// Largest object.
        #[serde(default = "web_most")]
        most_bytes: u64,
    },
    /// Thin connections of a casual game (004-spec section 6.1).
    Game {
        /// Settings of all connections.
        #[serde(default)]
        tcp: TcpConfig,
        /// Clients of the server.
        #[serde(default = "game_clients")]
        clients: u32,
        /// Mean time from the end of a connection to the client's next.
        #[serde(default = "game_think_ns")]
        think_ns: u64,
    },
    /// Panoramic interactive video (004-spec section 6.7).
    Piv {
        /// Settings of the connection.
        #[serde(default)]
        tcp: TcpConfig,
        /// Rate of the video, if no frame is left out.
        #[serde(default = "piv_rate_bps")]
        rate_bps: u64,
        /// Frames captured in a second.
        #[serde(default = "piv_frames_per_s")]
        frames_per_s: u32,
        /// Frames sent and not acknowledged, at most.
        #[serde(default = "piv_in_flight_max")]
        in_flight_max: u32,
        /// Mean time between commands of the user.
        #[serde(default = "piv_command_interval_ns")]
        command_interval_ns: u64,
    },
    /// Remote procedure calls over one connection, closed loop (as an NFS client makes them).
    Rpc {
        /// Settings of the connection.
        #[serde(default)]
        tcp: TcpConfig,
        /// Calls outstanding.
        #[serde(default = "one")]
        concurrency: u32,
        /// Size of a call.
        #[serde(default = "rpc_request")]
        request_bytes: u64,
        /// Size of an answer.
        #[serde(default = "rpc_reply")]
        reply_bytes: u64,
        /// What the server takes for each.
        #[serde(default)]
        service_ns: u64,
    },
}

impl ApplicationConfig {
    /// Every [`kind`](Self::kind).
    pub const KINDS: [&str; 9] =
        ["bulk", "web", "messages", "writes", "video", "pages", "game", "piv", "rpc"];

    /// What it is called.
    pub const fn kind(&self) -> &'static str {
        match self {
            Self::Bulk { .. } => "bulk",
            Self::Web { .. } => "web",
            Self::Pages { .. } => "pages",
            Self::Messages { .. } => "messages",
            Self::Writes { .. } => "writes",
            Self::Game { .. } => "game",
            Self::Video { .. } => "video",
            Self::Piv { .. } => "piv",
            Self::Rpc { .. } => "rpc",
        }
    }

    /// How its connections are made.
    pub const fn tcp(&self) -> &TcpConfig {
        match self {
            Self::Bulk { tcp, .. }
            | Self::Web { tcp, .. }
            | Self::Pages { tcp, .. }
            | Self::Messages { tcp, .. }
            | Self::Writes { tcp, .. }
            | Self::Game { tcp, .. }
            | Self::Video { tcp, .. }
            | Self::Piv { tcp, .. }
            | Self::Rpc { tcp, .. } => tcp,
        }
    }

    /// Whether it is the receiver of the traffic, a client, that opens the connections.
    pub const fn opener_receives(&self) -> bool {
        !matches!(self, Self::Bulk { .. } | Self::Messages { .. })
    }
}

pub(crate) const fn one() -> u32 {
    1
}

pub(crate) const fn web_shape() -> f64 {
    0.9
}

pub(crate) const fn web_least() -> u64 {
    1_000
}

pub(crate) const fn web_most() -> u64 {
    1_000_000
}

pub(crate) const fn video_samples() -> u32 {
    10
}

pub(crate) const fn video_caution() -> f64 {
    1.0
}

pub(crate) const fn page_root() -> u64 {
    50_000
}

pub(crate) const fn page_objects() -> u32 {
    20
}

/// What browsers open to a server.
pub(crate) const fn page_connections() -> u32 {
    6
}

pub(crate) const fn game_clients() -> u32 {
    15
}

pub(crate) const fn game_think_ns() -> u64 {
    5_000_000_000
}

pub(crate) const fn piv_rate_bps() -> u64 {
    8_000_000
}

pub(crate) const fn piv_frames_per_s() -> u32 {
    25
}

pub(crate) const fn piv_in_flight_max() -> u32 {
    3
}

pub(crate) const fn piv_command_interval_ns() -> u64 {
    500_000_000
}

pub(crate) const fn rpc_request() -> u64 {
    160
}

/// `rsize` of an NFS mount.
pub(crate) const fn rpc_reply() -> u64 {
    32_768
}
