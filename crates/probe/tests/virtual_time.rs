//! When requests leave and what samples they make, in virtual time: nothing sleeps.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap};
use std::num::{NonZeroU32, NonZeroU64};

use proptest::prelude::*;
use weir_probe::{Period, Plan, Sample, Sampler, Step};
use weir_units::Time;

const BEGIN: Time = Time::from_ms(2000);

const fn ms(count: u64) -> Time {
    Time::from_ms(count)
}

/// A plan at `rate_hz` with the default timeout of 1 s.
fn plan(rate_hz: u64, requests: u32, samples: u64) -> Plan {
    let denominator = NonZeroU64::new(rate_hz).expect("a rate");
    Plan {
        period: Period { numerator: ms(1000), denominator },
        requests: NonZeroU32::new(requests).expect("a request"),
        samples: Some(samples),
        timeout: ms(1000),
    }
}

/// A path and a machine in virtual time.
struct World<'a> {
    /// A request's round-trip time, `None` for one that is lost.
    answer: &'a dyn Fn(u64) -> Option<Time>,
    /// By how much a wake-up at a time is late.
    oversleep: &'a mut dyn FnMut(Time) -> Time,
    /// Whether the kernel stamps: only then may replies be read late.
    is_stamping: bool,
    now: Time,
    /// When each request left.
    sent: BTreeMap<u64, Time>,
    /// When replies come, to which request, after what time.
    replies: BinaryHeap<Reverse<(Time, u64, Time)>>,
    /// How often it woke up.
    wakes: usize,
}

impl<'a> World<'a> {
    fn new(
        answer: &'a dyn Fn(u64) -> Option<Time>,
        oversleep: &'a mut dyn FnMut(Time) -> Time,
    ) -> Self {
        Self {
            answer,
            oversleep,
            is_stamping: true,
            now: ms(1000),
            sent: BTreeMap::new(),
            replies: BinaryHeap::new(),
            wakes: 0,
        }
    }

    /// Every sample and when it was handed over.
    fn run(&mut self, plan: Plan) -> Vec<(Sample, Time)> {
        let (mut sampler, mut samples) = (Sampler::new(plan, BEGIN), Vec::new());
        loop {
            while sampler.is_awaiting()
                && self.replies.peek().is_some_and(|Reverse((came, ..))| *came <= self.now)
                && let Some(Reverse((_, key, rtt))) = self.replies.pop()
            {
                sampler.reply(key, rtt, self.is_stamping, self.now);
            }
            while let Some(sample) = sampler.take(self.now) {
                samples.push((sample, self.now));
            }
            match sampler.step(self.now) {
                Step::Begin => sampler.begin(None),
                Step::Send(key) => {
                    assert_eq!(self.sent.insert(key, self.now), None, "{key} was sent twice");
                    if let Some(rtt) = (self.answer)(key) {
                        self.replies.push(Reverse((self.now + rtt, key, rtt)));
                    }
                    sampler.sent(self.now);
                }
                Step::Wait { until, is_listening } => {
                    assert!(until > self.now, "it waits for what is over");
                    let came = self.replies.peek().map(|Reverse((came, ..))| *came);
                    self.now = match came {
                        Some(came) if is_listening && came < until => came.max(self.now),
                        _ => until + (self.oversleep)(until),
                    };
                    self.wakes += 1;
                }
                Step::Over => return samples,
            }
        }
    }
}

/// What a machine that is never late finds.
fn samples(plan: Plan, answer: &dyn Fn(u64) -> Option<Time>) -> Vec<Sample> {
    let mut punctual = |_| Time::ZERO;
    World::new(answer, &mut punctual).run(plan).into_iter().map(|(sample, _)| sample).collect()
}

fn lost(sample: &Sample) -> usize {
    sample.rtts.iter().filter(|rtt| rtt.is_none()).count()
}

fn mean_ms(sample: &Sample) -> f64 {
    let replies: Vec<_> = sample.rtts.iter().flatten().map(|rtt| rtt.as_s() * 1e3).collect();
    replies.iter().sum::<f64>() / replies.len() as f64
}

proptest! {
    #[test]
    fn the_period_is_kept_over_many_samples_by_a_prober_that_oversleeps(
        rate in prop::sample::select(vec![(1, 1), (7, 1), (100, 1), (1, 3)]),
        late_ns in prop::collection::vec(0..400_000u64, 100),
    ) {
        let (hz, per) = rate;
        let mut plan = plan(hz, 3, 1000);
        plan.period.numerator = ms(1000 * per);
        let mut wakes = late_ns.iter().cycle();
        let mut oversleep = |_| Time::from_ns(*wakes.next().expect("a cycle"));
        let answer = |_| Some(ms(5));
        let mut world = World::new(&answer, &mut oversleep);
        let samples = world.run(plan);
        prop_assert_eq!(samples.len(), 1000);
        for (index, (sample, _)) in samples.iter().enumerate() {
            // Absolute deadlines: index / rate, exactly, to the last nanosecond.
            let due = BEGIN + Time::from_ns(index as u64 * 1_000_000_000 * per / hz);
            prop_assert_eq!((sample.index, sample.at), (index as u64, due));
            let late: Vec<_> = (0..3)
                .map(|number| world.sent[&(index as u64 * 3 + number)] - due - ms(number))
                .collect();
            prop_assert_eq!(Some(&sample.late), late.iter().max());
            prop_assert!(sample.late < Time::from_us(400));
        }
    }

    #[test]
    fn every_request_is_answered_or_lost_whatever_the_path_and_the_machine_do(
        requests in 1..=10u32,
        hz in 1..=100u64,
        rtts_us in prop::collection::vec(prop::option::of(1..1_200_000u64), 64),
        late_us in prop::collection::vec(prop_oneof![9 => 0..500u64, 1 => 0..200_000u64], 32),
        is_stamping: bool,
    ) {
        let plan = plan(hz, requests, 40);
        let answer = |key: u64| rtts_us[key as usize % rtts_us.len()].map(Time::from_us);
        let mut wakes = late_us.iter().cycle();
        let mut oversleep = |_| Time::from_us(*wakes.next().expect("a cycle"));
        let mut world = World::new(&answer, &mut oversleep);
        world.is_stamping = is_stamping;
        let samples = world.run(plan);
        prop_assert_eq!(samples.len(), 40);
        let mut held = None;
        for (index, (sample, given)) in samples.iter().enumerate() {
            prop_assert_eq!(sample.index, index as u64);
            prop_assert_eq!(sample.held_ns, held);
            let first = index as u64 * u64::from(requests);
            let sent: Vec<_> = world.sent.range(first..first + u64::from(requests)).collect();
            prop_assert_eq!(sent.len(), sample.rtts.len());
            let end = plan.period.times(index as u64 + 1);
            for ((key, left), rtt) in sent.iter().zip(&sample.rtts) {
                prop_assert!(**left < BEGIN + end, "sent when its sample was over");
                prop_assert!(**left >= sample.at + ms(**key - first), "sent too early");
                prop_assert_eq!(*rtt, answer(**key).filter(|rtt| *rtt <= ms(1000)));
            }
            if let Some((_, left)) = sent.last() {
                let latest = **left + ms(1000) + ms(201);
                let before = index.checked_sub(1).map_or(BEGIN, |before| samples[before].1);
                prop_assert!(*given <= latest.max(before), "given late: {given:?}");
            }
            let mean = sample.rtts.iter().flatten().map(|rtt| rtt.as_ns()).collect::<Vec<_>>();
            if !mean.is_empty() {
                held = Some(mean.iter().sum::<u64>() as f64 / mean.len() as f64);
            }
        }
    }
}

#[test]
fn a_sample_is_the_mean_of_its_replies_and_counts_the_lost() {
    // Requests 2 and 7 of every ten are lost; 4 takes longer than the timeout.
    let answer = |key: u64| match key % 10 {
        2 | 7 => None,
        4 => Some(ms(1001)),
        number => Some(ms(20 + number)),
    };
    let samples = samples(plan(1, 10, 5), &answer);
    assert_eq!(samples.len(), 5);
    for sample in &samples {
        let expected = [20, 21, 0, 23, 0, 25, 26, 0, 28, 29];
        let expected = expected.map(|rtt| (rtt > 0).then_some(ms(rtt)));
        assert_eq!(sample.rtts, expected);
    }
    assert_eq!(samples[0].held_ns, None);
    let mean = (20 + 21 + 23 + 25 + 26 + 28 + 29) as f64 / 7.0 * 1e6;
    assert!((samples[1].held_ns.expect("one before") - mean).abs() < 1e-6);
}

#[test]
fn a_sample_without_a_reply_has_the_last_value_beside_it() {
    let answer = |key: u64| match key / 2 {
        0 | 3 | 4 => None,
        _ => Some(ms(10 + key)),
    };
    let samples = samples(plan(10, 2, 6), &answer);
    let held: Vec<_> = samples.iter().map(|sample| sample.held_ns.map(|ns| ns / 1e6)).collect();
    assert_eq!(held, [None, None, Some(12.5), Some(14.5), Some(14.5), Some(14.5)]);
    assert_eq!(samples.iter().map(lost).collect::<Vec<_>>(), [2, 0, 0, 2, 2, 0]);
    assert_eq!(mean_ms(&samples[5]), 20.5);
}

#[test]
fn samples_come_in_order_each_when_it_is_complete() {
    // The first sample's reply takes 250 ms, the others' 5 ms: none overtakes it.
    let answer = |key| Some(if key == 0 { ms(250) } else { ms(5) });
    let mut punctual = |_| Time::ZERO;
    let given = World::new(&answer, &mut punctual).run(plan(10, 1, 10));
    let at: Vec<_> = given.iter().map(|(_, at)| *at - BEGIN).collect();
    assert!(given.iter().map(|(sample, _)| sample.index).eq(0..10));
    assert_eq!(at, [250, 250, 250, 305, 405, 505, 605, 705, 805, 905].map(ms));
}

#[test]
fn a_machine_that_stops_for_seconds_misses_samples_and_sends_no_burst() {
    let answer = |_| Some(ms(5));
    let mut oversleep = |until| if until == BEGIN + ms(2000) { ms(3550) } else { Time::ZERO };
    let mut world = World::new(&answer, &mut oversleep);
    let samples: Vec<_> =
        world.run(plan(1, 10, 10)).into_iter().map(|(sample, _)| sample).collect();
    // It slept from 2 s to 5.55 s: samples 2 to 4 are over, that of 5 s can still be asked.
    let counts: Vec<_> = samples.iter().map(|sample| sample.rtts.len()).collect();
    assert_eq!(counts, [10, 10, 0, 0, 0, 10, 10, 10, 10, 10]);
    assert_eq!(samples[5].late, ms(550));
    assert_eq!(samples[3].late, Time::ZERO);
    assert_eq!(samples.iter().map(lost).sum::<usize>(), 0);
    assert!(samples.iter().all(|sample| sample.at == BEGIN + ms(1000 * sample.index)));
}

#[test]
fn what_is_lost_at_the_end_is_waited_for_no_longer_than_the_timeout() {
    let mut plan = plan(1, 1, 1);
    plan.timeout = ms(500);
    let mut punctual = |_| Time::ZERO;
    let mut world = World::new(&|_| None, &mut punctual);
    let given = world.run(plan);
    assert_eq!((lost(&given[0].0), world.now), (1, BEGIN + ms(500)));
}

#[test]
fn a_slow_rate_does_not_hold_back_a_lost_sample() {
    let mut plan = plan(1, 1, 2);
    (plan.period.numerator, plan.timeout) = (ms(10_000), ms(333));
    let mut punctual = |_| Time::ZERO;
    let given = World::new(&|_| None, &mut punctual).run(plan);
    assert_eq!(given[0].1, BEGIN + ms(333));
}

#[test]
fn replies_that_the_kernel_stamps_are_read_together() {
    let answer = |_| Some(ms(20));
    let wakes_of = |is_stamping| {
        let mut punctual = |_| Time::ZERO;
        let mut world = World::new(&answer, &mut punctual);
        world.is_stamping = is_stamping;
        let given = world.run(plan(10, 10, 100));
        // The last reply is due 29 ms after the first request, and no sample is given later.
        assert!(given.iter().all(|(sample, at)| *at == sample.at + ms(29)));
        world.wakes
    };
    // Ten requests, the first reply, the last one.
    assert_eq!(wakes_of(true), 12 * 100);
    // Unstamped, each reply at once: what is read late would look late.
    assert_eq!(wakes_of(false), 20 * 100);
}

#[test]
fn a_prober_that_wakes_up_soon_anyway_wakes_up_for_no_reply() {
    let answer = |_| Some(ms(25));
    let wakes_of = |rate_hz, is_stamping| {
        let mut punctual = |_| Time::ZERO;
        let mut world = World::new(&answer, &mut punctual);
        world.is_stamping = is_stamping;
        let given = world.run(plan(rate_hz, 1, 100));
        // Read at the next request at latest, which at 100 Hz is after 30 ms.
        assert!(given.iter().all(|(sample, at)| *at <= sample.at + ms(50)));
        assert!(given.iter().all(|(sample, _)| sample.rtts == [Some(ms(25))]));
        world.wakes
    };
    // One for each request, and some before and after all of them.
    assert!(wakes_of(100, true) <= 100 + 5);
    assert!(wakes_of(20, true) <= 100 + 5);
    // Ten times slower than that a sample is not held back.
    assert_eq!(wakes_of(2, true), 200);
    assert_eq!(wakes_of(20, false), 200);
}

#[test]
fn duplicates_strays_and_late_replies_change_nothing() {
    let mut sampler = Sampler::new(plan(10, 2, 2), BEGIN);
    sampler.reply(0, ms(1), true, BEGIN);
    for key in 0..2 {
        if key == 0 {
            assert_eq!(sampler.step(BEGIN), Step::Begin);
            sampler.begin(Some(vec![7]));
        }
        assert_eq!(sampler.step(BEGIN + ms(key)), Step::Send(key));
        sampler.sent(BEGIN + ms(key));
    }
    for (key, rtt) in [(0, ms(5)), (0, ms(6)), (5, ms(5)), (u64::MAX, ms(5)), (1, ms(1001))] {
        sampler.reply(key, rtt, true, BEGIN + ms(6));
    }
    assert_eq!(sampler.take(BEGIN + ms(1000)), None);
    let sample = sampler.take(BEGIN + ms(1001)).expect("its time is over");
    assert_eq!((sample.rtts, sample.tcp), (vec![Some(ms(5)), None], Some(vec![7])));
    sampler.reply(1, ms(999), true, BEGIN + ms(1001));
    assert_eq!(sampler.take(BEGIN + ms(2000)), None);
}
