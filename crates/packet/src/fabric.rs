//! What carries packets: the schedule, the links, the routes, and the packets under way.

use weir_link::Pipe;
use weir_units::{Rate, Time};

use crate::arena::{Arena, Content, Handle};
use crate::routes::Routes;
use crate::schedule::Schedule;

/// One direction of a link.
pub(crate) struct Direction {
    pub(crate) pipe: Pipe<Handle>,
    pub(crate) from: usize,
    pub(crate) to: usize,
    pub(crate) rate: Option<Rate>,
}

/// Packets that never arrived, counted for the flow they belonged to.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Losses {
    pub(crate) packets: u64,
}

/// Links, routes and packets. Objects 0 to the number of directions of the schedule are its own.
pub(crate) struct Fabric {
    pub(crate) now: Time,
    pub(crate) schedule: Schedule,
    pub(crate) arena: Arena,
    pub(crate) directions: Vec<Direction>,
    pub(crate) routes: Routes,
    /// By flow, see [`Fabric::flow_of`].
    pub(crate) losses: Vec<Losses>,
    /// The flow of each endpoint.
    pub(crate) flow_of: Vec<u32>,
}

impl Fabric {
    /// A packet leaves node `at`, or passes it.
    pub(crate) fn send(&mut self, at: usize, handle: Handle) {
        let Some(index) = self.routes.next(at, handle.to as usize) else {
            // Every flow was checked to have a path both ways.
            self.arena.free(handle.index);
            return;
        };
        let pipe = &mut self.directions[index].pipe;
        pipe.arrive(handle, self.now);
        let wake = pipe.next_wake();
        if let Some(wake) = wake {
            self.schedule.set_by(index, wake);
        }
        self.bury(index);
    }

    /// Takes the next packet that leaves direction `index` now, if any; call until there is none,
    /// then [`settle`](Self::settle).
    pub(crate) fn release(&mut self, index: usize) -> Option<Handle> {
        let direction = &mut self.directions[index];
        let (_, handle) = direction.pipe.release(self.now)?;
        let to = direction.to;
        if handle.to as usize == to {
            return Some(handle);
        }
        self.send(to, handle);
        self.release(index)
    }

    /// Direction `index` has been served up to now: when next, and what it lost.
    pub(crate) fn settle(&mut self, index: usize) {
        let wake = self.directions[index].pipe.next_wake();
        self.schedule.rearm(index, wake);
        self.bury(index);
    }

    /// Frees what direction `index` dropped or lost.
    fn bury(&mut self, index: usize) {
        for handle in self.directions[index].pipe.discarded() {
            let flow = match self.arena.content(handle.index) {
                Content::Udp { flow, .. } | Content::Udt { flow, .. } => *flow,
                Content::Tcp { endpoint, .. } => self.flow_of[*endpoint as usize],
            };
            self.losses[flow as usize].packets += 1;
            self.arena.free(handle.index);
        }
    }
}
