//! All links of a scenario together.

use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, channel, sync_channel};
use std::thread::JoinHandle;

use nix::sys::eventfd::EventFd;

use crate::config::{Config, LinkConfig};
use crate::link::{Command, Link};
use crate::statistics::{LinkStatistics, Statistics};
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

/// Carries packets between pairs of TUN devices, one thread per link.
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
    Running(Vec<Worker>),
    Stopped,
}

/// The handle of one link's thread.
#[derive(Debug)]
struct Worker {
    link: String,
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
        let links = config.links.into_iter().map(Worker::prepare);
        let links = links.collect::<Result<Vec<_>, _>>()?;
        let mut workers = Vec::with_capacity(links.len());
        for start in links {
            match start.launch() {
                Ok(worker) => workers.push(worker),
                Err(error) => {
                    workers.into_iter().for_each(Worker::stop);
                    return Err(error);
                }
            }
        }
        self.state = State::Running(workers);
        Ok(())
    }

    /// What every link has done up to now.
    ///
    /// # Errors
    /// [`EmulatorError::NotRunning`].
    pub fn statistics(&self) -> Result<Statistics, EmulatorError> {
        let State::Running(workers) = &self.state else { return Err(EmulatorError::NotRunning) };
        let links = workers.iter().map(Worker::statistics).collect::<Result<Vec<_>, _>>()?;
        let headroom = links.iter().map(|link| link.headroom).reduce(|a, b| a.worse(b));
        Ok(Statistics { headroom: headroom.unwrap_or_default(), links })
    }

    /// Cuts a link's cable, or puts it in again: both ends lose their carrier, and what is under
    /// way is lost.
    ///
    /// # Errors
    /// [`EmulatorError::NotRunning`], [`EmulatorError::Unknown`].
    pub fn set_carrier(&self, link: &str, carrier: bool) -> Result<(), EmulatorError> {
        let State::Running(workers) = &self.state else { return Err(EmulatorError::NotRunning) };
        let worker = workers.iter().find(|worker| worker.link == link);
        worker.ok_or_else(|| EmulatorError::Unknown { link: link.into() })?.set_carrier(carrier)
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
        if let State::Running(workers) = std::mem::replace(&mut self.state, State::Stopped) {
            workers.into_iter().for_each(Worker::stop);
        }
    }
}

impl Drop for Emulator {
    fn drop(&mut self) {
        self.stop();
    }
}

/// A link with its devices open, not yet running.
struct Prepared {
    link: Link,
    name: String,
    commands: Sender<Command>,
    wake: Arc<EventFd>,
}

impl Worker {
    fn prepare(config: LinkConfig) -> Result<Prepared, EmulatorError> {
        let LinkConfig { name, ends, directions } = config;
        let [a, b] = ends.map(|end| Tun::open(&end));
        let device = |source| EmulatorError::Device { link: name.clone(), source };
        let tuns = [a.map_err(device)?, b.map_err(device)?];
        let wake = Arc::new(EventFd::new().map_err(std::io::Error::from)?);
        let (commands, incoming): (_, Receiver<Command>) = channel();
        let link = Link::new(name.clone(), tuns, directions, Arc::clone(&wake), incoming);
        Ok(Prepared { link, name, commands, wake })
    }

    fn statistics(&self) -> Result<LinkStatistics, EmulatorError> {
        let lost = || EmulatorError::Lost { link: self.link.clone() };
        let (answer, answered) = sync_channel(1);
        self.send(Command::Report(answer)).ok_or_else(lost)?;
        answered.recv().map_err(|_| lost())
    }

    fn set_carrier(&self, carrier: bool) -> Result<(), EmulatorError> {
        let lost = || EmulatorError::Lost { link: self.link.clone() };
        let (answer, answered) = sync_channel(1);
        self.send(Command::Carrier(carrier, answer)).ok_or_else(lost)?;
        Ok(answered.recv().map_err(|_| lost())??)
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
    fn launch(self) -> Result<Worker, EmulatorError> {
        let Self { link, name, commands, wake } = self;
        let thread = std::thread::Builder::new()
            .name(format!("weir {name}").chars().take(15).collect())
            .spawn(move || link.run())?;
        Ok(Worker { link: name, commands, wake, thread })
    }
}
