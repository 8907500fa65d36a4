//! Loss that is the line's, not a queue's.

use weir_queue::Random;

/// Decides for each packet in turn whether the line loses it.
#[derive(Clone, Debug)]
pub enum Loss {
    /// Nothing is lost.
    None,
    /// Each packet is lost with the same probability, independently.
    Bernoulli {
        /// Probability of loss, 0 to 1.
        probability: f64,
        /// Where the draws come from.
        random: Random,
    },
    /// Gilbert-Elliott: a good and a bad state, each with its own probability of loss; the state
    /// may change before each packet. Parameters as in the `gemodel` of Linux netem.
    GilbertElliott {
        /// Probability of going from good to bad.
        p: f64,
        /// Probability of going from bad to good.
        r: f64,
        /// Probability that a packet survives in the bad state.
        h: f64,
        /// Probability that a packet survives in the good state.
        k: f64,
        /// Whether the state is bad; starts good.
        bad: bool,
        /// Where the draws come from.
        random: Random,
    },
}

impl Loss {
    /// Whether the next packet is lost.
    #[inline]
    pub fn strikes(&mut self) -> bool {
        match self {
            Self::None => false,
            Self::Bernoulli { probability, random } => random.chance(*probability),
            Self::GilbertElliott { p, r, h, k, bad, random } => {
                if random.chance(if *bad { *r } else { *p }) {
                    *bad = !*bad;
                }
                !random.chance(if *bad { *h } else { *k })
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn share_lost(mut loss: Loss, packets: u32) -> f64 {
        f64::from((0..packets).filter(|_| loss.strikes()).count() as u32) / f64::from(packets)
    }

    #[test]
    fn bernoulli_loses_its_share() {
        let random = Random::of_source(1, &["loss"]);
        let share = share_lost(Loss::Bernoulli { probability: 0.03, random }, 200_000);
        assert!((share - 0.03).abs() < 0.002, "lost {share}");
    }

    #[test]
    fn gilbert_elliott_loses_its_stationary_share_in_bursts() {
        // Stationary probability of the bad state p / (p + r) = 0.02 / 0.27; mean burst 1 / r.
        let random = Random::of_source(1, &["loss"]);
        let mut loss =
            Loss::GilbertElliott { p: 0.02, r: 0.25, h: 0.0, k: 1.0, bad: false, random };
        let lost: Vec<bool> = (0..400_000).map(|_| loss.strikes()).collect();
        let count = lost.iter().filter(|&&l| l).count() as f64;
        let bursts = lost.windows(2).filter(|pair| !pair[0] && pair[1]).count() as f64;
        let share = count / lost.len() as f64;
        assert!((share - 0.02 / 0.27).abs() < 0.003, "lost {share}");
        assert!((count / bursts - 4.0).abs() < 0.15, "mean burst {}", count / bursts);
    }

    #[test]
    fn certain_and_impossible_loss_are_exact() {
        let random = || Random::of_source(1, &["loss"]);
        assert_eq!(share_lost(Loss::Bernoulli { probability: 1.0, random: random() }, 1_000), 1.0);
        assert_eq!(share_lost(Loss::Bernoulli { probability: 0.0, random: random() }, 1_000), 0.0);
        assert_eq!(share_lost(Loss::None, 1_000), 0.0);
    }
}
