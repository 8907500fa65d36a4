//! Two connections and the wire between them, in virtual time.
#![allow(dead_code, missing_docs, unreachable_pub)] // Each test file uses its part.

pub mod fixed;

use std::collections::VecDeque;

pub use fixed::Fixed;
use weir_queue::Ecn;
use weir_random::Random;
use weir_tcp::congestion::{Algorithm, CongestionControl};
use weir_tcp::{Config, Connection, Flags, Segment, State, Transmit};
use weir_units::Time;

/// Which way a packet goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Way {
    /// From the side that connected.
    Out,
    /// Towards it.
    Back,
}

/// What becomes of a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fate {
    Pass,
    Drop,
    /// Arrives so much later than the others.
    Late(Time),
    Twice,
    Mark,
}

/// A packet that left, for assertions.
#[derive(Clone, Copy, Debug)]
pub struct Sent {
    pub at: Time,
    pub way: Way,
    pub transmit: Transmit,
    pub fate: Fate,
}

impl Sent {
    pub fn segment(&self) -> &Segment {
        &self.transmit.segment
    }

    pub fn is_data(&self) -> bool {
        self.segment().len > 0
    }
}

type Rule = Box<dyn FnMut(Way, &Transmit, Time) -> Fate>;

pub struct Pair {
    pub now: Time,
    /// The side that connected, and the one that accepted.
    pub near: Connection,
    pub far: Connection,
    /// One way.
    pub delay: Time,
    pub log: Vec<Sent>,
    pub is_logging: bool,
    /// Bytes that each side's application read.
    pub read: [u64; 2],
    /// Whether applications read at once.
    pub reads: bool,
    rule: Rule,
    wires: [VecDeque<(Time, Transmit)>; 2],
}

pub fn ms(ms: u64) -> Time {
    Time::from_ms(ms)
}

/// A test speaks of segments of 1000 bytes and acknowledges each at once unless it says otherwise.
pub fn plain() -> Config {
    Config {
        mss: 1000,
        delayed_ack: weir_tcp::DelayedAck::NONE,
        nagle: weir_tcp::Nagle::Off,
        ..Config::default()
    }
}

/// The congestion control of this name, from ten segments on.
pub fn control(name: &str, config: &Config) -> Box<dyn CongestionControl> {
    let algorithm: Algorithm = name.parse().expect("a test names an algorithm that exists");
    let random = Random::of_source(1, &["test", name]);
    algorithm.build(config.mss, 10 * u64::from(config.mss), Time::ZERO, random)
}

impl Pair {
    /// Both sides run Reno, from ten segments on.
    pub fn new(near: &Config, far: &Config, delay: Time) -> Self {
        Self::with(
            Connection::connect(*near, control("reno", near), Time::ZERO),
            Connection::accept(*far, control("reno", far), Time::ZERO),
            delay,
        )
    }

    pub fn with(near: Connection, far: Connection, delay: Time) -> Self {
        Self {
            now: Time::ZERO,
            near,
            far,
            delay,
            log: Vec::new(),
            is_logging: true,
            read: [0; 2],
            reads: true,
            rule: Box::new(|_, _, _| Fate::Pass),
            wires: [VecDeque::new(), VecDeque::new()],
        }
    }

    /// Established, at the instant at which both sides know: one round trip and a half.
    pub fn established(config: &Config, delay: Time) -> Self {
        Self::new(config, config, delay).after_handshake()
    }

    /// Established, with a window of `segments` that stays whatever happens.
    pub fn of_window(segments: u64, config: &Config, delay: Time) -> Self {
        let fixed = || Box::new(Fixed::new(segments * u64::from(config.mss)));
        Self::with(
            Connection::connect(*config, fixed(), Time::ZERO),
            Connection::accept(*config, fixed(), Time::ZERO),
            delay,
        )
        .after_handshake()
    }

    /// Runs the handshake and forgets what it sent.
    pub fn after_handshake(self) -> Self {
        let mut pair = self;
        pair.run_until(|pair| {
            pair.near.state() == State::Established && pair.far.state() == State::Established
        });
        pair.log.clear();
        pair
    }

    /// Decides the fate of every packet from now on.
    pub fn rule(&mut self, rule: impl FnMut(Way, &Transmit, Time) -> Fate + 'static) {
        self.rule = Box::new(rule);
    }

    /// Drops the first transmission of the data that begins at each of `offsets`.
    pub fn lose(&mut self, offsets: &[u64]) {
        let mut left = offsets.to_vec();
        self.rule(move |way, transmit, _| {
            let seq = transmit.segment.seq;
            match left.iter().position(|&offset| offset == seq) {
                Some(index) if way == Way::Out && transmit.segment.len > 0 => {
                    left.remove(index);
                    Fate::Drop
                }
                _ => Fate::Pass,
            }
        });
    }

    pub fn write(&mut self, bytes: u64) -> u64 {
        let taken = self.near.write(bytes);
        self.flush();
        taken
    }

    /// The next event: an arrival or a timer. `None` if there is none.
    pub fn next_event(&self) -> Option<Time> {
        let arrivals = self.wires.iter().filter_map(|wire| wire.front().map(|(at, _)| *at));
        let timers = [self.near.next_timer(), self.far.next_timer()].into_iter().flatten();
        arrivals.chain(timers).min()
    }

    /// Runs to the next event and handles it; `false` if there is none.
    pub fn step(&mut self) -> bool {
        let Some(at) = self.next_event() else {
            return false;
        };
        assert!(at >= self.now, "an event at {at} is over at {}", self.now);
        self.now = at;
        // Each arrival is answered before the next.
        for index in [0, 1] {
            while let Some(&(at, transmit)) = self.wires[index].front()
                && at == self.now
            {
                self.wires[index].pop_front();
                let (side, way) = match index {
                    0 => (&mut self.far, Way::Back),
                    _ => (&mut self.near, Way::Out),
                };
                side.on_segment(&transmit.segment, transmit.ecn, at);
                self.flush_side(way);
            }
        }
        for way in [Way::Out, Way::Back] {
            let side = if way == Way::Out { &mut self.near } else { &mut self.far };
            if side.next_timer().is_some_and(|at| at <= self.now) {
                side.on_timer(self.now);
                self.flush_side(way);
            }
        }
        true
    }

    /// Runs until `done`, for a million events at most.
    pub fn run_until(&mut self, mut done: impl FnMut(&Self) -> bool) {
        self.flush();
        for _ in 0..1_000_000 {
            if done(self) {
                return;
            }
            assert!(self.step(), "nothing happens any more at {}:\n{}", self.now, self.script());
        }
        panic!("a million events and not done at {}", self.now);
    }

    /// Runs all events up to and at `at`.
    pub fn run_to(&mut self, at: Time) {
        self.flush();
        while self.next_event().is_some_and(|next| next <= at) {
            self.step();
        }
        self.now = at;
        self.flush();
    }

    /// Sends what may leave, and lets the applications read.
    pub fn flush(&mut self) {
        self.flush_side(Way::Out);
        self.flush_side(Way::Back);
    }

    /// The same for the side that sends this way.
    fn flush_side(&mut self, way: Way) {
        let index = way as usize;
        let side = if way == Way::Out { &mut self.near } else { &mut self.far };
        if self.reads {
            self.read[index] += side.read(u64::MAX);
        }
        while let Some(transmit) = side.poll_segment(self.now) {
            let fate = (self.rule)(way, &transmit, self.now);
            if self.is_logging {
                self.log.push(Sent { at: self.now, way, transmit, fate });
            }
            let arrival = self.now + self.delay;
            let wire = &mut self.wires[index];
            match fate {
                Fate::Drop => {}
                Fate::Pass => insert(wire, arrival, transmit),
                Fate::Late(by) => insert(wire, arrival + by, transmit),
                Fate::Twice => {
                    insert(wire, arrival, transmit);
                    insert(wire, arrival, transmit);
                }
                Fate::Mark => {
                    let ecn = if transmit.ecn.is_capable() { Ecn::Ce } else { transmit.ecn };
                    insert(wire, arrival, Transmit { ecn, ..transmit });
                }
            }
        }
    }

    /// Data segments that left since the log was cleared.
    pub fn data(&self) -> impl Iterator<Item = &Sent> {
        self.log.iter().filter(|sent| sent.way == Way::Out && sent.is_data())
    }

    /// When data beginning at `seq` left, each time.
    pub fn times_of(&self, seq: u64) -> Vec<Time> {
        self.data().filter(|sent| sent.segment().seq == seq).map(|sent| sent.at).collect()
    }

    /// What happened, one line per packet.
    pub fn script(&self) -> String {
        self.log
            .iter()
            .map(|sent| {
                let s = sent.segment();
                let arrow = if sent.way == Way::Out { ">" } else { "<" };
                let flag = |flag, name| if s.flags.has(flag) { name } else { "" };
                let sack: String = s
                    .sack_blocks()
                    .iter()
                    .map(|block| format!(" {}-{}", block.start, block.end))
                    .collect();
                format!(
                    "{} {arrow} {}{}{}{}({}) ack {} win {}{sack} {:?}\n",
                    sent.at,
                    flag(Flags::SYN, "S"),
                    flag(Flags::FIN, "F"),
                    flag(Flags::RST, "R"),
                    s.seq,
                    s.len,
                    s.ack,
                    s.window,
                    sent.fate
                )
            })
            .collect()
    }
}

fn insert(wire: &mut VecDeque<(Time, Transmit)>, at: Time, transmit: Transmit) {
    let behind = wire.iter().rev().take_while(|(other, _)| *other > at).count();
    wire.insert(wire.len() - behind, (at, transmit));
}
