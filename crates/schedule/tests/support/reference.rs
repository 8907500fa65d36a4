//! The corrected pseudocode of 000-spec section 4.5.3 as it reads, line by line, in floating point,
//! with a sort and a sum wherever it says so. Slow, and independent of the calendar's code: the
//! two are compared in tests, and in the benchmark this is what "just write it down" costs.

use std::collections::BTreeSet;

/// What times are compared relative to.
const SPAN_S: f64 = 100.0;

pub struct Flow {
    pub name: usize,
    pub rem: f64,
    pub td: f64,
    pub alloc: f64,
    pub tc: f64,
    pub path: Vec<usize>,
    pub rmax: f64,
}

pub struct Reference {
    pub capacity: Vec<f64>,
    pub flows: Vec<Flow>,
    pub pending: BTreeSet<usize>,
    pub t: f64,
    /// The closest that any comparison has come, relative to the capacity: a decision by less than
    /// rounding is no evidence of anything.
    pub closest: f64,
    pub fixed: bool,
    pub local: bool,
    pub shortest_first: bool,
}

impl Reference {
    pub fn new(capacity: Vec<f64>, policy: &str) -> Self {
        Self {
            capacity,
            flows: Vec::new(),
            pending: BTreeSet::new(),
            t: 0.0,
            closest: f64::INFINITY,
            fixed: policy == "fixed",
            local: policy.starts_with("local"),
            shortest_first: policy.ends_with("sjf"),
        }
    }

    /// Time passes: data moves, and flows with tc <= t are released.
    pub fn release_completed(&mut self, t: f64) {
        for flow in &mut self.flows {
            flow.rem -= flow.alloc * (t - self.t);
            self.closest = self.closest.min((flow.tc - t).abs() / SPAN_S);
        }
        self.t = t;
        let (done, left) = std::mem::take(&mut self.flows).into_iter().partition(|f| f.tc <= t);
        self.flows = left;
        let done: Vec<Flow> = done;
        self.pending.extend(done.iter().flat_map(|flow| flow.path.clone()));
    }

    fn residual(&self, link: usize) -> f64 {
        let used: f64 = self.on(link).map(|flow| self.flows[flow].alloc).sum();
        self.capacity[link] - used
    }

    fn on(&self, link: usize) -> impl Iterator<Item = usize> {
        (0..self.flows.len()).filter(move |flow| self.flows[*flow].path.contains(&link))
    }

    fn path_residual(&self, path: &[usize]) -> f64 {
        path.iter().map(|link| self.residual(*link)).fold(f64::INFINITY, f64::min)
    }

    fn rmin(&self, flow: usize) -> f64 {
        self.flows[flow].rem / (self.flows[flow].td - self.t)
    }

    fn slack(&self, flow: usize) -> f64 {
        (self.flows[flow].alloc - self.rmin(flow)).max(0.0)
    }

    fn set(&mut self, flow: usize, alloc: f64) {
        let t = self.t;
        let flow = &mut self.flows[flow];
        flow.alloc = alloc;
        flow.tc = t + flow.rem / alloc;
    }

    fn at_least(&mut self, have: f64, need: f64) -> bool {
        self.closest = self.closest.min((have - need).abs() / self.capacity[0]);
        have >= need
    }

    fn sort(&self, flows: &mut [usize], ascending: bool) {
        flows.sort_by(|a, b| self.flows[*a].tc.total_cmp(&self.flows[*b].tc));
        if !ascending {
            flows.reverse();
        }
    }

    /// Equal times are sorted by rounding alone.
    fn note_ties(&mut self, sorted: &[usize]) {
        for pair in sorted.windows(2) {
            let apart = (self.flows[pair[0]].tc - self.flows[pair[1]].tc).abs();
            self.closest = self.closest.min(apart / SPAN_S);
        }
    }

    /// Whether the request is accepted.
    pub fn on_request(
        &mut self,
        t: f64,
        name: usize,
        path: &[usize],
        (size, td, rmax): (f64, f64, f64),
    ) -> bool {
        self.release_completed(t);
        if td <= t {
            return false;
        }
        let rm = size / (td - t);
        if !self.at_least(rmax, rm) {
            return false;
        }
        let rp = self.path_residual(path);
        let alloc = if self.at_least(rp, rm) {
            if self.fixed { rm } else { rmax.min(rp) }
        } else if self.fixed {
            return false;
        } else {
            match self.pace(path, rm) {
                None => return false,
                Some(a) => a.min(rmax).min(self.path_residual(path)),
            }
        };
        let tc = t + size / alloc;
        self.flows.push(Flow { name, rem: size, td, alloc, tc, path: path.to_vec(), rmax });
        true
    }

    fn pace(&mut self, path: &[usize], rm: f64) -> Option<f64> {
        let mut plan: Vec<usize> = Vec::new();
        let mut a = f64::INFINITY;
        for link in path {
            let crossing = plan.iter().filter(|flow| self.flows[**flow].path.contains(link));
            let mut found = self.residual(*link) + crossing.map(|f| self.slack(*f)).sum::<f64>();
            let mut list: Vec<usize> = self.on(*link).filter(|f| !plan.contains(f)).collect();
            self.sort(&mut list, !self.shortest_first);
            self.note_ties(&list);
            for flow in list {
                if self.at_least(found, rm) {
                    break;
                }
                found += self.slack(flow);
                plan.push(flow);
            }
            if !self.at_least(found, rm) {
                return None;
            }
            a = a.min(found);
        }
        for flow in plan {
            self.set(flow, self.rmin(flow));
        }
        Some(a)
    }

    pub fn on_epoch(&mut self, t: f64) {
        self.release_completed(t);
        let links = std::mem::take(&mut self.pending);
        if links.is_empty() || self.fixed {
            return;
        }
        let mut set: Vec<usize> = match (self.local, self.bottleneck(&links)) {
            (true, None) => return,
            (true, Some(link)) => self.on(link).collect(),
            (false, _) => {
                let on_any = |flow: &Flow| flow.path.iter().any(|link| links.contains(link));
                (0..self.flows.len()).filter(|flow| on_any(&self.flows[*flow])).collect()
            }
        };
        self.sort(&mut set, self.shortest_first);
        self.note_ties(&set);
        for flow in &set {
            self.set(*flow, self.rmin(*flow));
        }
        for flow in set {
            let residual = self.path_residual(&self.flows[flow].path).max(0.0);
            let alloc = self.flows[flow].rmax.min(self.flows[flow].alloc + residual);
            self.set(flow, alloc);
        }
    }

    /// The link with the flow of maximum tc; if several links share it, the one with the highest
    /// average tc without that flow.
    fn bottleneck(&mut self, links: &BTreeSet<usize>) -> Option<usize> {
        let mut best: Option<(f64, f64, usize)> = None;
        let mut best_flow = usize::MAX;
        for link in links {
            let mut on: Vec<usize> = self.on(*link).collect();
            self.sort(&mut on, true);
            let Some(last_flow) = on.pop() else { continue };
            let last = self.flows[last_flow].tc;
            let sum: f64 = on.iter().map(|flow| self.flows[*flow].tc).sum();
            let average = sum / on.len().max(1) as f64;
            if let Some((known, known_average, known_link)) = best {
                let same_flow = last_flow == best_flow;
                let apart = if same_flow { average - known_average } else { last - known };
                if !self.on(*link).eq(self.on(known_link)) {
                    self.closest = self.closest.min(apart.abs() / SPAN_S);
                }
            }
            if best.is_none_or(|(known, other, _)| (last, average) > (known, other)) {
                best = Some((last, average, *link));
                best_flow = last_flow;
            }
        }
        best.map(|(_, _, link)| link)
    }
}
