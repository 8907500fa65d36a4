//! One machine's worth of threads under a seed: one runs at a time, who goes on is drawn at every
//! call that reaches the kernel, and the clock moves only when all wait.
//!
//! The threads are real ones and hand a baton to each other; what they call is the code as it is
//! shipped. Threads belong to simulated *processes*, which can be killed: their threads are never
//! given the baton again, and their descriptors are closed.

use std::cell::Cell;
use std::collections::{BTreeMap, BTreeSet};
use std::ffi::c_int;
use std::sync::{Mutex, MutexGuard, PoisonError};

use weir_random::Random;

use crate::network::Network;
use crate::raw::Gate;
use crate::storage::Storage;

/// The simulated machine's clock starts here: some time after its boot.
const BOOT_NS: u64 = 1_000_000_000_000;
/// A run with more calls than this does not end.
const STEPS_MAX: u64 = 3_000_000;
/// Nor does one that lasts longer than this.
const LIFE_MAX_NS: u64 = 100_000 * SECOND_NS;

pub(crate) const SECOND_NS: u64 = 1_000_000_000;
pub(crate) const MILLISECOND_NS: u64 = 1_000_000;

/// The process of whoever sets up a run and looks at its outcome.
pub(crate) const OBSERVER: usize = 0;

static WORLD: Mutex<Option<World>> = Mutex::new(None);

thread_local! {
    static ME: Cell<Option<usize>> = const { Cell::new(None) };
    static INSIDE: Cell<bool> = const { Cell::new(false) };
}

/// What a thread waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Key {
    Time,
    Futex(usize),
    Link(usize),
    Listener(usize),
    Thread(usize),
    Step(u64),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Ready,
    Waiting { key: Key, until_ns: Option<u64> },
    Gone,
}

struct Thread {
    process: usize,
    /// Whose what it makes is; another's only for whoever sets a run up.
    makes_for: usize,
    state: State,
    gate: &'static Gate,
    time_came: bool,
    real: Option<libc::pthread_t>,
}

/// What a descriptor of a simulated process is.
#[derive(Clone, Debug)]
pub(crate) enum Kind {
    File,
    Socket(Socket),
}

/// A simulated socket.
#[derive(Clone, Debug, Default)]
pub(crate) struct Socket {
    pub(crate) address: Option<std::net::SocketAddrV4>,
    pub(crate) listener: Option<usize>,
    /// The link and this end of it.
    pub(crate) link: Option<(usize, usize)>,
    pub(crate) never_connects: bool,
    pub(crate) blocks_not: bool,
    pub(crate) read_timeout_ns: Option<u64>,
    pub(crate) write_timeout_ns: Option<u64>,
}

/// A descriptor and whose it is.
#[derive(Clone, Debug)]
pub(crate) struct Descriptor {
    pub(crate) process: usize,
    pub(crate) kind: Kind,
}

/// Everything that the seed decides.
pub(crate) struct World {
    pub(crate) now_ns: u64,
    /// What the wall clock shows beyond the monotonic one.
    pub(crate) wall_offset_ns: i64,
    pub(crate) steps: u64,
    pub(crate) descriptors: BTreeMap<c_int, Descriptor>,
    pub(crate) network: Network,
    pub(crate) storage: Storage,
    pub(crate) randomness: Random,
    threads: Vec<Thread>,
    dead: Vec<usize>,
    /// Steps that somebody waits for.
    alarms: BTreeSet<u64>,
    schedule: Random,
    switch_chance: f64,
    trace: blake3::Hasher,
    tell: bool,
}

impl World {
    fn new(seed: u64) -> Self {
        let mut schedule = Random::of_source(seed, &["schedule"]);
        let switch_chance = [0.02, 0.1, 0.3, 0.7][schedule.up_to(3) as usize];
        Self {
            now_ns: BOOT_NS,
            wall_offset_ns: 1_795_000_000 * SECOND_NS as i64,
            steps: 0,
            descriptors: BTreeMap::new(),
            network: Network::new(seed),
            storage: Storage::new(seed),
            randomness: Random::of_source(seed, &["randomness"]),
            threads: Vec::new(),
            dead: Vec::new(),
            alarms: BTreeSet::new(),
            schedule,
            switch_chance,
            trace: blake3::Hasher::new(),
            tell: std::env::var_os("WEIR_SIMULATION_TRACE").is_some(),
        }
    }

    /// Who goes on; moves the clock when all wait.
    fn choose(&mut self) -> usize {
        loop {
            for thread in &mut self.threads {
                if let State::Waiting { until_ns: Some(until), .. } = thread.state
                    && until <= self.now_ns
                {
                    (thread.state, thread.time_came) = (State::Ready, true);
                }
            }
            let ready: Vec<usize> = (0..self.threads.len())
                .filter(|index| self.threads[*index].state == State::Ready)
                .collect();
            if !ready.is_empty() {
                return ready[self.schedule.up_to(ready.len() as u64 - 1) as usize];
            }
            let times = self.threads.iter().filter_map(|thread| match thread.state {
                State::Waiting { until_ns, .. } => until_ns,
                _ => None,
            });
            match times.min() {
                Some(next) => self.now_ns = self.now_ns.max(next),
                None => give_up("every thread waits for another"),
            }
        }
    }

    /// Readies up to `most` threads that wait for `key`; says how many.
    pub(crate) fn wake(&mut self, key: Key, most: usize) -> usize {
        let mut waiting: Vec<usize> = (0..self.threads.len())
            .filter(|index| {
                matches!(self.threads[*index].state, State::Waiting { key: on, .. } if on == key)
            })
            .collect();
        let mut woken = 0;
        while woken < most && !waiting.is_empty() {
            let which = self.schedule.up_to(waiting.len() as u64 - 1) as usize;
            self.threads[waiting.swap_remove(which)].state = State::Ready;
            woken += 1;
        }
        woken
    }

    /// Notes what happens, so that two runs can be compared.
    pub(crate) fn note(&mut self, thread: usize, what: &str, amount: i64) {
        self.trace.update(&self.now_ns.to_le_bytes());
        self.trace.update(&(thread as u64).to_le_bytes());
        self.trace.update(what.as_bytes());
        self.trace.update(&amount.to_le_bytes());
        if self.tell {
            let process = self.threads.get(thread).map_or(0, |thread| thread.process);
            let micros = (self.now_ns - BOOT_NS) / 1000;
            tell(&format!("{micros:>12} p{process} t{thread:<3} {what} {amount}"));
        }
    }

    fn add_thread(&mut self, process: usize) -> (usize, &'static Gate) {
        let gate: &'static Gate = Box::leak(Box::default());
        // A process that is killed while it is being started never runs.
        let state = if self.dead.contains(&process) { State::Gone } else { State::Ready };
        let (makes_for, time_came, real) = (process, false, None);
        self.threads.push(Thread { process, makes_for, state, gate, time_came, real });
        (self.threads.len() - 1, gate)
    }

    /// Ends a process at once, as SIGKILL does.
    pub(crate) fn kill(&mut self, process: usize) {
        self.dead.push(process);
        for thread in self.threads.iter_mut().filter(|thread| thread.process == process) {
            thread.state = State::Gone;
        }
        let held: Vec<c_int> = self.descriptors_of(process);
        for fd in held {
            self.close(fd);
        }
    }

    pub(crate) fn descriptors_of(&self, process: usize) -> Vec<c_int> {
        let own = |(_, descriptor): &(&c_int, &Descriptor)| descriptor.process == process;
        self.descriptors.iter().filter(own).map(|(fd, _)| *fd).collect()
    }

    /// Threads of a process that have not ended.
    pub(crate) fn threads_of(&self, process: usize) -> usize {
        let alive = |thread: &&Thread| thread.process == process && thread.state != State::Gone;
        self.threads.iter().filter(alive).count()
    }

    /// Closes a descriptor, and what the network knows of it.
    pub(crate) fn close(&mut self, fd: c_int) -> isize {
        if let Some(Descriptor { kind: Kind::Socket(socket), .. }) = self.descriptors.remove(&fd) {
            let shared = self.descriptors.values().any(
                |other| matches!(&other.kind, Kind::Socket(other) if other.link == socket.link),
            );
            if let Some((link, side)) = socket.link
                && !shared
            {
                self.network.close(self.now_ns, link, side);
                self.wake(Key::Link(link), usize::MAX);
            }
            if let Some(listener) = socket.listener {
                self.network.stop_listening(listener);
                self.wake(Key::Listener(listener), usize::MAX);
            }
        }
        crate::raw::kernel!(libc::SYS_close, fd)
    }

    /// Breaks a share of the open links.
    pub(crate) fn cut_links(&mut self, share: f64) {
        for link in self.network.cut(self.now_ns, share) {
            self.wake(Key::Link(link), usize::MAX);
        }
    }

    pub(crate) fn socket(&mut self, fd: c_int) -> Option<&mut Socket> {
        match self.descriptors.get_mut(&fd) {
            Some(Descriptor { kind: Kind::Socket(socket), .. }) => Some(socket),
            _ => None,
        }
    }
}

/// One call of a simulated thread while it holds the baton.
pub(crate) struct Call {
    guard: Option<MutexGuard<'static, Option<World>>>,
    me: usize,
}

impl Call {
    /// `None` for a thread that is not simulated, or within the simulator: the real kernel serves.
    pub(crate) fn begin() -> Option<Self> {
        let me = ME.get()?;
        if INSIDE.replace(true) {
            return None;
        }
        Some(Self { guard: Some(lock()), me })
    }

    pub(crate) fn world(&mut self) -> &mut World {
        let world = self.guard.as_mut().and_then(|guard| guard.as_mut());
        world.expect("a call is made within a run")
    }

    pub(crate) fn process(&mut self) -> usize {
        let me = self.me;
        self.world().threads[me].makes_for
    }

    /// Every call is a step: it takes a moment, and another thread may go first.
    pub(crate) fn step(&mut self, what: &str, amount: i64) {
        let me = self.me;
        let world = self.world();
        world.steps += 1;
        world.now_ns += 1000;
        world.note(me, what, amount);
        let alarm = world.alarms.first().is_some_and(|step| *step <= world.steps);
        if alarm && let Some(step) = world.alarms.pop_first() {
            world.wake(Key::Step(step), usize::MAX);
        }
        if world.steps > STEPS_MAX || world.now_ns > BOOT_NS + LIFE_MAX_NS {
            give_up("the run does not end");
        }
        if alarm || world.schedule.chance(world.switch_chance) {
            self.switch();
        }
    }

    /// Waits for `key`, or until the time comes; says whether it was woken.
    pub(crate) fn wait(&mut self, key: Key, until_ns: Option<u64>) -> bool {
        let me = self.me;
        let thread = &mut self.world().threads[me];
        thread.state = State::Waiting { key, until_ns };
        thread.time_came = false;
        self.switch();
        !self.world().threads[me].time_came
    }

    fn switch(&mut self) {
        let me = self.me;
        let world = self.world();
        let next = world.choose();
        if next == me {
            return;
        }
        let (mine, other) = (world.threads[me].gate, world.threads[next].gate);
        self.guard = None;
        other.open();
        mine.pass();
        self.guard = Some(lock());
    }

    /// The calling thread's last: another one goes on.
    fn end(mut self) {
        let me = self.me;
        let world = self.world();
        world.note(me, "ends", 0);
        world.threads[me].state = State::Gone;
        world.wake(Key::Thread(me), usize::MAX);
        let next = world.choose();
        let other = world.threads[next].gate;
        self.guard = None;
        other.open();
    }

    /// Registers a thread to come, of the same process.
    pub(crate) fn add_thread(&mut self) -> (usize, &'static Gate) {
        let process = self.process();
        self.world().add_thread(process)
    }

    pub(crate) fn set_real(&mut self, thread: usize, real: libc::pthread_t) {
        self.world().threads[thread].real = Some(real);
    }

    /// Waits for the end of a thread.
    pub(crate) fn join(&mut self, real: libc::pthread_t) {
        // A number is used again once its thread was joined: the latest holder is meant.
        let found = self.world().threads.iter().rposition(|thread| thread.real == Some(real));
        if let Some(thread) = found {
            while self.world().threads[thread].state != State::Gone {
                self.wait(Key::Thread(thread), None);
            }
        }
    }
}

impl Drop for Call {
    fn drop(&mut self) {
        self.guard = None;
        INSIDE.set(false);
    }
}

fn lock() -> MutexGuard<'static, Option<World>> {
    WORLD.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Runs `work` as simulated thread `thread` once its turn comes.
pub(crate) fn live(thread: usize, gate: &'static Gate, work: impl FnOnce()) {
    gate.pass();
    ME.set(Some(thread));
    work();
    if let Some(call) = Call::begin() {
        call.end();
    }
    ME.set(None);
    INSIDE.set(false);
}

/// Simulates under `seed` what `observe` sets up, and returns the digest of all that happened.
/// One run per real process: threads of killed processes stay behind.
pub(crate) fn run(seed: u64, observe: impl FnOnce() + Send) -> String {
    let mut world = World::new(seed);
    let (thread, gate) = world.add_thread(OBSERVER);
    assert!(lock().replace(world).is_none(), "one run per process");
    gate.open();
    ME.set(None);
    live_as_observer(thread, gate, observe);
    let digest = lock().as_ref().map(|world| world.trace.finalize().to_hex());
    digest.map_or_else(String::new, |digest| digest.to_string())
}

fn live_as_observer(thread: usize, gate: &'static Gate, observe: impl FnOnce() + Send) {
    gate.pass();
    ME.set(Some(thread));
    observe();
    ME.set(None);
}

/// Looks at the world, or changes it, from a simulated thread.
pub(crate) fn with_world<T>(look: impl FnOnce(&mut World) -> T) -> T {
    let mut call = Call::begin().expect("the caller is a simulated thread");
    look(call.world())
}

/// Waits until the run has come to a step.
pub(crate) fn wait_for_step(step: u64) {
    let mut call = Call::begin().expect("the caller is a simulated thread");
    while call.world().steps < step {
        call.world().alarms.insert(step);
        call.wait(Key::Step(step), None);
    }
}

/// Does `work` as a part of `process`: threads and descriptors it makes belong there.
pub(crate) fn as_process<T>(process: usize, work: impl FnOnce() -> T) -> T {
    let set = |process| {
        let mut call = Call::begin().expect("the caller is a simulated thread");
        let me = call.me;
        std::mem::replace(&mut call.world().threads[me].makes_for, process)
    };
    let before = set(process);
    let result = work();
    set(before);
    result
}

/// Ends the whole program: the run cannot go on.
pub(crate) fn give_up(why: &str) -> ! {
    tell(&format!("the run was given up: {why}"));
    // SAFETY: ends the process without running anything more of it.
    unsafe { libc::_exit(3) }
}

/// A line on standard error when the trace was asked for.
pub(crate) fn tell_if_asked(line: &impl std::fmt::Display) {
    if std::env::var_os("WEIR_SIMULATION_TRACE").is_some() {
        tell(&line.to_string());
    }
}

/// A line on standard error, past all buffers and locks.
pub(crate) fn tell(line: &str) {
    let line = format!("{line}\n");
    let arguments = [2, line.as_ptr() as usize, line.len(), 0, 0, 0];
    let _ = crate::raw::system_call(libc::SYS_write, arguments);
}
