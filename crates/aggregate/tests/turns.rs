//! Deficit round robin: shares are as the weights are (003-spec T-B1).

use std::collections::HashMap;

use proptest::prelude::*;
use weir_aggregate::turns::{Turns, WEIGHT_MAX};

/// What flows with these weights send, all backlogged, in reads of at most so many bytes.
fn shares(weights: &[u32], reads: &[usize], total: usize) -> HashMap<u16, usize> {
    let mut turns = Turns::default();
    for (uid, weight) in (1..).zip(weights) {
        turns.add(uid, *weight);
        turns.wake(uid);
    }
    let mut sent = HashMap::new();
    let (mut all, mut reads) = (0, reads.iter().cycle());
    while all < total {
        let (uid, turn) = turns.front().expect("all have something");
        let bytes = turn.min(*reads.next().expect("for ever"));
        turns.sent(bytes);
        *sent.entry(uid).or_default() += bytes;
        all += bytes;
    }
    sent
}

proptest! {
    #[test]
    fn backlogged_flows_share_as_their_weights_are(
        weights in prop::collection::vec(1..20_u32, 2..8),
        reads in prop::collection::vec(1..70_000_usize, 1..10),
    ) {
        let total = 300_000_000;
        let sent = shares(&weights, &reads, total);
        let weight: u32 = weights.iter().sum();
        for (uid, of) in (1..).zip(&weights) {
            let wanted = total as f64 * f64::from(*of) / f64::from(weight);
            let off = (sent[&uid] as f64 - wanted).abs() / wanted;
            prop_assert!(off < 0.01, "{uid}: {} for {wanted}", sent[&uid]);
        }
    }
}

#[test]
fn who_has_nothing_has_no_turn_and_saves_none_up() {
    let mut turns = Turns::default();
    turns.add(1, 1);
    turns.add(2, 1);
    assert_eq!(turns.front(), None);
    turns.wake(1);
    let (uid, whole) = turns.front().expect("one has something");
    assert_eq!(uid, 1);
    turns.sent(10);
    turns.sleep();
    assert_eq!(turns.front(), None);
    turns.wake(1);
    assert_eq!(turns.front(), Some((1, whole)), "what a turn had left is lost");
}

#[test]
fn a_weight_that_changes_counts_from_the_next_turn_on() {
    let mut turns = Turns::default();
    turns.add(1, 1);
    turns.wake(1);
    let (_, one) = turns.front().expect("it has something");
    assert!(turns.set_weight(1, 3));
    turns.sent(one);
    assert_eq!(turns.front(), Some((1, 3 * one)));
    assert!(!turns.set_weight(2, 3), "nobody is called so");
}

#[test]
fn a_flow_that_goes_leaves_the_others_their_turns() {
    let mut turns = Turns::default();
    for uid in 1..=3 {
        turns.add(uid, WEIGHT_MAX + 1);
        turns.wake(uid);
        turns.wake(uid);
    }
    assert_eq!(turns.front().map(|turn| turn.0), Some(1));
    turns.remove(1);
    assert_eq!(turns.front().map(|turn| turn.0), Some(2));
    turns.remove(3);
    turns.sleep();
    assert_eq!(turns.front(), None);
    turns.wake(1);
    assert_eq!(turns.front(), None, "who is gone does not wake");
}

/// Whoever comes waits for a round: a slow aggregate has short ones.
#[test]
fn turns_are_as_large_as_an_aggregate_is_fast_within_bounds() {
    let mut turns = Turns::default();
    for uid in 1..=8 {
        turns.add(uid, 1);
    }
    let mut turn = |bytes_per_s: f64, waiting: u16| {
        turns.set_rate(bytes_per_s);
        (1..=waiting).for_each(|uid| turns.wake(uid));
        let (_, bytes) = turns.front().expect("all have something");
        (1..=waiting).for_each(|_| turns.sleep());
        bytes
    };
    assert_eq!([turn(0.0, 1), turn(1e6, 1), turn(1e6, 8)], [16 << 10, 16 << 10, 8 << 10]);
    assert_eq!([turn(1e9, 1), turn(1e9, 8), turn(1e12, 8)], [0xFFFF, 0xFFFF, 0xFFFF]);
    assert_eq!(turn(75e6, 8), 150_000 / 8);
}
