//! Dynamic time warping within a band, eight distances at a time.

use std::str::FromStr;

use crate::SeriesError;
use crate::windows::{LANES, Lanes};

/// What two samples that stand beside each other add to the distance.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Cost {
    /// |x - y|
    #[default]
    Absolute,
    /// (x - y)^2; the distance is their sum, without a root.
    Squared,
}

impl FromStr for Cost {
    type Err = SeriesError;

    fn from_str(name: &str) -> Result<Self, SeriesError> {
        match name {
            "absolute" => Ok(Self::Absolute),
            "squared" => Ok(Self::Squared),
            _ => Err(SeriesError::Cost(name.to_owned())),
        }
    }
}

impl Cost {
    /// The cost of a difference.
    #[inline]
    pub(crate) fn of(self, difference: f64) -> f64 {
        match self {
            Self::Absolute => difference.abs(),
            Self::Squared => difference * difference,
        }
    }
}

/// How series may be laid beside each other, and at what cost.
#[derive(Clone, Copy, Debug)]
pub struct Warping {
    /// How many samples two that stand beside each other may be apart.
    pub band: usize,
    /// What they add.
    pub cost: Cost,
}

/// Two rows of the table of partial distances, kept from one run to the next.
pub(crate) struct Rows {
    above: Vec<Lanes>,
    current: Vec<Lanes>,
}

const FAR: Lanes = [f64::INFINITY; LANES];

impl Rows {
    pub(crate) fn new(length: usize) -> Self {
        // Column 0 is that of the empty beginning.
        Self { above: vec![FAR; length + 1], current: vec![FAR; length + 1] }
    }

    /// The distance of `series` to the one in each lane of `others`; infinite in all lanes if none
    /// can be as near as `cutoff`.
    pub(crate) fn distances(
        &mut self,
        series: &[f64],
        others: &[Lanes],
        warping: Warping,
        cutoff: f64,
    ) -> Lanes {
        // The cost is chosen outside the loops, which are compiled for each.
        match warping.cost {
            Cost::Absolute => self.run(series, others, warping.band, cutoff, f64::abs),
            Cost::Squared => self.run(series, others, warping.band, cutoff, |x| x * x),
        }
    }

    fn run(
        &mut self,
        series: &[f64],
        others: &[Lanes],
        band: usize,
        cutoff: f64,
        cost: impl Fn(f64) -> f64,
    ) -> Lanes {
        let last = others.len() - 1;
        self.above.fill(FAR);
        self.above[0] = [0.0; LANES];
        for (i, value) in series.iter().enumerate() {
            let (first, end) = (i.saturating_sub(band), last.min(i.saturating_add(band)));
            // What the row before left just outside of this row's band does not belong to this row.
            self.current[first] = FAR;
            if let Some(beyond) = self.current.get_mut(end + 2) {
                *beyond = FAR;
            }
            let mut left = FAR;
            let mut corner = self.above[first];
            let columns = self.above[first + 1..=end + 1].iter().zip(&others[first..=end]);
            for ((above, other), out) in columns.zip(&mut self.current[first + 1..=end + 1]) {
                for lane in 0..LANES {
                    let nearest = least(least(above[lane], corner[lane]), left[lane]);
                    left[lane] = cost(value - other[lane]) + nearest;
                }
                corner = *above;
                *out = left;
            }
            std::mem::swap(&mut self.above, &mut self.current);
            if cutoff < f64::INFINITY && nearest(&self.above[first + 1..=end + 1]) > cutoff {
                return FAR;
            }
        }
        self.above[last + 1]
    }
}

/// Unlike [`f64::min`] this is one instruction; nothing here is NaN.
#[inline]
fn least(a: f64, b: f64) -> f64 {
    if a < b { a } else { b }
}

/// The least partial distance in a row: all that go on from it are larger.
fn nearest(row: &[Lanes]) -> f64 {
    let lanes = row.iter().fold(FAR, |mut found, lanes| {
        for lane in 0..LANES {
            found[lane] = least(found[lane], lanes[lane]);
        }
        found
    });
    lanes.into_iter().fold(f64::INFINITY, least)
}
