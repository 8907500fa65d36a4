//! SplitMix64 (Steele, Lea, Flood 2014): small, seeded, and more than good enough to draw paths
//! and moves.

/// A seeded source of numbers.
#[derive(Clone, Debug)]
pub(super) struct Random(u64);

impl Random {
    pub(super) fn new(seed: u64) -> Self {
        Self(seed)
    }

    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// A number below `limit`, which is not zero. The bias is below `limit` / 2^64.
    pub(super) fn below(&mut self, limit: usize) -> usize {
        let scaled = (u128::from(self.next()) * limit as u128) >> 64;
        usize::try_from(scaled).expect("below a usize")
    }
}
