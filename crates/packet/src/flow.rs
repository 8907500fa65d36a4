//! A traffic of the configuration while it runs: who sends to whom, and what arrived.

use weir_application::{Application, Bulk, DatagramSource};
use weir_queue::{Dscp, Ecn, Histogram};
use weir_tcp::udt::Udt;
use weir_units::Time;

use crate::counts::Counts;
use crate::echo::Echoes;
use crate::endpoint::Setup;
use crate::relay::Relay;

/// What generates the packets of a traffic.
pub(crate) enum Generator {
    Datagrams(DatagramSource),
    Udt(Box<Udt>),
    Connections(Application),
    Relay(Box<Relay>),
}

impl Generator {
    /// The application over TCP; `None` over UDP.
    pub(crate) fn application(&self) -> Option<&Application> {
        match self {
            Self::Datagrams(_) | Self::Udt(_) | Self::Relay(_) => None,
            Self::Connections(application) => Some(application),
        }
    }

    /// The relay, if it is one.
    pub(crate) fn relay(&self) -> Option<&Relay> {
        match self {
            Self::Relay(relay) => Some(relay),
            _ => None,
        }
    }

    /// The greedy transfers, if it is those.
    pub(crate) fn bulk(&self) -> Option<&Bulk> {
        match self.application()? {
            Application::Bulk(bulk) => Some(bulk),
            _ => None,
        }
    }

    /// The sending sides of greedy transfers, or of a relay's aggregate.
    pub(crate) fn senders(&self) -> impl Iterator<Item = u32> + '_ {
        let of_bulk = self.bulk().into_iter().flat_map(Bulk::senders);
        of_bulk.chain(self.relay().and_then(Relay::sender))
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
    /// The ECN field of its datagrams.
    pub(crate) ecn: Ecn,
    pub(crate) hash: u32,
    pub(crate) generator: Generator,
    /// Settings of its connections; `None` for UDP.
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
