//! Proportional rate reduction (RFC 9937): what may leave while a loss is repaired.

/// Bytes throughout.
#[derive(Debug, Default)]
pub(crate) struct Prr {
    delivered: u64,
    out: u64,
    flight_at_start: u64,
    window: u64,
}

impl Prr {
    /// A reduction begins with `flight` outstanding, of which `in_flight` are believed to be under
    /// way.
    pub(crate) fn start(&mut self, flight: u64, in_flight: u64) {
        *self = Self { delivered: 0, out: 0, flight_at_start: flight.max(1), window: in_flight };
    }

    /// An acknowledgement delivered `delivered`, `in_flight` are under way and `target` should be.
    /// `is_safe`: it advanced and told of no further loss.
    pub(crate) fn on_ack(
        &mut self,
        delivered: u64,
        in_flight: u64,
        target: u64,
        is_safe: bool,
        mss: u64,
    ) {
        self.delivered += delivered;
        let mut quota = if in_flight > target {
            // 64 bits hold this product for windows up to 4 GB.
            let due = self.delivered.saturating_mul(target).div_ceil(self.flight_at_start);
            due.saturating_sub(self.out)
        } else {
            let owed = self.delivered.saturating_sub(self.out).max(delivered);
            (owed + if is_safe { mss } else { 0 }).min(target - in_flight)
        };
        if self.out == 0 && quota < mss {
            // The first retransmission leaves at once.
            quota = mss;
        }
        self.window = in_flight + quota;
    }

    pub(crate) fn on_send(&mut self, bytes: u64) {
        self.out += bytes;
    }

    pub(crate) fn window(&self) -> u64 {
        self.window
    }
}
