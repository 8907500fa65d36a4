//! When to acknowledge (RFC 5681 section 4.2, and Linux's quick and adaptive delayed ACKs).

use weir_units::Time;

use crate::config::DelayedAck;

const DELAY_MAX: Time = Time::from_ms(200);

#[derive(Debug)]
pub(crate) struct AckPolicy {
    config: DelayedAck,
    /// Largest segment seen: what "full" means.
    full: u64,
    /// The delay now; zero before the first segment.
    delay: Time,
    quick: u32,
    /// Both sides speak in turns: acknowledgements wait for the answer.
    is_interactive: bool,
    received_at: Time,
    acknowledged: u64,
    is_due: bool,
    due_at: Time,
}

impl AckPolicy {
    pub(crate) fn new(config: DelayedAck, acknowledged: u64) -> Self {
        Self {
            config,
            full: 1,
            delay: Time::ZERO,
            quick: config.quick,
            is_interactive: false,
            received_at: Time::ZERO,
            acknowledged,
            is_due: false,
            due_at: Time::MAX,
        }
    }

    /// New bytes arrived: `next` is expected now. `rto` is a gap after which the sender may have
    /// begun anew.
    pub(crate) fn on_data(&mut self, len: u64, next: u64, is_urgent: bool, rto: Time, now: Time) {
        self.full = self.full.max(len);
        self.follow_gap(rto, now);
        if is_urgent {
            self.demand();
            return;
        }
        let waiting = next.saturating_sub(self.acknowledged);
        let is_quick = self.quick > 0 && !self.is_interactive;
        if is_quick || waiting > u64::from(self.config.every.saturating_sub(1)) * self.full {
            self.is_due = true;
        } else if waiting > 0 && !self.is_due {
            self.due_at = self.due_at.min(now.saturating_add(self.delay));
        }
    }

    fn follow_gap(&mut self, rto: Time, now: Time) {
        let gap = now.saturating_sub(self.received_at);
        let is_first = self.delay == Time::ZERO;
        self.received_at = now;
        if is_first || !self.config.is_adaptive {
            self.delay = self.config.delay;
            return;
        }
        let (floor, gap_ns) = (self.config.delay.as_ns(), gap.as_ns());
        let half = self.delay.as_ns() / 2;
        if gap_ns <= floor / 2 {
            self.delay = Time::from_ns(half + floor / 2);
        } else if gap < self.delay {
            self.delay = Time::from_ns(half + gap_ns).min(DELAY_MAX);
        } else if gap > rto {
            self.quick = self.config.quick;
        }
    }

    /// Something must be acknowledged at once.
    pub(crate) fn demand(&mut self) {
        self.is_due = true;
        self.is_interactive = false;
    }

    /// The reader made room that the other side should hear of.
    pub(crate) fn demand_update(&mut self) {
        self.is_due = true;
    }

    /// The SYN/ACK must be acknowledged; that says nothing of data.
    pub(crate) fn demand_handshake(&mut self) {
        self.is_due = true;
        self.quick = self.quick.saturating_add(1);
    }

    /// Data leaves at `now`: an answer, if it follows what was received closely.
    pub(crate) fn on_data_sent(&mut self, now: Time) {
        if self.delay > Time::ZERO && now.saturating_sub(self.received_at) < self.delay {
            self.is_interactive = true;
        }
    }

    /// A segment left that acknowledges up to `next`.
    pub(crate) fn on_sent(&mut self, next: u64) {
        self.acknowledged = next;
        self.is_due = false;
        self.due_at = Time::MAX;
        self.quick = self.quick.saturating_sub(1);
    }

    pub(crate) fn on_timer(&mut self, now: Time) {
        if self.due_at <= now {
            self.is_due = true;
            self.due_at = Time::MAX;
        }
    }

    pub(crate) fn is_due(&self) -> bool {
        self.is_due
    }

    /// Something received is not acknowledged yet.
    pub(crate) fn is_pending(&self) -> bool {
        self.is_due || self.due_at != Time::MAX
    }

    /// When a delayed acknowledgement is due, [`Time::MAX`] if none waits.
    pub(crate) fn due_at(&self) -> Time {
        self.due_at
    }

    /// Up to where was acknowledged.
    pub(crate) fn acknowledged(&self) -> u64 {
        self.acknowledged
    }
}
