//! The thread that carries packets in real time: its clock, its sleep, its commands.

use std::os::fd::AsFd;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, SyncSender, TryRecvError};

use nix::poll::{PollFd, PollFlags, ppoll};
use nix::sys::eventfd::EventFd;
use nix::sys::time::TimeSpec;
use nix::time::{ClockId, clock_gettime};
use weir_units::Time;

use crate::realtime::{self, Wakefulness};
use crate::statistics::{DirectionStatistics, Headroom, LinkStatistics};
use crate::tun::Tun;
use crate::way::Clock;

/// Longest time by which a wake-up may be advanced to make up for the kernel's own lateness.
const MAX_HEAD_START: Time = Time::from_us(80);
/// Over what span the thread's share of a core is taken.
const BUSY_WINDOW: Time = Time::from_ms(1_000);
/// Beyond these the emulator says that it is the bottleneck.
const MAX_BUSY: f64 = 0.95;
const MAX_LATENESS_P99: Time = Time::from_ms(1);
/// The processors may sleep when no packet has come for so long and none is under way: an idle lab
/// need not heat the room.
const DROWSY_AFTER: Time = Time::from_ms(1_000);

/// What a thread can be told.
#[derive(Debug)]
pub(crate) enum Command {
    /// Send the statistics of its links there.
    Report(SyncSender<Vec<LinkStatistics>>),
    /// Cut the cable of the link of that name, or put it in again, and say when that is done.
    Carrier(String, bool, SyncSender<std::io::Result<()>>),
    /// End.
    Stop,
}

/// What a thread carries packets over: a wired link, or all links of a wireless channel.
pub(crate) trait Carrier {
    /// Where packets come from.
    fn devices(&self) -> &[Tun];

    /// One turn of reading and releasing; true if there was anything to do.
    fn carry(&mut self) -> bool;

    /// When to wake if nothing arrives before, and whether the time until then may be spent
    /// spinning, so that the wake-up is on time.
    fn next_wake(&self, now: Time) -> Option<(Time, bool)>;

    /// Cuts the cable of a link, or puts it in again. What is under way is lost.
    fn set_carrier(&mut self, link: &str, carrier: bool) -> std::io::Result<()>;

    /// What every link has done up to now.
    fn counts(&mut self, now: Time) -> Vec<Counts>;

    /// Whether no packet can be paged out.
    fn is_memory_locked(&self) -> bool;
}

/// What one link has done.
pub(crate) struct Counts {
    pub(crate) name: String,
    pub(crate) carrier: bool,
    /// Forward and backward.
    pub(crate) directions: [DirectionStatistics; 2],
}

/// A thread, before and while it runs.
pub(crate) struct Thread<C> {
    carrier: C,
    wake: Arc<EventFd>,
    commands: Receiver<Command>,
    busy: Busy,
    /// How late the kernel wakes this thread, smoothed.
    oversleep: Time,
    realtime: bool,
    awake: Wakefulness,
    awake_until: Time,
}

impl<C: Carrier> Thread<C> {
    pub(crate) fn new(carrier: C, wake: Arc<EventFd>, commands: Receiver<Command>) -> Self {
        Self {
            carrier,
            wake,
            commands,
            busy: Busy::default(),
            oversleep: Time::ZERO,
            realtime: false,
            awake: Wakefulness::default(),
            awake_until: Time::ZERO,
        }
    }

    /// Carries packets until told to stop.
    pub(crate) fn run(mut self) {
        self.realtime = realtime::preempt_others();
        realtime::sleep_precisely();
        self.stay_awake(Kernel.now());
        self.busy = Busy::new();
        loop {
            let worked = self.carrier.carry();
            let now = Kernel.now();
            if worked {
                self.stay_awake(now);
            }
            self.busy.on_pass(now);
            if !worked && !self.wait() {
                return;
            }
        }
    }

    fn stay_awake(&mut self, now: Time) {
        self.awake.hold();
        self.awake_until = now + DROWSY_AFTER;
    }

    /// Sleeps until a packet arrives, one is due, or a command comes; false to stop.
    fn wait(&mut self) -> bool {
        let before = Kernel.now();
        let sleep_until = self.carrier.next_wake(before).map(|(wake, may_spin)| {
            let head_start = if may_spin { self.oversleep } else { Time::ZERO };
            wake.saturating_sub(head_start)
        });
        if sleep_until.is_some_and(|until| until <= before) {
            return true;
        }
        let drowsy = self.awake.is_held().then_some(self.awake_until);
        let timeout = sleep_until.or(drowsy).map(|until| span(until.saturating_sub(before)));
        let readable = |fd| PollFd::new(fd, PollFlags::POLLIN);
        let devices = self.carrier.devices();
        let mut waited = Vec::with_capacity(1 + devices.len());
        waited.push(readable(self.wake.as_fd()));
        waited.extend(devices.iter().map(|device| readable(device.as_fd())));
        // An interrupted wait is a wait that ended early.
        let ready = ppoll(&mut waited, timeout, None);
        let told = waited[0].any() == Some(true);
        if let (Ok(0), Some(until)) = (ready, sleep_until) {
            self.learn_oversleep(Kernel.now().saturating_sub(until));
        }
        if sleep_until.is_none() && self.awake_until <= Kernel.now() {
            self.awake.release();
        }
        !told || self.obey()
    }

    /// Follows how late this machine wakes a thread: a halted virtual processor takes tens of
    /// microseconds, a running one few.
    fn learn_oversleep(&mut self, late: Time) {
        let (old, new) = (self.oversleep.as_ns(), late.min(MAX_HEAD_START).as_ns());
        self.oversleep = Time::from_ns((7 * old + new) / 8);
    }

    /// Carries out every waiting command; false to stop.
    fn obey(&mut self) -> bool {
        let _ = self.wake.read();
        loop {
            match self.commands.try_recv() {
                Ok(Command::Report(answer)) => {
                    // The asker may have gone.
                    let _ = answer.send(self.statistics());
                }
                Ok(Command::Carrier(link, carrier, answer)) => {
                    let _ = answer.send(self.carrier.set_carrier(&link, carrier));
                }
                Ok(Command::Stop) | Err(TryRecvError::Disconnected) => return false,
                Err(TryRecvError::Empty) => return true,
            }
        }
    }

    /// Every link, all with this thread's head-room.
    fn statistics(&mut self) -> Vec<LinkStatistics> {
        let now = Kernel.now();
        let links = self.carrier.counts(now);
        let directions = || links.iter().flat_map(|link| &link.directions);
        let (busy, busy_peak) = self.busy.shares(now);
        let lateness_p99_ns = directions().map(|d| d.lateness.p99_ns).max().unwrap_or(0);
        let lost: u64 = directions().map(|d| d.dropped_device + d.dropped_memory).sum();
        let headroom = Headroom {
            busy,
            busy_peak,
            lateness_p99_ns,
            bottleneck: busy_peak > MAX_BUSY
                || lateness_p99_ns > MAX_LATENESS_P99.as_ns()
                || lost > 0,
            realtime: self.realtime,
            memory_locked: self.carrier.is_memory_locked(),
            awake: self.awake.is_permitted(),
        };
        let told = |link: Counts| {
            let Counts { name, carrier, directions: [forward, backward] } = link;
            LinkStatistics { name, carrier, forward, backward, headroom }
        };
        links.into_iter().map(told).collect()
    }
}

/// The share of a core that the calling thread takes, window by window.
#[derive(Debug, Default)]
struct Busy {
    window_start: Time,
    used_at_start: Time,
    last: Option<f64>,
    peak: f64,
}

impl Busy {
    fn new() -> Self {
        Self { window_start: Kernel.now(), used_at_start: thread_time(), last: None, peak: 0.0 }
    }

    /// Closes the window if it has lasted long enough.
    fn on_pass(&mut self, now: Time) {
        let length = now.saturating_sub(self.window_start);
        if length < BUSY_WINDOW {
            return;
        }
        let used = thread_time();
        let share = used.saturating_sub(self.used_at_start).as_s() / length.as_s();
        (self.window_start, self.used_at_start) = (now, used);
        self.last = Some(share);
        self.peak = self.peak.max(share);
    }

    /// Share in the last window, and the largest.
    fn shares(&mut self, now: Time) -> (f64, f64) {
        self.on_pass(now);
        (self.last.unwrap_or(0.0), self.peak)
    }
}

/// The kernel's clock that never jumps.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Kernel;

impl Clock for Kernel {
    fn now(&self) -> Time {
        read_clock(ClockId::CLOCK_MONOTONIC)
    }
}

fn thread_time() -> Time {
    read_clock(ClockId::CLOCK_THREAD_CPUTIME_ID)
}

fn read_clock(clock: ClockId) -> Time {
    let time = clock_gettime(clock).expect("Linux always has these clocks");
    Time::from_ns(time.tv_sec() as u64 * 1_000_000_000 + time.tv_nsec() as u64)
}

fn span(time: Time) -> TimeSpec {
    TimeSpec::from_duration(std::time::Duration::from_nanos(time.as_ns()))
}
