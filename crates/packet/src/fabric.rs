//! What carries packets: the schedule, the links, the routes, and the packets under way.

use weir_link::Medium;
use weir_queue::Packet;
use weir_topology::NextHops;
use weir_units::{Rate, Time};

use crate::arena::{Arena, Content, Handle};
use crate::schedule::Schedule;

/// One direction of a link, in the order of the configuration: forward, then backward.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Direction {
    pub(crate) from: usize,
    pub(crate) to: usize,
    pub(crate) rate: Option<Rate>,
    /// Where its packets enter: the medium and the port.
    pub(crate) medium: usize,
    pub(crate) port: usize,
}

/// A medium, and where in [`Fabric::far_ends`] those of its ports begin.
pub(crate) struct Carrier {
    pub(crate) medium: Medium<Handle>,
    pub(crate) first_end: usize,
}

/// Packets that never arrived, counted for the flow they belonged to.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Losses {
    pub(crate) packets: u64,
}

/// Whose event it is, by number in the schedule.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Object {
    /// A medium, which starts or ends a transmission or lets a packet out.
    Medium,
    /// A flow, which starts, stops, sends a datagram or runs its application's timer.
    Flow(u32),
    /// A TCP endpoint, whose timer runs out.
    Endpoint(u32),
    /// The probe, which looks at everything.
    Probe,
}

/// Links, routes and packets. Objects 0 to the number of media of the schedule are its own.
pub(crate) struct Fabric {
    pub(crate) now: Time,
    pub(crate) schedule: Schedule,
    /// By number in the schedule: media come first, then flows, the probe and endpoints.
    pub(crate) objects: Vec<Object>,
    pub(crate) arena: Arena,
    pub(crate) directions: Vec<Direction>,
    pub(crate) carriers: Vec<Carrier>,
    /// The nodes where packets come out, port by port of one medium after the other.
    pub(crate) far_ends: Vec<usize>,
    pub(crate) routes: NextHops,
    /// By flow, see [`Fabric::flow_of`].
    pub(crate) losses: Vec<Losses>,
    /// The flow of each endpoint.
    pub(crate) flow_of: Vec<u32>,
}

impl Fabric {
    /// Idle links for so many flows; nothing has an event yet.
    pub(crate) fn new(
        directions: Vec<Direction>,
        carriers: Vec<Carrier>,
        far_ends: Vec<usize>,
        routes: NextHops,
        flows: usize,
    ) -> Self {
        let mut objects = vec![Object::Medium; carriers.len()];
        objects.reserve_exact(flows + 1);
        objects.extend((0..flows as u32).map(Object::Flow));
        objects.push(Object::Probe);
        Self {
            now: Time::ZERO,
            schedule: Schedule::new(objects.len()),
            objects,
            arena: Arena::default(),
            directions,
            carriers,
            far_ends,
            routes,
            losses: vec![Losses::default(); flows],
            flow_of: Vec::new(),
        }
    }

    /// The number of a flow in the schedule.
    pub(crate) fn flow_object(&self, flow: usize) -> usize {
        self.carriers.len() + flow
    }

    /// The number of the probe in the schedule.
    pub(crate) fn probe_object(&self) -> usize {
        self.flow_object(self.losses.len())
    }

    /// One more endpoint, of flow `flow`; returns its number in the schedule.
    pub(crate) fn add_endpoint(&mut self, flow: u32) -> usize {
        self.objects.push(Object::Endpoint(self.flow_of.len() as u32));
        self.flow_of.push(flow);
        self.schedule.add()
    }

    /// The medium of direction `index` and its port there.
    pub(crate) fn medium(&self, index: usize) -> (&Medium<Handle>, usize) {
        let Direction { medium, port, .. } = self.directions[index];
        (&self.carriers[medium].medium, port)
    }

    /// A packet leaves node `at`, or passes it.
    pub(crate) fn send(&mut self, at: usize, handle: Handle) {
        let Some(index) = self.routes.next(at, handle.to as usize) else {
            // Every flow was checked to have a path both ways.
            self.arena.free(handle.index);
            return;
        };
        let Direction { medium, port, .. } = self.directions[index];
        let carrier = &mut self.carriers[medium].medium;
        carrier.arrive(port, handle, self.now);
        // It may have to be woken earlier now, or have lost the packet.
        if let Some(wake) = carrier.next_wake() {
            self.schedule.set_by(medium, wake);
        }
        if carrier.may_have_discarded() {
            self.bury(medium);
        }
    }

    /// Takes the next packet that medium `index` lets out at its destination now, if any; call
    /// until there is none, then [`settle`](Self::settle).
    #[inline]
    pub(crate) fn release(&mut self, index: usize) -> Option<Handle> {
        loop {
            let Carrier { medium, first_end } = &mut self.carriers[index];
            let (port, handle) = medium.release(self.now)?;
            let (at, to) = (self.far_ends[*first_end + port], handle.to as usize);
            if to == at {
                medium.leave(port, handle.size(), self.now);
                return Some(handle);
            }
            let next = self.routes.next(at, to).map(|next| self.directions[next]);
            match next.filter(|next| next.medium == index) {
                Some(next) => medium.pass(port, next.port, handle, self.now),
                None => {
                    medium.leave(port, handle.size(), self.now);
                    self.send(at, handle);
                }
            }
        }
    }

    /// Medium `index` has been served up to now: when next, and what it lost.
    #[inline]
    pub(crate) fn settle(&mut self, index: usize) {
        let carrier = &self.carriers[index].medium;
        self.schedule.rearm(index, carrier.next_wake());
        if carrier.may_have_discarded() {
            self.bury(index);
        }
    }

    /// Frees what medium `index` dropped or lost.
    fn bury(&mut self, index: usize) {
        while let Some(handle) = self.carriers[index].medium.discarded() {
            let flow = match self.arena.content(handle.index) {
                Content::Udp { flow, .. } | Content::Udt { flow, .. } => *flow,
                Content::Tcp { endpoint, .. } => self.flow_of[*endpoint as usize],
            };
            self.losses[flow as usize].packets += 1;
            self.arena.free(handle.index);
        }
    }
}
