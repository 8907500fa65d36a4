//! The loop: the earliest event, whose it is, what it does.

use std::net::SocketAddrV4;

use rustix::event::{Timespec, epoll};
use serde::Serialize;
use weir_application::{Application, ApplicationOutcome, peer_of};
use weir_units::Time;

use crate::clock::monotonic;
use crate::sockets::{KernelSockets, LISTENER, Setup};
use crate::{Config, LiveError};

/// Events taken at a time.
const EVENTS: usize = 256;

/// One traffic, both its ends.
pub struct Live {
    application: Application,
    sockets: KernelSockets,
    begun: Option<Time>,
    events: Vec<epoll::Event>,
}

/// What a traffic did.
#[derive(Clone, Debug, Serialize)]
pub struct Outcome {
    /// Bytes that arrived where the traffic goes.
    pub delivered_bytes: u64,
    /// From the start.
    pub elapsed_ns: u64,
    /// Connections that broke or could not be made.
    pub failed_connections: u64,
    /// What the application measured.
    pub application: Option<ApplicationOutcome>,
    /// Each request answered, if they are kept: when it began after the start, in ns, the bytes of
    /// its object, and the ns until its end.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub requests: Vec<(u64, u64, u64)>,
}

impl Live {
    /// Everything in place, nothing opened yet.
    ///
    /// # Errors
    /// [`LiveError::Value`] for what cannot be right.
    pub fn new(config: &Config) -> Result<Self, LiveError> {
        let (mut application, tcp) = config.build()?;
        if config.keep_requests
            && let Application::Web(web) = &mut application
        {
            web.keep();
        }
        let setup = Setup {
            address: SocketAddrV4::new(config.address, config.port),
            dscp: config.dscp,
            congestion: config.congestion.clone(),
            tcp,
        };
        let events = Vec::with_capacity(EVENTS);
        Ok(Self { application, sockets: KernelSockets::new(setup)?, begun: None, events })
    }

    /// Accepts connections from now on, in the network namespace of the calling thread.
    ///
    /// # Errors
    /// [`LiveError::System`]: the address is not this host's or taken, or the kernel lacks the
    /// congestion control.
    pub fn listen(&mut self) -> Result<(), LiveError> {
        self.sockets.listen()
    }

    /// Runs until `until` on the monotonic clock; the first call starts the application. Opens
    /// connections from the network namespace of the calling thread.
    ///
    /// # Errors
    /// [`LiveError::System`]: the kernel does not tell of events.
    pub fn run(&mut self, until: Time) -> Result<(), LiveError> {
        self.sockets.now = monotonic();
        if self.begun.is_none() {
            self.begun = Some(self.sockets.now);
            self.application.start(&mut self.sockets);
        }
        while self.sockets.now < until {
            self.wait(until)?;
            self.sockets.now = monotonic();
            self.turn();
        }
        Ok(())
    }

    /// As [`run`](Self::run), but for `slice` at most; whether there is more to run.
    ///
    /// # Errors
    /// As [`run`](Self::run).
    pub fn run_slice(&mut self, slice: Time, until: Time) -> Result<bool, LiveError> {
        self.run(monotonic().saturating_add(slice).min(until))?;
        Ok(self.sockets.now < until)
    }

    /// Waits for events, the application's timer or the end.
    fn wait(&mut self, until: Time) -> Result<(), LiveError> {
        let due = self.application.next_timer().map_or(until, |timer| timer.min(until));
        let span = due.saturating_sub(monotonic()).as_ns();
        let timeout = Timespec {
            tv_sec: (span / 1_000_000_000) as i64,
            tv_nsec: (span % 1_000_000_000) as i64,
        };
        self.events.clear();
        let spare = rustix::buffer::spare_capacity(&mut self.events);
        match epoll::wait(&self.sockets.poll, spare, Some(&timeout)) {
            Ok(_) | Err(rustix::io::Errno::INTR) => Ok(()),
            Err(error) => Err(LiveError::system("waiting for events")(error)),
        }
    }

    /// Does what has become due.
    fn turn(&mut self) {
        if self.application.next_timer().is_some_and(|due| due <= self.sockets.now) {
            self.application.on_timer(&mut self.sockets);
        }
        for at in 0..self.events.len() {
            let epoll::Event { flags, data } = self.events[at];
            if data.u64() == LISTENER {
                self.sockets.accept();
            } else if let Some(endpoint) = self.sockets.endpoint_of(data.u64()) {
                self.sockets.on_event(endpoint, flags);
                self.application.on_progress(endpoint, &mut self.sockets);
                // What has arrived here is acknowledged there.
                self.application.on_progress(peer_of(endpoint), &mut self.sockets);
            }
        }
    }

    /// Begins nothing new; what it found.
    #[must_use]
    pub fn finish(mut self) -> Outcome {
        self.application.stop(&mut self.sockets);
        let elapsed = self.begun.map_or(Time::ZERO, |begun| self.sockets.now - begun);
        Outcome {
            delivered_bytes: self.sockets.delivered_bytes,
            elapsed_ns: elapsed.as_ns(),
            failed_connections: self.sockets.failed,
            application: self.application.outcome(),
            requests: self.requests(),
        }
    }

    fn requests(&self) -> Vec<(u64, u64, u64)> {
        let (Application::Web(web), Some(start)) = (&self.application, self.begun) else {
            return Vec::new();
        };
        web.done()
            .iter()
            .map(|done| ((done.begun - start).as_ns(), done.size_bytes, done.took.as_ns()))
            .collect()
    }
}

impl Outcome {
    /// As JSON.
    ///
    /// # Errors
    /// Never in practice: every number is finite.
    pub fn to_json(&self) -> Result<String, LiveError> {
        serde_json::to_string(self).map_err(|error| LiveError::value("outcome", error.to_string()))
    }
}
