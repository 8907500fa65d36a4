//! The windows nearest to a series, most of them ruled out by a bound that costs next to nothing.

use crate::SeriesError;
use crate::dtw::{Rows, Warping};
use crate::windows::{LANES, Windows};

/// By how much rounding may lift a bound above the distance that it bounds, relatively.
const ROUNDING: f64 = 1e-9;

/// A window and how far it is.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Neighbour {
    /// The window's number, in the order in which they were given.
    pub index: usize,
    /// From the series.
    pub distance: f64,
}

/// Windows to find the nearest of.
#[derive(Clone, Debug)]
pub struct Neighbours {
    windows: Windows,
    warping: Warping,
}

impl Neighbours {
    /// Looks for neighbours among these windows under this warping.
    pub fn new(windows: Windows, warping: Warping) -> Self {
        Self { windows, warping }
    }

    /// The `count` windows nearest to `series` (or all, if there are fewer), the nearest first; of
    /// equally near ones those that stand first.
    ///
    /// # Errors
    /// The series is not of the windows' length, or not finite.
    pub fn nearest(&self, series: &[f64], count: usize) -> Result<Vec<Neighbour>, SeriesError> {
        let bounds = self.lower_bounds(series)?;
        let mut order: Vec<usize> = (0..bounds.len()).collect();
        order.sort_unstable_by(|a, b| bounds[*a].total_cmp(&bounds[*b]).then(a.cmp(b)));
        let mut found: Vec<Neighbour> = Vec::with_capacity(count.min(bounds.len()) + LANES);
        let mut rows = Rows::new(self.windows.length());
        let mut others = vec![[0.0; LANES]; self.windows.length()];
        for batch in order.chunks(LANES) {
            let cutoff = match found.last() {
                _ if count == 0 => return Ok(found),
                Some(last) if found.len() >= count => last.distance,
                _ => f64::INFINITY,
            };
            if bounds[batch[0]] * (1.0 - ROUNDING) > cutoff {
                break;
            }
            self.windows.lanes(batch, &mut others);
            let distances = rows.distances(series, &others, self.warping, cutoff);
            let places = batch.iter().zip(distances);
            found.extend(
                places
                    .filter(|(_, distance)| distance.is_finite())
                    .map(|(&index, distance)| Neighbour { index, distance }),
            );
            found.sort_unstable_by(|a, b| {
                a.distance.total_cmp(&b.distance).then(a.index.cmp(&b.index))
            });
            found.truncate(count);
        }
        Ok(found)
    }

    /// For each window what its distance to `series` cannot be below: that of its samples to the
    /// band's envelope of the series (LB_Keogh; Keogh and Ratanamahatana 2005).
    ///
    /// # Errors
    /// The series is not of the windows' length, or not finite.
    pub fn lower_bounds(&self, series: &[f64]) -> Result<Vec<f64>, SeriesError> {
        let length = self.windows.length();
        if series.len() != length {
            return Err(SeriesError::Query { found: series.len(), length });
        }
        Windows::new(series.to_vec(), length)?;
        let envelope = envelope(series, self.warping.band);
        let bound = |index: usize| {
            let samples = self.windows.window(index).iter().zip(&envelope);
            samples.map(|(value, [low, high])| self.cost_outside(*value, *low, *high)).sum()
        };
        Ok((0..self.windows.count()).map(bound).collect())
    }

    /// The cost of the way from a value to the nearest one between `low` and `high`.
    fn cost_outside(&self, value: f64, low: f64, high: f64) -> f64 {
        self.warping.cost.of((low - value).max(value - high).max(0.0))
    }
}

/// The least and the largest of the samples that may stand beside each.
fn envelope(series: &[f64], band: usize) -> Vec<[f64; 2]> {
    let reach = |i: usize| {
        let last = (series.len() - 1).min(i.saturating_add(band));
        &series[i.saturating_sub(band)..=last]
    };
    let extremes = |near: &[f64]| {
        near.iter().fold([f64::INFINITY, f64::NEG_INFINITY], |[low, high], value| {
            [low.min(*value), high.max(*value)]
        })
    };
    (0..series.len()).map(|i| extremes(reach(i))).collect()
}
