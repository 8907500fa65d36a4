//! Series of one length, as they were given and laid out for the lanes.

use crate::SeriesError;

/// How many distances are computed side by side.
pub(crate) const LANES: usize = 8;

/// One value in each lane.
pub(crate) type Lanes = [f64; LANES];

/// Series of one length, all of their values finite.
#[derive(Clone, Debug)]
pub struct Windows {
    length: usize,
    values: Vec<f64>,
}

impl Windows {
    /// Windows of `length`, one after the other in `values`.
    ///
    /// # Errors
    /// The values do not divide into windows, or one is not finite.
    pub fn new(values: Vec<f64>, length: usize) -> Result<Self, SeriesError> {
        if length == 0 || !values.len().is_multiple_of(length) {
            return Err(SeriesError::Length { values: values.len(), length });
        }
        if let Some(at) = values.iter().position(|value| !value.is_finite()) {
            let (window, place) = (at / length, at % length);
            return Err(SeriesError::NotFinite { window, place, value: values[at] });
        }
        Ok(Self { length, values })
    }

    /// Length of each window.
    pub fn length(&self) -> usize {
        self.length
    }

    /// How many there are.
    pub fn count(&self) -> usize {
        self.values.len() / self.length
    }

    /// Window `index`, in range.
    pub(crate) fn window(&self, index: usize) -> &[f64] {
        &self.values[index * self.length..][..self.length]
    }

    /// The windows of so many `indices`, at most one a lane, side by side; the last one fills the
    /// lanes that are left over.
    pub(crate) fn lanes(&self, indices: &[usize], out: &mut [Lanes]) {
        for lane in 0..LANES {
            let window = self.window(indices[lane.min(indices.len() - 1)]);
            for (lanes, value) in out.iter_mut().zip(window) {
                lanes[lane] = *value;
            }
        }
    }
}
