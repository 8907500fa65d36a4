//! The largest of the recent samples, in constant space.

/// Windowed maximum by Kathleen Nichols' method: the best sample of the window, the best since
/// that one, and the best since the second, which take over as the window moves on. Exact while
/// samples grow, and never older than the window.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct MaxFilter {
    /// `(time, value)`, best first.
    best: [(u64, u64); 3],
}

impl MaxFilter {
    pub(super) fn get(&self) -> u64 {
        self.best[0].1
    }

    /// Takes `value` at `time`, which never goes back; samples older than `window` are forgotten.
    pub(super) fn update(&mut self, time: u64, value: u64, window: u64) {
        let new = (time, value);
        let age = |sample: (u64, u64)| time.saturating_sub(sample.0);
        let [first, second, third] = self.best;
        if value >= first.1 || age(third) > window {
            self.best = [new; 3];
            return;
        }
        if value >= second.1 {
            self.best = [first, new, new];
        } else if value >= third.1 {
            self.best[2] = new;
        }
        self.retire(new, window);
    }

    /// Moves on when the best is too old, and keeps the other two from different parts of the
    /// window, so that one of them is good for the rest of it.
    fn retire(&mut self, new: (u64, u64), window: u64) {
        let age = |sample: (u64, u64)| new.0.saturating_sub(sample.0);
        let [first, second, third] = self.best;
        if age(first) > window {
            self.best = [second, third, new];
            if age(second) > window {
                self.best = [third, new, new];
            }
        } else if second.0 == first.0 && age(first) > window / 4 {
            self.best = [first, new, new];
        } else if third.0 == second.0 && age(first) > window / 2 {
            self.best[2] = new;
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn the_maximum_is_of_the_window_and_bounded_by_the_true_one(
            steps in prop::collection::vec((0u64..4, 0u64..100), 1..200),
        ) {
            const WINDOW: u64 = 10;
            let (mut filter, mut now, mut seen) = (MaxFilter::default(), 0, Vec::new());
            for (gap, value) in steps {
                now += gap;
                seen.push((now, value));
                filter.update(now, value, WINDOW);
                let recent = seen.iter().filter(|(at, _)| now - at <= WINDOW);
                let truth = recent.map(|&(_, value)| value).max().unwrap_or(0);
                prop_assert!(filter.get() <= truth.max(value));
                prop_assert!(filter.get() >= value);
            }
        }
    }

    #[test]
    fn a_peak_lasts_for_the_window_and_no_longer() {
        let mut filter = MaxFilter::default();
        filter.update(0, 100, 10);
        for time in 1..=10 {
            filter.update(time, 50, 10);
            assert_eq!(filter.get(), 100, "at {time}");
        }
        filter.update(11, 50, 10);
        assert_eq!(filter.get(), 50);
    }
}
