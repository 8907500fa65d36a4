//! What leaves.

use weir_queue::Ecn;
use weir_units::{Bytes, Time};

use super::{Connection, State, Transmit};
use crate::congestion::EcnUse;
use crate::ecn::{self, EcnMode};
use crate::segment::{Flags, SackBlock, Segment};
use crate::sender::{Content, Outgoing};

/// IPv4 and TCP headers without options.
const HEADERS: u64 = 40;
/// MSS, window scale, SACK permitted and timestamps, each where offered, on a SYN.
const SYN_OPTIONS: [u64; 4] = [4, 4, 4, 12];
const TIMESTAMPS: u64 = 12;
/// Kind, length and two fields of three bytes.
const ACCURATE_ECN: u64 = 8;
/// Two fillers, kind and length; then eight for each block.
const SACK: u64 = 4;
const SACK_BLOCK: u64 = 8;
/// What a header has room for.
const OPTIONS_MAX: u64 = 40;

impl Connection {
    /// The next segment to send at `now`, `None` if there is none for the time being.
    pub fn poll_segment(&mut self, now: Time) -> Option<Transmit> {
        match self.state {
            State::Closed => return self.poll_reset(),
            State::Listen => return None,
            State::SynSent | State::SynReceived => return self.poll_opening(now),
            _ => {}
        }
        if let Some((ack, echo)) = self.early_ack.take() {
            let mut transmit = self.acknowledgement(0, now);
            transmit.segment.ack = ack;
            transmit.segment.flags = Flags::ACK.with(echo);
            // It told of what came before the change; that itself is still to tell.
            self.acks.demand_update();
            return Some(transmit);
        }
        if self.acks.is_due() && self.reassembly.has_report() {
            return Some(self.pure_acknowledgement(now));
        }
        if self.state != State::TimeWait
            && let Some(outgoing) = self.sender.poll(now)
        {
            return Some(self.data(outgoing, now));
        }
        self.acks.is_due().then(|| self.pure_acknowledgement(now))
    }

    fn poll_reset(&mut self) -> Option<Transmit> {
        let seq = self.reset.take()?;
        let segment = Segment {
            seq,
            ack: self.reassembly.next(),
            flags: Flags::RST.with(Flags::ACK),
            ..Segment::default()
        };
        Some(Transmit { segment, ecn: Ecn::NotEct, size: Bytes::new(HEADERS) })
    }

    fn poll_opening(&mut self, now: Time) -> Option<Transmit> {
        if !std::mem::take(&mut self.opening.is_due) {
            return None;
        }
        // A SYN that gets no answer may have fallen to somebody who drops what asks for ECN (RFC
        // 3168 section 6.1.1.1): the second retransmission does without.
        let in_vain = self.opening.transmissions == 2 && self.state == State::SynSent;
        if in_vain && self.config.ecn_fallback {
            self.asked = EcnMode::Off;
        }
        let backoff = self.config.rto.initial.as_ns();
        let backoff = backoff.saturating_mul(1 << self.opening.transmissions.min(16));
        let wait = Time::from_ns(backoff).min(self.config.rto.max);
        self.opening.sent_at = now;
        self.opening.transmissions += 1;
        self.opening.retry_at = now.saturating_add(wait);

        let offer = self.own_offer();
        let is_answer = self.state == State::SynReceived;
        let flags = if is_answer {
            Flags::SYN.with(Flags::ACK).with(self.ecn.syn_ack_flags())
        } else {
            Flags::SYN.with(ecn::request(self.asked))
        };
        let segment = Segment {
            ack: u64::from(is_answer),
            window: self.window.offer(1),
            flags,
            ts_val: if offer.timestamps { now } else { Time::ZERO },
            ts_ecr: if self.has_timestamps { self.ts_recent } else { Time::ZERO },
            offer: Some(offer),
            ..Segment::default()
        };
        let offered = [true, offer.window_scale.is_some(), offer.sack, offer.timestamps];
        let options: u64 = SYN_OPTIONS.iter().zip(offered).filter(|o| o.1).map(|o| o.0).sum();
        Some(Transmit { segment, ecn: Ecn::NotEct, size: Bytes::new(HEADERS + options) })
    }

    fn data(&mut self, outgoing: Outgoing, now: Time) -> Transmit {
        let mut transmit = self.acknowledgement(u64::from(outgoing.len), now);
        let segment = &mut transmit.segment;
        segment.seq = outgoing.seq;
        segment.len = outgoing.len;
        if outgoing.has_fin {
            segment.flags = segment.flags.with(Flags::FIN);
            self.state = match self.state {
                State::Established => State::FinWait1,
                State::CloseWait => State::LastAck,
                state => state,
            };
        }
        if outgoing.len == 0 && !outgoing.has_fin {
            self.counted.acks_sent += 1;
            return transmit;
        }
        if outgoing.is_push && outgoing.len > 0 {
            segment.flags = segment.flags.with(Flags::PSH);
        }
        let is_new = outgoing.content == Content::New;
        if is_new && self.ecn.must_say_reduced && self.ecn.mode == EcnMode::Classic {
            self.ecn.must_say_reduced = false;
            segment.flags = segment.flags.with(Flags::CWR);
        }
        transmit.ecn = self.codepoint(outgoing.content);
        self.acks.on_data_sent(now);
        transmit
    }

    /// The codepoint of new data, of data sent again, or of a segment without any. RFC 3168 section
    /// 6.1 allows ECT to new data only; controls that live by marks send all so, as in Linux.
    fn codepoint(&self, content: Content) -> Ecn {
        let ecn_use = self.sender.ecn_use();
        let data = match (self.ecn.mode, ecn_use) {
            (EcnMode::Off, _) | (_, EcnUse::None) => return Ecn::NotEct,
            (EcnMode::Accurate, EcnUse::L4s) => Ecn::Ect1,
            _ => Ecn::Ect0,
        };
        let lives_by_marks = ecn_use == EcnUse::Dctcp || data == Ecn::Ect1;
        let is_capable = match content {
            Content::New => true,
            Content::Again => self.congestion().retransmits_ecn_capable(),
            Content::None => lives_by_marks,
        };
        if is_capable { data } else { Ecn::NotEct }
    }

    fn pure_acknowledgement(&mut self, now: Time) -> Transmit {
        self.counted.acks_sent += 1;
        self.acknowledgement(0, now)
    }

    /// A segment that acknowledges all there is to, with room for `len` bytes of data.
    fn acknowledgement(&mut self, len: u64, now: Time) -> Transmit {
        let next = self.reassembly.next();
        let mut options = if self.has_timestamps { TIMESTAMPS } else { 0 };
        // Data of a full segment leaves room for timestamps only.
        let room = (OPTIONS_MAX - options).min(match len {
            0 => OPTIONS_MAX,
            len => self.sender.mss().saturating_sub(len),
        });
        let accurate_ecn = self.ecn.option().filter(|_| room >= ACCURATE_ECN);
        let taken = if accurate_ecn.is_some() { ACCURATE_ECN } else { 0 };
        options += taken;
        let mut sack = [SackBlock::default(); 3];
        let mut sack_count = 0;
        let blocks = ((room - taken).saturating_sub(SACK) / SACK_BLOCK) as usize;
        if self.has_sack && blocks > 0 && self.reassembly.has_report() {
            sack_count = self.reassembly.report(&mut sack[..blocks.min(3)]);
            self.reassembly.on_reported();
            options += SACK + SACK_BLOCK * u64::from(sack_count);
        }
        let is_first = self.is_active && len == 0 && sack_count == 0;
        let segment = Segment {
            seq: self.sender.nxt(),
            ack: next,
            len: 0,
            window: self.window.offer(next),
            flags: Flags::ACK.with(self.ecn.echo_flags(is_first)),
            sack_count,
            sack,
            ts_val: if self.has_timestamps { now } else { Time::ZERO },
            ts_ecr: if self.has_timestamps { self.ts_recent } else { Time::ZERO },
            accurate_ecn,
            offer: None,
        };
        self.acks.on_sent(next);
        let size = Bytes::new(HEADERS + options + len);
        Transmit { segment, ecn: self.codepoint(Content::None), size }
    }
}
