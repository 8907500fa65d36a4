//! One link in real time: the thread that owns its devices, its clock and its two pipes.

use std::os::fd::AsFd;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, SyncSender, TryRecvError};

use nix::poll::{PollFd, PollFlags, ppoll};
use nix::sys::eventfd::EventFd;
use nix::sys::time::TimeSpec;
use nix::time::{ClockId, clock_gettime};
use weir_queue::Histogram;
use weir_units::Time;

use crate::Pipe;
use crate::arena::Arena;
use crate::coalesce::Run;
use crate::config::DirectionConfig;
use crate::frame;
use crate::offload::{Layout, Malformed, VNET_HEADER, VnetHeader};
use crate::realtime::{self, Wakefulness};
use crate::segment::Segment;
use crate::statistics::{
    ClassStatistics, DirectionStatistics, Headroom, LinkStatistics, Quantiles,
};
use crate::tun::Tun;

/// Super-packets read from one device before the other side and the releases have their turn.
const READ_BATCH: usize = 16;
/// Least time between two wake-ups whose only purpose is to release packets of one direction. A
/// dense flow leaves in batches this far apart, each packet late by half of it in the mean; a
/// packet that comes alone is released on time.
const RELEASE_SPACING: Time = Time::from_us(100);
/// Longest time by which a wake-up may be advanced to make up for the kernel's own lateness.
const MAX_HEAD_START: Time = Time::from_us(80);
/// Only directions that have been quiet for this long get a head start: it is spent spinning.
const QUIET: Time = Time::from_ms(1);
/// Packets under way in one link, in bytes: 1 s at 8 Gbit/s.
const MAX_MEMORY: usize = 1 << 30;
/// Over what span the thread's share of a core is taken.
const BUSY_WINDOW: Time = Time::from_ms(1_000);
/// Beyond these the emulator says that it is the bottleneck.
const MAX_BUSY: f64 = 0.95;
const MAX_LATENESS_P99: Time = Time::from_ms(1);

/// The processors may sleep when no packet has come for so long and none is under way: an idle lab
/// need not heat the room.
const DROWSY_AFTER: Time = Time::from_ms(1_000);

/// What a link's thread can be told.
#[derive(Debug)]
pub(crate) enum Command {
    /// Send the statistics there.
    Report(SyncSender<LinkStatistics>),
    /// Cut the cable, or put it in again, and say when that is done.
    Carrier(bool, SyncSender<std::io::Result<()>>),
    /// End.
    Stop,
}

/// A link's thread, before and while it runs.
pub(crate) struct Link {
    name: String,
    /// Ends a and b.
    tuns: [Tun; 2],
    /// Forward reads from a and writes to b; backward the other way.
    directions: [Direction; 2],
    arena: Arena,
    wake: Arc<EventFd>,
    commands: Receiver<Command>,
    busy: Busy,
    /// How late the kernel wakes this thread, smoothed.
    oversleep: Time,
    realtime: bool,
    awake: Wakefulness,
    awake_until: Time,
    /// Whether the cable is whole.
    carrier: bool,
}

struct Direction {
    pipe: Pipe<Segment>,
    run: Run,
    lateness: Histogram,
    last_release: Time,
    malformed: u64,
    dropped_memory: u64,
    dropped_down: u64,
}

impl Direction {
    /// A direction whose packets leave by `sink`.
    fn new(config: DirectionConfig, sink: &Tun) -> Self {
        Self {
            pipe: config.into_pipe(),
            run: Run::to(sink.is_ethernet()),
            lateness: Histogram::new(),
            last_release: Time::ZERO,
            malformed: 0,
            dropped_memory: 0,
            dropped_down: 0,
        }
    }

    /// Reads one super-packet and sends its pieces on their way; false if none waits.
    fn receive(&mut self, tun: &Tun, arena: &mut Arena) -> bool {
        let mut vnet = [0; VNET_HEADER];
        let Some(room) = arena.room() else { return self.discard_one(tun) };
        let Ok(Some(len)) = tun.read(&mut vnet, room) else { return false };
        let now = now();
        let framed = tun.is_ethernet();
        match parse(VnetHeader::parse(&vnet), &room[..len], framed) {
            Ok(layout) => {
                let of = arena.keep(len, framed, layout);
                for index in 0..layout.segments {
                    self.pipe.arrive(Segment::new(of, index, &layout), now);
                }
                self.pipe.discarded().for_each(|segment| arena.release(segment.of));
            }
            Err(Malformed) => self.malformed += 1,
        }
        true
    }

    /// Takes one packet out of the kernel's ring with nowhere to put it.
    fn discard_one(&mut self, tun: &Tun) -> bool {
        let read = tun.read(&mut [0; VNET_HEADER], &mut [0; 64]);
        let taken = matches!(read, Ok(Some(_)));
        self.dropped_memory += u64::from(taken);
        taken
    }

    /// Releases all that is due to `tun`; true if anything was.
    fn release(&mut self, tun: &Tun, arena: &mut Arena) -> bool {
        let mut now = now();
        self.pipe.advance(now);
        self.pipe.discarded().for_each(|segment| arena.release(segment.of));
        let mut any = false;
        while let Some((due, segment)) = self.pipe.release(now) {
            any = true;
            self.lateness.record(now - due);
            if let Err(segment) = self.run.push(arena, segment) {
                now = self.flush(tun, arena);
                self.run.push(arena, segment).expect("an empty run takes any packet");
            }
        }
        if any {
            self.last_release = self.flush(tun, arena);
        }
        any
    }

    /// Writes the run; returns the time after it.
    fn flush(&mut self, tun: &Tun, arena: &mut Arena) -> Time {
        let packets = self.run.pieces().len() as u64;
        if let Some(Err(_)) = self.run.emit(arena, |parts| tun.write(parts)) {
            self.dropped_down += packets;
        }
        self.run.clear(arena);
        now()
    }

    /// When to wake for this direction, and whether it has been quiet.
    fn next_wake(&self, now: Time) -> Option<(Time, bool)> {
        let wake = self.pipe.next_wake()?.max(self.last_release + RELEASE_SPACING);
        Some((wake, now > self.last_release + QUIET))
    }

    fn statistics(&self, dropped_by_kernel: u64) -> DirectionStatistics {
        let counters = self.pipe.counters();
        let classes: Vec<ClassStatistics> =
            self.pipe.queue().classes().into_iter().map(Into::into).collect();
        DirectionStatistics {
            packets_in: counters.packets_in,
            bytes_in: counters.bytes_in.count(),
            packets_out: counters.packets_out,
            bytes_out: counters.bytes_out.count(),
            dropped_queue: self.pipe.queue().classes().iter().map(|class| class.dropped()).sum(),
            dropped_loss: counters.lost,
            dropped_device: dropped_by_kernel,
            dropped_down: self.dropped_down,
            dropped_memory: self.dropped_memory,
            malformed: self.malformed,
            queue_packets: self.pipe.backlog().packets,
            queue_bytes: self.pipe.backlog().bytes.count(),
            delayed_packets: self.pipe.delayed(),
            classes,
            lateness: Quantiles::from(&self.lateness),
        }
    }
}

impl Link {
    pub(crate) fn new(
        name: String,
        tuns: [Tun; 2],
        directions: [DirectionConfig; 2],
        wake: Arc<EventFd>,
        commands: Receiver<Command>,
    ) -> Self {
        let [forward, backward] = directions;
        Self {
            name,
            directions: [Direction::new(forward, &tuns[1]), Direction::new(backward, &tuns[0])],
            tuns,
            arena: Arena::new(MAX_MEMORY),
            wake,
            commands,
            busy: Busy::default(),
            oversleep: Time::ZERO,
            realtime: false,
            awake: Wakefulness::default(),
            awake_until: Time::ZERO,
            carrier: true,
        }
    }

    /// Carries packets until told to stop.
    pub(crate) fn run(mut self) {
        self.realtime = realtime::preempt_others();
        realtime::sleep_precisely();
        self.stay_awake(now());
        self.busy = Busy::new();
        loop {
            let worked = self.carry();
            let now = now();
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

    /// One turn of reading and releasing; true if there was anything to do.
    fn carry(&mut self) -> bool {
        let mut worked = false;
        for (from, direction) in self.directions.iter_mut().enumerate() {
            let (source, sink) = (&self.tuns[from], &self.tuns[1 - from]);
            for _ in 0..READ_BATCH {
                if !direction.receive(source, &mut self.arena) {
                    break;
                }
                worked = true;
            }
            worked |= direction.release(sink, &mut self.arena);
        }
        worked
    }

    /// Sleeps until a packet arrives, one is due, or a command comes; false to stop.
    fn wait(&mut self) -> bool {
        let before = now();
        let wake = self.directions.iter().filter_map(|d| d.next_wake(before)).min();
        let sleep_until = wake.map(|(wake, quiet)| {
            let head_start = if quiet { self.oversleep } else { Time::ZERO };
            wake.saturating_sub(head_start)
        });
        if sleep_until.is_some_and(|until| until <= before) {
            return true;
        }
        let drowsy = self.awake.is_held().then_some(self.awake_until);
        let timeout = sleep_until.or(drowsy).map(|until| span(until.saturating_sub(before)));
        let readable = |fd| PollFd::new(fd, PollFlags::POLLIN);
        let [a, b] = &self.tuns;
        let mut waited = [readable(a.as_fd()), readable(b.as_fd()), readable(self.wake.as_fd())];
        // An interrupted wait is a wait that ended early.
        let ready = ppoll(&mut waited, timeout, None);
        let told = waited[2].any() == Some(true);
        if let (Ok(0), Some(until)) = (ready, sleep_until) {
            self.learn_oversleep(now().saturating_sub(until));
        }
        if sleep_until.is_none() && self.awake_until <= now() {
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
                Ok(Command::Carrier(carrier, answer)) => {
                    let _ = answer.send(self.set_carrier(carrier));
                }
                Ok(Command::Stop) | Err(TryRecvError::Disconnected) => return false,
                Err(TryRecvError::Empty) => return true,
            }
        }
    }

    /// What is under way when the cable is cut is lost as it leaves the link.
    fn set_carrier(&mut self, carrier: bool) -> std::io::Result<()> {
        self.carrier = carrier;
        self.tuns.iter_mut().try_for_each(|tun| tun.set_carrier(carrier))
    }

    fn statistics(&mut self) -> LinkStatistics {
        // A counter that cannot be read leaves the device's drops at what the emulator saw itself.
        let dropped = self.tuns.each_mut().map(|tun| tun.dropped().unwrap_or(0));
        let [forward, backward] = &self.directions;
        let [forward, backward] = [forward.statistics(dropped[0]), backward.statistics(dropped[1])];
        let (busy, busy_peak) = self.busy.shares(now());
        let lateness_p99_ns = forward.lateness.p99_ns.max(backward.lateness.p99_ns);
        let lost = [&forward, &backward].map(|d| d.dropped_device + d.dropped_memory);
        let headroom = Headroom {
            busy,
            busy_peak,
            lateness_p99_ns,
            bottleneck: busy_peak > MAX_BUSY
                || lateness_p99_ns > MAX_LATENESS_P99.as_ns()
                || lost.iter().any(|&lost| lost > 0),
            realtime: self.realtime,
            memory_locked: self.arena.is_locked(),
            awake: self.awake.is_permitted(),
        };
        LinkStatistics {
            name: self.name.clone(),
            carrier: self.carrier,
            forward,
            backward,
            headroom,
        }
    }
}

fn parse(vnet: VnetHeader, bytes: &[u8], framed: bool) -> Result<Layout, Malformed> {
    match bytes {
        [] => Err(Malformed),
        frame if framed => frame::parse(vnet, frame),
        packet => Layout::parse(vnet, packet),
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
        Self { window_start: now(), used_at_start: thread_time(), last: None, peak: 0.0 }
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

fn now() -> Time {
    read_clock(ClockId::CLOCK_MONOTONIC)
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
