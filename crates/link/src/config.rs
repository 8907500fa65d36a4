//! A direction of a link as a configuration gives it.

use serde::{Deserialize, Serialize};
use weir_queue::{AnyQueue, DisciplineConfig, Limit, Packet, QueueError, Random};
use weir_units::{Bytes, Rate, Time};

use crate::{Delay, Loss, Pipe};

/// Why a direction cannot be what its configuration says.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{key} = {value}: {reason}")]
pub struct LinkError {
    /// The key, with its place: "queue.limit".
    pub key: String,
    /// What was given.
    pub value: String,
    /// What is wrong with it, or what would be right.
    pub reason: String,
}

impl LinkError {
    pub(crate) fn new(key: &str, value: impl ToString, reason: impl Into<String>) -> Self {
        Self { key: key.to_owned(), value: value.to_string(), reason: reason.into() }
    }
}

/// One direction of a wired link. Keys end in their unit.
#[derive(Clone, Debug, Default, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct DirectionConfig {
    /// What the server sends in a second; nothing for unlimited.
    pub rate_bps: Option<u64>,
    /// One-way propagation delay.
    #[serde(default)]
    pub delay_ns: u64,
    /// Each packet's delay varies uniformly by up to this much either way, in order.
    #[serde(default)]
    pub jitter_ns: u64,
    /// Packets that the line loses, beside those that the queue drops.
    #[serde(default)]
    pub loss: Option<LossConfig>,
    /// What happens before the rate.
    #[serde(default)]
    pub queue: DisciplineConfig,
}

/// A loss model; see [`Loss`] for what the letters mean.
#[derive(Clone, Copy, Debug, Deserialize, Serialize)]
#[serde(tag = "model", rename_all = "kebab-case", deny_unknown_fields)]
#[expect(missing_docs, reason = "the letters are those of Loss")]
pub enum LossConfig {
    /// [`Loss::Bernoulli`].
    Bernoulli { probability: f64 },
    /// [`Loss::GilbertElliott`].
    GilbertElliott { p: f64, r: f64, h: f64, k: f64 },
}

impl DirectionConfig {
    /// The rate, if it is limited.
    pub fn rate(&self) -> Option<Rate> {
        self.rate_bps.map(Rate::from_bit_per_s)
    }

    /// The direction, empty. `random` gives the generator of the source of that name; `mtu` is the
    /// largest packet, which the queue must be able to hold.
    ///
    /// # Errors
    /// [`LinkError`], which names the key.
    pub fn build<P: Packet + Send + 'static>(
        &self,
        mtu: Bytes,
        random: impl Fn(&str) -> Random,
    ) -> Result<Pipe<P>, LinkError> {
        let rate = self.some_rate()?;
        let (delay, jitter) = (Time::from_ns(self.delay_ns), Time::from_ns(self.jitter_ns));
        let delay = Delay::new(delay, jitter, random("jitter"));
        Ok(Pipe::new(self.build_loss(&random)?, self.build_queue(mtu, &random)?, rate, delay))
    }

    /// The rate, if it is limited, and then above zero.
    pub(crate) fn some_rate(&self) -> Result<Option<Rate>, LinkError> {
        if self.rate_bps == Some(0) {
            return Err(LinkError::new("rate_bps", 0, "a link of rate 0 carries nothing"));
        }
        Ok(self.rate())
    }

    pub(crate) fn build_loss(&self, random: &impl Fn(&str) -> Random) -> Result<Loss, LinkError> {
        self.loss.map_or(Ok(Loss::None), |loss| loss.build(random("loss")))
    }

    pub(crate) fn build_queue<P: Packet + Send + 'static>(
        &self,
        mtu: Bytes,
        random: &impl Fn(&str) -> Random,
    ) -> Result<AnyQueue<P>, LinkError> {
        let queue =
            self.queue.build(self.rate(), random("queue")).map_err(|error| match error {
                QueueError::Domain { key, value, reason } => {
                    LinkError::new(&format!("queue.{key}"), value, reason)
                }
                other => LinkError::new("queue", "", other.to_string()),
            })?;
        self.require_room(mtu)?;
        Ok(queue)
    }

    fn require_room(&self, mtu: Bytes) -> Result<(), LinkError> {
        let limit = self.queue.limit(self.rate());
        let classes = self.queue.split();
        let (is_too_small, shown) = match (limit, limit.split(classes)) {
            (Limit::Bytes(all), Limit::Bytes(each)) => {
                (each < mtu, format!("{} bytes", all.count()))
            }
            (Limit::Packets(all), Limit::Packets(each)) => (each == 0, format!("{all} packets")),
            _ => (false, String::new()),
        };
        if !is_too_small {
            return Ok(());
        }
        let each = match classes {
            1 => String::new(),
            2 => " in each of the two classes".to_owned(),
            n => format!(" in each of the {n} classes"),
        };
        let reason = format!("does not hold one packet of {} bytes{each}", mtu.count());
        Err(LinkError::new("queue.limit", shown, reason))
    }
}

impl LossConfig {
    fn build(self, random: Random) -> Result<Loss, LinkError> {
        let probability = |key: &str, value: f64| {
            let is_one = (0.0..=1.0).contains(&value);
            let error = || LinkError::new(key, value, "a probability is from 0 to 1");
            is_one.then_some(value).ok_or_else(error)
        };
        Ok(match self {
            Self::Bernoulli { probability: p } => {
                Loss::Bernoulli { probability: probability("loss.probability", p)?, random }
            }
            Self::GilbertElliott { p, r, h, k } => Loss::GilbertElliott {
                p: probability("loss.p", p)?,
                r: probability("loss.r", r)?,
                h: probability("loss.h", h)?,
                k: probability("loss.k", k)?,
                bad: false,
                random,
            },
        })
    }
}
