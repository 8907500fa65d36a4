//! Dynamic web load (004-spec section 6.5): requests arrive at random whatever becomes of the ones
//! before; each opens a connection, the server sends an object and closes.

use std::collections::BTreeMap;

use weir_queue::Histogram;
use weir_random::Random;
use weir_units::Time;

use crate::ApplicationOutcome;
use crate::draws::{TruncatedPareto, exponential};
use crate::sockets::{Sockets, peer_of};

/// What a client sends to ask for an object.
const REQUEST: u64 = 300;

/// One request under way, by the client's endpoint.
#[derive(Clone, Copy, Debug)]
struct Request {
    begun: Time,
    size: u64,
    asked: u64,
    received: u64,
}

/// A request that was answered.
#[derive(Clone, Copy, Debug)]
pub struct Done {
    /// When the client opened its connection.
    pub begun: Time,
    /// Size of the object.
    pub size_bytes: u64,
    /// Until the server's close arrived.
    pub took: Time,
}

/// Requests of a client, open loop.
#[derive(Debug)]
pub struct Web {
    interval_s: f64,
    sizes: TruncatedPareto,
    random: Random,
    next: Option<Time>,
    under_way: BTreeMap<u32, Request>,
    begun: u64,
    completed: u64,
    time: Histogram,
    /// All of them, if each is to be kept.
    done: Option<Vec<Done>>,
}

impl Web {
    pub(crate) fn new(per_s: f64, sizes: TruncatedPareto, random: Random) -> Self {
        Self {
            interval_s: 1.0 / per_s,
            sizes,
            random,
            next: None,
            under_way: BTreeMap::new(),
            begun: 0,
            completed: 0,
            time: Histogram::new(),
            done: None,
        }
    }

    /// From now on keeps each request that is answered, for [`done`](Self::done).
    pub fn keep(&mut self) {
        self.done.get_or_insert_default();
    }

    pub(crate) fn start(&mut self, sockets: &mut impl Sockets) {
        self.next = Some(sockets.now().saturating_add(self.interval()));
    }

    fn interval(&mut self) -> Time {
        Time::from_s(exponential(&mut self.random) * self.interval_s)
    }

    pub(crate) fn next_timer(&self) -> Option<Time> {
        self.next
    }

    pub(crate) fn on_timer(&mut self, sockets: &mut impl Sockets) {
        let client = sockets.open();
        let size = self.sizes.draw(&mut self.random);
        let request = Request { begun: sockets.now(), size, asked: 0, received: 0 };
        self.under_way.insert(client, request);
        self.begun += 1;
        sockets.write(client, REQUEST);
        let interval = self.interval();
        self.next = self.next.map(|due| due.saturating_add(interval));
    }

    pub(crate) fn on_progress(&mut self, endpoint: u32, sockets: &mut impl Sockets) {
        let client = endpoint & !1;
        let Some(request) = self.under_way.get_mut(&client) else {
            if sockets.is_over(client) {
                sockets.free(client);
            }
            return;
        };
        if endpoint == client {
            request.received += sockets.read(client);
            if request.received == request.size && sockets.is_at_end(client) {
                let (begun, size_bytes) = (request.begun, request.size);
                let took = sockets.now() - begun;
                self.under_way.remove(&client);
                self.completed += 1;
                self.time.record(took);
                if let Some(done) = &mut self.done {
                    done.push(Done { begun, size_bytes, took });
                }
                sockets.close(client);
            }
        } else if request.asked < REQUEST {
            // What arrives at the server is the request, not what the traffic delivers.
            request.asked += sockets.take(endpoint);
            if request.asked == REQUEST {
                let size = request.size;
                sockets.write(peer_of(client), size);
                sockets.close(peer_of(client));
            }
        }
    }

    /// The answered requests, if they were kept.
    pub fn done(&self) -> &[Done] {
        self.done.as_deref().unwrap_or_default()
    }

    pub(crate) fn stop(&mut self) {
        self.next = None;
    }

    pub(crate) fn outcome(&self) -> ApplicationOutcome {
        let time = (&self.time).into();
        ApplicationOutcome::Completion { begun: self.begun, completed: self.completed, time }
    }
}
