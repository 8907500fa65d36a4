//! What happens next: every object of the simulation has at most one pending event.
//!
//! A link, an endpoint or an application schedules itself, by its number; to schedule it again
//! moves its one event. So the heap holds as many entries as there are objects awake, however many
//! packets are under way (those wait inside their link), and nothing in it is ever stale.

use weir_units::Time;

/// Children of a node of the heap: four keys of 16 bytes are one cache line.
const ARITY: usize = 4;
const OBJECT_BITS: u32 = 24;
/// Most objects that one schedule tells apart.
pub const OBJECTS_MAX: usize = 1 << OBJECT_BITS;
const ABSENT: u32 = u32::MAX;

/// An instant, then the order of scheduling, then the object: one number, compared at once.
type Key = u128;

fn object_of(key: Key) -> usize {
    (key as usize) & (OBJECTS_MAX - 1)
}

fn time_of(key: Key) -> Time {
    Time::from_ns((key >> 64) as u64)
}

/// A 4-ary min-heap of objects by (instant, order of scheduling): of two events at one instant the
/// one that was scheduled first comes first.
#[derive(Debug, Default)]
pub struct Schedule {
    heap: Vec<Key>,
    /// Where each object stands in `heap`.
    position: Vec<u32>,
    /// Grows with every scheduling; 40 bits last for 10^12 of them.
    sequence: u64,
}

impl Schedule {
    /// Nothing is scheduled of `objects` objects, numbered from 0.
    ///
    /// # Panics
    /// More than [`OBJECTS_MAX`] objects.
    pub fn new(objects: usize) -> Self {
        assert!(objects <= OBJECTS_MAX, "a schedule has at most {OBJECTS_MAX} objects");
        Self { heap: Vec::new(), position: vec![ABSENT; objects], sequence: 0 }
    }

    /// The earliest event: when, and of which object. It stays until [`set`](Self::set) or
    /// [`clear`](Self::clear) moves that object, so that an object which runs and goes on costs
    /// one walk through the heap, not two.
    pub fn first(&self) -> Option<(Time, usize)> {
        self.heap.first().map(|&key| (time_of(key), object_of(key)))
    }

    /// When `object` is due, if it is.
    pub fn of(&self, object: usize) -> Option<Time> {
        let at = self.position[object];
        (at != ABSENT).then(|| time_of(self.heap[at as usize]))
    }

    /// Schedules `object` at `time`, instead of whenever it was due.
    pub fn set(&mut self, object: usize, time: Time) {
        let key = self.key(object, time);
        match self.position[object] {
            ABSENT => {
                self.heap.push(key);
                self.sift_up(self.heap.len() - 1, key);
            }
            // A later sequence makes the key larger even at the same instant.
            at if key > self.heap[at as usize] => self.sift_down(at as usize, key),
            at => self.sift_up(at as usize, key),
        }
    }

    /// Schedules `object` at `time` unless it is due by then: for those who may be woken too early
    /// but never too late.
    pub fn set_by(&mut self, object: usize, time: Time) {
        let at = self.position[object];
        if at == ABSENT {
            self.set(object, time);
        } else if time < time_of(self.heap[at as usize]) {
            let key = self.key(object, time);
            self.sift_up(at as usize, key);
        }
    }

    /// [`set`](Self::set) or, without a time, takes `object` out.
    pub fn rearm(&mut self, object: usize, time: Option<Time>) {
        match time {
            Some(time) => self.set(object, time),
            None => self.clear(object),
        }
    }

    /// Takes `object` out, if it is there.
    pub fn clear(&mut self, object: usize) {
        let at = std::mem::replace(&mut self.position[object], ABSENT);
        if at == ABSENT {
            return;
        }
        let at = at as usize;
        let Some(last) = self.heap.pop() else { return };
        if at == self.heap.len() {
            return;
        }
        if at > 0 && last < self.heap[(at - 1) / ARITY] {
            self.sift_up(at, last);
        } else {
            self.sift_down(at, last);
        }
    }

    fn key(&mut self, object: usize, time: Time) -> Key {
        self.sequence += 1;
        let low = (self.sequence << OBJECT_BITS) | object as u64;
        (Key::from(time.as_ns()) << 64) | Key::from(low)
    }

    fn place(&mut self, at: usize, key: Key) {
        self.heap[at] = key;
        self.position[object_of(key)] = at as u32;
    }

    fn sift_up(&mut self, mut at: usize, key: Key) {
        while at > 0 {
            let parent = (at - 1) / ARITY;
            if key > self.heap[parent] {
                break;
            }
            self.place(at, self.heap[parent]);
            at = parent;
        }
        self.place(at, key);
    }

    fn sift_down(&mut self, mut at: usize, key: Key) {
        loop {
            let first = at * ARITY + 1;
            let children = &self.heap[first.min(self.heap.len())..];
            let children = &children[..children.len().min(ARITY)];
            let Some((&least, index)) = children.iter().zip(first..).min_by_key(|child| child.0)
            else {
                break;
            };
            if least > key {
                break;
            }
            self.place(at, least);
            at = index;
        }
        self.place(at, key);
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use proptest::prelude::*;

    use super::*;

    #[test]
    fn equal_instants_run_in_the_order_of_scheduling() {
        let mut schedule = Schedule::new(6);
        for object in [3, 0, 5, 1, 4, 2] {
            schedule.set(object, Time::from_ns(7));
        }
        schedule.set(0, Time::from_ns(7)); // again: behind the others now
        let mut order = Vec::new();
        while let Some((_, object)) = schedule.first() {
            order.push(object);
            schedule.clear(object);
        }
        assert_eq!(order, [3, 5, 1, 4, 2, 0]);
    }

    #[derive(Clone, Debug)]
    enum Step {
        Set(usize, u64),
        SetBy(usize, u64),
        Clear(usize),
        Run,
    }

    fn step() -> impl Strategy<Value = Step> {
        prop_oneof![
            (0usize..40, 0u64..50).prop_map(|(o, t)| Step::Set(o, t)),
            (0usize..40, 0u64..50).prop_map(|(o, t)| Step::SetBy(o, t)),
            (0usize..40).prop_map(Step::Clear),
            Just(Step::Run),
        ]
    }

    proptest! {
        /// The oracle is a sorted map from (instant, sequence) to object.
        #[test]
        fn it_is_a_sorted_map(steps in prop::collection::vec(step(), 0..400)) {
            let mut schedule = Schedule::new(40);
            let mut map: BTreeMap<(u64, u64), usize> = BTreeMap::new();
            for (number, step) in (0u64..).zip(steps) {
                let of = |map: &BTreeMap<(u64, u64), usize>, object| {
                    map.iter().find(|(_, o)| **o == object).map(|(key, _)| *key)
                };
                match step {
                    Step::Set(object, time) => {
                        map.retain(|_, o| *o != object);
                        map.insert((time, number), object);
                        schedule.set(object, Time::from_ns(time));
                    }
                    Step::SetBy(object, time) => {
                        if of(&map, object).is_none_or(|(due, _)| time < due) {
                            map.retain(|_, o| *o != object);
                            map.insert((time, number), object);
                        }
                        schedule.set_by(object, Time::from_ns(time));
                    }
                    Step::Clear(object) => {
                        map.retain(|_, o| *o != object);
                        schedule.clear(object);
                    }
                    Step::Run => {
                        if let Some((_, object)) = map.pop_first() {
                            prop_assert_eq!(schedule.first().map(|f| f.1), Some(object));
                            schedule.clear(object);
                        }
                    }
                }
                let first = map.first_key_value().map(|(key, o)| (Time::from_ns(key.0), *o));
                prop_assert_eq!(schedule.first(), first);
            }
        }
    }
}
