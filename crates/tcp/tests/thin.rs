//! Thin streams: RTO restart, restarted probes, bundling, linear timeouts, Nagle.

mod support;

use support::{Pair, ms, plain};
use weir_tcp::{Bundling, Config, DelayedAck, LossDetection, Nagle, RestartFrom, TailLossProbe};
use weir_units::Time;

/// No probe, so that the timer is seen.
fn no_probe() -> Config {
    Config { tail_loss_probe: None, ..plain() }
}

/// Two segments 60 ms apart, the second lost; the round trip is 100 ms, the RTO 300 ms. When the
/// second is sent again.
fn second_again(config: &Config) -> Time {
    let mut pair = Pair::of_window(20, config, ms(50));
    pair.lose(&[1_001]);
    let start = pair.now;
    pair.write(1_000);
    pair.run_to(start + ms(60));
    pair.write(1_000);
    pair.run_until(|pair| pair.near.acked() == 2_000);
    pair.times_of(1_001)[1] - start
}

#[test]
fn a_restarted_timer_counts_from_the_transmission() {
    // 004-spec section 14 test 9. The acknowledgement of the first comes at 100 ms; the second left
    // at 60 ms.
    let restarted = Config { rto_restart: Some(RestartFrom::Earliest), ..no_probe() };
    let close = |found: Time, expected| found.as_ns().abs_diff(ms(expected).as_ns()) < 1_000_000;
    let (usual, early) = (second_again(&no_probe()), second_again(&restarted));
    assert!(close(usual, 100 + 300), "{usual}");
    assert!(close(early, 60 + 300), "{early}");
}

#[test]
fn four_outstanding_segments_are_not_restarted() {
    // RFC 7765 section 4: rrthresh is four, what waits to be sent counted.
    let restarted = Config { rto_restart: Some(RestartFrom::Earliest), ..no_probe() };
    let again = |config: &Config, behind| {
        let mut pair = Pair::of_window(20, config, ms(50));
        let seqs: Vec<u64> = (0..=behind).map(|n| 1_001 + 1_000 * n).collect();
        pair.lose(&seqs);
        let start = pair.now;
        pair.write(1_000);
        pair.run_to(start + ms(60));
        pair.write(1_000 * (behind + 1));
        pair.run_until(|pair| pair.near.acked() == 1_000 * (behind + 2));
        pair.times_of(1_001)[1]
    };
    assert!(again(&restarted, 2) < again(&no_probe(), 2));
    assert_eq!(again(&restarted, 3), again(&no_probe(), 3));
}

#[test]
fn a_restarted_probe_counts_from_the_last_transmission() {
    // 004-spec section 14 test 10: two round trips and 200 ms for a lone segment, capped by the
    // RTO; with a round trip of 300 ms and Linux 3.18's rule 1.5 * 300 + 200 = 650 ms.
    let run = |probe_restart| {
        let config =
            Config { tail_loss_probe: Some(TailLossProbe::Linux318), probe_restart, ..plain() };
        let config = Config { rto: weir_tcp::Rto::RFC6298, ..config };
        let mut pair = Pair::of_window(20, &config, ms(150));
        pair.lose(&[1_001]);
        let start = pair.now;
        pair.write(1_000);
        pair.run_to(start + ms(100));
        pair.write(1_000);
        pair.run_until(|pair| pair.near.acked() == 2_000);
        pair.times_of(1_001)[1] - start
    };
    assert_eq!(run(None), ms(300 + 650));
    assert_eq!(run(Some(RestartFrom::Last)), ms(100 + 650));
}

#[test]
fn a_short_flight_is_repaired_by_the_duplicates_that_it_can_give() {
    // RFC 5827: with three outstanding two duplicates are enough, a round trip of 100 ms after the
    // loss instead of an RTO of 300 ms; four give three by themselves.
    let again = |early_retransmit, outstanding: u64| {
        let loss_detection = LossDetection::DupThresh;
        let config = Config { early_retransmit, loss_detection, ..no_probe() };
        let mut pair = Pair::of_window(20, &config, ms(50));
        pair.lose(&[1]);
        let start = pair.now;
        pair.write(1_000 * outstanding);
        pair.run_until(|pair| pair.near.acked() == 1_000 * outstanding);
        pair.times_of(1)[1] - start
    };
    assert_eq!(again(true, 3), ms(100));
    assert_eq!(again(false, 3), ms(300));
    assert_eq!((again(true, 4), again(false, 4)), (ms(100), ms(100)));
}

/// Messages of 100 bytes each 50 ms over 165 ms (004-spec section 14 test 11), the twentieth lost.
/// How late it is, and the connection afterwards.
fn message_delay(config: &Config) -> (Time, Pair) {
    let config = Config { mss: 1448, delayed_ack: DelayedAck::NONE, ..*config };
    let mut pair = Pair::of_window(20, &config, Time::from_us(82_500));
    let start = pair.now;
    let lost = 1 + 20 * 100;
    let mut is_first = true;
    pair.rule(move |_, transmit, _| {
        let segment = transmit.segment;
        let covers = segment.len > 0 && segment.seq + u64::from(segment.len) == lost + 100;
        if covers && std::mem::take(&mut is_first) {
            support::Fate::Drop
        } else {
            support::Fate::Pass
        }
    });
    let mut delivered = None;
    for message in 0..60 {
        pair.run_to(start + ms(50 * message));
        pair.write(100);
        let next = start + ms(50 * (message + 1));
        while pair.next_event().is_some_and(|at| at < next) {
            pair.step();
            if pair.read[1] >= 2_100 && delivered.is_none() {
                delivered = Some(pair.now);
            }
        }
    }
    pair.run_until(|pair| pair.near.acked() == 6_000);
    (delivered.expect("it was delivered") - (start + ms(50 * 20)), pair)
}

#[test]
fn bundling_hides_a_loss_for_one_spacing() {
    // 004-spec section 4.5: IFT + R/2, without a retransmission; the loss is not hidden from the
    // window.
    let config =
        Config { bundling: Some(Bundling::default()), nagle: Nagle::Off, ..Config::default() };
    let (delay, pair) = message_delay(&config);
    assert_eq!(delay, Time::from_us(50_000 + 82_500), "{}", pair.script());
    let statistics = pair.near.statistics();
    assert_eq!((statistics.retransmissions, statistics.timeouts), (0, 0));
    // 3.3 round trips of messages are in flight: bundles of four messages, three of them repeated.
    let steady = pair.data().skip(10).take(9).map(|sent| sent.segment().len);
    assert_eq!(steady.collect::<Vec<_>>(), [400; 9]);
}

#[test]
fn a_bundle_repeats_as_many_segments_as_allowed_and_none_with_nagle() {
    let one = Bundling { segments_max: 1, ..Bundling::default() };
    let config = Config { bundling: Some(one), nagle: Nagle::Off, ..Config::default() };
    let (_, pair) = message_delay(&config);
    assert!(pair.data().skip(10).take(9).all(|sent| sent.segment().len == 200));
    for (nagle, spacing) in [(Nagle::Minshall, 10), (Nagle::Off, 60)] {
        // Four in flight times 60 ms are more than the round trip: not thin.
        let bundling = Bundling { spacing_min: ms(spacing), ..Bundling::default() };
        let config = Config { bundling: Some(bundling), nagle, ..Config::default() };
        let (_, pair) = message_delay(&config);
        let bundles = pair.near.statistics().bundles;
        assert!(bundles == 0 || nagle == Nagle::Off && bundles < 60, "{nagle:?} {bundles}");
    }
}

#[test]
fn bundles_cost_the_bytes_of_the_formula_and_no_packet() {
    // 004-spec section 4.5: from (m + h) / tau to ((1 + b) m + h) / tau, b = 3 in a steady state.
    let wire = |bundling| {
        let config = Config { bundling, nagle: Nagle::Off, ..Config::default() };
        let (_, pair) = message_delay(&config);
        let steady: Vec<u64> =
            pair.data().skip(10).take(9).map(|sent| sent.transmit.size.count()).collect();
        let spacing = pair.data().skip(10).take(9).map(|sent| sent.at).collect::<Vec<_>>();
        assert!(spacing.windows(2).all(|pair| pair[1] - pair[0] == ms(50)), "a packet a message");
        steady
    };
    let headers = 52;
    assert_eq!(wire(None), [100 + headers; 9]);
    assert_eq!(wire(Some(Bundling::default())), [(1 + 3) * 100 + headers; 9]);
}

#[test]
fn a_fin_is_not_bundled() {
    // 004-spec section 4.5: a segment that carries FIN is sent unchanged.
    let config = Config {
        bundling: Some(Bundling::default()),
        nagle: Nagle::Off,
        mss: 1448,
        ..Config::default()
    };
    let mut pair = Pair::of_window(20, &config, Time::from_us(82_500));
    let start = pair.now;
    for message in 0..10 {
        pair.run_to(start + ms(50 * message));
        pair.near.write(100);
        if message == 9 {
            pair.near.close();
        }
        pair.flush();
    }
    pair.run_until(|pair| pair.near.acked() == 1_000);
    let last: Vec<u32> = pair.data().map(|sent| sent.segment().len).collect();
    assert_eq!(last[6..10], [400, 400, 400, 100], "{}", pair.script());
}

#[test]
fn a_thin_stream_without_bundling_waits_for_three_later_messages() {
    // 004-spec section 8.1 model: 3 IFT + 1.5 R = 397.5 ms by the threshold.
    let config = Config {
        nagle: Nagle::Off,
        loss_detection: weir_tcp::LossDetection::DupThresh,
        tail_loss_probe: None,
        ..Config::default()
    };
    let (delay, _) = message_delay(&config);
    assert_eq!(delay, Time::from_us(150_000 + 247_500));
}

#[test]
fn linear_timeouts_do_not_back_off_six_times() {
    // 004-spec section 4.6; the threshold is known after the first loss, so lose one before.
    let config = Config { thin_linear_timeouts: true, ..no_probe() };
    let mut pair = Pair::established(&config, ms(50));
    pair.lose(&[5_001]);
    pair.write(10_000);
    pair.run_until(|pair| pair.near.acked() == 10_000);
    pair.lose(&[10_001; 8]);
    let start = pair.now;
    pair.write(1_000);
    pair.run_until(|pair| pair.near.acked() == 11_000);
    let rto = pair.times_of(10_001)[1] - start;
    let gaps: Vec<u64> = pair
        .times_of(10_001)
        .windows(2)
        .map(|pair| (pair[1] - pair[0]).as_ns() / rto.as_ns())
        .collect();
    assert_eq!(gaps, [1, 1, 1, 1, 1, 1, 1, 2], "{}", pair.script());
}

#[test]
fn nagle_holds_short_segments_as_its_variant_says() {
    // Three writes of 400 bytes at once, and one of a full segment and a bit before them.
    let sizes = |nagle, first: u64| {
        let config = Config { nagle, ..plain() };
        let mut pair = Pair::of_window(20, &config, ms(50));
        let start = pair.now;
        for size in [first, 400, 400, 400] {
            pair.write(size);
        }
        pair.run_until(|pair| pair.near.acked() == first + 1_200);
        let at_once = pair.data().take_while(|sent| sent.at == start);
        at_once.map(|sent| sent.segment().len).collect::<Vec<_>>()
    };
    assert_eq!(sizes(Nagle::Off, 1_000), [1_000, 400, 400, 400]);
    assert_eq!(sizes(Nagle::Rfc896, 1_000), [1_000, 1_000]);
    assert_eq!(sizes(Nagle::Minshall, 1_000), [1_000, 400]);
    assert_eq!(sizes(Nagle::Rfc896, 400), [400, 1_000]);
}
