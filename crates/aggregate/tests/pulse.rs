//! Signs of life: who runs is never given up, and who does not is, in time.

use std::time::Duration;

use proptest::prelude::*;
use weir_aggregate::pulse::Pulse;

fn ms(count: u64) -> Duration {
    Duration::from_millis(count)
}

/// Two ends in virtual time; each looks again and again while it runs.
struct Ends {
    pulses: [Pulse; 2],
    looked: [u64; 2],
    now: u64,
    /// When signs arrive at either end.
    on_their_way: [Vec<u64>; 2],
}

impl Ends {
    fn new(patience: [u64; 2]) -> Self {
        let mut pulses = patience.map(|patience| Pulse::new(ms(patience)));
        pulses[0].asked(ms(patience[1]));
        pulses[1].asked(ms(patience[0]));
        Self { pulses, looked: [0, 0], now: 0, on_their_way: [Vec::new(), Vec::new()] }
    }

    /// Time passes, a step of it, with those ends running, over a line that takes so long.
    fn step(&mut self, step: u64, runs: [bool; 2], delay: u64) {
        self.now += step;
        for one in [0, 1] {
            if !runs[one] {
                continue;
            }
            let (now, pulse) = (self.now, &mut self.pulses[one]);
            if self.on_their_way[one].iter().any(|at| *at <= now) {
                self.on_their_way[one].retain(|at| *at > now);
                pulse.heard();
            }
            pulse.pass(ms(now - self.looked[one]));
            self.looked[one] = now;
            if pulse.is_due() {
                pulse.said();
                self.on_their_way[1 - one].push(now + delay);
            }
        }
    }

    fn lost(&self) -> [bool; 2] {
        [self.pulses[0].is_lost(), self.pulses[1].is_lost()]
    }
}

proptest! {
    #[test]
    fn who_runs_is_never_given_up_however_unlike_the_patience_of_both(
        patience in [2_000_u64..60_000, 2_000_u64..60_000], step in 1_u64..200,
        delays in prop::collection::vec(0_u64..800, 1..50),
    ) {
        let mut ends = Ends::new(patience);
        for turn in 0..(200_000 / step as usize) {
            ends.step(step, [true, true], delays[turn % delays.len()]);
            prop_assert_eq!(ends.lost(), [false, false]);
        }
    }

    #[test]
    fn who_is_stopped_is_given_up_when_patience_is_at_its_end(
        patience in [2_000_u64..60_000, 2_000_u64..60_000],
        step in 1_u64..200,
        before in 0_u64..100_000,
    ) {
        let mut ends = Ends::new(patience);
        while ends.now < before {
            ends.step(step, [true, true], 10);
        }
        let stopped = ends.now;
        while !ends.lost()[0] {
            ends.step(step, [true, false], 10);
            prop_assert!(ends.now <= stopped + patience[0] + 10 + 2 * step);
        }
        prop_assert!(ends.now >= stopped + patience[0] - patience[0] / 4 - 2 * step - 10);
    }

    #[test]
    fn who_was_stopped_gives_the_other_end_time_to_be_heard(
        patience in 2_000_u64..60_000, asleep in 0_u64..10_000_000,
    ) {
        let mut ends = Ends::new([patience, patience]);
        for _ in 0..1_000 {
            ends.step(100, [true, true], 10);
        }
        ends.now += asleep; // Both were.
        for _ in 0..1_000 {
            ends.step(100, [true, true], 10);
            prop_assert_eq!(ends.lost(), [false, false]);
        }
    }
}

#[test]
fn nothing_is_added_where_something_goes_anyway() {
    let mut pulse = Pulse::new(ms(4_000));
    for _ in 0..100 {
        pulse.pass(ms(900));
        assert!(!pulse.is_due());
        pulse.said();
    }
    pulse.pass(ms(1_000));
    assert!(pulse.is_due(), "it is heard of four times in its patience");
}
