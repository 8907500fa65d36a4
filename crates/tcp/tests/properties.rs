//! Whatever the wire does to packets, every byte arrives once, in bounded space, and it ends.

mod support;

use proptest::prelude::*;
use support::{Fate, Pair, Way, control, ms};
use weir_tcp::{
    Bundling, Config, Connection, DelayedAck, End, LossDetection, Nagle, ReceiveBuffer,
    RestartFrom, Rto, RtoRule, State, TailLossProbe,
};
use weir_units::Time;

/// What the wire does to the packet of each number, until it has nothing more in mind.
fn fates() -> impl Strategy<Value = Vec<Fate>> {
    let fate = prop_oneof![
        6 => Just(Fate::Pass),
        3 => Just(Fate::Drop),
        1 => Just(Fate::Twice),
        1 => Just(Fate::Mark),
        2 => (1u64..120).prop_map(|late| Fate::Late(ms(late))),
    ];
    prop::collection::vec(fate, 0..150)
}

fn configs() -> impl Strategy<Value = Config> {
    let receive = prop_oneof![
        (500u64..200_000).prop_map(|size| ReceiveBuffer::Fixed { size }),
        Just(ReceiveBuffer::Auto { initial: 65_536, most: 1 << 20 }),
    ];
    let nagle = prop_oneof![Just(Nagle::Off), Just(Nagle::Rfc896), Just(Nagle::Minshall)];
    let delayed = prop_oneof![
        Just(DelayedAck::LINUX),
        Just(DelayedAck::NONE),
        Just(DelayedAck::plain(ms(100))),
    ];
    let probe = prop_oneof![
        Just(None),
        Just(Some(TailLossProbe::Rfc8985)),
        Just(Some(TailLossProbe::Linux318)),
    ];
    let restart =
        prop_oneof![Just(None), Just(Some(RestartFrom::Earliest)), Just(Some(RestartFrom::Last)),];
    let rule = prop_oneof![Just(RtoRule::Linux), Just(RtoRule::LinuxFloor), Just(RtoRule::Rfc6298)];
    let switches = prop::array::uniform8(any::<bool>());
    (receive, nagle, delayed, probe, restart, rule, switches, any::<bool>()).prop_map(
        |(receive_buffer, nagle, delayed_ack, tail_loss_probe, restart, rule, on, pacing)| Config {
            mss: 1000,
            receive_buffer,
            nagle,
            delayed_ack,
            tail_loss_probe,
            rto_restart: restart,
            probe_restart: restart,
            rto: Rto { rule, ..Rto::LINUX },
            window_scaling: on[0],
            timestamps: on[1],
            sack: on[2],
            accurate_ecn: on[3],
            thin_dupack: on[4],
            thin_linear_timeouts: on[5],
            bundling: on[6].then(Bundling::default),
            loss_detection: if on[7] { LossDetection::Rack } else { LossDetection::DupThresh },
            undo: on[0] ^ on[1],
            pacing,
            segmentation_offload: on[2] ^ on[3],
            retries_max: 100,
            time_wait: ms(10_000_000),
            ..Config::default()
        },
    )
}

const NAMES: [&str; 5] = ["reno", "cubic", "bbr", "reno:ecn=on", "cubic:ecn=on"];

proptest! {
    #![proptest_config(ProptestConfig::with_cases(5000))]

    #[test]
    fn every_byte_arrives_once_and_the_connection_ends(
        fates in fates(),
        near in configs(),
        far in configs(),
        name in prop::sample::select(&NAMES[..]),
        writes in prop::collection::vec((1u64..40_000, 0u64..300), 1..12),
        answer in 0u64..20_000,
        reads_at_once: bool,
    ) {
        let mut pair = Pair::with(
            Connection::connect(near, control(name, &near), Time::ZERO),
            Connection::accept(far, control(name, &far), Time::ZERO),
            ms(20),
        );
        pair.reads = reads_at_once;
        let mut fates = fates.into_iter();
        pair.rule(move |_, _, _| fates.next().unwrap_or(Fate::Pass));
        let total: u64 = writes.iter().map(|write| write.0).sum();
        pair.far.write(answer);
        for (bytes, pause) in writes {
            pair.write(bytes);
            pair.run_to(pair.now + ms(pause));
        }
        pair.near.close();
        pair.far.close();
        pair.flush();
        let limit = pair.now + Time::from_ms(100_000_000);
        for _ in 0..200_000 {
            if pair.near.end().is_some() && pair.far.end().is_some() {
                break;
            }
            if !reads_at_once {
                // A slow reader: a little at each event.
                pair.read[1] += pair.far.read(700);
                pair.read[0] += pair.near.read(700);
                pair.flush();
            }
            let before = pair.now;
            prop_assert!(pair.step(), "stuck at {}\n{}", pair.now, pair.script());
            prop_assert!(pair.now >= before && pair.now < limit, "at {}", pair.now);
            for (side, other) in [(&pair.near, &pair.far), (&pair.far, &pair.near)] {
                let most = side.statistics().in_flight;
                prop_assert!(most <= other_buffer(other, &near, &far) + 2, "{most} in flight");
            }
        }
        pair.read[1] += pair.far.read(u64::MAX);
        pair.read[0] += pair.near.read(u64::MAX);
        prop_assert_eq!(pair.read, [answer, total], "{}", pair.script());
        prop_assert_eq!((pair.near.end(), pair.far.end()),
            (Some(End::Finished), Some(End::Finished)), "{}", pair.script());
        prop_assert_eq!(pair.near.acked(), total);
        prop_assert_eq!(pair.near.state(), State::Closed);
        let sent = pair.log.iter().filter(|s| s.way == Way::Out).count();
        prop_assert!(sent < 60_000, "{} segments", sent);
    }
}

/// What may be in flight at most: nothing beyond the larger of both buffers, which is a bound
/// whatever each offers.
fn other_buffer(_other: &Connection, near: &Config, far: &Config) -> u64 {
    near.receive_buffer.most().max(far.receive_buffer.most())
}
