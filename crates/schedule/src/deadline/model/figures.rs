use serde::{Deserialize, Serialize};

use super::setting::from_json;
use super::{
    Arrivals, Deadlines, EarlyTermination, Reading, Setting, SettingError, Sizes, Workload,
};

/// Servers that the probability of an arrival is set for: full load is theirs (A13).
const FULL_SERVERS: u32 = 40;
/// The three deadline classes: tight, moderate, relaxed.
const CLASSES: [f64; 3] = [30.0, 90.0, 120.0];

/// One published figure: settings along its axis.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Figure {
    /// Its number in work 002, such as `"3.5"`.
    pub id: &'static str,
    /// What it shows.
    pub title: String,
    /// What varies, with its unit.
    pub axis: &'static str,
    /// The values along the axis and the settings there.
    pub points: Vec<(f64, Setting)>,
}

/// How the probability of an arrival is chosen along a sweep (A13).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Probability {
    /// Full load for 40 servers and sizes of 2 to 198, whatever the point.
    #[default]
    Fixed,
    /// Full load for the point's own sizes (3.15, 3.16) and servers (3.5 to 3.8).
    Tuned,
}

/// The questions that the published text leaves open, and how long to run.
#[derive(Clone, Copy, Debug, PartialEq, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Readings {
    /// What the mean deadline is the mean of, in 3.4 to 3.16.
    pub reading: Reading,
    /// How often flows arrive.
    pub probability: Probability,
    /// Horizon of the opposed deadlines in 3.1 to 3.3.
    pub horizon_slots: u64,
    /// Length of a run in the closed loop.
    pub slots: u64,
    /// Batches per run.
    pub instances: u32,
    /// Generations per periodic run.
    pub generations: u32,
}

impl Default for Readings {
    /// The specification's readings at the published length.
    fn default() -> Self {
        Self {
            reading: Reading::Cushion,
            probability: Probability::Fixed,
            horizon_slots: 250,
            slots: 1_000_000,
            instances: 1000,
            generations: 100,
        }
    }
}

/// The 16 figures of the evaluation (work 002, chapter 3).
pub fn figures(readings: &Readings) -> Vec<Figure> {
    let mut all = readings.batches();
    all.extend(readings.deadline_sweeps());
    all.extend(readings.server_sweeps());
    all.extend(readings.load_sweeps());
    all.extend(readings.size_sweeps());
    all
}

/// The figures as JSON: objects whose points are pairs of a value on the axis and a setting.
pub fn figures_json(readings: &Readings) -> String {
    serde_json::json!(figures(readings)).to_string()
}

impl Readings {
    /// From JSON; what is not said is as by default.
    ///
    /// # Errors
    /// Text that is not such an object, naming the key; a setting out of its range.
    pub fn from_json(text: &str) -> Result<Self, SettingError> {
        let readings: Self = from_json(text)?;
        for figure in figures(&readings) {
            figure.points.iter().try_for_each(|(_, setting)| setting.check())?;
        }
        Ok(readings)
    }

    fn opposed(&self) -> Workload {
        let deadlines = Deadlines::Opposed { horizon_slots: self.horizon_slots };
        Workload { sizes: Sizes::PUBLISHED, deadlines }
    }

    fn exponential(&self, sizes: Sizes, mean_slots: f64) -> Workload {
        let deadlines = Deadlines::Exponential { mean_slots, reading: self.reading };
        Workload { sizes, deadlines }
    }

    fn closed(&self, workload: Workload, servers: u32, probability: f64) -> Setting {
        let arrivals = Arrivals::ClosedLoop { servers, probability, slots: self.slots };
        Setting { workload, arrivals, early_termination: EarlyTermination::Hopeless }
    }

    fn batch(&self, workload: Workload, flows: u32) -> Setting {
        let arrivals = Arrivals::Batch { flows, instances: self.instances };
        Setting { workload, arrivals, early_termination: EarlyTermination::Hopeless }
    }

    fn batches(&self) -> Vec<Figure> {
        let batch = |flows| (f64::from(flows), self.batch(self.opposed(), flows));
        let opposed = [10, 20, 40, 80, 120, 160].map(batch);
        let small = |flows| {
            let workload = self.exponential(Sizes::PUBLISHED, 60.0);
            (f64::from(flows), self.batch(workload, flows))
        };
        let interval = |interval_slots| {
            let generations = self.generations;
            let arrivals = Arrivals::Periodic { servers: 24, interval_slots, generations };
            let (workload, early_termination) = (self.opposed(), EarlyTermination::Hopeless);
            (interval_slots as f64, Setting { workload, arrivals, early_termination })
        };
        let figure =
            |id, title: &str, axis, points| Figure { id, title: title.into(), axis, points };
        vec![
            figure(
                "3.1",
                "One batch, large flows tight and small ones loose: flows on time",
                "flows",
                opposed.to_vec(),
            ),
            figure("3.2", "The same batch: time to complete the flows", "flows", opposed.to_vec()),
            figure(
                "3.3",
                "24 servers that each issue a flow at every interval",
                "interval, slots",
                [5, 10, 15, 20, 25, 30, 100, 400].map(interval).to_vec(),
            ),
            figure(
                "3.4",
                "One batch, relative to the optimum, cushions of mean 60 slots",
                "flows",
                [4, 6, 8, 10, 12, 20, 40].map(small).to_vec(),
            ),
        ]
    }

    fn deadline_sweeps(&self) -> Vec<Figure> {
        let sweep = |(id, servers): (&'static str, u32)| {
            let full = match self.probability {
                Probability::Fixed => FULL_SERVERS,
                Probability::Tuned => servers,
            };
            let point = |mean| {
                let workload = self.exponential(Sizes::PUBLISHED, mean);
                (mean, self.closed(workload, servers, full_load(full, Sizes::PUBLISHED)))
            };
            Figure {
                id,
                title: format!("{servers} servers, deadlines from tight to relaxed"),
                axis: "mean deadline, slots",
                points: [20.0, 40.0, 60.0, 80.0, 100.0, 120.0].map(point).to_vec(),
            }
        };
        [("3.5", 40), ("3.6", 60), ("3.7", 80), ("3.8", 100)].map(sweep).to_vec()
    }

    fn server_sweeps(&self) -> Vec<Figure> {
        let sweep = |(id, mean): (&'static str, f64)| {
            let point = |servers: u32| {
                let workload = self.exponential(Sizes::PUBLISHED, mean);
                let probability = full_load(FULL_SERVERS, Sizes::PUBLISHED);
                (f64::from(servers), self.closed(workload, servers, probability))
            };
            Figure {
                id,
                title: format!("More and more servers, deadlines of mean {mean} slots"),
                axis: "servers",
                points: (40..=120).step_by(10).map(point).collect(),
            }
        };
        std::iter::zip(["3.9", "3.10", "3.11"], CLASSES).map(sweep).collect()
    }

    fn load_sweeps(&self) -> Vec<Figure> {
        const SERVERS: u32 = 180;
        let sweep = |(id, mean): (&'static str, f64)| {
            let point = |load: f64| {
                let workload = self.exponential(Sizes::PUBLISHED, mean);
                let probability = load * full_load(SERVERS, Sizes::PUBLISHED);
                (load, self.closed(workload, SERVERS, probability))
            };
            Figure {
                id,
                title: format!("{SERVERS} servers, overload, deadlines of mean {mean} slots"),
                axis: "offered load",
                points: [1.0, 1.5, 2.0, 2.5, 3.0, 3.5, 4.0].map(point).to_vec(),
            }
        };
        std::iter::zip(["3.12", "3.13", "3.14"], CLASSES).map(sweep).collect()
    }

    fn size_sweeps(&self) -> Vec<Figure> {
        let sweep = |(id, servers): (&'static str, u32)| {
            let point = |high: u64| {
                let sizes = Sizes { low: 2, high };
                let full = match self.probability {
                    Probability::Fixed => Sizes::PUBLISHED,
                    Probability::Tuned => sizes,
                };
                let workload = self.exponential(sizes, 100.0);
                (high as f64, self.closed(workload, servers, full_load(FULL_SERVERS, full)))
            };
            Figure {
                id,
                title: format!("{servers} servers, larger and larger flows"),
                axis: "largest flow, packets",
                points: (50..=190).step_by(20).map(point).collect(),
            }
        };
        [("3.15", 40), ("3.16", 100)].map(sweep).to_vec()
    }
}

/// The probability with which idle servers offer just what the link can carry (formula 14, a
/// flow's own stay neglected as in the specification's anchors).
fn full_load(servers: u32, sizes: Sizes) -> f64 {
    1.0 / (sizes.mean() * f64::from(servers))
}
