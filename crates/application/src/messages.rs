//! Messages over one connection: the ticks of a game server (004-spec section 6.2), or bursts with
//! a pause after each (section 6.8).

use std::collections::VecDeque;

use weir_queue::Histogram;
use weir_units::Time;

use crate::ApplicationOutcome;
use crate::sockets::{Sockets, peer_of};

/// When the next message is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Pause {
    /// Each message is written so long after the one before was.
    FromWrite(Time),
    /// Each message is written so long after the one before was acknowledged as a whole.
    FromEnd(Time),
}

/// Messages of one size.
#[derive(Debug)]
pub struct Messages {
    size: u64,
    pause: Pause,
    sender: u32,
    next: Option<Time>,
    written: u64,
    received_bytes: u64,
    received: u64,
    /// When each message that has not arrived yet was written.
    under_way: VecDeque<Time>,
    is_stopped: bool,
    time: Histogram,
}

impl Messages {
    pub(crate) fn new(size: u64, pause: Pause) -> Self {
        Self {
            size,
            pause,
            sender: 0,
            next: None,
            written: 0,
            received_bytes: 0,
            received: 0,
            under_way: VecDeque::new(),
            is_stopped: false,
            time: Histogram::new(),
        }
    }

    pub(crate) fn start(&mut self, sockets: &mut impl Sockets) {
        self.sender = sockets.open();
        self.next = Some(sockets.now());
    }

    pub(crate) fn next_timer(&self) -> Option<Time> {
        self.next
    }

    pub(crate) fn on_timer(&mut self, sockets: &mut impl Sockets) {
        // From when it was due: a live timer that is late once delays one message and not all.
        self.next = match self.pause {
            Pause::FromWrite(pause) => self.next.map(|due| due.saturating_add(pause)),
            Pause::FromEnd(_) => None,
        };
        // What the send buffer has no room for is not written: a game's state is out of date then.
        if sockets.writable(self.sender) >= self.size {
            sockets.write(self.sender, self.size);
            self.under_way.push_back(sockets.now());
            self.written += 1;
        }
    }

    pub(crate) fn on_progress(&mut self, endpoint: u32, sockets: &mut impl Sockets) {
        if endpoint == peer_of(self.sender) {
            self.received_bytes += sockets.read(endpoint);
            while self.received_bytes >= (self.received + 1) * self.size {
                self.received += 1;
                if let Some(written) = self.under_way.pop_front() {
                    self.time.record(sockets.now() - written);
                }
            }
        } else if let Pause::FromEnd(pause) = self.pause
            && self.next.is_none()
            && !self.is_stopped
            && sockets.acked(endpoint) >= self.written * self.size
        {
            self.next = Some(sockets.now().saturating_add(pause));
        }
    }

    pub(crate) fn stop(&mut self) {
        self.next = None;
        self.is_stopped = true;
    }

    pub(crate) fn outcome(&self) -> ApplicationOutcome {
        let time = (&self.time).into();
        ApplicationOutcome::Latency { written: self.written, received: self.received, time }
    }
}
