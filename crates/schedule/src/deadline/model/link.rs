use serde::{Deserialize, Serialize};
use weir_units::Time;

use super::workload::{NewFlow, Source, Trace, TraceError};
use super::{SLOT, slots};
use crate::deadline::{Decision, Flow, Kind, Policy};

/// Which flows the world removes before each decision.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum EarlyTermination {
    /// Flows that can no longer be on time: the published reading.
    #[default]
    Hopeless,
    /// Only those whose deadline has passed.
    Late,
}

/// What a run counted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Report {
    /// Flows that appeared.
    pub generated: u64,
    /// Flows that ended by their deadline.
    pub on_time: u64,
    /// Flows that were given up, removed, or ended late.
    pub missed: u64,
    /// Flows still there at the end; misses for the share on time.
    pub active: u64,
    /// Sum over the flows on time of the slots from arrival to end.
    pub completion_slots: u64,
    /// End of the last flow on time, in slots.
    pub last_end_slot: u64,
    /// What was sent, as time on the whole link.
    pub sent: Time,
    /// Length of the run in slots.
    pub slots: u64,
}

impl Report {
    /// Application throughput: the share of generated flows that were on time; 1 without flows.
    pub fn on_time_share(&self) -> f64 {
        if self.generated == 0 { 1.0 } else { self.on_time as f64 / self.generated as f64 }
    }

    /// Mean completion time of the flows on time, in slots; 0 without any.
    pub(crate) fn mean_completion_slots(&self) -> f64 {
        self.completion_slots as f64 / self.on_time.max(1) as f64
    }

    /// The share of the link's time that was used.
    pub fn utilisation(&self) -> f64 {
        self.sent.as_s() / slots(self.slots.max(1)).as_s()
    }
}

/// The slot in which each of the flows ends on time, when the policy alone rules the link.
///
/// # Errors
/// The first flow that cannot be.
pub fn serve(kind: Kind, flows: &[(u64, NewFlow)]) -> Result<Vec<Option<u64>>, TraceError> {
    let mut trace = Trace::new(flows)?;
    Link::new(kind.build(0).as_mut(), &mut trace, EarlyTermination::Hopeless).run(u64::MAX);
    Ok(trace.ends().to_vec())
}

/// One link, one policy, one workload: the loop of the specification, section 2.4. Slots in which
/// nothing can change are passed at once where the policy's decision holds.
pub struct Link<'a> {
    policy: &'a mut dyn Policy,
    source: &'a mut dyn Source,
    early: EarlyTermination,
    flows: Vec<Flow>,
    decision: Decision,
    arrived: Vec<NewFlow>,
    leaving: Vec<usize>,
    report: Report,
}

impl<'a> Link<'a> {
    /// An idle link.
    pub fn new(
        policy: &'a mut dyn Policy,
        source: &'a mut dyn Source,
        early: EarlyTermination,
    ) -> Self {
        Self {
            policy,
            source,
            early,
            flows: Vec::new(),
            decision: Decision::default(),
            arrived: Vec::new(),
            leaving: Vec::new(),
            report: Report::default(),
        }
    }

    /// Runs for `length` slots, or until no flow is left and none can come.
    pub fn run(mut self, length: u64) -> Report {
        let mut slot = 0;
        while slot < length {
            self.arrive(slot);
            self.terminate(slot);
            if self.flows.is_empty() {
                let Some(next) = self.source.next_slot() else { break };
                slot = next.clamp(slot + 1, length);
                continue;
            }
            self.policy.decide(slots(slot), SLOT, &self.flows, &mut self.decision);
            let passed = self.horizon(slot).min(length - slot);
            self.transmit(slot, passed);
            slot += passed;
        }
        self.report.active = self.flows.len() as u64;
        self.report.slots = slot;
        self.report
    }

    fn arrive(&mut self, slot: u64) {
        self.arrived.clear();
        self.source.arrivals(slot, &mut self.arrived);
        for new in &self.arrived {
            self.flows.push(Flow {
                id: self.report.generated,
                source: new.server,
                arrival: slots(slot),
                deadline: slots(new.deadline_slot),
                remaining: slots(new.size_slots),
                first_served: None,
            });
            self.report.generated += 1;
        }
    }

    fn terminate(&mut self, slot: u64) {
        let now = slots(slot);
        for index in (0..self.flows.len()).rev() {
            let flow = &self.flows[index];
            let gone = match self.early {
                EarlyTermination::Hopeless => !flow.feasible(now),
                EarlyTermination::Late => flow.deadline <= now,
            };
            if gone {
                self.report.missed += 1;
                self.remove(index, slot + 1);
            }
        }
    }

    /// How many slots from this one on are sure to be like it.
    fn horizon(&self, slot: u64) -> u64 {
        let [(served, share)] = self.decision.service[..] else {
            return 1;
        };
        if share < SLOT || self.decision.holds <= SLOT || !self.decision.discarded.is_empty() {
            return 1;
        }
        let holds = self.decision.holds.as_ns() / SLOT.as_ns();
        let ends = self.flows[served].remaining.as_ns() / SLOT.as_ns();
        let mut horizon = holds.min(ends).min(self.until_arrival(slot));
        for (index, flow) in self.flows.iter().enumerate() {
            if index != served {
                horizon = horizon.min(self.until_terminated(flow, slot));
            }
        }
        horizon.max(1)
    }

    fn until_arrival(&self, slot: u64) -> u64 {
        self.source.next_slot().map_or(u64::MAX, |next| next.saturating_sub(slot))
    }

    fn until_terminated(&self, flow: &Flow, slot: u64) -> u64 {
        let first = match self.early {
            EarlyTermination::Hopeless => {
                flow.latest_start().map_or(0, |latest| latest.as_ns() / SLOT.as_ns() + 1)
            }
            EarlyTermination::Late => flow.deadline.as_ns().div_ceil(SLOT.as_ns()),
        };
        first.saturating_sub(slot)
    }

    /// Sends for `passed` slots by the decision and lets go who is done or given up.
    fn transmit(&mut self, slot: u64, passed: u64) {
        self.leaving.clear();
        let end = slot + passed;
        for &(index, share) in &self.decision.service {
            let sent = Time::from_ns(share.as_ns() * passed);
            let flow = &mut self.flows[index];
            flow.first_served.get_or_insert(slots(slot));
            flow.remaining -= sent;
            self.report.sent += sent;
            if flow.remaining == Time::ZERO {
                self.leaving.push(index);
                if slots(end) <= flow.deadline {
                    self.report.on_time += 1;
                    self.report.completion_slots += end - flow.arrival.as_ns() / SLOT.as_ns();
                    self.report.last_end_slot = end;
                } else {
                    self.report.missed += 1;
                }
            }
        }
        self.report.missed += self.decision.discarded.len() as u64;
        self.leaving.extend_from_slice(&self.decision.discarded);
        // From the back, so that the positions in front stay right.
        self.leaving.sort_unstable_by(|a, b| b.cmp(a));
        for leaving in 0..self.leaving.len() {
            self.remove(self.leaving[leaving], end);
        }
    }

    /// Takes a flow away, done or not; its server may start the next one from slot `from` on.
    fn remove(&mut self, index: usize, from: u64) {
        let flow = self.flows.swap_remove(index);
        self.source.left(&flow, from);
    }
}
