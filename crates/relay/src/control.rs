//! How a relay's owner reaches its thread.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use crate::RelayError;
use crate::poll::{Poll, Waker};
use crate::status::Status;

/// How often a thread looks up from its events, for late servers.
pub(crate) const TICK: Duration = Duration::from_millis(100);
/// How long a thread may take to tell its status; then what it told last is taken.
const ANSWER: Duration = Duration::from_secs(2);
/// The key of the waker's events.
const WAKER: u64 = 3 << 32;

/// What the owner and the thread share.
pub(crate) struct Control {
    stop: AtomicBool,
    waker: Waker,
    status: Mutex<Status>,
    /// The owner waits for the status as it is now, with all flows: nothing is told unasked, for
    /// there may be many.
    is_asked: AtomicBool,
    told: Condvar,
}

impl Control {
    pub(crate) fn new() -> Result<Arc<Self>, RelayError> {
        let status = Mutex::new(Status::default());
        Ok(Arc::new(Self {
            stop: AtomicBool::new(false),
            waker: Waker::new()?,
            status,
            is_asked: AtomicBool::new(false),
            told: Condvar::new(),
        }))
    }

    /// Has a poll end when the thread is told to stop.
    pub(crate) fn join(&self, poll: &Poll) -> Result<(), RelayError> {
        poll.add(self.waker.descriptor(), WAKER)
    }

    pub(crate) fn is_stopped(&self) -> bool {
        self.stop.load(Ordering::Relaxed)
    }

    pub(crate) fn stop(&self) {
        self.stop.store(true, Ordering::Relaxed);
        self.waker.wake();
    }

    pub(crate) fn wake(&self) {
        self.waker.wake();
    }

    /// What the thread has told last.
    pub(crate) fn status(&self) -> MutexGuard<'_, Status> {
        locked(&self.status)
    }

    /// Has the thread tell its status; what that is.
    fn ask(&self) -> Status {
        let status = self.status();
        self.is_asked.store(true, Ordering::Release);
        self.wake();
        let is_waiting = |_: &mut Status| self.is_asked.load(Ordering::Acquire);
        let told = self.told.wait_timeout_while(status, ANSWER, is_waiting);
        told.unwrap_or_else(PoisonError::into_inner).0.clone()
    }

    /// Tells the status, if it was asked for.
    pub(crate) fn answer(&self, status: impl FnOnce() -> Status) {
        if self.is_asked.load(Ordering::Acquire) {
            let now = status();
            *self.status() = now;
            self.answer_as_told();
        }
    }

    /// The same where what was told last is true.
    pub(crate) fn answer_as_told(&self) {
        // Whoever asks holds it until it waits.
        let _status = self.status();
        self.is_asked.store(false, Ordering::Release);
        self.told.notify_all();
    }
}

/// What a mutex guards, whoever has panicked with it.
pub(crate) fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A thread that is stopped and waited for when its owner is gone.
pub(crate) struct Worker {
    pub(crate) control: Arc<Control>,
    thread: Option<JoinHandle<Result<(), RelayError>>>,
}

impl Worker {
    pub(crate) fn start(
        name: &str,
        control: Arc<Control>,
        run: impl FnOnce(&Control) -> Result<(), RelayError> + Send + 'static,
    ) -> Result<Self, RelayError> {
        let for_thread = Arc::clone(&control);
        let thread = std::thread::Builder::new()
            .name(name.into())
            .spawn(move || run(&for_thread))
            .map_err(RelayError::system("starting a thread"))?;
        Ok(Self { control, thread: Some(thread) })
    }

    /// Whether the thread has ended by itself.
    pub(crate) fn is_over(&self) -> bool {
        self.thread.as_ref().is_none_or(JoinHandle::is_finished)
    }

    /// What the thread does, as it is now.
    pub(crate) fn status(&self) -> Status {
        if self.is_over() { self.control.status().clone() } else { self.control.ask() }
    }

    /// Ends the thread; why it had ended before, if it had.
    pub(crate) fn stop(&mut self) -> Result<(), RelayError> {
        self.control.stop();
        self.thread.take().map_or(Ok(()), |thread| thread.join().unwrap_or(Ok(())))
    }
}

impl Drop for Worker {
    fn drop(&mut self) {
        let _ = self.stop();
    }
}
