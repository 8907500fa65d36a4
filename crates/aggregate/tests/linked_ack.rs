//! Linked acknowledgements: the traces of 003-spec 2.7.6a, and what holds for every order of events
//! (T-A2, T-A3).

use std::collections::{BTreeMap, HashMap};

use proptest::prelude::*;
use weir_aggregate::linked_ack::{
    Held, JoinLedger, Linked, Pooled, Release, SplitLedger, increase,
};

const BOTH: [Release; 2] = [Release::Literal, Release::Strict];

/// Both ends of an aggregate, and the clients' acknowledgements at the near one.
struct Ends {
    split: SplitLedger,
    join: JoinLedger,
    of_join: Held,
    of_clients: BTreeMap<u16, Held>,
    credit: u64,
    of_client: HashMap<u16, u64>,
    /// What went to clients, in order.
    released: Vec<(u16, u32)>,
}

impl Ends {
    fn new(release: Release) -> Self {
        Self {
            split: SplitLedger::new(release),
            join: JoinLedger::default(),
            of_join: Held::new(0),
            of_clients: BTreeMap::new(),
            credit: 0,
            of_client: HashMap::new(),
            released: Vec::new(),
        }
    }

    /// A frame goes over the aggregate; its acknowledgements on both legs are held.
    fn frame(&mut self, uid: u16, data: u32, of_join: u32, of_client: u32) {
        self.join.sent(uid, data.into());
        self.credit += self.split.arrived(uid, data.into());
        self.of_join.hold(of_join);
        if data > 0 {
            self.of_clients.entry(uid).or_insert_with(|| Held::new(0)).hold(of_client);
        }
        self.release();
    }

    /// A server acknowledges so much more.
    fn acknowledge(&mut self, uid: u16, data: u64) {
        self.credit += self.split.acknowledged(uid, data);
        self.release();
    }

    fn release(&mut self) {
        let mut before = self.of_join.released();
        while let Some(number) = self.of_join.release(&mut self.credit) {
            let of_client = &mut self.of_client;
            self.join.acknowledged(increase(before, number).into(), |uid, bytes| {
                *of_client.entry(uid).or_default() += bytes;
            });
            before = number;
        }
        for (uid, held) in &mut self.of_clients {
            let credit = self.of_client.entry(*uid).or_default();
            while let Some(number) = held.release(credit) {
                self.released.push((*uid, number));
            }
        }
    }

    fn assert_at_rest(&self) {
        assert!(self.split.is_at_rest() && self.join.is_at_rest());
        assert!(self.of_join.is_empty() && self.of_clients.values().all(Held::is_empty));
        assert_eq!(self.credit, 0);
        assert!(self.of_client.values().all(|credit| *credit == 0), "{:?}", self.of_client);
    }
}

#[test]
fn one_flow_as_in_the_first_trace() {
    for release in BOTH {
        let mut ends = Ends::new(release);
        ends.frame(1, 1_000, 1_004, 1_000);
        ends.frame(1, 1_000, 2_008, 2_000);
        ends.acknowledge(1, 1_000);
        assert_eq!((ends.released.as_slice(), ends.credit), ([(1, 1_000)].as_slice(), 0));
        ends.acknowledge(1, 500);
        assert_eq!((ends.released.len(), ends.credit), (1, 500));
        ends.acknowledge(1, 500);
        assert_eq!(ends.released, [(1, 1_000), (1, 2_000)]);
        ends.assert_at_rest();
    }
}

#[test]
fn a_delayed_acknowledgement_releases_both_at_once() {
    for release in BOTH {
        let mut ends = Ends::new(release);
        ends.frame(1, 1_000, 1_004, 1_000);
        ends.frame(1, 1_000, 2_008, 2_000);
        ends.acknowledge(1, 2_000);
        assert_eq!(ends.released, [(1, 1_000), (1, 2_000)]);
        ends.assert_at_rest();
    }
}

#[test]
fn two_flows_as_in_the_second_trace() {
    const A: u16 = 1;
    const B: u16 = 2;
    for (release, early) in [(Release::Literal, vec![(A, 1_000)]), (Release::Strict, vec![])] {
        let mut ends = Ends::new(release);
        ends.frame(A, 1_000, 1_004, 1_000);
        ends.frame(B, 1_000, 2_008, 1_000);
        ends.acknowledge(B, 1_000);
        assert_eq!(ends.released, early, "{release:?}");
        ends.acknowledge(A, 1_000);
        assert_eq!(ends.released, [(A, 1_000), (B, 1_000)]);
        ends.assert_at_rest();
    }
}

#[test]
fn numbers_go_round_at_their_end_and_old_ones_are_no_increase() {
    assert_eq!(increase(u32::MAX - 9, 10), 20);
    assert_eq!(increase(10, u32::MAX - 9), 0);
    assert_eq!(increase(10, 10), 0);
    let mut held = Held::new(u32::MAX - 99);
    held.hold(100);
    let mut credit = 199;
    assert_eq!(held.release(&mut credit), None);
    credit += 1;
    assert_eq!((held.release(&mut credit), credit), (Some(100), 0));
}

#[test]
fn what_is_acknowledged_out_of_order_takes_nothing_back_and_never_more_than_was_sent() {
    let mut linked = Linked::default();
    assert!(!linked.acknowledge(0, 0).expect("nothing of nothing"));
    assert!(linked.acknowledge(700, 1_000).expect("a part"));
    assert!(!linked.acknowledge(300, 1_000).expect("an older word"));
    assert_eq!(linked.released(), 700);
    assert!(linked.acknowledge(1_001, 1_000).is_err());
    // The end is one more.
    assert!(linked.acknowledge(1_001, 1_001).expect("all, and its end"));
    assert_eq!(linked.released(), 1_001);
}

#[test]
fn a_pool_does_what_the_second_trace_does_literally() {
    let mut pool = Pooled::default();
    for uid in [1, 2] {
        pool.begin(uid);
        pool.sent(uid, 1_000);
    }
    assert_eq!(pool.acknowledged(2, 1_000), [1]);
    assert_eq!((pool.released(1), pool.released(2)), (1_000, 0));
    assert_eq!(pool.acknowledged(1, 1_000), [2]);
    assert_eq!((pool.released(1), pool.released(2)), (1_000, 1_000));
    assert!(pool.is_at_rest());
}

#[test]
fn who_is_gone_from_a_pool_owes_nobody_and_the_next_with_its_number_begins_anew() {
    let mut pool = Pooled::default();
    pool.begin(1);
    pool.begin(2);
    pool.sent(1, 700);
    pool.sent(2, 500);
    pool.sent(1, 300);
    // Its 300 bytes behind are nobody's; what it owes lets the other one's go.
    assert_eq!(pool.end(1), [2]);
    pool.begin(1);
    pool.sent(1, 50);
    assert_eq!(pool.released(1), 0);
    assert_eq!(pool.acknowledged(2, 500), [2]);
    assert_eq!((pool.released(2), pool.released(1)), (500, 0));
    assert!(!pool.is_at_rest());
    assert_eq!(pool.acknowledged(1, 50), [1]);
    assert_eq!(pool.released(1), 50);
    assert!(pool.is_at_rest());
}

/// What happens next: a frame of a flow, or its server acknowledges a part of what it has.
#[derive(Clone, Copy, Debug)]
enum Step {
    Frame(u16, u32),
    Acknowledge(u16, u32),
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let frame = (1..5_u16, prop_oneof![Just(0), 1..3_000_u32]);
    let acknowledge = (1..5_u16, 1..4_000_u32);
    prop::collection::vec(
        prop_oneof![
            frame.prop_map(|(uid, data)| Step::Frame(uid, data)),
            acknowledge.prop_map(|(uid, most)| Step::Acknowledge(uid, most)),
        ],
        1..200,
    )
}

proptest! {
    #[test]
    fn whatever_the_order_all_is_released_in_the_end_and_strictly_none_too_early(steps in steps()) {
        for release in BOTH {
            let mut ends = Ends::new(release);
            let mut at_server: HashMap<u16, u64> = HashMap::new();
            let mut acknowledged: HashMap<u16, u64> = HashMap::new();
            let mut aggregate = 0_u32;
            for step in &steps {
                match *step {
                    Step::Frame(uid, data) => {
                        *at_server.entry(uid).or_default() += u64::from(data);
                        aggregate += 4 + data;
                        let of_client = u32::try_from(at_server[&uid]).expect("a small sum");
                        ends.frame(uid, data, aggregate, of_client);
                    }
                    Step::Acknowledge(uid, most) => {
                        let seen = acknowledged.entry(uid).or_default();
                        let open = at_server.get(&uid).copied().unwrap_or(0) - *seen;
                        let part = open.min(most.into());
                        *seen += part;
                        ends.acknowledge(uid, part);
                    }
                }
                if release == Release::Strict {
                    for (uid, number) in &ends.released {
                        let at_server = acknowledged.get(uid).copied().unwrap_or(0);
                        prop_assert!(u64::from(*number) <= at_server);
                    }
                }
            }
            for (uid, total) in &at_server {
                let open = total - acknowledged.get(uid).copied().unwrap_or(0);
                ends.acknowledge(*uid, open);
            }
            ends.assert_at_rest();
        }
    }
}

proptest! {
    /// Together no more than all servers have; nobody more than he has sent; nothing is left.
    #[test]
    fn a_pool_gives_out_what_came_in(steps in steps(), gone in 1..5_u16, at in 0..200_usize) {
        let mut pool = Pooled::default();
        let mut sent: HashMap<u16, u64> = (1..5).map(|uid| (uid, 0)).collect();
        let mut acknowledged = sent.clone();
        (1..5).for_each(|uid| pool.begin(uid));
        let mut paid = 0;
        for (number, step) in steps.iter().enumerate() {
            match *step {
                Step::Frame(uid, data) => {
                    pool.sent(uid, data.into());
                    *sent.get_mut(&uid).expect("it has begun") += u64::from(data);
                }
                Step::Acknowledge(uid, most) => {
                    let part = (sent[&uid] - acknowledged[&uid]).min(most.into());
                    pool.acknowledged(uid, part);
                    *acknowledged.get_mut(&uid).expect("it has begun") += part;
                    paid += part;
                }
            }
            if number == at {
                pool.end(gone);
                paid += sent[&gone] - acknowledged[&gone];
                pool.begin(gone);
                sent.insert(gone, 0);
                acknowledged.insert(gone, 0);
            }
            let released: u64 = sent.keys().map(|uid| pool.released(*uid)).sum();
            prop_assert!(released <= paid);
            for (uid, sent) in &sent {
                prop_assert!(pool.released(*uid) <= *sent);
            }
        }
        for (uid, sent) in &sent {
            pool.acknowledged(*uid, sent - acknowledged[uid]);
        }
        prop_assert!(pool.is_at_rest());
        for (uid, sent) in &sent {
            prop_assert_eq!(pool.released(*uid), *sent);
        }
    }
}

#[test]
fn a_part_of_a_frame_is_acknowledged_when_the_server_has_it() {
    for release in BOTH {
        let mut split = SplitLedger::new(release);
        // Two bytes of the header, the other two with 500 of 1 000 bytes of data, the rest.
        let mut credit = split.part_arrived(1, 2, 0);
        credit += split.part_arrived(1, 2, 500);
        assert_eq!(credit, 2, "{release:?}: no server acknowledges a header");
        credit += split.acknowledged(1, 500);
        assert_eq!(credit, 504, "{release:?}: all that has arrived");
        credit += split.part_arrived(1, 0, 500);
        credit += split.acknowledged(1, 500);
        assert_eq!(credit, 1_004, "{release:?}");
        assert!(split.is_at_rest(), "{release:?}");
    }
}
