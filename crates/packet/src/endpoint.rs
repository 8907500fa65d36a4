//! TCP endpoints in their places, and what an application may do with them.

use std::collections::HashMap;
use std::sync::Arc;

use weir_aggregate::frame::Uid;
use weir_application::{Sockets, peer_of};
use weir_queue::{Dscp, Random};
use weir_tcp::congestion::{Algorithm, Silent, Turn, Turns};
use weir_tcp::{Connection, Nagle, State};
use weir_units::Time;

use crate::counts::Counts;
use crate::fabric::Fabric;

/// Segments that a connection may begin with (RFC 6928).
const INITIAL_WINDOW: u64 = 10;

/// How the connections of a flow are made.
#[derive(Clone, Debug)]
pub(crate) struct Setup {
    pub(crate) seed: u64,
    /// What the flow's random numbers follow from, beside the seed.
    pub(crate) draws: Box<str>,
    pub(crate) flow: u32,
    /// The node that opens, and the one that accepts.
    pub(crate) nodes: [u32; 2],
    pub(crate) dscp: Dscp,
    pub(crate) config: Arc<weir_tcp::Config>,
    pub(crate) algorithm: Algorithm,
    /// What takes its place, in order.
    pub(crate) turns: Arc<[Turn]>,
    /// Whether the side that accepts writes, too.
    pub(crate) is_answered: bool,
    /// The relay that they pass, if they do.
    pub(crate) through: Option<Through>,
}

/// How connections pass a relay.
#[derive(Clone, Debug)]
pub(crate) struct Through {
    /// The relay, by its place among flows.
    pub(crate) relay: u32,
    /// Where its ends are: they join, and split.
    pub(crate) hosts: [u32; 2],
    /// What a connection has of the aggregate, beside the others'.
    pub(crate) weight: u32,
    /// The join end's side of clients' connections.
    pub(crate) config: Arc<weir_tcp::Config>,
    /// Whether the split end's side of servers' connections sends what is short at once.
    pub(crate) is_prompt: bool,
    /// That side, if it is not as the clients' own.
    pub(crate) split_config: Option<Arc<weir_tcp::Config>>,
}

impl Through {
    /// For connections that are made so.
    pub(crate) fn of(self, setup: &Setup) -> Self {
        let prompt = || Arc::new(weir_tcp::Config { nagle: Nagle::Off, ..*setup.config });
        Self { split_config: self.is_prompt.then(prompt), ..self }
    }
}

/// What an endpoint has to do with a relay.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Part {
    /// Nothing: it is a client's, or a server's.
    Host,
    /// The join end's side of a client's connection.
    Near(Uid),
    /// The join end's side of the aggregate.
    Join,
    /// The split end's side of the aggregate.
    Split,
    /// The split end's side of a connection to a server.
    Far(Uid),
}

/// A part, and in which relay: its place among flows.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Seat {
    pub(crate) part: Part,
    pub(crate) relay: u32,
}

impl Seat {
    pub(crate) const HOST: Self = Self { part: Part::Host, relay: 0 };
}

/// A client that connects through a relay, which does not know of it yet.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Newcomer {
    pub(crate) relay: u32,
    pub(crate) near: u32,
    pub(crate) far: u32,
    pub(crate) weight: u32,
}

/// One side of a connection, and where it is. Its peer is the one of the other parity.
#[derive(Debug)]
pub(crate) struct Endpoint {
    pub(crate) connection: Connection,
    pub(crate) flow: u32,
    pub(crate) node: u32,
    pub(crate) peer_node: u32,
    pub(crate) hash: u32,
    pub(crate) dscp: Dscp,
    /// Counts the connections that have been here; segments of earlier ones are not for this one.
    pub(crate) incarnation: u32,
    /// Its number in the schedule.
    pub(crate) object: usize,
    pub(crate) seat: Seat,
}

/// The connections of all flows, in pairs: the side that opened is even, its peer the next.
#[derive(Default)]
pub(crate) struct Endpoints {
    pub(crate) all: Vec<Endpoint>,
    /// First ends of pairs whose connection is over.
    free: Vec<u32>,
    /// Connections made so far.
    made: u64,
    /// Endpoints that have something to send, perhaps.
    pub(crate) touched: Vec<u32>,
    /// Clients that relays are to be told of.
    pub(crate) newcomers: Vec<Newcomer>,
    /// Who sends to the server what a client of a relay sends.
    last_legs: HashMap<u32, u32>,
}

impl Endpoints {
    pub(crate) fn connection(&mut self, endpoint: u32) -> &mut Connection {
        &mut self.all[endpoint as usize].connection
    }

    /// The endpoint is part of a relay from now on.
    pub(crate) fn sit(&mut self, endpoint: u32, seat: Seat) {
        self.all[endpoint as usize].seat = seat;
    }

    /// The endpoint that sends to the receiver what `sender` sends: itself, but for a relay.
    pub(crate) fn last_leg(&self, sender: u32) -> &Connection {
        let last = self.last_legs.get(&sender).copied().unwrap_or(sender);
        &self.all[last as usize].connection
    }

    /// Endpoints are most of what a flow takes: an eighth more room at a time, not twice as much.
    fn push(&mut self, endpoint: Endpoint) {
        if self.all.len() == self.all.capacity() {
            self.all.reserve_exact(self.all.len() / 8 + 2);
        }
        self.all.push(endpoint);
    }
}

/// What the application of one flow acts by.
pub(crate) struct SimulatedSockets<'a> {
    pub(crate) now: Time,
    pub(crate) setup: &'a Setup,
    pub(crate) counts: &'a mut Counts,
    pub(crate) endpoints: &'a mut Endpoints,
    pub(crate) fabric: &'a mut Fabric,
}

impl Sockets for SimulatedSockets<'_> {
    fn now(&self) -> Time {
        self.now
    }

    fn open(&mut self) -> u32 {
        let nodes = self.setup.nodes;
        let Some(through) = &self.setup.through else { return self.open_leg(nodes) };
        let Through { relay, hosts: [join, split], weight, .. } = *through;
        let first = self.open_leg([nodes[0], join]);
        let far = self.open_leg([split, nodes[1]]);
        self.endpoints.last_legs.insert(first, far);
        let near = peer_of(first);
        self.endpoints.newcomers.push(Newcomer { relay, near, far, weight });
        first
    }

    fn write(&mut self, endpoint: u32, bytes: u64) -> u64 {
        self.endpoints.touched.push(endpoint);
        self.endpoints.connection(endpoint).write(bytes)
    }

    fn writable(&mut self, endpoint: u32) -> u64 {
        self.endpoints.connection(endpoint).writable()
    }

    fn read(&mut self, endpoint: u32) -> u64 {
        let bytes = self.take(endpoint);
        self.counts.delivered_bytes += bytes;
        bytes
    }

    fn take(&mut self, endpoint: u32) -> u64 {
        self.endpoints.connection(endpoint).read(u64::MAX)
    }

    fn acked(&mut self, endpoint: u32) -> u64 {
        self.endpoints.connection(endpoint).acked()
    }

    fn is_at_end(&mut self, endpoint: u32) -> bool {
        self.endpoints.connection(endpoint).is_at_end()
    }

    fn close(&mut self, endpoint: u32) {
        self.endpoints.touched.push(endpoint);
        self.endpoints.connection(endpoint).close();
    }

    fn abort(&mut self, endpoint: u32) {
        self.endpoints.touched.push(endpoint);
        self.endpoints.connection(endpoint).abort();
    }

    fn is_over(&mut self, endpoint: u32) -> bool {
        [endpoint, peer_of(endpoint)].into_iter().all(|side| {
            matches!(self.endpoints.connection(side).state(), State::Closed | State::TimeWait)
        })
    }

    fn free(&mut self, endpoint: u32) {
        let first = endpoint & !1;
        for at in [first, first + 1] {
            let endpoint = &mut self.endpoints.all[at as usize];
            endpoint.incarnation += 1;
            self.fabric.schedule.rearm(endpoint.object, None);
        }
        self.endpoints.free.push(first);
    }
}

impl SimulatedSockets<'_> {
    /// Opens a connection from the first node to the second.
    fn open_leg(&mut self, nodes: [u32; 2]) -> u32 {
        let number = self.endpoints.made;
        self.endpoints.made += 1;
        let pair = self.endpoints.free.pop();
        let first = pair.unwrap_or(self.endpoints.all.len() as u32);
        for side in 0..2 {
            let endpoint = self.endpoint(side, number, nodes);
            let at = first as usize + side;
            if pair.is_none() {
                let object = self.fabric.add_endpoint(self.setup.flow);
                self.endpoints.push(Endpoint { object, ..endpoint });
                continue;
            }
            let old = &mut self.endpoints.all[at];
            let (object, incarnation) = (old.object, old.incarnation + 1);
            *old = Endpoint { object, incarnation, ..endpoint };
            self.fabric.flow_of[at] = self.setup.flow;
        }
        self.endpoints.touched.push(first);
        first
    }

    fn endpoint(&self, side: usize, number: u64, nodes: [u32; 2]) -> Endpoint {
        let setup = self.setup;
        let name = [&*setup.draws, "connection", &number.to_string()];
        let random = Random::of_source(setup.seed, &[name[0], name[1], name[2], ["a", "b"][side]]);
        let mss = setup.config.mss;
        let window = INITIAL_WINDOW * u64::from(mss);
        let mut congestion = setup.algorithm.build(mss, window, self.now, random.clone());
        if !setup.turns.is_empty() {
            let turns = Turns::new(congestion, &setup.turns, mss, self.now, random);
            congestion = Box::new(turns);
        }
        if side == 1 && !setup.is_answered {
            congestion = Box::new(Silent::new(congestion.ecn()));
        }
        let make = if side == 0 { Connection::connect } else { Connection::accept };
        let mut ports = Random::of_source(setup.seed, &[name[0], "ports", name[2]]);
        // The two directions of a connection have hashes of their own, as with real addresses.
        let hash = (ports.up_to(u32::MAX.into()) as u32).wrapping_add(side as u32);
        let config = match &setup.through {
            Some(through) if nodes[side] == through.hosts[0] => &through.config,
            Some(through) if nodes[side] == through.hosts[1] => {
                through.split_config.as_ref().unwrap_or(&setup.config)
            }
            _ => &setup.config,
        };
        Endpoint {
            connection: make(Arc::clone(config), congestion, self.now),
            flow: setup.flow,
            node: nodes[side],
            peer_node: nodes[1 - side],
            hash,
            dscp: setup.dscp,
            incarnation: 0,
            object: 0,
            seat: Seat::HOST,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn two_endpoints_fit_4_kib() {
        // What is in flight and the state of the control come on top.
        assert!(size_of::<Endpoint>() <= 2_048, "{} bytes", size_of::<Endpoint>());
    }
}
