//! Marks are agreed on, echoed and answered.

mod support;

use std::sync::{Arc, Mutex};

use support::fixed::Told;
use support::{Fate, Fixed, Pair, Way, ms, plain};
use weir_queue::Ecn;
use weir_tcp::congestion::{EcnUse, Signal};
use weir_tcp::{Config, Connection, DelayedAck, EcnMode, Flags};
use weir_units::Time;

fn pair(near: EcnUse, far: EcnUse, config: &Config) -> (Pair, Arc<Mutex<Told>>) {
    let told = Arc::default();
    let control = |ecn| Box::new(Fixed { ecn, ..Fixed::new(20_000) }.telling(&told));
    let far_control = Box::new(Fixed { ecn: far, ..Fixed::new(20_000) });
    let pair = Pair::with(
        Connection::connect(*config, control(near), Time::ZERO),
        Connection::accept(*config, far_control, Time::ZERO),
        ms(50),
    );
    (pair.after_handshake(), told)
}

/// Marks the data that begins at each of `offsets`.
fn mark(pair: &mut Pair, offsets: &'static [u64]) {
    pair.rule(move |way, transmit, _| {
        let is_marked = way == Way::Out && offsets.contains(&transmit.segment.seq);
        if is_marked && transmit.segment.len > 0 { Fate::Mark } else { Fate::Pass }
    });
}

#[test]
fn both_sides_agree_on_the_richest_feedback_that_is_asked_for() {
    use EcnUse::{Classic, Dctcp, L4s, None};
    for (near, far, mode) in [
        (None, Classic, EcnMode::Off),
        (Classic, None, EcnMode::Classic),
        (Dctcp, Dctcp, EcnMode::Dctcp),
        (L4s, None, EcnMode::Accurate),
    ] {
        let (pair, _) = pair(near, far, &plain());
        assert_eq!(pair.near.ecn_mode(), mode);
        assert_eq!(pair.far.ecn_mode(), mode);
    }
    let accurate = Config { accurate_ecn: true, ..plain() };
    assert_eq!(pair(Classic, None, &accurate).0.near.ecn_mode(), EcnMode::Accurate);
}

#[test]
fn the_handshake_of_accurate_ecn_carries_its_flags() {
    // RFC 9768 table 2: AE, CWR, ECE on the SYN; a SYN that was not ECT is answered by CWR alone,
    // and so is that SYN/ACK by the first acknowledgement.
    let control = |ecn| Box::new(Fixed { ecn, ..Fixed::new(20_000) });
    let mut pair = Pair::with(
        Connection::connect(plain(), control(EcnUse::L4s), Time::ZERO),
        Connection::accept(plain(), control(EcnUse::None), Time::ZERO),
        ms(50),
    );
    pair.run_to(ms(100));
    let flags: Vec<Flags> = pair.log.iter().map(|sent| sent.segment().flags).collect();
    let ace = Flags::AE.with(Flags::CWR).with(Flags::ECE);
    assert_eq!(flags[0], Flags::SYN.with(ace));
    assert_eq!(flags[1], Flags::SYN.with(Flags::ACK).with(Flags::CWR));
    assert_eq!(flags[2], Flags::ACK.with(Flags::CWR));
}

#[test]
fn a_syn_that_was_sent_twice_in_vain_asks_for_ecn_no_more_if_it_falls_back() {
    // RFC 3168 section 6.1.1.1.
    for (ecn_fallback, mode) in [(true, EcnMode::Off), (false, EcnMode::Dctcp)] {
        let control = |ecn| Box::new(Fixed { ecn, ..Fixed::new(20_000) });
        let config = Config { ecn_fallback, ..plain() };
        let mut pair = Pair::with(
            Connection::connect(config, control(EcnUse::Dctcp), Time::ZERO),
            Connection::accept(plain(), control(EcnUse::Dctcp), Time::ZERO),
            ms(50),
        );
        let mut lost = 0;
        pair.rule(move |_, transmit, _| {
            lost += u32::from(transmit.segment.flags.has(Flags::SYN));
            if lost <= 2 { Fate::Drop } else { Fate::Pass }
        });
        let pair = pair.after_handshake();
        assert_eq!((pair.near.ecn_mode(), pair.far.ecn_mode()), (mode, mode));
    }
}

#[test]
fn codepoints_are_those_of_the_control() {
    for (ecn, data, again, ack) in [
        (EcnUse::None, Ecn::NotEct, Ecn::NotEct, Ecn::NotEct),
        (EcnUse::Classic, Ecn::Ect0, Ecn::NotEct, Ecn::NotEct),
        (EcnUse::Dctcp, Ecn::Ect0, Ecn::Ect0, Ecn::Ect0),
        (EcnUse::L4s, Ecn::Ect1, Ecn::Ect1, Ecn::Ect1),
    ] {
        let (mut pair, _) = pair(ecn, ecn, &plain());
        pair.lose(&[3_001]);
        pair.write(10_000);
        pair.run_until(|pair| pair.near.acked() == 10_000);
        let codepoints = |seq| pair.data().filter(move |s| s.segment().seq == seq);
        let found: Vec<Ecn> = codepoints(3_001).map(|sent| sent.transmit.ecn).collect();
        assert_eq!(found, [data, again], "{ecn:?}");
        let back = pair.log.iter().find(|sent| sent.way == Way::Back).unwrap();
        assert_eq!(back.transmit.ecn, ack, "{ecn:?}");
    }
}

#[test]
fn a_classic_mark_is_echoed_until_the_window_was_reduced() {
    // RFC 3168 section 6.1: ECE from the mark on, CWR on the next new data, ECE ends with it, and
    // one reduction in that round trip.
    let (mut pair, told) = pair(EcnUse::Classic, EcnUse::Classic, &plain());
    mark(&mut pair, &[2_001, 5_001]);
    let start = pair.now;
    pair.write(60_000);
    pair.run_until(|pair| pair.near.acked() == 60_000);
    assert_eq!(told.lock().unwrap().signals, [(start + ms(100), Signal::Ecn)]);
    let reduced: Vec<_> = pair.data().filter(|sent| sent.segment().flags.has(Flags::CWR)).collect();
    assert_eq!(reduced.len(), 1);
    let echoes: Vec<u64> = pair
        .log
        .iter()
        .filter(|sent| sent.way == Way::Back && sent.segment().flags.has(Flags::ECE))
        .map(|sent| sent.segment().ack)
        .collect();
    let ended = reduced[0].segment().seq;
    assert_eq!((echoes.first(), echoes.last()), (Some(&3_001), Some(&ended)));
}

#[test]
fn dctcp_tells_of_each_marked_byte_through_delayed_acknowledgements() {
    // RFC 8257 section 3.2: a change of codepoint is acknowledged at once, what came before it
    // apart: with two marked segments of 20 the control hears of 2000 bytes.
    let delayed = DelayedAck { quick: 0, ..DelayedAck::LINUX };
    let config = Config { delayed_ack: delayed, ..plain() };
    let (mut pair, told) = pair(EcnUse::Dctcp, EcnUse::Dctcp, &config);
    mark(&mut pair, &[3_001, 4_001, 9_001]);
    pair.write(20_000);
    pair.run_until(|pair| pair.near.acked() == 20_000);
    let told = told.lock().unwrap();
    let marked: u64 = told.samples.iter().map(|sample| sample.marked).sum();
    assert_eq!(marked, 3_000, "{}", pair.script());
    assert!(told.signals.is_empty());
}

#[test]
fn accurate_ecn_counts_marked_bytes_whatever_is_lost_on_the_way_back() {
    // RFC 9768: the counters are running totals, so that a lost acknowledgement loses nothing.
    let (mut pair, told) = pair(EcnUse::L4s, EcnUse::None, &plain());
    let mut back = 0;
    pair.rule(move |way, transmit, _| {
        if way == Way::Back {
            back += 1;
            return if back % 3 != 0 { Fate::Drop } else { Fate::Pass };
        }
        if (transmit.segment.seq / 1_000).is_multiple_of(4) { Fate::Mark } else { Fate::Pass }
    });
    pair.write(100_000);
    pair.run_until(|pair| pair.near.acked() == 100_000);
    let told = told.lock().unwrap();
    let marked: u64 = told.samples.iter().map(|sample| sample.marked).sum();
    let sent = pair.data().filter(|sent| sent.fate == Fate::Mark).count() as u64;
    assert_eq!(marked, sent * 1_000, "{}", pair.script());
    assert_eq!(pair.far.statistics().ce_received, sent);
}

#[test]
fn a_classic_control_answers_accurate_feedback_once_per_round_trip() {
    let config = Config { accurate_ecn: true, ..plain() };
    let (mut pair, told) = pair(EcnUse::Classic, EcnUse::None, &config);
    mark(&mut pair, &[2_001, 5_001, 41_001]);
    pair.write(60_000);
    pair.run_until(|pair| pair.near.acked() == 60_000);
    let signals: Vec<Signal> = told.lock().unwrap().signals.iter().map(|s| s.1).collect();
    assert_eq!(signals, [Signal::Ecn, Signal::Ecn]);
}

#[test]
fn abe_reduces_once_per_round_trip_whatever_is_marked() {
    // 004-spec section 14.1 test 12: all segments of one window are marked, then none.
    let config = Config { nagle: weir_tcp::Nagle::Off, ..plain() };
    let near = Connection::connect(config, support::control("reno:abe=0.8", &config), Time::ZERO);
    let far = Connection::accept(config, support::control("reno:ecn=on", &config), Time::ZERO);
    let mut pair = Pair::with(near, far, ms(50)).after_handshake();
    mark(&mut pair, &[1, 1_001, 2_001, 3_001, 4_001, 5_001, 6_001, 7_001, 8_001, 9_001]);
    pair.write(10_000);
    pair.run_until(|pair| pair.near.acked() == 10_000);
    assert_eq!(pair.near.statistics().ecn_reductions, 1, "{}", pair.script());
}
