//! The transfers of a calendar, and where to find those that matter now.
//!
//! Most of thousands that are admitted wait for their turn, and time alone changes nothing about
//! them. So that a decision costs what it changes and not what there is, those that send are kept
//! apart from those that wait, these by when their reservations begin and when they may start;
//! those that may send are kept by deadlines, for each set of paths; and so are those for which
//! more is to be reserved.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet, BinaryHeap, btree_set};
use std::ops::Index;

use weir_topology::LinkId;

use super::flow::{Flow, Paths};

/// A time in ns and the number of a flow.
type Timed = (u64, u64);

#[derive(Clone, Debug, Default)]
pub(super) struct Flows {
    /// By number, which is the order of admission.
    all: BTreeMap<u64, Flow>,
    sets: Vec<Set>,
    sending: BTreeSet<u64>,
    /// Those that do not send, by when the first of their reservations begins.
    reserved: BTreeSet<Timed>,
    /// By start, those that come after `begun`.
    ahead: BTreeSet<Timed>,
    begun: u64,
    /// Those for which less is reserved than is to be.
    short: BTreeSet<u64>,
    /// While it may be taken back: what has changed since.
    since: Option<Since>,
}

/// What there was before some time, as far as it has changed since.
#[derive(Clone, Debug)]
struct Since {
    begun: u64,
    /// Those that were entered, changed or removed, as they were; `None` if they were not there.
    flows: BTreeMap<u64, Option<Flow>>,
    /// Those whose start has come.
    started: Vec<u64>,
}

/// Those that may take the same paths, by deadline.
#[derive(Clone, Debug, Default)]
struct Set {
    paths: Option<Paths>,
    /// Each link that one of the paths takes, once.
    links: Vec<LinkId>,
    started: BTreeSet<Timed>,
    ahead: BTreeSet<Timed>,
}

/// All that decides where a flow is found.
#[derive(Clone, Copy, PartialEq)]
struct Place {
    set: usize,
    start: u64,
    deadline: u64,
    sends: bool,
    /// When the first of its reservations begins.
    reserved: Option<u64>,
    is_short: bool,
}

impl Place {
    fn of(flow: &Flow) -> Self {
        Self {
            set: flow.paths.set,
            start: flow.start,
            deadline: flow.deadline,
            sends: flow.rate() > 0,
            reserved: flow.pieces.iter().map(|piece| piece.span.start).min(),
            is_short: flow.unplanned() > 0,
        }
    }
}

impl Index<&u64> for Flows {
    type Output = Flow;

    fn index(&self, number: &u64) -> &Flow {
        &self.all[number]
    }
}

impl Flows {
    pub(super) fn get(&self, number: &u64) -> Option<&Flow> {
        self.all.get(number)
    }

    pub(super) fn contains_key(&self, number: &u64) -> bool {
        self.all.contains_key(number)
    }

    /// In the order of admission.
    pub(super) fn iter(&self) -> impl Iterator<Item = (&u64, &Flow)> {
        self.all.iter()
    }

    pub(super) fn values(&self) -> impl Iterator<Item = &Flow> {
        self.all.values()
    }

    /// From now on what there was before is kept, so that changes can be taken back.
    pub(super) fn note(&mut self) {
        let (flows, started) = (BTreeMap::new(), Vec::new());
        self.since = Some(Since { begun: self.begun, flows, started });
    }

    /// Takes back all changes since [`Flows::note`].
    pub(super) fn take_back(&mut self) {
        let Some(Since { begun, flows, started }) = self.since.take() else { return };
        for number in flows.keys() {
            self.remove(number);
        }
        let started =
            started.into_iter().filter_map(|number| Some((number, self.remove(&number)?)));
        let before: Vec<(u64, Flow)> = started.collect();
        self.begun = begun;
        let changed = flows.into_iter().filter_map(|(number, flow)| Some((number, flow?)));
        before.into_iter().chain(changed).for_each(|(number, flow)| self.insert(number, flow));
    }

    /// Keeps a flow as it is, or that it is not there, if that may be wanted back.
    fn keep(&mut self, number: u64) {
        if let Some(since) = &mut self.since {
            since.flows.entry(number).or_insert_with(|| self.all.get(&number).cloned());
        }
    }

    /// Enters a flow under a number that is not in use.
    pub(super) fn insert(&mut self, number: u64, flow: Flow) {
        self.keep(number);
        let place = Place::of(&flow);
        if self.sets.len() <= place.set {
            self.sets.resize_with(place.set + 1, Set::default);
        }
        self.sets[place.set].is_of(&flow.paths);
        self.enter(number, &place);
        self.all.insert(number, flow);
    }

    pub(super) fn remove(&mut self, number: &u64) -> Option<Flow> {
        self.keep(*number);
        let flow = self.all.remove(number)?;
        self.leave(*number, &Place::of(&flow));
        Some(flow)
    }

    /// Changes a flow; nothing if it is not there.
    pub(super) fn change<T>(
        &mut self,
        number: u64,
        change: impl FnOnce(&mut Flow) -> T,
    ) -> Option<T> {
        self.keep(number);
        let flow = self.all.get_mut(&number)?;
        let before = Place::of(flow);
        let result = change(flow);
        let after = Place::of(flow);
        if before != after {
            if before.set != after.set {
                let paths = flow.paths.clone();
                if self.sets.len() <= after.set {
                    self.sets.resize_with(after.set + 1, Set::default);
                }
                self.sets[after.set].is_of(&paths);
            }
            self.leave(number, &before);
            self.enter(number, &after);
        }
        Some(result)
    }

    fn enter(&mut self, number: u64, place: &Place) {
        let set = &mut self.sets[place.set];
        let due = (place.deadline, number);
        if place.start <= self.begun {
            set.started.insert(due);
        } else {
            set.ahead.insert(due);
            self.ahead.insert((place.start, number));
        }
        if place.sends {
            self.sending.insert(number);
        } else if let Some(start) = place.reserved {
            self.reserved.insert((start, number));
        }
        if place.is_short {
            self.short.insert(number);
        }
    }

    fn leave(&mut self, number: u64, place: &Place) {
        let set = &mut self.sets[place.set];
        let due = (place.deadline, number);
        if place.start <= self.begun {
            set.started.remove(&due);
        } else {
            set.ahead.remove(&due);
            self.ahead.remove(&(place.start, number));
        }
        if place.sends {
            self.sending.remove(&number);
        } else if let Some(start) = place.reserved {
            self.reserved.remove(&(start, number));
        }
        if place.is_short {
            self.short.remove(&number);
        }
    }

    /// From now on those may send whose start has come.
    pub(super) fn begin(&mut self, now: u64) {
        self.begun = self.begun.max(now);
        while let Some((start, number)) = self.ahead.first().copied() {
            if start > self.begun {
                break;
            }
            self.ahead.pop_first();
            self.since.iter_mut().for_each(|since| since.started.push(number));
            let flow = &self.all[&number];
            let (set, due) = (&mut self.sets[flow.paths.set], (flow.deadline, number));
            set.ahead.remove(&due);
            set.started.insert(due);
        }
    }

    /// Those that time alone changes: that send, or have had something reserved before `now`. In
    /// the order of their numbers.
    pub(super) fn moved(&self, now: u64) -> Vec<u64> {
        self.sending_or(self.reserved.range(..(now, 0)))
    }

    /// Those that send, or that have something reserved by now, in the order of their numbers.
    pub(super) fn come(&self, now: u64) -> Vec<u64> {
        self.sending_or(self.reserved.range(..=(now, u64::MAX)))
    }

    fn sending_or<'a>(&self, more: impl Iterator<Item = &'a Timed>) -> Vec<u64> {
        let mut numbers: Vec<u64> = self.sending.iter().copied().collect();
        let sending = numbers.len();
        numbers.extend(more.map(|(_, number)| *number));
        if numbers.len() > sending {
            numbers.sort_unstable();
        }
        numbers
    }

    /// Those that send, in the order of their numbers.
    pub(super) fn sending(&self) -> impl Iterator<Item = (u64, &Flow)> {
        self.sending.iter().map(|number| (*number, &self.all[number]))
    }

    /// When the first reservation of one that does not send begins.
    pub(super) fn first_reserved(&self) -> u64 {
        self.reserved.first().map_or(u64::MAX, |(start, _)| *start)
    }

    /// When the next of those starts that have not begun.
    pub(super) fn next_start(&self) -> u64 {
        self.ahead.first().map_or(u64::MAX, |(start, _)| *start)
    }

    /// Those for which less is reserved than is to be, in the order of their numbers.
    pub(super) fn short(&self) -> impl Iterator<Item = u64> {
        self.short.iter().copied()
    }

    /// Those of the sets of paths that are `wanted`, by the links that they take, in no order.
    pub(super) fn among(
        &self,
        wanted: impl Fn(&Paths, &[LinkId]) -> bool,
    ) -> impl Iterator<Item = (u64, &Flow)> {
        self.among_due(u64::MAX, wanted)
    }

    /// Those of them that are due by some time.
    pub(super) fn among_due(
        &self,
        until: u64,
        wanted: impl Fn(&Paths, &[LinkId]) -> bool,
    ) -> impl Iterator<Item = (u64, &Flow)> {
        let is_wanted = move |set: &&Set| match &set.paths {
            Some(paths) if !set.is_empty() => wanted(paths, &set.links),
            _ => false,
        };
        let (sets, due) = (self.sets.iter().filter(is_wanted), ..=(until, u64::MAX));
        let due = sets.flat_map(move |set| set.started.range(due).chain(set.ahead.range(due)));
        due.map(|(_, number)| (*number, &self.all[number]))
    }

    /// Those that have begun of the sets of paths that are open.
    pub(super) fn in_turn(&self, is_open: impl Fn(&Paths) -> bool) -> Turns<'_> {
        let started = self.sets.iter().filter(|set| !set.started.is_empty());
        let open = started.filter(|set| set.paths.as_ref().is_some_and(&is_open));
        Turns { flows: self, lines: open.map(|set| set.started.iter()).collect() }
    }
}

/// Flows in the order of their deadlines, and of the same deadline in that of their admission; a
/// line for each set of paths.
pub(super) struct Turns<'a> {
    flows: &'a Flows,
    lines: Vec<btree_set::Iter<'a, Timed>>,
}

impl Turns<'_> {
    /// Hands out one after the other; when `take` says no, no more of the same line.
    pub(super) fn hand_out(mut self, mut take: impl FnMut(u64, &Flow) -> bool) {
        let mut heads = BinaryHeap::with_capacity(self.lines.len());
        for (at, line) in self.lines.iter_mut().enumerate() {
            heads.extend(line.next().map(|due| Reverse((*due, at))));
        }
        while let Some(Reverse(((_, number), at))) = heads.pop() {
            if take(number, &self.flows[&number]) {
                heads.extend(self.lines[at].next().map(|due| Reverse((*due, at))));
            }
        }
    }
}

impl Set {
    fn is_of(&mut self, paths: &Paths) {
        if self.paths.is_some() {
            return;
        }
        for link in paths.iter().flat_map(|path| path.links()) {
            if !self.links.contains(link) {
                self.links.push(*link);
            }
        }
        self.paths = Some(paths.clone());
    }

    fn is_empty(&self) -> bool {
        self.started.is_empty() && self.ahead.is_empty()
    }
}
