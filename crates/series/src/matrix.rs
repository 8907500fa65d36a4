//! The distance between any two of many windows.

use std::num::NonZero;
use std::thread::{available_parallelism, scope};

use crate::dtw::{Rows, Warping};
use crate::windows::{LANES, Lanes, Windows};

/// The distances between all windows, row by row, on all processors. It is symmetric, with zeros
/// in its diagonal.
pub fn matrix(windows: &Windows, warping: Warping) -> Vec<f64> {
    let count = windows.count();
    let mut distances = vec![0.0; count * count];
    if count == 0 {
        return distances;
    }
    let indices: Vec<usize> = (0..count).collect();
    let batches: Vec<Vec<Lanes>> = indices
        .chunks(LANES)
        .map(|batch| {
            let mut lanes = vec![[0.0; LANES]; windows.length()];
            windows.lanes(batch, &mut lanes);
            lanes
        })
        .collect();
    let workers = available_parallelism().map_or(1, NonZero::get);
    let mut shares: Vec<Vec<(usize, &mut [f64])>> = (0..workers).map(|_| Vec::new()).collect();
    // In turns: the rows of the upper triangle get shorter.
    for (index, row) in distances.chunks_mut(count).enumerate() {
        shares[index % workers].push((index, row));
    }
    scope(|scope| {
        for share in shares {
            let batches = &batches;
            scope.spawn(move || {
                let mut rows = Rows::new(windows.length());
                for (index, row) in share {
                    upper(index, row, windows, batches, warping, &mut rows);
                }
            });
        }
    });
    for row in 1..count {
        for column in 0..row {
            distances[row * count + column] = distances[column * count + row];
        }
    }
    distances
}

/// Fills a row from its diagonal on.
fn upper(
    index: usize,
    row: &mut [f64],
    windows: &Windows,
    batches: &[Vec<Lanes>],
    warping: Warping,
    rows: &mut Rows,
) {
    let first = (index + 1) / LANES;
    for (number, batch) in batches.iter().enumerate().skip(first) {
        let found = rows.distances(windows.window(index), batch, warping, f64::INFINITY);
        let places = (number * LANES..row.len()).zip(found);
        for (column, distance) in places.filter(|(column, _)| *column > index) {
            row[column] = distance;
        }
    }
}
