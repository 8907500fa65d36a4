//! Echo requests, as a prober with `ping` sends them.

use weir_units::Time;

/// Times of requests, of which so many leave together every interval.
#[derive(Clone, Debug)]
pub struct Requests {
    pub(super) start: Time,
    pub(super) interval: Time,
    /// Requests of one sample.
    pub(super) requests: u32,
    pub(super) spacing: Time,
    /// Size of the IP packet.
    pub(super) size: u16,
    pub(super) sent: u64,
}

impl Iterator for Requests {
    type Item = Time;

    /// When the next one leaves.
    fn next(&mut self) -> Option<Time> {
        let (sample, request) =
            (self.sent / u64::from(self.requests), self.sent % u64::from(self.requests));
        self.sent += 1;
        let offset = self.interval.as_ns().saturating_mul(sample)
            + self.spacing.as_ns().saturating_mul(request);
        Some(self.start.saturating_add(Time::from_ns(offset)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn samples_are_a_strict_period_apart_and_their_requests_a_spacing() {
        let requests = Requests {
            start: Time::from_ms(5),
            interval: Time::from_ms(100),
            requests: 3,
            spacing: Time::from_ms(1),
            size: 84,
            sent: 0,
        };
        let due: Vec<u64> = requests.take(7).map(|at| at.as_ns() / 1_000_000).collect();
        assert_eq!(due, [5, 6, 7, 105, 106, 107, 205]);
    }
}
