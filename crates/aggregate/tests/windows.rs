//! How much of a flow may be on its way.

use weir_aggregate::window::{Incoming, Outgoing, STEP_MAX, WINDOW_MAX, WINDOW_MIN, step, window};

#[test]
fn a_window_is_an_even_part_within_bounds() {
    assert_eq!(window(0), WINDOW_MAX);
    assert_eq!(window(1), WINDOW_MAX);
    assert_eq!(window(64), 1 << 20);
    assert_eq!(window(65_532), WINDOW_MIN);
}

#[test]
fn steps_are_as_large_as_an_aggregate_is_fast_within_bounds() {
    assert_eq!([step(0.0), step(1e6), step(1e12)], [STEP_MAX, STEP_MAX, 512 << 10]);
    assert_eq!(step(250e6), 250_000);
    // However large, each window is told of four times at least.
    let mut far = Incoming::default();
    assert_eq!(far.promise(WINDOW_MIN, step(1e12)), None);
    assert!(far.arrive(WINDOW_MIN / 4));
    far.hand_on(WINDOW_MIN / 4);
    assert_eq!(far.promise(WINDOW_MIN, step(1e12)), Some(WINDOW_MIN / 4 * 5));
}

/// A far end that hands on what has come, piece by piece, to a sender that always has more.
#[test]
fn whoever_has_a_whole_window_on_its_way_goes_on_in_small_steps() {
    for size in [WINDOW_MIN, 1 << 20, WINDOW_MAX] {
        let (mut near, mut far) = (Outgoing::default(), Incoming::default());
        let mut steps = Vec::new();
        for _ in 0..20_000 {
            let sent = near.left();
            if sent > 0 {
                near.send(sent);
                assert!(far.arrive(sent), "beyond what was promised");
                steps.push(sent);
            }
            far.hand_on((near.sent() - far.handed_on()).min(1_000));
            if let Some(until) = far.promise(size, STEP_MAX) {
                assert!(near.open(until));
                assert!(until <= far.handed_on() + size, "more than a window");
            }
        }
        // The first step is what is promised beforehand, the second opens the whole window.
        let step = (size / 4).min(STEP_MAX);
        assert!(steps.len() > 100, "it stood still: {steps:?}");
        let rest = &steps[2..];
        assert!(rest.iter().all(|sent| (step..step + 1_000).contains(sent)), "{size}: {rest:?}");
    }
}
