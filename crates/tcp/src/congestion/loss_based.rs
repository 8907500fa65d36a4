//! What all controls share that fill the queue until something is lost or marked: slow start,
//! the states of Linux's `tcp_input.c`, undoing, ABE (RFC 8511) and the restart after idleness.

use weir_units::{Bytes, Rate, Time};

use super::window::Window;
use super::{AckSample, CongestionControl, EcnUse, Signal};

/// Smallest window after a reduction, in segments (RFC 5681 equation 4).
pub(super) const LEAST_THRESHOLD: u64 = 2;

/// What Linux adds to the smoothed round-trip time where its variation is small; the mean
/// deviation is not told to a control, so this stands for it everywhere.
const RTO_MARGIN: Time = Time::from_ms(200);
/// Retransmission timeout before any round-trip time is known (RFC 6298 section 2.1).
const RTO_INITIAL: Time = Time::from_ms(1_000);

/// What one control decides by itself.
pub(super) trait Law: std::fmt::Debug + Send {
    /// The name that the kernel has for it.
    const NAME: &'static str;

    /// Whether it paces: then the pace, too, may be what holds the sender back.
    const PACES: bool = false;

    /// Sees every acknowledgement, whatever the state. If the marks it counted ask for a reduction
    /// now: the `delivered` that ends the round trip of that reduction.
    fn observe(&mut self, _window: &mut Window, _sample: &AckSample) -> Option<u64> {
        None
    }

    /// Slow start by `acked` segments; gives back those it did not use.
    fn slow_start(&mut self, window: &mut Window, acked: u64) -> u64 {
        window.slow_start(acked)
    }

    /// Congestion avoidance over `acked` segments.
    fn avoid(&mut self, window: &mut Window, sample: &AckSample, acked: u64);

    /// The window goes down: sets the threshold and the window to where they should be (after a
    /// timeout the window falls further).
    fn reduce(&mut self, window: &mut Window, signal: Signal, now: Time);

    /// The window falls because of a classic echo, not because of marks it counted.
    fn on_echo(&mut self) {}

    /// Everything in flight was lost.
    fn forget(&mut self) {}

    /// Nothing was in flight for `idle`.
    fn after_idle(&mut self, _now: Time, _idle: Time) {}

    /// Whether the window also grows during the round trip after a mark.
    fn grows_in_cwr(&self) -> bool {
        false
    }

    /// Whether a loss makes the window fall although a mark just did.
    fn falls_again(&self) -> bool {
        false
    }

    /// Whether what was acknowledged towards the next segment outlives the reduction on `signal`:
    /// not in Linux (`tcp_init_cwnd_reduction`), nor where half of what is in flight is kept (RFC
    /// 5681 section 3.1), but where a part of the window is taken and windows have a fraction.
    fn keeps_credit(&self, _signal: Signal) -> bool {
        false
    }

    /// The rate at which it paces `window`, if it does.
    fn pacing_rate(&self, _window: &Window) -> Option<Rate> {
        None
    }

    /// The codepoint it insists on, if any.
    fn ecn(&self) -> Option<EcnUse> {
        None
    }

    /// Whether what is sent again carries that codepoint.
    fn retransmits_ecn_capable(&self) -> bool {
        false
    }
}

/// What happens to a window that was not used.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Validation {
    /// RFC 2861, Linux's default: halved for every retransmission timeout of idleness down to the
    /// initial window, and moved towards what was used after one of limited use.
    #[default]
    Rfc2861,
    /// RFC 5681 section 4.1: the initial window after a retransmission timeout of idleness.
    Rfc5681,
    /// RFC 7661 (new-CWV): see `validated.rs`.
    Rfc7661,
    /// Kept for ever (Linux with `tcp_slow_start_after_idle` 0).
    None,
}

/// Where the repair of a loss stands, as far as growth is concerned.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Open,
    /// Fast recovery: no growth until it is over.
    Recovery,
    /// After a timeout: slow start goes on while the losses are repaired.
    Loss,
}

/// How a [`LossBased`] control deviates from its law alone.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Common {
    /// ABE: what is kept of the window after a mark, in thousandths.
    pub(super) ecn_kept: Option<u16>,
    /// Whether data is sent ECN-capable.
    pub(super) ecn: bool,
    pub(super) validation: Validation,
}

/// A control that grows by `L` and falls on losses and marks.
#[derive(Debug)]
pub(super) struct LossBased<L> {
    window: Window,
    law: L,
    common: Common,
    state: State,
    initial_segments: u64,
    /// Window in segments and threshold before the last reduction.
    before: Option<(u64, u64)>,
    /// While a reduction by a mark is under way: the `delivered` that ends that round trip.
    cwr_until: Option<u64>,
    delivered: u64,
    /// The most in flight in this round trip and where it ends, in `delivered`.
    most_in_flight: u64,
    round_until: u64,
    rto: Time,
    /// When the window was last what held the sender back, and the most in flight since.
    limited_at: Time,
    used: u64,
    sent_at: Option<Time>,
}

impl<L: Law> LossBased<L> {
    pub(super) fn new(mss: u32, initial_window: u64, now: Time, law: L, common: Common) -> Self {
        let window = Window::new(mss, initial_window);
        Self {
            initial_segments: window.segments(),
            window,
            law,
            common,
            state: State::Open,
            before: None,
            cwr_until: None,
            delivered: 0,
            most_in_flight: 0,
            round_until: 0,
            rto: RTO_INITIAL,
            limited_at: now,
            used: 0,
            sent_at: None,
        }
    }

    /// Notes what the acknowledgement says about rounds and about how the window is used.
    fn take_note(&mut self, sample: &AckSample) {
        self.delivered = sample.delivered;
        if self.cwr_until.is_some_and(|end| sample.prior_delivered >= end) {
            self.cwr_until = None;
        }
        if sample.prior_delivered >= self.round_until {
            self.round_until = sample.delivered;
            self.most_in_flight = 0;
        }
        self.most_in_flight = self.most_in_flight.max(sample.prior_in_flight);
        if sample.srtt > Time::ZERO {
            self.rto = sample.srtt.saturating_add(RTO_MARGIN);
        }
        if !sample.in_recovery {
            self.state = State::Open;
        }
    }

    /// Whether the window is what holds the sender back. Slow start may reach twice what was in
    /// flight, so that a window which a burst did not fill can still carry the next one (Linux's
    /// `tcp_is_cwnd_limited`).
    fn is_limited(&self, sample: &AckSample) -> bool {
        let generous = self.window.in_slow_start()
            && self.window.bytes() < self.most_in_flight.saturating_mul(2);
        sample.is_cwnd_limited || generous || (L::PACES && !sample.is_app_limited)
    }

    /// RFC 2861 section 3.2: after a timeout's worth of limited use, half way to what was used.
    fn validate(&mut self, sample: &AckSample) {
        if sample.is_cwnd_limited {
            self.limited_at = sample.now;
            self.used = 0;
            return;
        }
        self.used = self.used.max(sample.prior_in_flight / self.window.mss());
        let since = sample.now.saturating_sub(self.limited_at);
        if since < self.rto || self.state != State::Open || self.cwr_until.is_some() {
            return;
        }
        let used = self.used.max(self.initial_segments);
        if used < self.window.segments() {
            self.window.set_threshold(self.window.current_threshold());
            self.window.set_segments(u64::midpoint(self.window.segments(), used));
        }
        self.limited_at = sample.now;
        self.used = 0;
    }

    fn reduce(&mut self, signal: Signal, now: Time) {
        let before = (self.window.segments(), self.window.threshold());
        self.before = Some(before);
        self.law.reduce(&mut self.window, signal, now);
        if !self.law.keeps_credit(signal) {
            self.window.forget_credit();
        }
        // RFC 8511 section 4: the milder multiplier holds in congestion avoidance only.
        if let (Signal::Ecn, Some(kept)) = (signal, self.common.ecn_kept)
            && before.0 > before.1
        {
            let kept = (before.0 * u64::from(kept) / 1_000).max(LEAST_THRESHOLD);
            self.window.set_threshold(kept);
            self.window.set_segments(kept);
        }
    }

    fn in_cwr(&self) -> bool {
        self.cwr_until.is_some()
    }

    /// Reduces for a mark, unless a reduction is under way that lasts until `delivered` has come
    /// to a given value: once per round trip.
    fn on_mark(&mut self, now: Time, until: u64) {
        if self.state == State::Open && !self.in_cwr() {
            self.reduce(Signal::Ecn, now);
            self.cwr_until = Some(until);
        }
    }

    fn on_timeout(&mut self, now: Time) {
        // A timeout during a repair belongs to the same congestion: the threshold stands.
        if self.state == State::Open {
            self.reduce(Signal::Timeout, now);
        }
        self.state = State::Loss;
        self.cwr_until = None;
        self.law.forget();
        self.window.forget_credit();
        self.window.set_segments(1);
    }
}

impl<L: Law> CongestionControl for LossBased<L> {
    fn name(&self) -> &'static str {
        L::NAME
    }

    fn on_send(&mut self, now: Time, _size: Bytes, in_flight: u64) {
        // After a timeout nothing counts as in flight either, but that does not make it idle.
        if in_flight == 0
            && self.state != State::Loss
            && let Some(sent) = self.sent_at
        {
            self.law.after_idle(now, now.saturating_sub(sent));
        }
        self.sent_at = Some(now);
    }

    fn on_ack(&mut self, sample: &AckSample) {
        self.take_note(sample);
        if let Some(until) = self.law.observe(&mut self.window, sample) {
            self.on_mark(sample.now, until);
        }
        let acked = self.window.whole_segments(sample.acked);
        if self.common.validation == Validation::Rfc2861 {
            self.validate(sample);
        }
        let held = self.state == State::Recovery || (self.in_cwr() && !self.law.grows_in_cwr());
        if held || !sample.advances || !self.is_limited(sample) {
            return;
        }
        let left = if self.window.in_slow_start() {
            self.law.slow_start(&mut self.window, acked)
        } else {
            acked
        };
        if left > 0 && !self.window.in_slow_start() {
            self.law.avoid(&mut self.window, sample, left);
        }
    }

    fn on_congestion(&mut self, signal: Signal, now: Time, _in_flight: u64) {
        match signal {
            Signal::Loss => {
                // Linux goes from CWR to recovery without reducing again.
                if !self.in_cwr() || self.law.falls_again() {
                    self.reduce(signal, now);
                }
                self.cwr_until = None;
                self.state = State::Recovery;
            }
            Signal::Ecn => {
                self.law.on_echo();
                // Only what is sent from now on is sent at the new window.
                self.on_mark(now, self.delivered.saturating_add(1));
            }
            Signal::Timeout => self.on_timeout(now),
        }
    }

    fn on_recovery_exit(&mut self, _now: Time) {
        self.state = State::Open;
    }

    fn on_spurious(&mut self, _now: Time) {
        if let Some((segments, threshold)) = self.before.take() {
            self.window.set_segments(segments.max(self.window.segments()));
            self.window.set_threshold(threshold.max(self.window.threshold()));
        }
        self.state = State::Open;
        self.cwr_until = None;
    }

    fn on_restart(&mut self, now: Time, idle: Time) {
        self.limited_at = now;
        self.used = 0;
        if idle <= self.rto {
            return;
        }
        let segments = self.window.segments();
        let least = self.initial_segments.min(segments);
        match self.common.validation {
            Validation::Rfc2861 => {
                let timeouts = (idle.as_ns() - 1) / self.rto.as_ns().max(1);
                let halved = segments >> timeouts.min(63);
                self.window.set_threshold(self.window.current_threshold());
                self.window.set_segments(halved.max(least));
            }
            Validation::Rfc5681 => self.window.set_segments(least),
            Validation::Rfc7661 | Validation::None => {}
        }
    }

    fn window(&self) -> u64 {
        self.window.bytes()
    }

    fn slow_start_threshold(&self) -> u64 {
        self.window.threshold_bytes()
    }

    fn set_window(&mut self, window: u64, slow_start_threshold: u64) {
        self.window.set_bytes(window);
        self.window.set_threshold_bytes(slow_start_threshold);
    }

    fn pacing_rate(&self) -> Option<Rate> {
        self.law.pacing_rate(&self.window)
    }

    fn retransmits_ecn_capable(&self) -> bool {
        self.law.retransmits_ecn_capable()
    }

    fn ecn(&self) -> EcnUse {
        let classic = self.common.ecn || self.common.ecn_kept.is_some();
        self.law.ecn().unwrap_or(if classic { EcnUse::Classic } else { EcnUse::None })
    }
}

#[cfg(test)]
mod tests {
    use super::super::DctcpOptions;
    use super::super::dctcp::{Dctcp, DctcpLoss};
    use super::super::reno::Reno;
    use super::*;

    /// One whole segment acknowledged by a window that is full.
    fn acknowledged(delivered: u64) -> AckSample {
        AckSample {
            now: Time::from_ms(delivered / 1_448),
            acked: 1_448,
            lost: 0,
            marked: 0,
            rtt: None,
            srtt: Time::from_ms(10),
            min_rtt: Time::from_ms(10),
            prior_in_flight: 14_480,
            in_flight: 13_032,
            delivered,
            prior_delivered: delivered.saturating_sub(14_480),
            delivery_rate: None,
            is_app_limited: false,
            advances: true,
            is_cwnd_limited: true,
            in_recovery: false,
        }
    }

    /// How many segments open a window that was halved one before it would have grown.
    fn needed_after_a_loss<L: Law>(law: L) -> u32 {
        let mut control = LossBased::new(1_448, 14_480, Time::ZERO, law, Common::default());
        control.set_window(14_480, 14_480);
        (1..10).for_each(|segment| control.on_ack(&acknowledged(segment * 1_448)));
        assert_eq!(control.window(), 14_480);
        control.on_congestion(Signal::Loss, Time::from_ms(9), 14_480);
        control.on_recovery_exit(Time::from_ms(9));
        let left = control.window();
        assert!((7_240..8_000).contains(&left), "{left}");
        (1..)
            .find(|&segment| {
                control.on_ack(&acknowledged(13_032 + u64::from(segment) * 1_448));
                control.window() > left
            })
            .unwrap()
    }

    #[test]
    fn growth_begins_anew_after_a_reduction_but_where_a_part_of_the_window_is_taken() {
        let linux = DctcpOptions { whole_segments: true, ..DctcpOptions::default() };
        let by_alpha = DctcpOptions { on_loss: DctcpLoss::Linux318, ..DctcpOptions::default() };
        assert_eq!(needed_after_a_loss(Reno), 5);
        assert_eq!(needed_after_a_loss(Dctcp::new(linux)), 5);
        assert_eq!(needed_after_a_loss(Dctcp::new(DctcpOptions::default())), 5);
        assert_eq!(needed_after_a_loss(Dctcp::new(by_alpha)), 1);
    }
}
