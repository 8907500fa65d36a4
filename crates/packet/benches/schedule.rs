//! Which event queue is fastest: `cargo bench -p weir-packet --bench schedule`.
//!
//! The hold model: the earliest object runs and schedules itself again, after the time that a
//! packet of 1500 B takes at 1 Gbit/s (links, 3 of 4 objects) or after 0.1 to 10 ms (timers).
//! Every queue runs the same sequence; nanoseconds per event, the least of five interleaved runs.

#![allow(clippy::print_stdout, reason = "a benchmark prints its result")]

use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap};
use std::time::Instant;

use weir_packet::Schedule;
use weir_queue::Random;
use weir_units::Time;

trait Queue {
    fn set(&mut self, object: usize, time: u64);
    /// Takes the earliest.
    fn run(&mut self) -> (u64, usize);
}

/// What the simulator uses.
impl Queue for Schedule {
    fn set(&mut self, object: usize, time: u64) {
        self.set(object, Time::from_ns(time));
    }
    fn run(&mut self) -> (u64, usize) {
        let (time, object) = self.pop().expect("objects go on for ever");
        (time.as_ns(), object)
    }
}

impl Queue for Heap4 {
    fn set(&mut self, object: usize, time: u64) {
        self.set(object, Time::from_ns(time));
    }
    fn run(&mut self) -> (u64, usize) {
        // It stays at the top until it is set again: one walk through the heap, not two.
        let (time, object) = self.first().expect("objects go on for ever");
        (time.as_ns(), object)
    }
}

/// The standard library's binary heap.
#[derive(Default)]
struct Binary(BinaryHeap<Reverse<(u64, u64, usize)>>, u64);

impl Queue for Binary {
    fn set(&mut self, object: usize, time: u64) {
        self.1 += 1;
        self.0.push(Reverse((time, self.1, object)));
    }
    fn run(&mut self) -> (u64, usize) {
        let Reverse((time, _, object)) = self.0.pop().expect("objects go on for ever");
        (time, object)
    }
}

/// A sorted map, as htsim and ns-3 (its default scheduler) have it.
#[derive(Default)]
struct Map(BTreeMap<(u64, u64), usize>, u64);

impl Queue for Map {
    fn set(&mut self, object: usize, time: u64) {
        self.1 += 1;
        self.0.insert((time, self.1), object);
    }
    fn run(&mut self) -> (u64, usize) {
        let ((time, _), object) = self.0.pop_first().expect("objects go on for ever");
        (time, object)
    }
}

const EVENTS: usize = 2_000_000;

/// Nanoseconds per event, and a check sum of the order of events.
fn hold(queue: &mut dyn Queue, objects: usize, spans: &[u64]) -> (f64, u64) {
    for object in 0..objects {
        queue.set(object, spans[object] % 1_000_000);
    }
    let start = Instant::now();
    let mut sum = 0u64;
    for event in 0..EVENTS {
        let (now, object) = queue.run();
        sum = sum.wrapping_mul(31).wrapping_add(now ^ object as u64);
        let span = if object % 4 == 0 { spans[event] } else { 12_000 };
        queue.set(object, now + span);
    }
    (start.elapsed().as_nanos() as f64 / EVENTS as f64, sum)
}

fn main() {
    let mut random = Random::of_source(1, &["schedule"]);
    let spans: Vec<u64> = (0..EVENTS).map(|_| 100_000 + random.up_to(9_900_000)).collect();
    println!("objects  timing wheel  indexed 4-ary heap  binary heap  sorted map");
    for objects in [80, 1_000, 10_000, 100_000] {
        let mut least = [f64::MAX; 4];
        for _ in 0..5 {
            let mut queues: [Box<dyn Queue>; 4] = [
                Box::new(Schedule::new(objects)),
                Box::new(Heap4::new(objects)),
                Box::new(Binary::default()),
                Box::new(Map::default()),
            ];
            let runs: Vec<(f64, u64)> =
                queues.iter_mut().map(|queue| hold(&mut **queue, objects, &spans)).collect();
            assert!(runs.iter().all(|run| run.1 == runs[0].1), "the queues disagree on the order");
            for (least, run) in least.iter_mut().zip(&runs) {
                *least = least.min(run.0);
            }
        }
        let [wheel, indexed, binary, map] = least;
        println!("{objects:7}  {wheel:12.1}  {indexed:18.1}  {binary:11.1}  {map:10.1}");
    }
}

const ARITY: usize = 4;
const OBJECT_BITS: u32 = 24;
/// Most objects that one schedule tells apart.
const OBJECTS_MAX: usize = 1 << OBJECT_BITS;
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
struct Heap4 {
    heap: Vec<Key>,
    /// Where each object stands in `heap`.
    position: Vec<u32>,
    /// Grows with every scheduling; 40 bits last for 10^12 of them.
    sequence: u64,
}

impl Heap4 {
    /// Nothing is scheduled of `objects` objects, numbered from 0.
    ///
    /// # Panics
    /// More than [`OBJECTS_MAX`] objects.
    fn new(objects: usize) -> Self {
        assert!(objects <= OBJECTS_MAX, "a schedule has at most {OBJECTS_MAX} objects");
        Self { heap: Vec::new(), position: vec![ABSENT; objects], sequence: 0 }
    }

    /// The earliest event: when, and of which object. It stays until [`set`](Self::set) or
    /// [`clear`](Self::clear) moves that object, so that an object which runs and goes on costs
    /// one walk through the heap, not two.
    fn first(&self) -> Option<(Time, usize)> {
        self.heap.first().map(|&key| (time_of(key), object_of(key)))
    }

    /// Schedules `object` at `time`, instead of whenever it was due.
    fn set(&mut self, object: usize, time: Time) {
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
