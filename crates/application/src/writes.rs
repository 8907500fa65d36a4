//! Writes listed beforehand: what a game server sends to one player (004-spec section 6.1), or any
//! stream that was recorded. The player opens the connection; it stays open.

use weir_units::Time;

use crate::sockets::{Sockets, peer_of};

/// One connection whose accepting side writes what a list says.
#[derive(Debug)]
pub struct Writes {
    /// When, counted from the start, and how many bytes; in order.
    listed: Vec<(Time, u64)>,
    next: usize,
    start: Time,
    client: u32,
}

impl Writes {
    pub(crate) const fn new(listed: Vec<(Time, u64)>) -> Self {
        Self { listed, next: 0, start: Time::ZERO, client: 0 }
    }

    pub(crate) fn start(&mut self, sockets: &mut impl Sockets) {
        self.start = sockets.now();
        self.client = sockets.open();
    }

    pub(crate) fn next_timer(&self) -> Option<Time> {
        self.listed.get(self.next).map(|(at, _)| self.start.saturating_add(*at))
    }

    pub(crate) fn on_timer(&mut self, sockets: &mut impl Sockets) {
        while self.next_timer().is_some_and(|due| due <= sockets.now()) {
            // What a full buffer does not take is not sent later: nobody waits for it any more.
            sockets.write(peer_of(self.client), self.listed[self.next].1);
            self.next += 1;
        }
    }

    pub(crate) fn on_progress(&mut self, endpoint: u32, sockets: &mut impl Sockets) {
        if endpoint == self.client {
            sockets.read(endpoint);
        }
    }

    pub(crate) fn stop(&mut self) {
        self.next = self.listed.len();
    }
}
