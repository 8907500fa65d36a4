//! One of the other hosts of an operation, whichever end it helps: its session, and whether it
//! still does. What is under way at it is the business of that end.

use std::net::TcpStream;
use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use weir_units::Rate;

use crate::connection::Connection;
use crate::control::{ControlReader, ControlWriter};
use crate::error::TransferError;
use crate::wire::Message;

/// The most that is to pass a helper's connections while it is not taken for stuck: 26 kbit/s
/// where 20 s of silence are borne.
const LEAST_MAX: u64 = 1 << 16;

/// A session with one of the other hosts, which is ready to help.
pub(crate) struct HelperSession {
    pub(crate) reader: ControlReader,
    pub(crate) control: ControlWriter,
    pub(crate) data: Vec<Connection>,
}

/// A session that is being opened, or why there is none.
pub(crate) type Opening = Receiver<Result<HelperSession, TransferError>>;

/// One of the other hosts, with its `work` as one end of the operation keeps it.
pub(crate) struct Helper<W> {
    pub(crate) number: u8,
    pub(crate) name: String,
    state: Mutex<State<W>>,
}

/// All that changes of a helper.
#[derive(Default)]
pub(crate) struct State<W> {
    pub(crate) control: Option<ControlWriter>,
    /// Those of its data connections.
    pub(crate) sockets: Vec<Arc<TcpStream>>,
    /// What had passed them at the last look, and when something did, or it gave another sign.
    passed: u64,
    pub(crate) moved: Option<Instant>,
    /// It is given nothing more: it is lost, or all is done.
    pub(crate) over: bool,
    pub(crate) work: W,
}

impl<W: Default> Helper<W> {
    pub(crate) fn new(number: usize, name: &str) -> Self {
        let number = u8::try_from(number).unwrap_or(u8::MAX);
        Self { number, name: name.to_owned(), state: Mutex::default() }
    }

    /// Its place among all hosts, of which the first one is 0.
    pub(crate) fn place(&self) -> usize {
        usize::from(self.number) + 1
    }

    pub(crate) fn state(&self) -> MutexGuard<'_, State<W>> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits for its session, and looks again and again whether that is still wanted.
    pub(crate) fn reached(
        &self,
        opening: &Opening,
        look: Duration,
        is_wanted: impl Fn() -> bool,
    ) -> Option<Result<HelperSession, TransferError>> {
        loop {
            match opening.recv_timeout(look) {
                Ok(reached) => return Some(reached),
                Err(RecvTimeoutError::Timeout) if !self.is_over() && is_wanted() => {}
                // Whoever opens it ends by itself.
                Err(_) => return None,
            }
        }
    }

    /// It is reached; false, and its session ends, if nothing is to be done any more.
    pub(crate) fn begin(&self, control: &ControlWriter, data: &[Connection]) -> bool {
        let mut state = self.state();
        state.control = Some(control.clone());
        state.sockets = data.iter().map(|one| Arc::clone(&one.socket)).collect();
        if state.over {
            state.end_session();
        }
        !state.over
    }

    pub(crate) fn control(&self) -> Option<ControlWriter> {
        self.state().control.clone()
    }

    pub(crate) fn tell(&self, message: &Message) {
        if let Some(control) = self.control()
            && control.send(message).is_err()
        {
            // Whoever reads from it finds out now, though it may still talk.
            control.shut_down();
        }
    }

    /// It is given nothing more, and its session ends; what is left of its work, the first time.
    pub(crate) fn end_with<T>(&self, left: impl FnOnce(&mut W) -> T) -> Option<T> {
        let mut state = self.state();
        let was_over = std::mem::replace(&mut state.over, true);
        state.end_session();
        (!was_over).then(|| left(&mut state.work))
    }

    pub(crate) fn is_over(&self) -> bool {
        self.state().over
    }
}

/// So much is to pass a helper's connections in such a span: half of its part of a rate that is
/// kept by as many hosts as there may be, and no more than the slowest of paths carries.
fn least(silence: Duration, rate: Rate) -> u64 {
    let bytes = (rate.as_bit_per_s() / 8).saturating_mul(silence.as_secs());
    (bytes / 16).clamp(1, LEAST_MAX)
}

impl<W> State<W> {
    fn end_session(&self) {
        if let Some(control) = &self.control {
            control.shut_down();
        }
        self.sockets.iter().for_each(|socket| Connection::shut_down(socket));
    }

    /// Whether next to nothing has moved for so long, where something should: single bytes would
    /// hold up all others for as long as whoever sends them likes.
    ///
    /// `passed` is what has passed its connections by now; `may_rest` says that it owes nothing.
    /// While paused it may rest, too.
    pub(crate) fn is_stuck(
        &mut self,
        (silence, rate): (Duration, Rate),
        passed: u64,
        may_rest: bool,
    ) -> bool {
        let may_rest = may_rest || rate == Rate::ZERO || self.moved.is_none();
        if may_rest || passed.saturating_sub(self.passed) >= least(silence, rate) {
            (self.passed, self.moved) = (passed, Some(Instant::now()));
        }
        !may_rest && self.moved.is_some_and(|moved| moved.elapsed() >= silence)
    }
}

#[cfg(test)]
mod tests {
    use std::io::Read;
    use std::net::TcpListener;

    use super::*;
    use crate::control;

    /// Both ends of a connection on this host.
    fn connected() -> (Connection, TcpStream) {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let ours = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let theirs = listener.accept().unwrap().0;
        theirs.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
        (Connection::plain(Arc::new(ours)), theirs)
    }

    #[test]
    fn whoever_is_reached_after_the_end_learns_that_nothing_is_to_be_done() {
        let helper = Helper::<u8>::new(0, "dtn2:7411");
        assert_eq!(helper.end_with(|_| "left"), Some("left"));
        let ((first, mut control), (data, mut content)) = (connected(), connected());
        let (_reader, writer) = control::split(first);
        let data = [data];
        assert!(!helper.begin(&writer, &data));
        // Both are open here still, and yet have ended there.
        assert_eq!(control.read(&mut [0]).unwrap(), 0);
        assert_eq!(content.read(&mut [0]).unwrap(), 0);
    }

    #[test]
    fn it_ends_once_and_its_session_with_it() {
        let helper = Helper::<u8>::new(1, "dtn3:7411");
        let ((first, mut control), (data, mut content)) = (connected(), connected());
        let (_reader, writer) = control::split(first);
        let data = [data];
        assert!(helper.begin(&writer, &data) && !helper.is_over());
        assert_eq!(helper.end_with(|work| std::mem::replace(work, 7)), Some(0));
        assert!(helper.is_over() && helper.end_with(|work| *work).is_none());
        assert_eq!(control.read(&mut [0]).unwrap(), 0);
        assert_eq!(content.read(&mut [0]).unwrap(), 0);
    }

    #[test]
    fn it_is_stuck_when_nothing_moves_that_should() {
        let (mut state, minute) = (State::<u8>::default(), Duration::from_secs(60));
        let within = |span| (span, Rate::MAX);
        assert!(!state.is_stuck(within(Duration::ZERO), 0, false), "nothing has begun");
        assert!(!state.is_stuck(within(minute), 5, false));
        assert!(state.is_stuck(within(Duration::ZERO), 5, false));
        assert!(!state.is_stuck(within(Duration::ZERO), 5, true));
        state.moved = Instant::now().checked_sub(2 * minute);
        assert!(state.is_stuck(within(minute), 5, false));
        assert!(!state.is_stuck(within(minute), 5 + LEAST_MAX, false), "something moved");
    }

    #[test]
    fn single_bytes_are_as_good_as_none() {
        let silence = Duration::from_secs(5);
        let still = Instant::now().checked_sub(Duration::from_secs(10)).unwrap();
        let is_stuck = |passed, rate, may_rest| {
            let mut state = State::<()> { moved: Some(still), ..State::default() };
            state.is_stuck((silence, rate), passed, may_rest)
        };
        let slow = Rate::from_bit_per_s(16_000);
        assert!(is_stuck(0, Rate::MAX, false) && is_stuck(1, Rate::MAX, false));
        assert!(
            is_stuck(LEAST_MAX - 1, Rate::MAX, false) && !is_stuck(LEAST_MAX, Rate::MAX, false)
        );
        assert!(is_stuck(624, slow, false) && !is_stuck(625, slow, false));
        assert!(!is_stuck(0, Rate::ZERO, false) && !is_stuck(0, Rate::MAX, true));
    }
}
