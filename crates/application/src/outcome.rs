//! What applications measure of their own; every time is in nanoseconds.

use serde::Serialize;
use weir_queue::Histogram;

pub use crate::video::VideoOutcome;

/// What an application measured of its own, from its start.
#[derive(Clone, Debug, Serialize)]
#[serde(tag = "measure", rename_all = "kebab-case")]
pub enum ApplicationOutcome {
    /// How long requests take: from opening the connection to the server's close.
    Completion {
        /// Requests begun.
        begun: u64,
        /// Requests completed.
        completed: u64,
        /// How long the completed ones took.
        time: Quantiles,
    },
    /// How long pages take: from opening the first connection until the last object is there.
    PageLoad {
        /// Pages begun.
        begun: u64,
        /// Pages loaded.
        completed: u64,
        /// How long the loaded ones took: the page-load time.
        time: Quantiles,
    },
    /// How long messages take: from the write of the first byte until the receiver has the last.
    Latency {
        /// Messages written.
        written: u64,
        /// Messages received.
        received: u64,
        /// How long the received ones took.
        time: Quantiles,
    },
    /// How long calls take: from the write of the request until the client has all of the reply.
    Calls {
        /// Calls made.
        made: u64,
        /// Calls answered.
        answered: u64,
        /// Calls answered in a second, from the start to the last answer.
        per_s: f64,
        /// How long the answered ones took.
        time: Quantiles,
    },
    /// What a video player saw.
    Video(VideoOutcome),
    /// What a client of panoramic interactive video saw.
    Panorama(PanoramaOutcome),
}

/// What a client of panoramic interactive video saw.
#[derive(Clone, Debug, Serialize)]
pub struct PanoramaOutcome {
    /// Frames that were captured.
    pub captured: u64,
    /// Frames that were encoded and sent; the others were out of date before there was room.
    pub sent: u64,
    /// Frames displayed.
    pub displayed: u64,
    /// From a frame's capture to its display.
    pub age: Quantiles,
    /// From a user's command to the display of the first frame that reflects it.
    pub reaction: Quantiles,
}

/// A distribution of times; zeros if nothing was counted.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct Quantiles {
    /// Median, to 1/16.
    pub p50_ns: u64,
    /// 90th percentile, to 1/16.
    pub p90_ns: u64,
    /// 99th percentile, to 1/16.
    pub p99_ns: u64,
    /// Largest, exactly.
    pub max_ns: u64,
}

impl From<&Histogram> for Quantiles {
    fn from(histogram: &Histogram) -> Self {
        let quantile = |fraction| histogram.quantile(fraction).as_ns();
        Self {
            p50_ns: quantile(0.5),
            p90_ns: quantile(0.9),
            p99_ns: quantile(0.99),
            max_ns: histogram.max().as_ns(),
        }
    }
}
