//! Which segments were lost, told by time of transmission (RFC 8985 section 6).

use weir_units::Time;

use super::scoreboard::{Order, Scoreboard, Sent};

/// Round trips without DSACK after which the reordering window is the default again.
const PERSIST: u32 = 16;
const STEPS_MAX: u32 = 255;

#[derive(Debug)]
pub(crate) struct Rack {
    /// The last transmission that was delivered.
    newest: Option<Order>,
    rtt: Time,
    /// Highest sequence number delivered.
    forward: u64,
    /// The same before the acknowledgement that is being taken: what one acknowledgement tells of
    /// arrived in an order that it does not tell.
    forward_before: u64,
    pub(crate) saw_reordering: bool,
    /// The reordering window in quarters of the least round-trip time.
    steps: u32,
    persist: u32,
    /// A DSACK counts once per round trip: until this is acknowledged.
    round_end: u64,
}

/// What decides the reordering window.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Patience {
    pub(crate) min_rtt: Time,
    pub(crate) srtt: Time,
    /// A loss is being repaired.
    pub(crate) in_recovery: bool,
    /// Segments delivered out of order that make a loss certain while no reordering was seen.
    pub(crate) threshold: u32,
}

impl Rack {
    pub(crate) fn new() -> Self {
        Self {
            newest: None,
            rtt: Time::ZERO,
            forward: 0,
            forward_before: 0,
            saw_reordering: false,
            steps: 1,
            persist: 0,
            round_end: 0,
        }
    }

    /// An acknowledgement comes: what it delivers follows.
    pub(crate) fn on_ack(&mut self) {
        self.forward_before = self.forward;
    }

    /// A record was delivered. `is_spurious`: the acknowledgement is of an earlier transmission
    /// than its last.
    pub(crate) fn on_delivered(&mut self, sent: &Sent, is_spurious: bool, now: Time) {
        if sent.end() < self.forward_before && !sent.is_retransmitted {
            self.saw_reordering = true;
        }
        self.forward = self.forward.max(sent.end());
        if is_spurious {
            return;
        }
        if self.newest.is_none_or(|newest| sent.order.is_after(newest)) {
            self.newest = Some(sent.order);
        }
        self.rtt = now.saturating_sub(sent.sent_at);
    }

    /// A retransmission was for nothing: more patience, once per round trip (section 6.2 step 4).
    pub(crate) fn on_duplicate(&mut self, una: u64, nxt: u64) {
        self.saw_reordering = true;
        if una >= self.round_end {
            self.round_end = nxt;
            self.steps = (self.steps + 1).min(STEPS_MAX);
            self.persist = PERSIST;
        }
    }

    /// A recovery is over.
    pub(crate) fn on_recovery_exit(&mut self) {
        self.persist = self.persist.saturating_sub(1);
        if self.persist == 0 {
            self.steps = 1;
        }
    }

    fn window(&self, patience: Patience, board: &Scoreboard) -> Time {
        let is_certain = patience.in_recovery || board.sacked_count() >= patience.threshold;
        if !self.saw_reordering && is_certain {
            return Time::ZERO;
        }
        let window = patience.min_rtt.as_ns() / 4 * u64::from(self.steps);
        Time::from_ns(window).min(patience.srtt)
    }

    /// Holds for lost what was sent long enough before a segment that was delivered. Returns when
    /// to look again, if something may turn out lost by then, and the bytes found.
    pub(crate) fn detect(
        &self,
        board: &mut Scoreboard,
        patience: Patience,
        now: Time,
    ) -> (Option<Time>, u64) {
        let Some(newest) = self.newest else {
            return (None, 0);
        };
        let wait = self.rtt.saturating_add(self.window(patience, board));
        let mut again = None;
        let mut lost = 0;
        let mut next = board.oldest_in_flight();
        while let Some(slot) = next {
            let sent = board.get(slot);
            if !newest.is_after(sent.order) {
                break;
            }
            next = board.next_in_flight(slot);
            let deadline = sent.sent_at.saturating_add(wait);
            if deadline <= now {
                lost += sent.size();
                board.mark_lost(slot);
            } else {
                again = Some(deadline);
            }
        }
        (again, lost)
    }
}
