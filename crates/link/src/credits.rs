//! Lossless links: nothing is sent that the far end has no room for.
//!
//! The credit-based flow control of InfiniBand (InfiniBand Architecture Specification, volume 1,
//! section 7.9): a receiver tells how many blocks of 64 bytes of its input buffer are free, and a
//! sender that has not credits for a whole packet waits. A packet takes its credits when it begins
//! to leave; they come back once it has left the far end's buffer and after the delay of the link:
//! at once where it has reached its host or leaves the subnet, and when its last bit has left by
//! the next link where it goes on. What is not sent waits where it came from, so that a congested
//! port fills the buffers before it, one after the other, and slows flows that do not use it
//! (*victims*; 000-spec sections 2.1 and 2.2).
//!
//! A port that has packets but no credits is *stalled*; the time is what the counter
//! `PortXmitWait` of a switch counts in ticks. A port is *congested* while what waits for it in one
//! input buffer takes more than a share of that buffer: what `PortXmitCongTime` counts (000-spec
//! 2.2). How far the one tells of the other is counted, too.
//!
//! Switches store and forward, in no time, and each output takes from its inputs in turn. Packets
//! in an input buffer wait in one queue for each output (VOQ) or in one for all (FIFO), where the
//! first holds up those behind it (*head-of-line blocking*). Where the network's routes form a
//! loop, buffers can wait for one another for ever, as they can in a real fabric.
//!
//! Ports mark and sources slow down where a link's configuration asks for it (`control`).
//!
//! Not modelled: more than one virtual lane, the bandwidth of flow control packets and how often
//! they come, cut-through, link-level retransmission.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};

use serde::{Deserialize, Serialize};
use weir_queue::{AnyQueue, Backlog, Dropped, Packet, QueueDiscipline, Random};
use weir_units::{Bytes, Rate, Time};

use crate::control::{ControlConfig, Tag, Throttle, marks_all};
use crate::server::Server;
use crate::{
    CreditCounters, DirectionConfig, LinkError, MediumCounters, PipeCounters, SharedMedium,
};

/// What one credit allows.
const BLOCK: u64 = 64;

fn blocks_of(size: Bytes) -> u64 {
    size.count().div_ceil(BLOCK)
}

/// How packets wait in an input buffer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum InputQueue {
    /// In a virtual queue for each output.
    #[default]
    Voq,
    /// In one queue, of which only the first may go on.
    Fifo,
}

/// The far end of a credit-based link. Keys end in their unit.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct CreditConfig {
    /// Its input buffer: the credits that a sender begins with.
    pub buffer_bytes: u64,
    /// How packets wait in it.
    #[serde(default)]
    pub input: InputQueue,
    /// An output is congested while more than this share of the buffer, in per cent, waits for it.
    #[serde(default = "half")]
    pub threshold_percent: u8,
    /// Whether and how the port that sends there marks; it does not if absent.
    #[serde(default)]
    pub control: Option<ControlConfig>,
}

fn half() -> u8 {
    50
}

impl CreditConfig {
    /// Whether a direction can have such a far end, its queue apart; its rate.
    ///
    /// # Errors
    /// [`LinkError`]: no rate, a buffer that does not hold one packet of `mtu`, or a key that
    /// contradicts a lossless link.
    pub fn check(&self, config: &DirectionConfig, mtu: Bytes) -> Result<Rate, LinkError> {
        let Some(rate) = config.some_rate()? else {
            let reason = "a link with credits has a rate";
            return Err(LinkError::new("rate_bps", "unlimited", reason));
        };
        if config.jitter_ns > 0 {
            let reason = "a link with credits has a constant delay";
            return Err(LinkError::new("jitter_ns", config.jitter_ns, reason));
        }
        if config.loss.is_some() {
            let reason = "a link with credits loses nothing";
            return Err(LinkError::new("loss", "given", reason));
        }
        if self.buffer_bytes / BLOCK < blocks_of(mtu) {
            let reason = format!(
                "its credits, blocks of {BLOCK} bytes, do not hold one packet of {} bytes",
                mtu.count()
            );
            return Err(LinkError::new("buffer_bytes", self.buffer_bytes, reason));
        }
        if self.control.is_some_and(|control| control.manager_ns == Some(0)) {
            return Err(LinkError::new("manager_ns", 0, "a manager looks after some time"));
        }
        Ok(rate)
    }
}

/// Packets that wait at a node for one output, in the input buffer of one port that leads there.
struct Input<P> {
    port: usize,
    waiting: VecDeque<(P, Tag)>,
    /// What of the buffer is taken, the packet that is being sent among it.
    blocks: u64,
    /// How much has come so far.
    passed: u64,
    /// At the manager's last look, how long the port there had waited, and what had gone elsewhere.
    before: (Time, u64),
}

/// What a port is, as far as its counters go, and since when.
#[derive(Clone, Copy, Debug, Default)]
struct State {
    since: Time,
    is_stalled: bool,
    /// It has not waited for credits since it became congested: it is where congestion begins.
    is_root: bool,
    /// How many outputs at the far end have a part of the buffer there that is above the threshold.
    over_beyond: u32,
    /// How many input buffers here have a part for this output that is above the threshold.
    over_here: u32,
    /// How many of the ports that lead here are stalled.
    stalled_before: u32,
}

impl State {
    /// What `counters` are at `now`, if nothing has changed since.
    fn count(&self, mut counters: CreditCounters, now: Time) -> CreditCounters {
        let span = now - self.since;
        let add = |is: bool, time: &mut Time| {
            if is {
                *time = time.saturating_add(span);
            }
        };
        let is_congested = self.over_here > 0;
        add(self.is_stalled, &mut counters.stalled);
        add(self.is_stalled && self.over_beyond > 0, &mut counters.stalled_at_congestion);
        add(is_congested, &mut counters.congested);
        add(is_congested && self.stalled_before > 0, &mut counters.congested_and_seen);
        counters
    }
}

/// The sending end of one direction, and the buffer at its far end.
struct Port<P> {
    from: usize,
    to: usize,
    server: Server,
    delay: Time,
    is_sending: bool,
    /// Packets that begin their way through the subnet here; the first has left the queue.
    queue: AnyQueue<P>,
    head: Option<P>,
    held_until: Time,
    /// The queue's timer, as far as it is among the events.
    timer: Option<Time>,
    inputs: Vec<Input<P>>,
    /// The input that is served next; behind them all, the head.
    turn: usize,
    line: VecDeque<(P, Tag)>,
    /// Blocks that the far end has room for, as far as is known here.
    credits: u64,
    /// Above how many blocks for one output the buffer at the far end makes that congested.
    threshold: u64,
    /// The ports of the node at the far end, where what is in the buffer there goes on.
    outputs: Vec<usize>,
    /// Outputs of what waits in a FIFO at the far end, in order.
    order: Option<VecDeque<usize>>,
    state: State,
    counters: PipeCounters,
    stalls: CreditCounters,
    throttle: Throttle,
    control: Option<ControlConfig>,
    /// The manager has it mark every packet.
    marks_all: bool,
    /// Packets passed since it marked one.
    unmarked: u16,
    /// How long it had been congested at the manager's last look.
    congested_before: Time,
}

/// What falls due; of those of one instant, that which was scheduled first comes first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Event {
    /// The last bit of a packet of so many blocks has left the port; it came by that input.
    Sent { port: usize, input: Option<usize>, blocks: u64 },
    /// A packet has come out at the far end.
    Arrived { port: usize },
    /// Credits have come back.
    Credit { port: usize, blocks: u64 },
    /// A timer of the queue.
    Timer { port: usize },
    /// The pause after a source's packet is over.
    Pause { port: usize },
    /// Word has come to a source of a packet that was marked.
    Told { port: usize },
    /// The manager looks.
    Look,
}

/// All links of one lossless network, whose nodes are the caller's and known by number.
pub struct Subnet<P> {
    ports: Vec<Port<P>>,
    events: BinaryHeap<Reverse<(Time, u64, Event)>>,
    sequence: u64,
    arrived: VecDeque<(Time, usize, P, Tag)>,
    /// What goes with the packet that was released last, until it is known where that goes on.
    in_hand: Tag,
    dropped: Vec<Dropped<P>>,
    /// How often the manager looks, and whether a look is among the events.
    manager: Option<Time>,
    is_watched: bool,
}

impl<P> Default for Subnet<P> {
    fn default() -> Self {
        Self {
            ports: Vec::new(),
            events: BinaryHeap::new(),
            sequence: 0,
            arrived: VecDeque::new(),
            in_hand: Tag::default(),
            dropped: Vec::new(),
            manager: None,
            is_watched: false,
        }
    }
}

impl<P: Packet + Send + 'static> Subnet<P> {
    /// One direction of a link more, from one node to another; returns its port's number.
    ///
    /// # Errors
    /// What [`CreditConfig::check`] refuses, and a wrong queue.
    pub fn add_port(
        &mut self,
        ends: (usize, usize),
        config: &DirectionConfig,
        credits: &CreditConfig,
        mtu: Bytes,
        random: impl Fn(&str) -> Random,
    ) -> Result<usize, LinkError> {
        let rate = credits.check(config, mtu)?;
        self.ports.push(Port {
            from: ends.0,
            to: ends.1,
            server: Server::new(Some(rate)),
            delay: Time::from_ns(config.delay_ns),
            is_sending: false,
            queue: config.build_queue(mtu, &random)?,
            head: None,
            held_until: Time::ZERO,
            timer: None,
            inputs: Vec::new(),
            turn: 0,
            line: VecDeque::new(),
            credits: credits.buffer_bytes / BLOCK,
            threshold: credits.buffer_bytes / BLOCK * u64::from(credits.threshold_percent) / 100,
            outputs: Vec::new(),
            order: (credits.input == InputQueue::Fifo).then(VecDeque::new),
            state: State::default(),
            counters: PipeCounters::default(),
            stalls: CreditCounters::default(),
            throttle: Throttle::default(),
            control: credits.control,
            marks_all: false,
            unmarked: 0,
            congested_before: Time::ZERO,
        });
        let every = credits.control.and_then(|control| control.manager_ns).map(Time::from_ns);
        self.manager = self.manager.into_iter().chain(every).min();
        let new = self.ports.len() - 1;
        self.join(new);
        Ok(new)
    }

    /// Joins the inputs and outputs of the nodes at both ends of a new port.
    fn join(&mut self, new: usize) {
        let (from, to) = (self.ports[new].from, self.ports[new].to);
        for port in 0..=new {
            if self.ports[port].to == from {
                self.lead(port, new);
            }
            if self.ports[port].from == to {
                self.lead(new, port);
            }
        }
    }

    /// What comes by one port may go on by another.
    fn lead(&mut self, input: usize, output: usize) {
        let inputs = &mut self.ports[output].inputs;
        inputs.push(Input {
            port: input,
            waiting: VecDeque::new(),
            blocks: 0,
            passed: 0,
            before: (Time::ZERO, 0),
        });
        self.ports[input].outputs.push(output);
    }
}

impl<P: Packet> SharedMedium<P> for Subnet<P> {
    fn arrive(&mut self, port: usize, packet: P, now: Time) {
        self.advance(now);
        self.count_in(port, packet.size());
        let at = &mut self.ports[port];
        at.held_until = Time::ZERO;
        at.queue.enqueue(packet, now, &mut self.dropped);
        self.serve(port, now);
        self.watch(port);
        self.have_watched(now);
    }

    fn pass(&mut self, input: usize, port: usize, packet: P, now: Time) {
        self.advance(now);
        self.count_in(port, packet.size());
        let found = self.ports[port].inputs.iter().position(|known| known.port == input);
        let Some(index) = found else {
            debug_assert!(false, "port {port} does not begin where port {input} ends");
            return;
        };
        self.fill(port, index, blocks_of(packet.size()), now);
        let tag = self.in_hand;
        self.ports[port].inputs[index].waiting.push_back((packet, tag));
        if let Some(order) = &mut self.ports[input].order {
            order.push_back(port);
        }
        self.serve(port, now);
    }

    fn leave(&mut self, port: usize, size: Bytes, now: Time) {
        self.give_back(port, blocks_of(size), now);
        let Tag { source, back, is_marked } = self.in_hand;
        if is_marked {
            self.schedule(now.saturating_add(back), Event::Told { port: source });
        }
    }

    fn advance(&mut self, now: Time) {
        while let Some(&Reverse((at, _, event))) = self.events.peek().filter(|e| e.0.0 <= now) {
            self.events.pop();
            match event {
                Event::Sent { port, input, blocks } => self.on_sent(port, input, blocks, at),
                Event::Arrived { port } => {
                    let packet = self.ports[port].line.pop_front();
                    self.arrived.extend(packet.map(|(packet, tag)| (at, port, packet, tag)));
                }
                Event::Credit { port, blocks } => {
                    self.ports[port].credits += blocks;
                    self.serve(port, at);
                }
                Event::Timer { port } => self.on_timer(port, at),
                Event::Pause { port } => self.serve(port, at),
                Event::Told { port } => {
                    self.ports[port].throttle.told(at);
                    self.ports[port].stalls.told += 1;
                }
                Event::Look => self.on_look(at),
            }
        }
    }

    fn release(&mut self, now: Time) -> Option<(usize, P)> {
        if self.arrived.front()?.0 > now {
            return None;
        }
        let (_, port, packet, tag) = self.arrived.pop_front()?;
        self.in_hand = tag;
        let counters = &mut self.ports[port].counters;
        counters.packets_out += 1;
        counters.bytes_out += packet.size();
        Some((port, packet))
    }

    fn next_wake(&self) -> Option<Time> {
        let arrived = self.arrived.front().map(|(at, ..)| *at);
        let event = self.events.peek().map(|event| event.0.0);
        [arrived, event].into_iter().flatten().min()
    }

    /// Only queues before the subnet drop.
    fn discarded(&mut self) -> Option<P> {
        self.dropped.pop().map(|dropped| dropped.packet)
    }

    fn counters(&self, port: usize) -> &PipeCounters {
        &self.ports[port].counters
    }

    fn special(&self, port: usize, now: Time) -> MediumCounters {
        let Port { stalls, state, .. } = &self.ports[port];
        MediumCounters::Credits(state.count(*stalls, now))
    }

    /// In its queue, and in the input buffers of its node.
    fn backlog(&self, port: usize) -> Backlog {
        let at = &self.ports[port];
        let passing = at.inputs.iter().flat_map(|input| &input.waiting).map(|(packet, _)| packet);
        let elsewhere = passing.chain(&at.head);
        let one = |packet: &P| Backlog { packets: 1, bytes: packet.size() };
        [at.queue.backlog()].into_iter().chain(elsewhere.map(one)).sum()
    }

    fn queue(&self, port: usize) -> &dyn QueueDiscipline<P> {
        &self.ports[port].queue
    }
}

impl<P: Packet> Subnet<P> {
    fn count_in(&mut self, port: usize, size: Bytes) {
        let counters = &mut self.ports[port].counters;
        counters.packets_in += 1;
        counters.bytes_in += size;
    }

    /// Lets the counters of a port run up to `now`, before something of its state changes.
    fn settle(&mut self, port: usize, now: Time) -> &mut State {
        let Port { state, stalls, .. } = &mut self.ports[port];
        *stalls = state.count(*stalls, now);
        state.since = now;
        state
    }

    /// A port begins or ends to be stalled.
    fn set_stalled(&mut self, port: usize, is_stalled: bool, now: Time) {
        if self.ports[port].state.is_stalled == is_stalled {
            return;
        }
        let state = self.settle(port, now);
        state.is_stalled = is_stalled;
        state.is_root &= !is_stalled;
        self.ports[port].stalls.stalls += u64::from(is_stalled);
        for number in 0..self.ports[port].outputs.len() {
            let output = self.ports[port].outputs[number];
            let before = &mut self.settle(output, now).stalled_before;
            *before = if is_stalled { *before + 1 } else { *before - 1 };
        }
    }

    /// More waits for `port` in one of the input buffers.
    fn fill(&mut self, port: usize, index: usize, blocks: u64, now: Time) {
        let Input { port: input, blocks: filled, .. } = &mut self.ports[port].inputs[index];
        let (input, before) = (*input, *filled);
        *filled += blocks;
        self.ports[port].inputs[index].passed += blocks;
        let threshold = self.ports[input].threshold;
        if before <= threshold && before + blocks > threshold {
            let state = self.settle(port, now);
            state.is_root = if state.over_here == 0 { !state.is_stalled } else { state.is_root };
            state.over_here += 1;
            self.settle(input, now).over_beyond += 1;
        }
    }

    /// A packet for `port` has left the buffer of `input`.
    fn drain(&mut self, port: usize, input: usize, blocks: u64, now: Time) {
        let found = self.ports[port].inputs.iter_mut().find(|known| known.port == input);
        let Some(Input { blocks: filled, .. }) = found else { return };
        let before = *filled;
        *filled -= blocks;
        let threshold = self.ports[input].threshold;
        if before > threshold && before - blocks <= threshold {
            self.settle(port, now).over_here -= 1;
            self.settle(input, now).over_beyond -= 1;
        }
    }

    fn schedule(&mut self, at: Time, event: Event) {
        self.sequence += 1;
        self.events.push(Reverse((at, self.sequence, event)));
    }

    fn give_back(&mut self, port: usize, blocks: u64, now: Time) {
        let at = now.saturating_add(self.ports[port].delay);
        self.schedule(at, Event::Credit { port, blocks });
    }

    /// Sees that the queue's timer is among the events.
    fn watch(&mut self, port: usize) {
        let at = &mut self.ports[port];
        let due = at.queue.next_event();
        if let Some(due) = due.filter(|&due| at.timer.is_none_or(|timer| due < timer)) {
            at.timer = Some(due);
            self.schedule(due, Event::Timer { port });
        }
    }

    fn on_sent(&mut self, port: usize, input: Option<usize>, blocks: u64, at: Time) {
        self.ports[port].is_sending = false;
        let arrival = at.saturating_add(self.ports[port].delay);
        self.schedule(arrival, Event::Arrived { port });
        let Some(input) = input else { return self.serve(port, at) };
        self.drain(port, input, blocks, at);
        self.give_back(input, blocks, at);
        let order = self.ports[input].order.as_mut();
        let behind = order.and_then(|order| {
            order.pop_front();
            order.front().copied()
        });
        self.serve(port, at);
        if let Some(other) = behind.filter(|&other| other != port) {
            self.serve(other, at);
        }
    }

    fn on_timer(&mut self, port: usize, at: Time) {
        let sending = &mut self.ports[port];
        if sending.timer == Some(at) {
            sending.timer = None;
        }
        if sending.queue.next_event().is_some_and(|due| due <= at) {
            sending.queue.on_timer(at, &mut self.dropped);
            sending.held_until = Time::ZERO;
        }
        self.serve(port, at);
        self.watch(port);
    }

    /// Begins to send the next packet of `port`, if it is free, has one and has the credits.
    fn serve(&mut self, port: usize, now: Time) {
        if self.ports[port].is_sending {
            return;
        }
        let Some((source, size)) = self.next_source(port, now) else { return };
        let blocks = blocks_of(size);
        let has_credits = self.ports[port].credits >= blocks;
        self.set_stalled(port, !has_credits, now);
        if !has_credits {
            return;
        }
        let is_marked = self.marks(port);
        let at = &mut self.ports[port];
        let (input, packet) = match at.inputs.get_mut(source) {
            Some(input) => (Some(input.port), input.waiting.pop_front()),
            None => {
                let tag = Tag { source: port, ..Tag::default() };
                (None, at.head.take().map(|packet| (packet, tag)))
            }
        };
        at.line.extend(packet.map(|(packet, tag)| {
            let back = tag.back.saturating_add(at.delay);
            (packet, Tag { back, is_marked: tag.is_marked || is_marked, ..tag })
        }));
        at.credits -= blocks;
        at.turn = (source + 1) % (at.inputs.len() + 1);
        at.is_sending = true;
        let sent = at.server.send(now, size);
        let until = if input.is_none() { at.throttle.sent(now, sent) } else { sent };
        self.schedule(sent, Event::Sent { port, input, blocks });
        if until > sent {
            self.schedule(until, Event::Pause { port });
        }
        self.watch(port);
    }

    /// Whether the packet that leaves by `port` now is marked.
    fn marks(&mut self, port: usize) -> bool {
        let at = &self.ports[port];
        let Some(control) = at.control.filter(|_| at.state.over_here > 0) else { return false };
        let Some(rate) = at.marks_all.then_some(0).or(control.marking_rate) else { return false };
        // A port that waits for credits is a victim itself, unless it waits for a host.
        if !at.state.is_root && !self.is_last(port) {
            return false;
        }
        let at = &mut self.ports[port];
        let is_due = at.unmarked >= rate;
        at.unmarked = if is_due { 0 } else { at.unmarked + 1 };
        at.stalls.marked += u64::from(is_due);
        is_due
    }

    /// Whether no port beyond this one marks (`Victim_Mask` of the ports to hosts).
    fn is_last(&self, port: usize) -> bool {
        let at = &self.ports[port];
        let beyond = at.outputs.iter().map(|&output| &self.ports[output]);
        beyond.filter(|next| next.to != at.from).all(|next| next.control.is_none())
    }

    /// Sees that the manager's next look is among the events, if there is a manager.
    fn have_watched(&mut self, now: Time) {
        let Some(every) = self.manager.filter(|_| !self.is_watched) else { return };
        self.is_watched = true;
        let looks = now.as_ns() / every.as_ns() + 1;
        self.schedule(Time::from_ns(looks.saturating_mul(every.as_ns())), Event::Look);
    }

    /// The manager looks at every port. It looks again unless nothing is under way.
    fn on_look(&mut self, now: Time) {
        for port in 0..self.ports.len() {
            if self.ports[port].control.is_some_and(|control| control.manager_ns.is_some()) {
                self.look(port, now);
            }
        }
        self.is_watched = false;
        let marks = self.ports.iter().any(|port| port.marks_all);
        if marks || !self.events.is_empty() || !self.arrived.is_empty() {
            self.have_watched(now);
        }
    }

    /// Decides whether `port` is to mark every packet.
    fn look(&mut self, port: usize, now: Time) {
        let mut has_victim = false;
        for index in 0..self.ports[port].inputs.len() {
            let Input { port: input, before, .. } = self.ports[port].inputs[index];
            let leading = &self.ports[input];
            let waited = leading.state.count(leading.stalls, now).stalled;
            let others = leading.outputs.iter().filter(|&&output| output != port);
            let passed = |&output: &usize| self.passed(input, output);
            let elsewhere: u64 = others.map(passed).sum();
            has_victim |= waited > before.0 && elsewhere > before.1;
            self.ports[port].inputs[index].before = (waited, elsewhere);
        }
        let at = &mut self.ports[port];
        let congested = at.state.count(at.stalls, now).congested;
        at.marks_all = marks_all(at.marks_all, congested > at.congested_before, has_victim);
        at.congested_before = congested;
    }

    /// How much has come by `input` for `output`, in blocks.
    fn passed(&self, input: usize, output: usize) -> u64 {
        let found = self.ports[output].inputs.iter().find(|known| known.port == input);
        found.map_or(0, |known| known.passed)
    }

    /// Whose turn it is among those that have a packet, and its size.
    fn next_source(&mut self, port: usize, now: Time) -> Option<(usize, Bytes)> {
        let at = &mut self.ports[port];
        while at.head.is_none() && !at.queue.backlog().is_empty() && at.held_until <= now {
            at.head = at.queue.dequeue(now, &mut self.dropped);
            if at.head.is_none() {
                at.held_until = at.queue.next_event().unwrap_or(Time::MAX);
            }
        }
        let at = &self.ports[port];
        let sources = at.inputs.len() + 1;
        (0..sources).map(|step| (at.turn + step) % sources).find_map(|source| {
            let first = match at.inputs.get(source) {
                Some(input) if self.is_first(input.port, port) => {
                    input.waiting.front().map(|(packet, _)| packet)
                }
                Some(_) => None,
                None => at.head.as_ref().filter(|_| at.throttle.may_send(now)),
            };
            first.map(|packet| (source, packet.size()))
        })
    }

    /// Whether what waits in the buffer of `input` for `port` may be looked at.
    fn is_first(&self, input: usize, port: usize) -> bool {
        let order = self.ports[input].order.as_ref();
        order.is_none_or(|order| order.front() == Some(&port))
    }
}
