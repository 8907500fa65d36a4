//! Flow control, delayed acknowledgements, pacing, idleness.

mod support;

use support::{Fate, Fixed, Pair, Way, ms, plain};
use weir_tcp::{Config, Connection, DelayedAck, ReceiveBuffer};
use weir_units::{Rate, Time};

#[test]
fn a_reader_that_stops_stops_the_sender_at_its_buffer() {
    let config = Config { receive_buffer: ReceiveBuffer::Fixed { size: 20_000 }, ..plain() };
    let mut pair = Pair::of_window(100, &config, ms(50));
    pair.reads = false;
    let start = pair.now;
    pair.write(100_000);
    pair.run_to(start + ms(250));
    assert_eq!((pair.far.readable(), pair.near.acked()), (20_000, 20_000));
    // Window probes, an RTO apart at first and then twice as long each time.
    pair.run_to(start + ms(100 + 300 + 600 + 1_200 + 100));
    let probes: Vec<Time> = pair
        .log
        .iter()
        .filter(|sent| sent.way == Way::Out && sent.segment().seq == 20_000)
        .map(|sent| sent.at - start)
        .collect();
    assert_eq!(probes, [ms(400), ms(1_000), ms(2_200)], "{}", pair.script());
    // The window opens: the sender hears of it at once, without a probe.
    pair.reads = true;
    pair.flush();
    let opened = pair.now;
    pair.run_until(|pair| pair.read[1] > 20_000);
    assert_eq!(pair.now, opened + ms(100));
    pair.run_until(|pair| pair.read[1] == 100_000);
}

#[test]
fn a_lost_window_update_is_made_good_by_a_probe() {
    let config = Config { receive_buffer: ReceiveBuffer::Fixed { size: 20_000 }, ..plain() };
    let mut pair = Pair::of_window(100, &config, ms(50));
    pair.reads = false;
    pair.write(40_000);
    pair.run_until(|pair| pair.far.readable() == 20_000);
    pair.run_to(pair.now + ms(200));
    pair.rule(|way, _, _| if way == Way::Back { Fate::Drop } else { Fate::Pass });
    pair.reads = true;
    pair.flush();
    pair.rule(|_, _, _| Fate::Pass);
    pair.run_until(|pair| pair.read[1] == 40_000);
    assert!(pair.near.statistics().window_probes >= 1);
}

#[test]
fn an_automatic_buffer_keeps_ahead_of_slow_start() {
    // From 64 KiB: a fixed buffer of that size holds the sender at 64 KiB per round trip.
    let rounds = |receive_buffer| {
        let config = Config { receive_buffer, ..plain() };
        let mut pair = Pair::established(&config, ms(50));
        pair.write(5_000_000);
        let start = pair.now;
        pair.run_until(|pair| pair.read[1] == 5_000_000);
        (pair.now - start).as_ns() / ms(100).as_ns()
    };
    let fixed = rounds(ReceiveBuffer::Fixed { size: 65_536 });
    let large = rounds(ReceiveBuffer::Fixed { size: 1 << 24 });
    let auto = rounds(ReceiveBuffer::Auto { initial: 65_536, most: 1 << 24 });
    assert!(fixed >= 5_000_000 / 65_536, "{fixed}");
    assert_eq!(large, 8, "10 (2^9 - 1) segments are more than 5000");
    assert!(auto <= large + 1, "{auto}");
}

/// Instants of the acknowledgements of segments of 1000 bytes written at these times.
fn acknowledged_at(delayed_ack: DelayedAck, writes: &[u64]) -> Vec<u64> {
    let mut pair = Pair::of_window(100, &Config { delayed_ack, ..plain() }, ms(10));
    // The first segment is answered by the window that the SYN could not yet scale.
    pair.write(1_000);
    pair.run_until(|pair| pair.near.acked() == 1_000);
    pair.log.clear();
    let start = pair.now;
    for &at in writes {
        pair.run_to(start + ms(at));
        pair.write(1_000);
    }
    pair.run_until(|pair| pair.near.acked() == 1_000 + 1_000 * writes.len() as u64);
    let back = pair.log.iter().filter(|sent| sent.way == Way::Back);
    back.map(|sent| (sent.at - start).as_ns() / 1_000_000).collect()
}

#[test]
fn every_second_segment_is_acknowledged_and_a_lone_one_after_the_delay() {
    let every_second = DelayedAck { quick: 0, ..DelayedAck::LINUX };
    assert_eq!(acknowledged_at(every_second, &[0, 1, 2, 3]), [11, 13]);
    assert_eq!(acknowledged_at(every_second, &[0, 1, 2]), [11, 12 + 40]);
    assert_eq!(acknowledged_at(DelayedAck::plain(ms(200)), &[0]), [210]);
    // Linux acknowledges the first sixteen at once.
    assert_eq!(acknowledged_at(DelayedAck::LINUX, &[0, 5, 10]), [10, 15, 20]);
}

#[test]
fn what_is_out_of_order_is_acknowledged_at_once() {
    let delayed_ack = DelayedAck { quick: 0, ..DelayedAck::LINUX };
    let mut pair = Pair::of_window(100, &Config { delayed_ack, ..plain() }, ms(10));
    pair.lose(&[1]);
    let start = pair.now;
    pair.write(2_000);
    pair.run_to(start + ms(10));
    let back = pair.log.last().unwrap();
    assert_eq!((back.at, back.segment().ack), (start + ms(10), 1));
    assert_eq!((back.segment().sack[0].start, back.segment().sack[0].end), (1_001, 2_001));
}

#[test]
fn segments_leave_at_the_pacing_rate() {
    let rate = Some(Rate::from_mbit_per_s(8));
    let near = Box::new(Fixed { rate, ..Fixed::new(100_000) });
    let one_by_one = Config { pacing_bursts: false, ..plain() };
    let mut pair = Pair::with(
        Connection::connect(one_by_one, near, Time::ZERO),
        Connection::accept(plain(), Box::new(Fixed::new(100_000)), Time::ZERO),
        ms(50),
    )
    .after_handshake();
    let start = pair.now;
    pair.write(10_000);
    pair.run_until(|pair| pair.near.acked() == 10_000);
    // 1000 bytes at 8 Mbit/s: one each millisecond.
    let times: Vec<Time> = pair.data().map(|sent| sent.at - start).collect();
    assert_eq!(times, (0..10).map(ms).collect::<Vec<_>>());
}

#[test]
fn the_delivery_rate_is_that_of_the_bottleneck() {
    // Acknowledgements spaced by 1 ms for each 1000 bytes: 8 Mbit/s, with plenty in flight.
    let told = std::sync::Arc::default();
    let near = Box::new(Fixed::new(200_000).telling(&told));
    let mut pair = Pair::with(
        Connection::connect(plain(), near, Time::ZERO),
        Connection::accept(plain(), Box::new(Fixed::new(200_000)), Time::ZERO),
        ms(50),
    )
    .after_handshake();
    let mut free_at = Time::ZERO;
    pair.rule(move |way, transmit, now| {
        if way == Way::Back || transmit.segment.len == 0 {
            return Fate::Pass;
        }
        free_at = free_at.max(now) + ms(1);
        Fate::Late(free_at - now)
    });
    pair.write(1_000_000);
    pair.run_until(|pair| pair.near.acked() == 1_000_000);
    let told = told.lock().unwrap();
    // The window of the SYN, 64 KiB, cuts the first round trips into bursts.
    for sample in &told.samples[600..900] {
        assert_eq!(sample.delivery_rate, Some(Rate::from_mbit_per_s(8)));
        assert!(sample.is_cwnd_limited && !sample.is_app_limited);
    }
    assert_eq!(told.samples.last().unwrap().delivered, 1_000_000);
}

#[test]
fn a_sender_with_little_to_say_is_application_limited() {
    let told = std::sync::Arc::default();
    let near = Box::new(Fixed::new(50_000).telling(&told));
    let mut pair = Pair::with(
        Connection::connect(plain(), near, Time::ZERO),
        Connection::accept(plain(), Box::new(Fixed::new(50_000)), Time::ZERO),
        ms(50),
    )
    .after_handshake();
    for _ in 0..20 {
        pair.write(1_000);
        pair.run_to(pair.now + ms(10));
    }
    pair.run_until(|pair| pair.near.acked() == 20_000);
    let told = told.lock().unwrap();
    assert!(told.samples[2..].iter().all(|sample| sample.is_app_limited));
    assert!(told.samples.iter().all(|sample| !sample.is_cwnd_limited || sample.acked == 0));
}
