//! Bulk transfers: windows, losses, ends.

mod support;

use support::{Pair, ms, plain};
use weir_tcp::{Config, End, State};

#[test]
fn slow_start_doubles_each_round_trip() {
    // 10, 20, 40, 80 segments: 150 are sent in four rounds, the last arriving half a round later.
    let mut pair = Pair::established(&plain(), ms(50));
    let start = pair.now;
    pair.write(150_000);
    pair.run_until(|pair| pair.read[1] == 150_000);
    assert_eq!(pair.now, start + ms(3 * 100 + 50));
    assert_eq!(pair.near.statistics().retransmissions, 0);
}

#[test]
fn both_sides_finish() {
    let config = Config { time_wait: ms(1_000), ..plain() };
    let mut pair = Pair::established(&config, ms(10));
    pair.write(100_000);
    pair.near.close();
    pair.run_until(|pair| pair.far.state() == State::CloseWait);
    assert_eq!(pair.read[1], 100_000);
    pair.far.close();
    pair.run_until(|pair| pair.near.end().is_some() && pair.far.end().is_some());
    assert_eq!(pair.near.end(), Some(End::Finished));
    assert_eq!(pair.far.end(), Some(End::Finished));
    assert_eq!(pair.near.acked(), 100_000);
}

#[test]
fn a_single_loss_costs_one_retransmission_and_no_timeout() {
    let mut pair = Pair::established(&plain(), ms(50));
    pair.lose(&[20_001]);
    pair.write(1_000_000);
    pair.run_until(|pair| pair.read[1] == 1_000_000);
    let statistics = pair.near.statistics();
    assert_eq!((statistics.retransmissions, statistics.timeouts), (1, 0), "{}", pair.script());
    assert_eq!(statistics.recoveries, 1);
}
