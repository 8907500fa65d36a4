//! A run of honest ends: a server, a client, the plan's faults, and what must hold in the end.

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::Duration;

use weir_transfer::{
    Access, Direction, Export, Remote, Server, ServerSettings, Settings, Transfer, TransferState,
    keys,
};
use weir_units::Time;

use crate::disk;
use crate::kernel::{self, OBSERVER, SECOND_NS, World, as_process, with_world};
use crate::plan::{Change, Fault, Plan, Role, Way, When};
use crate::storage::{Act, Trouble};
use crate::tree::Tree;

/// A server accepts, watches over deadlines, and looks for old files in progress.
pub(crate) const OWN_THREADS: usize = 3;
pub(crate) const ADDRESS: &str = "10.0.0.2:7411";
/// An honest run is over by then, whatever happened to it: faults last up to 45 s each, and the
/// mover tries for up to 120 s.
const PATIENCE_NS: u64 = 1200 * SECOND_NS;
/// A transfer that is only starved in the lower class is over by then: its promise is kept.
const STARVED_MAX_NS: u64 = 60 * SECOND_NS;
/// A server closes sessions without a request after ten minutes.
const IDLE_NS: u64 = 700 * SECOND_NS;

/// Everybody who takes part in a run.
struct Cast {
    plan: Plan,
    tree: Mutex<Tree>,
    state: Mutex<State>,
    /// Held by whoever starts a server.
    starts: Mutex<()>,
}

#[derive(Default)]
struct State {
    server: usize,
    clients: Vec<usize>,
    next_process: usize,
    /// The transfer of the latest client.
    transfer: Option<Arc<Transfer>>,
    /// Bytes that were reported durable when both ends were killed at once.
    durable: Option<u64>,
    killed: Vec<usize>,
    over: bool,
    /// Something happened before the first client was served.
    early: bool,
}

fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// How an attempt ended.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Outcome {
    Done,
    Failed(String),
    Killed,
    Endless,
}

/// Carries a plan out; returns what did not hold.
pub(crate) fn observe(plan: &Plan, base: &Path) -> Vec<String> {
    let tree = Mutex::new(Tree::lay_out(base, plan));
    let state = Mutex::new(State { next_process: 1, ..State::default() });
    let cast = Arc::new(Cast { plan: plan.clone(), tree, state, starts: Mutex::default() });
    if plan.loses_power() {
        disk::begin(plan.seed, base.join("root"));
    }
    cast.start_server();
    for fault in plan.faults.iter().filter(|fault| !fault.is_at_end()) {
        let (cast, fault) = (Arc::clone(&cast), fault.clone());
        thread::spawn(move || cast.suffer(&fault));
    }
    let mut wrong = Vec::new();
    let client = cast.start_client("source", plan.retry_ns);
    let start_ns = with_world(|world| world.now_ns);
    let outcome = cast.wait(client);
    kernel::tell_if_asked(&format!("the first attempt: {outcome:?}"));
    let took_ns = with_world(|world| world.now_ns) - start_ns;
    if plan.is_only_starved() && took_ns > STARVED_MAX_NS {
        wrong.push(format!("it took {took_ns} ns, for a lower class that was starved"));
    }
    cast.check(&outcome, &mut wrong);
    if plan.faults.iter().any(Fault::is_at_end) {
        cast.lose_power(true, 0);
        cast.check_survival(&outcome, &mut wrong);
    }
    cast.heal();
    let healing = cast.start_client("source", 0);
    let healed = cast.wait(healing);
    kernel::tell_if_asked(&format!("the last attempt: {healed:?}"));
    cast.check(&healed, &mut wrong);
    cast.check_healed(&healed, &mut wrong);
    cast.check_leaks(&mut wrong);
    wrong
}

impl Cast {
    fn next_process(&self) -> usize {
        let mut state = lock(&self.state);
        state.next_process += 1;
        state.next_process
    }

    /// The folder of the run's keys, if it has any.
    fn keys(&self) -> Option<PathBuf> {
        let folder = lock(&self.tree).base.join("keys");
        self.plan.tls.then(|| {
            if !folder.exists() {
                keys::init(&folder).expect("the run's folder is new");
            }
            folder
        })
    }

    fn start_server(&self) {
        // Two faults may both have killed one, and each brings one back.
        let _alone = lock(&self.starts);
        self.kill_server();
        let process = self.next_process();
        let folder = match self.plan.way {
            Way::Send => lock(&self.tree).root(),
            Way::Get => lock(&self.tree).source(),
        };
        start_server(process, &folder, self.plan.sync, self.keys().as_deref());
        lock(&self.state).server = process;
    }

    /// Starts a client that sends from, or gets into, a folder of the run.
    fn start_client(self: &Arc<Self>, from: &str, retry_ns: u64) -> usize {
        let process = self.next_process();
        lock(&self.state).clients.push(process);
        let (direction, settings) = (self.direction(from), self.settings(retry_ns));
        let rival = from != "source";
        let cast = Arc::clone(self);
        as_process(process, || {
            thread::spawn(move || {
                let transfer = Transfer::new(direction, settings).map(Arc::new);
                match transfer {
                    Ok(transfer) => {
                        if !rival {
                            let latest = Some(Arc::clone(&transfer));
                            let before = std::mem::replace(&mut lock(&cast.state).transfer, latest);
                            std::mem::forget(before);
                        }
                        transfer.start();
                        transfer.wait(None);
                    }
                    Err(error) => kernel::tell_if_asked(&format!("not started: {error}")),
                }
            })
        });
        process
    }

    fn direction(&self, from: &str) -> Direction {
        let tree = lock(&self.tree);
        let single = self.plan.single;
        match self.plan.way {
            Way::Send => {
                let (file, folder) =
                    (tree.base.join(from).join("f0"), tree.base.join(from).join(""));
                let place = if single { "server:7411/f0" } else { "server:7411/" };
                let destination = Remote::parse(place.as_bytes()).expect("a remote place");
                Direction::Send { sources: vec![if single { file } else { folder }], destination }
            }
            Way::Get => {
                let remote = Remote::parse(b"server:7411").expect("a remote place");
                let sources = vec![if single { b"f0".to_vec() } else { b"./".to_vec() }];
                let root = tree.root();
                let destination = if single { root.join("f0") } else { root };
                Direction::Get { remote, sources, destination }
            }
        }
    }

    fn settings(&self, retry_ns: u64) -> Settings {
        let tls =
            self.keys().map(|keys| keys::client_config(&keys).expect("keys as they were made"));
        Settings {
            tls,
            streams: self.plan.streams,
            rate: self.plan.rate,
            spare: self.plan.spare.clone(),
            hash: self.plan.hash,
            sync: self.plan.sync,
            checksum: self.plan.checksum,
            read_back: self.plan.read_back,
            retry: Time::from_ns(retry_ns),
            ..Settings::default()
        }
    }

    /// Waits for the end of a client.
    fn wait(&self, client: usize) -> Outcome {
        let start_ns = with_world(|world| world.now_ns);
        loop {
            thread::sleep(Duration::from_millis(100));
            let transfer = {
                let state = lock(&self.state);
                if state.killed.contains(&client) {
                    return Outcome::Killed;
                }
                state.transfer.clone()
            };
            let (now_ns, threads) = with_world(|world| (world.now_ns, world.threads_of(client)));
            match transfer.map(|transfer| transfer.state()) {
                Some((TransferState::Done, _)) => return Outcome::Done,
                Some((TransferState::Failed | TransferState::Cancelled, error)) => {
                    return Outcome::Failed(error.map_or_else(String::new, |e| e.to_string()));
                }
                None if threads == 0 => return Outcome::Failed("not started".to_owned()),
                _ if now_ns > start_ns + PATIENCE_NS => return Outcome::Endless,
                _ => {}
            }
        }
    }
}

impl Cast {
    /// Lets one fault of the plan happen, when its time comes.
    fn suffer(self: &Arc<Self>, fault: &Fault) {
        if !self.comes(fault.when()) {
            return;
        }
        self.note_if_early();
        match *fault {
            Fault::KillServer { back_ns, .. } => {
                self.kill_server();
                thread::sleep(Duration::from_nanos(back_ns));
                self.start_server();
            }
            Fault::KillClient { .. } => self.kill_clients(),
            Fault::KillBoth { change, .. } => self.kill_both(change),
            Fault::PowerLoss { both, back_ns, .. } => self.lose_power(both, back_ns),
            Fault::SourceChanges { file, change, .. } => {
                lock(&self.tree).change(&self.plan.files[file], change);
            }
            Fault::Rival { .. } => {
                self.start_client("rival", 0);
            }
            Fault::DiskFull { role, span_ns, .. } => {
                let acts = &[Act::Write, Act::Reserve, Act::Create];
                self.trouble(role, span_ns, acts, libc::ENOSPC, 1.0);
            }
            Fault::DiskErrors { role, span_ns, chance, .. } => {
                let acts = &[Act::Write, Act::Read, Act::Name, Act::Create];
                self.trouble(role, span_ns, acts, libc::EIO, chance);
            }
            Fault::SyncFails { role, chance } => {
                self.trouble(role, PATIENCE_NS, &[Act::Sync], libc::EIO, chance);
            }
            Fault::Damages { chance } => {
                let role = if self.plan.way == Way::Send { Role::Server } else { Role::Client };
                self.trouble(role, PATIENCE_NS, &[Act::Damage], 0, chance);
            }
            _ => with_world(|world| suffer_in(world, fault)),
        }
    }

    /// A first connection that fails is told at once: it is rather a wrong address than a pause.
    fn note_if_early(&self) {
        let transfer = lock(&self.state).transfer.clone();
        let runs = transfer.is_some_and(|one| one.state().0 == TransferState::Running);
        if !runs {
            lock(&self.state).early = true;
        }
    }

    /// Makes a role's storage fail for a span.
    fn trouble(&self, role: Role, span_ns: u64, acts: &'static [Act], error: i32, chance: f64) {
        let state = lock(&self.state);
        let processes = match role {
            Role::Server => vec![state.server],
            Role::Client => state.clients.clone(),
        };
        drop(state);
        with_world(|world| {
            let (from_ns, until_ns) = (world.now_ns, world.now_ns + span_ns);
            for process in processes {
                let trouble = Trouble { process, from_ns, until_ns, acts, error, chance };
                world.storage.troubles.push(trouble);
            }
        });
    }

    /// Waits until it is time; says whether the run still suffers faults then.
    fn comes(&self, when: When) -> bool {
        match when {
            When::Step(step) => kernel::wait_for_step(step),
            When::Time(span_ns) => thread::sleep(Duration::from_nanos(span_ns)),
        }
        !lock(&self.state).over
    }

    fn kill_server(&self) {
        let server = std::mem::take(&mut lock(&self.state).server);
        if server != OBSERVER {
            with_world(|world| world.kill(server));
        }
    }

    fn kill_clients(&self) {
        let mut state = lock(&self.state);
        let clients = std::mem::take(&mut state.clients);
        with_world(|world| clients.iter().for_each(|client| world.kill(*client)));
        state.killed.extend(clients);
        // Nobody cleans up after what was killed; its threads may hold its locks for ever.
        std::mem::forget(state.transfer.take());
    }

    fn kill_both(&self, change: Option<(usize, Change)>) {
        let reported = lock(&self.state).transfer.as_ref().map(|one| one.progress().bytes_durable);
        self.kill_server();
        self.kill_clients();
        if let Some((file, change)) = change {
            lock(&self.tree).change(&self.plan.files[file], change);
        }
        lock(&self.state).durable = reported;
        self.start_server();
    }

    /// The machine that receives loses power, or both do.
    fn lose_power(&self, both: bool, back_ns: u64) {
        let reported = lock(&self.state).transfer.as_ref().map(|one| one.progress().bytes_durable);
        let sends = self.plan.way == Way::Send;
        let (mut tree, mut state) = (lock(&self.tree), lock(&self.state));
        let mut killed = Vec::new();
        if both || sends {
            killed.extend(Some(std::mem::take(&mut state.server)).filter(|one| *one != OBSERVER));
        }
        if both || !sends {
            let clients = std::mem::take(&mut state.clients);
            killed.extend(&clients);
            state.killed.extend(clients);
            std::mem::forget(state.transfer.take());
        }
        with_world(|world| {
            killed.iter().for_each(|process| world.kill(*process));
            disk::lose_power();
            tree.note_damage(self.plan.sync);
        });
        if both && self.plan.sync {
            state.durable = reported;
        }
        drop((tree, state));
        if both || sends {
            thread::sleep(Duration::from_nanos(back_ns));
            self.start_server();
        }
    }

    /// What was there for good when an end said that all went well.
    fn check_survival(&self, outcome: &Outcome, wrong: &mut Vec<String>) {
        if *outcome == Outcome::Done && self.plan.sync {
            for what in lock(&self.tree).missing(self.has_rival()) {
                wrong.push(format!("a success did not survive the loss of power: {what}"));
            }
        }
    }

    /// Ends all faults and all clients, and gives the run a server if it has none.
    fn heal(&self) {
        lock(&self.state).over = true;
        with_world(|world| {
            world.storage.troubles.clear();
            world.storage.short = 0.0;
            world.network.calm();
        });
        // A killed server comes back by then, and what is silent speaks again.
        thread::sleep(Duration::from_secs(60));
        self.kill_clients();
        // Its kernel tells the server at once; the server needs a moment to let go.
        thread::sleep(Duration::from_secs(40));
    }

    /// What must hold at every moment.
    fn check(&self, outcome: &Outcome, wrong: &mut Vec<String>) {
        let tree = lock(&self.tree);
        let rival = self.has_rival();
        for what in tree.wrong_names(rival) {
            wrong.push(format!("wrong bytes under a final name ({outcome:?}): {what}"));
        }
        // Before it could be looked at, a loss of power may have undone it.
        let undone = self.plan.loses_power() && !self.plan.sync && !lock(&self.state).over;
        if *outcome == Outcome::Done && !undone {
            for what in tree.missing(rival) {
                wrong.push(format!("false success: {what}"));
            }
        }
        if let Outcome::Failed(why) = outcome
            && self.plan.passes()
            && !lock(&self.state).early
        {
            wrong.push(format!("what passes by ended the transfer: {why}"));
        }
        if *outcome == Outcome::Endless && !self.plan.may_hang() {
            wrong.push("the transfer does not end".to_owned());
        }
    }

    fn has_rival(&self) -> bool {
        self.plan.faults.iter().any(|fault| matches!(fault, Fault::Rival { .. }))
    }

    /// What must hold once nothing goes wrong any more.
    fn check_healed(&self, outcome: &Outcome, wrong: &mut Vec<String>) {
        let obstacle = lock(&self.tree).has_obstacle();
        if *outcome != Outcome::Done && !obstacle {
            wrong.push(format!("what was interrupted cannot be resumed: {outcome:?}"));
        }
        if *outcome == Outcome::Done && self.plan.checksum {
            wrong.extend(lock(&self.tree).outdated());
        }
        let state = lock(&self.state);
        let resumed = state.transfer.as_ref().map(|one| one.progress().bytes_resumed);
        if let (Some(durable), Some(resumed)) = (state.durable, resumed)
            && resumed < durable
            && self.keeps_promises()
        {
            wrong.push(format!("{durable} B were reported durable, {resumed} B survived"));
        }
    }

    /// Whether nothing happened that excuses a loss of durable bytes.
    fn keeps_promises(&self) -> bool {
        // Zeros that were never sent are told again, not resumed.
        let holes = self.plan.files.iter().any(|file| file.sparse);
        // Without `sync` a loss of power may take what a kill leaves.
        !holes
            && (self.plan.sync || !self.plan.loses_power())
            && self.plan.faults.iter().all(|fault| {
                matches!(
                    fault,
                    Fault::KillBoth { change: None, .. }
                        | Fault::PowerLossAtEnd
                        | Fault::PowerLoss { .. }
                        | Fault::Cut { .. }
                        | Fault::Silence { .. }
                        | Fault::Starved { .. }
                        | Fault::ShortCalls { .. }
                        | Fault::ClockStep { .. }
                )
            })
    }

    /// Once its peers are gone, a server has the threads and links that it began with.
    fn check_leaks(&self, wrong: &mut Vec<String>) {
        self.kill_clients();
        thread::sleep(Duration::from_nanos(IDLE_NS));
        let server = lock(&self.state).server;
        let (threads, links) =
            with_world(|world| (world.threads_of(server), world.network.open_links_of(server)));
        if threads > OWN_THREADS || links > 0 {
            wrong.push(format!("the server is left with {threads} threads and {links} links"));
        }
    }
}

/// Serves a folder from a process, whose threads live for as long as it does.
pub(crate) fn start_server(process: usize, folder: &Path, sync: bool, keys: Option<&Path>) {
    let server = as_process(process, || {
        let export = Export::open("", folder, Access::ReadWrite)?;
        let config = ServerSettings {
            listen: ADDRESS.to_owned(),
            ports: 1,
            exports: vec![export],
            tls: keys.map(keys::server_config).transpose()?,
            sync,
            silence: Time::from_ms(20_000),
            idle: Time::from_ms(24 * 3_600_000),
            reserve: None,
            quota: None,
            rights: None,
            revoked: None,
        };
        Server::start(config, Arc::new(kernel::tell_if_asked))
    });
    std::mem::forget(server.expect("the address is free"));
}

/// Faults of the network, the calls and the clock.
fn suffer_in(world: &mut World, fault: &Fault) {
    let now_ns = world.now_ns;
    match *fault {
        Fault::Cut { share, .. } => world.cut_links(share),
        Fault::Silence { span_ns, .. } => world.network.fall_silent(now_ns, now_ns + span_ns),
        Fault::Starved { span_ns, .. } => world.network.starve(now_ns, now_ns + span_ns),
        Fault::Nameless { span_ns, .. } => {
            world.network.nameless = Some((now_ns, now_ns + span_ns));
            world.cut_links(1.0);
        }
        Fault::ShortCalls { chance } => world.storage.short = chance,
        Fault::Flips { chance } => world.network.plan.flips = chance,
        Fault::Doubled { chance } => world.network.plan.doubled = chance,
        Fault::Lost { chance } => world.network.plan.lost = chance,
        Fault::Swapped { chance } => world.network.plan.swapped = chance,
        Fault::ClockStep { by_ns, .. } => world.wall_offset_ns += by_ns,
        _ => {}
    }
}
