//! When a UDP source sends how much: constant, on and off, by a list of rates, or Poisson.

use weir_application::exponential;
use weir_queue::Random;
use weir_units::{Rate, Time};

use crate::echo::Requests;

const NS_PER_S: u64 = 1_000_000_000;

/// A rate that changes: from each instant on, the rate beside it.
#[derive(Clone, Debug)]
pub(crate) enum Rates {
    /// One rate for ever.
    Constant(Rate),
    /// `on` at the rate, `off` silent, and again.
    OnOff { rate: Rate, on: Time, off: Time },
    /// Instants from the source's start, in order.
    Listed(Vec<(Time, Rate)>),
}

impl Rates {
    /// Change `number`: when, counted from the start, and to what. `None` after the last.
    fn change(&self, number: usize) -> Option<(Time, Rate)> {
        match self {
            Self::Constant(rate) => (number == 0).then_some((Time::ZERO, *rate)),
            Self::OnOff { rate, on, off } => {
                let cycles = number as u64 / 2;
                let begin = Time::from_ns((on.as_ns() + off.as_ns()).saturating_mul(cycles));
                Some(if number.is_multiple_of(2) {
                    (begin, *rate)
                } else {
                    (begin.saturating_add(*on), Rate::ZERO)
                })
            }
            Self::Listed(changes) => changes.get(number).copied(),
        }
    }
}

/// Packets of one size, each due when the integral of the rate says so: exactly, in integers.
#[derive(Clone, Debug)]
pub(crate) struct Paced {
    rates: Rates,
    size: u16,
    next_change: usize,
    rate: Rate,
    /// Up to where the integral was taken.
    at: Time,
    /// Until the next packet, in bits x 10^-9.
    wanting: u64,
}

impl Paced {
    pub(crate) fn new(rates: Rates, size: u16, start: Time) -> Self {
        let wanting = packet_nanobits(size);
        Self { rates, size, next_change: 0, rate: Rate::ZERO, at: start, wanting }
    }

    /// When the next packet leaves; `None` when there is none any more.
    fn next(&mut self, start: Time) -> Option<Time> {
        loop {
            let change = self.rates.change(self.next_change);
            let change_at = change.map(|(at, _)| start.saturating_add(at));
            let rate = self.rate.as_bit_per_s();
            if let Some(span) = self.wanting.checked_next_multiple_of(rate.max(1)) {
                let due = self.at.saturating_add(Time::from_ns(span / rate.max(1)));
                if rate > 0 && change_at.is_none_or(|at| due <= at) {
                    // What the whole nanosecond gave beyond this packet counts for the next.
                    let beyond = span - self.wanting;
                    self.wanting = packet_nanobits(self.size).saturating_sub(beyond);
                    self.at = due;
                    return Some(due);
                }
            }
            let ((_, new_rate), at) = (change?, change_at?);
            let given = rate.saturating_mul((at - self.at).as_ns());
            self.wanting = self.wanting.saturating_sub(given);
            self.at = at;
            self.rate = new_rate;
            self.next_change += 1;
        }
    }
}

fn packet_nanobits(size: u16) -> u64 {
    u64::from(size) * 8 * NS_PER_S
}

/// How large the packets of a Poisson source are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Sizes {
    /// All alike.
    Constant(u16),
    /// Exponential of this mean, in whole bytes, cut to what a packet can have.
    Exponential(u16),
}

/// Packets at independent, exponentially distributed intervals.
#[derive(Clone, Debug)]
pub(crate) struct Poisson {
    mean_ns: f64,
    sizes: Sizes,
    at: Time,
    random: Random,
}

impl Poisson {
    pub(crate) fn new(rate: Rate, sizes: Sizes, start: Time, random: Random) -> Self {
        let (Sizes::Constant(mean) | Sizes::Exponential(mean)) = sizes;
        let mean_ns = packet_nanobits(mean) as f64 / rate.as_bit_per_s() as f64;
        Self { mean_ns, sizes, at: start, random }
    }

    fn next(&mut self) -> (Time, u16) {
        let span = exponential(&mut self.random) * self.mean_ns;
        self.at = self.at.saturating_add(Time::from_ns(span as u64));
        let size = match self.sizes {
            Sizes::Constant(size) => size,
            Sizes::Exponential(mean) => {
                let size = exponential(&mut self.random) * f64::from(mean);
                size.ceil().clamp(1.0, f64::from(u16::MAX)) as u16
            }
        };
        (self.at, size)
    }
}

/// A sequence of packets, of a given size each.
#[derive(Clone, Debug)]
pub(crate) enum Source {
    Paced { paced: Paced, start: Time },
    Poisson(Poisson),
    Requests(Requests),
}

impl Source {
    /// When the next packet leaves and how large it is, IP header included.
    pub(crate) fn next(&mut self) -> Option<(Time, u16)> {
        match self {
            Self::Paced { paced, start } => paced.next(*start).map(|at| (at, paced.size)),
            Self::Poisson(poisson) => Some(poisson.next()),
            Self::Requests(requests) => Some((requests.next(), requests.size)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn due(rates: Rates, size: u16, count: usize) -> Vec<u64> {
        let mut paced = Paced::new(rates, size, Time::ZERO);
        (0..count).map_while(|_| paced.next(Time::ZERO)).map(Time::as_ns).collect()
    }

    #[test]
    fn a_constant_rate_is_exact_over_any_length() {
        // 1250 B at 3 bit/ns is 10^4/3 ns: the third packet is due at 10^4 ns to the nanosecond.
        let rate = Rate::from_bit_per_s(3_000_000_000);
        let times = due(Rates::Constant(rate), 1250, 3_000_000);
        assert_eq!(times[..3], [3_334, 6_667, 10_000]);
        assert_eq!(times[2_999_999], 10_000_000_000);
    }

    #[test]
    fn a_silence_keeps_what_had_come_due() {
        // 1000 B at 8 Mbit/s: 1 ms each; 2.5 ms on, 10 ms off.
        let rates = Rates::OnOff {
            rate: Rate::from_mbit_per_s(8),
            on: Time::from_us(2_500),
            off: Time::from_ms(10),
        };
        let us: Vec<u64> = due(rates, 1_000, 5).iter().map(|ns| ns / 1_000).collect();
        assert_eq!(us, [1_000, 2_000, 13_000, 14_000, 15_000]);
    }

    #[test]
    fn a_list_of_rates_ends_with_its_last_rate() {
        let at = |ms, mbit| (Time::from_ms(ms), Rate::from_mbit_per_s(mbit));
        let rates = Rates::Listed(vec![at(1, 8), at(2, 0)]);
        assert_eq!(due(rates, 500, 5), [1_500_000, 2_000_000]);
    }

    #[test]
    fn poisson_intervals_and_sizes_have_their_means() {
        let random = Random::of_source(1, &["poisson"]);
        let rate = Rate::from_mbit_per_s(10);
        let mut source = Poisson::new(rate, Sizes::Exponential(1_000), Time::ZERO, random);
        let (mut bytes, mut squares, mut last) = (0.0, 0.0, Time::ZERO);
        const N: u32 = 200_000;
        for _ in 0..N {
            let (at, size) = source.next();
            bytes += f64::from(size);
            squares += ((at - last).as_s() * 1e3).powi(2);
            last = at;
        }
        let n = f64::from(N);
        assert!((bytes / n / 1_000.5 - 1.0).abs() < 0.01, "mean size {}", bytes / n);
        assert!((last.as_s() * 1e3 / n / 0.8 - 1.0).abs() < 0.01, "mean interval");
        // The second moment of an exponential is twice the square of its mean.
        assert!((squares / n / 1.28 - 1.0).abs() < 0.02, "second moment {}", squares / n);
    }
}
