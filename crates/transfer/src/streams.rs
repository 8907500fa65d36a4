//! How many data connections a transfer is to send on, changeable from any thread while it sends.

use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use crate::error::TransferError;

/// Data connections of a session at once.
pub(crate) const STREAMS_MAX: u16 = 64;
/// What breaks so soon after connections have joined may do so because of them...
const SOON: Duration = Duration::from_secs(10);
/// ...and so often in a row it does.
const BROKEN_MAX: u8 = 2;

/// Refuses a number that no session has.
pub(crate) fn check_streams(streams: usize) -> Result<(), TransferError> {
    if (1..=STREAMS_MAX.into()).contains(&streams) {
        return Ok(());
    }
    let (item, value) = ("streams", streams.to_string());
    Err(TransferError::Setting { item, value, why: "1 to 64 are allowed" })
}

/// How many data connections are wanted, and how often others were to take their place.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) struct Wanted {
    pub(crate) streams: usize,
    pub(crate) renewals: u64,
}

/// The number of data connections that are wanted.
#[derive(Default)]
pub(crate) struct Streams {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Default)]
struct State {
    /// `None` is as many as there were at the beginning.
    wanted: Option<usize>,
    /// How often others were to take the place of all that there were.
    renewals: u64,
    /// Connections can join the operation that is going on.
    takes: bool,
    over: bool,
    /// When the latest joined the operation.
    joined: Option<Instant>,
    /// How often in a row an operation broke soon after.
    broken: u8,
}

impl Streams {
    /// So many are wanted from now on.
    pub(crate) fn want(&self, streams: usize) {
        self.lock().wanted = Some(streams);
        self.changed.notify_all();
    }

    /// Others are to take the place of all that there are.
    pub(crate) fn renew(&self) {
        self.lock().renewals += 1;
        self.changed.notify_all();
    }

    /// How often others were to take the place of all that there were.
    pub(crate) fn renewals(&self) -> u64 {
        self.lock().renewals
    }

    /// Whether connections can join now.
    pub(crate) fn can_join(&self) -> bool {
        let state = self.lock();
        state.takes && !state.over
    }

    /// An operation begins, which connections can join or not.
    pub(crate) fn begin(&self, takes: bool) {
        let mut state = self.lock();
        state.takes = takes && state.broken < BROKEN_MAX;
        (state.over, state.joined) = (false, None);
    }

    /// Some have joined.
    pub(crate) fn joined(&self) {
        self.lock().joined = Some(Instant::now());
    }

    /// No more can join the operation that is going on.
    pub(crate) fn refuse(&self) {
        self.lock().takes = false;
    }

    /// The operation is over.
    pub(crate) fn end(&self) {
        self.lock().over = true;
        self.changed.notify_all();
    }

    /// The operation broke off; says whether that was once too often.
    pub(crate) fn broke(&self) -> bool {
        let mut state = self.lock();
        match state.joined {
            Some(joined) if joined.elapsed() < SOON => state.broken += 1,
            Some(_) => state.broken = 0,
            None => return false,
        }
        state.broken == BROKEN_MAX
    }

    /// Whether no operation goes on.
    pub(crate) fn is_over(&self) -> bool {
        self.lock().over
    }

    /// What is wanted, once it is something else than before; `None` when the operation is over.
    pub(crate) fn next(&self, before: Wanted) -> Option<Wanted> {
        let mut state = self.lock();
        loop {
            if state.over {
                return None;
            }
            let streams = state.wanted.unwrap_or(before.streams);
            let now = Wanted { streams, renewals: state.renewals };
            if now != before {
                return Some(now);
            }
            state = self.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Connections join an operation, which breaks off; whether that was once too often.
    fn breaks(streams: &Streams, joins: bool) -> bool {
        streams.begin(true);
        if joins {
            streams.joined();
        }
        streams.end();
        streams.broke()
    }

    #[test]
    fn what_breaks_again_and_again_when_some_have_joined_takes_no_more() {
        let streams = Streams::default();
        assert!(!breaks(&streams, true));
        assert!(!breaks(&streams, false), "none had joined");
        streams.begin(true);
        assert!(streams.can_join());
        assert!(breaks(&streams, true));
        streams.begin(true);
        assert!(!streams.can_join());
    }

    #[test]
    fn a_number_is_told_once_and_again_to_the_next_operation() {
        let (one, four) = (wanted(1, 0), wanted(4, 0));
        let streams = Streams::default();
        streams.begin(true);
        streams.want(4);
        assert!(streams.next(one) == Some(four));
        streams.end();
        assert!(streams.next(one).is_none());
        streams.begin(true);
        assert!(streams.next(one) == Some(four));
    }

    #[test]
    fn a_renewal_is_told_with_as_many_as_there_are() {
        let streams = Streams::default();
        streams.begin(true);
        streams.renew();
        assert!(streams.next(wanted(3, 0)) == Some(wanted(3, 1)));
        assert_eq!(streams.renewals(), 1, "the next operation has new ones anyway");
    }

    fn wanted(streams: usize, renewals: u64) -> Wanted {
        Wanted { streams, renewals }
    }
}
