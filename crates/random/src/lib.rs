//! Seeded randomness: one generator per source, so that adding a source disturbs no other.

mod mersenne;

use rand_xoshiro::Xoshiro256PlusPlus;
use rand_xoshiro::rand_core::{RngCore, SeedableRng};

pub use mersenne::MersenneTwister;

/// A stream of random numbers that depends on the seed and the source's name alone, and is the
/// same on every machine (xoshiro256++).
#[derive(Clone, Debug)]
pub struct Random(Xoshiro256PlusPlus);

impl Random {
    /// The stream of the source called `name` (a path such as `["wan", "forward", "loss"]`) in a
    /// scenario of `seed`.
    pub fn of_source(seed: u64, name: &[&str]) -> Self {
        // FNV-1a: stable over versions, unlike the standard library's hashers. The terminator
        // keeps ["ab", "c"] apart from ["a", "bc"].
        let text = name.iter().flat_map(|part| part.bytes().chain([0xff]));
        let hash =
            seed.to_le_bytes().into_iter().chain(text).fold(0xcbf2_9ce4_8422_2325, |h, b| {
                (h ^ u64::from(b)).wrapping_mul(0x0000_0100_0000_01b3)
            });
        Self(Xoshiro256PlusPlus::seed_from_u64(hash))
    }

    /// Uniform in [0, 1).
    pub fn unit(&mut self) -> f64 {
        const TWO_TO_MINUS_53: f64 = 1.0 / (1u64 << 53) as f64;
        (self.0.next_u64() >> 11) as f64 * TWO_TO_MINUS_53
    }

    /// True with `probability` (0 to 1).
    pub fn chance(&mut self, probability: f64) -> bool {
        self.unit() < probability
    }

    /// Uniform in 0..=`max`.
    pub fn up_to(&mut self, max: u64) -> u64 {
        // Multiply-shift: biased by less than one part in 2^64 / max, which no experiment sees.
        ((u128::from(self.0.next_u64()) * (u128::from(max) + 1)) >> 64) as u64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sources_of_one_seed_are_independent_streams_and_repeat() {
        let draw = |seed, name: &[&str]| Random::of_source(seed, name).up_to(u64::MAX);
        assert_eq!(draw(1, &["wan", "forward"]), draw(1, &["wan", "forward"]));
        assert_ne!(draw(1, &["wan", "forward"]), draw(1, &["wan", "backward"]));
        assert_ne!(draw(1, &["wan", "forward"]), draw(2, &["wan", "forward"]));
        assert_ne!(draw(1, &["ab", "c"]), draw(1, &["a", "bc"]));
    }

    #[test]
    fn uniform_draws_fill_their_range() {
        let mut random = Random::of_source(7, &["test"]);
        let draws: Vec<u64> = (0..6_000).map(|_| random.up_to(5)).collect();
        for value in 0..=5 {
            let share = draws.iter().filter(|&&d| d == value).count();
            assert!((900..1_100).contains(&share), "{value} was drawn {share} times of 6000");
        }
        let mean = (0..10_000).map(|_| random.unit()).sum::<f64>() / 10_000.0;
        assert!((mean - 0.5).abs() < 0.01, "mean {mean}");
    }
}
