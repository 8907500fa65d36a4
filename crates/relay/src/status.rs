//! What a relay tells of itself.

use std::net::SocketAddr;

/// One flow; bytes are data, without headers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FlowStatus {
    /// Its number on the aggregate.
    pub uid: u16,
    /// The client.
    pub client: SocketAddr,
    /// Its weight among the others.
    pub weight: u32,
    /// What was sent into the aggregate.
    pub bytes_sent: u64,
    /// What came out of it and was handed on.
    pub bytes_received: u64,
    /// What came out of it and waits for the connection to take it.
    pub bytes_waiting: u64,
    /// What of the client's data its server's kernel has acknowledged; none where nobody asked.
    pub bytes_acknowledged: Option<u64>,
}

/// One end of an aggregate, or a proxy.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Status {
    /// Whether there is an aggregate.
    pub is_connected: bool,
    /// The flows at present.
    pub flows: Vec<FlowStatus>,
    /// Flows that have ended in order.
    pub ended: u64,
    /// Flows that were broken or refused, and of the last 32 why.
    pub broken: u64,
    /// Why they were, the newest last.
    pub reasons: Vec<String>,
    /// Data that went into the aggregate since the begin, of all flows.
    pub bytes_sent: u64,
    /// Data that came out of it.
    pub bytes_received: u64,
}

/// How many reasons are kept.
const REASONS: usize = 32;

impl Status {
    /// Counts a flow that was broken.
    pub(crate) fn note(&mut self, reason: String) {
        self.broken += 1;
        self.tell(reason);
    }

    /// Keeps a reason that is no flow's.
    pub(crate) fn tell(&mut self, reason: String) {
        if self.reasons.len() == REASONS {
            self.reasons.remove(0);
        }
        self.reasons.push(reason);
    }
}
