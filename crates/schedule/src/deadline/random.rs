/// A seeded stream of random numbers, the same on every machine (SplitMix64; Steele, Lea, Flood
/// 2014). `weir_random` names its streams in words; here one begins for each server and flow of a
/// million slots, and beginning one must cost next to nothing.
#[derive(Clone, Debug)]
pub struct Random(u64);

impl Random {
    /// The stream of that seed and path of numbers below it, such as server 7, flow 12. Streams
    /// of different paths are independent, so that adding one disturbs no other.
    pub fn new(seed: u64, path: &[u64]) -> Self {
        path.iter().fold(Self(seed), |mut random, part| {
            Self(random.next() ^ part.wrapping_mul(0xD6E8_FEB8_6659_FD93))
        })
    }

    pub(super) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        z ^ (z >> 31)
    }

    /// Uniform in (0, 1].
    pub(super) fn unit(&mut self) -> f64 {
        ((self.next() >> 11) + 1) as f64 / (1_u64 << 53) as f64
    }

    /// Uniform in `low..=high`.
    pub fn between(&mut self, low: u64, high: u64) -> u64 {
        // Multiply-shift: biased by less than one part in 2^64 / span, which nobody sees.
        let span = u128::from(high - low) + 1;
        low + ((u128::from(self.next()) * span) >> 64) as u64
    }

    /// A uniform permutation (Fisher and Yates).
    pub(crate) fn shuffle<T>(&mut self, items: &mut [T]) {
        for last in (1..items.len()).rev() {
            let other = self.between(0, last as u64) as usize;
            items.swap(last, other);
        }
    }
}
