//! The rate of a UDT sender: AIMD with decreasing increase (Gu and Grossman 2007 section 3.3), as
//! UDT 4.11 does it.
//!
//! Where the program and draft-gg-udt-03 differ, this is the program, which is what was measured
//! wherever UDT was: the increase is 1/100 packet per SYN at least (the draft: a byte; the program
//! since 2012), only the first reports of an epoch can decrease the rate again (the draft counts
//! decreases), and a decrease rounds the period up to whole microseconds.

use weir_random::Random;
use weir_units::Time;

use super::Report;

/// SYN, the interval of rate control and of acknowledgements.
pub(super) const SYN: Time = Time::from_ms(10);
/// What a decrease multiplies the period with: the rate falls by a ninth.
const DECREASE: f64 = 1.125;
/// The least increase per SYN, in packets.
const INCREASE_LEAST: f64 = 0.01;
/// Reports of one congestion epoch that can decrease the rate, its first among them.
const REPORTS_MAX: u32 = 5;
/// Packets that slow start begins with, and that the window keeps beyond its product.
const WINDOW_LEAST: f64 = 16.0;
/// Size of a packet.
const PACKET_BYTES: f64 = super::PACKET_BYTES as f64;
/// Packets that a receiver has room for.
const WINDOW_MOST: f64 = 25_600.0;
/// Share of a new sample in the averages of what the receiver reports.
const GAIN: f64 = 1.0 / 8.0;

/// The period between packets and the window.
#[derive(Debug)]
pub(super) struct Control {
    random: Random,
    period_s: f64,
    window: f64,
    is_slow_start: bool,
    /// Whether a loss was reported since the last acknowledgement.
    has_loss: bool,
    arrivals_per_s: f64,
    capacity_per_s: f64,
    /// The period before the last decrease.
    period_before_s: f64,
    /// Losses up to here belong to the epoch of the last decrease.
    epoch_end: u64,
    /// Reports of this epoch, as far as they can decrease the rate.
    reports: u32,
    /// Their average over epochs, each time rounded up.
    reports_mean: f64,
    /// One in so many reports of an epoch decreases the rate again.
    one_in: u32,
}

impl Control {
    pub(super) const fn new(random: Random) -> Self {
        Self {
            random,
            period_s: 0.0,
            window: WINDOW_LEAST,
            is_slow_start: true,
            has_loss: false,
            arrivals_per_s: 0.0,
            capacity_per_s: 0.0,
            period_before_s: 0.0,
            epoch_end: 0,
            reports: 0,
            reports_mean: 0.0,
            one_in: 1,
        }
    }

    /// From one packet to the next.
    pub(super) fn period(&self) -> Time {
        Time::from_s(self.period_s)
    }

    /// Packets that may be unacknowledged.
    pub(super) const fn window(&self) -> u64 {
        self.window as u64
    }

    /// `acked` more packets have arrived, without a gap; at most once per SYN.
    pub(super) fn on_ack(&mut self, acked: u64, report: Report, rtt: Time) {
        take_in(&mut self.arrivals_per_s, report.arrivals_per_s);
        take_in(&mut self.capacity_per_s, report.capacity_per_s);
        let product = self.arrivals_per_s * (rtt + SYN).as_s();
        if self.is_slow_start {
            self.window += acked as f64;
            if self.window < WINDOW_MOST {
                return;
            }
            self.leave_slow_start(rtt);
        }
        self.window = (product + WINDOW_LEAST).min(WINDOW_MOST);
        if !std::mem::take(&mut self.has_loss) {
            self.increase();
        }
    }

    /// The increase is a power of ten by what seems to be free.
    fn increase(&mut self) {
        let free = self.capacity_per_s - 1.0 / self.period_s;
        // Below the rate of the last decrease a ninth of the capacity is reason enough.
        let is_below = self.period_s > self.period_before_s;
        let free = if is_below { free.min(self.capacity_per_s / 9.0) } else { free };
        let packets = if free > 0.0 {
            let power = (free * PACKET_BYTES * 8.0).log10().ceil();
            (10_f64.powf(power) * 1.5e-6 / PACKET_BYTES).max(INCREASE_LEAST)
        } else {
            INCREASE_LEAST
        };
        self.period_s = self.period_s * SYN.as_s() / (self.period_s * packets + SYN.as_s());
    }

    /// The receiver misses packets, `first` the first of them; `newest` was sent last.
    pub(super) fn on_loss(&mut self, first: u64, newest: u64, rtt: Time) {
        if self.is_slow_start {
            // What arrives is what the path has room for: no decrease beyond that.
            return self.leave_slow_start(rtt);
        }
        self.has_loss = true;
        if first > self.epoch_end {
            self.period_before_s = self.period_s;
            self.reports_mean += GAIN * (f64::from(self.reports) - self.reports_mean);
            self.reports_mean = self.reports_mean.ceil();
            self.reports = 1;
            self.one_in = (self.reports_mean * self.random.unit()).ceil().max(1.0) as u32;
            self.decrease(newest);
        } else if self.reports < REPORTS_MAX {
            self.reports += 1;
            if self.reports.is_multiple_of(self.one_in) {
                self.decrease(newest);
            }
        }
    }

    fn decrease(&mut self, newest: u64) {
        self.period_s = (self.period_s * 1e6 * DECREASE).ceil() / 1e6;
        self.epoch_end = newest;
    }

    fn leave_slow_start(&mut self, rtt: Time) {
        self.is_slow_start = false;
        let by_window = self.window / (rtt + SYN).as_s();
        let rate = if self.arrivals_per_s > 0.0 { self.arrivals_per_s } else { by_window };
        self.period_s = 1.0 / rate;
    }
}

/// Takes a sample into an average; the first is the average, none leaves it.
fn take_in(average: &mut f64, sample: Option<f64>) {
    if let Some(sample) = sample {
        let gain = if *average > 0.0 { GAIN } else { 1.0 };
        *average += gain * (sample - *average);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const RTT: Time = Time::from_ms(100);

    /// Out of slow start at `per_s` packets, on a path that has room for `capacity`.
    fn control(per_s: f64, capacity: f64) -> Control {
        let mut control = Control::new(Random::of_source(1, &["udt"]));
        let report = Report { arrivals_per_s: Some(per_s), capacity_per_s: Some(capacity) };
        control.on_ack(1, report, RTT);
        control.on_loss(1, 1_000, RTT);
        control
    }

    fn per_s(control: &Control) -> f64 {
        1.0 / control.period_s
    }

    #[test]
    fn the_increase_is_that_of_the_published_table() {
        // Gu and Grossman 2007 table 1: what is free, in Mbit/s, and packets more per SYN; the
        // last two lines by the least of UDT 4.11.
        for (free_mbit_s, packets) in
            [(9_000.0, 10.0), (900.0, 1.0), (90.0, 0.1), (9.0, 0.01), (0.9, 0.01), (0.05, 0.01)]
        {
            let sending = 1_000.0;
            let free = free_mbit_s * 1e6 / (PACKET_BYTES * 8.0);
            let mut control = control(sending, sending + free);
            let report = Report { arrivals_per_s: None, capacity_per_s: None };
            control.on_ack(1, report, RTT);
            // The rate gains `packets` per SYN of 10 ms.
            let gained = (per_s(&control) - sending) * 0.01;
            assert!((gained / packets - 1.0).abs() < 0.01, "{free_mbit_s} Mbit/s: {gained}");
        }
    }

    #[test]
    fn a_new_epoch_takes_a_ninth_and_no_epoch_more_than_half() {
        // 100 µs times 1.125 and again, each time rounded up; no reports have no average,
        // so that each of the first epoch counts.
        let mut control = control(10_000.0, 10_000.0);
        control.on_loss(2, 1_000, RTT);
        assert!((control.period_s * 1e6 - 113.0).abs() < 1e-6);
        // The first of them were sent before the decrease and belong to its epoch.
        (0..100).for_each(|_| control.on_loss(900, 1_000, RTT));
        assert!((control.period_s * 1e6 - 183.0).abs() < 1e-6);
        control.on_loss(1_001, 2_000, RTT);
        assert!((control.period_s * 1e6 - 206.0).abs() < 1e-6);
    }

    #[test]
    fn slow_start_ends_at_the_rate_that_arrives() {
        let control = control(5_000.0, 40_000.0);
        assert!((per_s(&control) - 5_000.0).abs() < 1e-6);
    }
}
