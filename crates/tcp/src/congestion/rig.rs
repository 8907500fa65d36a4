//! A test rig: one sender, one bottleneck, every packet.
//!
//! A packet of one MSS takes `MSS / rate` at the bottleneck and half the base round-trip time on
//! either side; each is acknowledged at once. Loss is told exactly, when the third packet behind
//! it is acknowledged; what was lost is sent again first. The recovery of the endpoint is
//! simplified to its bones (no PRR), so that a control under test is seen by itself.

use std::collections::VecDeque;

use weir_random::Random;
use weir_units::{Bytes, Rate, Time};

use super::{AckSample, Algorithm, CongestionControl, EcnUse, Signal};

pub(super) const MSS: u32 = 1_448;

/// A bottleneck and the path around it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Pipe {
    pub(super) rate: Rate,
    pub(super) rtt: Time,
    /// Most packets that wait at the bottleneck.
    pub(super) buffer: usize,
    /// Packets that find more than this many waiting are marked.
    pub(super) step: Option<usize>,
    /// Share of packets marked at random.
    pub(super) mark: f64,
    /// Every how many packets one is lost.
    pub(super) lose_every: Option<u64>,
}

impl Pipe {
    pub(super) fn new(mbit_per_s: u64, rtt_ms: u64, buffer: usize) -> Self {
        Self {
            rate: Rate::from_mbit_per_s(mbit_per_s),
            rtt: Time::from_ms(rtt_ms),
            buffer,
            step: None,
            mark: 0.0,
            lose_every: None,
        }
    }

    /// Bandwidth-delay product in packets.
    pub(super) fn bdp(&self) -> f64 {
        self.rate.as_bit_per_s() as f64 * self.rtt.as_s() / 8.0 / f64::from(MSS)
    }
}

#[derive(Clone, Copy, Debug)]
struct Packet {
    number: u64,
    sent: Time,
    first_sent: Time,
    delivered: u64,
    delivered_at: Time,
    marked: bool,
    app_limited: bool,
    /// When its acknowledgement comes; `None` if it was dropped.
    back: Option<Time>,
}

/// What a run looked like at one instant.
#[derive(Clone, Copy, Debug)]
pub(super) struct Point {
    pub(super) at: Time,
    pub(super) window: u64,
    pub(super) queue: usize,
    pub(super) pacing: Option<Rate>,
}

#[derive(Debug)]
pub(super) struct Rig {
    pub(super) pipe: Pipe,
    pub(super) control: Box<dyn CongestionControl>,
    pub(super) now: Time,
    random: Random,
    flight: VecDeque<Packet>,
    /// When each packet at the bottleneck has left it.
    leaving: VecDeque<Time>,
    next: u64,
    in_flight: u64,
    pub(super) delivered: u64,
    delivered_at: Time,
    first_sent: Time,
    app_limited_until: u64,
    srtt: Time,
    min_rtt: Time,
    next_send: Time,
    /// In recovery: what had been sent when it began, and the packet whose delivery ends it.
    recovery: Option<(u64, u64)>,
    ecn_until: u64,
    /// Bytes that the application still has; `u64::MAX` for a bulk sender.
    pub(super) to_send: u64,
    pub(super) losses: u64,
    pub(super) trace: Vec<Point>,
    every: Time,
}

impl Rig {
    pub(super) fn new(name: &str, pipe: Pipe) -> Self {
        let algorithm: Algorithm = name.parse().expect("a known control");
        let random = Random::of_source(1, &["control"]);
        let control = algorithm.build(MSS, 10 * u64::from(MSS), Time::ZERO, random);
        Self {
            pipe,
            control,
            now: Time::ZERO,
            random: Random::of_source(1, &["rig"]),
            flight: VecDeque::new(),
            leaving: VecDeque::new(),
            next: 0,
            in_flight: 0,
            delivered: 0,
            delivered_at: Time::ZERO,
            first_sent: Time::ZERO,
            app_limited_until: 0,
            srtt: Time::ZERO,
            min_rtt: Time::MAX,
            next_send: Time::ZERO,
            recovery: None,
            ecn_until: 0,
            to_send: u64::MAX,
            losses: 0,
            trace: Vec::new(),
            every: Time::MAX,
        }
    }

    /// Notes the state every `every`.
    pub(super) fn tracing(mut self, every: Time) -> Self {
        self.every = every;
        self
    }

    pub(super) fn queue(&self) -> usize {
        self.leaving.len()
    }

    pub(super) fn segments(&self) -> f64 {
        self.control.window() as f64 / f64::from(MSS)
    }

    /// Mean window in segments over the points of the trace from `start` on.
    pub(super) fn mean_window(&self, start: Time) -> f64 {
        let windows: Vec<f64> =
            self.trace.iter().filter(|p| p.at >= start).map(|p| p.window as f64).collect();
        windows.iter().sum::<f64>() / windows.len() as f64 / f64::from(MSS)
    }

    /// Sets window and threshold, in segments.
    pub(super) fn set(&mut self, window: u64, threshold: u64) {
        let mss = u64::from(MSS);
        self.control.set_window(window * mss, threshold * mss);
    }

    /// Runs until `end`.
    pub(super) fn run_until(&mut self, end: Time) {
        let mut guard = 0u64;
        loop {
            self.send_all();
            let ack = self.flight.iter().find_map(|packet| packet.back);
            let paced = self.can_send().then_some(self.next_send).filter(|&at| at > self.now);
            let Some(next) = [ack, paced].into_iter().flatten().min() else {
                self.note(end);
                if self.flight.is_empty() {
                    self.now = end;
                    return;
                }
                self.time_out();
                continue;
            };
            if next > end {
                self.note(end);
                self.now = end;
                return;
            }
            self.note(next);
            self.now = next;
            if ack == Some(next) {
                self.take_ack();
            }
            guard += 1;
            assert!(guard < 200_000_000, "the rig runs away");
        }
    }

    fn note(&mut self, until: Time) {
        if self.every == Time::MAX {
            return;
        }
        loop {
            let at = Time::from_ns(self.trace.len() as u64 * self.every.as_ns());
            if at > until {
                return;
            }
            while self.leaving.front().is_some_and(|&gone| gone <= at) {
                self.leaving.pop_front();
            }
            self.trace.push(Point {
                at,
                window: self.control.window(),
                queue: self.leaving.len(),
                pacing: self.control.pacing_rate(),
            });
        }
    }

    fn can_send(&self) -> bool {
        let mss = u64::from(MSS);
        self.to_send >= mss && self.in_flight + mss <= self.control.window()
    }

    fn send_all(&mut self) {
        while self.can_send() && self.next_send <= self.now {
            self.send();
            if let Some(rate) = self.control.pacing_rate() {
                let base = self.next_send.max(self.now);
                self.next_send = base.saturating_add(
                    rate.time_for(Bytes::new(u64::from(MSS))).min(Time::from_ms(1_000)),
                );
            }
        }
        if self.to_send < u64::from(MSS) {
            self.app_limited_until = (self.delivered + self.in_flight).max(1);
        }
    }

    fn send(&mut self) {
        let size = u64::from(MSS);
        if self.in_flight == 0 {
            self.first_sent = self.now;
            self.delivered_at = self.now;
        }
        self.control.on_send(self.now, Bytes::new(size), self.in_flight);
        while self.leaving.front().is_some_and(|&gone| gone <= self.now) {
            self.leaving.pop_front();
        }
        let half = Time::from_ns(self.pipe.rtt.as_ns() / 2);
        let waiting = self.leaving.len();
        let dropped = waiting > self.pipe.buffer
            || self.pipe.lose_every.is_some_and(|n| self.next % n == n - 1);
        let capable = self.control.ecn() != EcnUse::None;
        let marked = capable
            && (self.pipe.step.is_some_and(|step| waiting > step)
                || self.random.chance(self.pipe.mark));
        let back = (!dropped).then(|| {
            let start = self.leaving.back().copied().unwrap_or(self.now).max(self.now);
            let left = start + self.pipe.rate.time_for(Bytes::new(size));
            self.leaving.push_back(left);
            left + half + half
        });
        self.flight.push_back(Packet {
            number: self.next,
            sent: self.now,
            first_sent: self.first_sent,
            delivered: self.delivered,
            delivered_at: self.delivered_at,
            marked,
            app_limited: self.app_limited_until > self.delivered,
            back,
        });
        self.next += 1;
        self.in_flight += size;
        if self.to_send != u64::MAX {
            self.to_send -= size;
        }
    }

    /// The oldest packet that was not lost comes back; those three and more before it were lost.
    fn take_ack(&mut self) {
        let size = u64::from(MSS);
        let prior_in_flight = self.in_flight;
        let place = self.flight.iter().position(|packet| packet.back.is_some()).expect("one");
        let packet = self.flight.remove(place).expect("it is there");
        let (lost, oldest) = self.find_lost(packet.number);
        self.delivered += size;
        self.in_flight -= size + lost * size;
        self.losses += lost;
        if self.to_send != u64::MAX {
            self.to_send += lost * size;
        }
        // Over when what was sent again has arrived, and nothing from before is missing.
        let missing = self.flight.front().map_or(oldest, |first| first.number.min(oldest));
        if self.recovery.is_some_and(|(high, until)| packet.number >= until && missing >= high) {
            self.recovery = None;
            self.control.on_recovery_exit(self.now);
        }
        let resent = self.next + lost;
        if let Some((high, until)) = &mut self.recovery {
            // What is sent again has to arrive, too.
            if lost > 0 && oldest < *high {
                *until = resent;
            }
        } else if lost > 0 {
            self.control.on_congestion(Signal::Loss, self.now, prior_in_flight);
            self.recovery = Some((self.next, resent));
        } else if packet.marked
            && self.control.ecn() == EcnUse::Classic
            && packet.number >= self.ecn_until
        {
            self.control.on_congestion(Signal::Ecn, self.now, prior_in_flight);
            self.ecn_until = self.next;
        }
        let sample = self.sample(&packet, lost * size, prior_in_flight);
        self.control.on_ack(&sample);
    }

    /// How many packets before `number` are lost, and the first of them.
    fn find_lost(&mut self, number: u64) -> (u64, u64) {
        let (before, mut oldest) = (self.flight.len(), u64::MAX);
        // Those that come back stand at the front, but for a few lost ones before them.
        while let Some(packet) = self.flight.front()
            && packet.back.is_none()
            && packet.number + 3 <= number
        {
            oldest = oldest.min(packet.number);
            self.flight.pop_front();
        }
        ((before - self.flight.len()) as u64, oldest)
    }

    fn sample(&mut self, packet: &Packet, lost: u64, prior_in_flight: u64) -> AckSample {
        let size = u64::from(MSS);
        let rtt = self.now - packet.sent;
        self.min_rtt = self.min_rtt.min(rtt);
        self.srtt = if self.srtt == Time::ZERO {
            rtt
        } else {
            Time::from_ns((7 * self.srtt.as_ns() + rtt.as_ns()) / 8)
        };
        self.delivered_at = self.now;
        self.first_sent = packet.sent;
        let sending = packet.sent.saturating_sub(packet.first_sent);
        let acking = self.now.saturating_sub(packet.delivered_at);
        let interval = sending.max(acking);
        let amount = self.delivered - packet.delivered;
        let rate = (interval >= self.min_rtt)
            .then(|| (u128::from(amount) * 8_000_000_000 / u128::from(interval.as_ns())) as u64);
        AckSample {
            now: self.now,
            acked: size,
            lost,
            marked: if packet.marked { size } else { 0 },
            rtt: Some(rtt),
            srtt: self.srtt,
            min_rtt: self.min_rtt,
            prior_in_flight,
            in_flight: self.in_flight,
            delivered: self.delivered,
            prior_delivered: packet.delivered,
            delivery_rate: rate.map(Rate::from_bit_per_s),
            is_app_limited: packet.app_limited,
            advances: true,
            is_cwnd_limited: prior_in_flight + size > self.control.window(),
            in_recovery: self.recovery.is_some(),
        }
    }

    /// Everything in flight was lost and nothing tells: 200 ms later the timer runs out.
    fn time_out(&mut self) {
        self.now = self.now.max(self.next_send) + Time::from_ms(200);
        let lost = self.flight.len() as u64;
        self.losses += lost;
        if self.to_send != u64::MAX {
            self.to_send += self.in_flight;
        }
        self.control.on_congestion(Signal::Timeout, self.now, self.in_flight);
        self.in_flight = 0;
        self.flight.clear();
        self.recovery = Some((self.next, self.next));
    }
}
