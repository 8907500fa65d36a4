//! Turns by weights: shares are as the weights are (003-spec T-B1).

use std::collections::HashMap;

use proptest::prelude::*;
use weir_aggregate::turns::{QUANTUM_MIN, Turns, WEIGHT_MAX};

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

/// What a weight of 1 gives in a round of a slow aggregate, where few wait.
const ONE: usize = 16 << 10;

/// In whole segments.
fn whole(bytes: usize) -> usize {
    bytes.div_ceil(QUANTUM_MIN) * QUANTUM_MIN
}

/// What an aggregate of 8 Mbit/s carries in 20 s.
const CARRIED: usize = 20_000_000;

proptest! {
    /// Shares are kept over seconds, and not only in the long run, however large weights are
    /// (docs/relay.md, bookings inside an aggregate).
    #[test]
    fn large_weights_are_kept_within_a_hundredth_over_20_s_of_8_mbit_per_s(
        weights in prop::collection::vec(1..WEIGHT_MAX, 2..15),
        reads in prop::collection::vec(1_000..70_000_usize, 1..10),
        before in 0..CARRIED,
    ) {
        let first = shares(&weights, &reads, before);
        let sent = shares(&weights, &reads, before + CARRIED);
        let weight: u32 = weights.iter().sum();
        for (uid, of) in (1..).zip(&weights) {
            let part = f64::from(*of) / f64::from(weight);
            let got = (sent[&uid] - first.get(&uid).unwrap_or(&0)) as f64 / CARRIED as f64;
            let off = (got / part - 1.0).abs();
            prop_assert!(part < 0.02 || off < 0.01, "{uid}: {got} for {part}");
        }
    }
}

/// Whose weight gives it little has a segment's worth at a time, in some rounds only.
#[test]
fn nobody_sends_crumbs() {
    let mut turns = Turns::default();
    for (uid, weight) in [(1, 1), (2, 1_000)] {
        turns.add(uid, weight);
        turns.wake(uid);
    }
    let (mut frames, mut sent) = ([0; 2], [0; 2]);
    for _ in 0..2_000 {
        let (uid, bytes) = turns.front().expect("both have something");
        turns.sent(bytes);
        frames[usize::from(uid) - 1] += 1;
        sent[usize::from(uid) - 1] += bytes;
    }
    assert_eq!(sent[0], frames[0] * QUANTUM_MIN);
    let ratio = sent[1] as f64 / sent[0] as f64;
    assert!((ratio / 1_000.0 - 1.0).abs() < 0.03, "{ratio}");
}

/// No flow's share is rounded away, and nobody looks for whose turn it is for ever.
#[test]
fn the_smallest_weight_beside_many_of_the_largest_has_its_share() {
    let mut turns = Turns::default();
    for uid in 1..=100 {
        turns.add(uid, if uid == 1 { 1 } else { WEIGHT_MAX });
        turns.wake(uid);
    }
    let (mut sent, mut first) = (0.0, 0.0);
    while first < 50_000.0 {
        let (uid, bytes) = turns.front().expect("all have something");
        turns.sent(bytes);
        sent += bytes as f64;
        first += if uid == 1 { bytes as f64 } else { 0.0 };
    }
    let wanted = 1.0 / (99.0 * f64::from(WEIGHT_MAX) + 1.0);
    assert!((first / sent / wanted - 1.0).abs() < 0.03, "{first} of {sent}");
}

#[test]
fn who_has_nothing_has_no_turn_and_saves_none_up() {
    let mut turns = Turns::default();
    turns.add(1, 1);
    turns.add(2, 1);
    assert_eq!(turns.front(), None);
    turns.wake(1);
    assert_eq!(turns.front(), Some((1, whole(ONE))));
    turns.sent(10);
    turns.sleep();
    assert_eq!(turns.front(), None);
    turns.wake(1);
    assert_eq!(turns.front(), Some((1, whole(ONE))), "a turn is not saved for later");
    turns.sleep();
    turns.wake(2);
    let mut sent = 0;
    while sent < 1_000_000 {
        let (_, bytes) = turns.front().expect("the other has something");
        turns.sent(bytes);
        sent += bytes;
    }
    turns.wake(1);
    let order = [0; 4].map(|_| {
        let (uid, bytes) = turns.front().expect("both have something");
        turns.sent(bytes);
        uid
    });
    assert!(order == [1, 2, 1, 2] || order == [2, 1, 2, 1], "{order:?}: nothing is made up for");
}

/// A sender whose window was closed sends again a moment after all that was there has been read.
#[test]
fn who_is_late_by_a_moment_has_its_share() {
    let (mut turns, mut left, mut sent) = (Turns::default(), [0; 3], [0; 3]);
    for (uid, weight) in [(1, 37), (2, 53), (3, 10)] {
        turns.add(uid, weight);
        turns.wake(uid);
    }
    while sent.iter().sum::<usize>() < CARRIED {
        let (uid, turn) = turns.front().expect("all have something");
        let of = usize::from(uid) - 1;
        if left[of] == 0 {
            left[of] = 50_000 + 10_000 * of;
            turns.sleep();
            turns.wake(uid);
            continue;
        }
        let bytes = turn.min(left[of]);
        turns.sent(bytes);
        left[of] -= bytes;
        sent[of] += bytes;
    }
    for (bytes, part) in sent.into_iter().zip([0.37, 0.53, 0.1]) {
        let off = bytes as f64 / CARRIED as f64 / part - 1.0;
        assert!(off.abs() < 0.005, "{bytes} of {part}");
    }
}

#[test]
fn a_weight_that_changes_counts_from_the_next_turn_on() {
    let mut turns = Turns::default();
    turns.add(1, 1);
    turns.wake(1);
    assert_eq!(turns.front(), Some((1, whole(ONE))));
    assert!(turns.set_weight(1, 3));
    assert_eq!(turns.front(), Some((1, whole(ONE))));
    turns.sent(whole(ONE));
    assert_eq!(turns.front(), Some((1, whole(3 * ONE))));
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
    let turn = |bytes_per_s: f64, waiting: u16| {
        let mut turns = Turns::default();
        turns.set_rate(bytes_per_s);
        for uid in 1..=waiting {
            turns.add(uid, 1);
            turns.wake(uid);
        }
        turns.front().expect("all have something").1
    };
    for (bytes_per_s, waiting, wanted) in [
        (0.0, 1, 16 << 10),
        (1e6, 1, 16 << 10),
        (1e6, 8, 8 << 10),
        (75e6, 8, 150_000 / 8),
        (1e9, 1, 500_000),
        (1e9, 8, 250_000),
        (1e12, 1, 1 << 20),
        (1e12, 8, 512 << 10),
    ] {
        assert_eq!(turn(bytes_per_s, waiting), whole(wanted), "{bytes_per_s} {waiting}");
    }
}

/// Whoever comes and goes while nothing can be sent leaves nothing behind.
#[test]
fn places_that_are_given_up_take_no_room() {
    let mut turns = Turns::default();
    for _ in 0..10_000 {
        turns.add(1, 1);
        turns.wake(1);
        turns.remove(1);
    }
    assert!(format!("{turns:?}").len() < 20_000);
    turns.add(1, 1);
    turns.wake(1);
    assert_eq!(turns.front().map(|turn| turn.0), Some(1));
}

#[test]
fn who_is_held_waits_until_it_has_a_weight_again() {
    let mut turns = Turns::default();
    turns.add(1, 0);
    turns.add(2, 1);
    turns.wake(1);
    assert_eq!(turns.front(), None, "its weight is 0 from the begin");
    turns.wake(2);
    assert!(turns.set_weight(1, 2));
    assert_eq!(turns.front(), Some((2, whole(ONE))));
    turns.sent(whole(ONE));
    assert_eq!(turns.front(), Some((1, whole(2 * ONE))), "what waited need not be woken again");
    assert!(turns.set_weight(1, 0));
    assert_eq!(turns.front().map(|turn| turn.0), Some(2), "it loses the turn that it has");
    turns.sleep();
    turns.wake(1);
    assert_eq!(turns.front(), None);
    turns.remove(1);
    turns.add(1, 1);
    assert_eq!(turns.front(), None, "a new flow has nothing to send");
}

/// One step of somebody who uses the turns.
#[derive(Clone, Debug)]
enum Step {
    Add(u16, u32),
    Remove(u16),
    Weigh(u16, u32),
    Wake(u16),
    Sent(usize),
    Sleep,
}

fn step() -> impl Strategy<Value = Step> {
    let (uid, weight) = (1..5_u16, 0..3_u32);
    prop_oneof![
        (uid.clone(), weight.clone()).prop_map(|(uid, weight)| Step::Add(uid, weight)),
        uid.clone().prop_map(Step::Remove),
        (uid.clone(), weight).prop_map(|(uid, weight)| Step::Weigh(uid, weight)),
        uid.prop_map(Step::Wake),
        (1..100_000_usize).prop_map(Step::Sent),
        Just(Step::Sleep),
    ]
}

proptest! {
    /// Whose turn it is has woken, is there, and is not held; and if there is such a flow, it has
    /// its turn before long.
    #[test]
    fn whose_turn_it_is_may_send(steps in prop::collection::vec(step(), 0..200)) {
        let mut turns = Turns::default();
        let mut known: HashMap<u16, (u32, bool)> = HashMap::new();
        for step in steps {
            let front = turns.front();
            let may = |(_, (weight, wakes)): (&u16, &(u32, bool))| *weight > 0 && *wakes;
            prop_assert_eq!(front.is_some(), known.iter().any(may));
            if let Some((uid, bytes)) = front {
                prop_assert!(bytes > 0 && known[&uid].0 > 0 && known[&uid].1);
            }
            match step {
                Step::Add(uid, weight) if !known.contains_key(&uid) => {
                    turns.add(uid, weight);
                    known.insert(uid, (weight, false));
                }
                Step::Add(..) => {}
                Step::Remove(uid) => {
                    turns.remove(uid);
                    known.remove(&uid);
                }
                Step::Weigh(uid, weight) => {
                    let is_known = known.get_mut(&uid).map(|flow| flow.0 = weight).is_some();
                    prop_assert_eq!(turns.set_weight(uid, weight), is_known);
                }
                Step::Wake(uid) => {
                    turns.wake(uid);
                    known.entry(uid).and_modify(|flow| flow.1 = true);
                }
                Step::Sent(bytes) => turns.sent(bytes),
                Step::Sleep => {
                    turns.sleep();
                    if let Some((uid, _)) = front {
                        known.entry(uid).and_modify(|flow| flow.1 = false);
                    }
                }
            }
        }
        let able: Vec<u16> =
            known.iter().filter(|(_, flow)| flow.0 > 0 && flow.1).map(|(uid, _)| *uid).collect();
        let mut had = std::collections::HashSet::new();
        for _ in 0..1_000 {
            if let Some((uid, bytes)) = turns.front() {
                had.insert(uid);
                turns.sent(bytes);
            }
        }
        prop_assert!(able.iter().all(|uid| had.contains(uid)), "{able:?} {had:?}");
    }
}
