//! What an application is, as JSON. Keys end in their unit.

use serde::Deserialize;
use weir_random::Random;
use weir_units::{Rate, Time};

use crate::application::Application;
use crate::bulk::Bulk;
use crate::calls::{Call, Calls};
use crate::draws::TruncatedPareto;
use crate::game::{Game, MESSAGE_MOST};
use crate::messages::{Messages, Pause};
use crate::pages::{Anatomy, Pages};
use crate::panorama::{Encoder, Panorama};
use crate::video::{CHUNK_MAX, Estimate, Video};
use crate::web::Web;
use crate::writes::Writes;

/// Connections of one traffic.
const STREAMS_MAX: u32 = 65_536;
/// Objects of a page.
const OBJECTS_MAX: u32 = 10_000;
/// Of a video.
const RATE_MAX: u64 = 1_000_000_000_000;

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
    /// Echo requests over UDP, each sent back as it came: every `interval_ns` so many `requests`,
    /// `spacing_ns` apart.
    Echo {
        /// From a sample to the next.
        interval_ns: u64,
        /// Of a sample.
        #[serde(default = "one")]
        requests: u32,
        /// From a request to the next of its sample.
        #[serde(default = "millisecond")]
        spacing_ns: u64,
        /// Of a request and of its reply.
        #[serde(default = "echo_payload")]
        payload_bytes: u32,
    },
    /// UDT: greedy, by a rate of its own, over UDP.
    Udt {},
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
    /// One connection, opened by the receiver, with the writes of a list.
    Writes {
        /// Of the connection.
        #[serde(default)]
        tcp: TcpConfig,
        /// `[instant_ns, bytes]`, in order, from the traffic's start.
        writes: Vec<(u64, u64)>,
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
        /// Whether a sample counts what both connections brought while a chunk came, or the chunk.
        #[serde(default)]
        of_both: bool,
    },
    /// Web pages with page-load times: a root document, then objects over parallel connections;
    /// pages begin at exponentially distributed intervals.
    Pages {
        /// Of all connections.
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
        /// Of the Pareto law of object sizes.
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
        /// Of all connections.
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
        /// Of the connection.
        #[serde(default)]
        tcp: TcpConfig,
        /// Of the video, if no frame is left out.
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
    /// Remote procedure calls over one connection, closed loop (as of an NFS client).
    Rpc {
        /// Of the connection.
        #[serde(default)]
        tcp: TcpConfig,
        /// Calls outstanding.
        #[serde(default = "one")]
        concurrency: u32,
        /// Of a call.
        #[serde(default = "rpc_request")]
        request_bytes: u64,
        /// Of an answer.
        #[serde(default = "rpc_reply")]
        reply_bytes: u64,
        /// What the server takes for each.
        #[serde(default)]
        service_ns: u64,
    },
}

impl ApplicationConfig {
    /// What it is called.
    pub const fn kind(&self) -> &'static str {
        match self {
            Self::Udp { .. } => "udp",
            Self::UdpRates { .. } => "udp-rates",
            Self::Poisson { .. } => "poisson",
            Self::Echo { .. } => "echo",
            Self::Udt {} => "udt",
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

    /// How its connections are made; `None` if it has none.
    pub const fn tcp(&self) -> Option<&TcpConfig> {
        match self {
            Self::Udp { .. }
            | Self::UdpRates { .. }
            | Self::Poisson { .. }
            | Self::Echo { .. }
            | Self::Udt {} => None,
            Self::Bulk { tcp, .. }
            | Self::Web { tcp, .. }
            | Self::Pages { tcp, .. }
            | Self::Messages { tcp, .. }
            | Self::Writes { tcp, .. }
            | Self::Game { tcp, .. }
            | Self::Video { tcp, .. }
            | Self::Piv { tcp, .. }
            | Self::Rpc { tcp, .. } => Some(tcp),
        }
    }

    /// Whether it is the receiver of the traffic, a client, that opens the connections.
    pub const fn opener_receives(&self) -> bool {
        !matches!(self, Self::Bulk { .. } | Self::Messages { .. })
    }

    /// What it may have written on one connection and not sent, at most; an application that sends
    /// as there is room needs none.
    fn outstanding_bytes(&self) -> u64 {
        match *self {
            Self::Udp { .. }
            | Self::UdpRates { .. }
            | Self::Poisson { .. }
            | Self::Echo { .. }
            | Self::Udt {}
            | Self::Bulk { .. }
            | Self::Writes { .. } => 0,
            Self::Game { .. } => MESSAGE_MOST,
            Self::Video { .. } => CHUNK_MAX,
            Self::Web { most_bytes, .. } => most_bytes,
            Self::Pages { root_bytes, most_bytes, .. } => root_bytes.max(most_bytes),
            Self::Messages { size_bytes, .. } => size_bytes,
            // A frame is less than what the rate gives in the second between key frames.
            Self::Piv { rate_bps, in_flight_max, .. } => {
                (rate_bps / 8).saturating_mul(in_flight_max.into())
            }
            Self::Rpc { concurrency, request_bytes, reply_bytes, .. } => {
                request_bytes.max(reply_bytes).saturating_mul(concurrency.into())
            }
        }
    }

    /// The application of the traffic `name`, whose random numbers follow from `seed`; `None` if it
    /// sends datagrams, which need none.
    ///
    /// # Errors
    /// [`ApplicationError`] for a value that nothing can have.
    pub fn build(&self, seed: u64, name: &str) -> Result<Option<Application>, ApplicationError> {
        let room = self.tcp().map_or(0, |tcp| tcp.send_buffer_bytes);
        let fits = self.outstanding_bytes() <= room;
        require(fits, "what is written at once does not fit send_buffer_bytes")?;
        let random = |source: &str| Random::of_source(seed, &[name, source]);
        Ok(Some(match *self {
            Self::Udp { .. }
            | Self::UdpRates { .. }
            | Self::Poisson { .. }
            | Self::Echo { .. }
            | Self::Udt {} => return Ok(None),
            Self::Bulk { streams, size_bytes, .. } => {
                require((1..=STREAMS_MAX).contains(&streams), "1 to 65536 streams are allowed")?;
                require(size_bytes != Some(0), "size_bytes = 0 is nothing to carry")?;
                Application::Bulk(Bulk::new(streams, size_bytes))
            }
            Self::Web { requests_per_s, shape, least_bytes, most_bytes, .. } => {
                let is_rate = requests_per_s > 0.0 && requests_per_s <= 1e6;
                require(is_rate, "requests_per_s is above 0, up to 10^6")?;
                let sizes = sizes(shape, least_bytes, most_bytes)?;
                Application::Web(Web::new(requests_per_s, sizes, random("requests")))
            }
            Self::Pages {
                interval_ns,
                root_bytes,
                objects,
                connections,
                shape,
                least_bytes,
                most_bytes,
                ..
            } => {
                require(interval_ns > 0, "interval_ns is above 0")?;
                require(root_bytes > 0, "root_bytes is above 0")?;
                require(objects <= OBJECTS_MAX, "at most 10000 objects are allowed")?;
                require((1..=256).contains(&connections), "1 to 256 connections are allowed")?;
                let sizes = sizes(shape, least_bytes, most_bytes)?;
                let anatomy = Anatomy { root: root_bytes, objects, sizes, connections };
                let interval = Time::from_ns(interval_ns);
                Application::Pages(Box::new(Pages::new(interval, anatomy, random("pages"))))
            }
            Self::Messages { size_bytes, interval_ns, from_end, .. } => {
                let is_some = size_bytes > 0 && interval_ns > 0;
                require(is_some, "size_bytes and interval_ns are above 0")?;
                let interval = Time::from_ns(interval_ns);
                let pause =
                    if from_end { Pause::FromEnd(interval) } else { Pause::FromWrite(interval) };
                Application::Messages(Messages::new(size_bytes, pause))
            }
            Self::Game { clients, think_ns, .. } => {
                require((1..=10_000).contains(&clients), "1 to 10000 clients are allowed")?;
                require(think_ns > 0, "think_ns is above 0")?;
                let randoms = (0..clients).map(|number| random(&format!("client {number}")));
                Application::Game(Game::new(Time::from_ns(think_ns), randoms))
            }
            Self::Writes { ref writes, .. } => {
                let in_order = writes.is_sorted_by_key(|write| write.0);
                require(in_order, "the writes are not in order of time")?;
                require(writes.iter().all(|write| write.1 > 0), "a write has at least a byte")?;
                let listed = writes.iter().map(|&(at, bytes)| (Time::from_ns(at), bytes));
                Application::Writes(Writes::new(listed.collect()))
            }
            Self::Video { samples, caution, of_both, .. } => {
                let is_right = samples > 0 && caution >= 0.0;
                require(is_right, "samples is above 0, caution not below")?;
                let estimate = Estimate { samples: samples as usize, caution, of_both };
                Application::Video(Box::new(Video::new(estimate)))
            }
            Self::Piv { rate_bps, frames_per_s, in_flight_max, command_interval_ns, .. } => {
                require(command_interval_ns > 0, "command_interval_ns is above 0")?;
                let encoder = encoder(rate_bps, frames_per_s, in_flight_max)?;
                let interval = Time::from_ns(command_interval_ns);
                let panorama = Panorama::new(encoder, interval, random("commands"));
                Application::Panorama(Box::new(panorama))
            }
            Self::Rpc { concurrency, request_bytes, reply_bytes, service_ns, .. } => {
                require((1..=65_536).contains(&concurrency), "a concurrency of 1 to 65536")?;
                let call = call(request_bytes, reply_bytes, service_ns)?;
                Application::Calls(Box::new(Calls::new(concurrency, call)))
            }
        }))
    }
}

fn sizes(shape: f64, least: u64, most: u64) -> Result<TruncatedPareto, ApplicationError> {
    require(shape > 0.0 && shape.is_finite(), "shape is above 0")?;
    require(0 < least && least <= most, "least_bytes is above 0 and not above most_bytes")?;
    Ok(TruncatedPareto { shape, least, most })
}

fn encoder(
    rate_bps: u64,
    frames_per_s: u32,
    in_flight_max: u32,
) -> Result<Encoder, ApplicationError> {
    require((1..=RATE_MAX).contains(&rate_bps), "rate_bps is above 0, up to 10^12")?;
    require((1..=1_000).contains(&frames_per_s), "1 to 1000 frames_per_s are allowed")?;
    require(in_flight_max > 0, "in_flight_max is above 0")?;
    let rate = Rate::from_bit_per_s(rate_bps);
    Ok(Encoder { rate, frames_per_s, in_flight_max: in_flight_max as usize })
}

fn call(request: u64, reply: u64, service_ns: u64) -> Result<Call, ApplicationError> {
    require(request > 0 && reply > 0, "request_bytes and reply_bytes are above 0")?;
    Ok(Call { request, reply, service: Time::from_ns(service_ns) })
}

fn require(is_right: bool, reason: &'static str) -> Result<(), ApplicationError> {
    if is_right { Ok(()) } else { Err(ApplicationError(reason)) }
}

/// A value that nothing can have: which, and what is allowed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct ApplicationError(&'static str);

const fn one() -> u32 {
    1
}

const fn millisecond() -> u64 {
    1_000_000
}

/// What `ping` sends unless told otherwise.
const fn echo_payload() -> u32 {
    56
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

const fn page_root() -> u64 {
    50_000
}

const fn page_objects() -> u32 {
    20
}

/// What browsers open to a server.
const fn page_connections() -> u32 {
    6
}

const fn game_clients() -> u32 {
    15
}

const fn game_think_ns() -> u64 {
    5_000_000_000
}

const fn piv_rate_bps() -> u64 {
    8_000_000
}

const fn piv_frames_per_s() -> u32 {
    25
}

const fn piv_in_flight_max() -> u32 {
    3
}

const fn piv_command_interval_ns() -> u64 {
    500_000_000
}

const fn rpc_request() -> u64 {
    160
}

/// `rsize` of an NFS mount.
const fn rpc_reply() -> u64 {
    32_768
}

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
    /// The same for the tail loss probe (TLPR).
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
