//! A window that stays, so that a test of the endpoint sees the endpoint alone.

use std::sync::{Arc, Mutex};

use weir_tcp::CongestionControl;
use weir_tcp::congestion::{AckSample, EcnUse, Signal};
use weir_units::{Rate, Time};

#[derive(Debug, Default)]
pub struct Fixed {
    pub window: u64,
    pub ecn: EcnUse,
    pub rate: Option<Rate>,
    /// What it was told.
    pub told: Arc<Mutex<Told>>,
    pub is_quiet: bool,
}

#[derive(Debug, Default)]
pub struct Told {
    pub signals: Vec<(Time, Signal)>,
    pub samples: Vec<AckSample>,
    pub spurious: Vec<Time>,
    pub exits: Vec<Time>,
}

impl Fixed {
    /// Never more than `window` bytes in flight.
    pub fn new(window: u64) -> Self {
        Self { window, ..Self::default() }
    }

    /// Tells `told` what it is told.
    pub fn telling(self, told: &Arc<Mutex<Told>>) -> Self {
        Self { told: Arc::clone(told), ..self }
    }

    /// Does not remember what it is told.
    pub fn quiet(self) -> Self {
        Self { is_quiet: true, ..self }
    }

    fn told(&self) -> std::sync::MutexGuard<'_, Told> {
        self.told.lock().expect("nobody panics while writing")
    }
}

impl CongestionControl for Fixed {
    fn name(&self) -> &'static str {
        "fixed"
    }

    fn on_ack(&mut self, sample: &AckSample) {
        if !self.is_quiet {
            self.told().samples.push(*sample);
        }
    }

    fn on_congestion(&mut self, signal: Signal, now: Time, _in_flight: u64) {
        self.told().signals.push((now, signal));
    }

    fn on_recovery_exit(&mut self, now: Time) {
        self.told().exits.push(now);
    }

    fn on_spurious(&mut self, now: Time) {
        self.told().spurious.push(now);
    }

    fn window(&self) -> u64 {
        self.window
    }

    fn set_window(&mut self, _window: u64, _slow_start_threshold: u64) {}

    fn pacing_rate(&self) -> Option<Rate> {
        self.rate
    }

    fn ecn(&self) -> EcnUse {
        self.ecn
    }

    fn retransmits_ecn_capable(&self) -> bool {
        matches!(self.ecn, EcnUse::Dctcp | EcnUse::L4s)
    }
}
