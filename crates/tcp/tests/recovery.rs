//! What was lost is found and repaired, when and how often; what was not is taken back.

mod support;

use std::sync::Arc;

use support::{Fate, Fixed, Pair, Way, ms, plain};
use weir_tcp::congestion::Signal;
use weir_tcp::{Config, Connection, DelayedAck, LossDetection, Rto, RtoRule};
use weir_units::Time;

/// A window of twenty segments, ten segments written, a round trip of 100 ms.
fn ten(config: &Config, lost: &[u64]) -> (Pair, Time) {
    let mut pair = Pair::of_window(20, config, ms(50));
    pair.lose(lost);
    let start = pair.now;
    pair.write(10_000);
    (pair, start)
}

#[test]
fn a_loss_is_repaired_one_round_trip_after_it() {
    // The third segment behind the hole is delivered at 50 ms and acknowledged at 100 ms.
    let (mut pair, start) = ten(&plain(), &[3_001]);
    pair.run_until(|pair| pair.read[1] == 10_000);
    assert_eq!(pair.times_of(3_001), [start, start + ms(100)]);
    assert_eq!(pair.now, start + ms(150));
}

#[test]
fn one_acknowledgement_of_both_sides_of_a_hole_tells_of_no_reordering() {
    // The receiver keeps back what it has to say of the last segment before one of the holes, and
    // the first behind it makes it tell of both. They came in order: the third is enough.
    for hole in [3_001, 4_001] {
        let config = Config { delayed_ack: DelayedAck::plain(ms(40)), ..plain() };
        let (mut pair, start) = ten(&config, &[hole]);
        pair.run_until(|pair| pair.read[1] == 10_000);
        assert_eq!(pair.times_of(hole), [start, start + ms(100)], "{}", pair.script());
    }
}

#[test]
fn many_holes_are_repaired_in_one_round_trip() {
    for loss_detection in [LossDetection::Rack, LossDetection::DupThresh] {
        let config = Config { loss_detection, ..plain() };
        let (mut pair, start) = ten(&config, &[1, 2_001, 4_001, 6_001]);
        pair.run_until(|pair| pair.read[1] == 10_000);
        assert_eq!(pair.now, start + ms(150), "{loss_detection:?}\n{}", pair.script());
        assert_eq!(pair.near.statistics().retransmissions, 4);
        assert_eq!(pair.near.statistics().recoveries, 1);
    }
}

#[test]
fn two_segments_behind_a_hole_are_too_few_for_the_threshold_but_not_for_rack() {
    // RACK waits a quarter of the round trip for reordering; the threshold of three never comes
    // and the timer (300 ms after the last acknowledgement that advanced) repairs.
    let no_probe = Config { tail_loss_probe: None, ..plain() };
    let (mut pair, start) = ten(&no_probe, &[6_001]);
    pair.run_until(|pair| pair.read[1] == 10_000);
    assert_eq!(pair.times_of(6_001)[1], start + ms(100), "exactly three are behind it");

    let (mut pair, start) = ten(&no_probe, &[7_001]);
    pair.run_until(|pair| pair.read[1] == 10_000);
    assert_eq!(pair.times_of(7_001)[1], start + ms(125));

    let threshold = Config { loss_detection: LossDetection::DupThresh, ..no_probe };
    let (mut pair, start) = ten(&threshold, &[7_001]);
    pair.run_until(|pair| pair.read[1] == 10_000);
    assert_eq!(pair.times_of(7_001)[1], start + ms(100 + 300));
}

#[test]
fn a_lost_retransmission_is_found_by_rack_and_not_by_the_threshold() {
    let run = |loss_detection| {
        let config = Config { loss_detection, ..plain() };
        let mut pair = Pair::of_window(20, &config, ms(50));
        pair.lose(&[3_001, 3_001]);
        pair.write(200_000);
        pair.run_until(|pair| pair.read[1] == 200_000);
        pair.near.statistics().timeouts
    };
    assert_eq!(run(LossDetection::Rack), 0);
    assert_eq!(run(LossDetection::DupThresh), 1);
}

#[test]
fn the_tail_is_probed_after_two_round_trips() {
    // RFC 8985 section 7.2: PTO = 2 SRTT after the acknowledgement; the probe repeats the last
    // segment, its SACK tells of the one before, and that is repaired without a timeout.
    let (mut pair, start) = ten(&plain(), &[8_001, 9_001]);
    pair.run_until(|pair| pair.read[1] == 10_000);
    assert_eq!(pair.times_of(9_001)[1], start + ms(100 + 200), "{}", pair.script());
    assert_eq!(pair.times_of(8_001)[1], start + ms(100 + 200 + 100), "{}", pair.script());
    let statistics = pair.near.statistics();
    assert_eq!((statistics.timeouts, statistics.tail_loss_probes), (0, 1));
}

#[test]
fn a_lone_segment_is_probed_200_ms_later_still() {
    // 004-spec section 14 test 10, and RFC 8985 section 7.2: the acknowledgement of a lone segment
    // may be delayed. The RTO of a steady round trip of 100 ms is 300 ms: it caps the probe.
    let mut pair = Pair::of_window(20, &plain(), ms(50));
    pair.lose(&[1]);
    let start = pair.now;
    pair.write(1_000);
    pair.run_until(|pair| pair.read[1] == 1_000);
    let times = pair.times_of(1);
    assert_eq!(times.len(), 2);
    assert_eq!(times[1], start + ms(300));
    assert_eq!(pair.near.statistics().tail_loss_probes, 1);
}

#[test]
fn a_loss_that_a_probe_repaired_lowers_the_window() {
    // RFC 8985 section 7.4.2: known from the first acknowledgement beyond the probe.
    let told = Arc::default();
    let fixed = Box::new(Fixed::new(20_000).telling(&told));
    let mut pair = Pair::with(
        Connection::connect(plain(), fixed, Time::ZERO),
        Connection::accept(plain(), Box::new(Fixed::new(20_000)), Time::ZERO),
        ms(50),
    )
    .after_handshake();
    pair.lose(&[1]);
    pair.write(1_000);
    pair.run_until(|pair| pair.near.acked() == 1_000);
    pair.write(1_000);
    pair.run_until(|pair| pair.near.acked() == 2_000);
    let told = told.lock().unwrap();
    assert_eq!(told.signals.iter().map(|s| s.1).collect::<Vec<_>>(), [Signal::Loss]);
}

#[test]
fn timeouts_double_and_a_new_sample_resets_them() {
    let config = Config { tail_loss_probe: None, ..plain() };
    let mut pair = Pair::of_window(20, &config, ms(50));
    pair.lose(&[1, 1, 1, 1]);
    let start = pair.now;
    pair.write(1_000);
    pair.run_until(|pair| pair.near.acked() == 1_000);
    let waits = [0, 300, 900, 2_100, 4_500].map(|at| start + ms(at));
    assert_eq!(pair.times_of(1), waits);
    assert_eq!(pair.near.statistics().rto, ms(300));
}

#[test]
fn the_timer_follows_the_rule() {
    // A steady round trip: RTTVAR falls to nothing, and the floors tell the rules apart.
    for (rto, expected) in [
        (Rto::LINUX, ms(300)),
        (Rto { rule: RtoRule::LinuxFloor, ..Rto::LINUX }, ms(300)),
        (Rto::RFC6298, ms(1_000)),
        (Rto { min: ms(0), ..Rto::RFC6298 }, ms(100)),
    ] {
        let config = Config { rto, ..plain() };
        let mut pair = Pair::of_window(1, &config, ms(50));
        pair.write(200_000);
        pair.run_until(|pair| pair.near.acked() == 200_000);
        let found = pair.near.statistics().rto;
        assert!(found.as_ns().abs_diff(expected.as_ns()) < 1_000, "{rto:?}: {found}");
    }
}

#[test]
fn reordering_is_no_loss_once_it_was_seen() {
    // A segment that is late by a tenth of the round trip: the threshold retransmits needlessly.
    // RACK does so once, learns from the DSACK, and is right the second time.
    let mut pair = Pair::of_window(20, &plain(), ms(50));
    pair.rule(|way, transmit, _| {
        let is_late = [5_001, 205_001].contains(&transmit.segment.seq);
        if way == Way::Out && is_late && transmit.segment.len > 0 {
            Fate::Late(ms(10))
        } else {
            Fate::Pass
        }
    });
    pair.write(300_000);
    pair.run_until(|pair| pair.near.acked() == 300_000);
    assert_eq!(pair.times_of(205_001).len(), 1, "{}", pair.script());
    assert_eq!(pair.near.statistics().timeouts, 0);
}

#[test]
fn a_timeout_that_was_a_delay_is_taken_back() {
    // All is late by 280 ms once: the timer runs out after 300 ms, and the acknowledgements of the
    // originals come 30 ms later. With timestamps the first tells, for it echoes one from before
    // the retransmission (RFC 3522); without, the second does, after new data was sent instead of
    // more retransmissions (RFC 5682 section 3.1).
    for timestamps in [true, false] {
        let config = Config { timestamps, tail_loss_probe: None, ..plain() };
        let mut pair = Pair::established(&config, ms(50));
        let start = pair.now;
        pair.rule(move |way, transmit, now| {
            let spacing = ms(transmit.segment.seq / 1_000);
            let is_slow = way == Way::Out && now < start + ms(1);
            if is_slow { Fate::Late(ms(280) + spacing) } else { Fate::Pass }
        });
        pair.write(50_000);
        pair.run_until(|pair| pair.near.acked() == 50_000);
        let statistics = pair.near.statistics();
        assert_eq!((statistics.timeouts, statistics.undone), (1, 1), "{}", pair.script());
        assert_eq!(statistics.retransmissions, 1, "{}", pair.script());
        // Ten segments more than the ten that slow start had reached.
        assert_eq!(statistics.slow_start_threshold, u64::MAX);
        assert_eq!(pair.times_of(1), [start, start + ms(300)]);
    }
}

#[test]
fn a_timeout_that_was_a_loss_stands() {
    for timestamps in [true, false] {
        let config = Config { timestamps, tail_loss_probe: None, ..plain() };
        let (mut pair, _) =
            ten(&config, &[1, 1_001, 2_001, 3_001, 4_001, 5_001, 6_001, 7_001, 8_001, 9_001]);
        pair.run_until(|pair| pair.near.acked() == 10_000);
        let statistics = pair.near.statistics();
        assert_eq!((statistics.timeouts, statistics.undone), (1, 0), "{}", pair.script());
        assert_eq!(statistics.retransmissions, 10);
    }
}

#[test]
fn a_loss_that_outlasts_a_repair_begins_the_next_one() {
    // Segment 0 is lost twice, so that its repair ends at 300 ms; by then segment 25, which left
    // after the repair had begun, is known to be lost and was sent again. That is a loss of
    // another flight: the control falls again, as Linux's does (`tcp_time_to_recover`).
    let mut pair = Pair::of_window(20, &plain(), ms(50));
    let start = pair.now;
    pair.lose(&[1, 1, 25_001]);
    pair.write(100_000);
    pair.run_until(|pair| pair.near.acked() >= 26_000);
    assert_eq!(pair.now, start + ms(300), "{}", pair.script());
    assert_eq!(pair.times_of(25_001)[1], start + ms(200), "{}", pair.script());
    assert_eq!(pair.near.statistics().recoveries, 2, "{}", pair.script());
}

#[test]
fn a_retransmission_of_an_earlier_repair_is_no_original() {
    // As above, but the second transmission of segment 25 is late by 10 ms; segment 45 is found
    // lost and sent again before that is acknowledged. The echo is from before the first
    // retransmission of the second repair, but not from before that of segment 25.
    let mut pair = Pair::of_window(20, &plain(), ms(50));
    let start = pair.now;
    let mut lost = vec![1, 1, 25_001, 45_001];
    pair.rule(move |way, transmit, now| {
        let seq = transmit.segment.seq;
        if way != Way::Out || transmit.segment.len == 0 {
            return Fate::Pass;
        }
        if let Some(at) = lost.iter().position(|&one| one == seq) {
            lost.remove(at);
            return Fate::Drop;
        }
        if seq == 25_001 && now == start + ms(200) { Fate::Late(ms(10)) } else { Fate::Pass }
    });
    pair.write(100_000);
    pair.run_until(|pair| pair.near.acked() >= 26_000);
    assert_eq!(pair.now, start + ms(310), "{}", pair.script());
    assert_eq!(pair.times_of(45_001)[1], start + ms(300), "{}", pair.script());
    let statistics = pair.near.statistics();
    assert_eq!((statistics.recoveries, statistics.undone), (2, 0), "{}", pair.script());
}

#[test]
fn prr_sends_about_one_segment_for_two_delivered() {
    // Reno with 20 segments in flight, the first lost. Two SACKs each let a new segment go, without
    // opening the window; the third begins the repair with 20 outstanding that no SACK named, to
    // 10. From it on 17 are delivered in the burst: RFC 9937 sends 17 * 10 / 20 = 8.5 segments,
    // that is eight whole ones, the retransmission first.
    let mut pair = Pair::established(&plain(), ms(50));
    pair.lose(&[10_001]);
    pair.near.write(200_000);
    pair.flush();
    pair.run_until(|pair| pair.near.statistics().recoveries == 1);
    assert_eq!(pair.near.statistics().slow_start_threshold, 10_000);
    let repair = pair.times_of(10_001)[1];
    pair.run_until(|pair| pair.near.acked() >= 30_000);
    assert_eq!(pair.near.statistics().window, 10_000);
    let burst = pair.data().filter(|sent| sent.at == repair);
    let sent = burst.skip_while(|sent| sent.segment().seq != 10_001).count();
    assert_eq!(sent, 8, "{}", pair.script());
}

#[test]
fn without_sack_one_hole_is_repaired_per_round_trip() {
    // NewReno (RFC 6582): three holes take three round trips after the first is found.
    let config = Config { sack: false, tail_loss_probe: None, ..plain() };
    let (mut pair, start) = ten(&config, &[1, 3_001, 5_001]);
    pair.run_until(|pair| pair.read[1] == 10_000);
    assert_eq!(pair.now, start + ms(100 + 100 + 100 + 50), "{}", pair.script());
    assert_eq!(pair.near.statistics().retransmissions, 3);
}
