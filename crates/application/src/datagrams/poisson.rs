//! Datagrams at independent, exponentially distributed intervals.

use weir_random::Random;
use weir_units::{Rate, Time};

use super::packet_nanobits;
use crate::draws::exponential;

/// How large the packets of a Poisson source are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Sizes {
    /// All alike.
    Constant(u16),
    /// Exponential of this mean, in whole bytes, cut to what a packet can have.
    Exponential(u16),
}

/// Packets at independent, exponentially distributed intervals.
#[derive(Clone, Debug)]
pub struct Poisson {
    mean_ns: f64,
    sizes: Sizes,
    at: Time,
    random: Random,
}

impl Poisson {
    pub(super) fn new(rate: Rate, sizes: Sizes, start: Time, random: Random) -> Self {
        let (Sizes::Constant(mean) | Sizes::Exponential(mean)) = sizes;
        let mean_ns = packet_nanobits(mean) as f64 / rate.as_bit_per_s() as f64;
        Self { mean_ns, sizes, at: start, random }
    }
}

impl Iterator for Poisson {
    type Item = (Time, u16);

    fn next(&mut self) -> Option<(Time, u16)> {
        let span = exponential(&mut self.random) * self.mean_ns;
        self.at = self.at.saturating_add(Time::from_ns(span as u64));
        let size = match self.sizes {
            Sizes::Constant(size) => size,
            Sizes::Exponential(mean) => {
                let size = exponential(&mut self.random) * f64::from(mean);
                size.ceil().clamp(1.0, f64::from(u16::MAX)) as u16
            }
        };
        Some((self.at, size))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn poisson_intervals_and_sizes_have_their_means() {
        let random = Random::of_source(1, &["poisson"]);
        let rate = Rate::from_mbit_per_s(10);
        let source = Poisson::new(rate, Sizes::Exponential(1_000), Time::ZERO, random);
        let (mut bytes, mut squares, mut last) = (0.0, 0.0, Time::ZERO);
        const N: u32 = 200_000;
        for (at, size) in source.take(N as usize) {
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
