//! Random numbers of the laws that applications need.

use weir_random::Random;

/// Exponentially distributed, of mean 1.
pub fn exponential(random: &mut Random) -> f64 {
    -(1.0 - random.unit()).ln()
}

/// Normally distributed, of mean 0 and deviation 1 (Box and Muller 1958).
fn normal(random: &mut Random) -> f64 {
    let radius = (2.0 * exponential(random)).sqrt();
    radius * (std::f64::consts::TAU * random.unit()).cos()
}

/// A number whose logarithm is normally distributed, cut at both ends.
#[derive(Clone, Copy, Debug)]
pub(crate) struct LogNormal {
    pub(crate) median: f64,
    /// Deviation of the logarithm.
    pub(crate) sigma: f64,
    pub(crate) least: f64,
    pub(crate) most: f64,
}

impl LogNormal {
    pub(crate) fn draw(self, random: &mut Random) -> f64 {
        (self.median * (self.sigma * normal(random)).exp()).clamp(self.least, self.most)
    }
}

/// Sizes from `least` to `most` bytes with P(X > x) falling as x^-shape (004-spec section 6.5).
#[derive(Clone, Copy, Debug)]
pub(crate) struct TruncatedPareto {
    pub(crate) shape: f64,
    pub(crate) least: u64,
    pub(crate) most: u64,
}

impl TruncatedPareto {
    pub(crate) fn draw(self, random: &mut Random) -> u64 {
        let (least, most) = (self.least as f64, self.most as f64);
        let cut = 1.0 - (least / most).powf(self.shape);
        let size = least * (1.0 - random.unit() * cut).powf(-1.0 / self.shape);
        (size as u64).clamp(self.least, self.most)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn truncated_pareto_has_the_mean_of_the_specification() {
        // 004-spec section 14.1 test 15: shape 0.9, 1 KB to 1 MB, mean 8.98 KB within 1 % of 10^7.
        let sizes = TruncatedPareto { shape: 0.9, least: 1_000, most: 1_000_000 };
        let mut random = Random::of_source(1, &["sizes"]);
        const N: u32 = 10_000_000;
        let mean = (0..N).map(|_| sizes.draw(&mut random) as f64).sum::<f64>() / f64::from(N);
        assert!((mean / 8_980.0 - 1.0).abs() < 0.01, "mean {mean}");
    }

    #[test]
    fn sizes_between_equal_ends_are_all_alike() {
        let sizes = TruncatedPareto { shape: 0.9, least: 5_000, most: 5_000 };
        let mut random = Random::of_source(1, &["sizes"]);
        assert!((0..1_000).all(|_| sizes.draw(&mut random) == 5_000));
    }

    #[test]
    fn a_log_normal_number_has_its_median_and_deviation() {
        let law = LogNormal { median: 5.0, sigma: 1.2, least: 0.0, most: f64::INFINITY };
        let mut random = Random::of_source(1, &["law"]);
        const N: u32 = 200_000;
        let logs: Vec<f64> = (0..N).map(|_| (law.draw(&mut random) / 5.0).ln()).collect();
        let mean = logs.iter().sum::<f64>() / f64::from(N);
        let variance = logs.iter().map(|log| (log - mean).powi(2)).sum::<f64>() / f64::from(N);
        assert!(mean.abs() < 0.01, "mean of the logarithm {mean}");
        assert!((variance.sqrt() / 1.2 - 1.0).abs() < 0.01, "deviation {}", variance.sqrt());
    }
}
