//! What uses the connections of a flow: when it writes how much, and what it makes of what arrives.
//!
//! An application is told when its traffic starts, when its timer runs out, when something may have
//! changed at one of its endpoints, and when its traffic stops; it acts by [`Sockets`].

mod bulk;
mod messages;
mod requests;
mod video;

use serde::Serialize;
use weir_units::Time;

pub(crate) use bulk::Bulk;
pub(crate) use messages::{Messages, Pause};
pub(crate) use requests::{Requests, TruncatedPareto};
pub use video::VideoOutcome;
pub(crate) use video::{Estimate, Video};

use crate::endpoint::Sockets;
use crate::outcome::Quantiles;
use crate::source::Source;

/// What generates the packets of a flow.
pub(crate) enum Application {
    Udp(Box<Source>),
    Bulk(Bulk),
    Requests(Box<Requests>),
    Messages(Box<Messages>),
    Video(Box<Video>),
}

impl Application {
    /// The traffic starts.
    pub(crate) fn start(&mut self, sockets: &mut Sockets<'_>) {
        match self {
            Self::Udp(_) => {}
            Self::Bulk(bulk) => bulk.start(sockets),
            Self::Requests(requests) => requests.start(sockets),
            Self::Messages(messages) => messages.start(sockets),
            Self::Video(video) => video.start(sockets),
        }
    }

    /// Its timer ran out.
    pub(crate) fn on_timer(&mut self, sockets: &mut Sockets<'_>) {
        match self {
            Self::Udp(_) | Self::Bulk(_) => {}
            Self::Requests(requests) => requests.on_timer(sockets),
            Self::Messages(messages) => messages.on_timer(sockets),
            Self::Video(video) => video.on_timer(sockets),
        }
    }

    /// A segment has reached `endpoint`, or its timer has run out.
    pub(crate) fn on_progress(&mut self, endpoint: u32, sockets: &mut Sockets<'_>) {
        match self {
            Self::Udp(_) => {}
            Self::Bulk(bulk) => bulk.on_progress(endpoint, sockets),
            Self::Requests(requests) => requests.on_progress(endpoint, sockets),
            Self::Messages(messages) => messages.on_progress(endpoint, sockets),
            Self::Video(video) => video.on_progress(endpoint, sockets),
        }
    }

    /// The traffic stops.
    pub(crate) fn stop(&mut self, sockets: &mut Sockets<'_>) {
        match self {
            Self::Udp(_) => {}
            Self::Bulk(bulk) => bulk.stop(sockets),
            Self::Requests(requests) => requests.stop(),
            Self::Messages(messages) => messages.stop(),
            Self::Video(video) => video.stop(),
        }
    }

    /// When [`on_timer`](Self::on_timer) is wanted; `None` for never.
    pub(crate) fn next_timer(&self) -> Option<Time> {
        match self {
            Self::Udp(_) | Self::Bulk(_) => None,
            Self::Requests(requests) => requests.next_timer(),
            Self::Messages(messages) => messages.next_timer(),
            Self::Video(video) => video.next_timer(),
        }
    }

    /// What it measured of its own, from the start of the simulation.
    pub(crate) fn outcome(&self) -> Option<ApplicationOutcome> {
        match self {
            Self::Udp(_) | Self::Bulk(_) => None,
            Self::Requests(requests) => Some(requests.outcome()),
            Self::Messages(messages) => Some(messages.outcome()),
            Self::Video(video) => Some(ApplicationOutcome::Video(video.outcome())),
        }
    }
}

/// What an application measured of its own, from the start of the simulation.
#[derive(Clone, Debug, Serialize)]
#[serde(tag = "measure", rename_all = "kebab-case")]
pub enum ApplicationOutcome {
    /// Of requests: from opening the connection to the server's close.
    Completion {
        /// Requests begun.
        begun: u64,
        /// Requests completed.
        completed: u64,
        /// How long the completed ones took.
        time: Quantiles,
    },
    /// Of messages: from the write of the first byte until the receiver has the last.
    Latency {
        /// Messages written.
        written: u64,
        /// Messages received.
        received: u64,
        /// How long the received ones took.
        time: Quantiles,
    },
    /// Of a video player.
    Video(VideoOutcome),
}
