//! When each echo request is due: absolute times, so that nothing drifts.

use std::num::{NonZeroU32, NonZeroU64};

use weir_units::Time;

/// Between the requests of a sample (001-spec section 5.3: g = 1 ms).
pub const SPACING: Time = Time::from_ms(1);

/// The time from sample to sample, a fraction of whole numbers: a third of a second is exact, too.
#[derive(Clone, Copy, Debug)]
pub struct Period {
    /// `denominator` periods together.
    pub numerator: Time,
    /// How many periods the numerator is.
    pub denominator: NonZeroU64,
}

impl Period {
    /// The span of so many periods, rounded down once and not for each.
    pub fn times(self, count: u64) -> Time {
        let ns = u128::from(count) * u128::from(self.numerator.as_ns())
            / u128::from(self.denominator.get());
        Time::from_ns(u64::try_from(ns).unwrap_or(u64::MAX))
    }
}

/// How a path is sampled.
#[derive(Clone, Copy, Debug)]
pub struct Plan {
    /// From sample to sample.
    pub period: Period,
    /// Echo requests of a sample, [`SPACING`] apart.
    pub requests: NonZeroU32,
    /// How many samples, `None` until it is ended.
    pub samples: Option<u64>,
    /// A reply that takes longer counts as lost.
    pub timeout: Time,
}

/// A request in time; times count from the beginning.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Request {
    /// Index of its sample.
    pub(crate) sample: u64,
    /// In the sample, from 0.
    pub(crate) number: u32,
    /// When to send it.
    pub(crate) due: Time,
    /// When it is too late for that: the next sample begins.
    pub(crate) end: Time,
}

impl Plan {
    /// The first request of all, `None` in a plan without samples.
    pub(crate) fn first(&self) -> Option<Request> {
        self.begin(0)
    }

    /// The request after `request`, `None` after the last.
    pub(crate) fn after(&self, request: Request) -> Option<Request> {
        let number = request.number + 1;
        if number == self.requests.get() {
            return self.begin(request.sample.saturating_add(1));
        }
        Some(Request { number, due: request.due.saturating_add(SPACING), ..request })
    }

    /// Under what number a request is sent: unique in the plan.
    pub(crate) fn key(&self, request: Request) -> u64 {
        request.sample.wrapping_mul(self.requests.get().into()).wrapping_add(request.number.into())
    }

    /// Sample and number in it of the request that was sent under `key`.
    pub(crate) fn of_key(&self, key: u64) -> (u64, usize) {
        let requests = u64::from(self.requests.get());
        (key / requests, (key % requests) as usize)
    }

    fn begin(&self, sample: u64) -> Option<Request> {
        let (due, end) = (self.period.times(sample), self.period.times(sample.saturating_add(1)));
        let is_in = self.samples.is_none_or(|samples| sample < samples);
        is_in.then_some(Request { sample, number: 0, due, end })
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn requests_follow_one_another_within_their_sample(
            period_us in 10_000..60_000_000u64,
            denominator in 1..1000u64,
            requests in 1..=10u32,
        ) {
            let denominator = NonZeroU64::new(denominator).expect("from 1");
            // 10 ms to 60 s, whatever the denominator.
            let numerator = Time::from_us(period_us * denominator.get());
            let plan = Plan {
                period: Period { numerator, denominator },
                requests: NonZeroU32::new(requests).expect("from 1"),
                samples: Some(5),
                timeout: Time::from_ms(1000),
            };
            let all: Vec<_> =
                std::iter::successors(plan.first(), |last| plan.after(*last)).collect();
            prop_assert_eq!(all.len(), 5 * requests as usize);
            prop_assert!(all.is_sorted_by(|one, next| one.due < next.due));
            prop_assert!(all.iter().all(|request| request.due < request.end));
            for (index, request) in all.iter().enumerate() {
                prop_assert_eq!(plan.key(*request), index as u64);
                let place = (request.sample, request.number as usize);
                prop_assert_eq!(plan.of_key(index as u64), place);
            }
        }
    }

    #[test]
    fn a_third_of_a_second_is_exact_after_a_month() {
        let denominator = NonZeroU64::new(3).expect("not zero");
        let period = Period { numerator: Time::from_ms(1000), denominator };
        assert_eq!(period.times(3 * 2_592_000), Time::from_ms(2_592_000 * 1000));
        assert_eq!(period.times(2), Time::from_ns(666_666_666));
    }
}
