//! Waiting for events: what an epoll tells, edge by edge.

use std::os::fd::{AsFd, OwnedFd};
use std::time::Duration;

use rustix::event::epoll::{self, EventData, EventFlags};
use rustix::event::{EventfdFlags, Timespec, eventfd};
use rustix::io::Errno;

use crate::RelayError;

/// Events that are taken at a time.
const EVENTS: usize = 256;

/// What has happened to one descriptor.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Event {
    /// What the descriptor was added as.
    pub(crate) key: u64,
    pub(crate) is_readable: bool,
    pub(crate) is_writable: bool,
    /// Its other end has said that nothing more comes, or it is broken.
    pub(crate) is_closing: bool,
    /// It is broken.
    pub(crate) is_broken: bool,
}

/// The descriptors that one thread waits for. A descriptor leaves when it is closed.
pub(crate) struct Poll {
    epoll: OwnedFd,
    events: Vec<epoll::Event>,
}

impl Poll {
    pub(crate) fn new() -> Result<Self, RelayError> {
        let epoll = epoll::create(epoll::CreateFlags::CLOEXEC)
            .map_err(RelayError::system("epoll_create"))?;
        Ok(Self { epoll, events: Vec::with_capacity(EVENTS) })
    }

    /// Tells of a descriptor whenever it becomes readable or writable; not again while it stays so.
    pub(crate) fn add(&self, descriptor: impl AsFd, key: u64) -> Result<(), RelayError> {
        let flags = EventFlags::IN | EventFlags::OUT | EventFlags::RDHUP | EventFlags::ET;
        epoll::add(&self.epoll, descriptor, EventData::new_u64(key), flags)
            .map_err(RelayError::system("epoll_ctl"))
    }

    /// Waits for events, for so long at most.
    pub(crate) fn wait(&mut self, longest: Duration) -> Result<Vec<Event>, RelayError> {
        self.events.clear();
        let longest = Timespec { tv_sec: 0, tv_nsec: i64::from(longest.subsec_nanos()) };
        let told = rustix::buffer::spare_capacity(&mut self.events);
        match epoll::wait(&self.epoll, told, Some(&longest)) {
            Ok(_) | Err(Errno::INTR) => {}
            Err(error) => return Err(RelayError::system("epoll_wait")(error)),
        }
        let broken = EventFlags::ERR | EventFlags::HUP;
        let of = |event: &epoll::Event| {
            let (flags, data) = (event.flags, event.data);
            Event {
                key: data.u64(),
                is_readable: flags.intersects(EventFlags::IN | EventFlags::RDHUP | broken),
                is_writable: flags.intersects(EventFlags::OUT | broken),
                is_closing: flags.intersects(EventFlags::RDHUP | broken),
                is_broken: flags.intersects(EventFlags::ERR),
            }
        };
        Ok(self.events.iter().map(of).collect())
    }
}

/// Wakes a thread that waits in [`Poll::wait`].
pub(crate) struct Waker(OwnedFd);

impl Waker {
    pub(crate) fn new() -> Result<Self, RelayError> {
        let flags = EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK;
        Ok(Self(eventfd(0, flags).map_err(RelayError::system("eventfd"))?))
    }

    pub(crate) fn wake(&self) {
        // It is full only if it is readable already.
        let _ = rustix::io::write(&self.0, &1_u64.to_ne_bytes());
    }

    pub(crate) fn descriptor(&self) -> &OwnedFd {
        &self.0
    }
}
