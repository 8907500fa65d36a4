//! How much of one flow may be on its way: one direction, seen from either end.
//!
//! Offsets count data from the flow's begin, so that a message that is told twice does no harm.

/// What a flow may always have on its way and in the far end's memory, in bytes.
pub const WINDOW_MIN: u64 = 32 << 10;
/// The most that one flow may have, in bytes: 2 Gbit/s over 16 ms, or 330 Mbit/s over 100 ms.
pub const WINDOW_MAX: u64 = 4 << 20;
/// The most room that is told at once over a slow aggregate, in bytes: two flows that have all
/// their windows on their way take turns of that size, seconds of them where it is large and the
/// line narrow.
pub const STEP_MAX: u64 = 64 << 10;
/// Over a fast one it is what that brings in so many seconds, up to so much: whoever tells, and
/// whoever is told, is woken each time.
const STEP_S: f64 = 1e-3;
const FAST_STEP_MAX: u64 = 512 << 10;
/// What all flows of an aggregate share beyond their least, in bytes.
pub const MEMORY: u64 = 64 << 20;

/// The window of each of so many flows: an even part of the memory, within bounds.
pub fn window(flows: usize) -> u64 {
    (MEMORY / flows.max(1) as u64).clamp(WINDOW_MIN, WINDOW_MAX)
}

/// The most room that is told at once, in bytes, over an aggregate that brings so much.
pub fn step(bytes_per_s: f64) -> u64 {
    ((bytes_per_s * STEP_S) as u64).clamp(STEP_MAX, FAST_STEP_MAX)
}

/// What the end that sends a flow's data may send.
#[derive(Clone, Copy, Debug)]
pub struct Outgoing {
    sent: u64,
    room: u64,
}

impl Default for Outgoing {
    fn default() -> Self {
        Self { sent: 0, room: WINDOW_MIN }
    }
}

impl Outgoing {
    /// How much may be sent now.
    pub fn left(&self) -> u64 {
        self.room - self.sent
    }

    /// So much was sent.
    ///
    /// # Panics
    ///
    /// If it is more than was left.
    pub fn send(&mut self, bytes: u64) {
        assert!(bytes <= self.left(), "sent beyond the window");
        self.sent += bytes;
    }

    /// The far end has room up to this offset; whether that is more than before.
    pub fn open(&mut self, until: u64) -> bool {
        let is_more = until > self.room;
        self.room = self.room.max(until);
        is_more
    }

    /// What was sent so far.
    pub fn sent(&self) -> u64 {
        self.sent
    }
}

/// What the end that takes a flow's data has promised room for.
#[derive(Clone, Copy, Debug)]
pub struct Incoming {
    arrived: u64,
    handed_on: u64,
    promised: u64,
}

impl Default for Incoming {
    fn default() -> Self {
        Self { arrived: 0, handed_on: 0, promised: WINDOW_MIN }
    }
}

impl Incoming {
    /// So much has arrived; whether there was room promised for it.
    #[must_use]
    pub fn arrive(&mut self, bytes: u64) -> bool {
        self.arrived += bytes;
        self.arrived <= self.promised
    }

    /// So much was handed on: written to the connection, and no longer ours.
    pub fn hand_on(&mut self, bytes: u64) {
        self.handed_on += bytes;
    }

    /// What was handed on so far.
    pub fn handed_on(&self) -> u64 {
        self.handed_on
    }

    /// The offset up to which there is room with such a window, if it is worth telling: a message
    /// for each quarter of a window, or such a [`step`].
    pub fn promise(&mut self, window: u64, step: u64) -> Option<u64> {
        let until = self.handed_on + window;
        let is_due = until >= self.promised + (window / 4).min(step);
        is_due.then(|| {
            self.promised = until;
            until
        })
    }
}
