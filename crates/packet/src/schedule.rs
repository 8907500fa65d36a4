//! What happens next: every object of the simulation has at most one pending event.
//!
//! A link, an endpoint or an application schedules itself, by its number; to schedule it again
//! moves its one event. What holds the events is a timing wheel of 4096 buckets of 2^10 ns, the
//! current one sorted, the far future in a heap: 10 to 25 ns an event for 80 to 10^5 objects, where
//! an indexed 4-ary heap took 32 to 127, a binary heap 50 to 142 and a sorted map 28 to 101
//! (`benches/schedule.rs`). An entry that its object has outgrown is not searched for: it is passed
//! over when its time comes. A timer that keeps moving later (a retransmission timeout, at each
//! acknowledgement) therefore costs nothing until its old time, and one that alternates between
//! near and far (pacing and timeout) keeps its far entry.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use weir_units::Time;

const OBJECT_BITS: u32 = 24;
/// Most objects that one schedule tells apart.
pub const OBJECTS_MAX: usize = 1 << OBJECT_BITS;
/// Length of a bucket: as long as a packet of 1500 B takes at 12 Gbit/s.
const BUCKET_BITS: u32 = 10;
const BUCKETS: u64 = 4096;
const WORD: u64 = 64;
const NEVER: u64 = u64::MAX;

/// An instant, then the order of scheduling, then the object: one number, compared at once.
type Key = u128;

fn time_of(key: Key) -> u64 {
    (key >> 64) as u64
}

fn bucket_of(key: Key) -> u64 {
    time_of(key) >> BUCKET_BITS
}

/// When an object is due, and which entries stand for it.
#[derive(Clone, Copy, Debug)]
struct Due {
    wanted: u64,
    /// Instants of its entries, `near < far`; at least one is not after `wanted`.
    near: u64,
    far: u64,
}

/// An entry of a bucket and the next in it.
#[derive(Clone, Copy, Debug)]
struct Entry {
    key: Key,
    next: u32,
}

const END: u32 = u32::MAX;

const NOT_DUE: Due = Due { wanted: NEVER, near: NEVER, far: NEVER };

/// Objects by (instant, order of scheduling): of two events at one instant the one that was put
/// there first comes first.
#[derive(Debug)]
pub struct Schedule {
    due: Vec<Due>,
    /// The current bucket and what is before it, latest first.
    current: Vec<Key>,
    /// Number of the current bucket, counted from time zero.
    turn: u64,
    /// First entries of buckets `turn + 1` to `turn + BUCKETS - 1`, unsorted.
    buckets: Box<[u32; BUCKETS as usize]>,
    /// Entries of all buckets. Few live at a time and their places are used again at once, so that
    /// they stay in the cache, as vectors of their own would not.
    entries: Vec<Entry>,
    /// The first place that is free.
    free: u32,
    /// A bit for each bucket that holds something.
    occupied: [u64; (BUCKETS / WORD) as usize],
    /// Beyond the buckets.
    beyond: BinaryHeap<Reverse<Key>>,
    /// Grows with every entry; 40 bits last for 10^12 of them.
    sequence: u64,
}

impl Schedule {
    /// A schedule for `objects` objects, numbered from 0, without any event.
    pub fn new(objects: usize) -> Self {
        Self {
            due: vec![NOT_DUE; objects],
            current: Vec::new(),
            turn: 0,
            buckets: Box::new([END; BUCKETS as usize]),
            entries: Vec::new(),
            free: END,
            occupied: [0; (BUCKETS / WORD) as usize],
            beyond: BinaryHeap::new(),
            sequence: 0,
        }
    }

    /// One object more; returns its number. [`OBJECTS_MAX`] is the caller's to respect.
    pub fn add(&mut self) -> usize {
        debug_assert!(self.due.len() < OBJECTS_MAX, "numbers have {OBJECT_BITS} bits");
        self.due.push(NOT_DUE);
        self.due.len() - 1
    }

    /// Takes the earliest event: when, and of which object, which is not scheduled any more then.
    pub fn pop(&mut self) -> Option<(Time, usize)> {
        self.pop_by(Time::MAX)
    }

    /// The same of events up to `limit`.
    #[inline]
    pub(crate) fn pop_by(&mut self, limit: Time) -> Option<(Time, usize)> {
        loop {
            let Some(&key) = self.current.last() else {
                self.turn()?;
                continue;
            };
            if time_of(key) > limit.as_ns() {
                return None;
            }
            self.current.pop();
            let (time, object) = (time_of(key), key as usize & (OBJECTS_MAX - 1));
            let due = &mut self.due[object];
            if due.near == time {
                due.near = NEVER;
            } else if due.far == time {
                due.far = NEVER;
            } else {
                continue;
            }
            if due.wanted == time {
                due.wanted = NEVER;
                return Some((Time::from_ns(time), object));
            }
            let wanted = due.wanted;
            if wanted != NEVER {
                self.enter(object, wanted);
            }
        }
    }

    /// Schedules `object` at `time`, instead of whenever it was due. `time` is not before that of
    /// the event popped last.
    #[inline]
    pub fn set(&mut self, object: usize, time: Time) {
        self.due[object].wanted = time.as_ns();
        self.enter(object, time.as_ns());
    }

    /// Schedules `object` at `time` unless it is due by then: for those who may be woken too early
    /// but never too late.
    #[inline]
    pub fn set_by(&mut self, object: usize, time: Time) {
        if time.as_ns() < self.due[object].wanted {
            self.set(object, time);
        }
    }

    /// [`set`](Self::set) or, without a time, takes `object` out.
    #[inline]
    pub fn rearm(&mut self, object: usize, time: Option<Time>) {
        match time {
            Some(time) => self.set(object, time),
            None => self.due[object].wanted = NEVER,
        }
    }

    /// Makes sure that an entry of `object` comes up by `time`.
    #[inline]
    fn enter(&mut self, object: usize, time: u64) {
        let due = &mut self.due[object];
        if due.near <= time || due.far <= time {
            return;
        }
        if due.far == NEVER {
            due.far = time;
        } else {
            due.near = time;
        }
        self.sequence += 1;
        let low = (self.sequence << OBJECT_BITS) | object as u64;
        self.put((Key::from(time) << 64) | Key::from(low));
    }

    fn put(&mut self, key: Key) {
        let bucket = bucket_of(key);
        if bucket <= self.turn {
            let at = self.current.partition_point(|other| *other > key);
            self.current.insert(at, key);
        } else if bucket < self.turn + BUCKETS {
            let index = bucket % BUCKETS;
            let entry = Entry { key, next: self.buckets[index as usize] };
            self.buckets[index as usize] = self.keep(entry);
            self.occupied[(index / WORD) as usize] |= 1 << (index % WORD);
        } else {
            self.beyond.push(Reverse(key));
        }
    }

    fn keep(&mut self, entry: Entry) -> u32 {
        if self.free == END {
            self.entries.push(entry);
            return (self.entries.len() - 1) as u32;
        }
        let at = self.free;
        let place = &mut self.entries[at as usize];
        self.free = place.next;
        *place = entry;
        at
    }

    /// Goes on to the next bucket that holds something; `None` if none does.
    fn turn(&mut self) -> Option<()> {
        let beyond = self.first_beyond();
        let next = self.next_occupied().min(beyond);
        if next == NEVER {
            return None;
        }
        self.turn = next;
        let index = next % BUCKETS;
        self.occupied[(index / WORD) as usize] &= !(1 << (index % WORD));
        let mut at = std::mem::replace(&mut self.buckets[index as usize], END);
        while at != END {
            let entry = &mut self.entries[at as usize];
            self.current.push(entry.key);
            (at, entry.next, self.free) = (entry.next, self.free, at);
        }
        if beyond < next + BUCKETS {
            self.draw_in();
        }
        self.current.sort_unstable_by(|a, b| b.cmp(a));
        Some(())
    }

    /// Brings what was beyond the buckets to its place.
    fn draw_in(&mut self) {
        while self.first_beyond() < self.turn + BUCKETS
            && let Some(Reverse(key)) = self.beyond.pop()
        {
            if bucket_of(key) == self.turn {
                self.current.push(key);
            } else {
                self.put(key);
            }
        }
    }

    /// The bucket of the first that lies beyond the buckets, [`NEVER`] if none does.
    fn first_beyond(&self) -> u64 {
        self.beyond.peek().map_or(NEVER, |Reverse(key)| bucket_of(*key))
    }

    /// The first bucket after the current one that holds something, [`NEVER`] if none does.
    fn next_occupied(&self) -> u64 {
        let words = self.occupied.len() as u64;
        let from = self.turn + 1;
        let first = from % BUCKETS;
        let rest = self.occupied[(first / WORD) as usize] >> (first % WORD);
        if rest != 0 {
            return from + u64::from(rest.trailing_zeros());
        }
        // The word of `first` comes again at the end, for what is before it.
        let mut passed = WORD - first % WORD;
        for step in 1..=words {
            let word = self.occupied[((first / WORD + step) % words) as usize];
            if word != 0 {
                return from + passed + u64::from(word.trailing_zeros());
            }
            passed += WORD;
        }
        NEVER
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn equal_instants_run_in_the_order_of_scheduling() {
        for at in [7, 5_000, 1 << 40] {
            let mut schedule = Schedule::new(6);
            for object in [3, 0, 5, 1, 4, 2] {
                schedule.set(object, Time::from_ns(at));
            }
            let order: Vec<usize> = std::iter::from_fn(|| schedule.pop()).map(|e| e.1).collect();
            assert_eq!(order, [3, 0, 5, 1, 4, 2]);
        }
    }

    #[test]
    fn a_timer_that_alternates_between_near_and_far_leaves_nothing_behind() {
        let mut schedule = Schedule::new(1);
        let (mut now, mut entries_max) = (0, 0);
        for _ in 0..10_000 {
            schedule.set(0, Time::from_ns(now + 200_000_000));
            schedule.set(0, Time::from_ns(now + 12_000));
            let (time, _) = schedule.pop().expect("it is due");
            assert_eq!(time.as_ns(), now + 12_000);
            now = time.as_ns();
            let entries = schedule.beyond.len() + schedule.entries.len();
            entries_max = entries_max.max(entries);
        }
        assert!(entries_max <= 2, "{entries_max} entries for one object");
    }

    #[derive(Clone, Debug)]
    enum Step {
        Set(usize, u64),
        SetBy(usize, u64),
        Clear(usize),
        Run,
    }

    fn step() -> impl Strategy<Value = Step> {
        let span = prop_oneof![0u64..4, 0u64..5_000, 0u64..10_000_000, 0u64..1 << 40];
        prop_oneof![
            2 => (0usize..20, span.clone()).prop_map(|(o, t)| Step::Set(o, t)),
            1 => (0usize..20, span).prop_map(|(o, t)| Step::SetBy(o, t)),
            1 => (0usize..20).prop_map(Step::Clear),
            3 => Just(Step::Run),
        ]
    }

    proptest! {
        /// The oracle is the list of who is due when.
        #[test]
        fn the_earliest_runs_and_nobody_is_forgotten(
            steps in prop::collection::vec(step(), 0..600),
        ) {
            let mut schedule = Schedule::new(20);
            let mut due = [u64::MAX; 20];
            let mut now = 0;
            for step in steps {
                match step {
                    Step::Set(object, span) => {
                        due[object] = now + span;
                        schedule.set(object, Time::from_ns(now + span));
                    }
                    Step::SetBy(object, span) => {
                        due[object] = due[object].min(now + span);
                        schedule.set_by(object, Time::from_ns(now + span));
                    }
                    Step::Clear(object) => {
                        due[object] = u64::MAX;
                        schedule.rearm(object, None);
                    }
                    Step::Run => {
                        let earliest = due.iter().copied().min().filter(|time| *time < u64::MAX);
                        let found = schedule.pop();
                        prop_assert_eq!(found.map(|f| f.0.as_ns()), earliest);
                        if let Some((time, object)) = found {
                            prop_assert_eq!(due[object], time.as_ns());
                            (now, due[object]) = (time.as_ns(), u64::MAX);
                        }
                    }
                }
            }
        }
    }
}
