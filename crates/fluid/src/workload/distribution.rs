//! Random sizes, times and rates.

use serde::Deserialize;
use weir_random::Random;

use crate::FluidError;

/// How a number is drawn; what it counts (bytes, seconds) is said where it is used.
///
/// In JSON: `{"exponential": {"mean": 2e9}}`, `{"pareto": {"shape": 4, "minimum": 1.5e10}}`,
/// `{"lognormal": {"median": 1e6, "sigma": 2}}`, `{"empirical": [1e3, 1e3, 1e9]}`,
/// `{"constant": 1e8}`, `{"shifted": {"by": 180, "of": {"exponential": {"mean": 3600}}}}`.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(rename_all = "lowercase", deny_unknown_fields)]
pub enum Distribution {
    /// Always the same.
    Constant(f64),
    /// Exponential.
    Exponential {
        /// Its mean.
        mean: f64,
    },
    /// Pareto of the first kind: P(X > x) = (minimum / x)^shape.
    Pareto {
        /// The tail index; the mean is finite above 1, the variance above 2.
        shape: f64,
        /// The smallest value.
        minimum: f64,
    },
    /// The exponential of a normal variable.
    Lognormal {
        /// The median, which is e to the mean of the logarithm.
        median: f64,
        /// The standard deviation of the logarithm.
        sigma: f64,
    },
    /// One of these, each as likely as the others.
    Empirical(Vec<f64>),
    /// So much more than another. An exponential that is drawn again until it is above a minimum
    /// is one shifted by the minimum.
    Shifted {
        /// What is added.
        by: f64,
        /// To what.
        of: Box<Distribution>,
    },
}

impl Distribution {
    /// Refuses parameters that make no sense; `place` says where they stand.
    pub(crate) fn check(&self, place: &str) -> Result<(), FluidError> {
        let positive = |key: &str, value: f64| {
            if value.is_finite() && value > 0.0 {
                return Ok(());
            }
            let place = format!("{place}.{key}");
            let reason = format!("{value} is not above 0 and finite");
            Err(FluidError::Parameter { place, reason })
        };
        match self {
            Self::Constant(value) => positive("constant", *value),
            Self::Exponential { mean } => positive("exponential.mean", *mean),
            Self::Pareto { shape, minimum } => {
                positive("pareto.shape", *shape)?;
                positive("pareto.minimum", *minimum)
            }
            Self::Lognormal { median, sigma } => {
                positive("lognormal.median", *median)?;
                positive("lognormal.sigma", *sigma)
            }
            Self::Empirical(values) if values.is_empty() => Err(FluidError::Parameter {
                place: format!("{place}.empirical"),
                reason: "there are no values".to_owned(),
            }),
            Self::Empirical(values) => {
                let mut numbered = values.iter().enumerate();
                numbered.try_for_each(|(at, value)| positive(&format!("empirical[{at}]"), *value))
            }
            Self::Shifted { by, of } => {
                positive("shifted.by", *by)?;
                of.check(&format!("{place}.shifted.of"))
            }
        }
    }

    /// Draws a number; always above zero.
    pub fn draw(&self, random: &mut Random) -> f64 {
        match self {
            Self::Constant(value) => *value,
            Self::Exponential { mean } => exponential(random, *mean),
            Self::Pareto { shape, minimum } => minimum * open_unit(random).powf(-1.0 / shape),
            Self::Lognormal { median, sigma } => median * (sigma * normal(random)).exp(),
            Self::Empirical(values) => {
                let last = values.len().saturating_sub(1) as u64;
                values[usize::try_from(random.up_to(last)).unwrap_or(0)]
            }
            Self::Shifted { by, of } => by + of.draw(random),
        }
    }

    /// The mean; infinite for a Pareto distribution of shape 1 or less.
    pub fn mean(&self) -> f64 {
        match self {
            Self::Constant(value) => *value,
            Self::Exponential { mean } => *mean,
            Self::Pareto { shape, .. } if *shape <= 1.0 => f64::INFINITY,
            Self::Pareto { shape, minimum } => shape * minimum / (shape - 1.0),
            Self::Lognormal { median, sigma } => median * (sigma * sigma / 2.0).exp(),
            Self::Empirical(values) => values.iter().sum::<f64>() / values.len() as f64,
            Self::Shifted { by, of } => by + of.mean(),
        }
    }
}

/// Exponential by inversion.
pub(super) fn exponential(random: &mut Random, mean: f64) -> f64 {
    -mean * open_unit(random).ln()
}

/// Standard normal by the method of Box and Muller (1958); the second value is not used.
fn normal(random: &mut Random) -> f64 {
    let radius = (-2.0 * open_unit(random).ln()).sqrt();
    radius * (std::f64::consts::TAU * random.unit()).cos()
}

/// Uniform in (0, 1): neither a logarithm nor a power of it is zero or infinite.
fn open_unit(random: &mut Random) -> f64 {
    const HALF_STEP: f64 = 0.5 / (1u64 << 53) as f64;
    random.unit() + HALF_STEP
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn draws_have_the_mean_and_the_tail_that_they_should() {
        let cases = [
            (Distribution::Exponential { mean: 3.0 }, 3.0, (-1.0f64).exp()),
            (Distribution::Pareto { shape: 4.0, minimum: 1.5 }, 3.0, 0.0),
            (Distribution::Lognormal { median: 2.0, sigma: 0.5 }, 2.0, 0.5),
            (Distribution::Empirical(vec![1.0, 2.0, 3.0, 4.0]), 2.0, 0.5),
            (
                Distribution::Shifted {
                    by: 2.0,
                    of: Distribution::Exponential { mean: 1.0 }.into(),
                },
                3.0,
                (-1.0f64).exp(),
            ),
        ];
        for (distribution, at, share) in cases {
            let mut random = Random::of_source(1, &["test"]);
            let draws: Vec<f64> = (0..1_000_000).map(|_| distribution.draw(&mut random)).collect();
            let mean = draws.iter().sum::<f64>() / draws.len() as f64;
            let error = (mean / distribution.mean() - 1.0).abs();
            assert!(error < 0.005, "{distribution:?} has mean {mean}");
            let share = match distribution {
                Distribution::Pareto { shape, minimum } => (minimum / at).powf(shape),
                _ => share,
            };
            let above = draws.iter().filter(|x| **x > at).count() as f64 / draws.len() as f64;
            assert!((above - share).abs() < 0.005, "{distribution:?}: {above} above {at}");
        }
    }
}
