//! Flows that share links fairly: who gets which rate, kept up to date event by event.
//!
//! # How it stays fast
//!
//! *Classes.* Flows on one route (and with one rate limit for each unit of weight) have the same
//! rate for each unit of weight. Such a class keeps a clock of the volume served for each unit of
//! weight; a flow ends when the clock has advanced by its size over its weight, a reading that
//! never changes after the flow's arrival.
//!
//! *Groups.* In a max-min allocation each class has a bottleneck, the link of the lowest *level*
//! on its route, and its rate is that level. All classes with one bottleneck form a group that
//! shares one clock: a change of the level changes all their rates at once. A class that changes
//! its bottleneck keeps its own clock by an offset to the group's.
//!
//! *Levels.* The level of a link depends only on lower levels: what its other flows take is fixed
//! by them. [`FairShare::settle`] repairs the levels that an event disturbed in rising order, each
//! at most a few times, and leaves all others alone (see `levels.rs`).

mod classes;
mod levels;
mod pairs;
mod priority;

use crate::heap::{Entry, Heap};
use classes::Classes;
use pairs::Pairs;
pub use priority::PriorityShare;

/// How a link's capacity is divided among the flows that cross it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Rule {
    /// Weighted max-min fairness: no flow can have more unless another, with no more for each
    /// unit of its weight, has less (Bertsekas and Gallager, Data Networks, section 6.5.2).
    #[default]
    MaxMin,
    /// Every link is split equally by weight among all flows that cross it, and a flow has the
    /// smallest of its shares; what it leaves unused elsewhere is not redistributed. The
    /// simplification of the headroom study (000-spec section 3.6.2, AMB-12).
    EqualSplit,
}

/// A flow as the sharing sees it.
#[derive(Clone, Copy, Debug)]
pub struct Start<'a> {
    /// The caller's name for it; comes back when it ends.
    pub flow: u32,
    /// The caller's name for its route.
    pub route: u32,
    /// The links of the route, each once; the same for every flow of one route.
    pub links: &'a [u32],
    /// Its share against others'; at least 1.
    pub weight: u32,
    /// What it may send at most, in bit/s; infinite when it has no limit.
    pub limit: f64,
    /// What it has to send, in bits.
    pub bits: f64,
}

/// A flow under way, as [`FairShare::flows`] shows it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Progress {
    /// The caller's name for it.
    pub flow: u32,
    /// Its rate in bit/s.
    pub rate: f64,
    /// What it has still to send, in bits.
    pub remaining: f64,
}

/// The flows of one priority class and how they share the links; time and volumes in seconds and
/// bits, as doubles.
///
/// Order of calls: any number of [`FairShare::start`] and [`FairShare::finish_due`] at one
/// instant, then [`FairShare::settle`] with the same instant. Rates, and the time of the next end,
/// are right after that. Time never goes back.
#[derive(Clone, Debug)]
pub struct FairShare {
    rule: Rule,
    /// How many links are the network's; those behind them are limits of single classes.
    link_count: usize,
    loads: Vec<Load>,
    groups: Vec<Group>,
    /// For each link, the rate for each unit of weight of the flows it holds back; infinite where
    /// it holds back none.
    levels: Vec<f64>,
    pairs: Pairs,
    classes: Classes,
    /// Limit links not in use.
    free_limits: Vec<u32>,
    /// Links whose level does not fit what crosses them, by the lowest level that is in doubt.
    doubtful: Heap,
    /// Groups with flows that will end, by when the first does.
    due: Heap,
    /// Groups whose entry in `due` is out of date, each once.
    changed: Vec<u32>,
    /// Classes on their way to another group; kept for its allocation.
    moving: Vec<(u32, u32)>,
    /// Links whose usage may have changed since somebody looked, each once; if somebody does.
    touched: Option<Vec<u32>>,
    /// Relative difference below which two levels are the same.
    tolerance: f64,
    /// Settlements that needed a coarser tolerance to end.
    coarse: u64,
}

/// What crosses a link. This is what a change elsewhere reads and writes: one cache line.
#[derive(Clone, Debug, Default)]
#[repr(align(64))]
struct Load {
    /// bit/s; for a limit link, its fixed level.
    capacity: f64,
    /// What counts as nothing beside the capacity that it began with: the rounding of a sum.
    grain: f64,
    /// Sum of the weights of the classes it holds back.
    members: f64,
    /// Rate that all other classes take on it.
    others: f64,
    /// Sum of the weights of all classes that cross it.
    crossing: f64,
    /// Times that `others` was changed since it was last summed up.
    changes: u32,
    /// Whether it is the limit of one class, its level fixed.
    fixed: bool,
    /// Whether it is in `touched`.
    is_touched: bool,
}

/// The classes that a link holds back, and their clock.
#[derive(Clone, Debug, Default)]
struct Group {
    /// Volume served for each unit of weight up to `since`.
    clock: f64,
    since: f64,
    /// The classes, by the reading of the clock at which their first flow ends.
    held: Vec<Entry>,
    /// Whether it is in `changed`.
    is_changed: bool,
}

impl Load {
    /// What is left of the capacity when `taken` is taken.
    fn left(&self, taken: f64) -> f64 {
        let left = self.capacity - taken;
        if left < self.grain { 0.0 } else { left }
    }
}

/// Ends less than this apart are one event: half the unit in which time is reported.
const HALF_NS: f64 = 0.5e-9;

impl FairShare {
    /// Links of these capacities in bit/s, none of them in use, for routes of at most `longest`
    /// links.
    pub fn new(capacities: &[f64], longest: usize, rule: Rule) -> Self {
        let load = |capacity: &f64| Load {
            capacity: *capacity,
            grain: capacity * levels::TOLERANCE,
            ..Load::default()
        };
        let mut share = Self {
            rule,
            link_count: capacities.len(),
            loads: capacities.iter().map(load).collect(),
            groups: vec![Group::default(); capacities.len()],
            levels: vec![f64::INFINITY; capacities.len()],
            pairs: Pairs::default(),
            classes: Classes::new(longest),
            free_limits: Vec::new(),
            doubtful: Heap::for_ids(capacities.len()),
            due: Heap::for_ids(capacities.len()),
            changed: Vec::new(),
            moving: Vec::new(),
            touched: None,
            tolerance: levels::TOLERANCE,
            coarse: 0,
        };
        share.pairs.grow(capacities.len());
        share
    }

    /// A flow begins.
    pub fn start(&mut self, now: f64, start: Start<'_>) {
        let weight = f64::from(start.weight);
        let volume = start.bits / weight;
        let class = match self.classes.of_route(start.route) {
            Some(class) if start.limit.is_infinite() => class,
            _ => {
                let class = self.new_class(&start);
                self.classes.push(class, volume, start.flow, start.weight);
                self.classes[class].weight = weight;
                self.hold(now, class);
                return;
            }
        };
        let group = self.classes[class].group;
        self.advance(group, now);
        let clock = self.groups[group as usize].clock + self.classes[class].offset;
        self.classes.push(class, clock + volume, start.flow, start.weight);
        self.reweigh(class, weight);
        self.requeue(class);
    }

    /// When the first of the flows under way will end; infinite if none will.
    pub fn next_due(&self) -> f64 {
        self.due.first().map_or(f64::INFINITY, |(at, _)| at)
    }

    /// Ends the flows that are due at `now` (within half a nanosecond) and adds their names to
    /// `ended`.
    pub fn finish_due(&mut self, now: f64, ended: &mut Vec<u32>) {
        while let Some((at, group)) = self.due.first() {
            if at > now + HALF_NS {
                break;
            }
            self.advance(group, now);
            let mut reading = self.groups[group as usize].held[0].0;
            reading = reading.max(self.groups[group as usize].clock);
            reading += self.levels[group as usize] * HALF_NS;
            while let Some(&(first, class)) = self.groups[group as usize].held.first() {
                if first > reading {
                    break;
                }
                self.end_flows(class, reading, ended);
            }
            self.due.remove(group);
            self.mark(group);
        }
    }

    /// Every flow under way, class by class, at `now`; right after [`FairShare::settle`].
    pub fn flows(&self, now: f64) -> impl Iterator<Item = Progress> + '_ {
        self.classes.iter().flat_map(move |class| {
            let group = &self.groups[class.group as usize];
            let level = self.levels[class.group as usize];
            let clock = group.clock + level * (now - group.since) + class.offset;
            class.flows().map(move |(end, flow, weight)| Progress {
                flow,
                rate: level * f64::from(weight),
                remaining: (end - clock).max(0.0) * f64::from(weight),
            })
        })
    }

    /// What the flows take of each link, in bit/s.
    pub fn usage(&self, link: usize) -> f64 {
        let load = &self.loads[link];
        let held = if load.members > 0.0 { load.members * self.levels[link] } else { 0.0 };
        load.others + held
    }

    /// The link has another capacity from now on.
    pub(crate) fn set_capacity(&mut self, link: u32, capacity: f64) {
        self.loads[link as usize].capacity = capacity;
        self.touch(link);
    }

    /// How often levels had to be computed with a tolerance coarser than 1e-12 for the repair to
    /// end; zero in every run seen so far.
    pub fn coarse_settlements(&self) -> u64 {
        self.coarse
    }

    /// Brings a group's clock to `now`.
    fn advance(&mut self, group: u32, now: f64) {
        let level = self.levels[group as usize];
        let group = &mut self.groups[group as usize];
        if !group.held.is_empty() {
            group.clock += level * (now - group.since);
        }
        group.since = now;
    }

    /// Ends the flows of `class` whose end is not after `reading` of its group's clock.
    fn end_flows(&mut self, class: u32, reading: f64, ended: &mut Vec<u32>) {
        let until = reading + self.classes[class].offset;
        let gone = self.classes.pop_until(class, until, ended);
        if self.classes[class].is_empty() {
            self.release(class);
        } else {
            self.reweigh(class, -gone);
            self.requeue(class);
        }
    }

    /// A class without flows yet, for those like `start`.
    fn new_class(&mut self, start: &Start<'_>) -> u32 {
        if start.limit.is_infinite() {
            return self.classes.add(Some(start.route), start.links, None);
        }
        // A limit binds one flow alone, so that flow is a class of its own.
        let limit = self.limit_link(start.limit / f64::from(start.weight));
        self.classes.add(None, start.links, Some(limit))
    }

    /// A link that only fixes a level.
    fn limit_link(&mut self, level: f64) -> u32 {
        let link = self.free_limits.pop().unwrap_or_else(|| {
            let link = self.groups.len();
            self.loads.push(Load::default());
            self.groups.push(Group::default());
            self.levels.push(level);
            self.pairs.grow(link + 1);
            self.doubtful.grow(link + 1);
            self.due.grow(link + 1);
            link as u32
        });
        self.levels[link as usize] = level;
        let load = &mut self.loads[link as usize];
        load.capacity = level;
        load.fixed = true;
        link
    }
}
