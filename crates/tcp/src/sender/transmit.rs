//! What leaves next: probes, retransmissions, new data, in this order.

use weir_units::{Bytes, Rate, Time};

use super::scoreboard::Sent;
use super::{Forced, Frto, Phase, Sender};
use crate::config::Nagle;

/// What Linux paces at above the window per round trip: in slow start, and after it.
const PACING_PERCENT: [u64; 2] = [200, 120];
/// Bytes and segments of a train (Linux: the largest packet of segmentation offload,
/// `tcp_min_tso_segs`).
const TRAIN_MOST: u64 = 65_536;
const TRAIN_LEAST: u64 = 2;
/// What is added to a train halves with every so much of the least round-trip time (Linux
/// `tcp_tso_rtt_log`).
const TRAIN_HALVES_PER_US: u64 = 512;
/// Nobody waits for a longer train after so long a pause, nor for an acknowledgement that is so far
/// off, nor with so large a part of the window free (Linux `tcp_tso_should_defer` since 6.18,
/// `tcp_tso_win_divisor`).
const TRAIN_WAIT: Time = Time::from_ms(1);
const TRAIN_WINDOWS: u64 = 3;
/// Windows of segments that new-data limited transmit may exceed (RFC 3042).
const LIMITED_TRANSMIT: u64 = 2;

/// A segment with data or FIN that leaves.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Outgoing {
    pub(crate) seq: u64,
    pub(crate) len: u32,
    pub(crate) has_fin: bool,
    /// It empties the send buffer.
    pub(crate) is_push: bool,
    pub(crate) content: Content,
}

/// What a segment carries, as far as ECN cares.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Content {
    /// Data or a FIN that was not sent before.
    New,
    /// Only what was sent before.
    Again,
    /// Nothing.
    None,
}

impl Sender {
    /// The next segment to leave at `now`, if one may.
    pub(crate) fn poll(&mut self, now: Time) -> Option<Outgoing> {
        if let Some(forced) = self.forced.take() {
            let outgoing = match forced {
                Forced::TailLossProbe => self.send_tail_loss_probe(now),
                Forced::WindowProbe => self.send_window_probe(now),
            };
            if outgoing.is_some() {
                return outgoing;
            }
        }
        self.is_paced = false;
        if self.frto == Frto::NewData {
            if self.nxt > self.recovery_point {
                return None;
            }
            if let Some(outgoing) = self.poll_new(now) {
                return Some(outgoing);
            }
            // Nothing new to test with: repair in the usual way.
            self.frto = Frto::Off;
        }
        if let Some(slot) = self.board.first_lost() {
            let size = self.board.get(slot).size();
            return self.may_send(size, now).then(|| self.retransmit(slot, now));
        }
        self.poll_new(now)
    }

    fn poll_new(&mut self, now: Time) -> Option<Outgoing> {
        let Some((len, has_fin)) = self.next_new(now) else {
            self.note_app_limited();
            return None;
        };
        self.restart_after_idle(now);
        // A FIN takes a number but no room: a transfer of a whole window ends within its round, as
        // with Linux, which holds no FIN back (`tcp_cwnd_test`).
        if !self.may_send(u64::from(len), now) || self.waits_for_train(now) {
            return None;
        }
        Some(self.send_new(len, has_fin, now))
    }

    /// The next segment of new data that the send buffer, Nagle and the other side's window let
    /// go: its bytes, and whether a FIN goes with it.
    fn next_new(&mut self, now: Time) -> Option<(u32, bool)> {
        let unsent = self.unsent();
        let room = self.peer.end.saturating_sub(self.nxt);
        let len = self.worth_sending(unsent.min(self.mss), room);
        let has_fin = self.is_closing && len == unsent;
        if unsent == 0 {
            return (has_fin && !self.is_fin_sent()).then_some((0, true));
        }
        if len == 0 {
            self.arm_persist_timer(now);
            return None;
        }
        let waits = len < self.mss && !has_fin && self.waits_for_company();
        (!waits).then_some((len as u32, has_fin))
    }

    /// How much of a segment of `len` bytes leaves into a window with `room`: all, or what fits if
    /// that is half of the largest window there ever was (RFC 9293 section 3.8.6.2.1), so that a
    /// receiver whose buffer holds no whole segment is not left to the persist timer.
    fn worth_sending(&self, len: u64, room: u64) -> u64 {
        if len <= room {
            len
        } else if room >= self.peer.largest.div_ceil(2) {
            room
        } else {
            0
        }
    }

    /// Nagle's rule holds a short segment back.
    fn waits_for_company(&self) -> bool {
        match self.config.nagle {
            Nagle::Off => false,
            Nagle::Rfc896 => self.nxt > self.una,
            Nagle::Minshall => self.short_end > self.una,
        }
    }

    /// Window and pacing let `size` bytes go.
    fn may_send(&mut self, size: u64, now: Time) -> bool {
        let in_flight = self.in_flight();
        // RFC 3042: the first two duplicate acknowledgements each let a new segment out. SACK
        // tells of them by what is in flight (RFC 6675 section 5).
        let bonus = if self.phase == Phase::Open && !self.has_sack {
            u64::from(self.duplicates).min(LIMITED_TRANSMIT) * self.mss
        } else {
            0
        };
        let window = self.window() + bonus;
        if in_flight > 0 && in_flight + size > window {
            self.note_cwnd_limited(in_flight);
            return false;
        }
        let continues_burst = self.burst_at == now && self.burst_left >= size;
        if self.pace_at > now && !continues_burst {
            self.is_paced = true;
            return false;
        }
        true
    }

    pub(super) fn send_new(&mut self, len: u32, has_fin: bool, now: Time) -> Outgoing {
        let in_flight = self.in_flight();
        let end = self.nxt + u64::from(len) + u64::from(has_fin);
        let mut sent = Sent::new(self.nxt, end, now);
        self.rate.on_send(&mut sent, !self.board.is_empty(), now);
        let first = if has_fin { self.nxt } else { self.bundle(&mut sent) };
        self.control.on_send(now, Bytes::new(u64::from(len)), in_flight);
        self.board.push(sent);
        let seq = self.nxt;
        self.nxt = end;
        if u64::from(len) < self.mss {
            self.short_end = end;
        }
        if in_flight + sent.size() + self.mss > self.window() {
            self.note_cwnd_limited(in_flight + sent.size());
        }
        self.on_sent(len, now);
        if self.rto_at == Time::MAX {
            self.rto_at = now.saturating_add(self.rtt.rto());
        }
        self.schedule_probe(now, false);
        let bundled = (seq - first) as u32;
        if bundled > 0 {
            self.counted.bundles += 1;
            self.counted.bundled_bytes += u64::from(bundled);
            self.counted.bytes_sent += u64::from(bundled);
        }
        Outgoing {
            seq: first,
            len: len + bundled,
            has_fin,
            is_push: self.nxt >= self.written,
            content: Content::New,
        }
    }

    /// How far back a new segment reaches to repeat what is unacknowledged (RDB, 004-spec section
    /// 4.5).
    fn bundle(&self, sent: &mut Sent) -> u64 {
        let Some(bundling) = self.config.bundling else {
            return sent.seq;
        };
        let spacing = bundling.spacing_min.as_ns().saturating_mul(u64::from(self.board.len()));
        let is_thin = spacing < self.rtt.srtt().as_ns();
        if !is_thin || self.config.nagle != Nagle::Off {
            return sent.seq;
        }
        let mut first = sent.seq;
        for position in (0..self.board.len()).rev().take(bundling.segments_max as usize) {
            let earlier = self.board.get(self.board.slot(position));
            if sent.end() - earlier.seq > self.mss {
                break;
            }
            first = earlier.seq;
            sent.is_bundle = true;
        }
        first
    }

    pub(super) fn retransmit(&mut self, slot: u32, now: Time) -> Outgoing {
        let in_flight = self.in_flight();
        let has_flight = self.board.in_flight_count() > 0;
        if self.board.sent_again_count() == 0 {
            self.sent_again_at = Some(now);
        }
        self.board.mark_sent_again(slot, now);
        let is_front = self.board.slot(0) == slot;
        let sent = self.board.get_mut(slot);
        self.rate.on_send(sent, has_flight, now);
        let sent = *sent;
        let has_fin = self.fin_end() == Some(sent.end());
        let len = (sent.size() - u64::from(has_fin)) as u32;
        self.control.on_send(now, Bytes::new(u64::from(len)), in_flight);
        self.counted.retransmissions += 1;
        self.undo.retransmissions += 1;
        self.on_sent(len, now);
        if is_front || self.rto_at == Time::MAX {
            self.rto_at = now.saturating_add(self.rtt.rto());
        }
        Outgoing {
            seq: sent.seq,
            len,
            has_fin,
            is_push: sent.end() >= self.written,
            content: Content::Again,
        }
    }

    fn on_sent(&mut self, len: u32, now: Time) {
        self.sent_at = now;
        self.prr.on_send(u64::from(len));
        self.counted.segments_sent += 1;
        self.counted.bytes_sent += u64::from(len);
        let rate = self.pacing_rate();
        let begins = match rate {
            Some(_) => self.pace_at <= now,
            None => self.burst_at != now || self.burst_left < u64::from(len),
        };
        let before = if begins { self.train(rate) } else { self.burst_left };
        self.burst_left = before.saturating_sub(u64::from(len));
        self.burst_at = now;
        if let Some(rate) = rate {
            let start = self.pace_at.max(now);
            self.pace_at = start.saturating_add(time_for(rate, u64::from(len)));
        }
    }

    /// Bytes that leave at once, at a pacing rate or without.
    fn train(&self, rate: Option<Rate>) -> u64 {
        let offload = self.config.segmentation_offload;
        let millisecond = match rate {
            Some(rate) if offload || self.config.pacing_bursts => rate.as_bit_per_s() / 8 / 1024,
            None if offload && self.rtt.has_sample() => {
                self.window_in(Time::from_ns(1_000_000_000 / 1024))
            }
            _ => return 0,
        };
        let near = self.rtt.min().as_ns() / 1_000 / TRAIN_HALVES_PER_US;
        let near = u32::try_from(near).unwrap_or(u32::MAX);
        let more = if offload { TRAIN_MOST.checked_shr(near).unwrap_or(0) } else { 0 };
        let segments = (millisecond + more).min(TRAIN_MOST) / self.mss;
        segments.max(TRAIN_LEAST) * self.mss
    }

    /// The window has room, but not for a train, and acknowledgements will soon make more.
    fn waits_for_train(&mut self, now: Time) -> bool {
        let continues = self.burst_at == now && self.burst_left >= self.mss;
        let may_wait = self.config.segmentation_offload && !self.in_recovery();
        if !may_wait || continues || now.saturating_sub(self.sent_at) > TRAIN_WAIT {
            return false;
        }
        let in_flight = self.in_flight();
        let offered = self.peer.end.saturating_sub(self.una);
        let room = self.peer.end.saturating_sub(self.nxt);
        let room = room.min(self.window().saturating_sub(in_flight));
        if self.unsent() <= room.max(self.mss) || self.board.is_empty() {
            return false;
        }
        let srtt = self.rtt.srtt();
        let earliest = self.board.get(self.board.slot(0)).sent_at;
        let next_ack_in = earliest.saturating_add(srtt).saturating_sub(now);
        let waits = room < self.train(self.pacing_rate())
            && room < self.window().min(offered) / TRAIN_WINDOWS
            && next_ack_in <= TRAIN_WAIT.min(Time::from_ns(srtt.as_ns() / 2));
        if waits {
            self.note_cwnd_limited(in_flight);
        }
        waits
    }

    /// At which rate segments leave; `None` as the window opens.
    fn pacing_rate(&self) -> Option<Rate> {
        match (self.wanted_rate(), self.config.pacing_rate_max) {
            (Some(rate), Some(most)) => Some(rate.min(most)),
            (rate, most) => rate.or(most),
        }
    }

    fn wanted_rate(&self) -> Option<Rate> {
        let rate = self.control.pacing_rate();
        if rate.is_some() || !self.config.pacing || !self.rtt.has_sample() {
            return rate;
        }
        Some(Rate::from_bit_per_s(self.window_in(Time::from_ns(8_000_000_000))))
    }

    /// Bytes that leave in `time` at what Linux paces at: the window, and more, in a round trip.
    fn window_in(&self, time: Time) -> u64 {
        let window = self.control.window();
        let is_slow_start = window < self.control.slow_start_threshold() / 2;
        let percent = PACING_PERCENT[usize::from(!is_slow_start)];
        let bytes = u128::from(window.max(self.in_flight())) * u128::from(percent);
        let bytes_ns = bytes * u128::from(time.as_ns()) / 100;
        u64::try_from(bytes_ns / u128::from(self.rtt.srtt().as_ns())).unwrap_or(u64::MAX)
    }

    /// The first segment after a pause: the control validates its window. As in Linux idleness is
    /// counted from the last transmission.
    fn restart_after_idle(&mut self, now: Time) {
        if !self.board.is_empty() || self.counted.segments_sent == 0 {
            return;
        }
        let idle = now.saturating_sub(self.sent_at);
        self.control.on_restart(now, idle);
    }

    pub(super) fn note_app_limited(&mut self) {
        let in_flight = self.in_flight();
        let is_idle = self.unsent() < self.mss && self.board.lost_bytes() == 0;
        if is_idle && in_flight < self.window() {
            self.rate.on_app_limited(in_flight);
            self.limited.note(false, in_flight, self.una, self.nxt);
        }
    }

    fn note_cwnd_limited(&mut self, in_flight: u64) {
        self.limited.note(true, in_flight, self.una, self.nxt);
    }

    /// Whether a control should believe that its window was tested.
    pub(super) fn is_cwnd_limited(&self) -> bool {
        let window = self.control.window();
        let is_slow_start = window < self.control.slow_start_threshold();
        self.limited.is_limited || (is_slow_start && window < 2 * self.limited.in_flight_most)
    }

    fn send_window_probe(&mut self, now: Time) -> Option<Outgoing> {
        if !self.board.is_empty() || self.unsent() == 0 {
            return None;
        }
        self.counted.window_probes += 1;
        self.window_probes_in_row += 1;
        let room = self.peer.end.saturating_sub(self.nxt).min(self.unsent()).min(self.mss);
        if room > 0 {
            return Some(self.send_new(room as u32, false, now));
        }
        self.window_probe_backoff = (self.window_probe_backoff + 1).min(16);
        let backoff = 1u64 << self.window_probe_backoff;
        let wait = self.rtt.rto().as_ns().saturating_mul(backoff);
        let wait = Time::from_ns(wait).min(self.config.rto.max);
        self.persist_at = now.saturating_add(wait);
        Some(Outgoing {
            seq: self.una - 1,
            len: 0,
            has_fin: false,
            is_push: false,
            content: Content::None,
        })
    }

    fn arm_persist_timer(&mut self, now: Time) {
        if self.board.is_empty() && self.persist_at == Time::MAX {
            self.persist_at = now.saturating_add(self.rtt.rto());
        }
    }
}

impl super::CwndLimited {
    fn note(&mut self, is_limited: bool, in_flight: u64, una: u64, nxt: u64) {
        let is_new_round = una >= self.round_end;
        if is_new_round || is_limited || (!self.is_limited && in_flight > self.in_flight_most) {
            *self = Self { is_limited, in_flight_most: in_flight, round_end: nxt };
        }
    }
}

/// [`Rate::time_for`] without 128-bit arithmetic where the product of a segment fits in 64 bits.
fn time_for(rate: Rate, bytes: u64) -> Time {
    match (bytes.checked_mul(8_000_000_000), rate.as_bit_per_s()) {
        (Some(bits_ns), bit_per_s @ 1..) => Time::from_ns(bits_ns.div_ceil(bit_per_s)),
        _ => rate.time_for(Bytes::new(bytes)),
    }
}
