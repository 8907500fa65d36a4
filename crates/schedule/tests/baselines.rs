//! The policies to compare with, on cases small enough for the answer to be known.

#![allow(clippy::unwrap_used, reason = "what cannot go on here has failed")]

use std::collections::BTreeMap;
use std::sync::Arc;

use weir_schedule::calendar::{Amoeba, Booking, DcRoute, Edf, Instruction, Planner, Tempus};
use weir_topology::Network;
use weir_units::{Bytes, Rate, Time};

/// a to c directly at 10 Mbit/s, and over b at as much.
fn triangle() -> Arc<Network> {
    let mut builder = Network::builder();
    for node in ["a", "b", "c"] {
        builder.node(node).unwrap();
    }
    for (from, to) in [("a", "c"), ("a", "b"), ("b", "c")] {
        let name = format!("{from}{to}");
        builder.link(&name, from, to, Rate::from_mbit_per_s(10), Time::ZERO).unwrap();
    }
    Arc::new(builder.build())
}

fn s(seconds: u64) -> Time {
    Time::from_ms(seconds * 1000)
}

/// From a to c: so many seconds of 10 Mbit/s, less what planners reserve beside.
fn booking(number: usize, link_seconds: u64, start: u64, deadline: u64) -> Booking {
    let network = triangle();
    Booking {
        number,
        source: network.node("a").unwrap(),
        destination: network.node("c").unwrap(),
        start: s(start),
        size: Bytes::new(link_seconds * 1_250_000 - 1000),
        deadline: s(deadline),
        rate_max: Rate::MAX,
    }
}

/// The rates in Mbit/s that are in force, by transfer and path, and who was given up.
#[derive(Default)]
struct Seen {
    rates: BTreeMap<(usize, usize), f64>,
    gone: Vec<usize>,
}

impl Seen {
    fn hear(&mut self, now: Time, planner: &mut dyn Planner) {
        for instruction in planner.tell(now) {
            match instruction {
                Instruction::Send { number, path, rate } => {
                    self.rates.insert((number, path), rate.as_bit_per_s() as f64 / 1e6);
                }
                Instruction::GiveUp { number } => self.gone.push(number),
            }
        }
        self.rates.retain(|_, rate| *rate > 0.0);
    }

    fn is(&self, expected: &[((usize, usize), f64)]) {
        let found: Vec<_> = self.rates.iter().map(|(key, rate)| (*key, *rate)).collect();
        assert_eq!(found.len(), expected.len(), "{found:?}");
        for ((key, rate), (expected, about)) in found.iter().zip(expected) {
            assert_eq!(key, expected);
            assert!((rate - about).abs() < 1e-3, "{found:?}");
        }
    }
}

fn submit(planner: &mut dyn Planner, seen: &mut Seen, now: u64, booking: Booking) -> bool {
    let admitted = planner.submit(s(now), booking).unwrap();
    seen.hear(s(now), planner);
    admitted
}

#[test]
fn edf_serves_the_most_urgent_alone_and_gives_up_who_is_late() {
    let (mut edf, mut seen) = (Edf::new(triangle()), Seen::default());
    assert!(submit(&mut edf, &mut seen, 0, booking(0, 50, 0, 100)));
    seen.is(&[((0, 0), 10.0)]);
    assert!(submit(&mut edf, &mut seen, 1, booking(1, 50, 1, 20)));
    seen.is(&[((1, 0), 10.0)]);
    assert_eq!(edf.next_step(), Some(s(20)));
    seen.hear(s(20), &mut edf);
    assert_eq!(seen.gone, [1]);
    seen.rates.remove(&(1, 0));
    seen.is(&[((0, 0), 10.0)]);
}

#[test]
fn edf_waits_for_the_start_of_a_booked_transfer() {
    let (mut edf, mut seen) = (Edf::new(triangle()), Seen::default());
    submit(&mut edf, &mut seen, 0, booking(0, 50, 0, 100));
    submit(&mut edf, &mut seen, 0, booking(1, 5, 10, 20));
    seen.is(&[((0, 0), 10.0)]);
    seen.hear(edf.next_step().unwrap(), &mut edf);
    seen.is(&[((1, 0), 10.0)]);
}

#[test]
fn tempus_gives_each_the_same_share_of_what_it_needs_when_there_is_too_little() {
    let (mut tempus, mut seen) = (Tempus::new(triangle(), s(10)).unwrap(), Seen::default());
    seen.hear(s(0), &mut tempus);
    // At 10 s they need 15 and 5 Mbit/s of 10: each gets half.
    submit(&mut tempus, &mut seen, 1, booking(0, 135, 1, 100));
    submit(&mut tempus, &mut seen, 2, booking(1, 45, 2, 100));
    seen.is(&[]);
    seen.hear(s(10), &mut tempus);
    seen.is(&[((0, 0), 7.5), ((1, 0), 2.5)]);
}

#[test]
fn tempus_gives_what_is_left_to_the_earliest_deadline() {
    let (mut tempus, mut seen) = (Tempus::new(triangle(), s(10)).unwrap(), Seen::default());
    seen.hear(s(0), &mut tempus);
    submit(&mut tempus, &mut seen, 1, booking(0, 27, 1, 100));
    submit(&mut tempus, &mut seen, 1, booking(1, 18, 1, 190));
    seen.hear(s(10), &mut tempus);
    seen.is(&[((0, 0), 9.0), ((1, 0), 1.0)]);
}

#[test]
fn amoeba_reserves_early_and_takes_a_detour_when_the_short_path_is_full() {
    let (mut amoeba, mut seen) = (Amoeba::new(triangle(), 2), Seen::default());
    assert!(submit(&mut amoeba, &mut seen, 0, booking(0, 10, 0, 10)));
    assert!(submit(&mut amoeba, &mut seen, 0, booking(1, 10, 0, 10)));
    seen.is(&[((0, 0), 10.0), ((1, 1), 10.0)]);
    assert!(!submit(&mut amoeba, &mut seen, 0, booking(2, 1, 0, 10)));
}

#[test]
fn amoeba_moves_those_who_have_time_for_one_who_has_not() {
    let (mut amoeba, mut seen) = (Amoeba::new(triangle(), 1), Seen::default());
    assert!(submit(&mut amoeba, &mut seen, 0, booking(0, 10, 0, 20)));
    assert!(submit(&mut amoeba, &mut seen, 0, booking(1, 10, 0, 10)));
    seen.is(&[((1, 0), 10.0)]);
    // One who fits nowhere changes nothing.
    assert!(!submit(&mut amoeba, &mut seen, 0, booking(2, 1, 0, 20)));
    seen.is(&[((1, 0), 10.0)]);
    amoeba.complete(s(10), 1);
    seen.rates.remove(&(1, 0));
    seen.hear(s(10), &mut amoeba);
    seen.is(&[((0, 0), 10.0)]);
}

#[test]
fn dcroute_reserves_late_on_the_emptier_path_and_pulls_forward_at_slots() {
    let (mut dcroute, mut seen) = (DcRoute::new(triangle(), 2, s(4)).unwrap(), Seen::default());
    seen.hear(s(0), &mut dcroute);
    // Both links of the detour count, so the direct one is taken while it has less than twice.
    assert!(submit(&mut dcroute, &mut seen, 1, booking(0, 10, 1, 20)));
    seen.is(&[]);
    assert_eq!(dcroute.next_step(), Some(s(4)));
    // From 4 to 8 s it sends what was reserved from 10 to 14 s.
    seen.hear(s(4), &mut dcroute);
    seen.is(&[((0, 0), 10.0)]);
    // A newcomer that needs the link until 11 s finds it free but for the slot; one that
    // needs more than there is until its deadline is refused.
    assert!(submit(&mut dcroute, &mut seen, 4, booking(1, 6, 4, 14)));
    assert!(!submit(&mut dcroute, &mut seen, 4, booking(2, 40, 4, 20)));
}

#[test]
fn slots_of_nothing_are_refused() {
    assert!(Tempus::new(triangle(), Time::ZERO).is_err());
    assert!(DcRoute::new(triangle(), 1, Time::ZERO).is_err());
}
