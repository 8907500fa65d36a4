//! BBR version 3 (draft-ietf-ccwg-bbr, as of its -06).
//!
//! Version 1's model with bounds learnt from losses: `inflight_longterm` from probes that lost more
//! than 2 %, the short-term bounds from losses between probes; probing goes through four states
//! (`ProbeBW_DOWN`, `CRUISE`, `REFILL`, `UP`) at intervals at which Reno could live beside it.
//! Names and sections are the draft's. Departures: what was in flight and lost when a packet was
//! sent is remembered in 32 steps per window rather than for each packet, and the losses that one
//! acknowledgement tells of count as one range; a millisecond's burst is the only offload.

use weir_random::Random;
use weir_units::{Bytes, Rate, Time};

use super::max_filter::MaxFilter;
use super::{AckSample, CongestionControl, Signal};

const STARTUP_GAIN: f64 = 2.77;
const DRAIN_GAIN: f64 = 0.5;
const DOWN_GAIN: f64 = 0.9;
const UP_GAIN: f64 = 1.25;
const WINDOW_GAIN: f64 = 2.0;
const UP_WINDOW_GAIN: f64 = 2.25;
const PROBE_RTT_WINDOW_GAIN: f64 = 0.5;
/// One percent below the bandwidth on average.
const PACING_MARGIN: f64 = 0.99;
/// Loss of a round trip, in percent, that is too much.
const LOSS_THRESHOLD: u64 = 2;
/// Share of a short-term bound that a round trip with losses leaves.
const BETA: f64 = 0.7;
/// Share of `inflight_longterm` left to others.
const HEADROOM: f64 = 0.15;
/// `MinPipeCwnd`, in segments.
const LEAST_WINDOW: u64 = 4;
const FULL_ROUNDS: u32 = 3;
/// Growth of the rate in a round trip below which the pipe may be full.
const FULL_GROWTH: f64 = 1.25;
const DRAIN_ROUNDS: u64 = 3;
/// Ranges lost in a round trip that end startup.
const STARTUP_RANGES: u32 = 6;
const RENO_ROUNDS: u64 = 63;
const MIN_RTT_LASTS: Time = Time::from_ms(10_000);
const PROBE_RTT_LASTS: Time = Time::from_ms(200);
const PROBE_WAIT_LEAST: Time = Time::from_ms(2_000);
const PROBE_WAIT_SPREAD_NS: u64 = 1_000_000_000;
const EXTRA_ACKED_ROUNDS: u64 = 10;
const LARGEST_BURST: u64 = 64 * 1_024;
/// No bound.
const UNBOUNDED: u64 = u64::MAX;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Startup,
    Drain,
    Down,
    Cruise,
    Refill,
    Up,
    ProbeRtt,
}

impl State {
    fn is_probe_bw(self) -> bool {
        matches!(self, Self::Down | Self::Cruise | Self::Refill | Self::Up)
    }

    fn is_accelerating(self) -> bool {
        matches!(self, Self::Startup | Self::Refill | Self::Up)
    }
}

/// Whether acknowledgements tell of packets sent while probing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum AckPhase {
    Init,
    Refilling,
    ProbeStarting,
    ProbeFeedback,
    ProbeStopping,
}

/// What stood when packets were sent: `delivered`, in flight, lost.
#[derive(Clone, Copy, Debug, Default)]
struct Snapshot {
    delivered: u64,
    in_flight: u64,
    lost: u64,
}

/// Snapshots of the last two windows of sending, in 32 steps each.
#[derive(Debug)]
struct History {
    ring: [Snapshot; Self::STEPS],
    /// Snapshots taken so far, and the one that was looked up last.
    count: usize,
    found: usize,
}

impl History {
    const STEPS: usize = 64;

    fn new() -> Self {
        Self { ring: [Snapshot::default(); Self::STEPS], count: 1, found: 0 }
    }

    fn slot(&mut self, number: usize) -> &mut Snapshot {
        &mut self.ring[number % Self::STEPS]
    }

    /// Notes what stands now, unless the last note was less than a 32nd of the window ago.
    fn note(&mut self, new: Snapshot, window: u64) {
        let last = self.slot(self.count - 1);
        if new.delivered.saturating_sub(last.delivered) < window / 32 {
            // The most that was in flight in this step.
            last.in_flight = last.in_flight.max(new.in_flight);
            return;
        }
        *self.slot(self.count) = new;
        self.count += 1;
    }

    /// What stood when a packet was sent at which `delivered` had been delivered. Packets mostly
    /// arrive in order, so that this moves on from what was found before.
    fn at(&mut self, delivered: u64) -> Snapshot {
        let oldest = self.count.saturating_sub(Self::STEPS);
        self.found = self.found.max(oldest);
        while self.found > oldest && self.slot(self.found).delivered > delivered {
            self.found -= 1;
        }
        while self.found + 1 < self.count && self.slot(self.found + 1).delivered <= delivered {
            self.found += 1;
        }
        *self.slot(self.found)
    }
}

/// The full-pipe estimator.
#[derive(Debug, Default)]
struct FullPipe {
    rate: u64,
    rounds: u32,
    now: bool,
    ever: bool,
}

/// State to return to if the losses turn out to be none.
#[derive(Debug, Default)]
struct Undo {
    state: Option<State>,
    bw_shortterm: u64,
    inflight_shortterm: u64,
    inflight_longterm: u64,
}

#[derive(Debug)]
pub(super) struct Bbr3 {
    random: Random,
    mss: u64,
    initial_window: u64,
    window: u64,
    window_before: u64,
    state: State,
    pacing_rate: u64,
    seen_rtt: bool,

    max_bw: [u64; 2],
    bw_shortterm: u64,
    inflight_shortterm: u64,
    inflight_longterm: u64,
    bw_latest: u64,
    inflight_latest: u64,

    min_rtt: Option<Time>,
    min_rtt_at: Time,
    min_rtt_expired: bool,
    probe_rtt_done: Option<Time>,
    probe_rtt_round_done: bool,
    probe_rtt_window: u64,
    own_limit: (u64, u64),
    idle_restart: bool,

    round: u64,
    round_until: u64,
    round_start: bool,
    loss_round_until: u64,
    loss_round_start: bool,
    is_loss_in_round: bool,
    ranges_in_round: u32,
    drain_start: u64,

    full: FullPipe,
    ack_phase: AckPhase,
    is_probe_sample: bool,
    probe_too_high: bool,
    probe_precautionary: bool,
    cycle_at: Time,
    probe_wait: Time,
    rounds_since_probe: u64,
    up_rounds: u32,
    up_acked: u64,
    up_acked_per_segment: u64,

    extra_acked: MaxFilter,
    extra_since: Time,
    extra_delivered: u64,

    delivered: u64,
    lost: u64,
    history: History,
    in_recovery: bool,
    undo: Undo,
}

impl Bbr3 {
    pub(super) fn new(mss: u32, initial_window: u64, now: Time, random: Random) -> Self {
        let mss = u64::from(mss).max(1);
        let window = initial_window.max(mss);
        let mut bbr = Self {
            random,
            mss,
            initial_window: window,
            window,
            window_before: 0,
            state: State::Startup,
            pacing_rate: 0,
            seen_rtt: false,
            max_bw: [0; 2],
            bw_shortterm: UNBOUNDED,
            inflight_shortterm: UNBOUNDED,
            inflight_longterm: UNBOUNDED,
            bw_latest: 0,
            inflight_latest: 0,
            min_rtt: None,
            min_rtt_at: now,
            min_rtt_expired: false,
            probe_rtt_done: None,
            probe_rtt_round_done: false,
            probe_rtt_window: window,
            own_limit: (u64::MAX, 0),
            idle_restart: false,
            round: 0,
            round_until: 0,
            round_start: false,
            loss_round_until: 0,
            loss_round_start: false,
            is_loss_in_round: false,
            ranges_in_round: 0,
            drain_start: 0,
            full: FullPipe::default(),
            ack_phase: AckPhase::Init,
            is_probe_sample: false,
            probe_too_high: false,
            probe_precautionary: false,
            cycle_at: now,
            probe_wait: Time::ZERO,
            rounds_since_probe: 0,
            up_rounds: 0,
            up_acked: 0,
            up_acked_per_segment: UNBOUNDED,
            extra_acked: MaxFilter::default(),
            extra_since: now,
            extra_delivered: 0,
            delivered: 0,
            lost: 0,
            history: History::new(),
            in_recovery: false,
            undo: Undo::default(),
        };
        bbr.pace_from(Time::from_ms(1));
        bbr
    }

    fn pacing_gain(&self) -> f64 {
        match self.state {
            State::Startup => STARTUP_GAIN,
            State::Drain => DRAIN_GAIN,
            State::Down => DOWN_GAIN,
            State::Up => UP_GAIN,
            State::Cruise | State::Refill | State::ProbeRtt => 1.0,
        }
    }

    fn window_gain(&self) -> f64 {
        match self.state {
            State::Up => UP_WINDOW_GAIN,
            State::ProbeRtt => PROBE_RTT_WINDOW_GAIN,
            _ => WINDOW_GAIN,
        }
    }

    fn max_bw(&self) -> u64 {
        self.max_bw[0].max(self.max_bw[1])
    }

    fn bw(&self) -> u64 {
        self.max_bw().min(self.bw_shortterm)
    }

    fn pace_from(&mut self, rtt: Time) {
        let rate = self.window as f64 * 8e9 / rtt.as_ns().max(1) as f64;
        self.pacing_rate = (rate * STARTUP_GAIN) as u64;
    }

    fn pace(&mut self, gain: f64) {
        let rate = (self.bw() as f64 * (gain * PACING_MARGIN)) as u64;
        if self.full.ever || rate > self.pacing_rate {
            self.pacing_rate = rate;
        }
    }

    fn least_window(&self) -> u64 {
        LEAST_WINDOW * self.mss
    }

    fn bdp(&self, bw: u64, gain: f64) -> u64 {
        let Some(rtt) = self.min_rtt else { return self.initial_window };
        (bw as f64 * (rtt.as_ns() as f64 * gain / 8e9)) as u64
    }

    fn with_budget(&self, inflight: u64) -> u64 {
        let quantum = (self.pacing_rate >> 13).min(LARGEST_BURST).max(2 * self.mss);
        let inflight = inflight.max(3 * quantum).max(self.least_window());
        if self.state == State::Up { inflight.saturating_add(2 * self.mss) } else { inflight }
    }

    fn inflight(&self, bw: u64) -> u64 {
        self.with_budget(self.bdp(bw, 1.0))
    }

    fn with_headroom(&self) -> u64 {
        if self.inflight_longterm == UNBOUNDED {
            return UNBOUNDED;
        }
        let headroom = ((self.inflight_longterm as f64 * HEADROOM) as u64).max(self.mss);
        self.inflight_longterm.saturating_sub(headroom).max(self.least_window())
    }

    fn target_inflight(&self) -> u64 {
        self.bdp(self.bw(), 1.0).min(self.window)
    }

    fn is_app_limited(&self, sample: &AckSample) -> bool {
        let (from, to) = self.own_limit;
        sample.is_app_limited || (from..=to).contains(&sample.prior_delivered)
    }

    fn start_round(&mut self) {
        self.round_until = self.delivered;
    }

    fn update_latest(&mut self, sample: &AckSample, rate: u64) {
        self.loss_round_start = false;
        self.bw_latest = self.bw_latest.max(rate);
        let volume = sample.delivered.saturating_sub(sample.prior_delivered);
        self.inflight_latest = self.inflight_latest.max(volume);
        if sample.prior_delivered >= self.loss_round_until {
            self.loss_round_until = sample.delivered;
            self.loss_round_start = true;
        }
    }

    fn update_max_bw(&mut self, sample: &AckSample, rate: u64) {
        self.round_start = sample.prior_delivered >= self.round_until;
        if self.round_start {
            self.start_round();
            self.round += 1;
            self.rounds_since_probe += 1;
        }
        if rate > 0 && (rate >= self.max_bw() || !self.is_app_limited(sample)) {
            self.max_bw[1] = self.max_bw[1].max(rate);
        }
    }

    /// Forgets the bandwidth of the cycle before the last, if the last had any.
    fn advance_max_bw(&mut self) {
        if self.max_bw[1] > 0 {
            self.max_bw = [self.max_bw[1], 0];
        }
    }

    /// Once per round trip with losses, unless probing: towards what was delivered in it.
    fn adapt_lower_bounds(&mut self) {
        if self.state.is_accelerating() || !self.is_loss_in_round {
            return;
        }
        let bw = if self.bw_shortterm == UNBOUNDED { self.max_bw() } else { self.bw_shortterm };
        let inflight = if self.inflight_shortterm == UNBOUNDED {
            self.window
        } else {
            self.inflight_shortterm
        };
        self.bw_shortterm = self.bw_latest.max((bw as f64 * BETA) as u64);
        self.inflight_shortterm = self.inflight_latest.max((inflight as f64 * BETA) as u64);
    }

    fn reset_short_term(&mut self) {
        self.bw_shortterm = UNBOUNDED;
        self.inflight_shortterm = UNBOUNDED;
    }

    fn reset_congestion_signals(&mut self) {
        self.is_loss_in_round = false;
        self.bw_latest = 0;
        self.inflight_latest = 0;
    }

    fn reset_full(&mut self) {
        self.full = FullPipe { ever: self.full.ever, ..FullPipe::default() };
    }

    fn update_extra_acked(&mut self, sample: &AckSample) {
        let since = sample.now.saturating_sub(self.extra_since).as_ns() as f64;
        let mut expected = (self.bw() as f64 * (since / 8e9)) as u64;
        if self.extra_delivered <= expected {
            self.extra_delivered = 0;
            self.extra_since = sample.now;
            expected = 0;
        }
        self.extra_delivered = self.extra_delivered.saturating_add(sample.acked);
        let extra = self.extra_delivered.saturating_sub(expected).min(self.window);
        let rounds = if self.full.ever { EXTRA_ACKED_ROUNDS } else { 1 };
        self.extra_acked.update(self.round, extra, rounds);
    }

    fn check_full(&mut self, sample: &AckSample, rate: u64) {
        if self.full.now || !self.round_start || self.is_app_limited(sample) {
            return;
        }
        if rate as f64 >= self.full.rate as f64 * FULL_GROWTH {
            self.reset_full();
            self.full.rate = rate;
            return;
        }
        self.full.rounds += 1;
        self.full.now = self.full.rounds >= FULL_ROUNDS;
        self.full.ever |= self.full.now;
    }

    fn check_startup_done(&mut self, sample: &AckSample, sent: Snapshot) {
        if self.state != State::Startup {
            return;
        }
        self.ranges_in_round += u32::from(sample.lost > 0);
        if self.loss_round_start {
            let much = self.ranges_in_round >= STARTUP_RANGES && self.is_too_high(sent);
            if self.in_recovery && much {
                self.undo.state = Some(State::Startup);
                self.full.ever = true;
                self.inflight_longterm =
                    self.bdp(self.bw(), 1.0).max(self.inflight_latest).max(self.least_window());
            }
            self.ranges_in_round = 0;
        }
        if self.full.ever {
            self.state = State::Drain;
            self.drain_start = self.round;
        }
    }

    fn check_drain_done(&mut self, sample: &AckSample) {
        let drained = sample.in_flight <= self.inflight(self.bw());
        if self.state == State::Drain && (drained || self.round > self.drain_start + DRAIN_ROUNDS) {
            self.start_down(sample.now);
        }
    }

    fn start_down(&mut self, now: Time) {
        self.reset_congestion_signals();
        self.up_acked_per_segment = UNBOUNDED;
        self.rounds_since_probe = self.random.up_to(1);
        let spread = Time::from_ns(self.random.up_to(PROBE_WAIT_SPREAD_NS));
        self.probe_wait = PROBE_WAIT_LEAST.saturating_add(spread);
        self.cycle_at = now;
        self.ack_phase = AckPhase::ProbeStopping;
        self.start_round();
        self.state = State::Down;
    }

    fn start_refill(&mut self) {
        self.reset_short_term();
        self.up_rounds = 0;
        self.up_acked = 0;
        self.probe_precautionary = false;
        self.ack_phase = AckPhase::Refilling;
        self.start_round();
        self.state = State::Refill;
    }

    fn start_up(&mut self, rate: u64) {
        self.is_probe_sample = true;
        self.ack_phase = AckPhase::ProbeStarting;
        self.start_round();
        self.reset_full();
        self.full.rate = rate;
        self.state = State::Up;
        self.raise_slope();
    }

    /// Doubles how fast `inflight_longterm` grows.
    fn raise_slope(&mut self) {
        let growth = 1u64 << self.up_rounds;
        self.up_rounds = (self.up_rounds + 1).min(30);
        self.up_acked_per_segment = (self.window / growth).max(self.mss);
    }

    fn update_phase(&mut self, sample: &AckSample, rate: u64, sent: Snapshot) {
        if !self.full.ever || self.adapt_long_term(sample, sent) {
            return;
        }
        let is_over = self.state == State::Up && self.is_time_to_go_down(sample, rate);
        match self.state {
            State::Down => {
                if self.is_time_to_probe(sample.now) {
                    self.start_refill();
                } else if self.is_time_to_cruise(sample) {
                    self.state = State::Cruise;
                }
            }
            State::Cruise if self.is_time_to_probe(sample.now) => self.start_refill(),
            State::Refill if self.round_start => self.start_up(rate),
            State::Up if is_over => {
                self.probe_too_high = false;
                self.start_down(sample.now);
            }
            _ => {}
        }
    }

    fn is_time_to_probe(&self, now: Time) -> bool {
        // As many rounds as segments in flight: Reno's time to grow by as much.
        let rounds = self.rounds_since_probe;
        let coexists = rounds >= RENO_ROUNDS || (rounds + 1) * self.mss > self.target_inflight();
        coexists || now.saturating_sub(self.cycle_at) > self.probe_wait
    }

    fn is_time_to_cruise(&self, sample: &AckSample) -> bool {
        sample.in_flight <= self.with_headroom() && sample.in_flight <= self.inflight(self.max_bw())
    }

    fn is_time_to_go_down(&mut self, sample: &AckSample, rate: u64) -> bool {
        if self.probe_too_high && sample.in_flight >= self.inflight_longterm {
            self.probe_precautionary = true;
            return true;
        }
        if sample.is_cwnd_limited && self.window >= self.inflight_longterm {
            self.reset_full();
            self.full.rate = rate;
            return false;
        }
        self.full.now
    }

    /// Moves the long-term bounds; true if it changed the state.
    fn adapt_long_term(&mut self, sample: &AckSample, sent: Snapshot) -> bool {
        if self.ack_phase == AckPhase::ProbeStarting && self.round_start {
            self.ack_phase = AckPhase::ProbeFeedback;
        }
        if self.ack_phase == AckPhase::ProbeStopping && self.round_start {
            self.is_probe_sample = false;
            self.ack_phase = AckPhase::Init;
            if self.state.is_probe_bw() {
                if !self.is_app_limited(sample) {
                    self.advance_max_bw();
                }
                if self.probe_precautionary && !self.probe_too_high {
                    self.start_refill();
                    return true;
                }
            }
        }
        if self.inflight_longterm < UNBOUNDED && !self.is_too_high(sent) {
            self.inflight_longterm = self.inflight_longterm.max(sent.in_flight);
            if self.state == State::Up {
                self.probe_upward(sample);
            }
        }
        false
    }

    fn probe_upward(&mut self, sample: &AckSample) {
        if !sample.is_cwnd_limited || self.window < self.inflight_longterm {
            return;
        }
        self.up_acked = self.up_acked.saturating_add(sample.acked);
        if self.up_acked >= self.up_acked_per_segment {
            let segments = self.up_acked / self.up_acked_per_segment;
            self.up_acked %= self.up_acked_per_segment;
            let grown = segments.saturating_mul(self.mss);
            self.inflight_longterm = self.inflight_longterm.saturating_add(grown);
        }
        if self.round_start {
            self.raise_slope();
        }
    }

    /// Whether more than the threshold was lost since the packet of `sent` left.
    fn is_too_high(&self, sent: Snapshot) -> bool {
        let lost = self.lost.saturating_sub(sent.lost);
        lost.saturating_mul(100) > sent.in_flight.saturating_mul(LOSS_THRESHOLD)
    }

    fn on_lost(&mut self, sample: &AckSample, sent: Snapshot) {
        if !self.is_loss_in_round {
            self.loss_round_until = sample.delivered;
        }
        self.is_loss_in_round = true;
        if self.is_probe_sample && self.is_too_high(sent) {
            let inflight = self.inflight_at_loss(sample.lost, sent);
            self.probe_too_high = true;
            self.is_probe_sample = false;
            if !self.is_app_limited(sample) {
                let least = (self.target_inflight() as f64 * BETA) as u64;
                self.inflight_longterm = inflight.max(least).max(self.least_window());
            }
            if self.state == State::Up {
                self.undo.state = Some(State::Up);
                self.start_down(sample.now);
            }
        }
    }

    /// At how much in flight the losses crossed the threshold, `size` of them being new.
    fn inflight_at_loss(&self, size: u64, sent: Snapshot) -> u64 {
        let threshold = LOSS_THRESHOLD as f64 / 100.0;
        let inflight = sent.in_flight.saturating_sub(size);
        let lost = self.lost.saturating_sub(sent.lost).saturating_sub(size);
        let prefix = (threshold * inflight as f64 - lost as f64) / (1.0 - threshold);
        inflight.saturating_add(prefix.max(0.0) as u64)
    }

    fn update_min_rtt(&mut self, sample: &AckSample) {
        self.min_rtt_expired = sample.now.saturating_sub(self.min_rtt_at) > MIN_RTT_LASTS;
        if self.min_rtt_expired && self.state != State::ProbeRtt {
            let target = self.bdp(self.bw(), PROBE_RTT_WINDOW_GAIN);
            self.probe_rtt_window = target.max(self.least_window());
        }
        if let Some(rtt) = sample.rtt
            && (self.min_rtt_expired || self.min_rtt.is_none_or(|least| rtt < least))
        {
            self.min_rtt = Some(rtt);
            self.min_rtt_at = sample.now;
        }
    }

    fn check_probe_rtt(&mut self, sample: &AckSample) {
        if self.state != State::ProbeRtt && self.min_rtt_expired && !self.idle_restart {
            self.save_window();
            self.state = State::ProbeRtt;
            self.probe_rtt_done = None;
            self.ack_phase = AckPhase::ProbeStopping;
            self.start_round();
        }
        if self.state == State::ProbeRtt {
            self.probe_rtt(sample);
        }
        self.idle_restart = false;
    }

    fn probe_rtt(&mut self, sample: &AckSample) {
        // What is sent now says nothing about the bandwidth.
        let until = sample.delivered.saturating_add(sample.in_flight);
        let from = if self.own_limit.1 >= sample.delivered { self.own_limit.0 } else { u64::MAX };
        self.own_limit = (from.min(sample.delivered), until);
        if self.probe_rtt_done.is_none() {
            if sample.in_flight <= self.probe_rtt_window {
                self.probe_rtt_done = Some(sample.now.saturating_add(PROBE_RTT_LASTS));
                self.probe_rtt_round_done = false;
                self.start_round();
            }
            return;
        }
        self.probe_rtt_round_done |= self.round_start;
        if self.probe_rtt_round_done {
            self.check_probe_rtt_done(sample.now);
        }
    }

    fn check_probe_rtt_done(&mut self, now: Time) {
        if self.probe_rtt_done.is_none_or(|done| now <= done) {
            return;
        }
        self.min_rtt_at = now;
        self.window = self.window.max(self.window_before);
        self.reset_short_term();
        if self.full.ever {
            self.start_down(now);
            self.state = State::Cruise;
        } else {
            self.state = State::Startup;
        }
    }

    fn save_window(&mut self) {
        let is_good = !self.in_recovery && self.state != State::ProbeRtt;
        self.window_before =
            if is_good { self.window } else { self.window_before.max(self.window) };
    }

    fn save_state(&mut self) {
        self.save_window();
        self.undo = Undo {
            state: None,
            bw_shortterm: self.bw_shortterm,
            inflight_shortterm: self.inflight_shortterm,
            inflight_longterm: self.inflight_longterm,
        };
    }

    fn restore_window(&mut self) {
        self.in_recovery = false;
        self.window = self.window.max(self.window_before);
    }

    fn set_window_for(&mut self, sample: &AckSample) {
        let target = self.bdp(self.bw(), self.window_gain());
        let target = self.with_budget(target.saturating_add(self.extra_acked.get()));
        let grown = self.window.saturating_add(sample.acked);
        if self.full.ever {
            self.window = grown.min(target);
        } else if self.window < target || sample.delivered < self.initial_window {
            self.window = grown;
        }
        self.window = self.window.max(self.least_window());
        if self.state == State::ProbeRtt {
            self.window = self.window.min(self.probe_rtt_window);
        }
        let cap = match self.state {
            State::Down | State::Refill | State::Up => self.inflight_longterm,
            State::ProbeRtt | State::Cruise => self.with_headroom(),
            State::Startup | State::Drain => UNBOUNDED,
        };
        let cap = cap.min(self.inflight_shortterm).max(self.least_window());
        self.window = self.window.min(cap).min(MOST_WINDOW);
    }
}

/// No real window is above this; products below stay within 64 bits.
const MOST_WINDOW: u64 = 1 << 48;

impl CongestionControl for Bbr3 {
    fn name(&self) -> &'static str {
        "bbr3"
    }

    fn on_established(&mut self, _now: Time, rtt: Time) {
        self.min_rtt = Some(rtt);
        self.seen_rtt = true;
        self.pace_from(rtt);
    }

    fn on_send(&mut self, now: Time, size: Bytes, in_flight: u64) {
        let in_flight_with = in_flight.saturating_add(size.count());
        let new =
            Snapshot { delivered: self.delivered, in_flight: in_flight_with, lost: self.lost };
        self.history.note(new, self.window);
        // After a timeout nothing counts as in flight either, but that does not make it idle.
        if in_flight > 0 || self.in_recovery {
            return;
        }
        self.idle_restart = true;
        self.extra_since = now;
        if self.state.is_probe_bw() {
            self.pace(1.0);
        } else if self.state == State::ProbeRtt {
            self.check_probe_rtt_done(now);
        }
    }

    fn on_ack(&mut self, sample: &AckSample) {
        self.delivered = sample.delivered;
        self.lost = self.lost.saturating_add(sample.lost);
        let sent = self.history.at(sample.prior_delivered);
        let rate = sample.delivery_rate.map_or(0, Rate::as_bit_per_s);
        if sample.lost > 0 {
            self.on_lost(sample, sent);
        }
        self.update_latest(sample, rate);
        self.update_max_bw(sample, rate);
        if self.loss_round_start {
            self.adapt_lower_bounds();
            self.is_loss_in_round = false;
        }
        self.update_extra_acked(sample);
        self.check_full(sample, rate);
        self.check_startup_done(sample, sent);
        self.check_drain_done(sample);
        self.update_phase(sample, rate, sent);
        self.update_min_rtt(sample);
        self.check_probe_rtt(sample);
        if self.loss_round_start {
            self.bw_latest = rate;
            self.inflight_latest = sample.delivered.saturating_sub(sample.prior_delivered);
        }
        if !self.seen_rtt && sample.srtt > Time::ZERO {
            self.seen_rtt = true;
            self.pace_from(sample.srtt);
        }
        self.pace(self.pacing_gain());
        self.set_window_for(sample);
    }

    fn on_congestion(&mut self, signal: Signal, _now: Time, _in_flight: u64) {
        if signal == Signal::Ecn {
            return;
        }
        self.save_state();
        self.in_recovery = true;
        if signal == Signal::Timeout {
            self.window = self.mss;
        }
    }

    fn on_recovery_exit(&mut self, _now: Time) {
        self.restore_window();
    }

    fn on_spurious(&mut self, _now: Time) {
        self.restore_window();
        self.is_loss_in_round = false;
        self.reset_full();
        self.bw_shortterm = self.bw_shortterm.max(self.undo.bw_shortterm);
        self.inflight_shortterm = self.inflight_shortterm.max(self.undo.inflight_shortterm);
        self.inflight_longterm = self.inflight_longterm.max(self.undo.inflight_longterm);
        let back = self.undo.state.take().filter(|&state| state != self.state);
        match back {
            Some(State::Startup) => {
                self.full.ever = false;
                if self.state != State::ProbeRtt {
                    self.state = State::Startup;
                }
            }
            Some(_) if self.state != State::ProbeRtt => self.start_refill(),
            _ => {}
        }
    }

    fn window(&self) -> u64 {
        self.window
    }

    fn set_window(&mut self, window: u64, _slow_start_threshold: u64) {
        self.window = window.clamp(self.mss, MOST_WINDOW);
    }

    fn pacing_rate(&self) -> Option<Rate> {
        Some(Rate::from_bit_per_s(self.pacing_rate.max(1)))
    }

    fn wants_prr(&self) -> bool {
        false
    }
}

#[cfg(test)]
mod tests {
    use super::super::rig::{MSS, Pipe, Rig};
    use super::*;

    fn run(pipe: Pipe, seconds: u64) -> Rig {
        let mut rig = Rig::new("bbr3", pipe).tracing(Time::from_ms(10));
        rig.run_until(Time::from_ms(1_000 * seconds));
        rig
    }

    #[test]
    fn the_rate_is_the_bottlenecks_and_the_queue_is_small() {
        for (mbit_per_s, rtt) in [(10, 20), (100, 50), (500, 10)] {
            let pipe = Pipe::new(mbit_per_s, rtt, 2_000);
            let rig = run(pipe, 9);
            let share = rig.delivered as f64 * 8.0 / 9.0 / (mbit_per_s as f64 * 1e6);
            assert!(share > 0.92, "utilisation {share} at {mbit_per_s} Mbit/s");
            let queues: Vec<f64> = rig.trace.iter().skip(400).map(|p| p.queue as f64).collect();
            let mean = queues.iter().sum::<f64>() / queues.len() as f64;
            assert!(mean < 0.25 * pipe.bdp() + 10.0, "mean queue {mean}");
        }
    }

    #[test]
    fn bandwidth_is_probed_at_the_coexistence_intervals() {
        // 63 round trips of 20 ms are less than two seconds, so that Reno's time rules; on long
        // paths it is two to three seconds.
        for (rtt, least, most) in [(20, 1.26, 1.9), (100, 2.0, 3.6)] {
            let rig = run(Pipe::new(100, rtt, 4_000), 30);
            let fast: Vec<bool> = rig
                .trace
                .iter()
                .map(|p| p.pacing.unwrap().as_bit_per_s() as f64 > 1.15 * 100e6)
                .collect();
            let starts: Vec<f64> = (400..fast.len())
                .filter(|&i| fast[i] && !fast[i - 1])
                .map(|i| i as f64 * 0.01)
                .collect();
            assert!(starts.len() > 5, "{rtt} ms: {starts:?}");
            // A probe of the delay, every ten seconds, begins the wait anew.
            let mut gaps: Vec<f64> = starts.windows(2).map(|pair| pair[1] - pair[0]).collect();
            gaps.sort_by(f64::total_cmp);
            let usual = &gaps[..gaps.len() - 2];
            assert!(usual.iter().all(|gap| (least..most).contains(gap)), "{rtt} ms: {gaps:?}");
        }
    }

    #[test]
    fn the_delay_is_probed_at_half_the_product() {
        let mut rig = Rig::new("bbr3", Pipe::new(100, 50, 2_000)).tracing(Time::from_ms(10));
        for step in 1..=2_500 {
            rig.run_until(Time::from_ms(10 * step));
            rig.pipe.rtt += Time::from_us(1);
        }
        let half = rig.pipe.bdp() / 2.0;
        let probing: Vec<usize> = (300..rig.trace.len())
            .filter(|&i| (rig.trace[i].window as f64) < 1.1 * half * f64::from(MSS))
            .collect();
        let time = probing.len() as f64 * 0.01;
        assert!((0.4..0.8).contains(&time), "{time} s in 25 s");
        let gap = probing.windows(2).map(|pair| pair[1] - pair[0]).max().unwrap();
        assert!((1_000..1_100).contains(&gap), "every {gap} x 10 ms");
    }

    #[test]
    fn a_shallow_buffer_is_learnt_and_left_headroom() {
        // A quarter of the product: startup overflows it, later probes know it.
        let pipe = Pipe::new(100, 50, 107);
        let mut rig = run(pipe, 10);
        let early = rig.losses;
        rig.run_until(Time::from_ms(40_000));
        let share = rig.delivered as f64 * 8.0 / 40.0 / 100e6;
        assert!(share > 0.85, "utilisation {share}");
        let sent = (rig.delivered / u64::from(MSS)) as f64;
        let late = (rig.losses - early) as f64 / (0.75 * sent);
        assert!(late < 0.02, "{late} lost");
    }

    #[test]
    fn loss_above_two_percent_slows_it_and_below_does_not() {
        let share = |every| {
            let mut pipe = Pipe::new(100, 50, 2_000);
            pipe.lose_every = Some(every);
            run(pipe, 20).delivered as f64 * 8.0 / 20.0 / 100e6
        };
        let (little, much) = (share(200), share(10));
        assert!(little > 0.8, "{little} at 0.5 %");
        assert!(much < 0.5, "{much} at 10 %");
    }
}
