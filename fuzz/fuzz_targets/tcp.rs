//! A sequence of operations on a connection whose other side is the fuzzer: hostile segments,
//! timers, the application. Nothing panics, time does not stand still, space stays bounded, and
//! what was delivered never exceeds what was sent.

#![no_main]

use libfuzzer_sys::fuzz_target;
use weir_queue::Ecn;
use weir_random::Random;
use weir_tcp::congestion::Algorithm;
use weir_tcp::{
    Bundling, Config, Connection, DelayedAck, Flags, LossDetection, Nagle, Offer, ReceiveBuffer,
    RestartFrom, SackBlock, Segment, State, TailLossProbe,
};
use weir_units::Time;

const NAMES: [&str; 17] = [
    "reno",
    "cubic",
    "bbr",
    "reno:ecn=on",
    "bbr3",
    "ctcp",
    "htcp",
    "ledbat",
    "dctcp",
    "dctcp:on-loss=windows",
    "dctcp:on-loss=linux-3.18,growth-in-cwr=off",
    "prague",
    "prague:rtt-transition=0",
    "cubic:hystart=plus-plus,abe=0.85",
    "reno:abe=0.8,cwv=rfc7661",
    "cubic:ecn=on,cwv=rfc2861",
    "htcp:abe=0.8,cwv=rfc5681",
];
const WRITTEN_MAX: u64 = 1 << 22;

/// Bytes of the input as numbers; zeros when it ends.
struct Input<'a>(&'a [u8]);

impl Input<'_> {
    fn byte(&mut self) -> u8 {
        let Some((&first, rest)) = self.0.split_first() else {
            return 0;
        };
        self.0 = rest;
        first
    }

    fn number(&mut self) -> u64 {
        u64::from(self.byte()) << 8 | u64::from(self.byte())
    }

    /// Near `anchor`, mostly; sometimes anywhere.
    fn near(&mut self, anchor: u64) -> u64 {
        let kind = self.byte();
        let by = self.number();
        match kind % 8 {
            0 => anchor,
            1 => anchor.saturating_add(by),
            2 => anchor.saturating_sub(by),
            3 => anchor.saturating_add(by.saturating_mul(100)),
            4 => anchor.saturating_add(1),
            5 => anchor.saturating_sub(1),
            6 => u64::MAX / 2 + by,
            _ => by,
        }
    }
}

fn config(input: &mut Input<'_>) -> Config {
    let (a, b) = (input.byte(), input.byte());
    let on = |bit: u8| a >> bit & 1 == 1;
    Config {
        mss: 100 + u32::from(b & 3) * 449,
        receive_buffer: if on(0) {
            ReceiveBuffer::Fixed { size: 1 + input.number() * 16 }
        } else {
            ReceiveBuffer::Auto { initial: 4_096, most: 1 << 20 }
        },
        send_buffer: 1 << 20,
        timestamps: on(1),
        sack: on(2),
        accurate_ecn: on(3),
        window_scaling: on(4),
        nagle: if on(5) { Nagle::Off } else { Nagle::Minshall },
        delayed_ack: if on(6) { DelayedAck::LINUX } else { DelayedAck::NONE },
        loss_detection: if on(7) { LossDetection::Rack } else { LossDetection::DupThresh },
        tail_loss_probe: [
            None,
            Some(TailLossProbe::Rfc8985),
            Some(TailLossProbe::Linux318),
            Some(TailLossProbe::Rfc8985),
        ][usize::from(b >> 2 & 3)],
        rto_restart: (b >> 4 & 1 == 1).then_some(RestartFrom::Earliest),
        probe_restart: (b >> 4 & 1 == 1).then_some(RestartFrom::Last),
        bundling: (b >> 5 & 1 == 1).then(Bundling::default),
        thin_dupack: b >> 6 & 1 == 1,
        thin_linear_timeouts: b >> 6 & 1 == 1,
        pacing: b >> 7 & 1 == 1,
        segmentation_offload: on(1) ^ on(4),
        ..Config::default()
    }
}

/// What the fuzzer knows of the connection: the segments that it sent.
#[derive(Default)]
struct Seen {
    seq: u64,
    ack: u64,
    sent_at: Time,
}

fn segment(input: &mut Input<'_>, seen: &Seen, now: Time) -> (Segment, Ecn) {
    let kind = input.byte();
    let mut sack = [SackBlock::default(); 3];
    let sack_count = input.byte() % 5;
    for block in sack.iter_mut().take(usize::from(sack_count).min(3)) {
        block.start = input.near(seen.seq.saturating_sub(2_000));
        block.end = input.near(block.start.saturating_add(500));
    }
    let flags = match kind % 8 {
        0 => Flags::SYN,
        1 => Flags::SYN.with(Flags::ACK),
        2 => Flags::ACK.with(Flags::FIN),
        3 => Flags::of_bits(input.number() as u16),
        _ => Flags::ACK.with(Flags::of_bits(u16::from(input.byte()) << 6)),
    };
    // A flag byte that resets ends most runs at once: it must come twice.
    let once = flags.has(Flags::RST) && !input.byte().is_multiple_of(4);
    let flags = if once { Flags::ACK } else { flags };
    let handshake = kind % 8 < 2;
    let segment = Segment {
        seq: if handshake { 0 } else { input.near(seen.ack.max(1)) },
        ack: if kind % 8 == 1 { 1 } else { input.near(seen.seq) },
        len: if handshake { 0 } else { input.number() as u32 & 0x0fff },
        window: (input.number() as u32) << (input.byte() % 17),
        flags,
        sack_count,
        sack,
        ts_val: now,
        ts_ecr: Time::from_ns(input.near(seen.sent_at.as_ns())),
        accurate_ecn: (kind >> 4 & 1 == 1).then(|| (input.near(seen.seq), input.near(seen.seq))),
        offer: handshake.then(|| Offer {
            mss: input.number() as u16,
            window_scale: (kind >> 5 & 1 == 1).then(|| input.byte()),
            sack: true,
            timestamps: kind >> 6 & 1 == 0,
        }),
    };
    (segment, Ecn::of_octet(input.byte()))
}

/// Sends all there is; a bound on how much that may be.
fn drain(connection: &mut Connection, seen: &mut Seen, written: u64, now: Time) {
    for _ in 0..200_000 {
        let Some(transmit) = connection.poll_segment(now) else {
            return;
        };
        let sent = transmit.segment;
        if sent.flags.has(Flags::RST) {
            continue;
        }
        assert!(sent.seq + u64::from(sent.len) <= written + 2, "{sent:?} of {written}");
        seen.seq = seen.seq.max(sent.end());
        seen.ack = sent.ack;
        seen.sent_at = now;
    }
    panic!("it sends for ever");
}

fuzz_target!(|bytes: &[u8]| {
    let mut input = Input(bytes);
    let config = config(&mut input);
    let name = NAMES[usize::from(input.byte()) % NAMES.len()];
    let algorithm: Algorithm = name.parse().expect("the name of a control");
    let random = Random::of_source(1, &["fuzz"]);
    let control = algorithm.build(config.mss, 10 * u64::from(config.mss), Time::from_ns(1), random);
    let mut now = Time::from_ns(1);
    let mut connection = if input.byte() % 2 == 0 {
        Connection::connect(config, control, now)
    } else {
        Connection::accept(config, control, now)
    };
    let (mut seen, mut written) = (Seen::default(), 0);
    while !input.0.is_empty() {
        match input.byte() % 12 {
            0 if written < WRITTEN_MAX => written += connection.write(input.number()),
            1 => {
                connection.read(input.number());
            }
            2 if input.byte() == 7 => connection.close(),
            3 if input.byte() == 7 => connection.abort(),
            4 | 5 => now = now.saturating_add(Time::from_us(input.number() * 4)),
            6 | 7 => {
                if let Some(at) = connection.next_timer() {
                    now = now.max(at);
                    connection.on_timer(now);
                    drain(&mut connection, &mut seen, written, now);
                    let next = connection.next_timer();
                    assert!(next.is_none_or(|next| next > now), "{next:?} at {now}");
                }
            }
            _ => {
                let (segment, ecn) = segment(&mut input, &seen, now);
                connection.on_segment(&segment, ecn, now);
            }
        }
        drain(&mut connection, &mut seen, written, now);
        assert!(connection.acked() <= written);
        let statistics = connection.statistics();
        assert!(statistics.in_flight <= written + 1);
        assert!(statistics.rto > Time::ZERO);
        assert_eq!(connection.state() == State::Closed, connection.end().is_some());
    }
});
