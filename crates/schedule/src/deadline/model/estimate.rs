/// Two-sided 95 % quantiles of Student's t distribution by degrees of freedom, from 1.
const STUDENT_95: [f64; 30] = [
    12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228, 2.201, 2.179, 2.160,
    2.145, 2.131, 2.120, 2.110, 2.101, 2.093, 2.086, 2.080, 2.074, 2.069, 2.064, 2.060, 2.056,
    2.052, 2.048, 2.045, 2.042,
];

/// A mean over independent runs, with its 95 % confidence interval.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Estimate {
    /// The mean.
    pub mean: f64,
    /// Half the width of the interval; infinite for a single run.
    pub margin: f64,
}

impl Estimate {
    /// From one value per run; `None` without any.
    pub fn of(values: &[f64]) -> Option<Self> {
        let count = values.len() as f64;
        let mean = values.iter().sum::<f64>() / count;
        match values.len() {
            0 => None,
            1 => Some(Self { mean, margin: f64::INFINITY }),
            // Exactly, and not what rounding leaves of a mean of equal values.
            _ if values.iter().all(|value| *value == values[0]) => {
                Some(Self { mean: values[0], margin: 0.0 })
            }
            runs => {
                let squares: f64 = values.iter().map(|value| (value - mean).powi(2)).sum();
                let deviation = (squares / (count - 1.0)).sqrt();
                // Beyond the table, the first term of the expansion around the normal quantile.
                let beyond = 1.96 + 2.4 / (count - 1.0);
                let quantile = STUDENT_95.get(runs - 2).copied().unwrap_or(beyond);
                Some(Self { mean, margin: quantile * deviation / count.sqrt() })
            }
        }
    }

    /// Estimates the differences `a - b` of paired runs; `None` without any or of unequal counts.
    pub fn of_difference(a: &[f64], b: &[f64]) -> Option<Self> {
        let differences: Vec<f64> = a.iter().zip(b).map(|(a, b)| a - b).collect();
        if a.len() == b.len() { Self::of(&differences) } else { None }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_interval_is_students() {
        // Textbook: 10 values of mean 5.5 and deviation 3.02765: 2.262 * 3.02765 / sqrt(10).
        let values: Vec<f64> = (1..=10).map(f64::from).collect();
        let Estimate { mean, margin } = Estimate::of(&values).unwrap();
        assert!((mean - 5.5).abs() < 1e-12 && (margin - 2.1657).abs() < 1e-4, "{margin}");
        assert_eq!(Estimate::of(&[]), None);
        assert_eq!(Estimate::of(&[3.0]).unwrap().margin, f64::INFINITY);
        let paired = Estimate::of_difference(&[2.0, 3.0], &[1.0, 2.0]).unwrap();
        assert_eq!((paired.mean, paired.margin), (1.0, 0.0));
        assert_eq!(Estimate::of_difference(&[1.0], &[]), None);
        assert_eq!(Estimate::of(&[0.1; 3]), Some(Estimate { mean: 0.1, margin: 0.0 }));
    }
}
