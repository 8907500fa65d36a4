//! The wireless channel against Bianchi's model, against published figures, and against itself.

use weir_link::{
    AirCounters, Channel, ChannelConfig, DirectionConfig, LossConfig, MediumCounters, SharedMedium,
    Standard,
};
use weir_queue::{Amount, DisciplineConfig, Dscp, Ecn, FifoConfig, Packet, Random};
use weir_units::{Bytes, Rate, Time};

/// A packet of so many bytes.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Sized(u64);

impl Packet for Sized {
    fn size(&self) -> Bytes {
        Bytes::new(self.0)
    }
    fn ecn(&self) -> Ecn {
        Ecn::NotEct
    }
    fn mark_ce(&mut self) {}
    fn dscp(&self) -> Dscp {
        Dscp::CS0
    }
    fn flow_hash(&self) -> u32 {
        0
    }
}

const MTU: Bytes = Bytes::new(1_500);

/// A channel with a station for each rate, each with one port.
fn channel(config: &ChannelConfig, rates_bps: &[u64], seed: u64) -> Channel<Sized> {
    let mut channel = config.build().expect("the channel is right");
    for (station, &rate) in rates_bps.iter().enumerate() {
        let name = station.to_string();
        let radio = channel.add_radio(Random::of_source(seed, &[&name, "backoff"]));
        let random = |source: &str| Random::of_source(seed, &[&name, source]);
        channel.add_port(radio, &direction(rate), MTU, random).expect("the port is right");
    }
    channel
}

fn air(channel: &Channel<Sized>, port: usize) -> AirCounters {
    match channel.special(port, Time::ZERO) {
        MediumCounters::Wlan(air) => air,
        other => panic!("{other:?} of a wireless port"),
    }
}

fn discarded(channel: &mut Channel<Sized>) -> usize {
    std::iter::from_fn(|| channel.discarded()).count()
}

fn direction(rate: u64) -> DirectionConfig {
    DirectionConfig { rate_bps: Some(rate), ..DirectionConfig::default() }
}

/// Runs for `span` with two packets waiting at every port, of its size; returns bytes carried of
/// each port.
fn saturate(channel: &mut Channel<Sized>, sizes: &[u64], span: Time) -> Vec<u64> {
    for (port, &size) in sizes.iter().enumerate() {
        channel.arrive(port, Sized(size), Time::ZERO);
        channel.arrive(port, Sized(size), Time::ZERO);
    }
    while let Some(now) = channel.next_wake().filter(|&now| now <= span) {
        channel.advance(now);
        while let Some((port, packet)) = channel.release(now) {
            channel.arrive(port, packet, now);
        }
        assert_eq!(channel.discarded(), None, "the retry limit is out of reach");
    }
    (0..sizes.len()).map(|port| channel.counters(port).bytes_out.count()).collect()
}

/// Saturation throughput in bit/s of `n` stations that send packets of `size` at `rate`, by the
/// fixed point of Bianchi, IEEE JSAC 18 (2000), equations 7, 9 and 13, basic access.
fn bianchi(standard: Standard, windows: (u32, u32), n: i32, size: u64, rate: u64) -> f64 {
    let first = f64::from(windows.0 + 1);
    let doublings = (f64::from(windows.1 + 1) / first).log2().round() as i32;
    let attempts = |p: f64| {
        let sum: f64 = (0..doublings).map(|stage| (2.0 * p).powi(stage)).sum();
        2.0 / (1.0 + first + p * first * sum)
    };
    let (mut low, mut high) = (0.0, 1.0);
    for _ in 0..100 {
        let p: f64 = (low + high) / 2.0;
        let collides = 1.0 - (1.0 - attempts(p)).powi(n - 1);
        if collides > p { low = p } else { high = p }
    }
    let tau = attempts(low);
    let busy = 1.0 - (1.0 - tau).powi(n);
    let succeeds = f64::from(n) * tau * (1.0 - tau).powi(n - 1) / busy;
    let rate = Rate::from_bit_per_s(rate);
    let frame = standard.frame(Bytes::new(size), rate).as_s();
    let success = frame + (standard.sifs() + standard.ack(rate) + standard.difs()).as_s();
    let collision = frame + standard.eifs().as_s();
    let slot = (1.0 - busy) * standard.slot().as_s()
        + busy * succeeds * success
        + busy * (1.0 - succeeds) * collision;
    busy * succeeds * 8.0 * size as f64 / slot
}

/// Throughput of `n` saturated stations, as it is found in a minute.
fn found(standard: Standard, n: usize, rate: u64) -> f64 {
    // Bianchi's stations never give up.
    let config = ChannelConfig { retry_limit: 255, ..ChannelConfig::new(standard) };
    let mut channel = channel(&config, &vec![rate; n], 1);
    let span = Time::from_s(60.0);
    let bytes = saturate(&mut channel, &vec![1_500; n], span);
    8.0 * bytes.iter().sum::<u64>() as f64 / span.as_s()
}

#[test]
fn saturation_throughput_is_that_of_bianchis_model() {
    for (standard, rate, windows, tolerance) in [
        (Standard::B, 11_000_000, (31, 1023), 0.015),
        (Standard::G, 54_000_000, (15, 1023), 0.02),
        // The model counts one slot for every busy period, and long ones weigh more.
        (Standard::A, 6_000_000, (15, 1023), 0.045),
    ] {
        for n in [1, 2, 5, 10, 20, 50] {
            let model = bianchi(standard, windows, n, 1_500, rate);
            let ratio = found(standard, n as usize, rate) / model;
            let name = standard.name();
            assert!((ratio - 1.0).abs() < tolerance, "{name}, {n} stations: {ratio} of the model");
        }
    }
}

#[test]
fn saturation_throughput_is_what_ns3_expects_of_its_own() {
    // `bianchiResultsEifs` of ns-3's example wifi-bianchi: packets of 1500 B, in Mbit/s, of 5, 10,
    // 20 and 50 stations; its test asks for 5 %.
    for (standard, rate, expected) in [
        (Standard::B, 11_000_000, [6.3821, 6.0269, 5.5765, 4.9103]),
        (Standard::A, 6_000_000, [4.6899, 4.3197, 3.9589, 3.4711]),
        (Standard::A, 54_000_000, [29.2861, 27.3763, 25.3325, 22.4162]),
        (Standard::G, 24_000_000, [16.0836, 14.9153, 13.7300, 12.0889]),
    ] {
        for (n, expected) in [5, 10, 20, 50].into_iter().zip(expected) {
            let ratio = found(standard, n, rate) / 1e6 / expected;
            let name = standard.name();
            assert!((ratio - 1.0).abs() < 0.02, "{name}, {n} stations: {ratio} of ns-3's");
        }
    }
}

#[test]
fn one_slow_station_slows_all_to_its_own_throughput() {
    // The performance anomaly (Heusse et al., INFOCOM 2003): equal chances to send are equal
    // throughput, whatever the rate; so the slow station has nearly all of the airtime.
    let (fast, slow) = (11_000_000, 1_000_000);
    let span = Time::from_s(120.0);
    let config = ChannelConfig::new(Standard::B);
    let mut all_fast = channel(&config, &[fast; 4], 3);
    let before = 8.0 * saturate(&mut all_fast, &[1_500; 4], span)[0] as f64 / span.as_s();
    let mut mixed = channel(&config, &[fast, fast, fast, slow], 3);
    let bytes = saturate(&mut mixed, &[1_500; 4], span);
    let mean = bytes.iter().sum::<u64>() as f64 / 4.0;
    for (station, &bytes) in bytes.iter().enumerate() {
        let share = bytes as f64 / mean;
        assert!((share - 1.0).abs() < 0.06, "station {station} has {share} of the mean");
    }
    let each = 8.0 * mean / span.as_s();
    assert!(before > 1.5e6 && each < 0.7e6, "{before} bit/s before, {each} with the slow one");
    // Frames of 12288 bits at 1 and at 11 Mbit/s with their acknowledgements and SIFS.
    let frame = |rate| {
        let rate = Rate::from_bit_per_s(rate);
        (Standard::B.frame(MTU, rate) + Standard::B.sifs() + Standard::B.ack(rate)).as_s()
    };
    let airtime = |port: usize| air(&mixed, port).airtime.as_s() / bytes[port] as f64;
    let ratio = airtime(3) / airtime(0);
    assert!((ratio / (frame(slow) / frame(fast)) - 1.0).abs() < 0.03, "airtime ratio {ratio}");
}

/// An access point with a queue to each of two stations, at 54 and at 6 Mbit/s; what it carries to
/// each in bytes, and in seconds of airtime.
fn downlink(airtime_fairness: bool) -> [(u64, f64); 2] {
    let config = ChannelConfig { airtime_fairness, ..ChannelConfig::new(Standard::G) };
    let mut channel: Channel<Sized> = config.build().expect("the channel is right");
    let radio = channel.add_radio(Random::of_source(1, &["access point"]));
    let random = |source: &str| Random::of_source(1, &[source]);
    for rate in [54_000_000, 6_000_000] {
        channel.add_port(radio, &direction(rate), MTU, random).expect("the port is right");
    }
    let bytes = saturate(&mut channel, &[1_500; 2], Time::from_s(20.0));
    [0, 1].map(|port| (bytes[port], air(&channel, port).airtime.as_s()))
}

#[test]
fn an_access_point_shares_out_frames_or_airtime() {
    let [(fast, fast_air), (slow, slow_air)] = downlink(false);
    assert!(fast.abs_diff(slow) <= 1_500 && slow_air > 6.0 * fast_air);
    let [(fairly_fast, fast_air), (fairly_slow, slow_air)] = downlink(true);
    assert!((fast_air / slow_air - 1.0).abs() < 0.001, "{fast_air} s and {slow_air} s");
    // Half the channel each: the anomaly is gone.
    assert!(fairly_fast > 3 * fast && fairly_slow < slow);
}

#[test]
fn a_packet_is_given_up_after_so_many_failures() {
    let mut config = direction(11_000_000);
    let probability = 0.5;
    config.loss = Some(LossConfig::Bernoulli { probability });
    let mut channel: Channel<Sized> =
        ChannelConfig { retry_limit: 4, ..ChannelConfig::new(Standard::B) }.build().expect("right");
    let radio = channel.add_radio(Random::of_source(1, &["backoff"]));
    let random = |source: &str| Random::of_source(1, &[source]);
    channel.add_port(radio, &config, MTU, random).expect("right");
    let packets = 20_000;
    for _ in 0..packets {
        channel.arrive(0, Sized(100), Time::ZERO);
    }
    while let Some(now) = channel.next_wake() {
        channel.advance(now);
        while channel.release(now).is_some() {}
    }
    let air = air(&channel, 0);
    assert_eq!(discarded(&mut channel), air.given_up as usize);
    assert_eq!(channel.counters(0).packets_out + air.given_up, packets);
    let share = air.given_up as f64 / packets as f64;
    assert!((share - probability.powi(4)).abs() < 0.005, "{share} given up");
    // (1 - p^4) / (1 - p) transmissions of a packet in the mean.
    let each = air.transmissions as f64 / packets as f64;
    assert!((each - 1.875).abs() < 0.03, "{each} transmissions");
}

#[test]
fn an_idle_channel_is_taken_at_once_and_a_busy_one_after_backoff() {
    let mut channel = channel(&ChannelConfig::new(Standard::B), &[11_000_000; 2], 1);
    let rate = Rate::from_mbit_per_s(11);
    let frame = Standard::B.frame(MTU, rate);
    let begin = Time::from_ms(5);
    channel.arrive(0, Sized(1_500), begin);
    let mut due = Vec::new();
    // The other station has one too, while the first is on the air.
    channel.arrive(1, Sized(1_500), begin + Time::from_us(100));
    while let Some(now) = channel.next_wake() {
        channel.advance(now);
        due.extend(channel.release(now).map(|(port, _)| (port, now)));
    }
    let [(0, first), (1, second)] = due[..] else { panic!("{due:?}") };
    // 5 ms is not a whole number of slots after DIFS: the next boundary is.
    assert_eq!(first, begin + Time::from_us(10) + frame);
    let ack = Standard::B.sifs() + Standard::B.ack(rate);
    let waited = (second - frame) - (first + ack + Standard::B.difs());
    let slots = waited.as_ns() / Standard::B.slot().as_ns();
    assert_eq!(waited.as_ns() % Standard::B.slot().as_ns(), 0);
    assert!((1..=31).contains(&slots), "{slots} slots");
}

/// Runs two stations with short queues and a lossy channel; what came out when.
fn mixed_run(seed: u64) -> Vec<(usize, u64, Time)> {
    let mut config = direction(6_000_000);
    config.loss = Some(LossConfig::Bernoulli { probability: 0.3 });
    config.queue = DisciplineConfig::Fifo(FifoConfig { limit: Some(Amount::Packets(3)) });
    let mut channel: Channel<Sized> =
        ChannelConfig { retry_limit: 2, ..ChannelConfig::new(Standard::G) }.build().expect("right");
    for station in ["a", "b"] {
        let radio = channel.add_radio(Random::of_source(seed, &[station, "backoff"]));
        let random = |source: &str| Random::of_source(seed, &[station, source]);
        channel.add_port(radio, &config, MTU, random).expect("right");
    }
    let mut arrivals = Random::of_source(9, &["arrivals"]);
    let (mut out, mut gone) = (Vec::new(), 0);
    let mut next = Time::ZERO;
    for number in 0..20_000u64 {
        next += Time::from_us(arrivals.up_to(1_000));
        while let Some(now) = channel.next_wake().filter(|&now| now <= next) {
            channel.advance(now);
            out.extend(channel.release(now).map(|(port, packet)| (port, packet.0, now)));
        }
        channel.arrive((number % 2) as usize, Sized(100 + number % 1_400), next);
        gone += discarded(&mut channel);
    }
    while let Some(now) = channel.next_wake() {
        channel.advance(now);
        out.extend(channel.release(now).map(|(port, packet)| (port, packet.0, now)));
        gone += discarded(&mut channel);
    }
    assert_eq!(out.len() + gone, 20_000, "every packet comes out or is handed back");
    let counted = [0, 1].map(|port| {
        let queued: u64 = channel.queue(port).classes().iter().map(|class| class.dropped()).sum();
        assert!(queued > 0 && air(&channel, port).given_up > 0);
        queued + air(&channel, port).given_up
    });
    assert_eq!(gone as u64, counted[0] + counted[1]);
    out
}

#[test]
fn packets_are_conserved_and_runs_repeat() {
    let first = mixed_run(4);
    assert_eq!(first, mixed_run(4));
    assert_ne!(first, mixed_run(5));
}

#[test]
fn what_cannot_be_is_refused_by_name() {
    let refusal = |config: ChannelConfig| match config.build::<Sized>() {
        Ok(_) => "taken".to_owned(),
        Err(error) => error.to_string(),
    };
    let right = ChannelConfig::new(Standard::B);
    assert_eq!(refusal(right.clone()), "taken");
    let windows = |cw_min, cw_max| ChannelConfig { cw_min, cw_max, ..right.clone() };
    assert!(refusal(windows(Some(0), None)).starts_with("cw_min = 0: "));
    assert!(refusal(windows(None, Some(30))).starts_with("cw_max = 30: a window from cw_min = 31"));
    assert!(refusal(windows(None, Some(40_000))).starts_with("cw_max = 40000"));
    assert!(refusal(ChannelConfig { retry_limit: 0, ..right.clone() }).starts_with("retry_limit"));
    let port = |config: &DirectionConfig| {
        let mut channel: Channel<Sized> = right.build().expect("right");
        let radio = channel.add_radio(Random::of_source(1, &[]));
        let random = |source: &str| Random::of_source(1, &[source]);
        match channel.add_port(radio, config, MTU, random) {
            Ok(_) => "taken".to_owned(),
            Err(error) => error.to_string(),
        }
    };
    assert_eq!(port(&direction(5_500_000)), "taken");
    assert!(port(&direction(54_000_000)).contains("802.11b sends at 1, 2, 5.5, 11 Mbit/s"));
    let delayed = DirectionConfig { delay_ns: 5, ..direction(11_000_000) };
    assert!(port(&delayed).starts_with("delay_ns = 5: "));
}

/// Two that send to one another, and what the first has waiting when one of them leaves.
#[test]
fn a_station_that_leaves_loses_what_waits_and_takes_no_airtime() {
    let rates = [11_000_000, 11_000_000];
    let mut channel = channel(&ChannelConfig::new(Standard::B), &rates, 3);
    for _ in 0..20 {
        (0..2).for_each(|port| channel.arrive(port, Sized(1_000), Time::ZERO));
    }
    let left_at = Time::from_ms(10);
    let mut came = [0, 0];
    let mut after = [0, 0];
    let mut has_left = false;
    while let Some(now) = channel.next_wake() {
        if now > left_at && !has_left {
            channel.forget(0, left_at);
            has_left = true;
            assert!(channel.backlog(0).is_empty());
            continue;
        }
        channel.advance(now);
        while let Some((port, _)) = channel.release(now) {
            came[port] += 1;
            after[port] += u64::from(has_left);
        }
    }
    let lost = channel.counters(0).lost;
    assert!(came[0] > 2 && lost > 5, "{came:?}, {lost} lost");
    assert_eq!((came[0] + lost, came[1]), (20, 20));
    assert!(after[0] <= 1, "the frame on the air at most");
    assert_eq!(discarded(&mut channel) as u64, lost);
    assert_eq!((channel.under_way(0), channel.under_way(1)), (0, 0));
}
