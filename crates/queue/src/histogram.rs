//! Spans of time in buckets of at most 1/16 relative width: quantiles without keeping samples.

use weir_units::Time;

const SUB_BITS: u32 = 4;
const SUB: u64 = 1 << SUB_BITS;
/// The linear part and the octaves above it; spans from 2^43 ns (2.4 h) on share the last bucket.
const OCTAVES: usize = 40;
const BUCKETS: u64 = SUB * OCTAVES as u64;
const ABSENT: u8 = u8::MAX;

/// How often which span occurred; quantiles are exact to 1/16 of their value.
///
/// Spans of one class lie in few octaves: only those that occurred take memory.
#[derive(Clone, Debug)]
pub struct Histogram {
    /// Where the buckets of each octave lie in `counts`, [`ABSENT`] before its first span.
    places: [u8; OCTAVES],
    counts: Vec<[u64; SUB as usize]>,
    count: u64,
    max: Time,
}

impl Default for Histogram {
    fn default() -> Self {
        Self::new()
    }
}

impl Histogram {
    /// An empty histogram.
    pub const fn new() -> Self {
        Self { places: [ABSENT; OCTAVES], counts: Vec::new(), count: 0, max: Time::ZERO }
    }

    /// Counts one span.
    #[inline]
    pub fn record(&mut self, span: Time) {
        let bucket = bucket_of(span.as_ns());
        let (octave, within) = ((bucket / SUB) as usize, (bucket % SUB) as usize);
        if self.places[octave] == ABSENT {
            self.open(octave);
        }
        self.counts[usize::from(self.places[octave])][within] += 1;
        self.count += 1;
        self.max = self.max.max(span);
    }

    #[cold]
    fn open(&mut self, octave: usize) {
        self.places[octave] = self.counts.len() as u8;
        self.counts.reserve_exact(1);
        self.counts.push([0; SUB as usize]);
    }

    /// How many spans were counted.
    pub const fn count(&self) -> u64 {
        self.count
    }

    /// The longest span, exactly; zero if none was counted.
    pub const fn max(&self) -> Time {
        self.max
    }

    /// The buckets that hold any span, shortest first: the longest span that would be counted
    /// there, and how many were.
    pub fn buckets(&self) -> impl Iterator<Item = (Time, u64)> + '_ {
        self.occupied().map(|(index, count)| (Time::from_ns(upper_end(index)), count))
    }

    fn occupied(&self) -> impl Iterator<Item = (u64, u64)> + '_ {
        let octaves = (0..).zip(&self.places).filter(|(_, place)| **place != ABSENT);
        let buckets = octaves
            .flat_map(|(octave, place)| (octave * SUB..).zip(self.counts[usize::from(*place)]));
        buckets.filter(|(_, count)| *count > 0)
    }

    /// The span that a `fraction` (0 to 1) of those counted do not exceed; zero if none was
    /// counted.
    pub fn quantile(&self, fraction: f64) -> Time {
        let wanted = ((self.count as f64 * fraction).ceil() as u64).max(1);
        let mut seen = 0;
        for (index, count) in self.occupied() {
            seen += count;
            // The last bucket has no upper end but the largest span itself.
            if seen >= wanted && index < BUCKETS - 1 {
                return Time::from_ns(upper_end(index)).min(self.max);
            }
        }
        self.max
    }
}

fn bucket_of(ns: u64) -> u64 {
    if ns < SUB {
        return ns;
    }
    let octave = u64::from(ns.ilog2() - SUB_BITS);
    let within = (ns >> octave) - SUB;
    ((octave + 1) * SUB + within).min(BUCKETS - 1)
}

/// The largest span, in ns, of the bucket at `index`.
fn upper_end(index: u64) -> u64 {
    if index < SUB {
        return index;
    }
    let (octave, within) = (index / SUB - 1, index % SUB);
    ((SUB + within + 1) << octave) - 1
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn quantiles_of_a_known_set() {
        let mut histogram = Histogram::new();
        (1..=1_000).for_each(|us| histogram.record(Time::from_us(us)));
        for (fraction, us) in [(0.5, 500.0), (0.99, 990.0), (1.0, 1_000.0)] {
            let found = histogram.quantile(fraction).as_s() * 1e6;
            assert!((found / us - 1.0).abs() < 1.0 / 16.0, "quantile {fraction}: {found} us");
        }
        assert_eq!(histogram.max(), Time::from_us(1_000));
        assert_eq!(histogram.buckets().map(|(_, count)| count).sum::<u64>(), 1_000);
        assert!(histogram.buckets().map(|(end, _)| end).is_sorted());
        assert_eq!(Histogram::new().quantile(0.5), Time::ZERO);
    }

    proptest! {
        #[test]
        fn a_bucket_ends_within_a_sixteenth_of_what_it_holds(ns in 0u64..1 << 43) {
            let end = upper_end(bucket_of(ns));
            prop_assert!(end >= ns && end - ns <= ns / 16, "{ns} is in a bucket ending at {end}");
        }

        #[test]
        fn quantiles_rise_and_none_is_above_the_longest(spans: Vec<u64>) {
            let mut histogram = Histogram::new();
            spans.iter().for_each(|ns| histogram.record(Time::from_ns(*ns)));
            let found: Vec<_> =
                [0.0, 0.5, 0.9, 0.99, 1.0].map(|fraction| histogram.quantile(fraction)).into();
            prop_assert!(found.is_sorted(), "{found:?}");
            prop_assert_eq!(found[4], histogram.max());
        }

        #[test]
        fn any_span_is_counted(ns: u64) {
            let mut histogram = Histogram::new();
            histogram.record(Time::from_ns(ns));
            prop_assert_eq!(histogram.count(), 1);
            prop_assert_eq!(histogram.quantile(0.5), Time::from_ns(ns));
        }
    }
}
