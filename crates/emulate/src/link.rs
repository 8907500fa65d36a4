//! One wired link: two devices, and a pipe for each direction.

use weir_units::Time;

use crate::Pipe;
use crate::arena::Arena;
use crate::config::DirectionConfig;
use crate::segment::Segment;
use crate::statistics::DirectionStatistics;
use crate::thread::{Carrier, Counts, Kernel};
use crate::tun::Tun;
use crate::way::{Clock, Passed, Way};

/// Super-packets read from one device before the other side and the releases have their turn.
pub(crate) const READ_BATCH: usize = 16;
/// Packets under way on what one thread carries, in bytes: 1 s at 8 Gbit/s.
pub(crate) const MAX_MEMORY: usize = 1 << 30;
/// Least time between two wake-ups whose only purpose is to release packets of one direction. A
/// dense flow leaves in batches this far apart, each packet late by half of it in the mean; a
/// packet that comes alone is released on time.
const RELEASE_SPACING: Time = Time::from_us(100);
/// Only directions that have been quiet for this long get a head start: it is spent spinning.
const QUIET: Time = Time::from_ms(1);

/// A wired link.
pub(crate) struct Link {
    name: String,
    /// Ends a and b.
    tuns: [Tun; 2],
    /// Forward reads from a and writes to b; backward the other way.
    directions: [Direction; 2],
    arena: Arena,
    /// Whether the cable is whole.
    carrier: bool,
}

struct Direction {
    pipe: Pipe<Segment>,
    way: Way,
    last_release: Time,
}

impl Direction {
    /// A direction whose packets leave by `sink`.
    fn new(config: DirectionConfig, sink: &Tun) -> Self {
        Self { pipe: config.into_pipe(), way: Way::to(sink), last_release: Time::ZERO }
    }

    /// Reads one super-packet and sends its pieces on their way; false if none waits.
    fn receive(&mut self, tun: &Tun, arena: &mut Arena) -> bool {
        let pipe = &mut self.pipe;
        let received =
            self.way.receive(tun, &Kernel, arena, |segment, now| pipe.arrive(segment, now));
        self.pipe.discarded().for_each(|segment| arena.release(segment.of));
        received
    }

    /// Releases all that is due to `tun`; true if anything was.
    fn release(&mut self, tun: &Tun, arena: &mut Arena) -> bool {
        let mut now = Kernel.now();
        self.pipe.advance(now);
        self.pipe.discarded().for_each(|segment| arena.release(segment.of));
        let mut any = false;
        while let Some((due, segment)) = self.pipe.release(now) {
            any = true;
            if self.way.send(segment, now - due, tun, arena) {
                now = Kernel.now();
            }
        }
        if any {
            self.way.flush(tun, arena);
            self.last_release = Kernel.now();
        }
        any
    }

    /// When to wake for this direction, and whether it has been quiet.
    fn next_wake(&self, now: Time) -> Option<(Time, bool)> {
        let wake = self.pipe.next_wake()?.max(self.last_release + RELEASE_SPACING);
        Some((wake, now > self.last_release + QUIET))
    }

    fn statistics(&self, dropped_by_kernel: u64) -> DirectionStatistics {
        let passed = Passed {
            counters: self.pipe.counters(),
            queue: self.pipe.queue(),
            backlog: self.pipe.backlog(),
            under_way: self.pipe.delayed(),
            air: None,
        };
        self.way.statistics(&passed, dropped_by_kernel)
    }
}

impl Link {
    pub(crate) fn new(name: String, tuns: [Tun; 2], directions: [DirectionConfig; 2]) -> Self {
        let [forward, backward] = directions;
        Self {
            name,
            directions: [Direction::new(forward, &tuns[1]), Direction::new(backward, &tuns[0])],
            tuns,
            arena: Arena::new(MAX_MEMORY),
            carrier: true,
        }
    }
}

impl Carrier for Link {
    fn devices(&self) -> &[Tun] {
        &self.tuns
    }

    fn carry(&mut self) -> bool {
        let mut worked = false;
        for (from, direction) in self.directions.iter_mut().enumerate() {
            let (source, sink) = (&self.tuns[from], &self.tuns[1 - from]);
            for _ in 0..READ_BATCH {
                if !direction.receive(source, &mut self.arena) {
                    break;
                }
                worked = true;
            }
            worked |= direction.release(sink, &mut self.arena);
        }
        worked
    }

    fn next_wake(&self, now: Time) -> Option<(Time, bool)> {
        self.directions.iter().filter_map(|direction| direction.next_wake(now)).min()
    }

    fn set_carrier(&mut self, _link: &str, carrier: bool) -> std::io::Result<()> {
        self.carrier = carrier;
        self.tuns.iter_mut().try_for_each(|tun| tun.set_carrier(carrier))
    }

    fn counts(&mut self, _now: Time) -> Vec<Counts> {
        let dropped = self.tuns.each_mut().map(Tun::dropped);
        let [forward, backward] = &self.directions;
        let directions = [forward.statistics(dropped[0]), backward.statistics(dropped[1])];
        vec![Counts { name: self.name.clone(), carrier: self.carrier, directions }]
    }

    fn is_memory_locked(&self) -> bool {
        self.arena.is_locked()
    }
}
