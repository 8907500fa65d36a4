//! The rate, congestion control and unsent bytes of a transfer, changeable at any moment from any
//! thread.

use std::net::TcpStream;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

use weir_units::Rate;

use crate::control::ControlWriter;
use crate::error::TransferError;
use crate::socket;
use crate::wire::Message;

/// Where a change takes effect.
#[derive(Default)]
enum Target {
    /// Nothing is running; the values wait for the next attempt.
    #[default]
    Nothing,
    /// This end sends, on these connections.
    Here(Vec<Arc<TcpStream>>),
    /// The peer sends and is told.
    Peer(ControlWriter),
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
    target: Target,
}

impl Default for State {
    fn default() -> Self {
        Self {
            rate: Rate::MAX,
            congestion: String::new(),
            unsent_max: socket::NOT_SENT_LOWAT,
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

    /// The current values.
    pub(crate) fn values(&self) -> (Rate, String) {
        let state = self.lock();
        (state.rate, state.congestion.clone())
    }

    /// Applies the values to connections that this end sends on, now and at every change.
    pub(crate) fn drive(&self, sockets: Vec<Arc<TcpStream>>) -> Result<(), TransferError> {
        let mut state = self.lock();
        state.target = Target::Here(sockets);
        state.apply_congestion()?;
        state.apply_rate();
        state.apply_unsent();
        Ok(())
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
        drop(state);
        self.changed.notify_all();
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

    /// `struct tcp_info` of each connection that this end sends on.
    pub(crate) fn tcp_info(&self) -> Vec<Vec<u8>> {
        match &self.lock().target {
            // One that fails is gone, and its thread reports that.
            Target::Here(sockets) => {
                sockets.iter().filter_map(|socket| socket::tcp_info(socket).ok()).collect()
            }
            Target::Nothing | Target::Peer(_) => Vec::new(),
        }
    }

    /// Blocks a sending thread while the transfer is paused.
    pub(crate) fn wait_while_paused(&self) {
        let mut state = self.lock();
        while state.rate == Rate::ZERO && !matches!(state.target, Target::Nothing) {
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
            Target::Here(sockets) => {
                let streams = sockets.len().max(1) as u64;
                let bytes_per_s = match self.rate {
                    Rate::MAX => u64::MAX,
                    // While paused, what the kernel still holds leaves at the former pace.
                    Rate::ZERO => return,
                    rate => (rate.as_bit_per_s() / 8 / streams).max(1),
                };
                for socket in sockets {
                    // It fails only on a connection that is gone, whose thread reports that.
                    let _ = socket::set_pacing(socket, bytes_per_s);
                }
            }
            Target::Peer(control) => {
                // A lost connection is reported by the thread that reads from it.
                let _ = control.send(&Message::SetRate { rate_bps: self.rate.as_bit_per_s() });
            }
        }
    }

    fn apply_unsent(&self) {
        if let Target::Here(sockets) = &self.target {
            for socket in sockets {
                // It fails only on a connection that is gone, whose thread reports that.
                let _ = socket::set_unsent_max(socket, self.unsent_max);
            }
        }
    }

    fn apply_congestion(&self) -> Result<(), TransferError> {
        if self.congestion.is_empty() {
            return Ok(());
        }
        match &self.target {
            Target::Nothing => Ok(()),
            Target::Here(sockets) => sockets
                .iter()
                .try_for_each(|socket| socket::set_congestion(socket, &self.congestion)),
            Target::Peer(control) => {
                control.send(&Message::SetCongestion { name: self.congestion.clone() })
            }
        }
    }
}
