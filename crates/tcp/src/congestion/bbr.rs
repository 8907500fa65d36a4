//! BBR version 1, as in Linux's `tcp_bbr` (Cardwell et al., "BBR: Congestion-Based Congestion
//! Control", ACM Queue 14(5), 2016; draft-cardwell-iccrg-bbr-congestion-control-00).
//!
//! A model of the path, the largest delivery rate of ten round trips and the least round-trip time
//! of ten seconds, gives the pacing rate and a cap on what is in flight. Includes what Linux has
//! beyond the article: the detection of policers (long-term bandwidth), the provision for
//! aggregated acknowledgements, the budget for segmentation offload, packet conservation in the
//! first round trip of recovery. Departures from Linux: rates are bit/s instead of a fixed point
//! of segments per microsecond, time is in nanoseconds instead of clock ticks; packets that wait
//! in the host's pacer are not known, so they count as being in the network; whether an
//! acknowledgement was delayed is not known either.

use weir_random::Random;
use weir_units::{Bytes, Rate, Time};

use super::max_filter::MaxFilter;
use super::window::Window;
use super::{AckSample, CongestionControl, Signal};

/// Gains are in 1/256.
const UNIT: u64 = 256;
/// 2 / ln 2: the least gain that doubles the rate each round trip.
const HIGH_GAIN: u64 = UNIT * 2_885 / 1_000 + 1;
const DRAIN_GAIN: u64 = UNIT * 1_000 / 2_885;
const WINDOW_GAIN: u64 = 2 * UNIT;
/// One phase to probe, one to drain what that queued, six to cruise.
const CYCLE: [u64; 8] = [UNIT * 5 / 4, UNIT * 3 / 4, UNIT, UNIT, UNIT, UNIT, UNIT, UNIT];
/// Rounds that a bandwidth sample counts for.
const BANDWIDTH_ROUNDS: u64 = CYCLE.len() as u64 + 2;
const MIN_RTT_LASTS: Time = Time::from_ms(10_000);
const PROBE_RTT_LASTS: Time = Time::from_ms(200);
/// Least window in segments: enough for a receiver that acknowledges every other one.
const LEAST_WINDOW: u64 = 4;
/// Linux's initial window in segments, for when nothing is known.
const INITIAL: u64 = 10;
/// Rounds without a quarter more bandwidth after which the pipe is full.
const FULL_ROUNDS: u32 = 3;
/// Round-trip time assumed before there is one.
const NOMINAL_RTT: Time = Time::from_ms(1);

/// Below this rate one segment leaves at a time.
const SINGLE_SEGMENT_RATE: u64 = 1_200_000;
/// What segmentation offload can carry at once, headers taken off.
const LARGEST_BURST: u64 = 65_535 - 320;

/// Rounds of an interval in which a policer may show.
const POLICER_ROUNDS: u32 = 4;
/// Lost of delivered, in 1/256, above which an interval looks policed.
const POLICER_LOSS: u64 = 50;
/// Bandwidths within 1/8, or within this, are the same.
const POLICER_DIFFERENCE: u64 = 4_000;
/// Rounds for which a policer's rate is believed.
const POLICED_ROUNDS: u32 = 48;

/// Rounds of one half of the window in which aggregation is remembered.
const AGGREGATION_ROUNDS: u32 = 5;
/// Most time for which aggregation is provided for.
const AGGREGATION_MOST: Time = Time::from_ms(100);
/// Segments after which the reckoning of aggregation begins afresh.
const AGGREGATION_RESET: u64 = 1 << 20;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Mode {
    Startup,
    Drain,
    ProbeBandwidth,
    ProbeRtt,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd)]
enum Repair {
    None,
    Recovery,
    Loss,
}

/// The long-term bandwidth that a policer lets through.
#[derive(Clone, Copy, Debug, Default)]
struct Policer {
    sampling: bool,
    believed: bool,
    bandwidth: u64,
    rounds: u32,
    since: Time,
    delivered: u64,
    lost: u64,
}

/// How much more is acknowledged at once than the bandwidth explains, in segments.
#[derive(Clone, Copy, Debug, Default)]
struct Aggregation {
    since: Time,
    acked: u64,
    extra: [u64; 2],
    current: usize,
    rounds: u32,
}

#[derive(Debug)]
pub(super) struct Bbr {
    random: Random,
    window: Window,
    mode: Mode,
    pacing_gain: u64,
    window_gain: u64,
    pacing_rate: u64,
    /// Segments that leave as one burst at that rate.
    burst: u64,
    /// One over the bit-nanoseconds per second of a segment.
    segments_per_bit: f64,
    seen_rtt: bool,

    bandwidth: MaxFilter,
    min_rtt: Option<Time>,
    min_rtt_at: Time,
    probe_rtt_done: Option<Time>,
    probe_rtt_round_done: bool,
    /// Samples of packets sent between these two values of `delivered` were limited by us.
    own_limit: (u64, u64),

    round: u64,
    round_until: u64,
    round_start: bool,
    full: bool,
    full_bandwidth: u64,
    full_rounds: u32,
    phase: usize,
    phase_start: Time,

    repair: Repair,
    repair_before: Repair,
    conserving: bool,
    window_before: u64,
    idle_restart: bool,

    delivered: u64,
    lost: u64,
    policer: Policer,
    aggregation: Aggregation,
}

impl Bbr {
    pub(super) fn new(mss: u32, initial_window: u64, now: Time, random: Random) -> Self {
        let mut bbr = Self {
            random,
            window: Window::new(mss, initial_window),
            mode: Mode::Startup,
            pacing_gain: HIGH_GAIN,
            window_gain: HIGH_GAIN,
            pacing_rate: 0,
            burst: 1,
            segments_per_bit: 1.0 / (8e9 * f64::from(mss.max(1))),
            seen_rtt: false,
            bandwidth: MaxFilter::default(),
            min_rtt: None,
            min_rtt_at: now,
            probe_rtt_done: None,
            probe_rtt_round_done: false,
            own_limit: (u64::MAX, 0),
            round: 0,
            round_until: 0,
            round_start: false,
            full: false,
            full_bandwidth: 0,
            full_rounds: 0,
            phase: 0,
            phase_start: now,
            repair: Repair::None,
            repair_before: Repair::None,
            conserving: false,
            window_before: 0,
            idle_restart: false,
            delivered: 0,
            lost: 0,
            policer: Policer { since: now, ..Policer::default() },
            aggregation: Aggregation { since: now, ..Aggregation::default() },
        };
        bbr.pace_from(NOMINAL_RTT);
        bbr
    }

    /// The bandwidth of the path in bit/s, as believed now.
    fn bandwidth(&self) -> u64 {
        if self.policer.believed { self.policer.bandwidth } else { self.bandwidth.get() }
    }

    fn rate(&self, bandwidth: u64, gain: u64) -> u64 {
        // One percent below, so that the queue drains on average.
        (bandwidth as f64 * (gain as f64 * 0.99 / UNIT as f64)) as u64
    }

    /// The first rate: the window in one round-trip time, with the gain of startup.
    fn pace_from(&mut self, rtt: Time) {
        let rtt = rtt.as_ns().max(1) as f64;
        let bandwidth = self.window.bytes() as f64 * 8e9 / rtt;
        self.set_rate(self.rate(bandwidth as u64, HIGH_GAIN));
    }

    fn pace(&mut self, bandwidth: u64, gain: u64) {
        let rate = self.rate(bandwidth, gain);
        if rate != self.pacing_rate && (self.full || rate > self.pacing_rate) {
            self.set_rate(rate);
        }
    }

    /// Paces at `rate`, in bursts of a millisecond's worth.
    fn set_rate(&mut self, rate: u64) {
        self.pacing_rate = rate;
        let bytes = (rate >> 13).min(LARGEST_BURST);
        let least = if rate < SINGLE_SEGMENT_RATE { 1 } else { 2 };
        self.burst = (bytes / self.window.mss()).clamp(least, 127);
    }

    /// Segments that `bandwidth` delivers in `time`.
    fn segments_in(&self, bandwidth: u64, time: Time) -> f64 {
        bandwidth as f64 * (time.as_ns() as f64 * self.segments_per_bit)
    }

    fn bdp(&self, bandwidth: u64, gain: u64) -> u64 {
        let Some(rtt) = self.min_rtt else { return INITIAL };
        let exact = self.segments_in(bandwidth, rtt) * (gain as f64 * (1.0 / UNIT as f64));
        // Rounded up; `ceil` is a call where the processor is not known to have it.
        let whole = exact as u64;
        whole.saturating_add(u64::from((whole as f64) < exact))
    }

    /// `window` with room for bursts in both hosts, even, and above the product when probing.
    fn with_budget(&self, window: u64) -> u64 {
        let rounded = window.saturating_add(3 * self.burst).saturating_add(1) & !1;
        let probing = self.mode == Mode::ProbeBandwidth && self.phase == 0;
        if probing { rounded.saturating_add(2) } else { rounded }
    }

    fn inflight(&self, bandwidth: u64, gain: u64) -> u64 {
        self.with_budget(self.bdp(bandwidth, gain))
    }

    fn is_app_limited(&self, sample: &AckSample) -> bool {
        let (from, to) = self.own_limit;
        sample.is_app_limited || (from..=to).contains(&sample.prior_delivered)
    }

    fn update_bandwidth(&mut self, sample: &AckSample) {
        self.round_start = false;
        let Some(rate) = sample.delivery_rate else { return };
        if sample.prior_delivered >= self.round_until {
            self.round_until = sample.delivered;
            self.round += 1;
            self.round_start = true;
            self.conserving = false;
        }
        let app_limited = self.is_app_limited(sample);
        self.sample_policer(sample.now, sample.lost > 0, app_limited);
        let rate = rate.as_bit_per_s();
        if !app_limited || rate >= self.bandwidth.get() {
            self.bandwidth.update(self.round, rate, BANDWIDTH_ROUNDS);
        }
    }

    fn reset_policer(&mut self, now: Time) {
        self.policer = Policer::default();
        self.restart_policer_interval(now);
    }

    fn restart_policer_interval(&mut self, now: Time) {
        self.policer.since = now;
        self.policer.delivered = self.delivered;
        self.policer.lost = self.lost;
        self.policer.rounds = 0;
    }

    /// A policer shows in two intervals in a row with much loss and the same throughput.
    fn sample_policer(&mut self, now: Time, lost: bool, app_limited: bool) {
        if self.policer.believed {
            if self.mode == Mode::ProbeBandwidth && self.round_start {
                self.policer.rounds += 1;
                if self.policer.rounds >= POLICED_ROUNDS {
                    self.reset_policer(now);
                    self.enter_probe_bandwidth(now);
                }
            }
            return;
        }
        if !self.policer.sampling {
            // The first loss: now the policer's bucket is empty.
            if !lost {
                return;
            }
            self.restart_policer_interval(now);
            self.policer.sampling = true;
        }
        if app_limited {
            self.reset_policer(now);
            return;
        }
        self.policer.rounds += u32::from(self.round_start);
        if self.policer.rounds > 4 * POLICER_ROUNDS {
            self.reset_policer(now);
        } else if self.policer.rounds >= POLICER_ROUNDS && lost {
            self.end_policer_interval(now);
        }
    }

    fn end_policer_interval(&mut self, now: Time) {
        let delivered = self.delivered.saturating_sub(self.policer.delivered);
        let lost = self.lost.saturating_sub(self.policer.lost);
        let little = lost.saturating_mul(UNIT) < delivered.saturating_mul(POLICER_LOSS);
        let time = now.saturating_sub(self.policer.since);
        if delivered == 0 || little || time < Time::from_ms(1) {
            return;
        }
        let bandwidth = (delivered as f64 * 8e9 / time.as_ns() as f64) as u64;
        let before = self.policer.bandwidth;
        let difference = bandwidth.abs_diff(before);
        if before > 0 && (difference <= before / 8 || difference <= POLICER_DIFFERENCE) {
            self.policer.bandwidth = u64::midpoint(bandwidth, before);
            self.policer.believed = true;
            self.policer.rounds = 0;
            self.pacing_gain = UNIT;
            return;
        }
        self.policer.bandwidth = bandwidth;
        self.restart_policer_interval(now);
    }

    fn update_aggregation(&mut self, sample: &AckSample, acked: u64) {
        if sample.delivery_rate.is_none() || acked == 0 {
            return;
        }
        let expected = {
            let since = sample.now.saturating_sub(self.aggregation.since);
            self.segments_in(self.bandwidth(), since) as u64
        };
        let window = self.window.segments();
        let state = &mut self.aggregation;
        if self.round_start {
            state.rounds += 1;
            if state.rounds >= AGGREGATION_ROUNDS {
                state.rounds = 0;
                state.current ^= 1;
                state.extra[state.current] = 0;
            }
        }
        let mut expected = expected;
        if state.acked <= expected || state.acked.saturating_add(acked) >= AGGREGATION_RESET {
            state.acked = 0;
            state.since = sample.now;
            expected = 0;
        }
        state.acked = state.acked.saturating_add(acked).min(AGGREGATION_RESET);
        let extra = state.acked.saturating_sub(expected).min(window);
        state.extra[state.current] = state.extra[state.current].max(extra);
    }

    /// Segments by which the window exceeds its target for the sake of aggregation.
    fn aggregation_window(&self) -> u64 {
        if !self.full {
            return 0;
        }
        let extra = self.aggregation.extra[0].max(self.aggregation.extra[1]);
        extra.min(self.segments_in(self.bandwidth(), AGGREGATION_MOST) as u64)
    }

    /// Whether `bytes` are at most `segments` whole ones, and some.
    fn is_within(&self, bytes: u64, segments: u64) -> bool {
        bytes < segments.saturating_add(1).saturating_mul(self.window.mss())
    }

    fn segments_of(&self, bytes: u64) -> u64 {
        bytes / self.window.mss()
    }

    fn update_phase(&mut self, sample: &AckSample) {
        if self.mode == Mode::ProbeBandwidth && self.is_phase_over(sample) {
            self.next_phase(sample.now);
        }
    }

    fn is_phase_over(&self, sample: &AckSample) -> bool {
        let length = sample.now.saturating_sub(self.phase_start);
        let is_full_length = self.min_rtt.is_none_or(|rtt| length > rtt);
        if self.pacing_gain == UNIT {
            return is_full_length;
        }
        let bandwidth = self.bandwidth.get();
        if self.pacing_gain > UNIT {
            // Until the probe has filled the pipe, or did not fit.
            let reached = || {
                let target = self.inflight(bandwidth, self.pacing_gain);
                let short = target.saturating_sub(self.burst);
                short == 0 || !self.is_within(sample.prior_in_flight, short - 1)
            };
            return is_full_length && (sample.lost > 0 || reached());
        }
        is_full_length || self.is_within(sample.prior_in_flight, self.inflight(bandwidth, UNIT))
    }

    fn next_phase(&mut self, now: Time) {
        self.phase = (self.phase + 1) % CYCLE.len();
        self.phase_start = now;
    }

    fn enter_probe_bandwidth(&mut self, now: Time) {
        self.mode = Mode::ProbeBandwidth;
        // Any phase but the draining one.
        self.phase = CYCLE.len() - 1 - self.random.up_to(6) as usize;
        self.next_phase(now);
    }

    fn leave_probe_rtt(&mut self, now: Time) {
        if self.full {
            self.enter_probe_bandwidth(now);
        } else {
            self.mode = Mode::Startup;
        }
    }

    fn check_full(&mut self, sample: &AckSample) {
        if self.full || !self.round_start || self.is_app_limited(sample) {
            return;
        }
        let bandwidth = self.bandwidth.get();
        if bandwidth >= self.full_bandwidth.saturating_add(self.full_bandwidth / 4) {
            self.full_bandwidth = bandwidth;
            self.full_rounds = 0;
            return;
        }
        self.full_rounds += 1;
        self.full = self.full_rounds >= FULL_ROUNDS;
    }

    fn check_drain(&mut self, sample: &AckSample) {
        if self.mode == Mode::Startup && self.full {
            self.mode = Mode::Drain;
        }
        if self.mode == Mode::Drain {
            let target = self.inflight(self.bandwidth.get(), UNIT);
            if self.is_within(sample.in_flight, target) {
                self.enter_probe_bandwidth(sample.now);
            }
        }
    }

    fn update_min_rtt(&mut self, sample: &AckSample) {
        let now = sample.now;
        let expired = now.saturating_sub(self.min_rtt_at) > MIN_RTT_LASTS;
        if let Some(rtt) = sample.rtt
            && (expired || self.min_rtt.is_none_or(|least| rtt < least))
        {
            self.min_rtt = Some(rtt);
            self.min_rtt_at = now;
        }
        if expired && !self.idle_restart && self.mode != Mode::ProbeRtt {
            self.save_window();
            self.mode = Mode::ProbeRtt;
            self.probe_rtt_done = None;
        }
        if self.mode == Mode::ProbeRtt {
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
            if self.is_within(sample.in_flight, LEAST_WINDOW) {
                self.probe_rtt_done = Some(sample.now.saturating_add(PROBE_RTT_LASTS));
                self.probe_rtt_round_done = false;
                self.round_until = sample.delivered;
            }
            return;
        }
        self.probe_rtt_round_done |= self.round_start;
        if self.probe_rtt_round_done {
            self.check_probe_rtt_done(sample.now);
        }
    }

    fn check_probe_rtt_done(&mut self, now: Time) {
        if self.probe_rtt_done.is_some_and(|done| now > done) {
            self.min_rtt_at = now;
            self.window.set_segments(self.window.segments().max(self.window_before));
            self.leave_probe_rtt(now);
        }
    }

    /// Remembers the window for after the repair, or after the probe.
    fn save_window(&mut self) {
        let window = self.window.segments();
        let is_good = self.repair_before == Repair::None && self.mode != Mode::ProbeRtt;
        self.window_before = if is_good { window } else { self.window_before.max(window) };
    }

    fn update_gains(&mut self) {
        (self.pacing_gain, self.window_gain) = match self.mode {
            Mode::Startup => (HIGH_GAIN, HIGH_GAIN),
            Mode::Drain => (DRAIN_GAIN, HIGH_GAIN),
            Mode::ProbeBandwidth if self.policer.believed => (UNIT, WINDOW_GAIN),
            Mode::ProbeBandwidth => (CYCLE[self.phase], WINDOW_GAIN),
            Mode::ProbeRtt => (UNIT, UNIT),
        };
    }

    /// The window while a loss is repaired: first as much as was delivered, then growing again.
    fn repaired_window(&mut self, sample: &AckSample, acked: u64) -> (u64, bool) {
        let in_flight = || self.segments_of(sample.in_flight).saturating_add(acked);
        let mut window = self.window.segments();
        if sample.lost > 0 {
            let lost = self.segments_of(sample.lost.saturating_add(self.window.mss() - 1));
            window = window.saturating_sub(lost).max(1);
        }
        let (before, now) = (self.repair_before, self.repair);
        let conserving = if now == Repair::Recovery && before != Repair::Recovery {
            window = in_flight();
            true
        } else if before != Repair::None && now == Repair::None {
            window = window.max(self.window_before);
            false
        } else {
            self.conserving
        };
        if conserving && !self.conserving {
            self.round_until = sample.delivered;
        }
        self.conserving = conserving;
        self.repair_before = now;
        if conserving {
            return (window.max(self.segments_of(sample.in_flight).saturating_add(acked)), true);
        }
        (window, false)
    }

    fn set_window_for(&mut self, sample: &AckSample, acked: u64) {
        let mut window = self.window.segments();
        if acked > 0 {
            let (repaired, conserving) = self.repaired_window(sample, acked);
            window = repaired;
            if !conserving {
                let target = self.bdp(self.bandwidth(), self.window_gain);
                let target = target.saturating_add(self.aggregation_window());
                let target = self.with_budget(target);
                if self.full {
                    window = window.saturating_add(acked).min(target);
                } else if window < target || sample.delivered < INITIAL * self.window.mss() {
                    window = window.saturating_add(acked);
                }
                window = window.max(LEAST_WINDOW);
            }
        }
        if self.mode == Mode::ProbeRtt {
            window = window.min(LEAST_WINDOW);
        }
        self.window.set_segments(window);
    }
}

impl CongestionControl for Bbr {
    fn name(&self) -> &'static str {
        "bbr"
    }

    fn on_established(&mut self, _now: Time, rtt: Time) {
        self.min_rtt = Some(rtt);
        self.seen_rtt = true;
        self.pace_from(rtt);
    }

    fn on_ack(&mut self, sample: &AckSample) {
        self.delivered = sample.delivered;
        self.lost = self.lost.saturating_add(sample.lost);
        if !sample.in_recovery {
            self.repair = Repair::None;
        }
        let acked = self.window.whole_segments(sample.acked);
        self.update_bandwidth(sample);
        self.update_aggregation(sample, acked);
        self.update_phase(sample);
        self.check_full(sample);
        self.check_drain(sample);
        self.update_min_rtt(sample);
        self.update_gains();
        if !self.seen_rtt && sample.srtt > Time::ZERO {
            self.seen_rtt = true;
            self.pace_from(sample.srtt);
        }
        self.pace(self.bandwidth(), self.pacing_gain);
        self.set_window_for(sample, acked);
    }

    fn on_congestion(&mut self, signal: Signal, now: Time, _in_flight: u64) {
        match signal {
            // Linux's BBR does not answer a classic echo.
            Signal::Ecn => {}
            Signal::Loss => {
                self.save_window();
                self.repair = Repair::Recovery;
            }
            Signal::Timeout => {
                if self.repair == Repair::None {
                    self.save_window();
                }
                self.repair = Repair::Loss;
                self.repair_before = Repair::Loss;
                self.full_bandwidth = 0;
                self.round_start = true;
                self.sample_policer(now, true, false);
                self.window.set_segments(1);
            }
        }
    }

    fn on_recovery_exit(&mut self, _now: Time) {
        self.repair = Repair::None;
    }

    fn on_spurious(&mut self, now: Time) {
        self.full_bandwidth = 0;
        self.full_rounds = 0;
        self.reset_policer(now);
        self.window.set_segments(self.window.segments().max(self.window_before));
    }

    fn on_send(&mut self, now: Time, _size: Bytes, in_flight: u64) {
        // After a timeout nothing counts as in flight either, but that does not make it idle.
        if in_flight > 0 || self.repair == Repair::Loss {
            return;
        }
        self.idle_restart = true;
        self.aggregation.since = now;
        self.aggregation.acked = 0;
        match self.mode {
            Mode::ProbeBandwidth => self.pace(self.bandwidth(), UNIT),
            Mode::ProbeRtt => self.check_probe_rtt_done(now),
            Mode::Startup | Mode::Drain => {}
        }
    }

    fn window(&self) -> u64 {
        self.window.bytes()
    }

    fn set_window(&mut self, window: u64, _slow_start_threshold: u64) {
        self.window.set_bytes(window);
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
    use super::super::rig::{MSS, Pipe, Point, Rig};
    use super::*;

    fn run(pipe: Pipe, seconds: u64) -> Rig {
        let mut rig = Rig::new("bbr", pipe).tracing(Time::from_ms(10));
        rig.run_until(Time::from_ms(1_000 * seconds));
        rig
    }

    fn after(rig: &Rig, start_ms: u64) -> impl Iterator<Item = &Point> {
        rig.trace.iter().filter(move |p| p.at >= Time::from_ms(start_ms))
    }

    #[test]
    fn the_model_finds_the_rate_and_the_delay_of_the_path() {
        for (mbit_per_s, rtt) in [(10, 20), (100, 50), (500, 10)] {
            let pipe = Pipe::new(mbit_per_s, rtt, 2_000);
            let rig = run(pipe, 9);
            // The product, plus the budget for bursts.
            let burst = (mbit_per_s * 1_000_000 / 8 / 1_024).min(65_215) / u64::from(MSS);
            let target = 2.0 * pipe.bdp() + 3.0 * burst.max(2) as f64;
            let window = rig.segments();
            assert!((window - target).abs() < 0.05 * target + 8.0, "{window} against {target}");
            let sent = rig.delivered as f64 * 8.0 / 9.0 / (mbit_per_s as f64 * 1e6);
            assert!(sent > 0.93, "utilisation {sent} at {mbit_per_s} Mbit/s");
            // In the long run the queue is what one phase of probing leaves.
            let queues = after(&rig, 5_000).map(|p| p.queue as f64).collect::<Vec<_>>();
            let mean = queues.iter().sum::<f64>() / queues.len() as f64;
            assert!(mean < 0.35 * pipe.bdp() + 3.0 * burst.max(2) as f64, "mean queue {mean}");
        }
    }

    #[test]
    fn the_gains_cycle_through_eight_phases_of_a_round_trip() {
        let rig = run(Pipe::new(100, 50, 2_000), 9);
        let gains: Vec<f64> = after(&rig, 4_000)
            .filter_map(|p| p.pacing)
            .map(|rate| rate.as_bit_per_s() as f64 / 0.99 / 100e6)
            .collect();
        let share = |gain: f64| {
            gains.iter().filter(|&&g| (g - gain).abs() < 0.03).count() as f64 / gains.len() as f64
        };
        // Draining ends early when it is done; probing and cruising last a round trip each.
        assert!((0.09..0.20).contains(&share(1.25)), "probing {}", share(1.25));
        assert!((0.02..0.20).contains(&share(0.75)), "draining {}", share(0.75));
        assert!((0.65..0.88).contains(&share(1.0)), "cruising {}", share(1.0));
        assert!(share(1.25) + share(0.75) + share(1.0) > 0.98);
        let mut changes = gains.windows(2).filter(|pair| (pair[0] - pair[1]).abs() > 0.1);
        let up = changes.by_ref().filter(|pair| pair[1] > 1.1).count();
        // Eight phases of a little more than 50 ms, in 5 s.
        assert!((10..=14).contains(&up), "{up} cycles");
    }

    #[test]
    fn the_delay_is_probed_for_200_ms_every_ten_seconds() {
        // The path grows by a microsecond every 10 ms, so that the least delay is not seen again.
        let mut rig = Rig::new("bbr", Pipe::new(100, 50, 2_000)).tracing(Time::from_ms(10));
        for step in 1..=3_500 {
            rig.run_until(Time::from_ms(10 * step));
            rig.pipe.rtt += Time::from_us(1);
        }
        let probing: Vec<bool> = rig.trace.iter().map(|p| p.window <= 4 * u64::from(MSS)).collect();
        let starts: Vec<f64> = probing
            .windows(2)
            .enumerate()
            .filter(|(_, pair)| !pair[0] && pair[1])
            .map(|(index, _)| index as f64 * 0.01)
            .collect();
        assert!(starts.len() == 3, "at {starts:?}");
        for pair in starts.windows(2) {
            assert!((10.0..11.0).contains(&(pair[1] - pair[0])), "at {starts:?}");
        }
        let time = probing.iter().filter(|&&p| p).count() as f64 * 0.01 / 3.0;
        assert!((0.2..0.4).contains(&time), "{time} s each");
        // The window is back at once.
        let back = probing.windows(2).position(|pair| pair[0] && !pair[1]).unwrap() + 2;
        assert!(rig.trace[back].window as f64 > 1.5 * 431.0 * 1_448.0);
    }

    #[test]
    fn random_loss_below_a_fifth_does_not_slow_it_down() {
        let mut pipe = Pipe::new(100, 50, 2_000);
        pipe.lose_every = Some(50);
        let rig = run(pipe, 9);
        let share = rig.delivered as f64 * 8.0 / 9.0 / 100e6;
        assert!(share > 0.85, "{share}");
    }

    #[test]
    fn a_policer_is_detected_and_its_rate_kept() {
        let mut bbr = Bbr::new(MSS, 14_480, Time::ZERO, Random::of_source(1, &["test"]));
        let size = u64::from(MSS);
        let mut delivered = 0;
        for round in 0..40u64 {
            for packet in 0..10u64 {
                delivered += size;
                let now = Time::from_ms(round * 50 + packet * 5 + 5);
                bbr.on_ack(&AckSample {
                    now,
                    acked: size,
                    // A third of what arrives is lost.
                    lost: if packet % 2 == 1 { size } else { 0 },
                    marked: 0,
                    rtt: Some(Time::from_ms(50)),
                    srtt: Time::from_ms(50),
                    min_rtt: Time::from_ms(50),
                    prior_in_flight: 11 * size,
                    in_flight: 10 * size,
                    delivered,
                    prior_delivered: delivered.saturating_sub(10 * size),
                    delivery_rate: Some(Rate::from_mbit_per_s(10)),
                    is_app_limited: false,
                    advances: true,
                    is_cwnd_limited: true,
                    in_recovery: true,
                });
            }
        }
        assert!(bbr.policer.believed);
        // One segment every 5 ms.
        let truth = 1_448.0 * 8.0 / 0.005;
        assert!((bbr.bandwidth() as f64 / truth - 1.0).abs() < 0.02, "{}", bbr.bandwidth());
    }

    #[test]
    fn recovery_conserves_packets_for_a_round_and_then_restores_the_window() {
        let mut rig = Rig::new("bbr", Pipe::new(100, 50, 2_000));
        rig.run_until(Time::from_ms(3_000));
        let before = rig.segments();
        rig.pipe.lose_every = Some(400);
        rig.run_until(Time::from_ms(3_300));
        rig.pipe.lose_every = None;
        rig.run_until(Time::from_ms(4_000));
        assert!((rig.segments() / before - 1.0).abs() < 0.1, "{} of {before}", rig.segments());
    }
}
