//! One flow of a relay: a client's connection at the join end, one to its server at the split end.

use weir_aggregate::window::{Incoming, Outgoing};
use weir_tcp::{End, Segment, State};

use super::clamp::Clamp;
use super::linked::HeldPackets;
use crate::endpoint::Endpoints;

/// What a connection holds unsent at most, as the relay has the kernel's do (`weir-relay`).
pub(crate) const UNSENT_MAX: u64 = 128 << 10;

#[derive(Debug)]
pub(crate) struct Carried {
    /// The join end's side of the client's connection, and the split end's of the server's.
    pub(crate) near: u32,
    pub(crate) far: u32,
    /// The frame that ends it was put into the aggregate, or the client has broken it.
    pub(crate) is_sent: bool,
    /// The client has broken it.
    pub(crate) is_gone: bool,
    pub(crate) outgoing: Outgoing,
    /// The client's acknowledgements, if they are held, and what may go of them, in bytes.
    pub(crate) held: HeldPackets,
    pub(crate) credit: u64,
    /// What sets them back instead, flow by flow, and how far the split end has told that the
    /// server has acknowledged it: its end counts as one more.
    pub(crate) clamp: Option<Clamp>,
    told: u64,
    /// Data that arrived at the split end, those that its connection has not taken, and those that
    /// the server has acknowledged.
    pub(crate) arrived: u64,
    pub(crate) waiting: u64,
    pub(crate) acknowledged: u64,
    pub(crate) incoming: Incoming,
    /// Nothing follows what has arrived.
    pub(crate) has_end: bool,
    /// It is over before its time.
    pub(crate) is_broken: bool,
}

impl Carried {
    pub(crate) fn new(near: u32, far: u32, is_clamped: bool) -> Self {
        Self {
            near,
            far,
            is_sent: false,
            is_gone: false,
            outgoing: Outgoing::default(),
            held: HeldPackets::default(),
            credit: 0,
            clamp: is_clamped.then(Clamp::default),
            told: 0,
            arrived: 0,
            waiting: 0,
            acknowledged: 0,
            incoming: Incoming::default(),
            has_end: false,
            is_broken: false,
        }
    }

    /// Writes what waits, as far as its connection to the server takes it, and then the end.
    pub(crate) fn flush(&mut self, endpoints: &mut Endpoints) {
        endpoints.touched.push(self.far);
        let far = endpoints.connection(self.far);
        let room = UNSENT_MAX.saturating_sub(far.unsent());
        let taken = far.write(self.waiting.min(room));
        self.waiting -= taken;
        self.incoming.hand_on(taken);
        if self.has_end && self.waiting == 0 {
            far.close();
        }
    }

    /// What the split end has to tell of the server's acknowledgements, if anybody asks.
    pub(crate) fn news(&mut self, endpoints: &Endpoints) -> Option<u64> {
        let until = self.at_server(endpoints) + u64::from(self.is_delivered(endpoints));
        let is_news = self.clamp.is_some() && until > self.told;
        self.told = self.told.max(until);
        is_news.then_some(until)
    }

    /// The join end is told so; what it then says to the client by itself.
    pub(crate) fn released(&mut self, until: u64) -> Option<Segment> {
        let sent = self.outgoing.sent() + u64::from(self.is_sent);
        self.clamp.as_mut().filter(|_| !self.is_gone)?.release(until, sent)
    }

    /// Acknowledgements of the client's that are held.
    pub(crate) fn held_acks(&self) -> usize {
        let is_set_back = self.clamp.as_ref().is_some_and(|clamp| clamp.is_held() && !self.is_gone);
        self.held.len() + usize::from(is_set_back)
    }

    /// Whether none is, and no credit is left.
    pub(crate) fn is_at_rest(&self) -> bool {
        self.held_acks() == 0 && self.credit == 0
    }

    /// Data that the server has acknowledged by now, as the split end knows.
    pub(crate) fn at_server(&self, endpoints: &Endpoints) -> u64 {
        endpoints.all[self.far as usize].connection.acked()
    }

    /// Whether the server has acknowledged that there is nothing more.
    pub(crate) fn is_delivered(&self, endpoints: &Endpoints) -> bool {
        let far = &endpoints.all[self.far as usize].connection;
        match far.state() {
            State::FinWait2 | State::TimeWait => true,
            State::Closed => far.end() == Some(End::Finished) || self.is_broken,
            _ => false,
        }
    }
}
