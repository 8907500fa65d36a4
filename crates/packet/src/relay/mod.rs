//! A relay: connections of clients end at one host, their data go in turns over one connection, the
//! aggregate, to another host, and from there over connections of its own to the servers (work 003,
//! chapter 2). `weir-aggregate` decides; simulated TCP is below, as the kernel's is below
//! `weir-relay`.
//!
//! Clients send and servers receive. Both ends know of a flow as soon as its client connects, as if
//! a controller told them (003-spec section 2.4).

mod clamp;
mod flow;
mod linked;
mod wire;

use weir_aggregate::frame::{CONTROL, DATA_MAX, HEADER_BYTES, Uid, UidPool};
use weir_aggregate::message::{Message, Reason};
use weir_aggregate::turns::Turns;
use weir_aggregate::window::{STEP_MAX, window};
use weir_tcp::{Flags, Segment, State};

use self::flow::{Carried, UNSENT_MAX};
use self::linked::Linked;
use self::wire::{Arrived, Wire};
use crate::arena::Handle;
use crate::endpoint::{Endpoints, Newcomer, Part};
use crate::traffic::LinkedAck;

/// What a relay holds, in bytes: received in order and not sent on.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Holding {
    pub(crate) join: u64,
    pub(crate) split: u64,
    /// What clients have sent that arrived, and what servers have acknowledged of it.
    pub(crate) received: u64,
    pub(crate) acknowledged: u64,
}

/// The most that looks found.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct HeldMost {
    pub(crate) join: u64,
    pub(crate) split: u64,
    pub(crate) both: u64,
}

/// What becomes of a segment that is about to leave one of a relay's endpoints.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Departure {
    Leaves,
    /// It is held, and let go later.
    Held,
    Dropped,
}

/// Both ends of an aggregate, and what is under way between them.
pub(crate) struct Relay {
    mode: LinkedAck,
    /// The two sides of the aggregate's connection, once a client has come.
    ends: Option<[u32; 2]>,
    /// What goes from the join end, and back; and what of it TCP had no room for.
    wires: [Wire; 2],
    owed: [u64; 2],
    turns: Turns,
    uids: UidPool,
    /// By UID, from 1 on.
    flows: Vec<Carried>,
    linked: Option<Linked>,
    /// Packets that were held and may go, each with the endpoint that it comes from.
    pub(crate) released: Vec<(u32, Handle)>,
    /// What the relay says by itself in the name of an endpoint.
    pub(crate) spoken: Vec<(u32, Segment)>,
    /// The most that a client had seen acknowledged and its server had not acknowledged, in bytes.
    pub(crate) ahead_max: u64,
    pub(crate) most: HeldMost,
}

impl Relay {
    /// No client has come; `mode` says what acknowledgements go when.
    pub(crate) fn new(mode: LinkedAck) -> Self {
        Self {
            mode,
            ends: None,
            wires: Default::default(),
            owed: [0; 2],
            turns: Turns::default(),
            uids: UidPool::default(),
            flows: Vec::new(),
            linked: mode.release().map(Linked::new),
            released: Vec::new(),
            spoken: Vec::new(),
            ahead_max: 0,
            most: HeldMost::default(),
        }
    }

    /// How acknowledgements are linked, in a word.
    pub(crate) fn linked_ack(&self) -> &'static str {
        self.mode.name()
    }

    /// The aggregate's side at the join end, once there is one.
    pub(crate) fn sender(&self) -> Option<u32> {
        self.ends.map(|[join, _]| join)
    }

    pub(crate) fn flows(&self) -> usize {
        self.flows.len()
    }

    /// The aggregate is opened.
    pub(crate) fn open(&mut self, ends: [u32; 2]) {
        self.ends = Some(ends);
    }

    /// A client comes; returns its UID.
    pub(crate) fn admit(&mut self, newcomer: &Newcomer) -> Uid {
        let uid = self.uids.take().expect("a relay is assembled with no more flows than UIDs");
        self.turns.add(uid, newcomer.weight);
        let is_clamped = self.mode == LinkedAck::PerFlow;
        self.flows.push(Carried::new(newcomer.near, newcomer.far, is_clamped));
        uid
    }

    /// Something may have changed at one of its endpoints.
    pub(crate) fn on_progress(&mut self, part: Part, endpoints: &mut Endpoints) -> u64 {
        match part {
            Part::Host => 0,
            Part::Near(uid) => {
                self.on_near(uid, endpoints);
                0
            }
            Part::Join => {
                self.on_join(endpoints);
                0
            }
            Part::Split => self.on_split(endpoints),
            Part::Far(uid) => {
                self.on_far(uid, endpoints);
                0
            }
        }
    }

    /// A segment is about to leave one of its endpoints, and may be changed. What opens or resets a
    /// connection always leaves.
    pub(crate) fn departs(
        &mut self,
        part: Part,
        segment: &mut Segment,
        packet: Handle,
        endpoints: &Endpoints,
    ) -> Departure {
        let has = |flags| segment.flags.has(flags);
        let is_opening = has(Flags::SYN);
        if is_opening || has(Flags::RST) || !has(Flags::ACK) {
            if let Part::Near(uid) = part
                && let Some(clamp) = self.flows[index(uid)].clamp.as_mut().filter(|_| is_opening)
            {
                clamp.begin(segment);
            }
            return Departure::Leaves;
        }
        match (part, &mut self.linked) {
            (Part::Near(uid), Some(_)) => {
                self.flows[index(uid)].held.hold(segment.ack, packet);
                self.release_of_client(uid, endpoints);
                Departure::Held
            }
            (Part::Near(uid), None) => {
                let clamp = &mut self.flows[index(uid)].clamp;
                if clamp.as_mut().is_some_and(|clamp| !clamp.pass(segment)) {
                    return Departure::Dropped;
                }
                self.note(uid, segment.ack, endpoints);
                Departure::Leaves
            }
            (Part::Split, Some(linked)) => {
                linked.hold_of_join(segment.ack, packet);
                self.release_of_join();
                Departure::Held
            }
            _ => Departure::Leaves,
        }
    }

    /// What it holds now.
    pub(crate) fn holding(&self, endpoints: &Endpoints) -> Holding {
        let at = |endpoint: u32| &endpoints.all[endpoint as usize].connection;
        let mut holding = Holding::default();
        if let Some([join, _]) = self.ends {
            holding.join = at(join).unsent() + self.owed[0];
        }
        for flow in &self.flows {
            let unread = at(flow.near).readable();
            holding.join += unread;
            holding.split += flow.waiting + at(flow.far).unsent();
            holding.received += flow.outgoing.sent() + unread;
            holding.acknowledged += flow.at_server(endpoints);
        }
        holding
    }

    /// Notes the most that it held; see [`holding`](Self::holding).
    pub(crate) fn look(&mut self, endpoints: &Endpoints) -> Holding {
        let holding = self.holding(endpoints);
        self.most.join = self.most.join.max(holding.join);
        self.most.split = self.most.split.max(holding.split);
        self.most.both = self.most.both.max(holding.join + holding.split);
        holding
    }

    /// Whether it holds nothing, neither data nor acknowledgements, and no credit is left.
    pub(crate) fn is_at_rest(&self, endpoints: &Endpoints) -> bool {
        let Holding { join, split, received, acknowledged } = self.holding(endpoints);
        join == 0
            && split == 0
            && received == acknowledged
            && self.linked.as_ref().is_none_or(Linked::is_at_rest)
            && self.flows.iter().all(Carried::is_at_rest)
    }

    /// Acknowledgements that are held.
    pub(crate) fn held(&self) -> usize {
        let of_clients: usize = self.flows.iter().map(Carried::held_acks).sum();
        of_clients + self.linked.as_ref().map_or(0, Linked::held)
    }

    /// The client's connection has data, an end, or is broken.
    fn on_near(&mut self, uid: Uid, endpoints: &mut Endpoints) {
        let flow = &mut self.flows[index(uid)];
        let near = endpoints.connection(flow.near);
        if near.state() == State::Closed && !flow.is_sent {
            (flow.is_sent, flow.is_gone) = (true, true);
            // Nobody is there any more who could take them for anything.
            flow.credit = u64::MAX;
            self.release_of_client(uid, endpoints);
            self.flows[index(uid)].credit = 0;
            self.turns.remove(uid);
            let length = self.wires[0].say(Message::Reset { uid, reason: Reason::Reset });
            self.note_sent(CONTROL, length - HEADER_BYTES as u64, false);
            self.put(0, length, endpoints);
        } else if near.readable() > 0 || near.is_at_end() {
            self.turns.wake(uid);
        }
        self.fill(endpoints);
    }

    /// The aggregate has room, acknowledgements or messages for the join end.
    fn on_join(&mut self, endpoints: &mut Endpoints) {
        let Some([join, _]) = self.ends else { return };
        let connection = endpoints.connection(join);
        let (arrived, acknowledged) = (connection.read(u64::MAX), connection.acked());
        let (turns, flows) = (&mut self.turns, &mut self.flows);
        let mut acknowledged_to = Vec::new();
        self.wires[1].read(arrived, |arrived| match arrived {
            Arrived::Said(Message::Room { uid, until })
                if flows[index(uid)].outgoing.open(until) =>
            {
                turns.wake(uid);
            }
            Arrived::Said(Message::Acknowledged { uid, until }) => {
                let flow = &mut flows[index(uid)];
                let said = flow.released(until);
                acknowledged_to.extend(said.map(|segment| (uid, flow.near, segment)));
            }
            _ => {}
        });
        for (uid, near, segment) in acknowledged_to {
            self.note(uid, segment.ack, endpoints);
            self.spoken.push((near, segment));
        }
        if let Some(linked) = &mut self.linked {
            let flows = &mut self.flows;
            let mut credited = Vec::new();
            linked.join_acknowledged(acknowledged, |uid, bytes| {
                if uid != CONTROL && !flows[index(uid)].is_gone {
                    flows[index(uid)].credit += bytes;
                    credited.push(uid);
                }
            });
            for uid in credited {
                self.release_of_client(uid, endpoints);
            }
        }
        self.fill(endpoints);
    }

    /// The aggregate has data for the split end; returns how many.
    fn on_split(&mut self, endpoints: &mut Endpoints) -> u64 {
        let Some([_, split]) = self.ends else { return 0 };
        let bytes = endpoints.connection(split).read(u64::MAX);
        let mut all = Vec::new();
        self.wires[0].read(bytes, |arrived| all.push(arrived));
        for arrived in all {
            match arrived {
                Arrived::Data(uid, data) => self.take(uid, data, endpoints),
                Arrived::End(uid) => {
                    let flow = &mut self.flows[index(uid)];
                    flow.has_end = true;
                    flow.flush(endpoints);
                }
                Arrived::Said(Message::Reset { uid, .. }) => self.break_far(uid, endpoints),
                Arrived::Said(_) => {}
                Arrived::Part(part) => self.take_part(part, endpoints),
            }
        }
        self.put(1, 0, endpoints);
        self.release_of_join();
        bytes
    }

    fn take(&mut self, uid: Uid, data: u64, endpoints: &mut Endpoints) {
        let flow = &mut self.flows[index(uid)];
        flow.arrived += data;
        if flow.is_broken {
            flow.acknowledged += data;
            if let Some(linked) = &mut self.linked {
                linked.split_acknowledged(uid, data);
            }
            return;
        }
        flow.waiting += data;
        if self.linked.is_none() {
            assert!(flow.incoming.arrive(data), "the join end keeps to the window");
        }
        flow.flush(endpoints);
        self.promise(uid, endpoints);
    }

    /// A part of a frame has arrived: its acknowledgement waits for the server's.
    fn take_part(&mut self, part: wire::Part, endpoints: &Endpoints) {
        let Self { linked: Some(linked), flows, .. } = self else { return };
        linked.arrived(part, |uid| flows[index(uid)].is_delivered(endpoints));
        if part.uid == CONTROL {
            linked.split_acknowledged(CONTROL, part.data);
        }
    }

    /// The connection to the server has room or acknowledgements.
    fn on_far(&mut self, uid: Uid, endpoints: &mut Endpoints) {
        let flow = &mut self.flows[index(uid)];
        let is_closed = endpoints.connection(flow.far).state() == State::Closed;
        if is_closed && !flow.is_broken && !flow.is_delivered(endpoints) {
            endpoints.touched.push(flow.near);
            endpoints.connection(flow.near).abort();
            self.break_far(uid, endpoints);
        } else if !flow.is_broken {
            let acknowledged = flow.at_server(endpoints);
            let more = acknowledged - flow.acknowledged;
            flow.acknowledged = acknowledged;
            flow.flush(endpoints);
            if let Some(until) = flow.news(endpoints) {
                let length = self.wires[1].say(Message::Acknowledged { uid, until });
                self.put(1, length, endpoints);
            }
            if let Some(linked) = self.linked.as_mut().filter(|_| more > 0) {
                linked.split_acknowledged(uid, more);
            }
        }
        if let Some(linked) = &mut self.linked {
            linked.take_arrivals(|uid| self.flows[index(uid)].is_delivered(endpoints));
        }
        self.promise(uid, endpoints);
        self.release_of_join();
    }

    /// The flow has no way to its server any more: nobody waits for acknowledgements of the rest.
    fn break_far(&mut self, uid: Uid, endpoints: &mut Endpoints) {
        let flow = &mut self.flows[index(uid)];
        if std::mem::replace(&mut flow.is_broken, true) {
            return;
        }
        endpoints.touched.push(flow.far);
        endpoints.connection(flow.far).abort();
        let rest = flow.arrived - flow.acknowledged;
        flow.acknowledged = flow.arrived;
        flow.waiting = 0;
        if let Some(linked) = &mut self.linked {
            linked.split_acknowledged(uid, rest);
            linked.take_arrivals(|uid| self.flows[index(uid)].is_delivered(endpoints));
        }
    }

    /// Tells the join end how much room there is, where no acknowledgement does.
    fn promise(&mut self, uid: Uid, endpoints: &mut Endpoints) {
        let window = window(self.flows.len());
        let flow = &mut self.flows[index(uid)];
        if self.linked.is_none()
            && let Some(until) = flow.incoming.promise(window, STEP_MAX)
        {
            let length = self.wires[1].say(Message::Room { uid, until });
            self.put(1, length, endpoints);
        }
    }

    /// Puts data into the aggregate, flow by flow, as long as it takes any.
    fn fill(&mut self, endpoints: &mut Endpoints) {
        let Some([join, _]) = self.ends else { return };
        self.put(0, 0, endpoints);
        while self.owed[0] == 0 && endpoints.connection(join).unsent() < UNSENT_MAX {
            let Some((uid, turn)) = self.turns.front() else { return };
            self.send_from(uid, turn, endpoints);
        }
    }

    /// One flow's turn.
    fn send_from(&mut self, uid: Uid, turn: usize, endpoints: &mut Endpoints) {
        let flow = &mut self.flows[index(uid)];
        let near = endpoints.connection(flow.near);
        let (ready, is_at_end) = (near.readable(), near.is_at_end());
        let left = if self.linked.is_some() { u64::MAX } else { flow.outgoing.left() };
        let most = turn.saturating_sub(HEADER_BYTES).clamp(1, DATA_MAX) as u64;
        let count = near.read(most.min(left).min(ready));
        let is_end = ready == 0 && is_at_end && !flow.is_sent;
        if count == 0 && !is_end {
            return self.turns.sleep();
        }
        if is_end {
            flow.is_sent = true;
            self.turns.sleep();
        } else {
            endpoints.touched.push(flow.near);
            if self.linked.is_some() {
                flow.outgoing.open(flow.outgoing.sent() + count);
            }
            flow.outgoing.send(count);
            self.turns.sent(HEADER_BYTES + count as usize);
        }
        let length = self.wires[0].put(uid, count as usize);
        self.note_sent(uid, count, is_end);
        self.put(0, length, endpoints);
    }

    fn note_sent(&mut self, uid: Uid, data: u64, is_end: bool) {
        if let Some(linked) = &mut self.linked {
            linked.sent(uid, data, is_end);
        }
    }

    /// So much more goes into one direction of the aggregate.
    fn put(&mut self, way: usize, bytes: u64, endpoints: &mut Endpoints) {
        let Some(ends) = self.ends else { return };
        self.owed[way] += bytes;
        if self.owed[way] > 0 {
            endpoints.touched.push(ends[way]);
            self.owed[way] -= endpoints.connection(ends[way]).write(self.owed[way]);
        }
    }

    /// Lets the acknowledgements of a client go that may.
    fn release_of_client(&mut self, uid: Uid, endpoints: &Endpoints) {
        let flow = &mut self.flows[index(uid)];
        let near = flow.near;
        let mut last = None;
        while let Some((number, packet)) = flow.held.release(&mut flow.credit) {
            self.released.push((near, packet));
            last = last.max(Some(number));
        }
        if let Some(number) = last {
            self.note(uid, number, endpoints);
        }
    }

    /// Lets the acknowledgements of the aggregate go that may.
    fn release_of_join(&mut self) {
        let (Some([_, split]), Some(linked)) = (self.ends, &mut self.linked) else { return };
        while let Some(packet) = linked.release_of_join() {
            self.released.push((split, packet));
        }
    }

    /// A client sees an acknowledgement up to `number`: notes by how much its server is behind.
    fn note(&mut self, uid: Uid, number: u64, endpoints: &Endpoints) {
        let flow = &self.flows[index(uid)];
        if !flow.is_broken && !flow.is_gone {
            let end = u64::from(flow.is_delivered(endpoints));
            let ahead = (number - 1).saturating_sub(flow.at_server(endpoints) + end);
            self.ahead_max = self.ahead_max.max(ahead);
        }
    }
}

fn index(uid: Uid) -> usize {
    usize::from(uid) - 1
}
