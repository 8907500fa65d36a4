//! The plainest control (RFC 5681), to test endpoints with.

use weir_tcp::CongestionControl;
use weir_tcp::congestion::{AckSample, EcnUse, Signal};
use weir_units::Time;

#[derive(Debug)]
pub struct Reno {
    mss: u64,
    window: u64,
    threshold: u64,
    credit: u64,
    before: (u64, u64),
    after_timeout: bool,
    pub ecn: EcnUse,
}

impl Reno {
    pub fn new(mss: u32, segments: u64) -> Self {
        let mss = u64::from(mss);
        Self {
            mss,
            window: segments * mss,
            threshold: u64::MAX,
            credit: 0,
            before: (0, 0),
            after_timeout: false,
            ecn: EcnUse::None,
        }
    }

    /// A window that stays.
    pub fn fixed(mss: u32, segments: u64) -> Self {
        let mut reno = Self::new(mss, segments);
        reno.credit = u64::MAX;
        reno
    }

    fn is_fixed(&self) -> bool {
        self.credit == u64::MAX
    }
}

impl CongestionControl for Reno {
    fn name(&self) -> &'static str {
        "reno"
    }

    fn on_ack(&mut self, sample: &AckSample) {
        let repairs = sample.in_recovery && !self.after_timeout;
        if self.is_fixed() || !sample.is_cwnd_limited || repairs {
            return;
        }
        if self.window < self.threshold {
            self.window += sample.acked.min(self.threshold - self.window);
            return;
        }
        self.credit += sample.acked;
        if self.credit >= self.window {
            self.credit -= self.window;
            self.window += self.mss;
        }
    }

    fn on_congestion(&mut self, signal: Signal, _now: Time, in_flight: u64) {
        if self.is_fixed() {
            return;
        }
        self.before = (self.window, self.threshold);
        self.threshold = (in_flight / 2).max(2 * self.mss);
        self.after_timeout = signal == Signal::Timeout;
        self.window = if self.after_timeout { self.mss } else { self.threshold };
        self.credit = 0;
    }

    fn on_recovery_exit(&mut self, _now: Time) {
        self.after_timeout = false;
    }

    fn on_spurious(&mut self, _now: Time) {
        if !self.is_fixed() {
            (self.window, self.threshold) = self.before;
        }
    }

    fn window(&self) -> u64 {
        self.window
    }

    fn slow_start_threshold(&self) -> u64 {
        self.threshold
    }

    fn set_window(&mut self, window: u64, slow_start_threshold: u64) {
        (self.window, self.threshold) = (window, slow_start_threshold);
    }

    fn ecn(&self) -> EcnUse {
        self.ecn
    }
}
