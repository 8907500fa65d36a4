//! Distances and neighbours against the definition, written down without any of the shortcuts.

use proptest::prelude::*;
use weir_series::{Cost, Neighbours, SeriesError, Warping, Windows, matrix};

/// The recurrence of Sakoe and Chiba with the whole table.
fn by_definition(a: &[f64], b: &[f64], warping: Warping) -> f64 {
    let mut table = vec![vec![f64::INFINITY; b.len() + 1]; a.len() + 1];
    table[0][0] = 0.0;
    for i in 1..=a.len() {
        for j in 1..=b.len() {
            if i.abs_diff(j) <= warping.band {
                let difference = a[i - 1] - b[j - 1];
                let cost = match warping.cost {
                    Cost::Absolute => difference.abs(),
                    Cost::Squared => difference.powi(2),
                };
                let before = table[i - 1][j].min(table[i][j - 1]).min(table[i - 1][j - 1]);
                table[i][j] = cost + before;
            }
        }
    }
    table[a.len()][b.len()]
}

/// Windows of one length, a band, a cost. Values repeat, so that there are ties.
fn cases() -> impl Strategy<Value = (Vec<Vec<f64>>, Warping)> {
    let value = prop_oneof![(0..4i8).prop_map(f64::from), -100.0..100.0f64];
    let cost = prop_oneof![Just(Cost::Absolute), Just(Cost::Squared)];
    (1..24usize, 1..30usize, 0..14usize, cost).prop_flat_map(move |(length, count, band, cost)| {
        let window = prop::collection::vec(value.clone(), length);
        (prop::collection::vec(window, count), Just(Warping { band, cost }))
    })
}

fn windows(list: &[Vec<f64>]) -> Windows {
    Windows::new(list.concat(), list[0].len()).expect("finite, of one length")
}

proptest! {
    #[test]
    fn the_matrix_is_the_definition((list, warping) in cases()) {
        let found = matrix(&windows(&list), warping);
        for (i, a) in list.iter().enumerate() {
            for (j, b) in list.iter().enumerate() {
                let distance = by_definition(a, b, warping);
                let ours = found[i * list.len() + j];
                prop_assert!((ours - distance).abs() <= 1e-9 * distance, "{ours} {distance}");
            }
        }
    }

    #[test]
    fn bounds_are_below_distances((list, warping) in cases()) {
        let neighbours = Neighbours::new(windows(&list), warping);
        let bounds = neighbours.lower_bounds(&list[0]).expect("of the same length");
        for (window, bound) in list.iter().zip(bounds) {
            let distance = by_definition(&list[0], window, warping);
            prop_assert!(bound <= distance * (1.0 + 1e-9), "{bound} > {distance}");
        }
    }

    #[test]
    fn pruned_neighbours_are_those_of_an_exhaustive_search(
        (list, warping) in cases(), count in 1..6usize,
    ) {
        let (series, list) = (&list[0], &list[list.len().min(2) - 1..]);
        let neighbours = Neighbours::new(windows(list), warping);
        let found = neighbours.nearest(series, count).expect("of the same length");
        let mut all: Vec<f64> =
            list.iter().map(|window| by_definition(series, window, warping)).collect();
        for neighbour in &found {
            let distance = all[neighbour.index];
            prop_assert!((neighbour.distance - distance).abs() <= 1e-9 * distance);
        }
        all.sort_unstable_by(f64::total_cmp);
        prop_assert_eq!(found.len(), count.min(list.len()));
        for (neighbour, distance) in found.iter().zip(all) {
            prop_assert!((neighbour.distance - distance).abs() <= 1e-9 * distance);
        }
    }
}

#[test]
fn without_a_band_it_is_the_sum_of_differences() {
    let both = windows(&[vec![1.0, 5.0, 2.0], vec![2.0, 2.0, 2.0]]);
    assert_eq!(matrix(&both, Warping { band: 0, cost: Cost::Absolute })[1], 4.0);
    assert_eq!(matrix(&both, Warping { band: 0, cost: Cost::Squared })[1], 10.0);
}

#[test]
fn a_shifted_peak_costs_nothing_within_the_band() {
    let both = windows(&[vec![0.0, 9.0, 0.0, 0.0, 0.0], vec![0.0, 0.0, 0.0, 9.0, 0.0]]);
    let distance = |band| matrix(&both, Warping { band, cost: Cost::Absolute })[1];
    assert_eq!(distance(2), 0.0);
    // One step is not enough: a peak stays without its like on either side.
    assert_eq!(distance(1), 18.0);
}

#[test]
fn equally_near_windows_come_in_their_order() {
    let same = vec![vec![3.0; 4]; 40];
    let neighbours = Neighbours::new(windows(&same), Warping { band: 1, cost: Cost::Absolute });
    let found = neighbours.nearest(&[1.0; 4], 3).expect("of the same length");
    assert_eq!(found.iter().map(|n| n.index).collect::<Vec<_>>(), [0, 1, 2]);
}

#[test]
fn what_cannot_be_compared_is_named() {
    let refusal = |values, length| Windows::new(values, length).err().map(|e| e.to_string());
    let message = refusal(vec![1.0; 5], 2).expect("5 is odd");
    assert_eq!(message, "5 values are not a whole number of windows of 2");
    assert!(refusal(vec![1.0; 5], 0).is_some());
    let message = refusal(vec![1.0, 1.0, f64::NAN, 1.0], 2).expect("NaN");
    assert_eq!(message, "window 1: value 0 is NaN");
    let warping = Warping { band: 1, cost: Cost::Absolute };
    let neighbours = Neighbours::new(windows(&[vec![1.0; 4]]), warping);
    let wrong = neighbours.nearest(&[1.0; 3], 1);
    assert!(matches!(wrong, Err(SeriesError::Query { found: 3, length: 4 })));
    assert!("euclidean".parse::<Cost>().is_err());
}
