//! The rate, congestion control and unsent bytes of a transfer, changeable at any moment from any
//! thread.

use std::net::TcpStream;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use weir_units::Rate;

use crate::control::ControlWriter;
use crate::error::TransferError;
use crate::route::Route;
use crate::socket;
use crate::spare::{self, Spare};
use crate::wire::Message;

/// What a connection that is paused goes on with, so that a chunk which it has begun ends: bytes
/// per second.
const FLOOR: u64 = 32_000;
/// What the kernel sends in one go at least, in segments, and how often in a second it may do so at
/// the floor. What has left keeps back what follows for as long as it takes at the pace of that
/// moment, whatever pace is set meanwhile: two segments of 9000 bytes for half a second at 32 kB/s.
const AT_ONCE: u64 = 2;
const OFTEN: u64 = 10;

/// Where a change takes effect.
#[derive(Default)]
enum Target {
    /// Nothing is running; the values wait for the next attempt.
    #[default]
    Nothing,
    /// This end sends, on these connections.
    Here { each: Vec<Sending>, promised: usize },
    /// The peers send and are told, the first one first.
    Peers(Vec<Peer>),
}

/// One of the hosts that send.
struct Peer {
    control: ControlWriter,
    /// It has something to send, as far as is known.
    busy: bool,
    /// What it was told last; nothing of another one before it is first busy.
    rate: Option<Rate>,
}

/// A connection that this end sends on.
struct Sending {
    socket: Arc<TcpStream>,
    /// Its place among the routes; 0 where there are none.
    route: usize,
    standing: Standing,
    /// What its own control allows in the lower class, where the mover runs that: bytes per second.
    own: u64,
}

/// How a connection stands to the promise.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Standing {
    /// It has nothing to send. Its signs of life are ordinary traffic, so that no router starves
    /// them until one end gives the connection up.
    Resting,
    /// It sends in the lower class, beside the promised rate.
    Lower,
    /// It sends in the ordinary class, within the promised rate.
    Promised,
}

/// The rate, congestion control and unsent bytes of a transfer.
#[derive(Default)]
pub(crate) struct Pace {
    state: Mutex<State>,
    changed: Condvar,
}

struct State {
    /// All routes' together, if there are any.
    rate: Rate,
    routes: Vec<Route>,
    congestion: String,
    unsent_max: u32,
    spare: Option<Spare>,
    target: Target,
    /// How often something changed that others may wait for.
    changes: u64,
}

impl Default for State {
    fn default() -> Self {
        Self {
            rate: Rate::MAX,
            routes: Vec::new(),
            congestion: String::new(),
            unsent_max: socket::NOT_SENT_LOWAT,
            spare: None,
            target: Target::Nothing,
            changes: 0,
        }
    }
}

impl Pace {
    /// `Rate::MAX` is unpaced; an empty congestion control leaves the host's default.
    pub(crate) fn new(rate: Rate, congestion: &str) -> Self {
        let congestion = congestion.to_owned();
        let state = State { rate, congestion, ..State::default() };
        Self { state: Mutex::new(state), changed: Condvar::new() }
    }

    /// With spare connections behind those of the promise.
    pub(crate) fn with_spare(self, spare: Option<Spare>) -> Self {
        self.lock().spare = spare;
        self
    }

    /// With a rate for each route, told by the ports that connections go to.
    pub(crate) fn with_routes(self, routes: &[Route]) -> Self {
        let mut state = self.lock();
        if !routes.is_empty() {
            (state.routes, state.rate) = (routes.to_vec(), sum(routes));
        }
        drop(state);
        self
    }

    /// The current values.
    pub(crate) fn values(&self) -> (Rate, String) {
        let state = self.lock();
        (state.rate, state.congestion.clone())
    }

    /// The current rate, of those routes that there are connections on.
    pub(crate) fn rate(&self) -> Rate {
        self.lock().connected_rate()
    }

    /// What a connection has of its route's rate if all of that route send, in bytes per second.
    pub(crate) fn share_of(&self, index: usize) -> f64 {
        let state = self.lock();
        let Target::Here { each, .. } = &state.target else { return 0.0 };
        let Some(own) = each.get(index) else { return 0.0 };
        let beside = each.iter().filter(|one| one.route == own.route).count();
        state.rate_of(own.route).as_bit_per_s() as f64 / 8.0 / beside as f64
    }

    /// The current rate of each route, if there are any.
    pub(crate) fn routes(&self) -> Vec<Route> {
        self.lock().routes.clone()
    }

    /// Applies the values to connections that this end sends on, now and at every change. The
    /// first `promised` of them are the promise's, and the others spare.
    pub(crate) fn drive(
        &self,
        sockets: Vec<Arc<TcpStream>>,
        promised: usize,
    ) -> Result<(), TransferError> {
        let mut state = self.lock();
        let begin = |(index, socket): (usize, Arc<TcpStream>)| Sending {
            route: state.route_of(&socket),
            standing: if index < promised { Standing::Promised } else { Standing::Resting },
            own: u64::MAX,
            socket,
        };
        let each = sockets.into_iter().enumerate().map(begin).collect();
        state.target = Target::Here { each, promised };
        state.apply_congestion()?;
        state.apply_rate();
        state.apply_unsent();
        Ok(())
    }

    /// Drives one more connection of the promise; there must be no spare ones.
    pub(crate) fn take_on(&self, socket: &Arc<TcpStream>) {
        let mut state = self.lock();
        let (congestion, route) = (state.congestion.clone(), state.route_of(socket));
        if let Target::Here { each, promised } = &mut state.target {
            // It fails only on a connection that is gone, whose thread reports that; or where
            // others, set up before it, would have failed.
            let _ = apply_congestion(socket, &congestion);
            let (socket, standing) = (Arc::clone(socket), Standing::Promised);
            each.push(Sending { socket, route, standing, own: u64::MAX });
            *promised = each.len();
        }
        state.apply_rate();
        state.apply_unsent();
    }

    /// Leaves a connection of the promise to the others; there must be no spare ones.
    pub(crate) fn let_go(&self, socket: &Arc<TcpStream>) {
        let mut state = self.lock();
        if let Target::Here { each, promised } = &mut state.target {
            each.retain(|one| !Arc::ptr_eq(&one.socket, socket));
            *promised = each.len();
        }
        state.apply_rate();
    }

    /// The connections that this end sends on.
    pub(crate) fn sockets(&self) -> Vec<Arc<TcpStream>> {
        match &self.lock().target {
            Target::Here { each, .. } => each.iter().map(|one| Arc::clone(&one.socket)).collect(),
            Target::Nothing | Target::Peers(_) => Vec::new(),
        }
    }

    /// Tells the sending peer every change; it was told the rate of this moment.
    pub(crate) fn tell(&self, control: ControlWriter) {
        let mut state = self.lock();
        let rate = Some(state.rate);
        state.target = Target::Peers(vec![Peer { control, busy: true, rate }]);
    }

    /// Tells another sending peer, too, which has its part of the rate while it is busy.
    pub(crate) fn tell_too(&self, control: ControlWriter) {
        if let Target::Peers(each) = &mut self.lock().target {
            each.push(Peer { control, busy: false, rate: None });
        }
    }

    /// Another sending peer has something to send from now on, or not.
    pub(crate) fn set_busy(&self, control: &ControlWriter, busy: bool) {
        let mut state = self.lock();
        if let Target::Peers(each) = &mut state.target
            && let Some(peer) = each.iter_mut().find(|peer| peer.control.is(control))
            && peer.busy != busy
        {
            peer.busy = busy;
            state.share_out(false);
        }
    }

    /// Another sending peer is gone.
    pub(crate) fn forget(&self, control: &ControlWriter) {
        let mut state = self.lock();
        if let Target::Peers(each) = &mut state.target {
            each.retain(|peer| !peer.control.is(control));
            state.share_out(false);
        }
    }

    /// The connections are gone; the values stay for the next attempt.
    pub(crate) fn release(&self) {
        self.lock().target = Target::Nothing;
        self.wake();
    }

    /// Lets everybody look who waits for a change.
    pub(crate) fn wake(&self) {
        self.lock().changes += 1;
        self.changed.notify_all();
    }

    /// How often something changed so far.
    pub(crate) fn changes(&self) -> u64 {
        self.lock().changes
    }

    /// Waits until more has changed than what was `seen`, at most `span`; returns how often
    /// something changed so far.
    pub(crate) fn wait_for_change(&self, seen: u64, span: Duration) -> u64 {
        let is_known = |state: &mut State| state.changes == seen;
        let waited = self.changed.wait_timeout_while(self.lock(), span, is_known);
        waited.unwrap_or_else(PoisonError::into_inner).0.changes
    }

    /// Paces at `rate` from now on, of which each route has the same part; zero pauses.
    pub(crate) fn set_rate(&self, rate: Rate) {
        let mut state = self.lock();
        let several = state.routes.len() as u64;
        for route in &mut state.routes {
            route.rate = match rate {
                Rate::MAX => rate,
                rate => Rate::from_bit_per_s(rate.as_bit_per_s() / several),
            };
        }
        state.rate = rate;
        self.changed_rate(state);
    }

    /// Paces each route at a rate of its own from now on. Those of ports that are none are left
    /// out, and routes that are not named keep theirs.
    pub(crate) fn set_routes(&self, rates: &[Route]) {
        let mut state = self.lock();
        for route in &mut state.routes {
            if let Some(told) = rates.iter().find(|told| told.port == route.port) {
                route.rate = told.rate;
            }
        }
        if !state.routes.is_empty() {
            state.rate = sum(&state.routes);
        }
        self.changed_rate(state);
    }

    fn changed_rate(&self, mut state: MutexGuard<'_, State>) {
        state.apply_rate();
        if state.holds_little() {
            state.apply_unsent();
        }
        drop(state);
        self.wake();
    }

    /// Bounds all spare connections together from now on; zero lets them take nothing more.
    pub(crate) fn set_spare_rate(&self, rate: Rate) {
        let mut state = self.lock();
        if let Some(spare) = &mut state.spare {
            spare.rate = rate;
        }
        state.apply_rate();
    }

    /// Puts a connection into another class, and within the promised rate or beside it.
    pub(crate) fn set_standing(&self, index: usize, standing: Standing) {
        let mut state = self.lock();
        let class = match (standing, &state.spare) {
            (Standing::Lower, Some(spare)) => spare.class.traffic_class(),
            _ => 0,
        };
        if let Target::Here { each, .. } = &mut state.target
            && let Some(one) = each.get_mut(index)
        {
            one.standing = standing;
            // It fails only on a connection that is gone, whose thread reports that.
            let _ = socket::set_traffic_class(&one.socket, class);
        }
        state.apply_rate();
    }

    /// Has a connection look anew for what its path carries.
    pub(crate) fn begin_anew(&self, index: usize) {
        // Under the lock, so that no other control is set meanwhile.
        let state = self.lock();
        if let Target::Here { each, .. } = &state.target
            && let Some(one) = each.get(index)
        {
            // It fails where that control may not be used, and then the connection goes on as it
            // is.
            let _ = socket::begin_anew(&one.socket);
        }
    }

    /// How a connection that this end sends on stands.
    pub(crate) fn standing(&self, index: usize) -> Option<Standing> {
        match &self.lock().target {
            Target::Here { each, .. } => each.get(index).map(|one| one.standing),
            Target::Nothing | Target::Peers(_) => None,
        }
    }

    /// Whether the mover runs the congestion control of what is in the lower class.
    pub(crate) fn yields(&self) -> bool {
        self.lock().spare.as_ref().is_some_and(Spare::yields)
    }

    /// Lets a connection send no faster than so many bytes per second while in the lower class.
    pub(crate) fn set_own_rate(&self, index: usize, own: u64) {
        let mut state = self.lock();
        let beside = state.beside();
        if let Target::Here { each, .. } = &mut state.target
            && let Some(one) = each.get_mut(index)
        {
            one.own = own;
            if one.standing == Standing::Lower {
                // It fails only on a connection that is gone, whose thread reports that.
                let _ = socket::set_pacing(&one.socket, beside.min(own));
            }
        }
    }

    /// Switches the congestion control of the live connections.
    pub(crate) fn set_congestion(&self, name: &str) -> Result<(), TransferError> {
        let mut state = self.lock();
        let before = std::mem::replace(&mut state.congestion, name.to_owned());
        let applied = state.apply_congestion();
        if applied.is_err() {
            state.congestion = before;
        }
        applied
    }

    /// Lets so many bytes wait unsent in the kernel, of each connection that this end sends on.
    pub(crate) fn set_unsent_max(&self, bytes: u32) {
        let mut state = self.lock();
        state.unsent_max = bytes;
        state.apply_unsent();
    }

    /// `struct tcp_info` of each connection of the promise that this end sends on.
    pub(crate) fn tcp_info(&self) -> Vec<Vec<u8>> {
        match &self.lock().target {
            // One that fails is gone, and its thread reports that.
            Target::Here { each, promised } => {
                let each = each[..*promised].iter();
                each.filter_map(|one| socket::tcp_info(&one.socket).ok()).collect()
            }
            Target::Nothing | Target::Peers(_) => Vec::new(),
        }
    }

    /// The congestion control that the first connection has, which a route may have given it; none
    /// where this end does not send.
    pub(crate) fn congestion(&self) -> Option<String> {
        match &self.lock().target {
            Target::Here { each, .. } => socket::congestion(&each.first()?.socket).ok(),
            Target::Nothing | Target::Peers(_) => None,
        }
    }

    /// What all spare connections together may take.
    pub(crate) fn spare_rate(&self) -> Rate {
        self.lock().spare_rate()
    }

    /// Blocks a sending thread while the transfer is paused. With spare connections, which go on,
    /// no chunk stays half sent: what has begun ends, and nothing new is taken.
    pub(crate) fn wait_while_paused(&self) {
        let mut state = self.lock();
        while state.rate == Rate::ZERO
            && !state.shares()
            && !matches!(state.target, Target::Nothing)
        {
            state = self.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    fn apply_rate(&mut self) {
        match &self.target {
            Target::Nothing => {}
            // While paused, what the kernel still holds leaves at the former pace.
            Target::Here { .. } if self.rate == Rate::ZERO && !self.shares() => {}
            Target::Here { each, promised } => {
                let beside = self.beside();
                for (index, one) in each.iter().enumerate() {
                    let promise = self.rate_of(one.route);
                    let rate = match one.standing {
                        Standing::Resting => continue,
                        Standing::Lower => beside.min(one.own),
                        // What such a route has begun ends at the former pace.
                        Standing::Promised if self.has_routes() && promise == Rate::ZERO => {
                            continue;
                        }
                        Standing::Promised => {
                            let is_own = index < *promised && promise != Rate::ZERO;
                            let least = if is_own { 0 } else { floor(&one.socket) };
                            share(promise, within(each, one.route)).max(least)
                        }
                    };
                    // It fails only on a connection that is gone, whose thread reports that.
                    let _ = socket::set_pacing(&one.socket, rate);
                }
            }
            Target::Peers(_) => self.share_out(true),
        }
    }

    /// Tells peers their parts of the rate: all of them, or those for which it is another one.
    fn share_out(&mut self, all: bool) {
        let rate = self.rate;
        let Target::Peers(each) = &mut self.target else {
            return;
        };
        let busy = each.iter().filter(|peer| peer.busy).count().max(1) as u64;
        let share = match rate {
            Rate::MAX => rate,
            rate => Rate::from_bit_per_s(rate.as_bit_per_s().div_ceil(busy)),
        };
        for peer in each.iter_mut().filter(|peer| peer.busy || all) {
            if all || peer.rate != Some(share) {
                peer.rate = Some(share);
                // A lost connection is reported by the thread that reads from it.
                let rate_bps = share.as_bit_per_s();
                let _ = peer.control.send(&Message::SetRate { rate_bps });
            }
        }
    }

    /// Whether connections go to several ports.
    fn has_routes(&self) -> bool {
        self.routes.len() > 1
    }

    /// Whether little is to wait in the kernel, since it could have gone by another connection.
    fn holds_little(&self) -> bool {
        self.shares() || self.has_routes()
    }

    /// The rate of a route by its place, or of all where there are none.
    fn rate_of(&self, route: usize) -> Rate {
        self.routes.get(route).map_or(self.rate, |route| route.rate)
    }

    /// The place of the route that a connection is on.
    fn route_of(&self, socket: &TcpStream) -> usize {
        let port = socket.peer_addr().map_or(0, |peer| peer.port());
        self.routes.iter().position(|route| route.port == port).unwrap_or(0)
    }

    fn connected_rate(&self) -> Rate {
        match &self.target {
            Target::Here { each, .. } if self.has_routes() => {
                let is_on = |place: usize| each.iter().any(|one| one.route == place);
                let all = self.routes.iter().enumerate();
                let connected = all.filter(|(place, _)| is_on(*place)).map(|(_, route)| *route);
                sum(&connected.collect::<Vec<_>>())
            }
            _ => self.rate,
        }
    }

    /// Whether there are spare connections.
    fn shares(&self) -> bool {
        matches!(&self.target, Target::Here { each, promised } if each.len() > *promised)
    }

    /// What all connections in the lower class together may send.
    fn spare_rate(&self) -> Rate {
        self.spare.as_ref().map_or(Rate::ZERO, |spare| spare.rate)
    }

    /// What each connection in the lower class may send, in bytes per second; the promise's may
    /// be there too.
    fn beside(&self) -> u64 {
        match &self.target {
            Target::Here { each, promised } => {
                let lower = each.iter().filter(|one| one.standing == Standing::Lower).count();
                share(self.spare_rate(), lower.max(each.len() - promised))
            }
            Target::Nothing | Target::Peers(_) => share(self.spare_rate(), 1),
        }
    }

    fn apply_unsent(&self) {
        let Target::Here { each, promised } = &self.target else {
            return;
        };
        let least = socket::SPARE_NOT_SENT_LOWAT;
        for (index, one) in each.iter().enumerate() {
            let mut unsent_max = if index < *promised { self.unsent_max } else { least };
            if index < *promised && self.holds_little() {
                // What waits here could have gone by another: little more than a look's worth.
                let on_route = each[..*promised].iter().filter(|other| other.route == one.route);
                let worth = share(self.rate_of(one.route), on_route.count()) / 16;
                let worth = u32::try_from(worth).unwrap_or(u32::MAX);
                unsent_max = unsent_max.min(worth.max(least));
            }
            // It fails only on a connection that is gone, whose thread reports that.
            let _ = socket::set_unsent_max(&one.socket, unsent_max);
        }
    }

    fn apply_congestion(&self) -> Result<(), TransferError> {
        match &self.target {
            Target::Nothing => Ok(()),
            Target::Here { each, promised } => {
                for (index, one) in each.iter().enumerate() {
                    match &self.spare {
                        Some(spare) if index >= *promised => {
                            apply_beside(&one.socket, &spare.congestion)?;
                        }
                        _ => apply_congestion(&one.socket, &self.congestion)?,
                    }
                }
                Ok(())
            }
            Target::Peers(_) if self.congestion.is_empty() => Ok(()),
            Target::Peers(each) => {
                let message = Message::SetCongestion { name: self.congestion.clone() };
                let mut told = each.iter().map(|peer| peer.control.send(&message));
                let first = told.next().unwrap_or(Ok(()));
                // Whoever reads from the others finds out.
                told.for_each(drop);
                first
            }
        }
    }
}

/// Sets the control of a spare connection. Below one that the mover runs stays the kernel's that
/// repairs losses best.
fn apply_beside(socket: &TcpStream, name: &str) -> Result<(), TransferError> {
    if name == spare::YIELDING {
        return socket::set_congestion(socket, "cubic")
            .or_else(|_| socket::set_congestion(socket, "reno"));
    }
    apply_congestion(socket, name)
}

fn apply_congestion(socket: &TcpStream, name: &str) -> Result<(), TransferError> {
    if name.is_empty() { Ok(()) } else { socket::set_congestion(socket, name) }
}

/// What ends a chunk that a connection has begun, and keeps back for no long what comes when it has
/// a rate again: bytes per second.
fn floor(socket: &TcpStream) -> u64 {
    // It fails only on a connection that is gone, whose thread reports that.
    let segment = socket::segment(socket).map_or(0, u64::from);
    FLOOR.max(segment * AT_ONCE * OFTEN)
}

/// How many connections share a route's rate now.
fn within(each: &[Sending], route: usize) -> usize {
    let promised = each.iter().filter(|one| one.standing == Standing::Promised);
    promised.filter(|one| one.route == route).count()
}

/// The rate of several routes together.
fn sum(routes: &[Route]) -> Rate {
    let add = |all: u64, route: &Route| all.saturating_add(route.rate.as_bit_per_s());
    Rate::from_bit_per_s(routes.iter().fold(0, add))
}

/// What each of so many connections may send, in bytes per second.
fn share(rate: Rate, connections: usize) -> u64 {
    match rate {
        Rate::MAX => u64::MAX,
        Rate::ZERO => FLOOR,
        rate => (rate.as_bit_per_s() / 8 / connections.max(1) as u64).max(1),
    }
}

#[cfg(test)]
mod tests {
    use std::net::TcpListener;

    use super::*;
    use crate::spare::LowerClass;

    /// The pace of four connections over the loopback device, of which the last one is spare.
    fn four() -> (Pace, Vec<Arc<TcpStream>>) {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
        let address = listener.local_addr().expect("it is bound");
        let connect = |_| Arc::new(TcpStream::connect(address).expect("it listens"));
        let spare = Spare {
            class: LowerClass::Le,
            streams: 1,
            rate: Rate::from_mbit_per_s(8),
            congestion: String::new(),
            packet: None,
        };
        let pace = Pace::new(Rate::from_mbit_per_s(80), "").with_spare(Some(spare));
        let sockets: Vec<_> = (0..4).map(connect).collect();
        pace.drive(sockets.clone(), 3).expect("nothing to refuse");
        (pace, sockets)
    }

    #[test]
    fn what_leaves_while_nothing_is_promised_keeps_nothing_back_for_long() {
        /// Where `tcpi_max_pacing_rate` stands in `struct tcp_info`.
        const PACE: usize = 112;
        let (pace, sockets) = four();
        pace.set_rate(Rate::ZERO);
        pace.set_standing(3, Standing::Promised);
        for socket in &sockets {
            let told = socket::tcp_info(socket).expect("it is connected");
            let bytes_per_s = u64::from_ne_bytes(told[PACE..PACE + 8].try_into().expect("eight"));
            let segment = socket::segment(socket).expect("it is connected");
            // Linux sends two segments at a time, of the 64 KiB that the loopback device carries.
            let kept_back_s = f64::from(2 * segment) / bytes_per_s as f64;
            assert!(segment > 20_000 && kept_back_s <= 0.1, "{segment}: {kept_back_s} s");
        }
    }

    #[test]
    fn whoever_waits_for_a_change_learns_of_each() {
        let (pace, _sockets) = four();
        let seen = pace.changes();
        assert_eq!(pace.wait_for_change(seen, Duration::ZERO), seen);
        let long = Duration::from_secs(600);
        pace.set_rate(Rate::from_mbit_per_s(1));
        let seen = pace.wait_for_change(seen, long);
        std::thread::scope(|scope| {
            scope.spawn(|| pace.set_rate(Rate::ZERO));
            assert_ne!(pace.wait_for_change(seen, long), seen);
        });
    }

    #[test]
    fn the_spare_rate_bounds_all_that_is_in_the_lower_class() {
        let (pace, _sockets) = four();
        // One spare connection, and then the promise's beside it.
        for (index, each) in [(3, 1_000_000), (0, 500_000), (1, 333_333), (2, 250_000)] {
            pace.set_standing(index, Standing::Lower);
            assert_eq!(pace.lock().beside(), each);
        }
        pace.set_standing(3, Standing::Resting);
        assert_eq!(pace.lock().beside(), 333_333);
    }
}
