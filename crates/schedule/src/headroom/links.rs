//! What is known of the elephant flows on each link.

/// The flows on one link by the maximum rates that they announced, in bit/s, lowest first.
#[derive(Clone, Debug)]
pub(super) struct Link {
    pub(super) capacity: u64,
    announced: Vec<u64>,
}

impl Link {
    pub(super) fn new(capacity: u64) -> Self {
        Self { capacity, announced: Vec::new() }
    }

    /// How many flows are on it.
    pub(super) fn flows(&self) -> usize {
        self.announced.len()
    }

    pub(super) fn enter(&mut self, rate_max: u64) {
        let at = self.announced.partition_point(|rate| *rate <= rate_max);
        self.announced.insert(at, rate_max);
    }

    pub(super) fn leave(&mut self, rate_max: u64) {
        let after = self.announced.partition_point(|rate| *rate <= rate_max);
        let left = self.announced.remove(after - 1);
        debug_assert_eq!(left, rate_max, "a flow leaves the link with the rate it entered with");
    }

    /// What one more flow without a maximum rate would have, were this link the only one: the
    /// level to which the others' rates are cut so that the capacity is enough.
    pub(super) fn level(&self) -> u64 {
        let (mut left, mut sharing) = (self.capacity, self.announced.len() as u64 + 1);
        for rate in &self.announced {
            if u128::from(*rate) * u128::from(sharing) >= u128::from(left) {
                break;
            }
            left -= rate;
            sharing -= 1;
        }
        left / sharing
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        /// The definition: everyone has the level or, if that is less, the announced rate, and
        /// together they have the capacity, but for what whole numbers leave over. Those that
        /// have left make no difference.
        #[test]
        fn a_link_is_full_at_its_level(
            capacity in 1_u64..1_000_000,
            rates in prop::collection::vec(1_u64..100_000, 0..20),
            gone in prop::collection::vec(1_u64..100_000, 0..20),
        ) {
            let mut link = Link::new(capacity);
            gone.iter().chain(&rates).for_each(|rate| link.enter(*rate));
            gone.iter().for_each(|rate| link.leave(*rate));
            let level = link.level();
            let taken: u64 = rates.iter().map(|rate| (*rate).min(level)).sum::<u64>() + level;
            prop_assert!(taken <= capacity);
            prop_assert!(taken + rates.len() as u64 + 1 > capacity);
            rates.iter().for_each(|rate| link.leave(*rate));
            prop_assert_eq!((link.flows(), link.level()), (0, capacity));
        }
    }
}
