//! How a relay's owner reaches its thread.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use crate::RelayError;
use crate::poll::{Poll, Waker};
use crate::status::Status;

/// How often a thread looks up from its events: for late servers, and to tell its status.
pub(crate) const TICK: Duration = Duration::from_millis(100);
/// The key of the waker's events.
const WAKER: u64 = 3 << 32;

/// What the owner and the thread share.
pub(crate) struct Control {
    stop: AtomicBool,
    waker: Waker,
    status: Mutex<Status>,
}

impl Control {
    pub(crate) fn new() -> Result<Arc<Self>, RelayError> {
        let status = Mutex::new(Status::default());
        Ok(Arc::new(Self { stop: AtomicBool::new(false), waker: Waker::new()?, status }))
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

    pub(crate) fn status(&self) -> MutexGuard<'_, Status> {
        locked(&self.status)
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
