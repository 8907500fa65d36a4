//! The phases of a repair, and taking back one that was wrong.

use weir_units::Time;

use super::ack::Work;
use super::scoreboard::Place;
use super::{Frto, Phase, Probe, Sender, Undo};
use crate::congestion::Signal;
use crate::segment::Segment;

impl Sender {
    pub(super) fn enter_recovery(&mut self, prior_in_flight: u64, now: Time) {
        self.counted.recoveries += 1;
        self.mark_for_undo();
        self.probe = None;
        self.probe_at = Time::MAX;
        self.start_reduction(Phase::Recovery, Signal::Loss, prior_in_flight, now);
    }

    fn mark_for_undo(&mut self) {
        self.undo = Undo {
            marker: self.config.undo.then_some(self.una),
            retransmissions: self.board.sent_again_count(),
        };
    }

    /// The window falls once for all that is under way now.
    pub(super) fn start_reduction(
        &mut self,
        phase: Phase,
        signal: Signal,
        prior_in_flight: u64,
        now: Time,
    ) {
        self.phase = phase;
        self.recovery_point = self.nxt;
        self.control.on_congestion(signal, now, prior_in_flight);
        // RFC 9937: what is outstanding, less what was delivered out of it before.
        let in_flight = self.in_flight();
        let flight = (self.nxt - self.una).saturating_sub(self.board.sacked_bytes());
        self.prr.start(flight.max(prior_in_flight), in_flight);
    }

    /// Ends the phase when all that was under way at its start is acknowledged. Returns whether it
    /// leaves losses among what was sent since: their repair is the next one, on the same
    /// acknowledgement (Linux `tcp_time_to_recover`).
    pub(super) fn leave_phase(&mut self, now: Time) -> bool {
        if self.phase == Phase::Open || self.una < self.recovery_point {
            return false;
        }
        let was_repair = self.in_recovery();
        if was_repair {
            self.control.on_recovery_exit(now);
            self.rack.on_recovery_exit();
        }
        self.frto = Frto::Off;
        self.phase = Phase::Open;
        was_repair && (self.board.lost_bytes() > 0 || self.board.sent_again_count() > 0)
    }

    /// The retransmission timer ran out: everything is lost until shown otherwise.
    pub(super) fn on_timeout(&mut self, now: Time) {
        if self.board.is_empty() {
            self.rto_at = Time::MAX;
            return;
        }
        let in_flight = self.in_flight();
        let was_calm = !self.in_recovery();
        self.counted.timeouts += 1;
        self.timeouts_in_row += 1;
        if self.timeouts_in_row == 1 {
            self.mark_for_undo();
            self.control.on_congestion(Signal::Timeout, now, in_flight);
        }
        self.lost_untold += in_flight;
        self.counted.lost += in_flight;
        let reneged = self.board.front().is_some_and(|sent| sent.place == Place::Sacked);
        self.board.mark_all_lost(reneged);
        self.sack_seen_count = 0;
        (self.duplicates, self.duplicate_bytes) = (0, 0);
        (self.lost_edge, self.sacked_above) = (self.nxt, 0);
        let tests = self.config.undo && self.has_sack && was_calm && self.timeouts_in_row == 1;
        self.frto = if tests { Frto::Retransmitted } else { Frto::Off };
        self.phase = Phase::Loss;
        self.recovery_point = self.nxt;
        self.probe = None;
        (self.probe_at, self.reorder_at) = (Time::MAX, Time::MAX);
        if !self.is_linear_timeout() {
            self.rtt.back_off();
        }
        self.rto_at = now.saturating_add(self.rtt.rto());
    }

    /// A thin stream tries six times without backing off (004-spec section 4.6).
    fn is_linear_timeout(&self) -> bool {
        const LINEAR_TIMEOUTS: u32 = 6;
        self.config.thin_linear_timeouts
            && self.is_thin()
            && self.control.slow_start_threshold() < u64::MAX
            && self.timeouts_in_row <= LINEAR_TIMEOUTS
    }

    /// F-RTO: whether the timeout was wrong (RFC 5682 section 3.1).
    pub(super) fn check_frto(&mut self, work: &Work, is_duplicate: bool) {
        match self.frto {
            Frto::Off => {}
            Frto::Retransmitted => {
                if work.has_advanced && self.una < self.recovery_point {
                    self.frto = Frto::NewData;
                } else if work.has_advanced || is_duplicate {
                    self.frto = Frto::Off;
                }
            }
            Frto::NewData => {
                if work.has_original {
                    self.undo_reduction(work.now);
                } else if work.has_advanced || is_duplicate {
                    self.frto = Frto::Off;
                }
            }
        }
    }

    /// Eifel (RFC 3522): an acknowledgement that echoes a timestamp from before the first
    /// retransmission was for an original. DSACK (RFC 3708): every retransmission was needless.
    pub(super) fn check_undo(&mut self, segment: &Segment, work: &Work) {
        if self.undo.marker.is_none() {
            return;
        }
        let echoes_original = self.in_recovery()
            && work.has_advanced
            && work.has_suspect
            && segment.ts_ecr > Time::ZERO
            && self.sent_again_at.is_some_and(|first| segment.ts_ecr < first);
        if echoes_original || work.were_needless {
            self.rack.saw_reordering |= self.phase == Phase::Recovery;
            self.undo_reduction(work.now);
        }
    }

    fn undo_reduction(&mut self, now: Time) {
        self.counted.undone += 1;
        self.control.on_spurious(now);
        self.board.unmark_lost();
        self.undo.marker = None;
        self.frto = Frto::Off;
        self.phase = Phase::Open;
    }

    /// Whether the probe under way repaired a loss: then the window falls as for one (RFC 8985
    /// section 7.4).
    pub(super) fn check_probe(&mut self, segment: &Segment, work: &Work, is_duplicate: bool) {
        let Some(Probe { end, is_retransmission }) = self.probe else {
            return;
        };
        if segment.ack < end {
            return;
        }
        if !is_retransmission || work.has_duplicate_report || is_duplicate {
            self.probe = None;
        } else if segment.ack > end {
            self.probe = None;
            if self.phase == Phase::Open {
                let in_flight = self.in_flight();
                self.counted.recoveries += 1;
                self.start_reduction(Phase::Recovery, Signal::Loss, in_flight, work.now);
            }
        }
    }
}
