//! Curvy RED: a probability that is a power of the average queueing delay.
//!
//! RFC 9332 appendix B and 004-spec section 5.2. The Classic delay Q_C is averaged per packet with
//! a gain of 2^-`smoothing`; s = (Q_C - minimum) / range is compared with the largest of several
//! random numbers, as P(s > max of u uniforms) = s^u: 2U of them for a Classic packet, so p_C =
//! s^(2U), U of them against k s for an L4S one. Here both signals act on one queue (the
//! single-queue form of the coupling); [`DualCurvyRedConfig`](crate::DualCurvyRedConfig) has the
//! two queues of the RFC.
//!
//! On a link so slow that two packets take a tenth of the range, nothing is signalled while less
//! than two wait: their own time would be taken for a queue, and drops would leave nothing to send.
//!
//! Departures: the average and the comparison are floats, the RFC's integers shift; the minimum
//! threshold is 0, not the RFC's 500 ms, which no buffer of 250 ms reaches (004-spec section 13.6).
//! From k s = 1 on, packets that are ECN-capable are dropped with p_C as well (section 4.2.3).

use serde::{Deserialize, Serialize};
use weir_units::{Bytes, Rate, Time};

use crate::class::Class;
use crate::dualq::{MTU, PACKETS_LEAST, Verdict, is_almost_last};
use crate::error::{require, require_span};
use crate::ns;
use crate::{
    Amount, Backlog, ClassCounters, DropCause, Dropped, Ecn, L4sClassifier, Limit, Packet,
    QueueDiscipline, QueueError, Random,
};

/// Share of the range that two packets take on a link that is slow for it.
const SLOW_SHARE: f64 = 0.1;

/// Parameters of [`CurvyRed`].
#[derive(Clone, Debug, PartialEq, Deserialize, Serialize)]
#[serde(default, deny_unknown_fields)]
pub struct CurvyRedConfig {
    /// What may wait; 250 ms if absent.
    pub limit: Option<Amount>,
    /// Delay above the minimum at which the Classic probability is 1.
    #[serde(rename = "range_ns", with = "ns")]
    pub range: Time,
    /// Average delay below which nothing is signalled.
    #[serde(rename = "min_threshold_ns", with = "ns")]
    pub min_threshold: Time,
    /// f: the gain of the average is 2^-f.
    pub smoothing: u32,
    /// U.
    pub curviness: u32,
    /// k, between the slopes of the two signals.
    pub coupling_factor: f64,
    /// Which packets get the L4S signal.
    pub classifier: L4sClassifier,
}

impl Default for CurvyRedConfig {
    fn default() -> Self {
        Self {
            limit: None,
            range: Time::from_us(62_500),
            min_threshold: Time::ZERO,
            smoothing: 5,
            curviness: 1,
            coupling_factor: 2.0,
            classifier: L4sClassifier::L4s,
        }
    }
}

impl CurvyRedConfig {
    pub(crate) fn limit(&self) -> Amount {
        self.limit.unwrap_or(Amount::Ns(250_000_000))
    }

    pub(crate) fn build<P: Packet>(
        &self,
        limit: Limit,
        rate: Option<Rate>,
        random: Random,
    ) -> Result<CurvyRed<P>, QueueError> {
        let Self { range, min_threshold, smoothing, curviness, coupling_factor, .. } = *self;
        let curve = Curve::new(range, min_threshold, smoothing, curviness, coupling_factor)?;
        let (class, classifier) = (Class::new("all"), self.classifier);
        Ok(CurvyRed { class, limit, mtu: MTU, classifier, curve: curve.on(rate), random })
    }
}

/// The averaged delay and the two probabilities that follow from it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Curve {
    range_s: f64,
    min_s: f64,
    gain: f64,
    curviness: u32,
    coupling: f64,
    average_s: f64,
    /// Whether the link is so slow that a packet or two are a large part of the range.
    is_slow: bool,
}

impl Curve {
    pub(crate) fn new(
        range: Time,
        min_threshold: Time,
        smoothing: u32,
        curviness: u32,
        coupling: f64,
    ) -> Result<Self, QueueError> {
        require_span("range_ns", range)?;
        require(smoothing <= 30, "smoothing", smoothing, "0 to 30 is allowed")?;
        require((1..=8).contains(&curviness), "curviness", curviness, "1 to 8 is allowed")?;
        let allowed = (0.1..=100.0).contains(&coupling);
        require(allowed, "coupling_factor", coupling, "0.1 to 100 is allowed")?;
        Ok(Self {
            range_s: range.as_s(),
            min_s: min_threshold.as_s(),
            gain: 0.5_f64.powi(smoothing as i32),
            curviness,
            coupling,
            average_s: 0.0,
            is_slow: false,
        })
    }

    /// The curve on a link of `rate`.
    pub(crate) fn on(self, rate: Option<Rate>) -> Self {
        let is_slow = rate.is_some_and(|rate| {
            let two = Bytes::new(PACKETS_LEAST * MTU.count());
            rate.time_for(two).as_s() > SLOW_SHARE * self.range_s
        });
        Self { is_slow, ..self }
    }

    /// Whether a packet gets no signal because so little waits behind it.
    pub(crate) fn spares(&self, is_almost_last: bool) -> bool {
        self.is_slow && is_almost_last
    }

    /// Takes a sample of the Classic delay into the average.
    pub(crate) fn sample(&mut self, delay: Time) {
        self.average_s += self.gain * (delay.as_s() - self.average_s);
    }

    pub(crate) fn average_s(&self) -> f64 {
        self.average_s
    }

    /// s at a delay.
    fn share(&self, delay_s: f64) -> f64 {
        ((delay_s - self.min_s) / self.range_s).clamp(0.0, 1.0)
    }

    /// Whether to signal on a Classic packet.
    pub(crate) fn strikes_classic(&self, random: &mut Random) -> bool {
        self.share(self.average_s) > max_random(2 * self.curviness, random)
    }

    /// Decides on a packet that gets the Classic signal.
    pub(crate) fn classic(&self, ecn: Ecn, random: &mut Random) -> Verdict {
        if !self.strikes_classic(random) {
            Verdict::Send
        } else if ecn == Ecn::NotEct {
            Verdict::Drop(DropCause::Aqm)
        } else if self.is_overloaded() {
            Verdict::Drop(DropCause::Overload)
        } else {
            Verdict::Mark
        }
    }

    /// Whether to mark an L4S packet at a delay.
    pub(crate) fn strikes_l4s(&self, delay_s: f64, random: &mut Random) -> bool {
        self.coupling * self.share(delay_s) > max_random(self.curviness, random)
    }

    /// Whether marks are certain at the average, so that they say nothing any more.
    pub(crate) fn is_overloaded(&self) -> bool {
        self.coupling * self.share(self.average_s) >= 1.0
    }
}

/// The largest of `count` uniform numbers in [0, 1).
fn max_random(count: u32, random: &mut Random) -> f64 {
    (0..count).map(|_| random.unit()).fold(0.0, f64::max)
}

/// Curvy RED on one queue.
#[derive(Debug)]
pub struct CurvyRed<P> {
    class: Class<P>,
    limit: Limit,
    /// The largest packet seen, an Ethernet's at least.
    mtu: Bytes,
    classifier: L4sClassifier,
    curve: Curve,
    random: Random,
}

impl<P: Packet> CurvyRed<P> {
    fn verdict(&mut self, ecn: Ecn) -> Verdict {
        if self.curve.spares(is_almost_last(self.class.backlog(), self.mtu)) {
            return Verdict::Send;
        }
        let (curve, random) = (&self.curve, &mut self.random);
        if !self.classifier.is_l4s(ecn) {
            return curve.classic(ecn, random);
        }
        if curve.is_overloaded() && curve.strikes_classic(random) {
            return Verdict::Drop(DropCause::Overload);
        }
        let struck = curve.strikes_l4s(curve.average_s(), random);
        if struck { Verdict::Mark } else { Verdict::Send }
    }
}

impl<P: Packet> QueueDiscipline<P> for CurvyRed<P> {
    fn enqueue(&mut self, packet: P, now: Time, dropped: &mut Vec<Dropped<P>>) {
        self.mtu = self.mtu.max(packet.size());
        if self.limit.admits(self.class.backlog(), packet.size()) {
            self.class.push(packet, now);
        } else {
            self.class.refuse(packet, DropCause::Overflow, dropped);
        }
    }

    fn dequeue(&mut self, now: Time, dropped: &mut Vec<Dropped<P>>) -> Option<P> {
        while let Some(mut taken) = self.class.pop(now) {
            self.curve.sample(taken.sojourn);
            match self.verdict(taken.packet.ecn()) {
                Verdict::Send => {}
                Verdict::Mark => self.class.mark(&mut taken.packet),
                Verdict::Drop(cause) => {
                    self.class.drop(taken.packet, cause, dropped);
                    continue;
                }
            }
            return Some(self.class.leave(taken));
        }
        None
    }

    fn backlog(&self) -> Backlog {
        self.class.backlog()
    }

    fn classes(&self) -> Vec<&ClassCounters> {
        vec![self.class.counters()]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// 004-spec section 14.1, test 1.
    #[test]
    fn the_largest_of_u_uniforms_is_below_x_with_probability_x_to_the_u() {
        let mut random = Random::of_source(1, &["maxrand"]);
        for count in [1, 2, 4] {
            for x in [0.1_f64, 0.5, 0.9] {
                let draws = 1_000_000;
                let below = (0..draws).filter(|_| x > max_random(count, &mut random)).count();
                let (found, expected) = (below as f64 / f64::from(draws), x.powi(count as i32));
                // Three standard deviations, or 1 %.
                let spread = 3.0 * (expected / f64::from(draws)).sqrt();
                let bound = spread.max(0.01 * expected);
                assert!((found - expected).abs() < bound, "{x}^{count}: {found}");
            }
        }
    }
}
