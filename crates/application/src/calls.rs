//! Remote procedure calls as an NFS client makes them: so many calls outstanding on one
//! connection, each made as soon as an earlier one is answered.

use std::collections::VecDeque;

use weir_queue::Histogram;
use weir_units::Time;

use crate::ApplicationOutcome;
use crate::sockets::{Sockets, is_acceptor, peer_of};

/// What a call is.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Call {
    pub(crate) request: u64,
    pub(crate) reply: u64,
    /// From the request's arrival to the reply's write. The server works on all calls at once.
    pub(crate) service: Time,
}

/// Calls of one client, closed loop.
#[derive(Debug)]
pub struct Calls {
    concurrency: u32,
    call: Call,
    client: u32,
    begin: Time,
    /// When each call that has not been answered yet was made.
    under_way: VecDeque<Time>,
    /// When the replies of the requests that have arrived are due.
    due: VecDeque<Time>,
    requested_bytes: u64,
    replied_bytes: u64,
    made: u64,
    arrived: u64,
    answered: u64,
    last_answer: Time,
    is_stopped: bool,
    time: Histogram,
}

impl Calls {
    pub(crate) fn new(concurrency: u32, call: Call) -> Self {
        Self {
            concurrency,
            call,
            client: 0,
            begin: Time::ZERO,
            under_way: VecDeque::new(),
            due: VecDeque::new(),
            requested_bytes: 0,
            replied_bytes: 0,
            made: 0,
            arrived: 0,
            answered: 0,
            last_answer: Time::ZERO,
            is_stopped: false,
            time: Histogram::new(),
        }
    }

    pub(crate) fn start(&mut self, sockets: &mut impl Sockets) {
        self.client = sockets.open();
        self.begin = sockets.now();
        for _ in 0..self.concurrency {
            self.make(sockets);
        }
    }

    fn make(&mut self, sockets: &mut impl Sockets) {
        sockets.write(self.client, self.call.request);
        self.under_way.push_back(sockets.now());
        self.made += 1;
    }

    pub(crate) fn next_timer(&self) -> Option<Time> {
        self.due.front().copied()
    }

    pub(crate) fn on_timer(&mut self, sockets: &mut impl Sockets) {
        while self.due.front().is_some_and(|due| *due <= sockets.now()) {
            self.due.pop_front();
            sockets.write(peer_of(self.client), self.call.reply);
        }
    }

    pub(crate) fn on_progress(&mut self, endpoint: u32, sockets: &mut impl Sockets) {
        if is_acceptor(endpoint) {
            self.requested_bytes += sockets.take(endpoint);
            while self.requested_bytes >= (self.arrived + 1) * self.call.request {
                self.arrived += 1;
                self.due.push_back(sockets.now().saturating_add(self.call.service));
            }
            self.on_timer(sockets);
            return;
        }
        self.replied_bytes += sockets.read(endpoint);
        while self.replied_bytes >= (self.answered + 1) * self.call.reply {
            self.answered += 1;
            self.last_answer = sockets.now();
            if let Some(made) = self.under_way.pop_front() {
                self.time.record(sockets.now() - made);
            }
            if !self.is_stopped {
                self.make(sockets);
            }
        }
    }

    pub(crate) fn stop(&mut self) {
        self.is_stopped = true;
    }

    pub(crate) fn outcome(&self) -> ApplicationOutcome {
        let span_s = self.last_answer.saturating_sub(self.begin).as_s();
        let per_s = if span_s > 0.0 { self.answered as f64 / span_s } else { 0.0 };
        let time = (&self.time).into();
        ApplicationOutcome::Calls { made: self.made, answered: self.answered, per_s, time }
    }
}
