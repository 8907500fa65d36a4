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
    assert_eq!([turn(1e9, 1), turn(1e9, 8)], [500_000, 250_000]);
    assert_eq!([turn(1e12, 1), turn(1e12, 8)], [1 << 20, 512 << 10]);
    assert_eq!(turn(75e6, 8), 150_000 / 8);
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
    let (uid, one) = turns.front().expect("two have something");
    assert_eq!(uid, 2);
    turns.sent(one);
    let (uid, two) = turns.front().expect("two have something");
    assert_eq!((uid, two), (1, 2 * one), "what waited need not be woken again");
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
