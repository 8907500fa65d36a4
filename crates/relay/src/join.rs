//! The end that accepts clients and joins them (the work's join-proxy).

use std::collections::HashMap;
use std::io;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use socket2::{Domain, Protocol, SockAddr, Socket, Type};

use crate::RelayError;
use crate::aggregate::{End, Gone, Shared};
use crate::control::{Control, TICK, Worker, locked};
use crate::flow::Flow;
use crate::frame::{Uid, UidPool};
use crate::message::{Message, Reason};
use crate::poll::Poll;
use crate::settings::{JoinSettings, Weights};
use crate::socket;
use crate::status::Status;

/// The key of the listening socket's events.
const LISTENER: u64 = 2 << 32;
/// How long the split end may take to answer.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(2);
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
    /// [`RelayError::System`]: the address cannot be listened at.
    pub fn start(settings: JoinSettings) -> Result<Self, RelayError> {
        let listener = socket::listen(settings.listen, settings.server.is_none())?;
        let address = local(&listener).map_err(RelayError::system("listening"))?;
        let weights = Mutex::new(settings.weights.clone());
        let weights = Arc::new(Wanted { weights, is_new: AtomicBool::new(false) });
        let wanted = Arc::clone(&weights);
        let control = Control::new()?;
        let worker = Worker::start("weir-join", control, move |control| {
            Runner { settings, listener, address, wanted }.run(control)
        })?;
        Ok(Self { worker, address, weights })
    }

    /// Where clients connect.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// What has happened, as of a tenth of a second ago.
    pub fn status(&self) -> Status {
        self.worker.control.status().clone()
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
    listener: Socket,
    address: SocketAddr,
    wanted: Arc<Wanted>,
}

impl Runner {
    fn run(&self, control: &Control) -> Result<(), RelayError> {
        let mut pause = PAUSES.0;
        while !control.is_stopped() {
            match self.connect() {
                Ok(aggregate) => {
                    let before = control.status().clone();
                    let shared = Shared::new(aggregate, before)?;
                    *control.status() = self.serve(control, shared)?;
                    pause = PAUSES.0;
                }
                Err(error) => {
                    let words = format!("{}: {error}", self.settings.split);
                    control.status().tell(words);
                    pause = (pause * 2).min(PAUSES.1);
                }
            }
            self.refuse(control, pause)?;
        }
        Ok(())
    }

    fn connect(&self) -> io::Result<Socket> {
        let split = self.settings.split;
        let socket = Socket::new(Domain::for_address(split), Type::STREAM, Some(Protocol::TCP))?;
        socket.connect_timeout(&SockAddr::from(split), CONNECT_TIMEOUT)?;
        socket::prepare_aggregate(&socket, self.settings.congestion.as_deref())?;
        Ok(socket)
    }

    /// Joins clients until the aggregate breaks, or we are told to stop.
    fn serve(&self, control: &Control, mut shared: Shared) -> Result<Status, RelayError> {
        shared.poll.add(&self.listener, LISTENER)?;
        control.join(&shared.poll)?;
        let mut clients = Clients { runner: self, uids: UidPool::default(), lives: HashMap::new() };
        let mut looked = Instant::now();
        loop {
            let events = shared.wait(TICK)?;
            if control.is_stopped() {
                return Ok(shared.reset_all(&RelayError::Aggregate(io::Error::other("stopped"))));
            }
            let is_time = looked.elapsed() >= TICK;
            // Whom there were no descriptors for, no event tells of again.
            if is_time || events.iter().any(|event| event.key == LISTENER) {
                clients.accept(&mut shared)?;
            }
            if self.wanted.is_new.swap(false, Ordering::Acquire) {
                self.weigh(&mut shared);
            }
            if let Err(error) = shared.serve(&mut clients, &events) {
                let mut status = shared.reset_all(&error);
                status.tell(error.to_string());
                return Ok(status);
            }
            if is_time {
                looked = Instant::now();
                *control.status() = shared.status();
            }
        }
    }

    /// Resets clients that come while there is no aggregate: nobody is kept waiting in vain.
    fn refuse(&self, control: &Control, pause: Duration) -> Result<(), RelayError> {
        let mut poll = Poll::new()?;
        poll.add(&self.listener, LISTENER)?;
        control.join(&poll)?;
        let begun = Instant::now();
        while !control.is_stopped() && begun.elapsed() < pause {
            poll.wait(pause.saturating_sub(begun.elapsed()).min(TICK))?;
            while let Some((client, from)) = socket::accept(&self.listener) {
                socket::reset(&client);
                control.status().note(format!("{from}: there is no aggregate"));
            }
        }
        Ok(())
    }

    fn weigh(&self, shared: &mut Shared) {
        let weights = locked(&self.wanted.weights).clone();
        for (uid, flow) in &mut shared.flows {
            flow.weight = weights.of(flow.client.ip());
            shared.turns.set_weight(*uid, flow.weight);
        }
    }

    /// Where a client is on its way to.
    fn server(&self, client: &Socket) -> Option<SocketAddr> {
        let server = self.settings.server.or_else(|| local(client).ok())?;
        // Who means us would be sent to us again, and again.
        (server.port() != self.address.port() || self.settings.server.is_some()).then_some(server)
    }
}

/// What is known of a UID that was given out.
#[derive(Clone, Copy, Debug, Default)]
struct Life {
    is_gone_here: bool,
    is_gone_there: bool,
}

/// The clients of an aggregate.
struct Clients<'a> {
    runner: &'a Runner,
    uids: UidPool,
    lives: HashMap<Uid, Life>,
}

impl Clients<'_> {
    fn accept(&mut self, shared: &mut Shared) -> Result<(), RelayError> {
        while let Some((client, from)) = socket::accept(&self.runner.listener) {
            let Some(server) = self.runner.server(&client) else {
                socket::reset(&client);
                shared.status.note(format!("{from}: {}", Reason::Forbidden.as_str()));
                continue;
            };
            let Some(uid) = self.uids.take() else {
                socket::reset(&client);
                shared.status.note(format!("{from}: {}", Reason::Full.as_str()));
                continue;
            };
            let _ = client.set_tcp_nodelay(true);
            let weight = locked(&self.runner.wanted.weights).of(from.ip());
            self.lives.insert(uid, Life::default());
            shared.tell(Message::Open { uid, client: from, server });
            shared.add(uid, Flow::new(client, from, weight))?;
        }
        Ok(())
    }

    /// The UID may be given out again once neither end has anything left of the flow.
    fn note(&mut self, uid: Uid, what: impl FnOnce(&mut Life)) -> Result<(), RelayError> {
        let life = self.lives.get_mut(&uid).ok_or_else(|| foreign(uid))?;
        what(life);
        if life.is_gone_here && life.is_gone_there {
            self.lives.remove(&uid);
            self.uids.give_back(uid);
        }
        Ok(())
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
            other => Err(RelayError::Protocol(format!("it may not say {other:?}"))),
        }
    }

    fn stray(&mut self, uid: Uid) -> Result<(), RelayError> {
        // What was on its way when we reset the flow.
        if self.lives.contains_key(&uid) { Ok(()) } else { Err(foreign(uid)) }
    }

    fn gone(&mut self, _: &mut Shared, uid: Uid, _: Gone) {
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
