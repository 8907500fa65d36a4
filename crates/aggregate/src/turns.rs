//! Whose data go next into the aggregate: deficit round robin, with weights in bytes.
//!
//! Shreedhar and Varghese, "Efficient Fair Queuing Using Deficit Round-Robin", SIGCOMM'95;
//! 003-spec section 2.9. What is backlogged all the time gets shares as its weights are; what has
//! the weight 0 is held until it has another (003-spec section 6). A turn costs the same however
//! many flows there are.

use std::collections::{HashMap, VecDeque};

use crate::frame::Uid;

/// What a weight of 1 may send in a turn at least, in bytes, headers included: a TCP segment's
/// worth.
pub const QUANTUM_MIN: usize = 1_448;
/// What all who wait send in a round, at weights of 1, where that is more than the least: what the
/// aggregate carries in so many seconds, within bounds. A turn costs the same however large it is,
/// and whoever comes waits for a round.
const ROUND_S: f64 = 2e-3;
const ROUND_MIN: usize = 64 << 10;
const ROUND_MAX: usize = 4 << 20;
/// One sends a part of it at a time at most, where few wait.
const PARTS: usize = 4;
/// The largest weight.
pub const WEIGHT_MAX: u32 = 1_000;

#[derive(Debug)]
struct Turn {
    weight: u32,
    /// What it may still send, in bytes; what it sent too much is taken from its next turn.
    deficit: i64,
    /// Whether it has something to send.
    is_waiting: bool,
    /// Whether it is among those that take turns.
    is_queued: bool,
}

/// The flows that have something to send, in the order of their turns.
#[derive(Debug)]
pub struct Turns {
    flows: HashMap<Uid, Turn>,
    /// The flow in front has its turn.
    waiting: VecDeque<Uid>,
    /// Whether the one in front has had what its turn gives.
    is_begun: bool,
    round: usize,
}

impl Default for Turns {
    fn default() -> Self {
        let (flows, waiting) = (HashMap::new(), VecDeque::new());
        Self { flows, waiting, is_begun: false, round: ROUND_MIN }
    }
}

impl Turns {
    /// Knows a flow from now on, with nothing to send.
    pub fn add(&mut self, uid: Uid, weight: u32) {
        let weight = weight.min(WEIGHT_MAX);
        self.flows.insert(uid, Turn { weight, deficit: 0, is_waiting: false, is_queued: false });
    }

    /// Forgets a flow.
    pub fn remove(&mut self, uid: Uid) {
        if self.flows.remove(&uid).is_some_and(|turn| turn.is_queued) {
            self.leave(uid);
        }
    }

    /// Gives a flow another weight, from its next turn on; at 0 its turns are over until it has
    /// another. Whether the flow is known.
    pub fn set_weight(&mut self, uid: Uid, weight: u32) -> bool {
        let Some(turn) = self.flows.get_mut(&uid) else { return false };
        turn.weight = weight.min(WEIGHT_MAX);
        if turn.weight == 0 && turn.is_queued {
            turn.is_queued = false;
            turn.deficit = turn.deficit.min(0);
            self.leave(uid);
        } else {
            self.queue(uid);
        }
        true
    }

    /// What the aggregate carries now, in bytes per second; 0 until something is said.
    pub fn set_rate(&mut self, bytes_per_s: f64) {
        self.round = ((bytes_per_s * ROUND_S) as usize).clamp(ROUND_MIN, ROUND_MAX);
    }

    /// The flow has something to send: it waits for its turn, if it does not already.
    pub fn wake(&mut self, uid: Uid) {
        if let Some(turn) = self.flows.get_mut(&uid) {
            turn.is_waiting = true;
            self.queue(uid);
        }
    }

    /// Whether nobody has anything to send.
    pub fn is_empty(&self) -> bool {
        self.waiting.is_empty()
    }

    /// Whose turn it is and how much it may send, in bytes; none if nobody has anything.
    pub fn front(&mut self) -> Option<(Uid, usize)> {
        loop {
            let (uid, waiting) = (*self.waiting.front()?, self.waiting.len());
            let turn = self.flows.get_mut(&uid)?;
            if !self.is_begun {
                turn.deficit += i64::from(turn.weight) * quantum(self.round, waiting);
                self.is_begun = true;
            }
            if let Ok(bytes @ 1..) = usize::try_from(turn.deficit) {
                return Some((uid, bytes));
            }
            self.pass();
        }
    }

    /// The flow in front has sent so much, headers included, and has more.
    pub fn sent(&mut self, bytes: usize) {
        let Some(turn) = self.waiting.front().and_then(|uid| self.flows.get_mut(uid)) else {
            return;
        };
        turn.deficit -= i64::try_from(bytes).unwrap_or(i64::MAX);
        if turn.deficit <= 0 {
            self.pass();
        }
    }

    /// The flow in front has nothing to send any more; what its turn had left is lost.
    pub fn sleep(&mut self) {
        if let Some(turn) = self.waiting.pop_front().and_then(|uid| self.flows.get_mut(&uid)) {
            turn.is_waiting = false;
            turn.is_queued = false;
            turn.deficit = turn.deficit.min(0);
        }
        self.is_begun = false;
    }

    /// Whoever waits and is not held takes its place behind the others.
    fn queue(&mut self, uid: Uid) {
        let may = |turn: &&mut Turn| turn.is_waiting && turn.weight > 0 && !turn.is_queued;
        if let Some(turn) = self.flows.get_mut(&uid).filter(may) {
            turn.is_queued = true;
            self.waiting.push_back(uid);
        }
    }

    /// Its place is given up.
    fn leave(&mut self, uid: Uid) {
        if self.waiting.front() == Some(&uid) {
            self.is_begun = false;
        }
        self.waiting.retain(|other| *other != uid);
    }

    /// It is the next one's turn.
    fn pass(&mut self) {
        self.waiting.rotate_left(1);
        self.is_begun = false;
    }
}

fn quantum(round: usize, waiting: usize) -> i64 {
    i64::try_from((round / waiting).clamp(QUANTUM_MIN, round / PARTS)).unwrap_or(i64::MAX)
}
