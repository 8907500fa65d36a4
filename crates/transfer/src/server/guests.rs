//! Who is connected to a server: strangers, and the known, bounded apart.
//!
//! A connection is a stranger's until its certificate is verified (without TLS: until its
//! greeting is read). Strangers are bounded in all and for each network they come from; where
//! there is no room the least promising of them goes, so that newcomers always get their chance.
//! Every stage has a total deadline, which drips of bytes do not move.

use std::collections::HashMap;
use std::net::{IpAddr, Ipv6Addr, SocketAddr, TcpStream};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use crate::connection::Connection;
use crate::error::TransferError;

/// A stranger has this long in all to become known and to greet.
pub(super) const GREETING_TIMEOUT: Duration = Duration::from_secs(10);
/// Strangers at once.
const STRANGERS_MAX: usize = 256;
/// Strangers at once from one IPv4 address or IPv6 /64.
const STRANGERS_PER_NETWORK: usize = 64;
/// Nobody makes room before this: time for an honest greeting on a busy host. It also bounds how
/// fast a flood turns over.
const YOUTH: Duration = Duration::from_millis(100);
/// Known connections at once: sessions, and data connections on their way to one.
const KNOWN_MAX: usize = 1024;
/// How many of these one client may have.
const KNOWN_PER_CLIENT: usize = 256;
/// A session in which nothing has been done for this long makes room for others.
const IDLE_GRACE: Duration = Duration::from_secs(60);

/// A number that changes with whatever is done in a session; signs of life are nothing.
pub(super) type Activity = Box<dyn Fn() -> u64 + Send>;

/// How far a connection has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Stage {
    /// Nothing sensible has come.
    Silent,
    /// It speaks TLS.
    Greeted,
    /// Its client is known.
    Known,
}

struct Guest {
    socket: Arc<TcpStream>,
    network: IpAddr,
    client: String,
    stage: Stage,
    since: Instant,
    deadline: Option<Instant>,
    work: Option<Work>,
    /// Why it was put out.
    put_out: Option<&'static str>,
}

/// An operation, as far as others have to do with it.
struct Work {
    activity: Activity,
    /// What it was when it was last looked at, and since when.
    seen: u64,
    since: Instant,
    /// After so long without any the session ends.
    idle: Duration,
}

impl Work {
    /// For how long nothing was done, as far as anybody looked.
    fn rests(&mut self) -> Duration {
        let now = (self.activity)();
        if now != self.seen {
            (self.seen, self.since) = (now, Instant::now());
        }
        self.since.elapsed()
    }
}

#[derive(Default)]
struct State {
    guests: HashMap<u64, Guest>,
    next: u64,
    /// When the watchman looks again; `None` while he waits to be woken.
    next_look: Option<Instant>,
    stopping: bool,
}

/// All connections of a server that have a thread of their own.
#[derive(Default)]
pub(super) struct Guests {
    state: Mutex<State>,
    changed: Condvar,
}

/// One connection's place among the guests; it is given up when dropped.
pub(super) struct Place {
    guests: Arc<Guests>,
    number: u64,
}

impl Guests {
    /// Takes a stranger in, if need be in place of another one.
    pub(super) fn admit(self: &Arc<Self>, socket: Arc<TcpStream>, peer: SocketAddr) -> Place {
        let network = network(peer.ip());
        let mut state = self.wait_for_room(network);
        let number = state.next;
        state.next += 1;
        let guest = Guest {
            socket,
            network,
            client: String::new(),
            stage: Stage::Silent,
            since: Instant::now(),
            deadline: Some(Instant::now() + GREETING_TIMEOUT),
            work: None,
            put_out: None,
        };
        self.watch_until(&mut state, guest.deadline);
        state.guests.insert(number, guest);
        Place { guests: Arc::clone(self), number }
    }

    /// Puts somebody out where it is crowded, as soon as somebody is there who had his chance.
    fn wait_for_room(&self, newcomer: IpAddr) -> MutexGuard<'_, State> {
        let mut state = self.lock();
        while !state.stopping {
            let Err(wait) = state.make_room(newcomer) else {
                break;
            };
            let waited = self.changed.wait_timeout(state, wait);
            (state, _) = waited.unwrap_or_else(PoisonError::into_inner);
        }
        state
    }

    /// Puts out whoever is past a deadline, until the server stops.
    pub(super) fn watch(&self) {
        let mut state = self.lock();
        while !state.stopping {
            let now = Instant::now();
            for guest in state.guests.values_mut() {
                if guest.deadline.is_some_and(|deadline| deadline <= now) {
                    guest.meet_deadline(now);
                }
            }
            state.next_look = state.guests.values().filter_map(|guest| guest.deadline).min();
            state = match state.next_look {
                None => self.changed.wait(state).unwrap_or_else(PoisonError::into_inner),
                Some(look) => {
                    let span = look.saturating_duration_since(now);
                    self.changed.wait_timeout(state, span).unwrap_or_else(PoisonError::into_inner).0
                }
            };
        }
    }

    /// Wakes the watchman if he would look too late for this deadline.
    fn watch_until(&self, state: &mut State, deadline: Option<Instant>) {
        if deadline.is_some_and(|deadline| state.next_look.is_none_or(|look| deadline < look)) {
            state.next_look = deadline;
            self.changed.notify_all();
        }
    }

    /// Puts everybody out and waits until they are gone, at most `patience`.
    pub(super) fn dismiss(&self, patience: Duration) {
        let mut state = self.lock();
        state.stopping = true;
        self.changed.notify_all();
        state.guests.values_mut().for_each(|guest| guest.put_out("the server stops"));
        let waited =
            self.changed.wait_timeout_while(state, patience, |state| !state.guests.is_empty());
        drop(waited.unwrap_or_else(PoisonError::into_inner));
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Guest {
    /// It goes, unless something was done in its session since it was last looked at.
    fn meet_deadline(&mut self, now: Instant) {
        match &mut self.work {
            Some(work) => {
                let left = work.idle.saturating_sub(work.rests());
                if left.is_zero() {
                    self.put_out("nothing was done for too long");
                } else {
                    self.deadline = Some(now + left);
                }
            }
            None if self.stage == Stage::Known => self.put_out("nothing was asked for in time"),
            None => self.put_out("it did not say in time who it is"),
        }
    }

    fn put_out(&mut self, why: &'static str) {
        self.put_out.get_or_insert(why);
        self.deadline = None;
        Connection::shut_down(&self.socket);
    }

    fn is_young(&self) -> bool {
        self.since.elapsed() < YOUTH
    }

    fn is_stranger(&self) -> bool {
        self.stage < Stage::Known && self.put_out.is_none()
    }
}

impl State {
    /// Puts a stranger out where there are too many: of this network, or of the one that has
    /// most; among them the one that has said least, and of those the oldest. Returns how long
    /// to wait where all are too young.
    fn make_room(&mut self, newcomer: IpAddr) -> Result<(), Duration> {
        let mut counts: HashMap<IpAddr, usize> = HashMap::new();
        let mut all = 0;
        for guest in self.guests.values().filter(|guest| guest.is_stranger()) {
            *counts.entry(guest.network).or_default() += 1;
            all += 1;
        }
        let crowded = match counts.get(&newcomer) {
            Some(count) if *count >= STRANGERS_PER_NETWORK => newcomer,
            _ if all >= STRANGERS_MAX => {
                let most = counts.iter().max_by_key(|(_, count)| **count);
                most.map_or(newcomer, |(network, _)| *network)
            }
            _ => return Ok(()),
        };
        let strangers = self.guests.iter_mut();
        let least = strangers
            .filter(|(_, guest)| guest.is_stranger() && guest.network == crowded)
            .min_by_key(|(number, guest)| (guest.is_young(), guest.stage, **number));
        match least {
            Some((_, guest)) if guest.is_young() => {
                Err(YOUTH.saturating_sub(guest.since.elapsed()).max(Duration::from_millis(1)))
            }
            Some((_, guest)) => {
                guest.put_out("others were waiting");
                Ok(())
            }
            None => Ok(()),
        }
    }

    /// Whether one more of the known that `is_one` applies to has room among `most`; where there
    /// is none, the session in which nothing has been done for the longest time goes.
    fn has_room(&mut self, most: usize, is_one: impl Fn(&Guest) -> bool) -> bool {
        let known = |guest: &&mut Guest| {
            guest.stage == Stage::Known && guest.put_out.is_none() && is_one(guest)
        };
        if self.guests.values_mut().filter(known).count() < most {
            return true;
        }
        let idle = |guest: &mut Guest| {
            let work = guest.work.as_mut()?;
            let rests = work.rests();
            (rests >= IDLE_GRACE.min(work.idle)).then_some(rests)
        };
        let known = self.guests.values_mut().filter(known);
        let longest = known.filter_map(|guest| idle(guest).map(|rests| (rests, guest)));
        match longest.max_by_key(|(rests, _)| *rests) {
            Some((_, guest)) => {
                guest.put_out("others were waiting");
                true
            }
            None => false,
        }
    }
}

impl Place {
    /// It has begun to speak as a client does.
    pub(super) fn greet(&self) {
        self.change(|guest| guest.stage = guest.stage.max(Stage::Greeted));
    }

    /// Its client is known by this name; it is not a stranger any more.
    pub(super) fn identify(&self, client: &str) -> Result<(), TransferError> {
        let busy = |why: &'static str| Err(TransferError::Busy { why });
        let mut state = self.guests.lock();
        if !state.has_room(KNOWN_PER_CLIENT, |guest| guest.client == client) {
            return busy("too many connections of this client are open");
        }
        if !state.has_room(KNOWN_MAX, |_| true) {
            return busy("too many connections are open");
        }
        if let Some(guest) = state.guests.get_mut(&self.number) {
            guest.stage = Stage::Known;
            client.clone_into(&mut guest.client);
        }
        Ok(())
    }

    /// From now on there is this much time in all.
    pub(super) fn rest(&self, most: Duration) {
        self.set_deadline(most, None);
    }

    /// From now on the session ends once its activity has not changed for `idle`.
    pub(super) fn work(&self, activity: Activity, idle: Duration) {
        let (seen, since) = (activity(), Instant::now());
        self.set_deadline(idle, Some(Work { activity, seen, since, idle }));
    }

    fn set_deadline(&self, span: Duration, work: Option<Work>) {
        let deadline = Some(Instant::now() + span);
        let mut state = self.guests.lock();
        self.guests.watch_until(&mut state, deadline);
        if let Some(guest) = state.guests.get_mut(&self.number)
            && guest.put_out.is_none()
        {
            (guest.deadline, guest.work) = (deadline, work);
        }
    }

    /// Why the server ended this connection, if it did.
    pub(super) fn put_out(&self) -> Option<&'static str> {
        self.guests.lock().guests.get(&self.number).and_then(|guest| guest.put_out)
    }

    fn change(&self, change: impl FnOnce(&mut Guest)) {
        if let Some(guest) = self.guests.lock().guests.get_mut(&self.number) {
            change(guest);
        }
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        self.guests.lock().guests.remove(&self.number);
        self.guests.changed.notify_all();
    }
}

/// What one household or attacker has at hand: an IPv4 address, an IPv6 /64.
fn network(address: IpAddr) -> IpAddr {
    match address.to_canonical() {
        IpAddr::V6(six) => IpAddr::V6(Ipv6Addr::from_bits(six.to_bits() >> 64 << 64)),
        four => four,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::TcpListener;
    use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
    use std::thread;

    /// A connection, as the server has it, with the peer's end.
    fn connection(listener: &TcpListener) -> (Arc<TcpStream>, TcpStream) {
        let peer = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        (Arc::new(listener.accept().unwrap().0), peer)
    }

    fn address(text: &str) -> SocketAddr {
        format!("{text}:1000").parse().unwrap()
    }

    #[test]
    fn the_least_promising_stranger_of_the_fullest_network_makes_room() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let guests = Arc::new(Guests::default());
        let mut held = Vec::new();
        let mut enter = |from: &str| {
            let (socket, peer) = connection(&listener);
            held.push(peer);
            guests.admit(socket, address(from))
        };
        let flood: Vec<Place> = (0..STRANGERS_PER_NETWORK).map(|_| enter("192.0.2.1")).collect();
        let other = enter("192.0.2.2");
        flood[0].greet();
        flood[1].identify("known").unwrap();
        thread::sleep(YOUTH);
        let one_more = enter("192.0.2.1");
        assert!(flood.iter().all(|place| place.put_out().is_none()), "there was room");
        let last = enter("192.0.2.1");
        let gone: Vec<usize> =
            (0..flood.len()).filter(|at| flood[*at].put_out().is_some()).collect();
        assert_eq!(gone, [2], "neither who has greeted nor who is known");
        for place in [&other, &one_more, &last] {
            assert_eq!(place.put_out(), None);
        }
    }

    #[test]
    fn strangers_of_many_networks_are_bounded_and_the_crowd_pays() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let guests = Arc::new(Guests::default());
        let (socket, _peer) = connection(&listener);
        let enter = |from: String| guests.admit(Arc::clone(&socket), address(&from));
        let crowd: Vec<Place> = (0..10).map(|_| enter("198.51.100.1".into())).collect();
        let others: Vec<Place> = (0..STRANGERS_MAX - 10)
            .map(|number| enter(format!("10.0.{}.{}", number / 250, number % 250)))
            .collect();
        let _new = enter("203.0.113.5".into());
        assert!(others.iter().all(|place| place.put_out().is_none()));
        assert_eq!(crowd.iter().filter(|place| place.put_out().is_some()).count(), 1);
        drop((crowd, others));
        assert_eq!(guests.lock().guests.len(), 1);
    }

    #[test]
    fn one_client_cannot_take_every_place_of_the_known() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let guests = Arc::new(Guests::default());
        let (socket, _peer) = connection(&listener);
        let enter = |client: &str| {
            let place = guests.admit(Arc::clone(&socket), address("192.0.2.1"));
            place.identify(client).map(|()| place)
        };
        let greedy: Vec<Place> = (0..KNOWN_PER_CLIENT).map(|_| enter("greedy").unwrap()).collect();
        assert!(matches!(enter("greedy"), Err(TransferError::Busy { .. })));
        assert!(enter("modest").is_ok());
        drop(greedy);
        assert!(enter("greedy").is_ok());
    }

    #[test]
    fn the_longest_idle_session_makes_room_and_no_other_does() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let guests = Arc::new(Guests::default());
        let (socket, _peer) = connection(&listener);
        let enter = |client: &str| {
            let place = guests.admit(Arc::clone(&socket), address("192.0.2.1"));
            place.identify(client).map(|()| place)
        };
        let held: Vec<Place> = (0..KNOWN_PER_CLIENT).map(|_| enter("one").unwrap()).collect();
        let idle = Duration::from_millis(20);
        let done = Arc::new(AtomicU64::new(0));
        let counted = Arc::clone(&done);
        let busy = move || counted.fetch_add(1, Relaxed);
        held[0].work(Box::new(busy), idle);
        held[1].work(Box::new(|| 0), Duration::from_secs(600));
        held[2].work(Box::new(|| 0), idle);
        thread::sleep(2 * idle);
        let newcomer = enter("one").unwrap();
        assert!(held[2].put_out().is_some(), "it was idle");
        assert!(matches!(enter("one"), Err(TransferError::Busy { .. })), "none is idle now");
        assert!(held.iter().filter(|place| place.put_out().is_some()).count() == 1);
        assert!(newcomer.put_out().is_none() && done.load(Relaxed) > 1);
    }

    #[test]
    fn an_ipv6_network_counts_as_one() {
        let one = network("2001:db8::1".parse().unwrap());
        assert_eq!(one, network("2001:db8::ffff:2".parse().unwrap()));
        assert_ne!(one, network("2001:db8:0:1::1".parse().unwrap()));
        let mapped = network("::ffff:192.0.2.1".parse().unwrap());
        assert_eq!(mapped, network("192.0.2.1".parse().unwrap()));
    }
}
