//! What sends datagrams, as JSON. Keys end in their unit.

use serde::Deserialize;
use weir_random::{MersenneTwister, Random};
use weir_units::{Rate, Time};

use super::poisson::Sizes;
use super::{BurstLaw, Bursts, DatagramSource, HEADERS, Paced, Poisson, Rates, Requests};
use crate::ApplicationError;
use crate::error::require;

/// Rates in bit/s beyond it overflow the arithmetic of sources.
pub const RATE_MAX: u64 = 1_000_000_000_000_000;

/// What generates the datagrams.
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
    /// UDP at a rate that changes: `[instant_ns, rate_bps]`, in order, from the traffic's start, or
    /// bursts at random.
    UdpRates {
        /// Instant and rate from then on.
        #[serde(default)]
        changes: Vec<(u64, u64)>,
        /// The bursts, in place of a list.
        #[serde(default)]
        bursts: Option<BurstConfig>,
        /// Payload of a packet.
        payload_bytes: u32,
    },
    /// UDP packets at exponentially distributed intervals.
    Poisson {
        /// Mean rate of the IP packets.
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

/// The Poisson-Pareto burst process (000-spec section 3.6.1).
#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct BurstConfig {
    /// Every burst follows from it.
    pub seed: u64,
    /// What each burst adds.
    pub rate_bps: u64,
    /// Mean time between the beginnings of bursts (1 / lambda_p).
    pub interval_ns: u64,
    /// Mean length of a burst (T_on).
    pub mean_ns: u64,
    /// The Hurst parameter H; the Pareto shape is 3 - 2 H.
    pub hurst: f64,
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

    /// The (mean) size of its packets, IP header included.
    pub const fn packet_bytes(&self) -> u32 {
        match *self {
            Self::Udp { payload_bytes, .. }
            | Self::UdpRates { payload_bytes, .. }
            | Self::Echo { payload_bytes, .. } => payload_bytes.saturating_add(HEADERS),
            Self::Poisson { size_bytes, .. } => size_bytes,
        }
    }

    /// The source of the traffic `name` that starts at `start`; its random numbers follow from
    /// `seed`.
    ///
    /// # Errors
    /// [`ApplicationError`] for a value that nothing can have.
    pub fn build(
        &self,
        seed: u64,
        name: &str,
        start: Time,
    ) -> Result<DatagramSource, ApplicationError> {
        let size = self.size()?;
        Ok(match *self {
            Self::Udp { .. } | Self::UdpRates { .. } => {
                DatagramSource::Paced(Paced::new(self.rates()?, size, start))
            }
            Self::Poisson { rate_bps, exponential_sizes, .. } => {
                let sizes = if exponential_sizes {
                    Sizes::Exponential(size)
                } else {
                    Sizes::Constant(size)
                };
                let random = Random::of_source(seed, &[name, "poisson"]);
                DatagramSource::Poisson(Poisson::new(rate(rate_bps, 1)?, sizes, start, random))
            }
            Self::Echo { interval_ns, requests, spacing_ns, .. } => {
                let takes_ns = spacing_ns.saturating_mul(u64::from(requests.saturating_sub(1)));
                let is_right = requests > 0 && takes_ns < interval_ns;
                require(is_right, "echo requests: 1 or more, all sent before interval_ns is over")?;
                let (interval, spacing) = (Time::from_ns(interval_ns), Time::from_ns(spacing_ns));
                let sent = 0;
                DatagramSource::Requests(Requests {
                    start,
                    interval,
                    requests,
                    spacing,
                    size,
                    sent,
                })
            }
        })
    }

    /// The packets of a source that has one size and a rate, counted from its start.
    ///
    /// # Errors
    /// [`ApplicationError`] for any other source, and for a value that nothing can have.
    pub fn paced(&self) -> Result<Paced, ApplicationError> {
        Ok(Paced::new(self.rates()?, self.size()?, Time::ZERO))
    }

    fn size(&self) -> Result<u16, ApplicationError> {
        let size = self.packet_bytes();
        match u16::try_from(size) {
            Ok(size @ 1..) => Ok(size),
            _ => Err(format!("packets of {size} bytes: 1 to {} are allowed", u16::MAX).into()),
        }
    }

    fn rates(&self) -> Result<Rates, ApplicationError> {
        match self {
            &Self::Udp { rate_bps, on_ns, off_ns, .. } => {
                let rate = rate(rate_bps, 1)?;
                match (on_ns, off_ns) {
                    (None, None) => Ok(Rates::Constant(rate)),
                    (Some(on @ 1..), Some(off @ 1..)) => {
                        Ok(Rates::OnOff { rate, on: Time::from_ns(on), off: Time::from_ns(off) })
                    }
                    _ => Err("on_ns and off_ns come together, above zero, or not at all".into()),
                }
            }
            Self::UdpRates { changes, bursts: None, .. } => {
                let is_sorted = changes.is_sorted_by_key(|change| change.0);
                require(is_sorted, "the changes are not in order of time")?;
                let change = |&(at, bps): &(u64, u64)| Ok((Time::from_ns(at), rate(bps, 0)?));
                let changes: Result<Vec<_>, ApplicationError> =
                    changes.iter().map(change).collect();
                Ok(Rates::Listed(changes?))
            }
            Self::UdpRates { changes, bursts: Some(bursts), .. } => {
                require(changes.is_empty(), "changes and bursts exclude each other")?;
                let random = MersenneTwister::of_seed(bursts.seed);
                Ok(Rates::Bursts(Box::new(Bursts::new(bursts.law()?, random))))
            }
            Self::Poisson { .. } | Self::Echo { .. } => {
                Err(format!("{} has no rate at which it sends steadily", self.kind()).into())
            }
        }
    }
}

impl BurstConfig {
    fn law(&self) -> Result<BurstLaw, ApplicationError> {
        let is_some = self.interval_ns > 0 && self.mean_ns > 0;
        require(is_some, "interval_ns and mean_ns of bursts are above 0")?;
        require(self.hurst > 0.5 && self.hurst < 1.0, "hurst is above 0.5 and below 1")?;
        Ok(BurstLaw {
            rate: rate(self.rate_bps, 1)?,
            interval_s: Time::from_ns(self.interval_ns).as_s(),
            mean_s: Time::from_ns(self.mean_ns).as_s(),
            hurst: self.hurst,
        })
    }
}

fn rate(bps: u64, least: u64) -> Result<Rate, ApplicationError> {
    if (least..=RATE_MAX).contains(&bps) {
        return Ok(Rate::from_bit_per_s(bps));
    }
    Err(format!("rate_bps = {bps}: {least} to {RATE_MAX} is allowed").into())
}

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
