//! What an emulator reports, as it goes out in JSON. Counts are since the start; every time is in
//! nanoseconds.

use serde::Serialize;
use weir_link::AirStatistics;
use weir_queue::{ClassCounters, Histogram};

/// All links, and whether the emulator kept up.
#[derive(Clone, Debug, Serialize)]
pub struct Statistics {
    /// One entry per link, in the order of the configuration.
    pub links: Vec<LinkStatistics>,
    /// The worst over all links.
    pub headroom: Headroom,
}

/// One link.
#[derive(Clone, Debug, Serialize)]
pub struct LinkStatistics {
    /// The link's name.
    pub name: String,
    /// Whether the cable is whole.
    pub carrier: bool,
    /// From end a to end b.
    pub forward: DirectionStatistics,
    /// From end b to end a.
    pub backward: DirectionStatistics,
    /// This link's thread, which is that of all links of its channel if it is wireless.
    pub headroom: Headroom,
}

/// One direction of a link. Always `packets_in` = `packets_out` + `dropped_queue` + `dropped_loss`
/// + `queue_packets` + `delayed_packets`.
#[derive(Clone, Debug, Serialize)]
pub struct DirectionStatistics {
    /// Packets that entered the link.
    pub packets_in: u64,
    /// Bytes that entered the link, IP headers included.
    pub bytes_in: u64,
    /// Packets that left it.
    pub packets_out: u64,
    /// Bytes that left it.
    pub bytes_out: u64,
    /// Packets that the queue discipline dropped.
    pub dropped_queue: u64,
    /// Packets that the loss model took.
    pub dropped_loss: u64,
    /// Packets that the kernel dropped before the link because the emulator did not read them in
    /// time. Zero unless the emulator is the bottleneck.
    pub dropped_device: u64,
    /// Packets that left the link and found the far device down; they count as out.
    pub dropped_down: u64,
    /// Super-packets dropped on the way in because the emulator's memory was full.
    pub dropped_memory: u64,
    /// Packets that made no sense and were dropped on the way in.
    pub malformed: u64,
    /// Packets waiting.
    pub queue_packets: u64,
    /// Bytes waiting.
    pub queue_bytes: u64,
    /// Packets on the line: sent, not yet arrived.
    pub delayed_packets: u64,
    /// The queue, class by class.
    pub classes: Vec<ClassStatistics>,
    /// How much later than due packets were released.
    pub lateness: Quantiles,
    /// What its frames have met, if the link is wireless. `dropped_loss` then counts the packets
    /// that were given up, and `delayed_packets` has the one that is contended for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub wlan: Option<AirStatistics>,
}

/// One class of a queue discipline.
#[derive(Clone, Debug, Serialize)]
pub struct ClassStatistics {
    /// "all", "high", "low", "l4s", "classic".
    pub name: String,
    /// Packets offered.
    pub packets_in: u64,
    /// Bytes offered.
    pub bytes_in: u64,
    /// Packets sent.
    pub packets_out: u64,
    /// Bytes sent.
    pub bytes_out: u64,
    /// Packets dropped because the buffer was full.
    pub dropped_overflow: u64,
    /// Packets dropped to signal congestion.
    pub dropped_aqm: u64,
    /// Packets dropped because they were more than a traffic contract allows.
    pub dropped_policed: u64,
    /// Packets dropped, though ECN-capable, because marks no longer held the queue.
    pub dropped_overload: u64,
    /// Packets marked with congestion experienced.
    pub marked: u64,
    /// Packets waiting.
    pub queue_packets: u64,
    /// Bytes waiting.
    pub queue_bytes: u64,
    /// How long packets waited, the emulator's own lateness not included.
    pub sojourn: Quantiles,
    /// The same in buckets of at most 1/16 relative width: the bucket's end in ns, and how many.
    pub sojourn_histogram: Vec<(u64, u64)>,
}

/// A distribution of times; zeros if nothing was counted.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct Quantiles {
    /// Median, to 1/16.
    pub p50_ns: u64,
    /// 99th percentile, to 1/16.
    pub p99_ns: u64,
    /// Largest, exactly.
    pub max_ns: u64,
}

/// Whether the emulator kept up with what it emulates.
#[derive(Clone, Copy, Debug, Default, Serialize)]
pub struct Headroom {
    /// Share of one core that the thread took in the last whole second, 0 to 1.
    pub busy: f64,
    /// The largest such share.
    pub busy_peak: f64,
    /// 99th percentile of lateness.
    pub lateness_p99_ns: u64,
    /// The emulator, not the scenario, limits what is measured.
    pub bottleneck: bool,
    /// The thread preempts ordinary ones (SCHED_FIFO); otherwise a loaded machine delays it.
    pub realtime: bool,
    /// Packet memory cannot be paged out.
    pub memory_locked: bool,
    /// No processor sleeps while packets flow; otherwise it wakes late.
    pub awake: bool,
}

impl Headroom {
    /// The worse of two in every respect.
    pub(crate) fn worse(self, other: Self) -> Self {
        Self {
            busy: self.busy.max(other.busy),
            busy_peak: self.busy_peak.max(other.busy_peak),
            lateness_p99_ns: self.lateness_p99_ns.max(other.lateness_p99_ns),
            bottleneck: self.bottleneck || other.bottleneck,
            realtime: self.realtime && other.realtime,
            memory_locked: self.memory_locked && other.memory_locked,
            awake: self.awake && other.awake,
        }
    }
}

impl From<&Histogram> for Quantiles {
    fn from(histogram: &Histogram) -> Self {
        Self {
            p50_ns: histogram.quantile(0.5).as_ns(),
            p99_ns: histogram.quantile(0.99).as_ns(),
            max_ns: histogram.max().as_ns(),
        }
    }
}

impl From<&ClassCounters> for ClassStatistics {
    fn from(counters: &ClassCounters) -> Self {
        Self {
            name: counters.name.to_string(),
            packets_in: counters.packets_in,
            bytes_in: counters.bytes_in.count(),
            packets_out: counters.packets_out,
            bytes_out: counters.bytes_out.count(),
            dropped_overflow: counters.dropped_overflow,
            dropped_aqm: counters.dropped_aqm,
            dropped_policed: counters.dropped_policed,
            dropped_overload: counters.dropped_overload,
            marked: counters.marked,
            queue_packets: counters.backlog.packets,
            queue_bytes: counters.backlog.bytes.count(),
            sojourn: (&counters.sojourn).into(),
            sojourn_histogram: counters
                .sojourn
                .buckets()
                .map(|(end, n)| (end.as_ns(), n))
                .collect(),
        }
    }
}
