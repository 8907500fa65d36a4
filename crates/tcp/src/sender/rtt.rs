//! The round-trip time and the retransmission timeout (RFC 6298).

use weir_units::Time;

use crate::config::{Rto, RtoRule};

/// Doublings after which the timeout is at its ceiling anyway.
const BACKOFF_MAX: u32 = 16;

/// Nanoseconds throughout.
#[derive(Debug)]
pub(crate) struct RttEstimator {
    config: Rto,
    srtt: u64,
    /// Four deviations, as it enters the timeout.
    variance: u64,
    /// Linux: the deviation smoothed, times four, and its maximum in this round trip.
    deviation: u64,
    deviation_max: u64,
    /// Linux: the round trip ends when this is acknowledged.
    round_end: u64,
    latest: u64,
    min: u64,
    backoff: u32,
}

impl RttEstimator {
    pub(crate) fn new(config: Rto) -> Self {
        Self {
            config,
            srtt: 0,
            variance: 0,
            deviation: 0,
            deviation_max: 0,
            round_end: 0,
            latest: 0,
            min: u64::MAX,
            backoff: 0,
        }
    }

    /// A round trip took `rtt`. `una` is acknowledged now and `nxt` will be sent next: they bound
    /// the rounds of the Linux rule.
    pub(crate) fn sample(&mut self, rtt: Time, una: u64, nxt: u64) {
        let rtt = rtt.as_ns().max(1);
        self.backoff = 0;
        if self.srtt == 0 {
            self.srtt = rtt;
            self.deviation = 2 * rtt;
            self.variance = match self.config.rule {
                RtoRule::Linux => self.deviation.max(self.config.min.as_ns()),
                RtoRule::LinuxFloor | RtoRule::Rfc6298 => self.deviation,
            };
            self.deviation_max = self.variance;
            self.round_end = nxt;
            return;
        }
        let error = rtt.abs_diff(self.srtt);
        match self.config.rule {
            RtoRule::Linux => self.linux_deviation(error, rtt < self.srtt, una, nxt),
            RtoRule::LinuxFloor | RtoRule::Rfc6298 => {
                self.variance = self.variance - self.variance / 4 + error;
            }
        }
        self.srtt = self.srtt - self.srtt / 8 + rtt / 8;
    }

    /// RTTVAR follows the largest deviation of a round trip at once and falls by a quarter of the
    /// difference per round trip; of a sample below SRTT, what exceeds the deviation counts an
    /// eighth, so that a falling RTT does not raise the timeout.
    fn linux_deviation(&mut self, error: u64, falls: bool, una: u64, nxt: u64) {
        let quarter = self.deviation / 4;
        if error > quarter {
            let rise = error - quarter;
            self.deviation += if falls { rise / 8 } else { rise };
        } else {
            self.deviation -= quarter - error;
        }
        if self.deviation > self.deviation_max {
            self.deviation_max = self.deviation;
            self.variance = self.variance.max(self.deviation_max);
        }
        if una > self.round_end {
            if self.deviation_max < self.variance {
                self.variance -= (self.variance - self.deviation_max) / 4;
            }
            self.round_end = nxt;
            self.deviation_max = self.config.min.as_ns();
        }
    }

    /// A sample that is good enough for the least and the latest round-trip time.
    pub(crate) fn observe(&mut self, rtt: Time) {
        self.latest = rtt.as_ns().max(1);
        self.min = self.min.min(self.latest);
    }

    /// The timeout doubles until the next sample.
    pub(crate) fn back_off(&mut self) {
        self.backoff = (self.backoff + 1).min(BACKOFF_MAX);
    }

    pub(crate) fn has_sample(&self) -> bool {
        self.srtt != 0
    }

    pub(crate) fn srtt(&self) -> Time {
        Time::from_ns(self.srtt)
    }

    pub(crate) fn latest(&self) -> Time {
        Time::from_ns(self.latest)
    }

    /// The least round-trip time, zero before the first.
    pub(crate) fn min(&self) -> Time {
        Time::from_ns(if self.min == u64::MAX { 0 } else { self.min })
    }

    /// The timeout in force.
    pub(crate) fn rto(&self) -> Time {
        let (min, max) = (self.config.min.as_ns(), self.config.max.as_ns());
        let base = if self.srtt == 0 {
            self.config.initial.as_ns()
        } else {
            match self.config.rule {
                RtoRule::Linux | RtoRule::LinuxFloor => self.srtt + self.variance.max(min),
                RtoRule::Rfc6298 => (self.srtt + self.variance).max(min),
            }
        };
        Time::from_ns(base.saturating_mul(1 << self.backoff).clamp(1, max.max(1)))
    }
}
