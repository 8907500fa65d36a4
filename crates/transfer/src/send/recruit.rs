//! Data connections that join while it sends, and those that leave then.

use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering::Relaxed};
use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::sync::{Arc, PoisonError};
use std::thread::Scope;

use super::Sending;
use super::lane::LOOK;
use crate::connection::Connection;
use crate::error::TransferError;
use crate::streams::{STREAMS_MAX, Streams, Wanted};
use crate::wire::Message;

/// Connections that are being made, or why none are.
pub(crate) type Joining = Receiver<Result<Vec<Connection>, TransferError>>;

/// Where more data connections come from.
pub(crate) struct Recruits<'a> {
    /// How many are wanted.
    pub(crate) streams: &'a Streams,
    /// Begins to make so many more, which join the session.
    pub(crate) join: &'a (dyn Fn(u16) -> Joining + Sync),
}

/// How many connections take work, and how many are to.
pub(super) struct Crew {
    at_work: AtomicUsize,
    wanted: AtomicUsize,
    /// Those that began before this renewal have been replaced, and count no more.
    renewal: AtomicU64,
}

impl Crew {
    /// So many, all of which stay.
    pub(super) fn new(at_work: usize) -> Self {
        let (at_work, wanted) = (AtomicUsize::new(at_work), AtomicUsize::new(usize::MAX));
        Self { at_work, wanted, renewal: AtomicU64::new(0) }
    }

    /// So many more are at work.
    fn grows(&self, joined: usize) {
        self.at_work.fetch_add(joined, Relaxed);
    }

    /// So many have taken the place of all that were at work.
    fn is_replaced(&self, joined: usize, renewal: u64) {
        self.at_work.store(joined, Relaxed);
        self.renewal.store(renewal, Relaxed);
    }

    /// Whether the connection that asks, which began after so many renewals, is to leave: it was
    /// replaced, or is one too many.
    pub(super) fn lets_go(&self, renewal: u64) -> bool {
        if renewal < self.renewal.load(Relaxed) {
            return true;
        }
        let wanted = self.wanted.load(Relaxed);
        let one_fewer = |at_work: usize| (at_work > wanted).then(|| at_work - 1);
        self.at_work.fetch_update(Relaxed, Relaxed, one_fewer).is_ok()
    }
}

impl Sending {
    /// The thread that takes on more connections where more are wanted.
    pub(super) fn recruit<'scope>(
        &'scope self,
        scope: &'scope Scope<'scope, '_>,
        recruits: &Recruits<'_>,
    ) {
        let (streams, first) = (self.crew.at_work.load(Relaxed), recruits.streams.renewals());
        let mut wanted = Wanted { streams, renewals: first };
        while let Some(now) = recruits.streams.next(wanted) {
            let is_renewal = now.renewals != wanted.renewals;
            wanted = now;
            self.crew.wanted.store(wanted.streams, Relaxed);
            let at_work = self.crew.at_work.load(Relaxed);
            // Those that leave are still there while others take their place.
            let is_renewal = is_renewal && at_work + wanted.streams <= STREAMS_MAX.into();
            let more = wanted.streams.saturating_sub(if is_renewal { 0 } else { at_work });
            if more == 0 || !recruits.streams.can_join() {
                continue;
            }
            let renewal = is_renewal.then(|| wanted.renewals - first);
            if let Err(error) = self.take_on(scope, recruits, more, renewal) {
                recruits.streams.refuse();
                self.progress.notice(format!("no more streams: {error}"));
            }
        }
    }

    /// Tells the receiver that nothing more follows; no connection joins after that.
    pub(super) fn finish(&self) -> Result<(), TransferError> {
        let mut finished = self.finished.lock().unwrap_or_else(PoisonError::into_inner);
        *finished = true;
        self.control.send(&Message::Finish)
    }

    /// Takes on so many more, unless all is over before they have joined; in a renewal they take
    /// the place of all others.
    fn take_on<'scope>(
        &'scope self,
        scope: &'scope Scope<'scope, '_>,
        recruits: &Recruits<'_>,
        more: usize,
        renewal: Option<u64>,
    ) -> Result<(), TransferError> {
        let joining = (recruits.join)(u16::try_from(more).unwrap_or(u16::MAX));
        let joined = loop {
            match joining.recv_timeout(LOOK) {
                Ok(joined) => break joined?,
                Err(RecvTimeoutError::Timeout) if !recruits.streams.is_over() => {}
                // Whoever makes them ends by itself.
                Err(_) => return Ok(()),
            }
        };
        let finished = self.finished.lock().unwrap_or_else(PoisonError::into_inner);
        if *finished || self.files().over {
            return Ok(());
        }
        let streams = u16::try_from(joined.len()).unwrap_or(u16::MAX);
        if self.control.send(&Message::Joined { streams }).is_err() {
            return Ok(()); // Whoever reads from it reports that.
        }
        self.files().outputs += joined.len();
        match renewal {
            Some(renewal) => self.crew.is_replaced(joined.len(), renewal),
            None => self.crew.grows(joined.len()),
        }
        let renewal = self.crew.renewal.load(Relaxed);
        drop(finished);
        recruits.streams.joined();
        for connection in joined {
            self.sockets().push(Arc::clone(&connection.socket));
            self.pace.take_on(&connection.socket);
            self.begin(scope, move || self.put_out_joined(connection, renewal));
        }
        Ok(())
    }

    /// The thread of a connection that joined after so many renewals. What it leaves behind is the
    /// kernel's to deliver; nothing is unread that could reset it.
    fn put_out_joined(&self, mut connection: Connection, renewal: u64) {
        // Neither routes nor spare connections are there, which go by numbers.
        self.put_out(&mut connection, usize::MAX, renewal);
        self.sockets().retain(|socket| !Arc::ptr_eq(socket, &connection.socket));
    }
}
