//! Classes: flows of one route, whose rates for each unit of weight are always the same.

use std::cmp::Ordering;
use std::collections::BinaryHeap;
use std::ops::{Index, IndexMut};

use crate::heap::ABSENT;

/// In `of_route` and `limit`: none.
const NONE: u32 = u32::MAX;

/// Flows of one route.
#[derive(Clone, Debug)]
pub(super) struct Class {
    /// The link that holds it back.
    pub(super) group: u32,
    /// Reading of its own clock less that of its group's.
    pub(super) offset: f64,
    /// Sum of the weights of its flows.
    pub(super) weight: f64,
    /// A bit for each of its links, by number modulo 64: a quick "does not cross".
    mask: u64,
    route: u32,
    limit: u32,
    hops: u32,
    ends: BinaryHeap<End>,
}

/// A flow, ordered so that the earliest end is the greatest.
#[derive(Clone, Copy, Debug)]
struct End {
    reading: f64,
    flow: u32,
    weight: u32,
}

impl Ord for End {
    fn cmp(&self, other: &Self) -> Ordering {
        other.reading.total_cmp(&self.reading).then(other.flow.cmp(&self.flow))
    }
}

impl PartialOrd for End {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for End {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other) == Ordering::Equal
    }
}

impl Eq for End {}

impl Class {
    /// Its flows: the reading of its clock at which each ends, name and weight.
    pub(super) fn flows(&self) -> impl Iterator<Item = (f64, u32, u32)> + '_ {
        self.ends.iter().map(|end| (end.reading, end.flow, end.weight))
    }

    /// Whether it has no flows.
    pub(super) fn is_empty(&self) -> bool {
        self.ends.is_empty()
    }

    /// The reading of its group's clock at which its first flow ends.
    pub(super) fn first_end(&self) -> Option<f64> {
        self.ends.peek().map(|end| end.reading - self.offset)
    }

    /// The limit link that is its own, if it has one.
    pub(super) fn limit(&self) -> Option<u32> {
        (self.limit != NONE).then_some(self.limit)
    }
}

/// All classes: a slab whose places are used again, so that a steady state allocates nothing.
#[derive(Clone, Debug)]
pub(super) struct Classes {
    slab: Vec<Class>,
    free: Vec<u32>,
    /// Links of every class, `stride` places for each.
    links: Vec<u32>,
    stride: usize,
    of_route: Vec<u32>,
    /// Positions in the heaps of the groups; each class is in one at most.
    pub(super) positions: Vec<u32>,
}

impl Index<u32> for Classes {
    type Output = Class;

    fn index(&self, class: u32) -> &Class {
        &self.slab[class as usize]
    }
}

impl IndexMut<u32> for Classes {
    fn index_mut(&mut self, class: u32) -> &mut Class {
        &mut self.slab[class as usize]
    }
}

impl Classes {
    /// No classes yet, for routes of at most `longest` links.
    pub(super) fn new(longest: usize) -> Self {
        Self {
            slab: Vec::new(),
            free: Vec::new(),
            links: Vec::new(),
            stride: longest + 1,
            of_route: Vec::new(),
            positions: Vec::new(),
        }
    }

    /// The class of the flows without limit on `route`, if there are any.
    pub(super) fn of_route(&self, route: u32) -> Option<u32> {
        self.of_route.get(route as usize).copied().filter(|class| *class != NONE)
    }

    /// A new class without flows, on these links and perhaps a limit link.
    pub(super) fn add(&mut self, route: Option<u32>, links: &[u32], limit: Option<u32>) -> u32 {
        let class = self.free.pop().unwrap_or_else(|| {
            self.slab.push(Class {
                group: NONE,
                offset: 0.0,
                weight: 0.0,
                mask: 0,
                route: NONE,
                limit: NONE,
                hops: 0,
                ends: BinaryHeap::new(),
            });
            self.positions.push(ABSENT);
            self.links.resize(self.slab.len() * self.stride, NONE);
            (self.slab.len() - 1) as u32
        });
        let start = class as usize * self.stride;
        let mut hops = 0;
        let mut mask = 0;
        for link in links.iter().copied().chain(limit) {
            self.links[start + hops] = link;
            hops += 1;
            mask |= bit(link);
        }
        let entry = &mut self.slab[class as usize];
        entry.mask = mask;
        entry.hops = hops as u32;
        entry.limit = limit.unwrap_or(NONE);
        entry.route = route.unwrap_or(NONE);
        if let Some(route) = route {
            let route = route as usize;
            if route >= self.of_route.len() {
                self.of_route.resize(route + 1, NONE);
            }
            self.of_route[route] = class;
        }
        class
    }

    /// Gives the place of a class without flows back.
    pub(super) fn discard(&mut self, class: u32) {
        let entry = &mut self.slab[class as usize];
        entry.weight = 0.0;
        if entry.route != NONE {
            self.of_route[entry.route as usize] = NONE;
        }
        self.free.push(class);
    }

    /// Adds a flow that ends when the class's clock reads `reading`.
    pub(super) fn push(&mut self, class: u32, reading: f64, flow: u32, weight: u32) {
        self.slab[class as usize].ends.push(End { reading, flow, weight });
    }

    /// Takes out the flows that end until the class's clock reads `until`; returns their weight.
    pub(super) fn pop_until(&mut self, class: u32, until: f64, ended: &mut Vec<u32>) -> f64 {
        let ends = &mut self.slab[class as usize].ends;
        let mut gone = 0.0;
        while let Some(end) = ends.peek().copied().filter(|end| end.reading <= until) {
            ends.pop();
            ended.push(end.flow);
            gone += f64::from(end.weight);
        }
        gone
    }

    /// Where the links of a class stand in the list that [`Classes::link`] reads.
    pub(super) fn span(&self, class: u32) -> std::ops::Range<usize> {
        let start = class as usize * self.stride;
        start..start + self.slab[class as usize].hops as usize
    }

    /// A link by its place in a span.
    pub(super) fn link(&self, at: usize) -> u32 {
        self.links[at]
    }

    /// The links of a class.
    pub(super) fn links(&self, class: u32) -> &[u32] {
        &self.links[self.span(class)]
    }

    /// Whether a class crosses `link`.
    pub(super) fn crosses(&self, class: u32, link: u32) -> bool {
        self.slab[class as usize].mask & bit(link) != 0 && self.links(class).contains(&link)
    }

    /// Every class with flows.
    pub(super) fn iter(&self) -> impl Iterator<Item = &Class> + '_ {
        self.slab.iter().filter(|class| !class.is_empty())
    }
}

fn bit(link: u32) -> u64 {
    1 << (link % 64)
}
