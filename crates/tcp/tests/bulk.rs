//! Bulk transfers: windows, losses, ends.

mod support;

use support::{Fate, Fixed, Pair, Way, ms, plain};
use weir_tcp::{Config, Connection, End, State};
use weir_units::{Rate, Time};

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

#[test]
fn a_paced_sender_lets_a_millisecond_go_at_once() {
    // 10 Mbit/s are 1 220 bytes in 1/1024 s, less than the two segments that go at least.
    for (bursts, expected) in [(true, 2), (false, 1)] {
        let config = Config { pacing_bursts: bursts, ..plain() };
        let rate = Some(Rate::from_mbit_per_s(10));
        let paced = || {
            let mut control = Box::new(Fixed::new(1_000_000));
            control.rate = rate;
            control
        };
        let near = Connection::connect(config, paced(), ms(0));
        let far = Connection::accept(config, paced(), ms(0));
        let mut pair = Pair::with(near, far, ms(5));
        pair.write(100_000);
        pair.run_until(|pair| pair.read[1] == 100_000);
        let times: Vec<_> =
            pair.log.iter().filter(|sent| sent.is_data()).map(|sent| sent.at).collect();
        assert_eq!(times.len(), 100);
        let together = times.chunk_by(|a, b| a == b).map(<[_]>::len).max();
        assert_eq!(together, Some(expected));
        // The mean rate is the one asked for: 1 000 bytes of data in 0.8 ms.
        let span = times[98] - times[0];
        assert_eq!(span, Time::from_us(800 * 98));
    }
}

#[test]
fn an_unpaced_sender_waits_for_a_train() {
    // 80 Mbit/s behind 20 ms, and 300 segments: a round trip of 30 ms, in 1/1024 s of which 1.2
    // windows are 11 719 bytes. Acknowledgements bring room for a segment each 0.1 ms.
    for (offload, expected) in [(true, 11), (false, 1)] {
        let config = Config { segmentation_offload: offload, ..plain() };
        let mut pair = Pair::of_window(300, &config, ms(10));
        let mut free_at = Time::ZERO;
        pair.rule(move |way, transmit, now| {
            if way == Way::Back || transmit.segment.len == 0 {
                return Fate::Pass;
            }
            free_at = free_at.max(now) + Time::from_us(100);
            Fate::Late(free_at - now)
        });
        pair.write(6_000_000);
        pair.run_until(|pair| pair.near.acked() == 6_000_000);
        let times: Vec<_> = pair.data().map(|sent| sent.at).collect();
        let trains: Vec<_> = times.chunk_by(|a, b| a == b).map(<[_]>::len).collect();
        let usual = trains.iter().filter(|&&len| len == expected).count();
        assert!(usual * 10 > trains.len() * 9, "{trains:?}");
    }
}

#[test]
fn no_control_paces_above_the_ceiling() {
    // 5 Mbit/s, whether the control would pace at 10 or not at all: 1.6 ms for 1 000 bytes.
    let ceiling = Some(Rate::from_mbit_per_s(5));
    let config = Config { pacing_rate_max: ceiling, pacing_bursts: false, ..plain() };
    for rate in [None, Some(Rate::from_mbit_per_s(10))] {
        let paced = || {
            let mut control = Box::new(Fixed::new(1_000_000));
            control.rate = rate;
            control
        };
        let near = Connection::connect(config, paced(), ms(0));
        let far = Connection::accept(config, paced(), ms(0));
        let mut pair = Pair::with(near, far, ms(5));
        pair.write(100_000);
        pair.run_until(|pair| pair.read[1] == 100_000);
        let times: Vec<_> =
            pair.log.iter().filter(|sent| sent.is_data()).map(|sent| sent.at).collect();
        assert_eq!(times[98] - times[0], Time::from_us(1_600 * 98));
    }
}
