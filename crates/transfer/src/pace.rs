//! The rate, congestion control and unsent bytes of a transfer, changeable at any moment from any
//! thread.

use std::net::TcpStream;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

use weir_units::Rate;

use crate::control::ControlWriter;
use crate::error::TransferError;
use crate::socket;
use crate::spare::{self, Spare};
use crate::wire::Message;

/// What a connection that is paused goes on with, so that a chunk which it has begun ends: bytes
/// per second.
const FLOOR: u64 = 32_000;

/// Where a change takes effect.
#[derive(Default)]
enum Target {
    /// Nothing is running; the values wait for the next attempt.
    #[default]
    Nothing,
    /// This end sends, on these connections.
    Here { each: Vec<Sending>, promised: usize },
    /// The peer sends and is told.
    Peer(ControlWriter),
}

/// A connection that this end sends on.
struct Sending {
    socket: Arc<TcpStream>,
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
    rate: Rate,
    congestion: String,
    unsent_max: u32,
    spare: Option<Spare>,
    /// With `spare`: so many of the connections are the promise's.
    promised: usize,
    target: Target,
}

impl Default for State {
    fn default() -> Self {
        Self {
            rate: Rate::MAX,
            congestion: String::new(),
            unsent_max: socket::NOT_SENT_LOWAT,
            spare: None,
            promised: 0,
            target: Target::Nothing,
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

    /// From now on connections beyond the first `promised` ones are spare.
    pub(crate) fn with_spare(self, spare: Option<Spare>, promised: u16) -> Self {
        let mut state = self.lock();
        (state.spare, state.promised) = (spare, promised.into());
        drop(state);
        self
    }

    /// The current values.
    pub(crate) fn values(&self) -> (Rate, String) {
        let state = self.lock();
        (state.rate, state.congestion.clone())
    }

    /// The current rate.
    pub(crate) fn rate(&self) -> Rate {
        self.lock().rate
    }

    /// Applies the values to connections that this end sends on, now and at every change; returns
    /// how many of them, from the first one on, are the promise's.
    pub(crate) fn drive(&self, sockets: Vec<Arc<TcpStream>>) -> Result<usize, TransferError> {
        let mut state = self.lock();
        let promised = match state.spare {
            None => sockets.len(),
            Some(_) => state.promised.min(sockets.len()),
        };
        let standing =
            |index| if index < promised { Standing::Promised } else { Standing::Resting };
        let begin = |(index, socket)| Sending { socket, standing: standing(index), own: u64::MAX };
        let each = sockets.into_iter().enumerate().map(begin).collect();
        state.target = Target::Here { each, promised };
        state.apply_congestion()?;
        state.apply_rate();
        state.apply_unsent();
        Ok(promised)
    }

    /// Tells the sending peer every change.
    pub(crate) fn tell(&self, control: ControlWriter) {
        self.lock().target = Target::Peer(control);
    }

    /// The connections are gone; the values stay for the next attempt.
    pub(crate) fn release(&self) {
        self.lock().target = Target::Nothing;
        self.changed.notify_all();
    }

    /// Paces at `rate` from now on; zero pauses.
    pub(crate) fn set_rate(&self, rate: Rate) {
        let mut state = self.lock();
        state.rate = rate;
        state.apply_rate();
        if state.shares() {
            state.apply_unsent();
        }
        drop(state);
        self.changed.notify_all();
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

    /// How a connection that this end sends on stands.
    pub(crate) fn standing(&self, index: usize) -> Option<Standing> {
        match &self.lock().target {
            Target::Here { each, .. } => each.get(index).map(|one| one.standing),
            Target::Nothing | Target::Peer(_) => None,
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
            Target::Nothing | Target::Peer(_) => Vec::new(),
        }
    }

    /// The congestion control that the first connection has, which a route may have given it; none
    /// where this end does not send.
    pub(crate) fn congestion(&self) -> Option<String> {
        match &self.lock().target {
            Target::Here { each, .. } => socket::congestion(&each.first()?.socket).ok(),
            Target::Nothing | Target::Peer(_) => None,
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
    fn apply_rate(&self) {
        match &self.target {
            Target::Nothing => {}
            // While paused, what the kernel still holds leaves at the former pace.
            Target::Here { .. } if self.rate == Rate::ZERO && !self.shares() => {}
            Target::Here { each, promised } => {
                let within = each.iter().filter(|one| one.standing == Standing::Promised);
                let within = share(self.rate, within.count());
                let beside = self.beside();
                for (index, one) in each.iter().enumerate() {
                    let rate = match one.standing {
                        Standing::Resting => continue,
                        Standing::Lower => beside.min(one.own),
                        Standing::Promised if index < *promised => within,
                        Standing::Promised => within.max(FLOOR),
                    };
                    // It fails only on a connection that is gone, whose thread reports that.
                    let _ = socket::set_pacing(&one.socket, rate);
                }
            }
            Target::Peer(control) => {
                // A lost connection is reported by the thread that reads from it.
                let _ = control.send(&Message::SetRate { rate_bps: self.rate.as_bit_per_s() });
            }
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
            Target::Nothing | Target::Peer(_) => share(self.spare_rate(), 1),
        }
    }

    fn apply_unsent(&self) {
        let Target::Here { each, promised } = &self.target else {
            return;
        };
        let least = socket::SPARE_NOT_SENT_LOWAT;
        let mut most = self.unsent_max;
        if self.shares() {
            // What waits here could have gone by a lane: little more than a look's worth.
            let worth = share(self.rate, *promised) / 16;
            most = most.min(u32::try_from(worth).unwrap_or(u32::MAX).max(least));
        }
        for (index, one) in each.iter().enumerate() {
            let unsent_max = if index < *promised { most } else { least };
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
            Target::Peer(_) if self.congestion.is_empty() => Ok(()),
            Target::Peer(control) => {
                control.send(&Message::SetCongestion { name: self.congestion.clone() })
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

    #[test]
    fn the_spare_rate_bounds_all_that_is_in_the_lower_class() {
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
        let pace = Pace::new(Rate::from_mbit_per_s(80), "").with_spare(Some(spare), 3);
        pace.drive((0..4).map(connect).collect()).expect("nothing to refuse");
        // One spare connection, and then the promise's beside it.
        for (index, each) in [(3, 1_000_000), (0, 500_000), (1, 333_333), (2, 250_000)] {
            pace.set_standing(index, Standing::Lower);
            assert_eq!(pace.lock().beside(), each);
        }
        pace.set_standing(3, Standing::Resting);
        assert_eq!(pace.lock().beside(), 333_333);
    }
}
