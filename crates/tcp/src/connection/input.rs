//! What arrives.

use weir_queue::Ecn;
use weir_units::Time;

use super::{Connection, End, State};
use crate::congestion::EcnUse;
use crate::ecn::EcnMode;
use crate::segment::{Flags, Segment};
use crate::sender::Established;

/// Segments out of place are answered this often at most (Linux `tcp_invalid_ratelimit`), so that
/// two sides that disagree do not answer each other for ever.
const CHALLENGE_SPACING: Time = Time::from_ms(500);

impl Connection {
    /// Takes a segment that arrives at `now` in a packet with codepoint `ecn`. Segments that make
    /// no sense are answered or ignored as RFC 9293 and RFC 5961 say.
    pub fn on_segment(&mut self, segment: &Segment, ecn: Ecn, now: Time) {
        self.counted.segments_received += 1;
        self.counted.ce_received += u64::from(ecn == Ecn::Ce);
        match self.state {
            State::Closed if segment.flags.has(Flags::RST) => {}
            State::Closed => self.reset = Some(segment.ack),
            State::Listen => self.on_listen(segment, ecn),
            State::SynSent => self.on_syn_sent(segment, ecn, now),
            _ => self.on_synchronized(segment, ecn, now),
        }
    }

    fn on_listen(&mut self, segment: &Segment, ecn: Ecn) {
        let flags = segment.flags;
        if !flags.has(Flags::SYN) || flags.has(Flags::RST) || flags.has(Flags::ACK) {
            return;
        }
        let echo_each = self.config.dctcp_echo || self.sender.ecn_use() == EcnUse::Dctcp;
        self.ecn.on_syn(flags, ecn, echo_each);
        self.ts_recent = segment.ts_val;
        self.state = State::SynReceived;
        self.opening.is_due = true;
        self.agree(segment);
    }

    fn on_syn_sent(&mut self, segment: &Segment, ecn: Ecn, now: Time) {
        let flags = segment.flags;
        // Only an acknowledgement of our SYN, which took number 0, is of this connection.
        if !flags.has(Flags::ACK) || segment.ack != 1 || self.opening.transmissions == 0 {
            return;
        }
        if flags.has(Flags::RST) {
            self.finish(End::Reset);
        } else if flags.has(Flags::SYN) {
            self.ecn.on_syn_ack(self.asked, flags, ecn);
            self.ts_recent = segment.ts_val;
            self.agree(segment);
            self.establish(segment, now);
            self.acks.demand_handshake();
        }
    }

    /// What both sides offered, they use.
    fn agree(&mut self, segment: &Segment) {
        let offer = segment.offer.unwrap_or_default();
        self.has_timestamps = self.config.timestamps && offer.timestamps;
        self.has_sack = self.config.sack && offer.sack;
        if let (Some(own), Some(_)) = (self.own_scale(), offer.window_scale) {
            self.scale = own;
        }
        self.peer_mss = match offer.mss {
            0 => self.config.mss.min(536).into(),
            mss => u64::from(mss),
        };
    }

    fn establish(&mut self, segment: &Segment, now: Time) {
        let echoed = segment.ts_ecr;
        let rtt = if self.opening.transmissions == 1 {
            Some(now.saturating_sub(self.opening.sent_at))
        } else if self.has_timestamps && echoed > Time::ZERO && echoed <= now {
            Some(now.saturating_sub(echoed))
        } else {
            None
        };
        self.state = State::Established;
        self.opening.retry_at = Time::MAX;
        self.opening.is_due = false;
        self.window.set_scale(self.scale);
        self.sender.establish(Established {
            now,
            rtt,
            window: segment.window,
            mss: self.peer_mss,
            has_sack: self.has_sack,
            ecn_mode: self.ecn.mode,
        });
    }

    fn on_synchronized(&mut self, segment: &Segment, ecn: Ecn, now: Time) {
        let flags = segment.flags;
        if flags.has(Flags::RST) {
            self.on_reset(segment, now);
            return;
        }
        if flags.has(Flags::SYN) {
            self.on_late_syn(segment, now);
            return;
        }
        if !flags.has(Flags::ACK) {
            return;
        }
        let is_opening = self.state == State::SynReceived;
        if segment.ack > self.sender.nxt() || segment.end() < segment.seq {
            self.challenge(now);
            return;
        }
        if is_opening {
            if segment.ack == 0 {
                return;
            }
            self.establish(segment, now);
            self.ecn.on_established();
        }
        if self.has_timestamps
            && segment.seq <= self.acks.acknowledged()
            && segment.ts_val >= self.ts_recent
        {
            self.ts_recent = segment.ts_val;
        }
        let is_handshake = is_opening && segment.len == 0 && segment.sack_count == 0;
        self.sender.on_ack(segment, &mut self.ecn, is_handshake, now);
        self.take_data(segment, ecn, now);
        self.follow_close(now);
    }

    fn take_data(&mut self, segment: &Segment, ecn: Ecn, now: Time) {
        let next = self.reassembly.next();
        let fin = segment.flags.has(Flags::FIN);
        self.note_ecn(segment, ecn);
        if segment.len == 0 && !fin {
            if segment.seq + 1 == next {
                self.acks.demand();
            } else if segment.seq < next || segment.seq > self.window.end() {
                self.challenge(now);
            }
            return;
        }
        let data_end = segment.seq + u64::from(segment.len);
        if fin && self.fin.is_none() && data_end >= next && data_end <= self.window.end() {
            self.fin = Some(data_end);
        }
        // Nothing is taken beyond the window, nor behind the end of the stream.
        let fin_end = self.fin.map_or(u64::MAX, |fin| fin + 1);
        let has_fin = fin && self.fin == Some(data_end);
        let limit = self.window.end().max(next) + u64::from(has_fin);
        let end = (data_end + u64::from(fin)).min(limit).min(fin_end);
        if self.state == State::TimeWait && fin {
            self.time_wait_until = now.saturating_add(self.config.time_wait);
        }
        if segment.seq >= end {
            self.challenge(now);
            return;
        }
        let arrival = self.reassembly.take(segment.seq, end);
        self.counted.duplicate_bytes += arrival.duplicate;
        if segment.len as u64 >= self.sender.mss() && self.has_timestamps {
            let echoed = segment.ts_ecr;
            if echoed > Time::ZERO && echoed <= now {
                self.window.on_round_trip(now.saturating_sub(echoed), now);
            }
        }
        let next = self.reassembly.next();
        let (rto, len) = (self.sender.rto(), u64::from(segment.len));
        self.acks.on_data(len, next, arrival.is_urgent || has_fin, rto, now);
    }

    fn note_ecn(&mut self, segment: &Segment, ecn: Ecn) {
        if self.ecn.mode == EcnMode::Off {
            return;
        }
        if self.ecn.wants_ack_before(ecn, segment.len) && self.acks.is_pending() {
            let flags = self.ecn.echo_flags(false);
            self.early_ack = Some((self.reassembly.next(), flags));
        }
        if self.ecn.on_arrival(ecn, segment.flags, segment.len) {
            self.acks.demand();
        }
    }

    /// Moves on when the FINs arrive and are acknowledged.
    fn follow_close(&mut self, now: Time) {
        if self.sender.is_fin_acked() {
            self.state = match self.state {
                State::FinWait1 => State::FinWait2,
                State::Closing => State::TimeWait,
                State::LastAck => {
                    self.finish(End::Finished);
                    return;
                }
                state => state,
            };
        }
        if self.is_at_end() {
            self.state = match self.state {
                State::Established => State::CloseWait,
                State::FinWait1 => State::Closing,
                State::FinWait2 => State::TimeWait,
                state => state,
            };
        }
        if self.state == State::TimeWait && self.time_wait_until == Time::MAX {
            self.time_wait_until = now.saturating_add(self.config.time_wait);
        }
    }

    /// RFC 5961 section 3.2: only the number expected next resets.
    fn on_reset(&mut self, segment: &Segment, now: Time) {
        let next = self.reassembly.next();
        if segment.seq == next {
            // Both have said all: that the other side has forgotten the connection is not an error.
            let is_over = matches!(self.state, State::Closing | State::LastAck | State::TimeWait);
            let is_delivered = is_over && self.sender.is_all_acked();
            self.finish(if is_delivered { End::Finished } else { End::Reset });
        } else if segment.seq > next && segment.seq < self.window.end() {
            self.challenge(now);
        }
    }

    /// A SYN again: our answer to it was lost, or the acknowledgement of the SYN/ACK; any other is
    /// a challenge (RFC 5961 section 4).
    fn on_late_syn(&mut self, segment: &Segment, now: Time) {
        let is_ack = segment.flags.has(Flags::ACK);
        match self.state {
            State::SynReceived if segment.seq == 0 && !is_ack => self.opening.is_due = true,
            _ if self.is_active && is_ack && segment.seq == 0 && segment.ack == 1 => {
                self.acks.demand_handshake();
            }
            _ => self.challenge(now),
        }
    }

    fn challenge(&mut self, now: Time) {
        let is_early =
            self.challenged_at.is_some_and(|last| now.saturating_sub(last) < CHALLENGE_SPACING);
        if !is_early && self.state != State::SynReceived {
            self.challenged_at = Some(now);
            self.acks.demand();
        }
    }
}
