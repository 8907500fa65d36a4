//! Retransmission timeout, tail loss probe, reordering timer, window probes, pacing.

use weir_units::Time;

use super::ack::Work;
use super::scoreboard::Place;
use super::{Forced, Outgoing, Phase, Probe, Sender};
use crate::config::{RestartFrom, TailLossProbe};

/// Segments outstanding or waiting below which a timer is restarted (RFC 7765 section 4).
const RESTART_BELOW: u64 = 4;
/// What a lone segment's acknowledgement may be delayed by (RFC 8985 section 7.2).
const ACK_DELAY_MAX: Time = Time::from_ms(200);
const PROBE_MIN_LINUX318: Time = Time::from_ms(10);

impl Sender {
    /// When [`Self::on_timer`] is wanted, [`Time::MAX`] if never.
    pub(crate) fn next_timer(&self) -> Time {
        let pace_at = if self.is_paced { self.pace_at } else { Time::MAX };
        self.rto_at.min(self.probe_at).min(self.reorder_at).min(self.persist_at).min(pace_at)
    }

    /// Runs the timers that are due.
    pub(crate) fn on_timer(&mut self, now: Time) {
        if self.is_paced && self.pace_at <= now {
            self.is_paced = false;
        }
        if self.reorder_at <= now {
            self.on_reorder_timer(now);
        }
        if self.rto_at <= now && self.probe_at > now {
            self.on_timeout(now);
        }
        if self.probe_at <= now {
            self.on_probe_timer(now);
        }
        if self.persist_at <= now {
            self.persist_at = Time::MAX;
            self.forced = Some(Forced::WindowProbe);
        }
    }

    fn on_reorder_timer(&mut self, now: Time) {
        let prior_in_flight = self.in_flight();
        let mut work = Work::at(now);
        self.detect_losses(&mut work);
        if work.lost > 0 && !self.in_recovery() {
            self.enter_recovery(prior_in_flight, now);
        }
    }

    fn on_probe_timer(&mut self, now: Time) {
        self.probe_at = Time::MAX;
        self.rto_at = now.saturating_add(self.rtt.rto());
        self.forced = Some(Forced::TailLossProbe);
    }

    /// New data if there is some and the other side takes it, else the last segment again (RFC
    /// 8985 section 7.3).
    pub(super) fn send_tail_loss_probe(&mut self, now: Time) -> Option<Outgoing> {
        if self.board.is_empty() || self.in_recovery() {
            return None;
        }
        let len = self.unsent().min(self.mss);
        let is_new = len > 0 && self.nxt + len <= self.peer.end;
        let outgoing = if is_new {
            let has_fin = self.is_closing && len == self.unsent();
            self.send_new(len as u32, has_fin, now)
        } else {
            let slot = self.board.slot(self.board.len() - 1);
            if self.board.get(slot).place != Place::InFlight {
                return None;
            }
            self.retransmit(slot, now)
        };
        self.counted.tail_loss_probes += 1;
        self.probe = Some(Probe { end: self.nxt, is_retransmission: !is_new });
        self.has_rtt_since_probe = false;
        self.probe_at = Time::MAX;
        self.rto_at = now.saturating_add(self.rtt.rto());
        Some(outgoing)
    }

    /// New data was acknowledged.
    pub(super) fn restart_timers(&mut self, now: Time) {
        if self.board.is_empty() {
            (self.rto_at, self.probe_at, self.reorder_at) = (Time::MAX, Time::MAX, Time::MAX);
            return;
        }
        let rto = self.rtt.rto();
        let rto = self.restarted(rto, self.config.rto_restart, now);
        self.rto_at = now.saturating_add(rto);
        self.schedule_probe(now, true);
    }

    /// A timer of `span` that counts from a transmission if the flight is short (RFC 7765; TLPR).
    fn restarted(&self, span: Time, from: Option<RestartFrom>, now: Time) -> Time {
        let Some(from) = from else {
            return span;
        };
        let waiting = self.unsent().div_ceil(self.mss);
        if u64::from(self.board.len()) + waiting >= RESTART_BELOW {
            return span;
        }
        let sent_at = match from {
            RestartFrom::Earliest => self.board.front().map(|sent| sent.sent_at),
            RestartFrom::Last => self.board.last_sent_at(),
        };
        let elapsed = now.saturating_sub(sent_at.unwrap_or(now));
        if span > elapsed { span.saturating_sub(elapsed) } else { span }
    }

    /// Arms the probe after a transmission, or after an acknowledgement of new data (RFC 8985
    /// section 7.2).
    pub(super) fn schedule_probe(&mut self, now: Time, is_ack: bool) {
        self.probe_at = Time::MAX;
        let Some(rule) = self.config.tail_loss_probe else {
            return;
        };
        let is_open = matches!(self.phase, Phase::Open | Phase::Reducing);
        let is_idle = self.board.is_empty() || self.board.sacked_count() > 0;
        let may_probe = self.probe.is_none() && self.has_rtt_since_probe;
        if !self.has_sack || !is_open || is_idle || !may_probe || self.board.lost_bytes() > 0 {
            return;
        }
        let has_room = self.in_flight() < self.window() && self.unsent() > 0;
        if rule == TailLossProbe::Linux318 && has_room {
            return;
        }
        let mut wait = self.probe_timeout(rule);
        if is_ack {
            wait = self.restarted(wait, self.config.probe_restart, now);
        }
        self.probe_at = now.saturating_add(wait).min(self.rto_at);
    }

    fn probe_timeout(&self, rule: TailLossProbe) -> Time {
        if !self.rtt.has_sample() {
            return self.config.rto.initial;
        }
        let srtt = self.rtt.srtt().as_ns();
        let double = Time::from_ns(2 * srtt);
        let is_lone = self.board.len() == 1;
        match rule {
            TailLossProbe::Rfc8985 if is_lone => double.saturating_add(ACK_DELAY_MAX),
            TailLossProbe::Rfc8985 => double,
            TailLossProbe::Linux318 => {
                let delayed = Time::from_ns(srtt + srtt / 2).saturating_add(ACK_DELAY_MAX);
                let wait = if is_lone { double.max(delayed) } else { double };
                wait.max(PROBE_MIN_LINUX318)
            }
        }
    }
}
