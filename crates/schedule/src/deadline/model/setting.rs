use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use thiserror::Error;

use super::{
    ClosedLoop, Deadlines, EarlyTermination, Link, NewFlow, Random, Reading, Report, SLOTS_MAX,
    Sizes, Trace, Workload, slots,
};
use crate::deadline::optimal::MooreHodgson;
use crate::deadline::{Flow, Kind};

/// One point of an experiment: a workload and how its flows arrive.
#[derive(Clone, Copy, Debug, PartialEq, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Setting {
    /// How a flow is drawn.
    pub workload: Workload,
    /// When flows appear, and for how long.
    pub arrivals: Arrivals,
    /// What the world removes before each decision.
    #[serde(default)]
    pub early_termination: EarlyTermination,
}

/// When flows appear.
#[derive(Clone, Copy, Debug, PartialEq, Deserialize, Serialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub enum Arrivals {
    /// All at once, and the link is left to them; many independent times.
    Batch {
        /// How many at once.
        flows: u32,
        /// How often.
        instances: u32,
    },
    /// One of every server at each interval, whether or not its last has left (A21).
    Periodic {
        /// How many servers.
        servers: u32,
        /// Slots between generations.
        interval_slots: u64,
        /// How many generations.
        generations: u32,
    },
    /// At most one per server; an idle server starts one with a fixed probability per slot.
    ClosedLoop {
        /// How many servers.
        servers: u32,
        /// Per slot.
        probability: f64,
        /// Length of the run.
        slots: u64,
    },
}

/// What cannot be simulated.
#[derive(Clone, Debug, PartialEq, Error)]
pub enum SettingError {
    /// The text is not such an object; names the key.
    #[error("{0}")]
    Json(String),
    /// Sizes from nothing, or from more than to.
    #[error("sizes from {low} to {high} packets: the first must be at least 1, the last no less")]
    Sizes {
        /// The smallest.
        low: u64,
        /// The largest.
        high: u64,
    },
    /// A count or length that is zero or beyond what can be counted.
    #[error("{name} is {value}, must be from 1 to {max}")]
    Count {
        /// Its key.
        name: &'static str,
        /// What was given.
        value: u64,
        /// The most there may be.
        max: u64,
    },
    /// A number that is not one, or outside its range.
    #[error("{name} is {value}, must be above 0 and at most {max}")]
    Number {
        /// Its key.
        name: &'static str,
        /// What was given.
        value: f64,
        /// The most it may be.
        max: f64,
    },
    /// A fat-tree of switches that there are not.
    #[error("ports is {ports}, must be even and from 4 to 48")]
    Ports {
        /// What was given.
        ports: u32,
    },
    /// Deadlines drawn again until the size fits, of a mean with which it hardly ever does.
    #[error("mean_slots is {mean}, too small for {size} packets: no drawn deadline would fit them")]
    Redrawn {
        /// The mean.
        mean: f64,
        /// The largest size.
        size: u64,
    },
}

/// What one run with one seed gave; means are over the flows on time.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Sample {
    /// Flows that appeared.
    pub generated: u64,
    /// Flows on time.
    pub on_time: u64,
    /// The most that could have been, where that is known: in a batch.
    pub optimum: Option<u64>,
    /// Mean time from arrival to end, in slots.
    pub completion_slots: f64,
    /// End of the last flow on time, in slots; the mean over the instances of a batch.
    pub last_end_slot: f64,
    /// The share of the link's time that was used, up to the end of the last flow.
    pub utilisation: f64,
}

impl Sample {
    /// Application throughput: the share of generated flows that were on time; 1 without flows.
    pub fn on_time_share(&self) -> f64 {
        if self.generated == 0 { 1.0 } else { self.on_time as f64 / self.generated as f64 }
    }
}

impl Setting {
    /// From JSON, as [`figures`](super::figures()) are written.
    ///
    /// # Errors
    /// Text that is not a setting, naming the key; a key out of its range.
    pub fn from_json(text: &str) -> Result<Self, SettingError> {
        let setting: Self = from_json(text)?;
        setting.check()?;
        Ok(setting)
    }

    /// Whether it can be run.
    ///
    /// # Errors
    /// The first key that is out of its range.
    pub fn check(&self) -> Result<(), SettingError> {
        self.workload.check()?;
        const MANY: u64 = 100_000;
        match self.arrivals {
            Arrivals::Batch { flows, instances } => {
                count("flows", flows.into(), MANY)?;
                count("instances", instances.into(), 10 * MANY)
            }
            Arrivals::Periodic { servers, interval_slots, generations } => {
                count("servers", servers.into(), MANY)?;
                count("interval_slots", interval_slots, SLOTS_MAX / MANY)?;
                count("generations", generations.into(), MANY)?;
                let flows = u64::from(servers) * u64::from(generations);
                count("servers times generations", flows, 100 * MANY)
            }
            Arrivals::ClosedLoop { servers, probability, slots } => {
                count("servers", servers.into(), MANY)?;
                count("slots", slots, SLOTS_MAX)?;
                number("probability", probability, 1.0)
            }
        }
    }

    /// One run. Two policies with the same seed meet the same flows; in the closed loop, the same
    /// n-th flow of each server.
    ///
    /// # Errors
    /// As [`Setting::check`].
    pub fn run(&self, kind: Kind, seed: u64) -> Result<Sample, SettingError> {
        self.check()?;
        Ok(match self.arrivals {
            Arrivals::Batch { flows, instances } => self.batches(kind, seed, flows, instances),
            Arrivals::Periodic { servers, interval_slots, generations } => {
                let mut trace = self.generations(seed, servers, interval_slots, generations);
                self.on_link(kind, seed, &mut trace, u64::MAX).into()
            }
            Arrivals::ClosedLoop { servers, probability, slots } => {
                let mut source = ClosedLoop::new(self.workload, servers, probability, seed);
                self.on_link(kind, seed, &mut source, slots).into()
            }
        })
    }

    fn on_link(&self, kind: Kind, seed: u64, source: &mut dyn super::Source, slots: u64) -> Report {
        Link::new(kind.build(seed).as_mut(), source, self.early_termination).run(slots)
    }

    fn batches(&self, kind: Kind, seed: u64, flows: u32, instances: u32) -> Sample {
        let (mut sum, mut optimum, mut last) = (Report::default(), 0, 0);
        let mut largest = MooreHodgson::default();
        for instance in 0..u64::from(instances) {
            let batch = self.generation(seed, instance, flows);
            optimum += largest.select(slots(0), &as_flows(&batch)).count() as u64;
            let mut trace =
                Trace::checked(&batch.iter().map(|flow| (0, *flow)).collect::<Vec<_>>());
            let report = self.on_link(kind, seed, &mut trace, u64::MAX);
            sum.generated += report.generated;
            sum.on_time += report.on_time;
            sum.completion_slots += report.completion_slots;
            sum.sent += report.sent;
            sum.slots += report.slots;
            last += report.last_end_slot;
        }
        let last_end_slot = last as f64 / f64::from(instances);
        Sample { optimum: Some(optimum), last_end_slot, ..sum.into() }
    }

    fn generations(&self, seed: u64, servers: u32, interval: u64, generations: u32) -> Trace {
        let all = (0..u64::from(generations)).flat_map(|generation| {
            let at = generation * interval;
            let flows = self.generation(seed, generation, servers).into_iter();
            flows.map(move |flow| (at, NewFlow { deadline_slot: at + flow.deadline_slot, ..flow }))
        });
        Trace::checked(&all.collect::<Vec<_>>())
    }

    /// One flow of each server, due as from slot 0.
    fn generation(&self, seed: u64, number: u64, servers: u32) -> Vec<NewFlow> {
        let draw = |server| {
            let mut random = Random::new(seed, &[number, u64::from(server)]);
            let (size_slots, deadline_slot) = self.workload.draw(&mut random);
            NewFlow { server, size_slots, deadline_slot }
        };
        (0..servers).map(draw).collect()
    }
}

fn as_flows(batch: &[NewFlow]) -> Vec<Flow> {
    let flow = |new: &NewFlow| Flow {
        id: new.server.into(),
        source: new.server,
        arrival: slots(0),
        deadline: slots(new.deadline_slot),
        remaining: slots(new.size_slots),
        first_served: None,
    };
    batch.iter().map(flow).collect()
}

impl Workload {
    pub(super) fn check(&self) -> Result<(), SettingError> {
        let Sizes { low, high } = self.sizes;
        if low == 0 || low > high {
            return Err(SettingError::Sizes { low, high });
        }
        count("sizes.high", high, SLOTS_MAX)?;
        match self.deadlines {
            Deadlines::Exponential { mean_slots, reading } => {
                number("mean_slots", mean_slots, SLOTS_MAX as f64 / 10.0)?;
                if reading == Reading::Redrawn && high as f64 > 20.0 * mean_slots {
                    return Err(SettingError::Redrawn { mean: mean_slots, size: high });
                }
                Ok(())
            }
            Deadlines::Opposed { horizon_slots } => {
                count("horizon_slots", horizon_slots, SLOTS_MAX)
            }
        }
    }
}

pub(super) fn count(name: &'static str, value: u64, max: u64) -> Result<(), SettingError> {
    if (1..=max).contains(&value) { Ok(()) } else { Err(SettingError::Count { name, value, max }) }
}

pub(super) fn number(name: &'static str, value: f64, max: f64) -> Result<(), SettingError> {
    if value > 0.0 && value <= max {
        Ok(())
    } else {
        Err(SettingError::Number { name, value, max })
    }
}

/// An object from JSON; the error names the key.
pub(super) fn from_json<T: DeserializeOwned>(text: &str) -> Result<T, SettingError> {
    let mut reader = serde_json::Deserializer::from_str(text);
    let parsed = serde_path_to_error::deserialize(&mut reader);
    let parsed = parsed.map_err(|error| SettingError::Json(error.to_string()))?;
    reader.end().map_err(|error| SettingError::Json(error.to_string()))?;
    Ok(parsed)
}

impl From<Report> for Sample {
    fn from(report: Report) -> Self {
        Self {
            generated: report.generated,
            on_time: report.on_time,
            optimum: None,
            completion_slots: report.mean_completion_slots(),
            last_end_slot: report.last_end_slot as f64,
            utilisation: report.utilisation(),
        }
    }
}
