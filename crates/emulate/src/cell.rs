//! A wireless cell: every link of a channel, and the channel that their frames contend for.

use weir_link::{Channel, SharedMedium};
use weir_units::Time;

use crate::arena::Arena;
use crate::link::{MAX_MEMORY, READ_BATCH};
use crate::segment::Segment;
use crate::thread::{Carrier, Counts, Kernel};
use crate::tun::Tun;
use crate::way::{Clock, Device, Passed, Way};

/// The links of one channel.
///
/// Port 2n of the channel is link n's forward direction, 2n + 1 its backward one; what enters by a
/// port comes from the device of that number and leaves by its neighbour's.
pub(crate) struct Cell<D, C> {
    links: Vec<(String, bool)>,
    devices: Vec<D>,
    ways: Vec<Way>,
    channel: Channel<Segment>,
    arena: Arena,
    clock: C,
    begun: Time,
}

impl<D: Device, C: Clock> Cell<D, C> {
    /// Links by their names over `channel`; `devices` are their ends a and b, link by link.
    pub(crate) fn new(
        links: Vec<String>,
        devices: Vec<D>,
        channel: Channel<Segment>,
        clock: C,
    ) -> Self {
        let ways = (0..devices.len()).map(|port| Way::to(&devices[port ^ 1])).collect();
        Self {
            links: links.into_iter().map(|name| (name, true)).collect(),
            devices,
            ways,
            channel,
            arena: Arena::new(MAX_MEMORY),
            begun: clock.now(),
            clock,
        }
    }

    /// One turn of reading and releasing; true if there was anything to do.
    pub(crate) fn turn(&mut self) -> bool {
        let mut worked = false;
        let Self { channel, devices, ways, arena, clock, .. } = self;
        for (port, (device, way)) in devices.iter().zip(ways).enumerate() {
            for _ in 0..READ_BATCH {
                let arrive = |segment, now| channel.arrive(port, segment, now);
                if !way.receive(device, clock, arena, arrive) {
                    break;
                }
                worked = true;
            }
        }
        self.release() || worked
    }

    /// Releases all that has come through; true if anything has.
    fn release(&mut self) -> bool {
        let now = self.clock.now();
        self.channel.advance(now);
        while let Some(segment) = self.channel.discarded() {
            self.arena.release(segment.of);
        }
        let mut any = false;
        while let Some((due, port, segment)) = self.channel.take_arrived(now) {
            any = true;
            // One by one, as frames come: nothing on a station would join them.
            let (way, sink) = (&mut self.ways[port], &self.devices[port ^ 1]);
            way.send(segment, now - due, sink, &mut self.arena);
            way.flush(sink, &mut self.arena);
        }
        any
    }

    /// When the next frame may come through.
    pub(crate) fn next_arrival(&self) -> Option<Time> {
        self.channel.next_arrival()
    }
}

impl Carrier for Cell<Tun, Kernel> {
    fn devices(&self) -> &[Tun] {
        &self.devices
    }

    fn carry(&mut self) -> bool {
        self.turn()
    }

    /// Always on time: what a frame brings about contends for the channel by when it comes, and an
    /// answer that is late by an interframe space finds the channel idle.
    fn next_wake(&self, _now: Time) -> Option<(Time, bool)> {
        Some((self.next_arrival()?, true))
    }

    fn set_carrier(&mut self, link: &str, carrier: bool) -> std::io::Result<()> {
        for (index, (name, has_carrier)) in self.links.iter_mut().enumerate() {
            if name == link {
                *has_carrier = carrier;
                let ends = &mut self.devices[2 * index..2 * index + 2];
                ends.iter_mut().try_for_each(|end| end.set_carrier(carrier))?;
                if !carrier {
                    let now = self.clock.now();
                    self.channel.forget(2 * index, now);
                    self.channel.forget(2 * index + 1, now);
                }
            }
        }
        Ok(())
    }

    fn counts(&mut self, now: Time) -> Vec<Counts> {
        let dropped: Vec<u64> = self.devices.iter_mut().map(Tun::dropped).collect();
        let direction = |port: usize| {
            let air = self.channel.air(port).told((now - self.begun).as_s());
            let passed = Passed {
                counters: self.channel.counters(port),
                queue: self.channel.queue(port),
                backlog: self.channel.backlog(port),
                under_way: self.channel.under_way(port),
                air: Some(air),
            };
            self.ways[port].statistics(&passed, dropped[port])
        };
        let count = |(index, (name, carrier)): (usize, &(String, bool))| Counts {
            name: name.clone(),
            carrier: *carrier,
            directions: [direction(2 * index), direction(2 * index + 1)],
        };
        self.links.iter().enumerate().map(count).collect()
    }

    fn is_memory_locked(&self) -> bool {
        self.arena.is_locked()
    }
}
