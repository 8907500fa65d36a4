//! Whether the other end of an aggregate still runs.
//!
//! TCP cannot tell: where a process is stopped, or hangs, its kernel goes on to acknowledge what
//! comes, and answers when it is asked whether it is there. So each end says how long it waits for
//! a sign of the other one, and that one gives signs in time. Whatever comes is a sign, so that
//! nothing is added where data are on their way, and signs that wait behind data are not missed.

use std::time::Duration;

/// How many signs an end is given in the time that it waits for one.
const SIGNS: u32 = 4;

/// What is known of the signs that two ends give each other, seen from one of them.
#[derive(Clone, Copy, Debug)]
pub struct Pulse {
    /// So long this end waits for a sign.
    patience: Duration,
    /// So often it gives one.
    every: Duration,
    /// Since the last one came.
    silent: Duration,
    /// Since this end gave one.
    quiet: Duration,
}

impl Pulse {
    /// Begins with how long this end waits; until the other one has said how long it does, it is
    /// taken to have the same patience.
    pub fn new(patience: Duration) -> Self {
        let every = patience / SIGNS;
        Self { patience, every, silent: Duration::ZERO, quiet: Duration::ZERO }
    }

    /// So much time has passed since this was last said. Of the time that this end did not look,
    /// for it was stopped itself, little counts: the other one may have been stopped with it, as on
    /// a machine that was put to sleep, and is given the time to say something.
    pub fn pass(&mut self, time: Duration) {
        self.silent += time.min(self.patience / SIGNS);
        self.quiet += time;
    }

    /// Something came from the other end.
    pub fn heard(&mut self) {
        self.silent = Duration::ZERO;
    }

    /// Something was sent to it.
    pub fn said(&mut self) {
        self.quiet = Duration::ZERO;
    }

    /// It has said how long it waits for a sign.
    pub fn asked(&mut self, patience: Duration) {
        self.every = patience / SIGNS;
    }

    /// Whether it is time for a sign.
    pub fn is_due(&self) -> bool {
        self.quiet >= self.every
    }

    /// Whether the other end is given up.
    pub fn is_lost(&self) -> bool {
        self.silent >= self.patience
    }
}
