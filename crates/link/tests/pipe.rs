//! A pipe in virtual time: what a link does to packets, with nobody's clock.

use proptest::prelude::*;
use weir_link::{Delay, Loss, Pipe};
use weir_queue::{AnyQueue, DisciplineConfig, Dscp, Ecn, Fifo, Limit, Packet, Priority, Random};
use weir_units::{Bytes, Rate, Time};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Plain {
    number: u64,
    size: u64,
}

impl Packet for Plain {
    fn size(&self) -> Bytes {
        Bytes::new(self.size)
    }
    fn ecn(&self) -> Ecn {
        Ecn::NotEct
    }
    fn mark_ce(&mut self) {}
    fn dscp(&self) -> Dscp {
        if self.number.is_multiple_of(3) { Dscp::CS1 } else { Dscp::CS0 }
    }
    fn flow_hash(&self) -> u32 {
        0
    }
}

/// A direction in the numbers of a test.
#[derive(Clone, Debug, Default)]
struct Setting {
    rate: Option<Rate>,
    delay: Time,
    jitter: Time,
    limit: Option<u64>,
    loss: f64,
    priority: bool,
}

impl Setting {
    fn pipe(&self) -> Pipe<Plain> {
        let random = |source| Random::of_source(1, &["test", source]);
        let loss = match self.loss {
            0.0 => Loss::None,
            probability => Loss::Bernoulli { probability, random: random("loss") },
        };
        let limit = self.limit.map_or(Limit::None, |bytes| Limit::Bytes(Bytes::new(bytes)));
        let delay = Delay::new(self.delay, self.jitter, random("jitter"));
        if self.priority {
            Pipe::new(loss, AnyQueue::Other(Box::new(Priority::new(limit))), self.rate, delay)
        } else {
            Pipe::new(loss, AnyQueue::Fifo(Fifo::new(limit)), self.rate, delay)
        }
    }
}

/// Feeds `arrivals` (instant, size), calling `advance` and `release` at each of `calls` besides.
/// Returns what was released and when it was due, and the numbers of what was not.
fn play(
    pipe: &mut Pipe<Plain>,
    arrivals: &[(Time, u64)],
    calls: &[Time],
) -> (Vec<(Time, u64)>, Vec<u64>) {
    let (mut released, mut discarded) = (Vec::new(), Vec::new());
    let mut events: Vec<(Time, Option<Plain>)> = calls.iter().map(|&at| (at, None)).collect();
    for (number, &(at, size)) in (0..).zip(arrivals) {
        events.push((at, Some(Plain { number, size })));
    }
    events.sort_by_key(|&(at, packet)| (at, packet.map(|packet| packet.number)));
    for (now, packet) in events {
        match packet {
            Some(packet) => pipe.arrive(packet, now),
            None => {
                pipe.advance(now);
                while let Some((due, packet)) = pipe.release(now) {
                    assert!(due <= now, "released before it was due");
                    released.push((due, packet.number));
                }
            }
        }
        discarded.extend(pipe.discarded().map(|packet| packet.number));
    }
    (released, discarded)
}

/// Calls the pipe whenever it asks to be called, until it is empty.
fn on_time(setting: &Setting, arrivals: &[(Time, u64)]) -> (Vec<(Time, u64)>, Vec<u64>) {
    let (mut pipe, mut released, mut discarded) = (setting.pipe(), Vec::new(), Vec::new());
    let mut arrivals = (0..).zip(arrivals).peekable();
    loop {
        let next = arrivals.peek().map(|(_, arrival)| arrival.0);
        let wake = pipe.next_wake();
        let now = match (wake, next) {
            (None, None) => return (released, discarded),
            (wake, next) => wake.unwrap_or(Time::MAX).min(next.unwrap_or(Time::MAX)),
        };
        pipe.advance(now);
        if next == Some(now)
            && let Some((number, &(_, size))) = arrivals.next()
        {
            pipe.arrive(Plain { number, size }, now);
        }
        while let Some((due, packet)) = pipe.release(now) {
            released.push((due, packet.number));
        }
        discarded.extend(pipe.discarded().map(|packet| packet.number));
    }
}

fn at_once(count: usize, size: u64) -> Vec<(Time, u64)> {
    vec![(Time::ZERO, size); count]
}

#[test]
fn a_packet_is_due_after_its_transmission_and_the_delay() {
    let rate = Some(Rate::from_mbit_per_s(100));
    let setting = Setting { rate, delay: Time::from_ms(10), ..Setting::default() };
    // 1500 bytes at 100 Mbit/s take 120 µs; the second waits for the first, the third does not.
    let arrivals = [(0, 1_500), (0, 1_500), (1_000, 750)].map(|(us, b)| (Time::from_us(us), b));
    let (released, _) = on_time(&setting, &arrivals);
    let due = [(10_120, 0), (10_240, 1), (11_060, 2)].map(|(us, n)| (Time::from_us(us), n));
    assert_eq!(released, due);
}

#[test]
fn an_awkward_rate_is_exact_over_a_million_packets() {
    // 1500 bytes at 1.3 Gbit/s take 9230.769… ns: rounding each would be off by 0.0025 %.
    let rate = Rate::from_bit_per_s(1_300_000_007);
    let setting = Setting { rate: Some(rate), ..Setting::default() };
    let count = 1_000_000;
    let (released, _) = on_time(&setting, &at_once(count, 1_500));
    let last = released.last().expect("all were released").0;
    assert!(rate.time_for(Bytes::new(1_500 * count as u64)) - last <= Time::from_ns(1));
}

#[test]
fn a_caller_that_oversleeps_shifts_nothing_that_comes_after() {
    let rate = Some(Rate::from_mbit_per_s(500));
    let setting = Setting { rate, delay: Time::from_us(32_500), ..Setting::default() };
    let arrivals: Vec<_> = (0..2_000).map(|n| (Time::from_us(24 * n), 1_500)).collect();
    let (punctual, _) = on_time(&setting, &arrivals);
    let calls: Vec<_> = (1..=30).map(|n| Time::from_us(7_777 * n)).collect();
    let (late, _) = play(&mut setting.pipe(), &arrivals, &calls);
    assert_eq!(punctual, late);
}

#[test]
fn the_packet_being_sent_does_not_count_against_the_limit() {
    let rate = Some(Rate::from_mbit_per_s(10));
    let setting = Setting { rate, limit: Some(3_000), ..Setting::default() };
    let (released, dropped) = on_time(&setting, &at_once(5, 1_500));
    assert_eq!(released.iter().map(|(_, number)| *number).collect::<Vec<_>>(), [0, 1, 2]);
    assert_eq!(dropped, [3, 4]);
}

#[test]
fn jitter_spreads_over_its_range_and_keeps_the_order() {
    let (delay, jitter) = (Time::from_ms(10), Time::from_ms(2));
    let setting = Setting { delay, jitter, ..Setting::default() };
    let sparse: Vec<_> = (0..5_000).map(|n| (Time::from_ms(10 * n), 100)).collect();
    let (released, _) = on_time(&setting, &sparse);
    let delays: Vec<f64> =
        released.iter().map(|(due, n)| (*due - sparse[*n as usize].0).as_s() * 1e3).collect();
    let mean = delays.iter().sum::<f64>() / delays.len() as f64;
    let (least, most) = delays.iter().fold((f64::MAX, 0.0_f64), |(l, m), &d| (l.min(d), m.max(d)));
    assert!((mean - 10.0).abs() < 0.05, "mean {mean} ms");
    assert!((8.0..8.01).contains(&least) && (11.99..=12.0).contains(&most), "{least} to {most} ms");
    let dense: Vec<_> = (0..5_000).map(|n| (Time::from_us(10 * n), 100)).collect();
    let (released, _) = on_time(&setting, &dense);
    assert!(released.is_sorted());
}

#[test]
fn jitter_beyond_the_delay_stops_at_zero() {
    let setting = Setting { delay: Time::from_us(1), jitter: Time::MAX, ..Setting::default() };
    let mut pipe = setting.pipe();
    pipe.arrive(Plain { number: 0, size: 100 }, Time::from_ms(5));
    assert!(pipe.next_wake() >= Some(Time::from_ms(5)));
}

#[test]
fn one_seed_gives_one_result_and_another_gives_another() {
    let losses = |seed| {
        let random = Random::of_source(seed, &["wan", "forward", "loss"]);
        let mut loss = Loss::Bernoulli { probability: 0.5, random };
        (0..64).map(|_| loss.strikes()).collect::<Vec<_>>()
    };
    assert_eq!(losses(1), losses(1));
    assert_ne!(losses(1), losses(2));
}

fn arrivals() -> impl Strategy<Value = Vec<(Time, u64)>> {
    let gaps = prop::collection::vec((0u64..300, 40u64..9_000), 0..200);
    gaps.prop_map(|gaps| {
        let mut at = 0;
        let place = |(gap, size)| {
            at += gap;
            (Time::from_us(at), size)
        };
        gaps.into_iter().map(place).collect()
    })
}

fn settings() -> impl Strategy<Value = Setting> {
    let rate = prop::option::of(1u64..1_000).prop_map(|r| r.map(Rate::from_mbit_per_s));
    let limit = prop::option::of(0u64..50_000);
    let times = (0u64..20_000, 0u64..5_000);
    (rate, limit, times, 0.0..0.3, any::<bool>()).prop_map(
        |(rate, limit, (delay, jitter), loss, priority)| Setting {
            rate,
            limit,
            delay: Time::from_us(delay),
            jitter: Time::from_us(jitter),
            loss: if loss < 0.1 { 0.0 } else { loss },
            priority,
        },
    )
}

proptest! {
    #[test]
    fn every_packet_is_released_lost_or_dropped_once(
        setting in settings(), arrivals in arrivals(),
    ) {
        let (released, discarded) = on_time(&setting, &arrivals);
        let mut seen: Vec<u64> = released.iter().map(|&(_, number)| number).collect();
        seen.extend(discarded);
        seen.sort_unstable();
        prop_assert_eq!(seen, (0..arrivals.len() as u64).collect::<Vec<_>>());
        prop_assert!(released.iter().map(|&(due, _)| due).is_sorted());
    }

    #[test]
    fn when_the_caller_calls_makes_no_difference(
        setting in settings(),
        arrivals in arrivals(),
        calls in prop::collection::vec(0u64..60_000, 0..50),
    ) {
        let mut calls: Vec<_> = calls.into_iter().map(Time::from_us).collect();
        calls.push(Time::from_s(1e6));
        let mut pipe = setting.pipe();
        let (late, late_discarded) = play(&mut pipe, &arrivals, &calls);
        let (punctual, discarded) = on_time(&setting, &arrivals);
        prop_assert_eq!(late, punctual);
        prop_assert_eq!(late_discarded, discarded);
        prop_assert_eq!(pipe.next_wake(), None);
    }

    #[test]
    fn counters_account_for_every_packet_at_any_moment(
        setting in settings(),
        arrivals in arrivals(),
        calls in prop::collection::vec(0u64..60_000, 0..5),
    ) {
        let mut pipe = setting.pipe();
        let calls: Vec<_> = calls.into_iter().map(Time::from_us).collect();
        play(&mut pipe, &arrivals, &calls);
        let counters = *pipe.counters();
        let dropped: u64 = pipe.queue().classes().iter().map(|class| class.dropped()).sum();
        let inside = pipe.backlog().packets + pipe.delayed();
        prop_assert_eq!(
            counters.packets_in, counters.packets_out + counters.lost + dropped + inside
        );
    }

    #[test]
    fn no_span_carries_more_than_its_rate(setting in settings(), arrivals in arrivals()) {
        let rate = setting.rate.unwrap_or(Rate::from_mbit_per_s(50));
        let setting = Setting { rate: Some(rate), jitter: Time::ZERO, ..setting };
        let (released, _) = on_time(&setting, &arrivals);
        let (Some(&(begin, _)), Some(&(end, _))) = (released.first(), released.last()) else {
            return Ok(());
        };
        let carried: u64 = released[1..].iter().map(|&(_, n)| arrivals[n as usize].1).sum();
        let nanosecond = Time::from_ns(1);
        prop_assert!(rate.time_for(Bytes::new(carried)) <= end - begin + nanosecond);
    }
}

/// The link is idle and unlimited: only the discipline, and its own timers, hold packets back.
#[test]
fn a_shaper_lets_packets_go_at_its_own_pace_whoever_calls() {
    let json = r#"{"discipline": "token-bucket", "rate_bps": 8000, "burst_bytes": 1000}"#;
    let config: DisciplineConfig = serde_json::from_str(json).expect("a discipline");
    let arrivals: Vec<_> = (0..5).map(|n| (Time::from_ms(n), 500)).collect();
    // 8 kbit/s: two packets from the bucket at once, then one every 500 ms.
    let due = [0, 1, 500, 1_000, 1_500].map(Time::from_ms);
    for calls in [vec![Time::from_ms(9_000)], (0..900).map(|n| Time::from_ms(n * 10)).collect()] {
        let queue = config.build(None, Random::of_source(1, &[])).expect("valid parameters");
        let delay = Delay::new(Time::ZERO, Time::ZERO, Random::of_source(1, &[]));
        let mut pipe = Pipe::new(Loss::None, queue, None, delay);
        let (released, discarded) = play(&mut pipe, &arrivals, &calls);
        assert_eq!(released.iter().map(|(at, _)| *at).collect::<Vec<_>>(), due);
        assert!(discarded.is_empty());
    }
}
