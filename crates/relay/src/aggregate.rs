//! One end of an aggregate: flows' data go into it in turns, and come out of it into connections.
//!
//! Both ends run this code. They differ in who brings flows: see [`crate::join`] and
//! [`crate::split`].

use std::collections::{HashMap, VecDeque};
use std::io;
use std::time::{Duration, Instant};

use socket2::Socket;

use crate::RelayError;
use crate::flow::Flow;
use crate::pipe::{PIPE, Pipe, Pipes, WIDE};
use crate::poll::{Event, Poll};
use crate::socket::{self, Got};
use crate::status::{FlowStatus, Status};
use crate::telling::Telling;
use weir_aggregate::frame::{
    DATA_MAX, Decoder, HEADER_BYTES, LONG_DATA_MAX, LONG_HEADER_BYTES, Piece, Uid, header,
    long_header,
};
use weir_aggregate::linked_ack::Pooled;
use weir_aggregate::message::{Message, Reason, VERSION};
use weir_aggregate::pulse::Pulse;
use weir_aggregate::turns::Turns;
use weir_aggregate::window::{STEP_MAX, step, window};

/// What is read at a time, and what is put together for the aggregate before it is written.
const BUFFER: usize = 256 << 10;
/// The most that may wait for an aggregate that takes nothing. Data stop at [`BUFFER`]; messages
/// are few bytes for each flow, and a peer that asks for more than this has ended.
const BACKLOG_MAX: usize = 16 << 20;
/// How long a server may take to answer.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(20);
/// How long the other end may take to greet: whoever says nothing is to keep no place.
const GREETING_TIMEOUT: Duration = Duration::from_secs(10);
/// What is read in one go, before others have their turn.
const TURN: usize = 8 * BUFFER;
/// What is put into the aggregate in one go, before what has come out of it has its turn: clients
/// wait for acknowledgements that are among that.
const FILL: u64 = 1 << 20;
/// Data from so many bytes on are moved by the kernel; fewer are copied with less effort.
const BULK: usize = 8 << 10;
/// After so many frames in a row that are less, they are read together.
const SMALL_MAX: u8 = 4;
/// How often one looks how much the aggregate carries.
const RATED: Duration = Duration::from_millis(10);
/// How often one looks whether the other end has given a sign.
const LOOK: Duration = Duration::from_millis(50);
/// Why an aggregate ends whose relay is told to.
pub(crate) const STOPPED: &str = "this relay was stopped";
/// The key of the aggregate's own events; a flow's is its UID.
pub(crate) const AGGREGATE: u64 = 1 << 32;

/// What the two ends do differently.
pub(crate) trait End {
    /// A message that this end alone gets.
    fn hear(&mut self, shared: &mut Shared, message: Message) -> Result<(), RelayError>;
    /// Data, or an end, of a flow that is not there.
    fn stray(&mut self, uid: Uid) -> Result<(), RelayError>;
    /// A flow is no longer there: it ended in order, or is broken at our end, for this reason, or
    /// at the other end, whose message said so.
    fn gone(&mut self, shared: &mut Shared, uid: Uid, how: Gone);
}

/// How a flow came to its end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Gone {
    InOrder,
    Here,
    There,
}

/// The aggregate's connection, its flows, and what waits for it.
pub(crate) struct Shared {
    pub(crate) poll: Poll,
    pub(crate) flows: HashMap<Uid, Flow>,
    pub(crate) turns: Turns,
    pub(crate) status: Status,
    /// What the other end wants to be told of; none if it has not asked.
    pub(crate) telling: Option<Telling>,
    /// Whose acknowledgements others' servers pay for, where they do.
    pub(crate) pooled: Option<Pooled>,
    /// Flows for which something came out of the aggregate that was not handed on yet.
    news: Vec<Uid>,
    pub(crate) pipes: Pipes,
    /// Flows whose servers were asked, and since when, the first one first.
    asked: VecDeque<(Instant, Uid)>,
    socket: Socket,
    decoder: Decoder,
    /// What waits for the aggregate, from `written` on.
    out: Vec<u8>,
    written: usize,
    /// What of a frame's data is in a pipe, and the place in `out` where it belongs.
    passing: Pipe,
    cut: usize,
    /// There is more to put into the aggregate, which may take it.
    is_filling: bool,
    /// The kernel may keep a part of a packet for what follows.
    is_kept: bool,
    buffer: Box<[u8]>,
    /// Frames in a row that were less than [`BULK`].
    small: u8,
    /// When it was last seen what the aggregate carries, and what it had carried there and back.
    rated: (Instant, u64, u64),
    /// The most room that is told at once.
    step: u64,
    is_greeted: bool,
    begun: Instant,
    pulse: Pulse,
    patience: Duration,
    /// When it was last looked whether the other end has given a sign.
    looked: Instant,
    /// Something that has arrived may not have been read.
    is_readable: bool,
    /// Its end has arrived, which reading is to come to.
    is_closing: bool,
}

impl Shared {
    /// Begins with a connected socket, which was prepared, and greets the other end, of which
    /// there is to be a sign within its patience.
    pub(crate) fn new(
        socket: Socket,
        status: Status,
        patience: Duration,
    ) -> Result<Self, RelayError> {
        let poll = Poll::new()?;
        poll.add(&socket, AGGREGATE)?;
        let mut out = Vec::with_capacity(2 * BUFFER);
        Message::Hello { version: VERSION }.write(&mut out);
        Message::Alive { patience }.write(&mut out);
        Ok(Self {
            poll,
            flows: HashMap::new(),
            turns: Turns::default(),
            status: Status { is_connected: true, ..status },
            telling: None,
            pooled: None,
            news: Vec::new(),
            pipes: Pipes::default(),
            asked: VecDeque::new(),
            socket,
            decoder: Decoder::default(),
            out,
            written: 0,
            passing: Pipe::new(WIDE).map_err(RelayError::system("pipe"))?,
            cut: 0,
            is_filling: false,
            is_kept: false,
            buffer: vec![0; BUFFER].into_boxed_slice(),
            small: SMALL_MAX,
            rated: (Instant::now(), 0, 0),
            step: STEP_MAX,
            is_greeted: false,
            begun: Instant::now(),
            pulse: Pulse::new(patience),
            patience,
            looked: Instant::now(),
            is_readable: true,
            is_closing: false,
        })
    }

    /// Tells the other end something.
    pub(crate) fn tell(&mut self, message: Message) {
        message.write(&mut self.out);
    }

    /// Whether the other end has greeted in time.
    pub(crate) fn is_greeted_in_time(&self) -> Result<(), RelayError> {
        if self.is_greeted || self.begun.elapsed() < GREETING_TIMEOUT {
            return Ok(());
        }
        Err(RelayError::Protocol("it does not greet".into()))
    }

    /// Has a connection take part from now on.
    pub(crate) fn add(&mut self, uid: Uid, flow: Flow) -> Result<(), RelayError> {
        self.poll.add(&flow.socket, uid.into())?;
        // Should we die, no end may take what it has for all.
        socket::reset(&flow.socket);
        self.asked.extend(flow.connecting.map(|since| (since, uid)));
        self.turns.add(uid, flow.weight);
        if let Some(pooled) = &mut self.pooled {
            pooled.begin(uid);
        }
        self.flows.insert(uid, flow);
        Ok(())
    }

    /// What is told of this end.
    pub(crate) fn status(&self) -> Status {
        let of = |(uid, flow): (&Uid, &Flow)| FlowStatus {
            uid: *uid,
            client: flow.client,
            weight: flow.weight,
            bytes_sent: flow.outgoing.sent(),
            bytes_received: flow.incoming.handed_on(),
            bytes_waiting: flow.waiting_bytes(),
            bytes_acknowledged: flow.acknowledged_bytes(),
        };
        Status { flows: self.flows.iter().map(of).collect(), ..self.status.clone() }
    }

    /// Puts data into the aggregate, flow by flow, as long as it takes any.
    fn fill(&mut self, end: &mut impl End) -> Result<(), RelayError> {
        let until = self.status.bytes_sent + FILL;
        self.is_filling = false;
        loop {
            self.write_out()?;
            if self.waiting() >= BUFFER || self.passing.held() > 0 {
                break;
            }
            if self.status.bytes_sent >= until {
                self.is_filling = true;
                break;
            }
            let Some((uid, turn)) = self.turns.front() else { break };
            self.send_from(end, uid, turn);
        }
        if std::mem::take(&mut self.is_kept) {
            socket::push(&self.socket);
        }
        Ok(())
    }

    /// One flow's turn: what its connection has goes behind what waits.
    fn send_from(&mut self, end: &mut impl End, uid: Uid, turn: usize) {
        // Whoever reads a connection that is not there yet takes its error away, and with it why.
        let is_asked = |flow: &&mut Flow| !flow.is_read && flow.connecting.is_none();
        let Some(flow) = self.flows.get_mut(&uid).filter(is_asked) else {
            return self.turns.sleep();
        };
        let left = usize::try_from(flow.outgoing.left()).unwrap_or(usize::MAX);
        if left == 0 {
            self.turns.sleep(); // Until the other end has room.
            return self.break_if_unread(end, uid);
        }
        let bound = if flow.is_bulk { LONG_DATA_MAX } else { DATA_MAX };
        let most = turn.saturating_sub(LONG_HEADER_BYTES).max(1).min(left).min(bound);
        let got = if flow.is_bulk {
            self.passing.fill(&flow.socket, most)
        } else {
            socket::read(&flow.socket, &mut self.buffer[..most])
        };
        match got {
            Got::Some(count) => {
                if flow.is_bulk {
                    // Whoever moves what follows reads such a header and nothing with it.
                    self.out.extend_from_slice(&long_header(uid, count));
                    self.cut = self.out.len();
                } else {
                    self.out.extend_from_slice(&header(uid, count));
                    self.out.extend_from_slice(&self.buffer[..count]);
                }
                let head = if flow.is_bulk { LONG_HEADER_BYTES } else { HEADER_BYTES };
                flow.is_bulk = flow.can_splice && count >= BULK.min(most);
                flow.outgoing.send(count as u64);
                note_sent(&mut self.pooled, uid, count as u64);
                self.status.bytes_sent += count as u64;
                self.turns.sent(head + count);
            }
            Got::Nothing => self.turns.sleep(),
            Got::End => {
                self.out.extend_from_slice(&header(uid, 0));
                flow.is_read = true;
                note_sent(&mut self.pooled, uid, 1);
                self.turns.sleep();
                self.end_if_over(end, uid);
            }
            Got::Broken(error) if flow.is_bulk && is_none_to_splice(&error) => {
                (flow.is_bulk, flow.can_splice) = (false, false);
            }
            Got::Broken(error) => self.break_here(end, uid, broken_by(&error)),
        }
    }

    /// Writes what waits, as much as the kernel takes.
    fn write_out(&mut self) -> Result<(), RelayError> {
        while self.waiting() > 0 {
            let is_before = self.passing.held() > 0;
            let until = if is_before { self.cut } else { self.out.len() };
            let bytes = &self.out[self.written..until];
            let done = match (bytes.is_empty(), is_before) {
                (true, _) => {
                    // Others' data make the last packet full: packets cost the same.
                    let has_more = !self.turns.is_empty();
                    self.is_kept |= has_more;
                    self.passing.drain(&self.socket, has_more).map(|count| (count, 0))
                }
                (false, true) => {
                    socket::write_before(&self.socket, bytes).map(|count| (count, count))
                }
                (false, false) => socket::write(&self.socket, bytes).map(|count| (count, count)),
            };
            let (count, written) = done.map_err(RelayError::Aggregate)?;
            if count == 0 {
                break;
            }
            self.pulse.said();
            self.written += written;
        }
        if self.waiting() == 0 {
            self.out.clear();
            self.written = 0;
        } else if self.written >= BUFFER {
            self.out.drain(..self.written);
            self.cut = self.cut.saturating_sub(self.written);
            self.written = 0;
        }
        if self.waiting() > BACKLOG_MAX {
            return Err(RelayError::Protocol("it asks, and does not listen".into()));
        }
        Ok(())
    }

    fn waiting(&self) -> usize {
        self.out.len() - self.written + self.passing.held()
    }

    /// Takes out of the aggregate what has arrived.
    fn empty(&mut self, end: &mut impl End) -> Result<(), RelayError> {
        let mut buffer = std::mem::take(&mut self.buffer);
        let mut decoder = std::mem::take(&mut self.decoder);
        let mut done = Ok(());
        let (mut taken, mut told) = (0, 0);
        while taken < TURN {
            let got = match self.pass(end, &mut decoder) {
                Ok(Some(got)) => got,
                Ok(None) => {
                    let most = self.most(&decoder);
                    let got = socket::read(&self.socket, &mut buffer[..most]);
                    if let Got::Some(count) = got {
                        let mut pieces = 0;
                        done = decoder.read(&buffer[..count], |piece| {
                            pieces += 1;
                            self.hear(end, piece)
                        });
                        self.hand_on_all(end);
                        if count / pieces.max(1) >= BULK {
                            self.small = 0; // More of them are to be expected.
                        }
                        // That was all: whatever comes now is told of again.
                        self.is_readable = count == most || self.is_closing;
                    }
                    got
                }
                Err(error) => {
                    done = Err(error);
                    break;
                }
            };
            match got {
                Got::Some(count) => {
                    self.pulse.heard();
                    taken += count;
                }
                Got::Nothing => self.is_readable = false,
                Got::End => done = Err(RelayError::Aggregate(io::ErrorKind::UnexpectedEof.into())),
                Got::Broken(error) => done = Err(RelayError::Aggregate(error)),
            }
            // What others wait for need not wait until all has been read.
            if done.is_ok() && taken >= told + BUFFER {
                told = taken;
                self.tell_acknowledged(end);
                done = self.write_out();
            }
            if done.is_err() || !self.is_readable {
                break;
            }
        }
        (self.buffer, self.decoder) = (buffer, decoder);
        done
    }

    /// How much is read: what is large is to be left to [`Shared::pass`], whose frames' headers
    /// alone are read; what is small is read with whatever else there is.
    fn most(&mut self, decoder: &Decoder) -> usize {
        let left = decoder.under_way().map_or(0, |(_, left)| left);
        if left > 0 && left < BULK {
            self.small = (self.small + 1).min(SMALL_MAX);
        }
        if self.small < SMALL_MAX { (left + LONG_HEADER_BYTES).min(BUFFER) } else { BUFFER }
    }

    /// Moves data of a large frame from the aggregate to their connection; none if the next ones
    /// have to be read.
    fn pass(
        &mut self,
        end: &mut impl End,
        decoder: &mut Decoder,
    ) -> Result<Option<Got>, RelayError> {
        let Some((uid, left)) = decoder.under_way().filter(|(_, left)| *left >= BULK) else {
            return Ok(None);
        };
        let Some(flow) = self.flows.get_mut(&uid).filter(|flow| flow.takes_pipes()) else {
            return Ok(None);
        };
        let Some(mut pipe) = flow.pipe.take().or_else(|| self.pipes.take()) else {
            return Ok(None);
        };
        let was_empty = pipe.held() == 0;
        let got = pipe.fill(&self.socket, left.min(PIPE));
        flow.pipe = Some(pipe);
        match got {
            Got::Some(count) => {
                if !flow.incoming.arrive(count as u64) {
                    return Err(beyond(uid));
                }
                decoder.passed(count);
                self.small = 0;
                self.status.bytes_received += count as u64;
            }
            // It may be full: then what is left has to be read.
            Got::Nothing if !was_empty => return Ok(None),
            _ => {}
        }
        self.hand_on(end, uid);
        Ok(Some(got))
    }

    fn hear(&mut self, end: &mut impl End, piece: Piece<'_>) -> Result<(), RelayError> {
        if !self.is_greeted {
            let Piece::Control(data) = piece else {
                return Err(RelayError::Protocol("it does not begin with a greeting".into()));
            };
            return match Message::read(data)? {
                Message::Hello { version: VERSION } => {
                    self.is_greeted = true;
                    Ok(())
                }
                Message::Hello { version } => Err(RelayError::Protocol(format!(
                    "it speaks version {version} of it, and this one {VERSION}: both ends have to \
                     be of the same version of Weir"
                ))),
                _ => Err(RelayError::Protocol("it does not begin with a greeting".into())),
            };
        }
        match piece {
            Piece::Data(uid, data) => self.take(end, uid, data),
            Piece::End(uid) => {
                let Some(flow) = self.flows.get_mut(&uid) else { return end.stray(uid) };
                match flow.end(&mut self.pipes) {
                    Ok(()) => self.watch(uid),
                    Err(error) => self.break_here(end, uid, broken_by(&error)),
                }
                self.end_if_over(end, uid);
                Ok(())
            }
            Piece::Control(data) => match Message::read(data)? {
                Message::Room { uid, until } => {
                    if self.flows.get_mut(&uid).is_some_and(|flow| flow.outgoing.open(until)) {
                        self.turns.wake(uid);
                    }
                    Ok(())
                }
                Message::Alive { patience } => {
                    self.pulse.asked(patience);
                    Ok(())
                }
                message => end.hear(self, message),
            },
        }
    }

    fn take(&mut self, end: &mut impl End, uid: Uid, data: &[u8]) -> Result<(), RelayError> {
        let Some(flow) = self.flows.get_mut(&uid) else { return end.stray(uid) };
        if !flow.incoming.arrive(data.len() as u64) {
            return Err(beyond(uid));
        }
        self.status.bytes_received += data.len() as u64;
        if flow.gathered == 0 {
            self.news.push(uid);
        }
        flow.take(data);
        // Room is told when data are handed on, and is to be told in small steps.
        if flow.gathered >= STEP_MAX {
            self.hand_on(end, uid);
        }
        Ok(())
    }

    /// Hands on all that has come out of the aggregate, each flow's frames at once: a frame is
    /// small, and each write costs the same.
    fn hand_on_all(&mut self, end: &mut impl End) {
        for uid in std::mem::take(&mut self.news) {
            if self.flows.get(&uid).is_some_and(|flow| flow.gathered > 0) {
                self.hand_on(end, uid);
            }
        }
    }

    fn hand_on(&mut self, end: &mut impl End, uid: Uid) {
        let window = window(self.flows.len());
        let Some(flow) = self.flows.get_mut(&uid) else { return };
        flow.gathered = 0;
        let before = flow.incoming.handed_on();
        if let Err(error) = flow.flush(&mut self.pipes) {
            return self.break_here(end, uid, broken_by(&error));
        }
        if let Some(telling) = &mut self.telling {
            telling.note(flow.incoming.handed_on() - before);
        }
        if let Some(until) = flow.incoming.promise(window, self.step) {
            self.tell(Message::Room { uid, until });
        }
        self.watch(uid);
    }

    /// The connection of a flow takes more, or has more.
    fn wake(&mut self, end: &mut impl End, event: Event) {
        let Ok(uid) = Uid::try_from(event.key) else { return };
        let Some(flow) = self.flows.get_mut(&uid) else { return };
        if event.is_writable {
            if flow.connecting.is_some() {
                match flow.socket.take_error() {
                    Ok(None) => {
                        flow.connecting = None;
                        self.turns.wake(uid);
                        self.tell(Message::Opened { uid });
                    }
                    Ok(Some(error)) => return self.break_here(end, uid, reason_of(&error)),
                    Err(_) => return self.break_here(end, uid, Reason::Reset),
                }
            }
            self.hand_on(end, uid);
        }
        if event.is_readable {
            self.turns.wake(uid);
        }
        if let Some(flow) = self.flows.get_mut(&uid) {
            flow.is_broken |= event.is_broken;
        }
        self.break_if_unread(end, uid);
        self.watch(uid);
        self.end_if_over(end, uid);
    }

    /// Ends a flow whose connection is broken where no reading would tell.
    fn break_if_unread(&mut self, end: &mut impl End, uid: Uid) {
        if let Some(flow) = self.flows.get(&uid).filter(|flow| flow.is_broken_unread()) {
            let error = flow.socket.take_error().ok().flatten();
            self.break_here(end, uid, error.map_or(Reason::Reset, |error| broken_by(&error)));
        }
    }

    /// What was handed to a server is watched until it is acknowledged, if anybody has asked.
    fn watch(&mut self, uid: Uid) {
        if let (Some(telling), Some(flow)) = (&mut self.telling, self.flows.get_mut(&uid)) {
            telling.watch(uid, flow);
        }
    }

    /// Tells what servers have acknowledged since it was last told.
    fn tell_acknowledged(&mut self, end: &mut impl End) {
        let now = Instant::now();
        let Some(telling) = self.telling.as_mut().filter(|telling| telling.is_due(now)) else {
            return;
        };
        let mut is_news = false;
        for uid in telling.begin_round() {
            let Some(flow) = self.flows.get_mut(&uid) else { continue };
            flow.is_watched = false;
            match flow.look() {
                Ok(Some(until)) => {
                    is_news = true;
                    self.tell(Message::Acknowledged { uid, until });
                }
                Ok(None) => {}
                Err(_) => self.break_here(end, uid, Reason::Reset),
            }
            self.watch(uid);
            self.end_if_over(end, uid);
        }
        if let Some(telling) = &mut self.telling {
            telling.end_round(is_news);
        }
    }

    /// Ends a flow of which both directions are done.
    pub(crate) fn end_if_over(&mut self, end: &mut impl End, uid: Uid) {
        if self.flows.get(&uid).is_some_and(Flow::is_over) {
            if let Some(flow) = self.remove(uid) {
                socket::end_in_order(&flow.socket);
            }
            self.status.ended += 1;
            end.gone(self, uid, Gone::InOrder);
        }
    }

    /// A flow is broken at this end: the other one is told.
    pub(crate) fn break_here(&mut self, end: &mut impl End, uid: Uid, reason: Reason) {
        if let Some(flow) = self.reset(uid) {
            self.status.note(format!("{}: {}", flow.ends(), reason.as_str()));
            self.tell(Message::Reset { uid, reason });
            end.gone(self, uid, Gone::Here);
        }
    }

    /// A flow is broken at the other end, which has said so.
    pub(crate) fn break_there(&mut self, end: &mut impl End, uid: Uid, reason: Reason) {
        if let Some(flow) = self.reset(uid) {
            let why = format!("{}: {} (told by the other end)", flow.ends(), reason.as_str());
            self.status.note(why);
            end.gone(self, uid, Gone::There);
        }
    }

    fn reset(&mut self, uid: Uid) -> Option<Flow> {
        let flow = self.remove(uid)?;
        socket::reset(&flow.socket);
        Some(flow)
    }

    fn remove(&mut self, uid: Uid) -> Option<Flow> {
        self.turns.remove(uid);
        let mut flow = self.flows.remove(&uid)?;
        if let Some(pipe) = flow.pipe.take() {
            self.pipes.give_back(pipe);
        }
        Some(flow)
    }

    /// Gives up on servers that do not answer.
    pub(crate) fn give_up_connecting(&mut self, end: &mut impl End, now: Instant) {
        while let Some((since, uid)) = self.asked.front().copied() {
            if self.flows.get(&uid).is_some_and(|flow| flow.connecting == Some(since)) {
                if now.duration_since(since) < CONNECT_TIMEOUT {
                    return;
                }
                self.break_here(end, uid, Reason::Unreachable);
            }
            self.asked.pop_front();
        }
    }

    /// Waits for events; not at all where something is left to do.
    pub(crate) fn wait(&mut self, longest: Duration) -> Result<Vec<Event>, RelayError> {
        let pause = self.telling.as_ref().map_or(longest, |telling| telling.pause(longest));
        let is_busy = self.is_readable || self.is_filling;
        self.poll.wait(if is_busy { Duration::ZERO } else { pause })
    }

    /// Does what these events ask for.
    pub(crate) fn serve(&mut self, end: &mut impl End, events: &[Event]) -> Result<(), RelayError> {
        for event in events {
            if event.key == AGGREGATE {
                self.is_readable |= event.is_readable;
                self.is_closing |= event.is_closing;
            } else {
                self.wake(end, *event);
            }
        }
        if self.is_readable {
            self.empty(end)?;
        }
        self.look()?;
        self.tell_acknowledged(end);
        self.rate();
        self.fill(end)
    }

    /// Whether the other end has given a sign in time, what has arrived was read before; it is
    /// given one where nothing else is on its way to it.
    fn look(&mut self) -> Result<(), RelayError> {
        let passed = self.looked.elapsed();
        if passed < LOOK {
            return Ok(());
        }
        self.looked = Instant::now();
        self.pulse.pass(passed);
        if self.pulse.is_lost() {
            return Err(RelayError::Silent(self.patience));
        }
        if self.pulse.is_due() && self.waiting() == 0 {
            self.tell(Message::Alive { patience: self.patience });
        }
        Ok(())
    }

    /// Has turns, and steps of room, be as large as a fast aggregate can bear: each costs the same.
    fn rate(&mut self) {
        let (since, sent, received) = self.rated;
        let passed = since.elapsed();
        if passed >= RATED {
            let rate = |now: u64, before: u64| (now - before) as f64 / passed.as_secs_f64();
            self.turns.set_rate(rate(self.status.bytes_sent, sent));
            self.step = step(rate(self.status.bytes_received, received));
            self.rated = (Instant::now(), self.status.bytes_sent, self.status.bytes_received);
        }
    }

    /// Resets every flow: the aggregate is gone.
    pub(crate) fn reset_all(mut self, why: &RelayError) -> Status {
        for (_, flow) in self.flows.drain() {
            socket::reset(&flow.socket);
            self.status.note(format!("{}: {why}", flow.ends()));
        }
        if let RelayError::Silent(_) = why {
            // Should it wake, it is not to hand on what belongs to nobody any more.
            socket::reset(&self.socket);
        }
        self.status.is_connected = false;
        self.status
    }
}

fn note_sent(pooled: &mut Option<Pooled>, uid: Uid, bytes: u64) {
    if let Some(pooled) = pooled {
        pooled.sent(uid, bytes);
    }
}

fn beyond(uid: Uid) -> RelayError {
    RelayError::Protocol(format!("UID {uid} sends more than it has room for"))
}

/// Whether a connection cannot be spliced, which is none of its faults.
fn is_none_to_splice(error: &io::Error) -> bool {
    error.kind() == io::ErrorKind::InvalidInput || error.kind() == io::ErrorKind::Unsupported
}

/// How a connection came to break.
pub(crate) fn broken_by(error: &io::Error) -> Reason {
    match error.kind() {
        io::ErrorKind::TimedOut
        | io::ErrorKind::HostUnreachable
        | io::ErrorKind::NetworkUnreachable => Reason::Gone,
        _ => Reason::Reset,
    }
}

/// Why a server could not be connected to.
pub(crate) fn reason_of(error: &io::Error) -> Reason {
    match error.kind() {
        io::ErrorKind::ConnectionRefused => Reason::Refused,
        // No port is left to connect from, towards this server, or no memory.
        io::ErrorKind::AddrInUse | io::ErrorKind::AddrNotAvailable | io::ErrorKind::OutOfMemory => {
            Reason::Full
        }
        _ if socket::is_no_descriptor(error) => Reason::Full,
        _ => Reason::Unreachable,
    }
}
