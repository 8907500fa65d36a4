//! Opening and closing, seen packet by packet.

mod support;

use support::{Fate, Pair, Way, ms, plain};
use weir_queue::Ecn;
use weir_tcp::{Config, End, Flags, ReceiveBuffer, Segment, State};
use weir_units::{Bytes, Time};

#[test]
fn three_segments_open_a_connection_in_one_round_trip_and_a_half() {
    let mut pair = Pair::new(&plain(), &plain(), ms(50));
    pair.near.write(500);
    pair.run_until(|pair| pair.read[1] == 500);
    let (syn, syn_ack, ack) = (&pair.log[0], &pair.log[1], &pair.log[2]);
    assert_eq!((syn.at, syn.segment().flags), (ms(0), Flags::SYN));
    assert_eq!((syn_ack.at, syn_ack.segment().flags), (ms(50), Flags::SYN.with(Flags::ACK)));
    // The data that waited carries the acknowledgement of the SYN/ACK.
    assert_eq!((ack.at, ack.segment().len, ack.segment().ack), (ms(100), 500, 1));
    assert_eq!(pair.now, ms(150));
    assert_eq!(pair.near.statistics().srtt, ms(100));
}

#[test]
fn sizes_are_those_of_the_wire() {
    let mut pair = Pair::new(&Config::default(), &Config::default(), ms(5));
    pair.near.write(1448);
    pair.run_until(|pair| pair.read[1] == 1448);
    // 20 IP, 20 TCP; MSS 4, SACK permitted and timestamps 12 + 4, window scale 4 on a SYN.
    let sizes: Vec<Bytes> = pair.log.iter().map(|sent| sent.transmit.size).collect();
    assert_eq!(sizes[..3], [Bytes::new(64), Bytes::new(64), Bytes::new(1500)]);
}

#[test]
fn a_lost_syn_is_sent_again_after_one_then_two_seconds() {
    let mut pair = Pair::new(&plain(), &plain(), ms(50));
    let mut count = 0;
    pair.rule(move |_, _, _| {
        count += 1;
        if count <= 2 { Fate::Drop } else { Fate::Pass }
    });
    pair.run_until(|pair| pair.near.state() == State::Established);
    let syns: Vec<Time> = pair.log.iter().filter(|s| s.way == Way::Out).map(|s| s.at).collect();
    assert_eq!(syns[..3], [ms(0), ms(1_000), ms(3_000)]);
}

#[test]
fn a_lost_syn_ack_and_a_lost_ack_are_repaired() {
    for lost in [1, 2] {
        let mut pair = Pair::new(&plain(), &plain(), ms(50));
        let mut count = 0;
        pair.rule(move |_, _, _| {
            count += 1;
            if count == lost + 1 { Fate::Drop } else { Fate::Pass }
        });
        pair.run_until(|pair| {
            pair.near.state() == State::Established && pair.far.state() == State::Established
        });
        assert!(pair.now < ms(1_300), "lost {lost}: {}", pair.now);
    }
}

#[test]
fn a_side_that_hears_nothing_gives_up() {
    let config = Config { retries_max: 3, ..plain() };
    let mut pair = Pair::new(&config, &config, ms(50));
    pair.rule(|_, _, _| Fate::Drop);
    pair.run_until(|pair| pair.near.end().is_some());
    // 1 + 2 + 4 + 8 seconds.
    assert_eq!((pair.now, pair.near.end()), (ms(15_000), Some(End::TimedOut)));
}

#[test]
fn what_one_side_does_not_offer_is_not_used() {
    let old = Config { sack: false, timestamps: false, window_scaling: false, ..plain() };
    let mut pair = Pair::new(&plain(), &old, ms(10)).after_handshake();
    pair.lose(&[3_001]);
    pair.write(200_000);
    pair.run_until(|pair| pair.read[1] == 200_000);
    for sent in &pair.log {
        let segment = sent.segment();
        assert_eq!((segment.sack_count, segment.ts_val), (0, Time::ZERO), "{segment:?}");
        assert!(segment.window <= 65_535);
    }
    assert_eq!(pair.near.statistics().retransmissions, 1);
}

#[test]
fn windows_can_be_written_in_sixteen_bits_of_the_scale() {
    let config = Config { receive_buffer: ReceiveBuffer::Fixed { size: 10_000_000 }, ..plain() };
    let mut pair = Pair::new(&config, &config, ms(10)).after_handshake();
    pair.write(1_000_000);
    pair.run_until(|pair| pair.read[1] == 1_000_000);
    // 10^7 needs a shift of 8.
    let windows = pair.log.iter().map(|sent| sent.segment().window);
    assert!(windows.clone().all(|window| window % 256 == 0 && window >> 8 <= 0xffff));
    assert!(windows.max() > Some(9_900_000));
}

#[test]
fn both_sides_close_at_once() {
    let config = Config { time_wait: ms(1_000), ..plain() };
    let mut pair = Pair::established(&config, ms(50));
    let start = pair.now;
    pair.near.close();
    pair.far.close();
    pair.flush();
    pair.run_to(start + ms(50));
    assert_eq!((pair.near.state(), pair.far.state()), (State::Closing, State::Closing));
    pair.run_to(start + ms(100));
    assert_eq!((pair.near.state(), pair.far.state()), (State::TimeWait, State::TimeWait));
    pair.run_to(start + ms(1_100));
    assert_eq!((pair.near.end(), pair.far.end()), (Some(End::Finished), Some(End::Finished)));
}

#[test]
fn a_half_closed_connection_still_carries_the_other_direction() {
    let mut pair = Pair::established(&plain(), ms(50));
    pair.near.close();
    pair.flush();
    pair.run_until(|pair| pair.near.state() == State::FinWait2);
    pair.far.write(100_000);
    pair.flush();
    pair.run_until(|pair| pair.read[0] == 100_000);
    assert_eq!(pair.far.state(), State::CloseWait);
    assert!(pair.far.is_at_end());
}

#[test]
fn a_lost_fin_is_sent_again() {
    let mut pair = Pair::established(&plain(), ms(50));
    let mut is_first = true;
    pair.rule(move |_, transmit, _| {
        let is_fin = transmit.segment.flags.has(Flags::FIN);
        if is_fin && std::mem::take(&mut is_first) { Fate::Drop } else { Fate::Pass }
    });
    pair.write(2_500);
    pair.near.close();
    pair.flush();
    pair.run_until(|pair| pair.near.state() == State::FinWait2);
    assert_eq!(pair.read[1], 2_500);
}

#[test]
fn abort_resets_the_other_side() {
    let mut pair = Pair::established(&plain(), ms(50));
    pair.near.abort();
    pair.flush();
    pair.run_until(|pair| pair.far.end().is_some());
    assert_eq!((pair.near.end(), pair.far.end()), (Some(End::Aborted), Some(End::Reset)));
}

#[test]
fn only_the_number_expected_next_resets() {
    // RFC 5961 section 3.2.
    let mut pair = Pair::established(&plain(), ms(50));
    let reset = |seq| Segment { seq, flags: Flags::RST, ..Segment::default() };
    pair.far.on_segment(&reset(0), Ecn::NotEct, pair.now);
    assert!(pair.far.poll_segment(pair.now).is_none());
    pair.far.on_segment(&reset(100), Ecn::NotEct, pair.now);
    let challenge = pair.far.poll_segment(pair.now).expect("a challenge");
    assert_eq!((challenge.segment.ack, challenge.segment.flags), (1, Flags::ACK));
    assert_eq!(pair.far.state(), State::Established);
    pair.far.on_segment(&reset(1), Ecn::NotEct, pair.now);
    assert_eq!(pair.far.end(), Some(End::Reset));
}

#[test]
fn an_acknowledgement_of_what_was_never_sent_is_answered_and_ignored() {
    let mut pair = Pair::established(&plain(), ms(50));
    pair.write(1_000);
    let wrong = Segment { seq: 1, ack: 50_000, flags: Flags::ACK, ..Segment::default() };
    pair.near.on_segment(&wrong, Ecn::NotEct, pair.now);
    assert_eq!(pair.near.acked(), 0);
    assert_eq!(pair.near.poll_segment(pair.now).map(|t| t.segment.ack), Some(1));
    // At most one such answer each half second.
    pair.near.on_segment(&wrong, Ecn::NotEct, pair.now);
    assert_eq!(pair.near.poll_segment(pair.now), None);
}
