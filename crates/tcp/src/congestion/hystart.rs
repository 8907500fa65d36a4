//! When slow start should end before something is lost: Linux's HyStart and HyStart++.

use weir_units::Time;

use super::AckSample;
use super::window::Window;

/// Round-trip samples that a round needs before its least one counts (both variants).
const SAMPLES: u32 = 8;

/// Which way out of slow start is looked for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Hystart {
    /// Linux's: the acknowledgements of a round form a train as long as half the path, or the
    /// delay has risen (Ha and Rhee, "Taming the elephants", Computer Networks 2011).
    #[default]
    Linux,
    /// RFC 9406: a rise in delay leads to conservative slow start, whose end depends on whether
    /// the delay falls again.
    PlusPlus,
    /// None: slow start ends with a loss or a mark.
    Off,
}

/// The rise of delay that counts: an eighth of the least delay, within 4 and 16 ms (Linux's
/// `HYSTART_DELAY_THRESH`, RFC 9406 section 4.2).
fn rise(delay: Time) -> Time {
    Time::from_ns(delay.as_ns() / 8).clamp(Time::from_ms(4), Time::from_ms(16))
}

/// Linux's HyStart, both detectors, thresholds as of kernel 6.x with pacing off.
#[derive(Debug, Default)]
pub(super) struct Train {
    found: bool,
    round_until: u64,
    round_start: Time,
    last_ack: Time,
    round_least: Option<Time>,
    samples: u32,
}

impl Train {
    const LOW_WINDOW: u64 = 16;
    const SPACING: Time = Time::from_ms(2);
    /// Four times the largest burst that segmentation offload makes.
    const BURSTS: u64 = 4 * 65_536;

    fn start_round(&mut self, sample: &AckSample) {
        self.round_until = sample.delivered;
        self.round_start = sample.now;
        self.last_ack = sample.now;
        self.round_least = None;
        self.samples = 0;
    }

    /// Ends slow start by setting the threshold to the window, if it is time. `least` is the
    /// least delay seen.
    pub(super) fn observe(&mut self, window: &mut Window, sample: &AckSample, least: Time) {
        let Some(rtt) = sample.rtt else { return };
        if self.found || !window.in_slow_start() {
            return;
        }
        if sample.prior_delivered >= self.round_until {
            self.start_round(sample);
        }
        if window.segments() < Self::LOW_WINDOW {
            return;
        }
        let mut found = false;
        if sample.now.saturating_sub(self.last_ack) <= Self::SPACING {
            self.last_ack = sample.now;
            let length = sample.now.saturating_sub(self.round_start);
            found = length.as_ns() > least.saturating_add(Self::burst(window, sample)).as_ns() / 2;
        }
        self.round_least = Some(self.round_least.map_or(rtt, |least| least.min(rtt)));
        if self.samples < SAMPLES {
            self.samples += 1;
        } else if self.round_least > Some(least.saturating_add(rise(least))) {
            found = true;
        }
        if found {
            self.found = true;
            window.set_threshold(window.segments());
        }
    }

    /// How long bursts keep acknowledgements apart at twice the window per round trip, at most
    /// 1 ms (`hystart_ack_delay`).
    fn burst(window: &Window, sample: &AckSample) -> Time {
        let time = u128::from(Self::BURSTS) * u128::from(sample.srtt.as_ns())
            / u128::from(2 * window.bytes());
        Time::from_ns(time.min(1_000_000) as u64)
    }

    /// After a timeout slow start begins afresh.
    pub(super) fn reset(&mut self) {
        *self = Self::default();
    }
}

/// HyStart++ (RFC 9406), for the first slow start only, as section 4.3 recommends.
#[derive(Debug, Default)]
pub(super) struct Conservative {
    round_until: u64,
    last_least: Option<Time>,
    least: Option<Time>,
    samples: u32,
    /// While in conservative slow start: its baseline and the rounds it has lasted.
    cautious: Option<(Time, u32)>,
    /// Segments acknowledged in conservative slow start that have not opened the window.
    credit: u64,
    over: bool,
}

impl Conservative {
    /// `CSS_GROWTH_DIVISOR`.
    const DIVISOR: u64 = 4;
    /// `CSS_ROUNDS`.
    const ROUNDS: u32 = 5;
    /// `L`: most segments that one acknowledgement may open the window by, without pacing.
    const BURST: u64 = 8;

    pub(super) fn observe(&mut self, window: &mut Window, sample: &AckSample) {
        if self.over || !window.in_slow_start() {
            return;
        }
        if let Some(rtt) = sample.rtt {
            self.least = Some(self.least.map_or(rtt, |least| least.min(rtt)));
            self.samples = self.samples.saturating_add(1);
        }
        self.judge();
        if sample.prior_delivered >= self.round_until {
            self.end_round(window, sample.delivered);
        }
    }

    /// Enters or leaves conservative slow start.
    fn judge(&mut self) {
        let Some(least) = self.least else { return };
        if self.samples < SAMPLES {
            return;
        }
        match (self.cautious, self.last_least) {
            (Some((baseline, _)), _) if least < baseline => self.cautious = None,
            (None, Some(last)) if least >= last.saturating_add(rise(last)) => {
                self.cautious = Some((least, 0));
            }
            _ => {}
        }
    }

    fn end_round(&mut self, window: &mut Window, delivered: u64) {
        self.round_until = delivered;
        self.last_least = self.least.or(self.last_least);
        self.least = None;
        self.samples = 0;
        if let Some((_, rounds)) = &mut self.cautious {
            *rounds += 1;
            if *rounds >= Self::ROUNDS {
                self.over = true;
                window.set_threshold(window.segments());
            }
        }
    }

    /// How many of `acked` segments may open the window.
    pub(super) fn allowed(&mut self, acked: u64) -> u64 {
        if self.over {
            return acked;
        }
        let acked = acked.min(Self::BURST);
        if self.cautious.is_none() {
            return acked;
        }
        self.credit += acked;
        let opened = self.credit / Self::DIVISOR;
        self.credit %= Self::DIVISOR;
        opened
    }

    /// The first slow start is over.
    pub(super) fn end(&mut self) {
        self.over = true;
    }
}
