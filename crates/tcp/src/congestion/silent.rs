//! The control of a side that never sends.

use weir_units::Time;

use super::{AckSample, CongestionControl, EcnUse, Signal};

/// Controls nothing: for the side of a connection of which it is known that it will not write. It
/// only says how the marks of the other side are to be echoed.
#[derive(Clone, Copy, Debug, Default)]
pub struct Silent {
    ecn: EcnUse,
}

impl Silent {
    /// Echoes as a control that uses ECN so.
    pub const fn new(ecn: EcnUse) -> Self {
        Self { ecn }
    }
}

impl CongestionControl for Silent {
    fn name(&self) -> &'static str {
        "silent"
    }

    fn on_ack(&mut self, _sample: &AckSample) {}

    fn on_congestion(&mut self, _signal: Signal, _now: Time, _in_flight: u64) {}

    /// A segment at a time, should it write after all.
    fn window(&self) -> u64 {
        0
    }

    fn set_window(&mut self, _window: u64, _slow_start_threshold: u64) {}

    fn ecn(&self) -> EcnUse {
        self.ecn
    }
}
