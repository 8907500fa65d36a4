//! Every discipline by name: what a configuration file or a link's JSON says, and its making.

use serde::{Deserialize, Serialize};
use weir_units::{Bytes, Rate};

use crate::{
    AnyQueue, AredConfig, CodelConfig, CurvyRedConfig, DrrConfig, Dscp, DualCurvyRedConfig,
    DualPi2Config, Ecn, Fifo, FifoConfig, FqCodelConfig, Limit, Packet, PhantomConfig, PieConfig,
    PriorityConfig, QueueError, Random, RedConfig, TokenBucketConfig, WfqConfig, WrrConfig,
};

/// A discipline and its parameters: `{"discipline": "fifo", "limit": {"packets": 1000}}`. What is
/// not given has the default of the discipline's source.
#[derive(Clone, Debug, PartialEq, Deserialize, Serialize)]
#[serde(tag = "discipline", rename_all = "kebab-case", deny_unknown_fields)]
pub enum DisciplineConfig {
    /// First in, first out.
    Fifo(FifoConfig),
    /// Strict priority.
    Priority(PriorityConfig),
    /// Weighted round robin.
    Wrr(WrrConfig),
    /// Deficit round robin.
    Drr(DrrConfig),
    /// Weighted fair queueing.
    Wfq(WfqConfig),
    /// Random early detection.
    Red(RedConfig),
    /// Adaptive RED.
    Ared(AredConfig),
    /// Proportional integral controller enhanced.
    Pie(PieConfig),
    /// Controlled delay.
    Codel(CodelConfig),
    /// Flow queueing with CoDel.
    FqCodel(FqCodelConfig),
    /// Curvy RED on one queue.
    CurvyRed(CurvyRedConfig),
    /// Dual-queue coupled AQM with PI2.
    #[serde(rename = "dual-pi2")]
    DualPi2(DualPi2Config),
    /// Dual-queue coupled AQM with Curvy RED.
    DualCurvyRed(DualCurvyRedConfig),
    /// Token-bucket shaper.
    TokenBucket(TokenBucketConfig),
    /// Token-bucket policer.
    Policer(TokenBucketConfig),
    /// FIFO that marks by a phantom queue.
    Phantom(PhantomConfig),
}

impl Default for DisciplineConfig {
    fn default() -> Self {
        Self::Fifo(FifoConfig::default())
    }
}

impl DisciplineConfig {
    /// Makes the discipline for a link of `rate` (`None`: unlimited).
    ///
    /// # Errors
    /// [`QueueError`], which names the key whose value cannot be right.
    pub fn build<P: Packet + Send + 'static>(
        &self,
        rate: Option<Rate>,
        random: Random,
    ) -> Result<AnyQueue<P>, QueueError> {
        let limit = self.limit(rate);
        Ok(match self {
            Self::Fifo(_) => AnyQueue::Fifo(Fifo::new(limit)),
            Self::Priority(config) => AnyQueue::other(config.build(limit)?),
            Self::Wrr(config) => AnyQueue::other(config.build(limit)?),
            Self::Drr(config) => AnyQueue::other(config.build(limit)?),
            Self::Wfq(config) => AnyQueue::other(config.build(limit)?),
            Self::Red(config) => AnyQueue::other(config.build(rate, random)?),
            Self::Ared(config) => AnyQueue::other(config.build(rate, random)?),
            Self::Pie(config) => AnyQueue::other(config.build(limit, random)?),
            Self::Codel(config) => AnyQueue::other(config.build(limit)?),
            Self::FqCodel(config) => AnyQueue::other(config.build(limit, random)?),
            Self::CurvyRed(config) => AnyQueue::other(config.build(limit, rate, random)?),
            Self::DualPi2(config) => AnyQueue::other(config.build(limit, random)?),
            Self::DualCurvyRed(config) => AnyQueue::other(config.build(limit, rate, random)?),
            Self::TokenBucket(config) => AnyQueue::other(config.shaper(limit)?),
            Self::Policer(config) => AnyQueue::other(config.policer(limit)?),
            Self::Phantom(config) => AnyQueue::other(config.build(rate)?),
        })
    }

    /// Whether [`build`](Self::build) would succeed on a link of `rate`.
    ///
    /// # Errors
    /// As `build`.
    pub fn check(&self, rate: Option<Rate>) -> Result<(), QueueError> {
        self.build::<Nothing>(rate, Random::of_source(0, &[])).map(|_| ())
    }

    /// What may wait in all classes together.
    pub fn limit(&self, rate: Option<Rate>) -> Limit {
        let amount = match self {
            Self::Fifo(config) => config.limit,
            Self::Priority(config) => config.limit,
            Self::Wrr(config) => config.limit,
            Self::Drr(config) => config.limit,
            Self::Wfq(config) => config.limit,
            Self::Red(config) => Some(config.limit()),
            Self::Ared(config) => Some(config.limit(rate)),
            Self::Pie(config) => Some(config.limit()),
            Self::Codel(config) => Some(config.limit()),
            Self::FqCodel(config) => Some(config.limit()),
            Self::CurvyRed(config) => Some(config.limit()),
            Self::DualPi2(config) => Some(config.limit()),
            Self::DualCurvyRed(config) => Some(config.limit()),
            Self::TokenBucket(config) | Self::Policer(config) => config.limit,
            Self::Phantom(config) => config.limit,
        };
        amount.map_or(Limit::None, |amount| amount.limit(rate))
    }

    /// Into how many equal parts, one for each class, the limit is split.
    pub fn split(&self) -> u64 {
        let classes = match self {
            Self::Priority(config) => config.classes.len(),
            Self::Wrr(config) => config.classes.len(),
            Self::Drr(config) => config.classes.len(),
            Self::Wfq(config) => config.classes.len(),
            _ => 1,
        };
        classes.max(1) as u64
    }
}

/// A packet that is never sent.
struct Nothing;

impl Packet for Nothing {
    fn size(&self) -> Bytes {
        Bytes::ZERO
    }
    fn ecn(&self) -> Ecn {
        Ecn::NotEct
    }
    fn mark_ce(&mut self) {}
    fn dscp(&self) -> Dscp {
        Dscp::CS0
    }
    fn flow_hash(&self) -> u32 {
        0
    }
}
