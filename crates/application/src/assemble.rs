//! Makes an application from its configuration.

use weir_random::Random;
use weir_units::{Rate, Time};

use crate::application::Application;
use crate::bulk::Bulk;
use crate::calls::{Call, Calls};
use crate::config::ApplicationConfig;
use crate::draws::TruncatedPareto;
use crate::error::{ApplicationError, require};
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
/// Rate of a video.
const RATE_MAX: u64 = 1_000_000_000_000;

impl ApplicationConfig {
    /// What it may have written on one connection and not sent, at most; an application that sends
    /// as there is room needs none.
    fn outstanding_bytes(&self) -> u64 {
        match *self {
            Self::Bulk { .. } | Self::Writes { .. } => 0,
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

    /// The application of the traffic `name`, whose random numbers follow from `seed`.
    ///
    /// # Errors
    /// [`ApplicationError`] for a value that nothing can have.
    pub fn build(&self, seed: u64, name: &str) -> Result<Application, ApplicationError> {
        let fits = self.outstanding_bytes() <= self.tcp().send_buffer_bytes;
        require(fits, "what is written at once does not fit send_buffer_bytes")?;
        let random = |source: &str| Random::of_source(seed, &[name, source]);
        Ok(match *self {
            Self::Bulk { streams, size_bytes, .. } => Application::Bulk(bulk(streams, size_bytes)?),
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
                let law = (shape, least_bytes, most_bytes);
                let anatomy = anatomy(root_bytes, objects, connections, law)?;
                let interval = Time::from_ns(interval_ns);
                Application::Pages(Box::new(Pages::new(interval, anatomy, random("pages"))))
            }
            Self::Messages { size_bytes, interval_ns, from_end, .. } => {
                Application::Messages(messages(size_bytes, interval_ns, from_end)?)
            }
            Self::Game { clients, think_ns, .. } => {
                require((1..=10_000).contains(&clients), "1 to 10000 clients are allowed")?;
                require(think_ns > 0, "think_ns is above 0")?;
                let randoms = (0..clients).map(|number| random(&format!("client {number}")));
                Application::Game(Game::new(Time::from_ns(think_ns), randoms))
            }
            Self::Writes { ref writes, .. } => Application::Writes(listed(writes)?),
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
        })
    }
}

fn bulk(streams: u32, size: Option<u64>) -> Result<Bulk, ApplicationError> {
    require((1..=STREAMS_MAX).contains(&streams), "1 to 65536 streams are allowed")?;
    require(size != Some(0), "size_bytes = 0 is nothing to carry")?;
    Ok(Bulk::new(streams, size))
}

fn anatomy(
    root: u64,
    objects: u32,
    connections: u32,
    (shape, least, most): (f64, u64, u64),
) -> Result<Anatomy, ApplicationError> {
    require(root > 0, "root_bytes is above 0")?;
    require(objects <= OBJECTS_MAX, "at most 10000 objects are allowed")?;
    require((1..=256).contains(&connections), "1 to 256 connections are allowed")?;
    Ok(Anatomy { root, objects, sizes: sizes(shape, least, most)?, connections })
}

fn messages(size: u64, interval_ns: u64, from_end: bool) -> Result<Messages, ApplicationError> {
    require(size > 0 && interval_ns > 0, "size_bytes and interval_ns are above 0")?;
    let interval = Time::from_ns(interval_ns);
    let pause = if from_end { Pause::FromEnd(interval) } else { Pause::FromWrite(interval) };
    Ok(Messages::new(size, pause))
}

fn listed(writes: &[(u64, u64)]) -> Result<Writes, ApplicationError> {
    let in_order = writes.is_sorted_by_key(|write| write.0);
    require(in_order, "the writes are not in order of time")?;
    require(writes.iter().all(|write| write.1 > 0), "a write has at least a byte")?;
    Ok(Writes::new(writes.iter().map(|&(at, bytes)| (Time::from_ns(at), bytes)).collect()))
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
