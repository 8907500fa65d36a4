//! A traffic of the configuration while it runs: who sends to whom, and what arrived.

use weir_application::{Application, Bulk};
use weir_queue::{Dscp, Ecn, Histogram};
use weir_units::Time;

use crate::echo::Echoes;
use crate::endpoint::Setup;
use crate::source::Source;
use crate::udt::Udt;

/// What generates the packets of a traffic.
pub(crate) enum Generator {
    Datagrams(Source),
    Udt(Box<Udt>),
    Connections(Application),
}

impl Generator {
    /// The application over TCP; `None` over UDP.
    pub(crate) fn application(&self) -> Option<&Application> {
        match self {
            Self::Datagrams(_) | Self::Udt(_) => None,
            Self::Connections(application) => Some(application),
        }
    }

    /// The greedy transfers, if it is those.
    pub(crate) fn bulk(&self) -> Option<&Bulk> {
        match self.application()? {
            Application::Bulk(bulk) => Some(bulk),
            _ => None,
        }
    }

    /// When the application wants to act next.
    pub(crate) fn next_timer(&self) -> Option<Time> {
        self.application()?.next_timer()
    }
}

/// One traffic of the configuration.
pub(crate) struct Flow {
    pub(crate) name: String,
    pub(crate) kind: &'static str,
    pub(crate) from: usize,
    pub(crate) to: usize,
    pub(crate) start: Time,
    /// Exclusive; [`Time::MAX`] for never.
    pub(crate) stop: Time,
    pub(crate) dscp: Dscp,
    /// Of its datagrams.
    pub(crate) ecn: Ecn,
    pub(crate) hash: u32,
    pub(crate) generator: Generator,
    /// Of its connections; `None` for UDP.
    pub(crate) setup: Option<Setup>,
    pub(crate) is_started: bool,
    pub(crate) is_stopped: bool,
    /// Round-trip times of its bulk senders, as looks found them.
    pub(crate) rtt: Option<Box<Histogram>>,
    /// Bytes acknowledged to each of them when measuring began.
    pub(crate) acked_before: Vec<u64>,
    /// The datagram that leaves at the flow's next event.
    pub(crate) next_size: u16,
    pub(crate) counts: Counts,
    /// What `counts` were when measuring began.
    pub(crate) before: Counts,
    /// One-way delay of datagrams, from send to arrival.
    pub(crate) delay: Option<Box<Histogram>>,
    /// What came back, if its datagrams are echo requests.
    pub(crate) echoes: Option<Box<Echoes>>,
}

/// Packets and bytes of a flow, IP headers included.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Counts {
    pub(crate) sent_packets: u64,
    pub(crate) sent_bytes: u64,
    pub(crate) received_packets: u64,
    pub(crate) received_bytes: u64,
    /// Arrived with congestion experienced.
    pub(crate) marked_packets: u64,
    /// Application bytes that arrived, in order where that means something.
    pub(crate) delivered_bytes: u64,
}

impl Counts {
    pub(crate) fn on_departure(&mut self, size: u16) {
        self.sent_packets += 1;
        self.sent_bytes += u64::from(size);
    }

    pub(crate) fn on_arrival(&mut self, size: u16, marked: u64) {
        self.received_packets += 1;
        self.received_bytes += u64::from(size);
        self.marked_packets += marked;
    }

    /// What came since `before`.
    pub(crate) fn since(self, before: Self) -> Self {
        Self {
            sent_packets: self.sent_packets - before.sent_packets,
            sent_bytes: self.sent_bytes - before.sent_bytes,
            received_packets: self.received_packets - before.received_packets,
            received_bytes: self.received_bytes - before.received_bytes,
            marked_packets: self.marked_packets - before.marked_packets,
            delivered_bytes: self.delivered_bytes - before.delivered_bytes,
        }
    }
}
