//! The loop: the earliest event, whose it is, what it does.

use weir_application::{Application, Sockets as _, peer_of};
use weir_queue::Ecn;
use weir_tcp::Transmit;
use weir_units::{Bytes, Time};

use crate::PacketError;
use crate::arena::{Content, Handle};
use crate::capture::{Capture, Ends};
use crate::config::Config;
use crate::endpoint::{Endpoints, Newcomer, Part, Seat, SimulatedSockets};
use crate::fabric::{Fabric, Object};
use crate::flow::{Flow, Generator};
use crate::outcome::Outcome;
use crate::probe::Probe;
use crate::relay::Departure;
use crate::summary::{Scene, Summary};
use crate::trace::Files;

/// Ports that captures show: of the first traffic's accepting side, of the first connection's
/// opening side.
const SERVER_PORT: u16 = 5_001;
const CLIENT_PORT: u16 = 0xc000;

/// The packet of an acknowledgement that a relay makes itself: its header of TCP has room for
/// timestamps, as that of `weir relay` has.
const SPOKEN: Bytes = Bytes::new(52);
/// Events from one question whether to go on to the next.
const BETWEEN_QUESTIONS: u64 = 1 << 16;

/// A simulation that has not run yet.
pub struct Simulation {
    scene: Scene,
    fabric: Fabric,
    flows: Vec<Flow>,
    endpoints: Endpoints,
    probe: Probe,
    captures: Vec<Capture>,
    events: u64,
}

impl Simulation {
    pub(crate) fn start(config: &Config, fabric: Fabric, flows: Vec<Flow>, probe: Probe) -> Self {
        let mut simulation = Self {
            scene: Scene::new(config),
            fabric,
            flows,
            endpoints: Endpoints::default(),
            probe,
            captures: Vec::new(),
            events: 0,
        };
        for index in 0..simulation.flows.len() {
            let start = simulation.flows[index].start;
            if matches!(simulation.flows[index].generator, Generator::Datagrams(_)) {
                simulation.schedule_datagram(index);
            } else {
                let object = simulation.fabric.flow_object(index);
                simulation.fabric.schedule.set(object, start);
            }
        }
        let probe = simulation.fabric.probe_object();
        simulation.fabric.schedule.set(probe, simulation.probe.warmup);
        simulation
    }

    /// Has all that `node` sends and receives written to `out` as pcapng; `place` is what messages
    /// call it.
    ///
    /// # Errors
    /// There is no such node.
    pub fn capture(
        &mut self,
        node: &str,
        out: Box<dyn std::io::Write + Send>,
        place: String,
    ) -> Result<(), PacketError> {
        let found = self.scene.nodes.iter().position(|known| known == node);
        let node = found.ok_or_else(|| {
            PacketError::value(format!("capture {place}"), format!("there is no node {node:?}"))
        })?;
        self.captures.push(Capture::new(node, out, place));
        Ok(())
    }

    /// Has every look written as Parquet: at queues, and at bulk connections. `place` is what
    /// messages call the directory of both files. Columns are named with their units.
    ///
    /// # Errors
    /// [`PacketError::Write`] where not even the beginning could be written.
    pub fn trace(
        &mut self,
        queues: Box<dyn std::io::Write + Send>,
        connections: Box<dyn std::io::Write + Send>,
        place: &str,
    ) -> Result<(), PacketError> {
        self.probe.files = Some(Files::new(queues, connections, place)?);
        Ok(())
    }

    /// Runs to the end.
    ///
    /// # Errors
    /// [`PacketError::Write`] where a capture or a trace could not be written.
    pub fn run(self) -> Result<Outcome, PacketError> {
        self.run_while(|| Ok(()))
    }

    /// The same, for those who may want to give up: `goes_on` is asked every few hundredths of a
    /// second, and an error that it answers ends the simulation. The outcome is that of `run`.
    ///
    /// # Errors
    /// As [`Self::run`], and what `goes_on` answers.
    pub fn run_while<E: From<PacketError>>(
        mut self,
        mut goes_on: impl FnMut() -> Result<(), E>,
    ) -> Result<Outcome, E> {
        let end = self.scene.duration;
        while !self.run_some(end, BETWEEN_QUESTIONS) {
            goes_on()?;
        }
        self.fabric.now = end;
        for carrier in &mut self.fabric.carriers {
            carrier.medium.advance(end);
        }
        let traces = self.probe.traces.take();
        let Self { scene, fabric, flows, endpoints, probe, captures, events } = self;
        let (fabric, flows, endpoints) = (&fabric, &flows, &endpoints);
        let summary = Summary { scene: &scene, fabric, flows, endpoints, probe: &probe };
        let outcome = summary.outcome(events, traces);
        captures.into_iter().try_for_each(Capture::finish)?;
        probe.files.map_or(Ok(()), Files::finish)?;
        Ok(outcome)
    }

    /// Runs what happens up to `until`, for those who want to look at something in between.
    pub fn run_until(&mut self, until: Time) {
        self.run_some(until, u64::MAX);
    }

    /// Runs at most so many events of what happens up to `until`; whether that was all.
    fn run_some(&mut self, until: Time, most: u64) -> bool {
        let last = self.events.saturating_add(most);
        while self.events < last {
            let Some((now, object)) = self.fabric.schedule.pop_by(until) else { return true };
            self.fabric.now = now;
            self.events += 1;
            match self.fabric.objects[object] {
                Object::Medium => self.on_medium(object),
                Object::Endpoint(endpoint) => self.on_endpoint_timer(endpoint),
                Object::Flow(flow) => self.on_flow(flow as usize),
                Object::Probe => self.look(),
            }
        }
        false
    }

    /// Bytes of memory for packets under way: their content and their places on lines. It grows
    /// with the most that ever were under way together.
    pub fn packet_memory(&self) -> usize {
        let lines = self.fabric.carriers.iter().map(|carrier| carrier.medium.line_memory());
        self.fabric.arena.memory() + lines.sum::<usize>()
    }

    /// Shows a packet to the captures at `node`.
    #[cold]
    fn show(&mut self, node: usize, handle: &Handle) {
        let now = self.fabric.now;
        for capture in self.captures.iter_mut().filter(|capture| capture.node == node) {
            match self.fabric.arena.content(handle.index) {
                Content::Udp { flow, .. } | Content::Udt { flow, .. } => {
                    let (number, flow) = (*flow as u16, &self.flows[*flow as usize]);
                    let peer = if handle.to as usize == flow.to { flow.from } else { flow.to };
                    let (from, to) = (peer as u32, handle.to);
                    let ports = [SERVER_PORT.wrapping_add(number); 2];
                    capture.udp(now, handle, Ends { from, to, ports });
                }
                Content::Tcp { endpoint, segment, .. } => {
                    let to = &self.endpoints.all[*endpoint as usize];
                    let client = CLIENT_PORT.wrapping_add((*endpoint / 2) as u16 & 0x3fff);
                    let server = SERVER_PORT.wrapping_add(to.flow as u16);
                    let ports =
                        if *endpoint % 2 == 1 { [client, server] } else { [server, client] };
                    let ends = Ends { from: to.peer_node, to: to.node, ports };
                    capture.tcp(now, handle, ends, segment);
                }
            }
        }
    }

    fn on_medium(&mut self, index: usize) {
        self.fabric.carriers[index].medium.advance(self.fabric.now);
        while let Some(handle) = self.fabric.release(index) {
            self.deliver(handle);
        }
        self.fabric.settle(index);
    }

    /// A packet has reached the node it goes to.
    fn deliver(&mut self, handle: Handle) {
        let now = self.fabric.now;
        if !self.captures.is_empty() {
            self.show(handle.to as usize, &handle);
        }
        let is_marked = u64::from(handle.ecn == Ecn::Ce);
        match self.fabric.arena.content(handle.index) {
            &Content::Udp { flow: index, sent } => {
                self.fabric.arena.free(handle.index);
                let flow = &mut self.flows[index as usize];
                if handle.to as usize == flow.to {
                    flow.counts.on_arrival(handle.size, is_marked);
                    flow.counts.delivered_bytes += u64::from(handle.size);
                    if sent >= self.probe.warmup {
                        flow.delay.get_or_insert_default().record(now - sent);
                    }
                    if flow.echoes.is_some() {
                        self.send_back(index, sent, handle.size);
                    }
                } else if let Some(echoes) = &mut flow.echoes {
                    echoes.on_reply(sent, now);
                }
            }
            &Content::Udt { flow, message } => {
                self.fabric.arena.free(handle.index);
                let Flow { generator, counts, to, .. } = &mut self.flows[flow as usize];
                let Generator::Udt(udt) = generator else { return };
                counts.delivered_bytes += u64::from(udt.on_message(message, now));
                if handle.to as usize == *to {
                    counts.on_arrival(handle.size, is_marked);
                }
                self.progress_udt(flow as usize);
            }
            Content::Tcp { endpoint: number, incarnation, segment } => {
                let number = *number;
                let endpoint = &mut self.endpoints.all[number as usize];
                let is_for_it = endpoint.incarnation == *incarnation;
                if is_for_it {
                    endpoint.connection.on_segment(segment, handle.ecn, now);
                }
                self.fabric.arena.free(handle.index);
                let flow = &mut self.flows[endpoint.flow as usize];
                if handle.to as usize == flow.to {
                    flow.counts.on_arrival(handle.size, is_marked);
                }
                if is_for_it {
                    self.progress(number);
                }
            }
        }
    }

    fn on_endpoint_timer(&mut self, number: u32) {
        let now = self.fabric.now;
        let endpoint = &mut self.endpoints.all[number as usize];
        // It may have moved since: the schedule is told of earlier timers only.
        if endpoint.connection.next_timer().is_some_and(|due| due <= now) {
            endpoint.connection.on_timer(now);
            self.progress(number);
        }
        let endpoint = &self.endpoints.all[number as usize];
        let next = endpoint.connection.next_timer().map(|due| due.max(now));
        self.fabric.schedule.rearm(endpoint.object, next);
    }

    /// Something may have changed at an endpoint: its application acts, then segments leave.
    fn progress(&mut self, number: u32) {
        let (flow, seat) = {
            (self.endpoints.all[number as usize].flow, self.endpoints.all[number as usize].seat)
        };
        if seat.part == Part::Host {
            self.with_application(flow as usize, |application, sockets| {
                application.on_progress(number, sockets);
            });
        } else {
            self.with_relay(seat);
        }
        self.pump(number);
        self.pump_touched();
    }

    /// Lets the application of a TCP flow act.
    fn with_application(
        &mut self,
        flow: usize,
        act: impl FnOnce(&mut Application, &mut SimulatedSockets<'_>),
    ) {
        let Flow {
            generator: Generator::Connections(application), setup: Some(setup), counts, ..
        } = &mut self.flows[flow]
        else {
            return;
        };
        let mut sockets = SimulatedSockets {
            now: self.fabric.now,
            setup,
            counts,
            endpoints: &mut self.endpoints,
            fabric: &mut self.fabric,
        };
        act(application, &mut sockets);
        let next = application.next_timer();
        if let Some(next) = next {
            let object = self.fabric.flow_object(flow);
            self.fabric.schedule.set_by(object, next);
        }
    }

    /// Lets a relay act, at one of whose endpoints something may have changed.
    fn with_relay(&mut self, seat: Seat) {
        let Flow { generator: Generator::Relay(relay), counts, .. } =
            &mut self.flows[seat.relay as usize]
        else {
            return;
        };
        counts.delivered_bytes += relay.on_progress(seat.part, &mut self.endpoints);
        self.send_released(seat.relay);
    }

    /// Whether what an endpoint of a relay is about to send leaves, as the relay has it.
    fn leaves(&mut self, seat: Seat, handle: Handle) -> bool {
        let Generator::Relay(relay) = &mut self.flows[seat.relay as usize].generator else {
            return true;
        };
        let Content::Tcp { segment, .. } = self.fabric.arena.content_mut(handle.index) else {
            return true;
        };
        let departure = relay.departs(seat.part, segment, handle, &self.endpoints);
        if departure == Departure::Dropped {
            self.fabric.arena.free(handle.index);
        }
        self.send_released(seat.relay);
        departure == Departure::Leaves
    }

    /// Sends what a relay held back and holds no longer, and what it says by itself.
    fn send_released(&mut self, relay: u32) {
        let Generator::Relay(relay) = &mut self.flows[relay as usize].generator else { return };
        if relay.released.is_empty() && relay.spoken.is_empty() {
            return;
        }
        let mut leaving = std::mem::take(&mut relay.released);
        for (from, segment) in std::mem::take(&mut relay.spoken) {
            let transmit = Transmit { segment, ecn: Ecn::NotEct, size: SPOKEN };
            leaving.push((from, self.packet(from, transmit)));
        }
        for (from, handle) in leaving {
            let node = self.endpoints.all[from as usize].node as usize;
            if !self.captures.is_empty() {
                self.show(node, &handle);
            }
            self.fabric.send(node, handle);
        }
    }

    /// The packet in which an endpoint sends something.
    #[inline]
    fn packet(&mut self, number: u32, transmit: Transmit) -> Handle {
        let endpoint = &self.endpoints.all[number as usize];
        let content = Content::Tcp {
            endpoint: peer_of(number),
            incarnation: endpoint.incarnation,
            segment: transmit.segment,
        };
        Handle {
            index: self.fabric.arena.keep(content),
            to: endpoint.peer_node,
            hash: endpoint.hash,
            size: transmit.size.count() as u16,
            ecn: transmit.ecn,
            dscp: endpoint.dscp,
        }
    }

    /// Tells relays of the clients that have come; the first one has the aggregate opened.
    #[cold]
    fn admit_newcomers(&mut self) {
        for newcomer in std::mem::take(&mut self.endpoints.newcomers) {
            let Newcomer { relay: place, near, far, .. } = newcomer;
            let Flow { generator: Generator::Relay(relay), setup: Some(setup), counts, .. } =
                &mut self.flows[place as usize]
            else {
                continue;
            };
            if relay.sender().is_none() {
                let mut sockets = SimulatedSockets {
                    now: self.fabric.now,
                    setup,
                    counts,
                    endpoints: &mut self.endpoints,
                    fabric: &mut self.fabric,
                };
                let join = sockets.open();
                relay.open([join, peer_of(join)]);
                self.endpoints.sit(join, Seat { part: Part::Join, relay: place });
                self.endpoints.sit(peer_of(join), Seat { part: Part::Split, relay: place });
            }
            let uid = relay.admit(&newcomer);
            self.endpoints.sit(near, Seat { part: Part::Near(uid), relay: place });
            self.endpoints.sit(far, Seat { part: Part::Far(uid), relay: place });
        }
    }

    fn pump_touched(&mut self) {
        if !self.endpoints.newcomers.is_empty() {
            self.admit_newcomers();
        }
        // In the order in which the application touched them.
        for at in 0..self.endpoints.touched.len() {
            self.pump(self.endpoints.touched[at]);
        }
        self.endpoints.touched.clear();
    }

    /// Sends what an endpoint has to send, and sees that its timer runs.
    fn pump(&mut self, number: u32) {
        let now = self.fabric.now;
        loop {
            let endpoint = &mut self.endpoints.all[number as usize];
            let Some(transmit) = endpoint.connection.poll_segment(now) else { break };
            let (node, seat, flow) = (endpoint.node as usize, endpoint.seat, endpoint.flow);
            let handle = self.packet(number, transmit);
            let flow = &mut self.flows[flow as usize];
            if node == flow.from {
                flow.counts.on_departure(handle.size);
            }
            if seat.part != Part::Host && !self.leaves(seat, handle) {
                continue;
            }
            if !self.captures.is_empty() {
                self.show(node, &handle);
            }
            self.fabric.send(node, handle);
        }
        let endpoint = &self.endpoints.all[number as usize];
        if let Some(due) = endpoint.connection.next_timer() {
            self.fabric.schedule.set_by(endpoint.object, due.max(now));
        }
    }

    fn look(&mut self) {
        let next =
            self.probe.look(&self.scene.links, &mut self.fabric, &mut self.flows, &self.endpoints);
        self.fabric.schedule.set(self.fabric.probe_object(), next);
    }

    fn on_flow(&mut self, index: usize) {
        let now = self.fabric.now;
        let flow = &mut self.flows[index];
        match &flow.generator {
            Generator::Datagrams(_) => return self.send_datagram(index),
            Generator::Udt(_) => return self.progress_udt(index),
            Generator::Relay(_) => return,
            Generator::Connections(_) => {}
        }
        let is_first = !std::mem::replace(&mut flow.is_started, true);
        let is_over = now >= flow.stop;
        flow.is_stopped |= is_over;
        let stop = flow.stop;
        self.with_application(index, |application, sockets| {
            if is_first {
                application.start(sockets);
            } else if is_over {
                application.stop(sockets);
            } else if application.next_timer().is_some_and(|due| due <= now) {
                application.on_timer(sockets);
            }
        });
        self.pump_touched();
        let flow = &self.flows[index];
        let stop = (!flow.is_stopped && stop < Time::MAX).then_some(stop);
        let next = [flow.generator.next_timer(), stop].into_iter().flatten().min();
        let object = self.fabric.flow_object(index);
        self.fabric.schedule.rearm(object, next);
    }

    fn send_datagram(&mut self, index: usize) {
        let now = self.fabric.now;
        let flow = &mut self.flows[index];
        flow.counts.on_departure(flow.next_size);
        flow.echoes.iter_mut().for_each(|echoes| echoes.on_request(now));
        let content = Content::Udp { flow: index as u32, sent: self.fabric.now };
        let handle = Handle {
            index: self.fabric.arena.keep(content),
            to: flow.to as u32,
            hash: flow.hash,
            size: flow.next_size,
            ecn: flow.ecn,
            dscp: flow.dscp,
        };
        let from = flow.from;
        if !self.captures.is_empty() {
            self.show(from, &handle);
        }
        self.schedule_datagram(index);
        self.fabric.send(from, handle);
    }

    /// The far end of flow `index` answers an echo request, which left at `sent`.
    fn send_back(&mut self, index: u32, sent: Time, size: u16) {
        let flow = &self.flows[index as usize];
        let handle = Handle {
            index: self.fabric.arena.keep(Content::Udp { flow: index, sent }),
            to: flow.from as u32,
            // The two directions have hashes of their own, as with real addresses.
            hash: flow.hash.wrapping_add(1),
            size,
            ecn: flow.ecn,
            dscp: flow.dscp,
        };
        let at = flow.to;
        if !self.captures.is_empty() {
            self.show(at, &handle);
        }
        self.fabric.send(at, handle);
    }

    /// Both sides of a transfer by UDT send what is due.
    fn progress_udt(&mut self, index: usize) {
        loop {
            let flow = &mut self.flows[index];
            let Generator::Udt(udt) = &mut flow.generator else { return };
            let Some(message) = udt.poll(self.fabric.now) else {
                let next = udt.next_timer();
                let object = self.fabric.flow_object(index);
                return self.fabric.schedule.rearm(object, next);
            };
            let [at, to] =
                if message.is_data() { [flow.from, flow.to] } else { [flow.to, flow.from] };
            if at == flow.from {
                flow.counts.on_departure(message.size());
            }
            let handle = Handle {
                index: self.fabric.arena.keep(Content::Udt { flow: index as u32, message }),
                to: to as u32,
                // The two directions have hashes of their own, as with real addresses.
                hash: flow.hash.wrapping_add(u32::from(!message.is_data())),
                size: message.size(),
                ecn: Ecn::NotEct,
                dscp: flow.dscp,
            };
            if !self.captures.is_empty() {
                self.show(at, &handle);
            }
            self.fabric.send(at, handle);
        }
    }

    /// Has flow `index` send its next datagram when it is due.
    fn schedule_datagram(&mut self, index: usize) {
        let object = self.fabric.flow_object(index);
        let flow = &mut self.flows[index];
        let Generator::Datagrams(source) = &mut flow.generator else { return };
        let next = source.next().filter(|(at, _)| *at < flow.stop);
        flow.next_size = next.map_or(0, |(_, size)| size);
        self.fabric.schedule.rearm(object, next.map(|(at, _)| at));
    }
}
