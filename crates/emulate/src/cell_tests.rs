//! A cell in virtual time: its frames come through when they do on the same channel simulated.

use std::cell::{Cell as Shared, RefCell};
use std::collections::VecDeque;
use std::io::IoSlice;
use std::rc::Rc;

use nix::errno::Errno;
use weir_link::{ChannelConfig, DirectionConfig, SharedMedium, Stations};
use weir_queue::{Dscp, Ecn, Packet, Random};
use weir_units::{Bytes, Time};

use crate::cell::Cell;
use crate::offload::{VNET_HEADER, VnetHeader};
use crate::way::{Clock, Device};

const SEED: u64 = 7;
const MTU: Bytes = Bytes::new(1_500);
const STATIONS: usize = 3;
const PORTS: usize = 2 * STATIONS;
/// Payload of the pieces of a super-packet, and a piece with its headers.
const PIECE: u64 = 1_000;
const PIECE_SIZE: u64 = PIECE + 40;

/// What comes to a port: so many packets of a size, together.
#[derive(Clone, Copy, Debug)]
struct Arrival {
    at: Time,
    port: usize,
    count: u64,
    size: u64,
}

/// What came through: when, by which port, how long.
type Frames = Vec<(Time, usize, u64)>;

struct Plain(u64);

impl Packet for Plain {
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

#[derive(Clone)]
struct Hand(Rc<Shared<Time>>);

impl Clock for Hand {
    fn now(&self) -> Time {
        self.0.get()
    }
}

/// A kernel's device without the kernel.
struct Fake {
    clock: Hand,
    incoming: RefCell<VecDeque<(VnetHeader, Vec<u8>)>>,
    outgoing: RefCell<Vec<(Time, u64)>>,
}

impl Device for &Fake {
    fn is_ethernet(&self) -> bool {
        false
    }

    fn read(
        &self,
        vnet: &mut [u8; VNET_HEADER],
        packet: &mut [u8],
    ) -> Result<Option<usize>, Errno> {
        let Some((header, bytes)) = self.incoming.borrow_mut().pop_front() else { return Ok(None) };
        *vnet = header.emit();
        packet[..bytes.len()].copy_from_slice(&bytes);
        Ok(Some(bytes.len()))
    }

    fn write(&self, parts: &[IoSlice<'_>]) -> Result<(), Errno> {
        let len: usize = parts.iter().map(|part| part.len()).sum();
        let frame = (self.clock.now(), (len - VNET_HEADER) as u64);
        self.outgoing.borrow_mut().push(frame);
        Ok(())
    }
}

/// As a kernel hands it over: UDP alone, TCP as one super-packet.
fn handed_over(arrival: &Arrival) -> (VnetHeader, Vec<u8>) {
    let is_super = arrival.count > 1;
    let len = if is_super { 40 + arrival.count * PIECE } else { arrival.size };
    let mut bytes = vec![0; len as usize];
    bytes[..4].copy_from_slice(&[0x45, 0, (len >> 8) as u8, len as u8]);
    bytes[8..20].copy_from_slice(&[64, 17, 0, 0, 10, 77, 0, 1, 10, 77, 0, 2]);
    if !is_super {
        return (VnetHeader::default(), bytes);
    }
    (bytes[9], bytes[32], bytes[33]) = (6, 5 << 4, 0x10);
    let vnet = VnetHeader {
        flags: 1,
        gso_type: 1,
        header_len: 40,
        gso_size: PIECE as u16,
        csum_start: 20,
        csum_offset: 16,
    };
    (vnet, bytes)
}

/// Stations that send to an access point and it to them: the last with losses, the first over a
/// queue that drops by itself; all of them short.
fn stations<P: Packet + Send + 'static>() -> Stations<P> {
    let channel = r#"{"standard": "802.11b", "retry_limit": 3, "airtime_fairness": true}"#;
    let config: ChannelConfig = serde_json::from_str(channel).expect("a channel");
    let mut stations = Stations::new("air", &config, SEED).expect("it can be");
    let short = r#""queue": {"discipline": "fifo", "limit": {"packets": 6}}"#;
    let ways = [
        r#"{"rate_bps": 11000000, "queue": {"discipline": "codel"}}"#.to_owned(),
        format!(r#"{{"rate_bps": 1000000, {short}}}"#),
        format!(
            r#"{{"rate_bps": 5500000, {short},
                 "loss": {{"model": "bernoulli", "probability": 0.3}}}}"#
        ),
    ];
    for (number, way) in ways.iter().enumerate() {
        let config: DirectionConfig = serde_json::from_str(way).expect("a direction");
        let (link, own) = (format!("link{number}"), format!("station{number}"));
        for (from, name) in [(own.as_str(), "forward"), ("ap", "backward")] {
            stations.add(from, (&link, name), &config, MTU).expect("it can be");
        }
    }
    stations
}

/// More than the channel carries for a second, and less for two.
fn arrivals() -> Vec<Arrival> {
    let mut random = Random::of_source(SEED, &["arrivals"]);
    let mut at = Time::ZERO;
    let mut next = || {
        let most_us = if at < Time::from_ms(1_000) { 1_500 } else { 20_000 };
        at += Time::from_us(1 + random.up_to(most_us));
        let port = random.up_to(PORTS as u64 - 1) as usize;
        let count = if random.chance(0.2) { 2 + random.up_to(6) } else { 1 };
        let size = if count > 1 { PIECE_SIZE } else { 40 + random.up_to(1_400) };
        Arrival { at, port, count, size }
    };
    std::iter::from_fn(|| Some(next())).take_while(|one| one.at < Time::from_ms(3_000)).collect()
}

/// As the packet simulator runs a channel.
fn simulated(arrivals: &[Arrival]) -> Frames {
    let mut channel = stations::<Plain>().into_channel();
    let mut frames = Vec::new();
    let mut waiting = arrivals.iter().peekable();
    loop {
        let arrives = waiting.peek().map(|arrival| arrival.at);
        let Some(now) = channel.next_wake().into_iter().chain(arrives).min() else { return frames };
        channel.advance(now);
        while let Some(arrival) = waiting.next_if(|arrival| arrival.at == now) {
            (0..arrival.count).for_each(|_| channel.arrive(arrival.port, Plain(arrival.size), now));
        }
        while let Some((port, packet)) = channel.release(now) {
            frames.push((now, port, packet.0));
        }
        while channel.discarded().is_some() {}
    }
}

/// As the emulator runs it, in a thread that wakes up to `late` too late where no packet wakes it.
fn emulated(arrivals: &[Arrival], late: Time) -> Frames {
    let clock = Hand(Rc::new(Shared::new(Time::ZERO)));
    let fake = |_| Fake {
        clock: clock.clone(),
        incoming: RefCell::default(),
        outgoing: RefCell::default(),
    };
    let fakes: Vec<Fake> = (0..PORTS).map(fake).collect();
    let names = (0..STATIONS).map(|number| format!("link{number}")).collect();
    let channel = stations().into_channel();
    let mut cell = Cell::new(names, fakes.iter().collect(), channel, clock.clone());
    let mut random = Random::of_source(SEED, &["oversleep"]);
    let mut waiting = arrivals.iter().peekable();
    loop {
        let arrives = waiting.peek().map(|arrival| arrival.at);
        let wakes = cell.next_arrival().map(|due| due + Time::from_ns(random.up_to(late.as_ns())));
        let Some(now) = wakes.into_iter().chain(arrives).min() else { break };
        clock.0.set(now.max(clock.now()));
        while let Some(arrival) = waiting.next_if(|arrival| arrival.at == now) {
            fakes[arrival.port].incoming.borrow_mut().push_back(handed_over(arrival));
        }
        cell.turn();
    }
    let mut frames: Frames = Vec::new();
    for (device, fake) in fakes.iter().enumerate() {
        frames.extend(fake.outgoing.borrow().iter().map(|&(at, size)| (at, device ^ 1, size)));
    }
    frames.sort();
    frames
}

fn of_port(frames: &Frames, port: usize) -> Frames {
    frames.iter().copied().filter(|frame| frame.1 == port).collect()
}

#[test]
fn frames_come_through_at_the_instants_at_which_they_do_when_simulated() {
    let arrivals = arrivals();
    let mut expected = simulated(&arrivals);
    expected.sort();
    let offered: u64 = arrivals.iter().map(|arrival| arrival.count).sum();
    let carried = expected.len() as u64;
    assert!(carried > 300 && carried < offered - 100, "{carried} of {offered}");
    assert_eq!(emulated(&arrivals, Time::ZERO), expected);
}

#[test]
fn a_thread_that_oversleeps_is_late_with_a_frame_and_changes_nothing_else() {
    let arrivals = arrivals();
    let late = Time::from_us(700);
    let (expected, found) = (simulated(&arrivals), emulated(&arrivals, late));
    for port in 0..PORTS {
        let (expected, found) = (of_port(&expected, port), of_port(&found, port));
        assert_eq!(found.len(), expected.len());
        for (frame, due) in found.iter().zip(&expected) {
            assert_eq!(frame.2, due.2);
            assert!(frame.0 >= due.0 && frame.0 <= due.0 + late, "{frame:?}, due {due:?}");
        }
    }
}
