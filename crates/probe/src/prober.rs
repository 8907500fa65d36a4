//! The thread that carries out a plan.

use std::io;
use std::os::fd::{AsFd as _, OwnedFd, RawFd};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use nix::errno::Errno;
use nix::poll::{PollFd, PollFlags, ppoll};
use nix::sys::eventfd::{EfdFlags, EventFd};
use nix::sys::time::TimeSpec;
use weir_units::Time;

use crate::echo::{Echo, Reply};
use crate::plan::Plan;
use crate::sampler::{Sample, Sampler, Step};
use crate::system;

/// The socket holds as many stamps and replies twice over, and a machine that is always late reads
/// them now and then.
const UNHEARD_MAX: usize = 16;

/// Samples that are complete are handed over together with those of so long after them, unless it
/// is longer until the prober wakes up again: whoever takes them wakes up for each lot.
const TOGETHER: Time = Time::from_ms(50);

/// A probing that runs, in a thread of its own; it ends when it is dropped.
#[derive(Debug)]
pub struct Prober {
    samples: Mutex<Receiver<io::Result<Vec<Sample>>>>,
    control: Arc<Control>,
    thread: Option<JoinHandle<()>>,
}

/// What the thread and its owner tell each other.
#[derive(Debug)]
struct Control {
    is_stopped: AtomicBool,
    is_realtime: AtomicBool,
    /// Readable when stopped.
    wake: EventFd,
}

impl Prober {
    /// Probes through `echo` by `plan`, sample 0 being due at `begin` of `CLOCK_MONOTONIC`.
    /// `connection` is our own, of which each sample tells what the kernel does; it stays the
    /// caller's.
    ///
    /// # Errors
    ///
    /// The connection is not a descriptor, or the machine has no descriptor or thread left.
    pub fn start(
        echo: Arc<Mutex<Echo>>,
        plan: Plan,
        begin: Time,
        connection: Option<RawFd>,
    ) -> io::Result<Self> {
        let connection = connection.map(system::duplicate).transpose()?;
        let control = Arc::new(Control {
            is_stopped: AtomicBool::new(false),
            is_realtime: AtomicBool::new(false),
            wake: EventFd::from_flags(EfdFlags::EFD_CLOEXEC | EfdFlags::EFD_NONBLOCK)?,
        });
        let (give, samples) = channel();
        let socket = lock(&echo).as_fd().try_clone_to_owned()?;
        let run = Run {
            echo,
            socket,
            sampler: Sampler::new(plan, begin),
            replies: Vec::new(),
            unheard: 0,
            connection,
            complete: Vec::new(),
            complete_since: Time::ZERO,
            give,
            control: Arc::clone(&control),
        };
        let thread = std::thread::Builder::new().name("weir-prober".into()).spawn(|| run.run())?;
        Ok(Self { samples: Mutex::new(samples), control, thread: Some(thread) })
    }

    /// Samples in order, some that are complete at about the same time together; none when there
    /// was none for `at_most`, `None` when no more will come.
    ///
    /// # Errors
    ///
    /// The kernel does not let the thread wait.
    pub fn take(&self, at_most: Duration) -> io::Result<Option<Vec<Sample>>> {
        let samples = lock(&self.samples);
        match samples.recv_timeout(at_most) {
            Ok(first) => std::iter::once(first)
                .chain(samples.try_iter())
                .collect::<io::Result<Vec<_>>>()
                .map(|lots| Some(lots.into_iter().flatten().collect())),
            Err(RecvTimeoutError::Timeout) => Ok(Some(Vec::new())),
            Err(RecvTimeoutError::Disconnected) => Ok(None),
        }
    }

    /// Ends it early: nothing more is sent, and what is not complete by now never will be.
    pub fn stop(&self) {
        self.control.is_stopped.store(true, Ordering::Release);
        // Full only when it has been told to end 2^64 times.
        let _ = self.control.wake.write(1);
    }

    /// Whether its thread has real-time priority.
    pub fn is_realtime(&self) -> bool {
        self.control.is_realtime.load(Ordering::Acquire)
    }
}

impl Drop for Prober {
    fn drop(&mut self) {
        self.stop();
        if let Some(thread) = self.thread.take() {
            // A thread that panicked has said so.
            let _ = thread.join();
        }
    }
}

/// What the thread has.
struct Run {
    echo: Arc<Mutex<Echo>>,
    /// The descriptor of `echo`, to wait for.
    socket: OwnedFd,
    sampler: Sampler,
    replies: Vec<Reply>,
    /// Requests that have left since replies were read.
    unheard: usize,
    connection: Option<OwnedFd>,
    /// Not yet handed over, and since when the first of them is complete.
    complete: Vec<Sample>,
    complete_since: Time,
    give: Sender<io::Result<Vec<Sample>>>,
    control: Arc<Control>,
}

impl Run {
    fn run(mut self) {
        system::wake_precisely();
        self.control.is_realtime.store(system::preempt_others(), Ordering::Release);
        if let Err(error) = self.carry_out() {
            // Nobody listens any more: then nobody misses it.
            let _ = self.give.send(Err(error));
        }
    }

    fn carry_out(&mut self) -> io::Result<()> {
        // What is due goes out before what has come is read.
        let mut has_heard = false;
        while !self.control.is_stopped.load(Ordering::Acquire) {
            match self.sampler.step(system::monotonic()) {
                Step::Begin => {
                    self.sampler.begin(self.connection.as_ref().map(system::tcp_info));
                }
                Step::Send(key) => {
                    let now = system::monotonic();
                    lock(&self.echo).send(key);
                    self.sampler.sent(now);
                    self.unheard += 1;
                    if self.unheard == UNHEARD_MAX {
                        self.hear();
                    }
                }
                // What has come while a sample's requests still go out completes none.
                Step::Wait { .. } if !has_heard && self.sampler.is_awaiting() => {
                    self.hear();
                    has_heard = true;
                }
                Step::Wait { until, is_listening } => {
                    self.give_before(until);
                    self.wait(until, is_listening)?;
                    has_heard = false;
                }
                Step::Over => break,
            }
        }
        // What has come by now may have completed a sample.
        self.hear();
        self.give_all();
        Ok(())
    }

    /// Takes replies in, and out the samples that are complete.
    fn hear(&mut self) {
        self.unheard = 0;
        lock(&self.echo).replies(&mut self.replies);
        let now = system::monotonic();
        for reply in self.replies.drain(..) {
            self.sampler.reply(reply.key, reply.rtt, reply.is_stamped, now);
        }
        while let Some(sample) = self.sampler.take(now) {
            if self.complete.is_empty() {
                self.complete_since = now;
            }
            self.complete.push(sample);
        }
    }

    /// Hands over what is complete, if it cannot wait until then.
    fn give_before(&mut self, until: Time) {
        if until > self.complete_since.saturating_add(TOGETHER) {
            self.give_all();
        }
    }

    fn give_all(&mut self) {
        if !self.complete.is_empty() {
            // Nobody takes samples any more: then it will be stopped.
            let _ = self.give.send(Ok(std::mem::take(&mut self.complete)));
        }
    }

    /// Waits until a time, until it is stopped, and for a reply if one is listened for.
    fn wait(&self, until: Time, is_listening: bool) -> io::Result<()> {
        let rest = until.saturating_sub(system::monotonic());
        let mut awaited = [
            PollFd::new(self.control.wake.as_fd(), PollFlags::POLLIN),
            PollFd::new(self.socket.as_fd(), PollFlags::POLLIN),
        ];
        let awaited = if is_listening { &mut awaited[..] } else { &mut awaited[..1] };
        let rest = TimeSpec::from_duration(Duration::from_nanos(rest.as_ns()));
        match ppoll(awaited, Some(rest), None) {
            Ok(_) | Err(Errno::EINTR) => Ok(()),
            Err(error) => Err(error.into()),
        }
    }
}

/// A panic leaves nothing half done that the next one would stumble over.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
