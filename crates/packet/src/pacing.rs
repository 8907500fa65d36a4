//! A ceiling on the pacing rate, whatever the congestion control: `SO_MAX_PACING_RATE`.

use weir_tcp::CongestionControl;
use weir_tcp::congestion::{AckSample, EcnUse, Signal};
use weir_units::{Bytes, Rate, Time};

/// A congestion control that never paces above a rate.
#[derive(Debug)]
pub(crate) struct Capped {
    inner: Box<dyn CongestionControl>,
    rate: Rate,
}

impl Capped {
    pub(crate) fn new(inner: Box<dyn CongestionControl>, rate: Rate) -> Self {
        Self { inner, rate }
    }
}

impl CongestionControl for Capped {
    fn name(&self) -> &'static str {
        self.inner.name()
    }

    fn on_send(&mut self, now: Time, size: Bytes, in_flight: u64) {
        self.inner.on_send(now, size, in_flight);
    }

    fn on_ack(&mut self, sample: &AckSample) {
        self.inner.on_ack(sample);
    }

    fn on_congestion(&mut self, signal: Signal, now: Time, in_flight: u64) {
        self.inner.on_congestion(signal, now, in_flight);
    }

    fn on_recovery_exit(&mut self, now: Time) {
        self.inner.on_recovery_exit(now);
    }

    fn on_spurious(&mut self, now: Time) {
        self.inner.on_spurious(now);
    }

    fn on_restart(&mut self, now: Time, idle: Time) {
        self.inner.on_restart(now, idle);
    }

    fn window(&self) -> u64 {
        self.inner.window()
    }

    fn slow_start_threshold(&self) -> u64 {
        self.inner.slow_start_threshold()
    }

    fn set_window(&mut self, window: u64, slow_start_threshold: u64) {
        self.inner.set_window(window, slow_start_threshold);
    }

    fn pacing_rate(&self) -> Option<Rate> {
        Some(self.inner.pacing_rate().map_or(self.rate, |rate| rate.min(self.rate)))
    }

    fn wants_prr(&self) -> bool {
        self.inner.wants_prr()
    }

    fn ecn(&self) -> EcnUse {
        self.inner.ecn()
    }
}
