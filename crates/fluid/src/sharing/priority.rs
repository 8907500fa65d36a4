//! Strict priority between classes of flows, fairness within each.

use super::{FairShare, Progress, Rule, Start};

/// What a class of higher priority leaves of a link counts as nothing below this share of the
/// link: it is the rounding of a sum.
const NOTHING: f64 = 1e-9;

/// Flows in priority classes, 0 first: each class shares fairly, by [`Rule::MaxMin`], what the
/// classes before it leave of each link.
///
/// The order of calls is that of [`FairShare`].
#[derive(Clone, Debug)]
pub struct PriorityShare {
    /// bit/s of each link.
    capacities: Vec<f64>,
    classes: Vec<FairShare>,
}

impl PriorityShare {
    /// Links of these capacities in bit/s, for routes of at most `longest` links and `classes`
    /// priorities.
    pub fn new(capacities: &[f64], longest: usize, classes: u8) -> Self {
        let mut share = FairShare::new(capacities, longest, Rule::MaxMin);
        share.touched = Some(Vec::new());
        let classes = vec![share; usize::from(classes)];
        Self { capacities: capacities.to_vec(), classes }
    }

    /// A flow of `priority` begins.
    pub fn start(&mut self, now: f64, priority: u8, start: Start<'_>) {
        self.classes[usize::from(priority)].start(now, start);
    }

    /// When the first of the flows under way will end; infinite if none will.
    pub fn next_due(&self) -> f64 {
        self.classes.iter().map(FairShare::next_due).fold(f64::INFINITY, f64::min)
    }

    /// Ends the flows that are due at `now` and adds their names to `ended`.
    pub fn finish_due(&mut self, now: f64, ended: &mut Vec<u32>) {
        for class in &mut self.classes {
            class.finish_due(now, ended);
        }
    }

    /// Brings all rates in line with the events at `now`.
    pub fn settle(&mut self, now: f64) {
        for at in 0..self.classes.len() {
            let (ahead, behind) = self.classes.split_at_mut(at + 1);
            let class = &mut ahead[at];
            class.settle(now);
            let touched = class.touched.take().unwrap_or_default();
            for link in &touched {
                class.loads[*link as usize].is_touched = false;
                if let Some(next) = behind.first_mut() {
                    let whole = self.capacities[*link as usize];
                    let left = class.loads[*link as usize].capacity - class.usage(*link as usize);
                    let left = if left < whole * NOTHING { 0.0 } else { left };
                    next.set_capacity(*link, left);
                }
            }
            let mut touched = touched;
            touched.clear();
            ahead[at].touched = Some(touched);
        }
    }

    /// Every flow under way at `now`; right after [`PriorityShare::settle`].
    pub fn flows(&self, now: f64) -> impl Iterator<Item = Progress> + '_ {
        self.classes.iter().flat_map(move |class| class.flows(now))
    }

    /// What all flows take of a link, in bit/s.
    pub fn usage(&self, link: usize) -> f64 {
        self.classes.iter().map(|class| class.usage(link)).sum()
    }
}
