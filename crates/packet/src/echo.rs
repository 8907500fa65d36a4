//! What echo requests found: round-trip times, sample by sample, as a prober with `ping` sees them.

use weir_units::Time;

/// The replies to the requests of one sample.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Sample {
    pub(crate) replies: u64,
    pub(crate) rtt_sum_ns: u64,
}

/// All samples of a traffic, by when their requests were sent.
#[derive(Clone, Debug)]
pub(crate) struct Echoes {
    start: Time,
    interval: Time,
    samples: Vec<Sample>,
}

impl Echoes {
    pub(crate) fn new(start: Time, interval: Time) -> Self {
        Self { start, interval, samples: Vec::new() }
    }

    /// A request leaves now: its sample is there even if nothing comes back.
    pub(crate) fn on_request(&mut self, now: Time) {
        let count = self.number(now) + 1;
        self.samples.resize(count.max(self.samples.len()), Sample::default());
    }

    /// What was sent at `sent` is back.
    pub(crate) fn on_reply(&mut self, sent: Time, now: Time) {
        let number = self.number(sent);
        if let Some(sample) = self.samples.get_mut(number) {
            sample.replies += 1;
            sample.rtt_sum_ns += (now - sent).as_ns();
        }
    }

    pub(crate) fn samples(&self) -> &[Sample] {
        &self.samples
    }

    fn number(&self, sent: Time) -> usize {
        ((sent - self.start).as_ns() / self.interval.as_ns()) as usize
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sample_without_replies_keeps_its_place() {
        let mut echoes = Echoes::new(Time::ZERO, Time::from_ms(10));
        for at in [0, 1, 10, 20] {
            echoes.on_request(Time::from_ms(at));
        }
        echoes.on_reply(Time::ZERO, Time::from_ms(4));
        echoes.on_reply(Time::from_ms(1), Time::from_ms(7));
        echoes.on_reply(Time::from_ms(20), Time::from_ms(33));
        let found: Vec<_> = echoes.samples().iter().map(|s| (s.replies, s.rtt_sum_ns)).collect();
        assert_eq!(found, [(2, 10_000_000), (0, 0), (1, 13_000_000)]);
    }
}
