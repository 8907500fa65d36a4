//! The end that accepts clients and joins them (the work's join-proxy).

use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::io;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use socket2::{Domain, Protocol, SockAddr, Socket, Type};

use crate::RelayError;
use crate::aggregate::{End, Gone, STOPPED, Shared, broken_by};
use crate::announced::{Stage, plain};
use crate::control::{Control, TICK, Worker, locked};
use crate::flow::{Flow, Side};
use crate::hold::{Hold, Kept};
use crate::poll::Poll;
use crate::settings::{JoinSettings, LinkedAck, Network, Weights};
use crate::socket::{self, Listener};
use crate::status::Status;
use crate::words::words;
use weir_aggregate::frame::{Uid, UidPool};
use weir_aggregate::linked_ack::{Linked, Pooled};
use weir_aggregate::message::{Message, Reason};

/// The key of the listening socket's events.
const LISTENER: u64 = 2 << 32;
/// How long the split end may take to answer.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(2);
/// How long it may take to say that it will tell what servers acknowledge.
const PROMISE_TIMEOUT: Duration = Duration::from_secs(20);
/// One in so many of all connections that may be joined is kept for those who are connecting when
/// new ones begin to go by themselves.
const KEPT_FREE: usize = 64;
/// Between two attempts to reach it: the first pause, and the longest.
const PAUSES: (Duration, Duration) = (Duration::from_millis(100), Duration::from_secs(2));

/// A relay's end towards clients, in a thread of its own. It ends when this is dropped; its clients
/// then are reset.
pub struct Join {
    worker: Worker,
    address: SocketAddr,
    weights: Arc<Wanted>,
}

/// Weights as the owner wants them, until the thread has taken them over.
struct Wanted {
    weights: Mutex<Weights>,
    is_new: AtomicBool,
}

impl Join {
    /// Listens and begins. The split end need not be there yet: it is tried again and again, and
    /// clients are reset until it answers.
    ///
    /// # Errors
    ///
    /// [`RelayError::System`]: the address cannot be listened at, or acknowledgements not be held.
    pub fn start(settings: JoinSettings) -> Result<Self, RelayError> {
        socket::check_congestion(settings.congestion.as_deref())?;
        let hold = match settings.linked_ack {
            LinkedAck::Strict(filter) | LinkedAck::Literal(filter) => Some(Hold::new(filter)?),
            LinkedAck::Off | LinkedAck::Told => None,
        };
        let is_transparent = settings.server.is_none() && settings.announced.is_none();
        let gate = Gate::new(settings.at_most, is_transparent);
        let listener = match hold.as_ref().map(Hold::mark) {
            None if settings.announced.is_none() => {
                socket::listen_for_clients(settings.listen, is_transparent)?
            }
            // The filter knows connections of one path, and so does a controller.
            mark => socket::listen(settings.listen, is_transparent, mark, None)?,
        };
        let address = local(&listener).map_err(RelayError::system("listening"))?;
        let weights = Mutex::new(settings.weights.clone());
        let weights = Arc::new(Wanted { weights, is_new: AtomicBool::new(false) });
        let wanted = Arc::clone(&weights);
        let control = Control::new()?;
        let listener = RefCell::new(Listener::new(listener));
        let worker = Worker::start("weir-join", control, move |control| {
            Runner { settings, listener, address, wanted, hold, gate }.run(control)
        })?;
        Ok(Self { worker, address, weights })
    }

    /// Where clients connect.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// What has happened.
    pub fn status(&self) -> Status {
        self.worker.status()
    }

    /// Gives clients other weights, those that are there and those to come.
    pub fn set_weights(&self, weights: Weights) {
        *locked(&self.weights.weights) = weights;
        self.weights.is_new.store(true, Ordering::Release);
        self.worker.control.wake();
    }

    /// Whether it has ended by itself.
    pub fn is_over(&self) -> bool {
        self.worker.is_over()
    }

    /// Ends it.
    ///
    /// # Errors
    ///
    /// Why it had ended by itself, if it had.
    pub fn stop(&mut self) -> Result<(), RelayError> {
        self.worker.stop()
    }
}

struct Runner {
    settings: JoinSettings,
    listener: RefCell<Listener>,
    address: SocketAddr,
    wanted: Arc<Wanted>,
    /// What holds acknowledgements back, if anything does.
    hold: Option<Hold>,
    gate: Gate,
}

/// Whether clients that a router gives us are taken, or go to their servers by themselves, since
/// there is next to no room.
struct Gate {
    at_most: usize,
    is_transparent: bool,
    is_open: Cell<bool>,
}

impl Gate {
    fn new(at_most: usize, is_transparent: bool) -> Self {
        Self { at_most, is_transparent, is_open: Cell::new(true) }
    }

    /// What it is to be with so many connections, if that is another than it is.
    fn turns(&self, connections: usize) -> Option<bool> {
        let free = self.at_most.saturating_sub(connections);
        let kept = (self.at_most / KEPT_FREE).max(1);
        let is_open = self.is_open.get();
        let is_to_be = if is_open { free > kept } else { free > 2 * kept };
        (self.is_transparent && is_to_be != is_open).then_some(is_to_be)
    }
}

impl Runner {
    fn run(&self, control: &Control) -> Result<(), RelayError> {
        let mut pause = PAUSES.0;
        while !control.is_stopped() {
            let before = control.status().clone();
            let begun = self
                .connect()
                .map_err(RelayError::system("the split end cannot be reached"))
                .and_then(|it| Shared::new(it, before, self.settings.heard_within));
            match begun {
                Ok(shared) => {
                    *control.status() = self.serve(control, shared)?;
                    self.open_gate()?;
                    pause = PAUSES.0;
                }
                Err(error) => {
                    control.status().tell(format!("{}: {error}", self.settings.split));
                    pause = (pause * 2).min(PAUSES.1);
                }
            }
            self.refuse(control, pause)?;
        }
        Ok(())
    }

    /// Nobody is joined any more, and so there is room.
    fn open_gate(&self) -> Result<(), RelayError> {
        if self.gate.is_open.replace(true) {
            return Ok(());
        }
        socket::set_transparent(self.listener.borrow().socket(), self.address, true)
            .map_err(RelayError::system("taking clients again"))
    }

    fn connect(&self) -> io::Result<Socket> {
        let split = self.settings.split;
        let congestion = self.settings.congestion.as_deref();
        let socket = Socket::new(Domain::for_address(split), Type::STREAM, Some(Protocol::TCP))?;
        // Whoever began with this host's default may keep something of it: where that is BBR, the
        // kernel goes on to pace.
        socket::set_congestion(&socket, congestion)?;
        socket.connect_timeout(&SockAddr::from(split), CONNECT_TIMEOUT)?;
        socket::prepare_aggregate(&socket, congestion, self.settings.heard_within)?;
        Ok(socket)
    }

    /// Joins clients until the aggregate breaks, or we are told to stop.
    fn serve(&self, control: &Control, mut shared: Shared) -> Result<Status, RelayError> {
        shared.poll.add(self.listener.borrow().socket(), LISTENER)?;
        control.join(&shared.poll)?;
        let mut clients = Clients::new(self, &mut shared);
        let mut looked = Instant::now();
        loop {
            let events = shared.wait(TICK)?;
            if control.is_stopped() {
                return Ok(shared.reset_all(&RelayError::Aggregate(io::Error::other(STOPPED))));
            }
            let is_time = looked.elapsed() >= TICK;
            // Whom there were no descriptors for, no event tells of again.
            if is_time || events.iter().any(|event| event.key == LISTENER) {
                clients.accept(&mut shared)?;
            }
            if self.wanted.is_new.swap(false, Ordering::Acquire) {
                self.weigh(&mut shared);
            }
            let served = shared
                .serve(&mut clients, &events)
                .and_then(|()| shared.is_greeted_in_time())
                .and_then(|()| clients.is_promised());
            if let Err(error) = served {
                let mut status = shared.reset_all(&error);
                status.tell(format!("{}: {}", self.settings.split, clients.told_of(&error)));
                return Ok(status);
            }
            if is_time {
                looked = Instant::now();
                clients.release_again(&mut shared);
                clients.turn_gate(&mut shared);
            }
            control.answer(|| shared.status());
        }
    }

    /// Resets clients that come while there is no aggregate: nobody is kept waiting in vain.
    fn refuse(&self, control: &Control, pause: Duration) -> Result<(), RelayError> {
        let mut poll = Poll::new()?;
        poll.add(self.listener.borrow().socket(), LISTENER)?;
        control.join(&poll)?;
        let begun = Instant::now();
        while !control.is_stopped() && begun.elapsed() < pause {
            poll.wait(pause.saturating_sub(begun.elapsed()).min(TICK))?;
            control.answer_as_told();
            while let Some((client, from)) = self.came(|why| control.status().note(why)) {
                socket::reset(&client);
                control.status().note(format!("{from}: there is no aggregate"));
            }
        }
        Ok(())
    }

    /// Who has come, if anybody has.
    fn came(&self, turned_away: impl FnMut(String)) -> Option<(Socket, SocketAddr)> {
        self.listener.borrow_mut().accept(turned_away)
    }

    fn weigh(&self, shared: &mut Shared) {
        let weights = locked(&self.wanted.weights).clone();
        for (uid, flow) in &mut shared.flows {
            flow.weight = weights.of(flow.client.ip());
            shared.turns.set_weight(*uid, flow.weight);
        }
    }

    /// Where a client is on its way to; or why it may not.
    fn server(&self, client: &Socket, from: SocketAddr) -> Result<SocketAddr, &'static str> {
        if let Some(announced) = &self.settings.announced {
            return Ok(announced.of(from).ok_or("no controller has announced it")?.server);
        }
        let forbidden = Reason::Forbidden.as_str();
        let server = self.settings.server.or_else(|| local(client).ok()).ok_or(forbidden)?;
        // Who means us would be sent to us again, and again.
        let is_us = server.port() == self.address.port() && self.settings.server.is_none();
        if is_us { Err(forbidden) } else { Ok(server) }
    }
}

/// What is known of a UID that was given out.
#[derive(Clone, Copy, Debug)]
struct Life {
    client: SocketAddr,
    /// What the filter is to forget when it is gone here.
    kept: Option<Kept>,
    is_gone_here: bool,
    is_gone_there: bool,
}

/// The clients of an aggregate.
struct Clients<'a> {
    runner: &'a Runner,
    uids: UidPool,
    lives: HashMap<Uid, Life>,
    /// How many of them each client has, where that is bounded.
    counts: HashMap<Network, usize>,
    /// Since when the split end has been asked to tell what servers acknowledge; none once it has
    /// said that it will, and where it need not.
    asked: Option<Instant>,
    /// Flows whose client the kernel would not have told of what is released.
    untold: Vec<Uid>,
}

impl<'a> Clients<'a> {
    fn new(runner: &'a Runner, shared: &mut Shared) -> Self {
        let is_linked = runner.settings.linked_ack != LinkedAck::Off;
        if is_linked {
            shared.tell(Message::TellAcknowledged);
        }
        let is_pooled = matches!(runner.settings.linked_ack, LinkedAck::Literal(_));
        shared.pooled = is_pooled.then(Pooled::default);
        let (uids, lives, untold) = (UidPool::default(), HashMap::new(), Vec::new());
        let counts = HashMap::new();
        if let Some(announced) = &runner.settings.announced {
            announced.note_all_gone(); // Those of the aggregate before.
        }
        Self { runner, uids, lives, counts, asked: is_linked.then(Instant::now), untold }
    }

    /// Whether the split end has said in time that it will tell what servers acknowledge.
    fn is_promised(&self) -> Result<(), RelayError> {
        match self.asked {
            Some(asked) if asked.elapsed() > PROMISE_TIMEOUT => {
                Err(RelayError::Protocol("it does not answer".into()))
            }
            _ => Ok(()),
        }
    }

    /// Why the aggregate ended.
    fn told_of(&self, error: &RelayError) -> String {
        match self.asked {
            None => error.to_string(),
            Some(_) => format!(
                "{error}; it was asked to tell what servers acknowledge and has not said that it \
                 will: one that is older cannot"
            ),
        }
    }

    fn accept(&mut self, shared: &mut Shared) -> Result<(), RelayError> {
        while let Some((client, from)) = self.runner.came(|why| shared.status.note(why)) {
            let gate = &self.runner.gate;
            if gate.is_transparent && !gate.is_open.get() {
                // It was connecting when the gate was shut, and has that from the listener.
                let _ = socket::set_transparent(&client, self.runner.address, true);
            }
            let server = match self.runner.server(&client, from) {
                Ok(server) => server,
                Err(why) => {
                    socket::reset(&client);
                    shared.status.note(format!("{from}: {why}"));
                    continue;
                }
            };
            let uid = match self.uid(from) {
                Ok(uid) => uid,
                Err(why) => {
                    socket::reset(&client);
                    shared.status.note(format!("{from}: {why}"));
                    continue;
                }
            };
            let kept = match self.keep(&client, from) {
                Ok(kept) => kept,
                Err(why) => {
                    self.give_back(uid, from);
                    socket::reset(&client);
                    shared.status.note(format!("{from}: {why}"));
                    continue;
                }
            };
            if let Some(announced) = &self.runner.settings.announced {
                announced.note(from, uid, Stage::Here);
            }
            socket::notice_silence(&client, self.runner.settings.gone_after);
            let _ = client.set_tcp_nodelay(true);
            let weight = locked(&self.runner.wanted.weights).of(from.ip());
            let (is_gone_here, is_gone_there) = (false, false);
            self.lives.insert(uid, Life { client: from, kept, is_gone_here, is_gone_there });
            shared.tell(Message::Open { uid, client: plain(from), server });
            let mut flow = Flow::new(client, [from, server], weight, Side::Client);
            let is_linked = self.runner.settings.linked_ack != LinkedAck::Off;
            flow.linked = is_linked.then(Linked::default);
            flow.pooled = shared.pooled.is_some().then_some(0);
            flow.is_held = self.runner.hold.is_some();
            shared.add(uid, flow)?;
            self.turn_gate(shared);
        }
        Ok(())
    }

    /// Has new clients go to their servers by themselves, or come again, as there is room.
    fn turn_gate(&self, shared: &mut Shared) {
        let Runner { gate, listener, address, .. } = self.runner;
        let Some(is_open) = gate.turns(self.lives.len()) else { return };
        let words = match socket::set_transparent(listener.borrow().socket(), *address, is_open) {
            Ok(()) if is_open => "there is room again: new connections are joined".into(),
            Ok(()) => "next to full: new connections go to their servers by themselves".into(),
            Err(error) => format!("new connections are not let by: {}", words(&error)),
        };
        gate.is_open.set(is_open);
        shared.status.tell(words);
    }

    /// The number of a client's flow; or why there is none for it.
    fn uid(&mut self, from: SocketAddr) -> Result<Uid, String> {
        let full = || Reason::Full.as_str().to_owned();
        if let Some(announced) = &self.runner.settings.announced {
            // What is left of the connection before may be on its way.
            let announced = announced.of(from).filter(|what| !self.lives.contains_key(&what.uid));
            return announced.map(|what| what.uid).ok_or_else(full);
        }
        if self.lives.len() >= self.runner.settings.at_most {
            return Err(full());
        }
        let (client, most) = (Network::of_client(from.ip()), self.runner.settings.each_at_most);
        if self.counts.get(&client).is_some_and(|count| *count >= most) {
            return Err(format!("its address has {most} connections already"));
        }
        let uid = self.uids.take().ok_or_else(full)?;
        *self.counts.entry(client).or_default() += 1;
        Ok(uid)
    }

    fn give_back(&mut self, uid: Uid, from: SocketAddr) {
        if self.runner.settings.announced.is_some() {
            return;
        }
        self.uids.give_back(uid);
        let client = Network::of_client(from.ip());
        if let Some(count) = self.counts.get_mut(&client) {
            *count -= 1;
            if *count == 0 {
                self.counts.remove(&client);
            }
        }
    }

    /// Has the kernel's acknowledgements to a client held back as long as it is here, where they
    /// are to be.
    fn keep(&self, client: &Socket, from: SocketAddr) -> Result<Option<Kept>, String> {
        let Some(hold) = &self.runner.hold else { return Ok(None) };
        match local(client).and_then(|here| hold.keep(here, from)) {
            Ok(Some(kept)) => Ok(Some(kept)),
            Ok(None) => Err("its acknowledgements are not held at its interface".into()),
            Err(error) => Err(format!("its acknowledgements are not held: {}", words(&error))),
        }
    }

    /// The connection of a client is closed.
    fn let_go(&mut self, uid: Uid) {
        let kept = self.lives.get_mut(&uid).and_then(|life| life.kept.take());
        if let (Some(hold), Some(kept)) = (&self.runner.hold, kept) {
            hold.let_go(&kept);
        }
    }

    /// The server has acknowledged more of what a client has sent.
    fn acknowledged(
        &mut self,
        shared: &mut Shared,
        uid: Uid,
        until: u64,
    ) -> Result<(), RelayError> {
        let Some(flow) = shared.flows.get_mut(&uid) else { return self.stray(uid) };
        let sent = flow.sent_by_client();
        let Some(linked) = &mut flow.linked else { return Err(foreign(uid)) };
        let before = linked.released();
        let is_more = linked.acknowledge(until, sent)?;
        let more = linked.released() - before;
        let Some(pooled) = &mut shared.pooled else {
            if is_more {
                self.release_or_note(shared, uid);
            } else {
                self.released(shared, uid);
            }
            return Ok(());
        };
        let credited = pooled.acknowledged(uid, more);
        for of_another in &credited {
            self.release_or_note(shared, *of_another);
        }
        if !credited.contains(&uid) {
            self.released(shared, uid);
        }
        Ok(())
    }

    /// Tells a client what is released; or again later, where the kernel would not.
    fn release_or_note(&mut self, shared: &mut Shared, uid: Uid) {
        match self.release(shared, uid) {
            Ok(()) => self.released(shared, uid),
            Err(_) => self.untold.push(uid),
        }
    }

    /// The kernel knows what is released: an end that was to come after it may go.
    fn released(&mut self, shared: &mut Shared, uid: Uid) {
        let pipes = &mut shared.pipes;
        if let Some(Err(error)) = shared.flows.get_mut(&uid).map(|flow| flow.flush(pipes)) {
            return shared.break_here(self, uid, broken_by(&error));
        }
        shared.end_if_over(self, uid);
    }

    /// Tells a client what is released, where the kernel's own acknowledgements are held.
    fn release(&self, shared: &mut Shared, uid: Uid) -> io::Result<()> {
        let Some(flow) = shared.flows.get_mut(&uid) else { return Ok(()) };
        if let Some(pooled) = &shared.pooled {
            flow.pooled = Some(pooled.released(uid));
        }
        let Some(hold) = &self.runner.hold else { return Ok(()) };
        hold.release(local(&flow.socket)?, flow.client, flow.to_client())
    }

    /// Tells clients again whom the kernel would not tell.
    fn release_again(&mut self, shared: &mut Shared) {
        for uid in std::mem::take(&mut self.untold) {
            self.release_or_note(shared, uid);
        }
    }

    /// The UID may be given out again once neither end has anything left of the flow.
    fn note(&mut self, uid: Uid, what: impl FnOnce(&mut Life)) -> Result<(), RelayError> {
        let life = self.lives.get_mut(&uid).ok_or_else(|| foreign(uid))?;
        what(life);
        if life.is_gone_here && life.is_gone_there {
            let client = life.client;
            self.lives.remove(&uid);
            self.give_back(uid, client);
            if let Some(announced) = &self.runner.settings.announced {
                announced.note(client, uid, Stage::Over);
            }
        }
        Ok(())
    }
}

impl Drop for Clients<'_> {
    /// The aggregate is gone, and all connections are closed.
    fn drop(&mut self) {
        for uid in self.lives.keys().copied().collect::<Vec<_>>() {
            self.let_go(uid);
        }
    }
}

impl End for Clients<'_> {
    fn hear(&mut self, shared: &mut Shared, message: Message) -> Result<(), RelayError> {
        match message {
            Message::Opened { uid } if self.lives.contains_key(&uid) => Ok(()),
            Message::Opened { uid } => Err(foreign(uid)),
            Message::Reset { uid, reason } => {
                shared.break_there(self, uid, reason);
                self.note(uid, |life| life.is_gone_there = true)
            }
            Message::Closed { uid } => self.note(uid, |life| life.is_gone_there = true),
            Message::Acknowledged { uid, until } => self.acknowledged(shared, uid, until),
            Message::TellAcknowledged if self.asked.is_some() => {
                self.asked = None;
                Ok(())
            }
            other => Err(RelayError::Protocol(format!("it may not say {other:?}"))),
        }
    }

    fn stray(&mut self, uid: Uid) -> Result<(), RelayError> {
        // What was on its way when we reset the flow.
        if self.lives.contains_key(&uid) { Ok(()) } else { Err(foreign(uid)) }
    }

    fn gone(&mut self, shared: &mut Shared, uid: Uid, _: Gone) {
        self.let_go(uid);
        // They are told when it is time: telling may end one of them.
        self.untold.extend(shared.pooled.iter_mut().flat_map(|pooled| pooled.end(uid)));
        // Whoever is gone was there.
        let _ = self.note(uid, |life| life.is_gone_here = true);
    }
}

fn foreign(uid: Uid) -> RelayError {
    RelayError::Protocol(format!("UID {uid} is nobody's"))
}

fn local(socket: &Socket) -> io::Result<SocketAddr> {
    let address = socket.local_addr()?;
    address.as_socket().ok_or_else(|| io::Error::other("not an address of a network"))
}
