//! What an acknowledgement says: delivered, lost, marked.

use weir_units::Time;

use super::rack::Patience;
use super::scoreboard::{Place, Sent};
use super::{Phase, Sender};
use crate::config::LossDetection;
use crate::congestion::{AckSample, EcnUse, Signal};
use crate::ecn::{EcnMode, EcnState, Feedback};
use crate::segment::{Flags, SackBlock, Segment};

/// Duplicate acknowledgements that make a loss (RFC 5681 section 3.2).
const DUP_THRESHOLD: u32 = 3;

/// What one acknowledgement brought.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Work {
    pub(super) now: Time,
    /// The round-trip time that it told.
    round_trip: Option<Time>,
    /// What it delivered that was sent last.
    newest: Option<Sent>,
    /// First and last transmission of what it acknowledged cumulatively and that was sent once.
    acked: Option<(Time, Time)>,
    /// What it acknowledged selectively, counted likewise.
    sacked: Option<(Time, Time)>,
    has_retransmitted: bool,
    /// Something was delivered that was sent once, before the present repair began.
    pub(super) has_original: bool,
    /// Something was acknowledged cumulatively that was held for lost, or sent again.
    pub(super) has_suspect: bool,
    pub(super) has_advanced: bool,
    pub(super) has_duplicate_report: bool,
    /// And with that, all that was sent again was delivered twice.
    pub(super) were_needless: bool,
    pub(super) bytes_acked: u64,
    pub(super) lost: u64,
    /// A repair ended that did not repair all that is known to be lost.
    has_unrepaired: bool,
    /// RDB: an acknowledgement ended on a bundle with what it repeated still unacknowledged.
    hides_loss: bool,
}

impl Work {
    pub(super) fn at(now: Time) -> Self {
        Self { now, ..Self::default() }
    }
}

impl Sender {
    /// Takes an acknowledgement that does not lie beyond what was sent. `is_handshake`: it is the
    /// one of the SYN/ACK.
    pub(crate) fn on_ack(
        &mut self,
        segment: &Segment,
        ecn: &mut EcnState,
        is_handshake: bool,
        now: Time,
    ) {
        let prior_in_flight = self.in_flight();
        let prior_delivered = self.rate.delivered();
        let mut work = Work::at(now);
        let is_duplicate = self.is_duplicate(segment);
        self.rack.on_ack();
        self.update_peer_window(segment);
        if self.has_sack {
            self.take_sack(segment, &mut work);
        } else if is_duplicate {
            self.take_duplicate(now);
        }
        if segment.ack > self.una {
            self.advance(segment.ack, &mut work);
        }
        self.sample_rtt(segment, &mut work);
        let delivered = self.rate.delivered() - prior_delivered;
        let Segment { flags, accurate_ecn, .. } = *segment;
        let feedback = ecn.feedback(flags, accurate_ecn, is_handshake, delivered, self.mss);

        self.check_probe(segment, &work, is_duplicate);
        self.check_frto(&work, is_duplicate);
        self.check_undo(segment, &work);
        self.detect_losses(&mut work);
        work.has_unrepaired = self.leave_phase(now);
        self.react(&work, feedback, ecn, prior_in_flight);
        if delivered > 0 {
            self.tell_control(delivered, feedback, prior_in_flight, &work);
        }
        if self.uses_prr && matches!(self.phase, Phase::Reducing | Phase::Recovery) {
            let is_safe = work.has_advanced && work.lost == 0;
            let (in_flight, target) = (self.in_flight(), self.control.window());
            self.prr.on_ack(delivered, in_flight, target, is_safe, self.mss);
        }
        if work.has_advanced {
            self.restart_timers(now);
        }
    }

    /// Whether the segment is a duplicate acknowledgement (RFC 5681 section 2).
    fn is_duplicate(&self, segment: &Segment) -> bool {
        segment.ack == self.una
            && segment.len == 0
            && !segment.flags.has(Flags::FIN)
            && !self.board.is_empty()
            && segment.ack + u64::from(segment.window) == self.peer.end
    }

    fn update_peer_window(&mut self, segment: &Segment) {
        let end = self.peer.end;
        if !self.peer.update(segment, self.una) {
            return;
        }
        self.window_probes_in_row = 0;
        if self.peer.end > end {
            self.window_probe_backoff = 0;
            self.persist_at = Time::MAX;
        }
    }

    fn take_sack(&mut self, segment: &Segment, work: &mut Work) {
        let blocks = segment.sack_blocks();
        let Some(&first) = blocks.first() else {
            self.sack_seen_count = 0;
            return;
        };
        let is_inside = |inner: SackBlock, outer: &SackBlock| {
            outer.start <= inner.start && inner.end <= outer.end
        };
        let is_duplicate_report = first.start < first.end
            && first.end <= self.nxt
            && (first.end <= segment.ack || blocks.get(1).is_some_and(|b| is_inside(first, b)));
        if is_duplicate_report {
            self.take_duplicate_report(first, work);
        }
        let una = self.una.max(segment.ack);
        for (index, &block) in blocks.iter().enumerate() {
            let is_valid = una <= block.start && block.start < block.end && block.end <= self.nxt;
            if is_valid && !(index == 0 && is_duplicate_report) {
                self.take_block(block, work);
            }
        }
        self.sack_seen_count = blocks.len() as u8;
        self.sack_seen[..blocks.len()].copy_from_slice(blocks);
    }

    /// A DSACK (RFC 2883). Copies that bundles carry are duplicates of no retransmission.
    fn take_duplicate_report(&mut self, block: SackBlock, work: &mut Work) {
        work.has_duplicate_report = true;
        if self.counted.bundles > 0 {
            return;
        }
        let segments = block.end.saturating_sub(block.start).div_ceil(self.mss).max(1);
        let left = self.undo.retransmissions;
        if left > 0 && self.undo.marker.is_some_and(|marker| block.end > marker) {
            let segments = u32::try_from(segments).unwrap_or(u32::MAX);
            self.undo.retransmissions = left.saturating_sub(segments);
            work.were_needless = self.undo.retransmissions == 0;
        }
        if self.counted.retransmissions > 0 {
            self.rack.on_duplicate(self.una, self.nxt);
        }
    }

    /// Marks what a block newly covers. What the last acknowledgement's blocks covered was marked
    /// then, so that each record is looked at about once.
    fn take_block(&mut self, block: SackBlock, work: &mut Work) {
        let seen = self.sack_seen;
        let mut from = block.start;
        while from < block.end {
            let covering = seen[..usize::from(self.sack_seen_count)]
                .iter()
                .find(|old| old.start >= block.start && old.start <= from && from < old.end);
            if let Some(old) = covering {
                from = old.end;
                continue;
            }
            let to = seen[..usize::from(self.sack_seen_count)]
                .iter()
                .map(|old| old.start)
                .filter(|&start| start > from)
                .fold(block.end, u64::min);
            self.mark_between(from, to, block, work);
            from = to;
        }
    }

    /// Marks the records that begin before `to`, end after `from` and lie within `block`.
    fn mark_between(&mut self, from: u64, to: u64, block: SackBlock, work: &mut Work) {
        let Some(mut position) = self.board.find(from, self.mss) else {
            return;
        };
        while position < self.board.len() {
            let slot = self.board.slot(position);
            let sent = self.board.get(slot);
            if sent.seq >= to {
                break;
            }
            if sent.seq >= block.start && sent.end() <= block.end && sent.place != Place::Sacked {
                let sent = *sent;
                self.board.mark_sacked(slot);
                self.sacked_above += u32::from(sent.seq >= self.lost_edge);
                self.deliver(&sent, sent.size(), work);
                note_times(&mut work.sacked, &sent);
            }
            position += 1;
        }
    }

    fn deliver(&mut self, sent: &Sent, bytes: u64, work: &mut Work) {
        self.rate.on_delivered(sent, bytes, work.now, &mut work.newest);
        let age = work.now.saturating_sub(sent.sent_at);
        let is_spurious = sent.is_retransmitted && age < self.rtt.min();
        self.rack.on_delivered(sent, is_spurious, work.now);
        if sent.is_retransmitted {
            work.has_retransmitted = true;
        } else {
            work.has_original |= sent.end() <= self.recovery_point;
        }
    }

    /// Everything before `ack` was delivered.
    fn advance(&mut self, ack: u64, work: &mut Work) {
        work.has_advanced = true;
        work.bytes_acked = ack - self.una;
        // Without SACK, duplicates stood for some of these bytes already.
        let mut credit = std::mem::take(&mut self.duplicate_bytes);
        self.duplicates = 0;
        while let Some(sent) = self.board.front().copied() {
            if sent.seq >= ack {
                break;
            }
            work.has_suspect |= sent.place == Place::Lost || sent.is_retransmitted;
            let is_whole = sent.end() <= ack;
            let bytes = sent.end().min(ack) - sent.seq;
            if sent.place != Place::Sacked {
                let counted = bytes.min(credit);
                credit -= counted;
                self.deliver(&sent, bytes - counted, work);
                if !sent.is_retransmitted {
                    note_times(&mut work.acked, &sent);
                }
            }
            if !is_whole {
                self.board.trim_front(ack);
                break;
            }
            if sent.place == Place::Sacked && sent.seq >= self.lost_edge {
                self.sacked_above = self.sacked_above.saturating_sub(1);
            }
            work.hides_loss = sent.end() == ack && sent.is_bundle && sent.seq > self.una;
            self.board.pop();
        }
        if !self.has_sack && self.phase == Phase::Recovery && ack < self.recovery_point {
            // What lies beyond a partial acknowledgement is still held by the other side.
            self.duplicate_bytes = credit.min(self.board.in_flight_bytes());
        }
        self.una = ack;
        self.lost_edge = self.lost_edge.max(ack);
        self.timeouts_in_row = 0;
    }

    /// A duplicate acknowledgement where SACK was not negotiated: some segment arrived.
    fn take_duplicate(&mut self, now: Time) {
        self.duplicates = self.duplicates.saturating_add(1);
        let bytes = self.mss.min(self.in_flight().saturating_sub(self.mss));
        self.duplicate_bytes += bytes;
        self.rate.on_unknown_delivered(bytes, now);
    }

    /// Round-trip times from transmissions where each was one, else from timestamps (RFC 7323
    /// section 4.3): the timeout learns from the oldest segment, the control from the newest.
    fn sample_rtt(&mut self, segment: &Segment, work: &mut Work) {
        let now = work.now;
        let times = match (work.acked, work.sacked) {
            (Some(acked), _) if !work.has_retransmitted => Some(acked),
            (_, sacked) => sacked,
        };
        let echoed = (segment.ts_ecr > Time::ZERO && segment.ts_ecr <= now)
            .then(|| now.saturating_sub(segment.ts_ecr));
        let (oldest, newest) = match times {
            Some((first, last)) => (now.saturating_sub(first), now.saturating_sub(last)),
            None if work.has_advanced && echoed.is_some() => {
                let rtt = echoed.unwrap_or_default();
                (rtt, rtt)
            }
            None => return,
        };
        self.rtt.sample(oldest, self.una, self.nxt);
        self.rtt.observe(newest);
        work.round_trip = Some(newest);
        self.has_rtt_since_probe = true;
    }

    /// Looks for losses, and when to look again.
    pub(super) fn detect_losses(&mut self, work: &mut Work) {
        self.reorder_at = Time::MAX;
        let threshold = self.duplicate_threshold();
        if !self.has_sack {
            self.detect_by_duplicates(threshold, work);
        } else if self.config.loss_detection == LossDetection::DupThresh {
            self.detect_by_threshold(threshold, work);
        } else {
            let patience = Patience {
                min_rtt: self.rtt.min(),
                srtt: self.rtt.srtt(),
                in_recovery: self.in_recovery(),
                threshold,
            };
            let (again, lost) = self.rack.detect(&mut self.board, patience, work.now);
            self.reorder_at = again.unwrap_or(Time::MAX);
            work.lost = lost;
        }
        self.lost_untold += work.lost;
        self.counted.lost += work.lost;
    }

    /// How many segments delivered above a segment make it lost.
    fn duplicate_threshold(&self) -> u32 {
        let is_thin_dupack = self.config.thin_dupack
            && self.is_thin()
            && self.control.slow_start_threshold() < u64::MAX;
        let outstanding = self.board.len();
        // RFC 5827 section 3.2: what is outstanding cannot give three.
        let is_short = self.config.early_retransmit && outstanding < 4 && self.unsent() == 0;
        match (is_thin_dupack, is_short) {
            (true, _) => 1,
            (false, true) => outstanding.saturating_sub(1).clamp(1, DUP_THRESHOLD),
            (false, false) => DUP_THRESHOLD,
        }
    }

    /// RFC 6675 section 4, `IsLost` by segments: a record with `threshold` delivered above it.
    fn detect_by_threshold(&mut self, threshold: u32, work: &mut Work) {
        while self.sacked_above >= threshold {
            let Some(position) = self.board.find(self.lost_edge, self.mss) else {
                return;
            };
            let slot = self.board.slot(position);
            let sent = *self.board.get(slot);
            if sent.place == Place::Sacked {
                self.sacked_above -= 1;
                if self.sacked_above < threshold {
                    self.sacked_above += 1;
                    return;
                }
            } else if sent.place == Place::InFlight && !sent.is_retransmitted {
                self.board.mark_lost(slot);
                work.lost += sent.size();
            }
            self.lost_edge = sent.end();
        }
    }

    /// RFC 6582: the first segment on the third duplicate, and on each partial acknowledgement.
    fn detect_by_duplicates(&mut self, threshold: u32, work: &mut Work) {
        let is_begin = self.phase == Phase::Open
            && self.duplicates >= threshold
            && self.una >= self.recovery_point;
        let is_partial =
            self.phase == Phase::Recovery && work.has_advanced && self.una < self.recovery_point;
        let Some(front) = self.board.front().copied() else {
            return;
        };
        if (is_begin || is_partial) && front.place == Place::InFlight {
            self.board.mark_lost(self.board.slot(0));
            work.lost = front.size();
        }
    }

    /// Tells the control to fall where it must.
    fn react(&mut self, work: &Work, feedback: Feedback, ecn: &mut EcnState, prior_in_flight: u64) {
        let is_calm = matches!(self.phase, Phase::Open | Phase::Reducing);
        if (work.lost > 0 || work.has_unrepaired) && is_calm {
            self.enter_recovery(prior_in_flight, work.now);
            return;
        }
        let hides_loss = work.hides_loss && !(self.has_sack && work.has_duplicate_report);
        let reads_marks_itself = self.ecn_use == EcnUse::Dctcp
            || (self.ecn_use == EcnUse::L4s && self.ecn_mode == EcnMode::Accurate);
        let is_echo = feedback.is_echo && !reads_marks_itself && self.una > self.echo_point;
        if (is_echo || hides_loss) && self.phase == Phase::Open {
            self.counted.ecn_reductions += u64::from(is_echo);
            ecn.must_say_reduced = is_echo;
            self.echo_point = self.nxt;
            let signal = if is_echo { Signal::Ecn } else { Signal::Loss };
            self.start_reduction(Phase::Reducing, signal, prior_in_flight, work.now);
        }
    }

    fn tell_control(
        &mut self,
        delivered: u64,
        feedback: Feedback,
        prior_in_flight: u64,
        work: &Work,
    ) {
        let marked = match feedback.marked_bytes {
            Some(bytes) => bytes.min(delivered),
            None if feedback.is_echo => delivered,
            None => 0,
        };
        self.counted.marked += marked;
        let rate = self.rate.sample(work.newest, self.rtt.min(), work.now);
        let sample = AckSample {
            now: work.now,
            acked: delivered,
            lost: std::mem::take(&mut self.lost_untold),
            marked,
            rtt: work.round_trip,
            srtt: self.rtt.srtt(),
            min_rtt: self.rtt.min(),
            prior_in_flight,
            in_flight: self.in_flight(),
            delivered: self.rate.delivered(),
            prior_delivered: rate.prior_delivered,
            delivery_rate: rate.rate,
            is_app_limited: rate.is_app_limited,
            advances: work.has_advanced,
            is_cwnd_limited: self.is_cwnd_limited(),
            in_recovery: self.in_recovery(),
        };
        self.control.on_ack(&sample);
    }
}

/// Widens the span of first and last transmission.
fn note_times(span: &mut Option<(Time, Time)>, sent: &Sent) {
    if sent.is_retransmitted {
        return;
    }
    let first = span.map_or(sent.sent_at, |(first, _)| first);
    *span = Some((first, sent.sent_at));
}
