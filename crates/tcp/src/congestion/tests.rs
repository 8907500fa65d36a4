//! What holds for every control: windows in bounds on whatever samples, the same twice, and golden
//! tables of the window over time on one rig.

use proptest::prelude::*;
use weir_random::Random;
use weir_units::{Bytes, Rate, Time};

use super::rig::{MSS, Pipe, Rig};
use super::{AckSample, Algorithm, CongestionControl, Signal};

const NAMES: &[&str] = &[
    "reno",
    "reno:abe=0.8,cwv=rfc7661",
    "cubic",
    "cubic:hystart=plus-plus,cwv=rfc5681",
    "cubic:hystart=off,abe=0.85",
    "bbr",
    "bbr3",
    "dctcp",
    "dctcp:on-loss=linux-3.18,growth-in-cwr=off",
    "dctcp:growth-in-cwr=off,whole-segments=on",
    "prague",
    "prague:rtt-transition=0,cwv=rfc7661",
    "ctcp",
    "htcp",
    "ledbat",
    "ledbat:target=5,shallow=on,cwv=rfc7661",
];

#[derive(Clone, Debug)]
enum Event {
    Ack(Box<AckSample>),
    Congestion(Signal, u64),
    Exit,
    Spurious,
    Restart(Time),
    Send(u64, u64),
    Set(u64, u64),
    Established(Time),
}

/// Mostly plain amounts, and now and then one that no network has.
fn amount() -> impl Strategy<Value = u64> {
    prop_oneof![
        6 => 0u64..1 << 20,
        1 => 0u64..1 << 40,
        1 => Just(0),
        1 => Just(u64::MAX),
        1 => any::<u64>(),
    ]
}

fn span() -> impl Strategy<Value = Time> {
    let ns = prop_oneof![
        8 => 0u64..100_000_000,
        1 => 0u64..100_000_000_000,
        1 => Just(0),
        1 => Just(1 << 62),
    ];
    ns.prop_map(Time::from_ns)
}

fn sample() -> impl Strategy<Value = AckSample> {
    let sizes = prop::array::uniform7(amount());
    let times = (prop::option::of(span()), span(), span());
    let flags = prop::array::uniform4(any::<bool>());
    (sizes, times, prop::option::of(amount()), flags).prop_map(|(sizes, times, rate, flags)| {
        let [acked, lost, marked, prior_in_flight, in_flight, delivered, prior_delivered] = sizes;
        AckSample {
            now: Time::ZERO,
            acked,
            lost,
            marked,
            rtt: times.0,
            srtt: times.1,
            min_rtt: times.2,
            prior_in_flight,
            in_flight,
            delivered,
            prior_delivered,
            delivery_rate: rate.map(Rate::from_bit_per_s),
            is_app_limited: flags[0],
            advances: flags[3],
            is_cwnd_limited: flags[1],
            in_recovery: flags[2],
        }
    })
}

fn event() -> impl Strategy<Value = Event> {
    let signal = prop_oneof![Just(Signal::Loss), Just(Signal::Ecn), Just(Signal::Timeout)];
    prop_oneof![
        20 => sample().prop_map(|sample| Event::Ack(Box::new(sample))),
        3 => (signal, amount()).prop_map(|(signal, amount)| Event::Congestion(signal, amount)),
        1 => Just(Event::Exit),
        1 => Just(Event::Spurious),
        1 => span().prop_map(Event::Restart),
        3 => (amount(), amount()).prop_map(|(size, in_flight)| Event::Send(size, in_flight)),
        1 => (amount(), amount()).prop_map(|(window, threshold)| Event::Set(window, threshold)),
        1 => span().prop_map(Event::Established),
    ]
}

fn apply(control: &mut dyn CongestionControl, now: Time, event: &Event) {
    match *event {
        Event::Ack(ref sample) => control.on_ack(&AckSample { now, ..**sample }),
        Event::Congestion(signal, in_flight) => control.on_congestion(signal, now, in_flight),
        Event::Exit => control.on_recovery_exit(now),
        Event::Spurious => control.on_spurious(now),
        Event::Restart(idle) => control.on_restart(now, idle),
        Event::Send(size, in_flight) => control.on_send(now, Bytes::new(size), in_flight),
        Event::Set(window, threshold) => control.set_window(window, threshold),
        Event::Established(rtt) => control.on_established(now, rtt),
    }
}

fn build(name: &str, mss: u32) -> Box<dyn CongestionControl> {
    let algorithm: Algorithm = name.parse().unwrap();
    let window = 10 * u64::from(mss);
    algorithm.build(mss, window, Time::ZERO, Random::of_source(1, &["test"]))
}

proptest! {
    #[test]
    fn windows_stay_in_bounds_and_repeat_on_hostile_samples(
        mss in prop_oneof![Just(1u32), Just(536), Just(1_448), Just(8_948), Just(u32::MAX)],
        events in prop::collection::vec((span(), event()), 1..120),
    ) {
        for name in NAMES {
            let (mut first, mut second) = (build(name, mss), build(name, mss));
            let mut now = Time::ZERO;
            for (gap, event) in &events {
                now = now.saturating_add(*gap);
                apply(first.as_mut(), now, event);
                apply(second.as_mut(), now, event);
                let window = first.window();
                prop_assert!(window >= u64::from(mss), "{name}: {window} after {event:?}");
                prop_assert!(window <= 1 << 61, "{name}: {window} after {event:?}");
                prop_assert!(first.slow_start_threshold() > 0);
                if let Some(rate) = first.pacing_rate() {
                    prop_assert!(rate > Rate::ZERO, "{name} stops after {event:?}");
                }
                prop_assert_eq!(window, second.window(), "{}", name);
                prop_assert_eq!(first.pacing_rate(), second.pacing_rate(), "{}", name);
            }
        }
    }
}

/// Window, queue and losses of every control, side by side, over 20 s.
fn table(pipe: Pipe) -> String {
    let names = ["reno", "cubic", "bbr", "bbr3", "dctcp", "prague", "ctcp", "htcp", "ledbat"];
    let runs: Vec<Rig> = names
        .iter()
        .map(|name| {
            let mut rig = Rig::new(name, pipe).tracing(Time::from_ms(500));
            rig.run_until(Time::from_ms(20_000));
            rig
        })
        .collect();
    let row = |head: String, cells: Vec<String>| {
        let cells: Vec<String> = cells.iter().map(|cell| format!("{cell:>9}")).collect();
        format!("{head:>6} {}\n", cells.join(" "))
    };
    let mut text = row("s".to_owned(), names.iter().map(|&name| name.to_owned()).collect());
    for index in 0..runs[0].trace.len() {
        let at = runs[0].trace[index].at.as_s();
        let cell = |rig: &Rig| {
            let point = rig.trace[index];
            format!("{}/{}", point.window / u64::from(MSS), point.queue)
        };
        text += &row(format!("{at:.1}"), runs.iter().map(cell).collect());
    }
    text += &row("lost".to_owned(), runs.iter().map(|rig| rig.losses.to_string()).collect());
    text
}

/// Compares with a table of `golden/`; to accept what is printed, put it there.
fn assert_golden(name: &str, expected: &str, actual: &str) {
    assert!(expected == actual, "golden/{name} differs; now it is\n{actual}");
}

#[test]
fn windows_over_time_on_a_queue_that_drops() {
    let actual = table(Pipe::new(20, 40, 70));
    assert_golden("drop.txt", include_str!("golden/drop.txt"), &actual);
}

#[test]
fn windows_over_time_on_a_queue_that_marks() {
    let mut pipe = Pipe::new(20, 40, 280);
    pipe.step = Some(10);
    assert_golden("mark.txt", include_str!("golden/mark.txt"), &table(pipe));
}
