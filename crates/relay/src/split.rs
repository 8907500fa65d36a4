//! The end that takes joined flows apart and connects them to their servers (the work's
//! split-proxy).

use std::io;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex};
use std::time::Instant;

use socket2::Socket;

use crate::RelayError;
use crate::aggregate::{End, Gone, STOPPED, Shared, reason_of};
use crate::control::{Control, TICK, Worker, locked};
use crate::flow::{Flow, Side};
use crate::poll::Poll;
use crate::settings::SplitSettings;
use crate::socket::{self, Listener};
use crate::status::Status;
use weir_aggregate::frame::{FLOWS_MAX, Uid};
use weir_aggregate::linked_ack::Linked;
use weir_aggregate::message::{Message, Reason};

/// The key of the listening socket's events.
const LISTENER: u64 = 2 << 32;
/// Aggregates that there may be at a time.
const AGGREGATES_MAX: usize = 64;

/// A relay's end towards servers, in a thread of its own and one for each aggregate. They end when
/// this is dropped.
pub struct Split {
    worker: Worker,
    address: SocketAddr,
    aggregates: Arc<Mutex<Vec<(SocketAddr, Worker)>>>,
}

impl Split {
    /// Listens and begins.
    ///
    /// # Errors
    ///
    /// [`RelayError::System`]: the address cannot be listened at.
    pub fn start(settings: SplitSettings) -> Result<Self, RelayError> {
        // Aggregates that are accepted begin with its congestion control, as at the other end.
        socket::check_as_client(settings.as_client)?;
        let congestion = settings.congestion.as_deref();
        let listener = socket::listen(settings.listen, false, None, congestion)?;
        let address = listener.local_addr().map_err(RelayError::system("listening"))?;
        let address = address.as_socket().unwrap_or(settings.listen);
        let aggregates = Arc::new(Mutex::new(Vec::new()));
        let ours = Arc::clone(&aggregates);
        let worker = Worker::start("weir-split", Control::new()?, move |control| {
            accept(&mut Listener::new(listener), &Arc::new(settings), control, &ours)
        })?;
        Ok(Self { worker, address, aggregates })
    }

    /// Where aggregates come.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// What has happened: of those who were turned away, and of each aggregate by where it is from.
    pub fn status(&self) -> (Status, Vec<(SocketAddr, Status)>) {
        let of = |(from, worker): &(SocketAddr, Worker)| (*from, worker.status());
        let aggregates = locked(&self.aggregates).iter().map(of).collect();
        (self.worker.status(), aggregates)
    }

    /// Whether it has ended by itself.
    pub fn is_over(&self) -> bool {
        self.worker.is_over()
    }

    /// Ends it, and all aggregates.
    ///
    /// # Errors
    ///
    /// Why it had ended by itself, if it had.
    pub fn stop(&mut self) -> Result<(), RelayError> {
        let done = self.worker.stop();
        locked(&self.aggregates).clear();
        done
    }
}

/// Accepts aggregates, each of which gets its thread.
fn accept(
    listener: &mut Listener,
    settings: &Arc<SplitSettings>,
    control: &Control,
    aggregates: &Mutex<Vec<(SocketAddr, Worker)>>,
) -> Result<(), RelayError> {
    let mut poll = Poll::new()?;
    poll.add(listener.socket(), LISTENER)?;
    control.join(&poll)?;
    while !control.is_stopped() {
        poll.wait(TICK)?;
        control.answer_as_told();
        while let Some((aggregate, from)) = listener.accept(|why| control.status().note(why)) {
            let mut running = locked(aggregates);
            running.retain(|(from, worker)| {
                let is_over = worker.is_over();
                // Why it ended is still told, when the next one is there.
                if is_over && let Some(why) = worker.status().reasons.pop() {
                    control.status().tell(format!("{from}: {why}"));
                }
                !is_over
            });
            if let Err(why) = admit(settings, from, running.len()) {
                socket::reset(&aggregate);
                control.status().note(format!("{from}: {why}"));
                continue;
            }
            let settings = Arc::clone(settings);
            let begun = Control::new().and_then(|control| {
                Worker::start("weir-split-one", control, move |control| {
                    serve(aggregate, &settings, control)
                        .inspect_err(|error| control.status().tell(error.to_string()))
                })
            });
            // What is not there for one more is no reason to end those that are.
            match begun {
                Ok(worker) => running.push((from, worker)),
                Err(error) => control.status().note(format!("{from}: {error}")),
            }
        }
    }
    Ok(())
}

fn admit(settings: &SplitSettings, from: SocketAddr, running: usize) -> Result<(), &'static str> {
    if !settings.from.iter().any(|network| network.contains(from.ip())) {
        return Err("no aggregates may come from there");
    }
    if running >= AGGREGATES_MAX {
        return Err("there are too many aggregates");
    }
    Ok(())
}

/// Serves one aggregate until it breaks, or we are told to stop.
fn serve(aggregate: Socket, settings: &SplitSettings, control: &Control) -> Result<(), RelayError> {
    let patience = settings.heard_within;
    socket::prepare_aggregate(&aggregate, settings.congestion.as_deref(), patience)
        .map_err(RelayError::system("setting an aggregate up"))?;
    let mut shared = Shared::new(aggregate, Status::default(), patience)?;
    control.join(&shared.poll)?;
    let mut servers = Servers { settings };
    let mut looked = Instant::now();
    loop {
        let events = shared.wait(TICK)?;
        let error = if control.is_stopped() {
            RelayError::Aggregate(io::Error::other(STOPPED))
        } else if let Err(error) = shared.serve(&mut servers, &events) {
            error
        } else if let Err(error) = shared.is_greeted_in_time() {
            error
        } else {
            if looked.elapsed() >= TICK {
                looked = Instant::now();
                shared.give_up_connecting(&mut servers, looked);
            }
            control.answer(|| shared.status());
            continue;
        };
        let mut status = shared.reset_all(&error);
        status.tell(error.to_string());
        *control.status() = status;
        return Ok(());
    }
}

/// The servers of an aggregate.
struct Servers<'a> {
    settings: &'a SplitSettings,
}

impl Servers<'_> {
    fn open(
        &self,
        shared: &mut Shared,
        uid: Uid,
        client: SocketAddr,
        server: SocketAddr,
    ) -> Result<(), RelayError> {
        if shared.flows.contains_key(&uid) {
            return Err(RelayError::Protocol(format!("UID {uid} is opened twice")));
        }
        match self.connect(shared.flows.len(), uid, client, server) {
            Ok(socket) => {
                let mut flow = Flow::new(socket, [client, server], 1, Side::Server);
                flow.linked = shared.telling.as_ref().map(|_| Linked::default());
                flow.connecting = Some(Instant::now());
                shared.add(uid, flow)
            }
            Err(reason) => {
                shared.status.note(format!("{client} to {server}: {}", reason.as_str()));
                shared.tell(Message::Reset { uid, reason });
                Ok(())
            }
        }
    }

    fn connect(
        &self,
        flows: usize,
        uid: Uid,
        client: SocketAddr,
        server: SocketAddr,
    ) -> Result<Socket, Reason> {
        if !self.settings.servers.iter().any(|allowed| allowed.contains(server)) {
            return Err(Reason::Forbidden);
        }
        if flows >= FLOWS_MAX {
            return Err(Reason::Full);
        }
        let made = if let Some(announced) = &self.settings.announced {
            let what = announced.of(client).filter(|what| (what.uid, what.server) == (uid, server));
            let what = what.ok_or(Reason::Forbidden)?;
            socket::connect_offering(server, what.source, what.offered)
        } else {
            socket::connect(server, self.settings.as_client.then_some(client), None)
        };
        let socket = made.map_err(|error| reason_of(&error))?;
        socket::notice_silence(&socket, self.settings.gone_after);
        Ok(socket)
    }
}

impl End for Servers<'_> {
    fn hear(&mut self, shared: &mut Shared, message: Message) -> Result<(), RelayError> {
        match message {
            Message::Open { uid, client, server } => self.open(shared, uid, client, server),
            Message::Reset { uid, reason } => {
                shared.break_there(self, uid, reason);
                Ok(())
            }
            Message::TellAcknowledged if shared.flows.is_empty() => {
                shared.telling.get_or_insert_default();
                shared.tell(Message::TellAcknowledged);
                Ok(())
            }
            other => Err(RelayError::Protocol(format!("it may not say {other:?}"))),
        }
    }

    fn stray(&mut self, _: Uid) -> Result<(), RelayError> {
        // What was on its way when we said that the flow is broken.
        Ok(())
    }

    fn gone(&mut self, shared: &mut Shared, uid: Uid, how: Gone) {
        // Our own reset says as much.
        if how != Gone::Here {
            shared.tell(Message::Closed { uid });
        }
    }
}
