//! The Poisson-Pareto burst process (000-spec section 3.6.1): bursts of one rate that begin at
//! random and whose lengths have a heavy tail; the source sends at the sum of those under way.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use weir_random::MersenneTwister;
use weir_units::{Rate, Time};

const NS_PER_S: f64 = 1e9;

/// What the bursts of a source have in common.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct BurstLaw {
    /// What each burst adds.
    pub rate: Rate,
    /// Mean seconds between the beginnings of bursts (1 / lambda_p).
    pub interval_s: f64,
    /// Mean seconds that a burst lasts (T_on).
    pub mean_s: f64,
    /// The Hurst parameter H, above 0.5 and below 1; lengths are Pareto of shape 3 - 2 H.
    pub hurst: f64,
}

/// The rates of such a source, without end: from each instant after its start on, a rate.
///
/// Its draws are those of Python's generator: it drew them until the process came here, and a seed
/// keeps its bursts.
#[derive(Clone, Debug)]
pub struct Bursts {
    law: BurstLaw,
    random: MersenneTwister,
    /// The mean interval times the beginnings so far before the origin; `None` once those are over.
    age_s: Option<f64>,
    /// The last beginning after the origin.
    start_s: f64,
    /// Start and length of the burst that begins next.
    upcoming: (f64, f64),
    /// When the bursts under way end; of numbers that are not negative the bits have their order.
    ends: BinaryHeap<Reverse<u64>>,
}

impl Bursts {
    /// Bursts of a law. Those under way at the origin are as if the process were of infinite age,
    /// with what remains of each: the source is stationary from its first packet.
    pub fn new(law: BurstLaw, random: MersenneTwister) -> Self {
        let (ends, upcoming) = (BinaryHeap::new(), (0.0, 0.0));
        let mut bursts = Self { law, random, age_s: None, start_s: 0.0, upcoming, ends };
        bursts.age_s = Some(bursts.draw_interval());
        bursts.upcoming = bursts.draw_burst();
        bursts
    }

    fn draw_interval(&mut self) -> f64 {
        -(1.0 - self.random.unit()).ln() * self.law.interval_s
    }

    /// Start and length of the next burst.
    fn draw_burst(&mut self) -> (f64, f64) {
        let BurstLaw { mean_s, hurst, .. } = self.law;
        let shape = 3.0 - 2.0 * hurst;
        let shortest = mean_s * (shape - 1.0) / shape;
        if let Some(age_s) = self.age_s {
            if age_s < mean_s {
                let length = remainder(self.random.unit(), mean_s, shape);
                self.age_s = Some(age_s + self.draw_interval());
                return (0.0, length);
            }
            self.age_s = None;
        }
        self.start_s += self.draw_interval();
        let length = shortest * (1.0 - self.random.unit()).powf(-1.0 / shape);
        (self.start_s, length)
    }

    fn rate(&self) -> Rate {
        let under_way = self.ends.len() as u64;
        Rate::from_bit_per_s(self.law.rate.as_bit_per_s().saturating_mul(under_way))
    }
}

impl Iterator for Bursts {
    type Item = (Time, Rate);

    fn next(&mut self) -> Option<(Time, Rate)> {
        let (start, length) = self.upcoming;
        let end = self.ends.peek().map(|end| f64::from_bits(end.0));
        let at = match end {
            Some(end) if end <= start => {
                self.ends.pop();
                end
            }
            _ => {
                self.ends.push(Reverse((start + length).to_bits()));
                self.upcoming = self.draw_burst();
                start
            }
        };
        Some((Time::from_ns((at * NS_PER_S).round_ties_even() as u64), self.rate()))
    }
}

/// What remains of a burst met at a random moment: the equilibrium law of the Pareto one.
fn remainder(uniform: f64, mean_s: f64, shape: f64) -> f64 {
    let shortest = mean_s * (shape - 1.0) / shape;
    if uniform < shortest / mean_s {
        return uniform * mean_s;
    }
    let beyond = (1.0 - uniform) * mean_s * (shape - 1.0) / shortest.powf(shape);
    beyond.powf(1.0 / (1.0 - shape))
}
