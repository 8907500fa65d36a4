//! A timer that keeps its phase.

use weir_units::Time;

/// Due at whole multiples of its interval while running, so that stopping and starting it again
/// leaves every later instant where it was.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Periodic {
    interval: Time,
    due: Option<Time>,
}

impl Periodic {
    /// A timer at rest; `interval` is not zero.
    pub(crate) const fn new(interval: Time) -> Self {
        Self { interval, due: None }
    }

    /// Starts it unless it runs: due at the first multiple after `now`.
    pub(crate) fn start(&mut self, now: Time) {
        if self.due.is_none() {
            let interval = self.interval.as_ns();
            let next = (now.as_ns() / interval + 1).saturating_mul(interval);
            self.due = Some(Time::from_ns(next));
        }
    }

    pub(crate) fn stop(&mut self) {
        self.due = None;
    }

    pub(crate) const fn due(&self) -> Option<Time> {
        self.due
    }

    /// The instant that is due up to `now`, moving on to the next; `None` when there is none left.
    pub(crate) fn fire(&mut self, now: Time) -> Option<Time> {
        let due = self.due.filter(|&due| due <= now)?;
        self.due = Some(due.saturating_add(self.interval));
        Some(due)
    }
}
