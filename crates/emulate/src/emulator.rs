//! All links of a scenario together.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::mpsc::{Sender, channel, sync_channel};
use std::thread::JoinHandle;

use nix::sys::eventfd::EventFd;

use crate::cell::Cell;
use crate::config::{CellConfig, Config, EndConfig, LinkConfig};
use crate::link::Link;
use crate::statistics::{LinkStatistics, Statistics};
use crate::thread::{Carrier, Command, Kernel, Thread};
use crate::tun::{Tun, TunError};

/// Why an emulator could not start or answer.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum EmulatorError {
    /// A device could not be made.
    #[error("link \"{link}\": {source}")]
    Device {
        /// The link's name.
        link: String,
        /// What went wrong.
        #[source]
        source: TunError,
    },
    /// The kernel refused something that every process may have.
    #[error("cannot start the emulator: {0}")]
    System(#[from] std::io::Error),
    /// `start` was called twice.
    #[error("the emulator was started already")]
    Started,
    /// `stats` was called before `start` or after `stop`.
    #[error("the emulator is not running")]
    NotRunning,
    /// There is no such link.
    #[error("there is no link \"{link}\"")]
    Unknown {
        /// The name that was given.
        link: String,
    },
    /// A link's thread has ended by itself, which is a bug.
    #[error("link \"{link}\": its thread has ended")]
    Lost {
        /// The link's name.
        link: String,
    },
}

/// Carries packets between pairs of TUN devices: one thread per wired link, one per channel.
///
/// [`start`](Self::start) makes the devices, [`stop`](Self::stop) or dropping removes them. If the
/// process is killed the kernel removes them.
#[derive(Debug)]
pub struct Emulator {
    state: State,
}

#[derive(Debug)]
enum State {
    Ready(Config),
    Running {
        workers: Vec<Worker>,
        /// The number of each link in the configuration.
        order: HashMap<String, usize>,
    },
    Stopped,
}

/// The handle of a thread.
#[derive(Debug)]
struct Worker {
    /// What it carries, at least one.
    links: Vec<String>,
    commands: Sender<Command>,
    wake: Arc<EventFd>,
    thread: JoinHandle<()>,
}

impl Emulator {
    /// An emulator of `config` that has not started.
    pub const fn new(config: Config) -> Self {
        Self { state: State::Ready(config) }
    }

    /// Makes every device, then starts every link. On an error nothing is left behind and the
    /// emulator is stopped.
    ///
    /// # Errors
    /// [`EmulatorError::Device`] if a device cannot be made, [`EmulatorError::Started`].
    pub fn start(&mut self) -> Result<(), EmulatorError> {
        let config = match std::mem::replace(&mut self.state, State::Stopped) {
            State::Ready(config) => config,
            other => {
                self.state = other;
                return Err(EmulatorError::Started);
            }
        };
        let Config { links, cells, order } = config;
        let wired = links.into_iter().map(Prepared::link);
        let prepared = wired.chain(cells.into_iter().map(Prepared::cell));
        let prepared = prepared.collect::<Result<Vec<_>, _>>()?;
        let mut workers = Vec::with_capacity(prepared.len());
        for start in prepared {
            match start.launch() {
                Ok(worker) => workers.push(worker),
                Err(error) => {
                    workers.into_iter().for_each(Worker::stop);
                    return Err(error);
                }
            }
        }
        self.state = State::Running { workers, order };
        Ok(())
    }

    /// What every link has done up to now.
    ///
    /// # Errors
    /// [`EmulatorError::NotRunning`].
    pub fn statistics(&self) -> Result<Statistics, EmulatorError> {
        let State::Running { workers, order } = &self.state else {
            return Err(EmulatorError::NotRunning);
        };
        let told = workers.iter().map(Worker::statistics).collect::<Result<Vec<_>, _>>()?;
        let mut links: Vec<LinkStatistics> = told.into_iter().flatten().collect();
        links.sort_by_key(|link| order.get(&link.name));
        let headroom = links.iter().map(|link| link.headroom).reduce(|a, b| a.worse(b));
        Ok(Statistics { headroom: headroom.unwrap_or_default(), links })
    }

    /// Cuts a link's cable, or puts it in again: both ends lose their carrier, and what is under
    /// way is lost.
    ///
    /// # Errors
    /// [`EmulatorError::NotRunning`], [`EmulatorError::Unknown`].
    pub fn set_carrier(&self, link: &str, carrier: bool) -> Result<(), EmulatorError> {
        let State::Running { workers, .. } = &self.state else {
            return Err(EmulatorError::NotRunning);
        };
        let worker = workers.iter().find(|worker| worker.links.iter().any(|name| name == link));
        let worker = worker.ok_or_else(|| EmulatorError::Unknown { link: link.into() })?;
        worker.set_carrier(link, carrier)
    }

    /// [`statistics`](Self::statistics) as JSON.
    ///
    /// # Errors
    /// [`EmulatorError::NotRunning`].
    pub fn statistics_json(&self) -> Result<String, EmulatorError> {
        let statistics = self.statistics()?;
        Ok(serde_json::to_string(&statistics).expect("numbers and strings always have a JSON form"))
    }

    /// Ends every link and removes its devices. Does nothing the second time.
    pub fn stop(&mut self) {
        if let State::Running { workers, .. } = std::mem::replace(&mut self.state, State::Stopped) {
            workers.into_iter().for_each(Worker::stop);
        }
    }
}

impl Drop for Emulator {
    fn drop(&mut self) {
        self.stop();
    }
}

/// A thread with its devices open, not yet running.
struct Prepared {
    name: String,
    links: Vec<String>,
    run: Box<dyn FnOnce() + Send>,
    commands: Sender<Command>,
    wake: Arc<EventFd>,
}

impl Worker {
    fn lost(&self) -> EmulatorError {
        EmulatorError::Lost { link: self.links[0].clone() }
    }

    fn statistics(&self) -> Result<Vec<LinkStatistics>, EmulatorError> {
        let (answer, answered) = sync_channel(1);
        self.send(Command::Report(answer)).ok_or_else(|| self.lost())?;
        answered.recv().map_err(|_| self.lost())
    }

    fn set_carrier(&self, link: &str, carrier: bool) -> Result<(), EmulatorError> {
        let (answer, answered) = sync_channel(1);
        let command = Command::Carrier(link.to_owned(), carrier, answer);
        self.send(command).ok_or_else(|| self.lost())?;
        Ok(answered.recv().map_err(|_| self.lost())??)
    }

    fn stop(self) {
        // A thread that has ended already needs no telling.
        let _ = self.send(Command::Stop);
        let _ = self.thread.join();
    }

    fn send(&self, command: Command) -> Option<()> {
        self.commands.send(command).ok()?;
        self.wake.write(1).ok().map(drop)
    }
}

impl Prepared {
    fn link(config: LinkConfig) -> Result<Self, EmulatorError> {
        let LinkConfig { name, ends, directions } = config;
        let tuns = opened(&name, &ends)?;
        Self::new(name.clone(), vec![name.clone()], Link::new(name, tuns, directions))
    }

    fn cell(config: CellConfig) -> Result<Self, EmulatorError> {
        let channel = config.build();
        let mut devices = Vec::new();
        for link in &config.links {
            devices.extend(opened(&link.name, &link.ends)?);
        }
        let links: Vec<String> = config.links.into_iter().map(|link| link.name).collect();
        Self::new(config.name, links.clone(), Cell::new(links, devices, channel, Kernel))
    }

    fn new(
        name: String,
        links: Vec<String>,
        carrier: impl Carrier + Send + 'static,
    ) -> Result<Self, EmulatorError> {
        let wake = Arc::new(EventFd::new().map_err(std::io::Error::from)?);
        let (commands, incoming) = channel();
        let thread = Thread::new(carrier, Arc::clone(&wake), incoming);
        Ok(Self { name, links, run: Box::new(move || thread.run()), commands, wake })
    }

    fn launch(self) -> Result<Worker, EmulatorError> {
        let Self { name, links, run, commands, wake } = self;
        let thread = std::thread::Builder::new()
            .name(format!("weir {name}").chars().take(15).collect())
            .spawn(run)?;
        Ok(Worker { links, commands, wake, thread })
    }
}

/// The devices of a link's ends.
fn opened(link: &str, ends: &[EndConfig; 2]) -> Result<[Tun; 2], EmulatorError> {
    let device = |source| EmulatorError::Device { link: link.to_owned(), source };
    let [a, b] = ends.each_ref().map(Tun::open);
    Ok([a.map_err(device)?, b.map_err(device)?])
}
