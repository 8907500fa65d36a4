//! Whose acknowledgements the split end is waiting for, and when it asks the kernel for them.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use crate::flow::Flow;
use weir_aggregate::frame::Uid;

/// Between two rounds: the shortest pause, and the longest, where servers acknowledge nothing.
const PAUSES: (Duration, Duration) = (Duration::from_millis(1), Duration::from_millis(4));
/// Flows that are asked for in a round.
const FLOWS: usize = 256;

/// The flows of which something is not acknowledged, in the order in which they are asked for.
pub(crate) struct Telling {
    watched: VecDeque<Uid>,
    looked: Instant,
    pause: Duration,
    /// What the pause was when the round began.
    before: Duration,
}

impl Default for Telling {
    fn default() -> Self {
        Self { watched: VecDeque::new(), looked: Instant::now(), pause: PAUSES.0, before: PAUSES.0 }
    }
}

impl Telling {
    /// Has a flow asked for, if it has anything to wait for.
    pub(crate) fn watch(&mut self, uid: Uid, flow: &mut Flow) {
        if flow.is_owed() && !flow.is_watched {
            flow.is_watched = true;
            self.watched.push_back(uid);
            self.pause = PAUSES.0;
        }
    }

    /// Whether it is time to ask.
    pub(crate) fn is_due(&self) -> bool {
        !self.watched.is_empty() && self.looked.elapsed() >= self.pause
    }

    /// How long one may wait for events, which would be so long otherwise.
    pub(crate) fn pause(&self, longest: Duration) -> Duration {
        if self.watched.is_empty() { longest } else { self.pause.min(longest) }
    }

    /// The flows that are asked for now.
    pub(crate) fn begin_round(&mut self) -> Vec<Uid> {
        self.before = self.pause;
        self.watched.drain(..self.watched.len().min(FLOWS)).collect()
    }

    /// Whether anything was new decides when to ask again.
    pub(crate) fn end_round(&mut self, is_news: bool) {
        self.looked = Instant::now();
        self.pause = if is_news { PAUSES.0 } else { (self.before * 2).min(PAUSES.1) };
    }
}
