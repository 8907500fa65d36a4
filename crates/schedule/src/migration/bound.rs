//! A proven lower bound of the total degradation, by prices on the links.
//!
//! Every pool has a price per byte in every interval of time. If a machine pays these prices
//! instead of respecting the capacity, the best it can do on its own is found exactly: the route
//! and the finish for which its cost plus the cheapest filling of the steps until then is least.
//! The sum of these less the prices of all capacity is at most the degradation of any plan
//! (Lagrangian duality; Fisher 1981), whatever the prices are. So the prices may be improved
//! by steps in floating point (the subgradient method with Polyak's step), while the bound itself
//! is computed in whole numbers.

use super::problem::{Problem, Vm};

/// Prices are whole multiples of 2^-52 of a cost unit per byte.
const SCALE: u32 = 52;
/// More intervals make the bound tighter and slower.
const INTERVALS: usize = 192;

/// Steps `start + 1` to `start + length`.
#[derive(Clone, Copy, Debug)]
struct Interval {
    start: u64,
    length: u64,
}

/// Prices, and the best bound they have given.
#[derive(Clone, Debug)]
pub(super) struct Bound {
    grid: Vec<Interval>,
    /// The pools that can be short of capacity, and the place of each pool among them.
    pools: Vec<usize>,
    place: Vec<Option<usize>>,
    /// By place of the pool, then interval.
    prices: Vec<u64>,
    limits: Vec<u64>,
    best_prices: Vec<u64>,
    best: i128,
    /// The length of the next step, in parts of Polyak's.
    pace: f64,
    idle: u32,
    direction: Vec<f64>,
    pub(super) choices: Vec<Choice>,
}

/// What a machine does when it pays the prices.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Choice {
    pub(super) route: usize,
    pub(super) finish: u64,
    cost: i128,
}

impl Bound {
    /// Prices of zero, over intervals that cover `makespan` steps.
    pub(super) fn new(problem: &Problem, makespan: u64) -> Self {
        let pools = contested(problem);
        let mut place = vec![None; problem.capacities().len()];
        for (index, pool) in pools.iter().enumerate() {
            place[*pool] = Some(index);
        }
        // No price is worth more than what a step of everybody costs.
        let cost = |vm: &Vm| (1..=makespan.min(4096)).map(|step| vm.cost.at(step)).max();
        let total: u128 = problem.vms().iter().filter_map(cost).map(u128::from).sum();
        let limit = |pool: &usize| {
            let limit = (total << SCALE) / u128::from(problem.capacities()[*pool]);
            u64::try_from(limit).unwrap_or(u64::MAX).min(1 << 58)
        };
        let grid = grid(makespan);
        let count = pools.len() * grid.len();
        let mut bound = Self {
            limits: pools.iter().map(limit).collect(),
            grid,
            pools,
            place,
            prices: vec![0; count],
            best_prices: vec![0; count],
            best: 0,
            pace: 1.0,
            idle: 0,
            direction: vec![0.0; count],
            choices: Vec::new(),
        };
        bound.choose(problem);
        bound.best = bound.value(problem);
        bound
    }

    /// The bound as a degradation: costs are whole, so it is rounded up.
    pub(super) fn degradation(&self) -> u128 {
        let floor = self.best >> SCALE;
        let up = i128::from(floor << SCALE != self.best);
        u128::try_from(floor + up).unwrap_or(0)
    }

    /// One step of the subgradient method towards `target`, the degradation of a known plan.
    pub(super) fn tighten(&mut self, problem: &Problem, target: u128) {
        if self.prices.is_empty() {
            return;
        }
        self.descend(problem, target);
        self.choose(problem);
        let value = self.value(problem);
        if value > self.best {
            self.best = value;
            self.best_prices.copy_from_slice(&self.prices);
            self.idle = 0;
            return;
        }
        self.idle += 1;
        if self.idle >= 12 {
            self.idle = 0;
            self.pace *= 0.6;
            if self.pace < 1e-4 {
                self.pace = 0.5;
            }
            self.prices.copy_from_slice(&self.best_prices);
            self.direction.fill(0.0);
            self.choose(problem);
        }
    }

    /// By machine and route, the first and last step in which it can finish in a plan of at most
    /// `target`; `None` where it cannot. If it did otherwise, its own cost at the best prices would
    /// lift the bound above `target` (reduced-cost fixing). No step after `longest` is looked at.
    pub(super) fn windows(
        &self,
        problem: &Problem,
        target: u128,
        longest: u64,
    ) -> Vec<Vec<Option<(u64, u64)>>> {
        let mut best = self.clone();
        best.prices.copy_from_slice(&self.best_prices);
        best.choose(problem);
        let spare = scaled(target) - best.value(problem);
        let (mut scratch, mut prices) = (Filling::default(), Vec::new());
        let each = problem.vms().iter().zip(&best.choices);
        each.map(|(vm, choice)| {
            let window = |route| {
                best.price(vm, route, &mut prices);
                scratch.window(vm, route, &prices, &best.grid, (choice.cost + spare, longest))
            };
            (0..vm.routes.len()).map(window).collect()
        })
        .collect()
    }

    fn value(&self, problem: &Problem) -> i128 {
        let paid: i128 = self.choices.iter().map(|choice| choice.cost).sum();
        let intervals = self.grid.len();
        let mut worth = 0i128;
        for (place, pool) in self.pools.iter().enumerate() {
            let prices = &self.prices[place * intervals..][..intervals];
            let each = prices.iter().zip(&self.grid);
            let sum: i128 =
                each.map(|(price, span)| i128::from(*price) * i128::from(span.length)).sum();
            worth += sum * i128::from(problem.capacities()[*pool]);
        }
        paid - worth
    }

    fn choose(&mut self, problem: &Problem) {
        let mut scratch = Filling::default();
        let mut prices = Vec::new();
        let choices = problem.vms().iter().map(|vm| {
            let mut best: Option<Choice> = None;
            for route in by_capacity(vm) {
                let free = scaled(vm.cost.total(vm.earliest(route)));
                if best.is_some_and(|best| free >= best.cost) {
                    continue;
                }
                let limit = best.map_or(i128::MAX, |best| best.cost);
                let choice = if self.price(vm, route, &mut prices) {
                    let (cost, finish) = scratch.cheapest(vm, route, &prices, &self.grid, limit);
                    Choice { route, finish, cost }
                } else {
                    Choice { route, finish: vm.earliest(route), cost: free }
                };
                if best.is_none_or(|best| choice.cost < best.cost) {
                    best = Some(choice);
                }
            }
            best.expect("a VM has a route")
        });
        self.choices = choices.collect();
    }

    /// Writes what a byte on `route` pays in each interval; false if it never pays anything.
    fn price(&self, vm: &Vm, route: usize, prices: &mut Vec<u64>) -> bool {
        let intervals = self.grid.len();
        prices.clear();
        prices.resize(intervals, 0);
        let mut any = false;
        for place in vm.routes[route].pools.iter().filter_map(|pool| self.place[*pool]) {
            let each = prices.iter_mut().zip(&self.prices[place * intervals..]);
            for (sum, price) in each {
                *sum += price;
                any |= *price > 0;
            }
        }
        any
    }

    /// Moves the prices along what is used less what there is, in parts of what there is.
    fn descend(&mut self, problem: &Problem, target: u128) {
        let intervals = self.grid.len();
        let mut excess = vec![0.0; self.prices.len()];
        let (mut scratch, mut prices) = (Filling::default(), Vec::new());
        for (vm, choice) in problem.vms().iter().zip(&self.choices) {
            self.price(vm, choice.route, &mut prices);
            let used = scratch.filled(vm, *choice, &prices, &self.grid);
            for place in vm.routes[choice.route].pools.iter().filter_map(|pool| self.place[*pool]) {
                for (interval, bytes) in used {
                    excess[place * intervals + interval] += *bytes as f64;
                }
            }
        }
        let mut norm = 0.0;
        for (place, pool) in self.pools.iter().enumerate() {
            let capacity = problem.capacities()[*pool] as f64;
            for (interval, span) in self.grid.iter().enumerate() {
                let index = place * intervals + interval;
                excess[index] = excess[index] / (capacity * span.length as f64) - 1.0;
                if self.prices[index] == 0 && excess[index] < 0.0 {
                    excess[index] = 0.0;
                }
                // Part of the last direction is kept: it damps the zigzag (Camerini et al. 1975).
                self.direction[index] = excess[index] + 0.6 * self.direction[index];
                norm += self.direction[index] * self.direction[index];
            }
        }
        if norm == 0.0 {
            return;
        }
        let value = self.value(problem) as f64;
        let gap = ((target as f64) * (SCALE as f64).exp2() - value).max(0.0);
        let length = self.pace * gap / norm;
        for (place, pool) in self.pools.iter().enumerate() {
            let capacity = problem.capacities()[*pool] as f64;
            for (interval, span) in self.grid.iter().enumerate() {
                let index = place * intervals + interval;
                let change = length * self.direction[index] / (capacity * span.length as f64);
                // A cast from floating point saturates, and makes zero of what is negative.
                let price = (self.prices[index] as f64 + change).round() as u64;
                self.prices[index] = price.min(self.limits[place]);
            }
        }
    }
}

fn scaled(cost: u128) -> i128 {
    i128::try_from(cost << SCALE).unwrap_or(i128::MAX)
}

fn by_capacity(vm: &Vm) -> Vec<usize> {
    let mut routes: Vec<usize> = (0..vm.routes.len()).collect();
    routes.sort_by_key(|route| std::cmp::Reverse(vm.routes[*route].capacity));
    routes
}

/// The pools that the machines which may cross them could overload.
fn contested(problem: &Problem) -> Vec<usize> {
    let mut demand = vec![0u128; problem.capacities().len()];
    for vm in problem.vms() {
        let mut widest = std::collections::BTreeMap::new();
        for route in &vm.routes {
            for pool in &route.pools {
                let most = widest.entry(*pool).or_insert(0);
                *most = route.capacity.max(*most);
            }
        }
        for (pool, most) in widest {
            demand[pool] += u128::from(most);
        }
    }
    let short = |pool: &usize| demand[*pool] > u128::from(problem.capacities()[*pool]);
    (0..demand.len()).filter(short).collect()
}

/// Intervals that cover `makespan` steps: single steps at first, then growing in proportion to
/// the time that has passed.
fn grid(makespan: u64) -> Vec<Interval> {
    let cover = |growth: f64| {
        let mut grid: Vec<Interval> = Vec::new();
        let mut start = 0;
        while start < makespan && grid.len() <= INTERVALS {
            let length = ((start as f64 * growth) as u64).clamp(1, makespan - start);
            grid.push(Interval { start, length });
            start += length;
        }
        grid
    };
    let mut growth = 0.0;
    loop {
        let grid = cover(growth);
        if grid.len() <= INTERVALS {
            return grid;
        }
        growth += 0.005;
    }
}

/// All the time after the last interval, in which nothing has a price.
fn after(grid: &[Interval]) -> Interval {
    let start = grid.last().map_or(0, |last| last.start + last.length);
    Interval { start, length: u64::MAX / 2 }
}

/// One machine's volume in the cheapest steps so far; reused from machine to machine.
#[derive(Debug, Default)]
struct Filling {
    /// Intervals by rising price, the free time after the last first of all.
    order: Vec<usize>,
    /// The place of each interval in `order`.
    rank: Vec<usize>,
    prices: Vec<u64>,
    /// Bytes that could be sent in each interval, by rank.
    offered: Vec<u128>,
    offered_total: u128,
    volume: u128,
    filled: bool,
    /// The highest rank with an offer.
    top: usize,
    /// When filled, all ranks below are used whole, and this one by `used`.
    edge: usize,
    used: u128,
    paid: i128,
    result: Vec<(usize, u128)>,
}

impl Filling {
    fn start(&mut self, vm: &Vm, prices: &[u64]) {
        let count = prices.len() + 1;
        self.order.clear();
        self.order.extend(0..count);
        let price = |interval: usize| prices.get(interval).copied().unwrap_or(0);
        // Later first among equals, so that the free time at the end is the first.
        self.order
            .sort_unstable_by_key(|interval| (price(*interval), std::cmp::Reverse(*interval)));
        self.rank.resize(count, 0);
        for (rank, interval) in self.order.iter().enumerate() {
            self.rank[*interval] = rank;
        }
        self.prices.clear();
        self.prices.extend(self.order.iter().map(|interval| price(*interval)));
        self.offered.clear();
        self.offered.resize(count, 0);
        self.volume = u128::from(vm.size.count());
        (self.offered_total, self.edge, self.used, self.paid) = (0, 0, 0, 0);
        (self.filled, self.top) = (false, 0);
    }

    /// Least cost and payment over all finishes, scaled, and the finish that has it; `limit` and
    /// 0 if none is below `limit`.
    fn cheapest(
        &mut self,
        vm: &Vm,
        route: usize,
        prices: &[u64],
        grid: &[Interval],
        limit: i128,
    ) -> (i128, u64) {
        self.start(vm, prices);
        let free = after(grid);
        let capacity = vm.routes[route].capacity;
        let mut best = (limit, 0);
        for (interval, span) in grid.iter().copied().chain([free]).enumerate() {
            let rank = self.rank[interval];
            let mut done = 0;
            while done < span.length {
                let step = span.start + done;
                // A finish here costs at least this, and any later one no less.
                if scaled(vm.cost.total(step)) >= best.0 {
                    return best;
                }
                let count = self.stride(vm, rank, capacity, step).min(span.length - done);
                done += count;
                let growth = vm.growth.total(step + count) - vm.growth.total(step);
                self.offer(rank, u128::from(capacity) * u128::from(count), growth);
                if self.filled {
                    let cost = scaled(vm.cost.total(step + count)) + self.paid;
                    best = best.min((cost, step + count));
                    // Nothing is dearer than what this interval asks: later in it gains nothing.
                    if self.paid == 0 {
                        return best;
                    }
                    let settled = self.edge <= rank && vm.growth.is_zero();
                    if settled && vm.cost.is_constant_after(step) {
                        let rest = span.length - done;
                        self.offer(rank, u128::from(capacity) * u128::from(rest), 0);
                        done = span.length;
                    }
                }
            }
        }
        best
    }

    /// The first and last finish whose cost and payment are within a limit, up to a last step.
    fn window(
        &mut self,
        vm: &Vm,
        route: usize,
        prices: &[u64],
        grid: &[Interval],
        (limit, longest): (i128, u64),
    ) -> Option<(u64, u64)> {
        self.start(vm, prices);
        let capacity = u128::from(vm.routes[route].capacity);
        let mut found = None;
        for (interval, span) in grid.iter().copied().chain([after(grid)]).enumerate() {
            for step in span.start + 1..=span.start.saturating_add(span.length) {
                let cost = scaled(vm.cost.total(step));
                if cost > limit || step > longest {
                    return found;
                }
                self.offer(self.rank[interval], capacity, u128::from(vm.growth.at(step)));
                if self.filled && cost + self.paid <= limit {
                    found = Some((found.map_or(step, |(first, _)| first), step));
                }
            }
        }
        found
    }

    /// How many steps may be taken at once so that no finish between can be the best.
    fn stride(&self, vm: &Vm, rank: usize, capacity: u64, step: u64) -> u64 {
        if !(vm.growth.is_zero() && vm.cost.is_constant_after(step)) {
            return 1;
        }
        let capacity = u128::from(capacity);
        let steps = if !self.filled {
            (self.volume - self.offered_total).div_ceil(capacity)
        } else if rank < self.edge {
            self.used / capacity
        } else {
            u128::from(u64::MAX)
        };
        u64::try_from(steps).unwrap_or(u64::MAX).max(1)
    }

    /// `bytes` more could be sent at `rank`, and `growth` more must be sent: the cheapest of all
    /// offered are used, or all while they are too few.
    fn offer(&mut self, rank: usize, bytes: u128, growth: u128) {
        self.offered[rank] += bytes;
        self.offered_total += bytes;
        self.volume += growth;
        self.top = self.top.max(rank);
        if self.filled {
            if rank < self.edge {
                self.paid += self.price(rank, bytes);
                self.shed(bytes);
            }
            self.need(growth);
        } else {
            self.paid += self.price(rank, bytes);
            if self.offered_total >= self.volume {
                self.filled = true;
                (self.edge, self.used) = (self.top, self.offered[self.top]);
                self.shed(self.offered_total - self.volume);
            }
        }
    }

    fn price(&self, rank: usize, bytes: u128) -> i128 {
        i128::from(self.prices[rank]) * i128::try_from(bytes).unwrap_or(i128::MAX)
    }

    /// Uses so many bytes less, the dearest first.
    fn shed(&mut self, mut bytes: u128) {
        loop {
            let less = bytes.min(self.used);
            self.paid -= self.price(self.edge, less);
            self.used -= less;
            bytes -= less;
            while self.used == 0 && self.edge > 0 {
                self.edge -= 1;
                self.used = self.offered[self.edge];
            }
            if bytes == 0 {
                return;
            }
        }
    }

    /// Uses so many bytes more, the cheapest first.
    fn need(&mut self, mut bytes: u128) {
        while bytes > 0 {
            let more = bytes.min(self.offered[self.edge] - self.used);
            self.paid += self.price(self.edge, more);
            self.used += more;
            bytes -= more;
            if bytes > 0 {
                if self.edge == self.top {
                    self.filled = false;
                    return;
                }
                self.edge += 1;
                self.used = 0;
            }
        }
    }

    /// What is sent in each interval when `choice` is carried out.
    fn filled(
        &mut self,
        vm: &Vm,
        choice: Choice,
        prices: &[u64],
        grid: &[Interval],
    ) -> &[(usize, u128)] {
        self.start(vm, prices);
        let capacity = u128::from(vm.routes[choice.route].capacity);
        let mut left = self.volume + vm.growth.total(choice.finish);
        let free = after(grid);
        self.result.clear();
        for interval in &self.order {
            let span = grid.get(*interval).copied().unwrap_or(free);
            let steps = choice.finish.saturating_sub(span.start).min(span.length);
            let used = left.min(capacity * u128::from(steps));
            left -= used;
            if used > 0 && *interval < grid.len() {
                self.result.push((*interval, used));
            }
        }
        &self.result
    }
}
