//! One direction between two devices, whatever its packets pass on their way.

use std::io::IoSlice;

use nix::errno::Errno;
use weir_link::{AirStatistics, PipeCounters};
use weir_queue::{Backlog, Histogram, QueueDiscipline};
use weir_units::Time;

use crate::arena::Arena;
use crate::coalesce::Run;
use crate::frame;
use crate::offload::{Layout, Malformed, VNET_HEADER, VnetHeader};
use crate::segment::Segment;
use crate::statistics::{ClassStatistics, DirectionStatistics, Quantiles};

/// What gives packets to the emulator and takes them: a TUN device, but in tests.
pub(crate) trait Device {
    /// Whether it carries Ethernet frames.
    fn is_ethernet(&self) -> bool;

    /// Reads one packet: its virtio-net header into `vnet`, itself into `packet`. Returns the
    /// packet's length, or `None` if none waits.
    fn read(&self, vnet: &mut [u8; VNET_HEADER], packet: &mut [u8])
    -> Result<Option<usize>, Errno>;

    /// Writes one packet; `parts` begin with its virtio-net header.
    fn write(&self, parts: &[IoSlice<'_>]) -> Result<(), Errno>;
}

/// What tells the time: the kernel, but in tests.
pub(crate) trait Clock {
    fn now(&self) -> Time;
}

/// A direction's packets on their way in and out, and which of them got lost there.
#[derive(Debug)]
pub(crate) struct Way {
    run: Run,
    lateness: Histogram,
    malformed: u64,
    dropped_memory: u64,
    dropped_down: u64,
}

/// What a direction's packets have met between the devices.
pub(crate) struct Passed<'a> {
    pub(crate) counters: &'a PipeCounters,
    pub(crate) queue: &'a dyn QueueDiscipline<Segment>,
    pub(crate) backlog: Backlog,
    /// Packets that have left the queue and were not yet released.
    pub(crate) under_way: u64,
    pub(crate) air: Option<AirStatistics>,
}

impl Way {
    /// A direction whose packets leave by `sink`.
    pub(crate) fn to(sink: &impl Device) -> Self {
        Self {
            run: Run::to(sink.is_ethernet()),
            lateness: Histogram::new(),
            malformed: 0,
            dropped_memory: 0,
            dropped_down: 0,
        }
    }

    /// Reads one super-packet and gives its pieces to `arrive` with the time at which they came;
    /// false if none waits.
    pub(crate) fn receive(
        &mut self,
        source: &impl Device,
        clock: &impl Clock,
        arena: &mut Arena,
        mut arrive: impl FnMut(Segment, Time),
    ) -> bool {
        let mut vnet = [0; VNET_HEADER];
        let Some(room) = arena.room() else { return self.discard_one(source) };
        let Ok(Some(len)) = source.read(&mut vnet, room) else { return false };
        let now = clock.now();
        let framed = source.is_ethernet();
        match parse(VnetHeader::parse(&vnet), &room[..len], framed) {
            Ok(layout) => {
                let of = arena.keep(len, framed, layout);
                for index in 0..layout.segments {
                    arrive(Segment::new(of, index, &layout), now);
                }
            }
            Err(Malformed) => self.malformed += 1,
        }
        true
    }

    /// Takes one packet out of the kernel's ring with nowhere to put it.
    fn discard_one(&mut self, source: &impl Device) -> bool {
        let read = source.read(&mut [0; VNET_HEADER], &mut [0; 64]);
        let taken = matches!(read, Ok(Some(_)));
        self.dropped_memory += u64::from(taken);
        taken
    }

    /// Sends a packet that is `late` by so much. It leaves with the next [`flush`](Self::flush), so
    /// that those that follow may join it; true if those before it had to leave first.
    pub(crate) fn send(
        &mut self,
        segment: Segment,
        late: Time,
        sink: &impl Device,
        arena: &mut Arena,
    ) -> bool {
        self.lateness.record(late);
        let Err(segment) = self.run.push(arena, segment) else { return false };
        self.flush(sink, arena);
        self.run.push(arena, segment).expect("an empty run takes any packet");
        true
    }

    /// Writes all that was sent.
    pub(crate) fn flush(&mut self, sink: &impl Device, arena: &mut Arena) {
        let packets = self.run.pieces().len() as u64;
        if let Some(Err(_)) = self.run.emit(arena, |parts| sink.write(parts)) {
            self.dropped_down += packets;
        }
        self.run.clear(arena);
    }

    pub(crate) fn statistics(
        &self,
        passed: &Passed<'_>,
        dropped_by_kernel: u64,
    ) -> DirectionStatistics {
        let Passed { counters, queue, backlog, under_way, air } = *passed;
        let classes = queue.classes();
        DirectionStatistics {
            packets_in: counters.packets_in,
            bytes_in: counters.bytes_in.count(),
            packets_out: counters.packets_out,
            bytes_out: counters.bytes_out.count(),
            dropped_queue: classes.iter().map(|class| class.dropped()).sum(),
            dropped_loss: counters.lost,
            dropped_device: dropped_by_kernel,
            dropped_down: self.dropped_down,
            dropped_memory: self.dropped_memory,
            malformed: self.malformed,
            queue_packets: backlog.packets,
            queue_bytes: backlog.bytes.count(),
            delayed_packets: under_way,
            classes: classes.into_iter().map(ClassStatistics::from).collect(),
            lateness: Quantiles::from(&self.lateness),
            wlan: air,
        }
    }
}

fn parse(vnet: VnetHeader, bytes: &[u8], framed: bool) -> Result<Layout, Malformed> {
    match bytes {
        [] => Err(Malformed),
        frame if framed => frame::parse(vnet, frame),
        packet => Layout::parse(vnet, packet),
    }
}
