//! Whose acknowledgements the split end is waiting for, and when it asks the kernel for them.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use crate::flow::Flow;
use weir_aggregate::frame::Uid;

/// Between two rounds: the shortest pause, and the longest, where servers acknowledge nothing.
const PAUSES: (Duration, Duration) = (Duration::from_millis(1), Duration::from_millis(4));
/// Flows that are asked for in a round.
const FLOWS: usize = 256;
/// It is also time where so much was handed to servers since the last round, in bytes, for each
/// flow that is asked for: a client may send only so much unacknowledged, and a pause is long where
/// much flows.
const MUCH: u64 = 256 << 10;

/// The flows of which something is not acknowledged, in the order in which they are asked for.
pub(crate) struct Telling {
    watched: VecDeque<Uid>,
    looked: Instant,
    pause: Duration,
    /// What the pause was when the round began.
    before: Duration,
    /// What was handed to servers since the last round, in bytes.
    handed_on: u64,
}

impl Default for Telling {
    fn default() -> Self {
        let (watched, looked) = (VecDeque::new(), Instant::now());
        Self { watched, looked, pause: PAUSES.0, before: PAUSES.0, handed_on: 0 }
    }
}

impl Telling {
    /// Has a flow asked for, if it has anything to wait for.
    pub(crate) fn watch(&mut self, uid: Uid, flow: &mut Flow) {
        if flow.is_owed() && !flow.is_watched {
            flow.is_watched = true;
            self.watched.push_back(uid);
            self.pause = PAUSES.0;
        }
    }

    /// So much was handed to a server.
    pub(crate) fn note(&mut self, bytes: u64) {
        self.handed_on += bytes;
    }

    /// Whether it is time to ask.
    pub(crate) fn is_due(&self, now: Instant) -> bool {
        let flows = self.watched.len().min(FLOWS) as u64;
        let is_time = now.duration_since(self.looked) >= self.pause;
        flows > 0 && (is_time || self.handed_on >= flows * MUCH)
    }

    /// How long one may wait for events, which would be so long otherwise.
    pub(crate) fn pause(&self, longest: Duration) -> Duration {
        if self.watched.is_empty() { longest } else { self.pause.min(longest) }
    }

    /// The flows that are asked for now.
    pub(crate) fn begin_round(&mut self) -> Vec<Uid> {
        self.before = self.pause;
        self.watched.drain(..self.watched.len().min(FLOWS)).collect()
    }

    /// Whether anything was new decides when to ask again.
    pub(crate) fn end_round(&mut self, is_news: bool) {
        (self.looked, self.handed_on) = (Instant::now(), 0);
        self.pause = if is_news { PAUSES.0 } else { (self.before * 2).min(PAUSES.1) };
    }
}

#[cfg(test)]
mod tests {
    use std::net::{SocketAddr, TcpStream};

    use weir_aggregate::linked_ack::Linked;

    use super::*;
    use crate::flow::Side;

    /// A flow whose server has all of it and has acknowledged nothing.
    fn owed(server: SocketAddr) -> Flow {
        let socket = TcpStream::connect(server).expect("somebody listens").into();
        let mut flow = Flow::new(socket, [server; 2], 1, Side::Server);
        flow.linked = Some(Linked::default());
        flow.incoming.hand_on(1);
        flow
    }

    #[test]
    fn one_asks_after_a_pause_or_after_much_for_each_flow() {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
        let server = listener.local_addr().expect("an address");
        let mut telling = Telling::default();
        telling.note(MUCH);
        assert!(!telling.is_due(telling.looked + PAUSES.1), "there is nobody to ask for");
        let mut flows = [owed(server), owed(server)];
        for (uid, flow) in (1..).zip(&mut flows) {
            telling.watch(uid, flow);
        }
        let now = telling.looked;
        assert!(!telling.is_due(now));
        assert!(telling.is_due(now + PAUSES.0));
        telling.note(MUCH - 1);
        assert!(!telling.is_due(now));
        telling.note(1);
        assert!(telling.is_due(now), "so much for each of two");
        assert_eq!(telling.begin_round(), [1, 2]);
        telling.end_round(true);
        flows[0].is_watched = false;
        telling.watch(1, &mut flows[0]);
        assert!(!telling.is_due(telling.looked), "it was asked");
    }
}
