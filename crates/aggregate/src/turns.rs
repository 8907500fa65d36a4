//! Whose data go next into the aggregate: by what each has sent for its weight, in bytes.
//!
//! Who has sent least for its weight is next, which is start-time fair queueing (Goyal, Vin and
//! Cheng, SIGCOMM'96); 003-spec section 2.9 asks for weighted round robin. In turns of rounds, one
//! after another, a large weight sends all that it has of a round at once, and rounds are as long
//! as weights are large: seconds on a slow aggregate. Here turns of large weights lie between
//! those of others, so that shares are kept to a turn at any time. What is backlogged gets shares
//! as its weights are; what has the weight 0 is held until it has another (003-spec section 6). A
//! turn costs the logarithm of how many wait.

use std::cmp::{Ordering, Reverse};
use std::collections::{BinaryHeap, HashMap};

use crate::frame::Uid;

/// What turns are multiples of, in bytes, headers included: a TCP segment's worth. What is not a
/// whole one is acknowledged late.
pub const QUANTUM_MIN: usize = 1_448;
/// What all who wait send in a round, whatever their weights are, where that is more than a segment
/// for each: what the aggregate carries in so many seconds, within bounds. A turn costs the same
/// however large it is, and whoever comes waits for the turns of others.
const ROUND_S: f64 = 2e-3;
const ROUND_MIN: usize = 64 << 10;
const ROUND_MAX: usize = 4 << 20;
/// A weight of 1 has a part of it in a turn at most, where few wait.
const PARTS: u64 = 4;
/// So many places that were given up are kept, beside as many as wait.
const GIVEN_UP: usize = 64;
/// The largest weight.
pub const WEIGHT_MAX: u32 = 10_000;

#[derive(Debug)]
struct Turn {
    weight: u32,
    /// Up to where it has sent, in bytes for a weight of 1.
    sent: f64,
    /// Whether it has something to send.
    is_waiting: bool,
    /// Its place among those that take turns; none where it is not among them.
    place: Option<u64>,
}

/// A place among those that wait: who has sent least for its weight is first, then who came first.
#[derive(Debug)]
struct Place {
    sent: f64,
    number: u64,
    uid: Uid,
}

impl PartialEq for Place {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other).is_eq()
    }
}

impl Eq for Place {}

impl PartialOrd for Place {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Place {
    fn cmp(&self, other: &Self) -> Ordering {
        self.sent.total_cmp(&other.sent).then(self.number.cmp(&other.number))
    }
}

/// The flows that have something to send, in the order of their turns.
#[derive(Debug)]
pub struct Turns {
    flows: HashMap<Uid, Turn>,
    /// Places of those that wait, and some that have been given up.
    waiting: BinaryHeap<Reverse<Place>>,
    /// How many wait, and their weights together.
    count: usize,
    total: u64,
    /// Whose turn it is, and what is left of it in bytes.
    turn: Option<(Uid, usize)>,
    /// Up to where who has its turn had sent when that began.
    now: f64,
    places: u64,
    round: usize,
}

impl Default for Turns {
    fn default() -> Self {
        let (flows, waiting) = (HashMap::new(), BinaryHeap::new());
        let (count, total, turn) = (0, 0, None);
        Self { flows, waiting, count, total, turn, now: 0.0, places: 0, round: ROUND_MIN }
    }
}

impl Turns {
    /// Knows a flow from now on, with nothing to send.
    pub fn add(&mut self, uid: Uid, weight: u32) {
        self.remove(uid);
        let weight = weight.min(WEIGHT_MAX);
        self.flows.insert(uid, Turn { weight, sent: self.now, is_waiting: false, place: None });
    }

    /// Forgets a flow.
    pub fn remove(&mut self, uid: Uid) {
        self.leave(uid);
        self.flows.remove(&uid);
    }

    /// Gives a flow another weight, from its next turn on; at 0 its turns are over until it has
    /// another. Whether the flow is known.
    pub fn set_weight(&mut self, uid: Uid, weight: u32) -> bool {
        let Some(turn) = self.flows.get_mut(&uid) else { return false };
        let before = std::mem::replace(&mut turn.weight, weight.min(WEIGHT_MAX));
        if turn.place.is_some() {
            self.total = self.total - u64::from(before) + u64::from(turn.weight);
        }
        if turn.weight == 0 {
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
        self.count == 0
    }

    /// Whose turn it is and how much it may send, in bytes; none if nobody has anything.
    pub fn front(&mut self) -> Option<(Uid, usize)> {
        while self.turn.is_none() {
            let Reverse(place) = self.waiting.pop()?;
            let Some(turn) = self.flows.get(&place.uid) else { continue };
            if turn.place == Some(place.number) {
                self.now = turn.sent;
                let bytes = f64::from(turn.weight) * self.quantum();
                let segments = (bytes / QUANTUM_MIN as f64).ceil() as usize;
                self.turn = Some((place.uid, segments * QUANTUM_MIN));
            }
        }
        self.turn
    }

    /// The flow in front has sent so much, headers included, and has more.
    pub fn sent(&mut self, bytes: usize) {
        let Some((uid, left)) = self.turn else { return };
        let Some(turn) = self.flows.get_mut(&uid) else { return };
        turn.sent += bytes as f64 / f64::from(turn.weight.max(1));
        self.turn = Some((uid, left.saturating_sub(bytes)));
        if left <= bytes {
            self.turn = None;
            self.stand(uid);
        }
    }

    /// The flow in front has nothing to send any more. It has lost nothing by that if it wakes
    /// within a round: a sender whose window was closed is late by a moment, and is to have its
    /// share all the same.
    pub fn sleep(&mut self) {
        let Some((uid, _)) = self.turn else { return };
        if let Some(turn) = self.flows.get_mut(&uid) {
            turn.is_waiting = false;
        }
        self.leave(uid);
    }

    /// Whoever waits and is not held takes its place among the others.
    fn queue(&mut self, uid: Uid) {
        let (now, quantum) = (self.now, self.quantum());
        let may = |turn: &&mut Turn| turn.is_waiting && turn.weight > 0 && turn.place.is_none();
        let Some(turn) = self.flows.get_mut(&uid).filter(may) else { return };
        if turn.sent + quantum < now {
            turn.sent = now;
        }
        self.count += 1;
        self.total += u64::from(turn.weight);
        self.stand(uid);
    }

    /// Takes the place that is its own by what it has sent.
    fn stand(&mut self, uid: Uid) {
        let Some(turn) = self.flows.get_mut(&uid) else { return };
        self.places += 1;
        turn.place = Some(self.places);
        self.waiting.push(Reverse(Place { sent: turn.sent, number: self.places, uid }));
    }

    /// Its place is given up.
    fn leave(&mut self, uid: Uid) {
        let Some(turn) = self.flows.get_mut(&uid) else { return };
        if turn.place.take().is_some() {
            self.count -= 1;
            self.total -= u64::from(turn.weight);
        }
        self.turn = self.turn.filter(|&(other, _)| other != uid);
        if self.waiting.len() > 2 * self.count + GIVEN_UP {
            let flows = &self.flows;
            self.waiting.retain(|Reverse(place)| {
                flows.get(&place.uid).is_some_and(|turn| turn.place == Some(place.number))
            });
        }
    }

    /// What a weight of 1 gives in a round, in bytes.
    fn quantum(&self) -> f64 {
        self.round.max(QUANTUM_MIN * self.count) as f64 / self.total.max(PARTS) as f64
    }
}
