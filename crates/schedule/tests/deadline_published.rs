//! The evaluation of work 002 at reduced size, against the values that its specification's
//! prototype measured (section 7; the printed curves are lost).

#![allow(clippy::unwrap_used, reason = "what cannot go on here has failed")]

use weir_schedule::deadline::Kind;
use weir_schedule::deadline::model::{
    Arrivals, Deadlines, EarlyTermination, Estimate, Figure, Reading, Readings, Sample, Setting,
    SettingError, Sizes, Workload, figures,
};

/// Servers, mean cushion, then the share on time in percent of PDQ, PEQ by prose and by listing,
/// shortest first, D3 with state and without (section 7.2, three seeds of 10^6 slots).
const ANCHORS: [(u32, f64, [f64; 6]); 6] = [
    (40, 20.0, [61.8, 62.1, 62.1, 61.6, 55.3, 44.9]),
    (40, 60.0, [71.1, 71.6, 71.6, 69.4, 62.5, 47.5]),
    (40, 120.0, [78.6, 78.8, 78.8, 75.2, 69.7, 52.2]),
    (100, 20.0, [43.0, 43.5, 43.5, 42.9, 31.5, 16.7]),
    (100, 60.0, [50.0, 51.4, 51.3, 49.6, 34.8, 13.3]),
    (100, 120.0, [54.1, 55.9, 55.8, 54.0, 37.2, 10.0]),
];
const ANCHORED: [Kind; 6] =
    [Kind::Pdq, Kind::Peq, Kind::PeqListing, Kind::Sjf, Kind::D3Stateful, Kind::D3];
/// What the checklist allows between means of many seeds (section 11, item 8).
const TOLERANCE: f64 = 0.7;

fn closed(servers: u32, mean_slots: f64, early_termination: EarlyTermination) -> Setting {
    let deadlines = Deadlines::Exponential { mean_slots, reading: Reading::Cushion };
    let workload = Workload { sizes: Sizes::PUBLISHED, deadlines };
    let arrivals = Arrivals::ClosedLoop { servers, probability: 1.0 / 4000.0, slots: 1_000_000 };
    Setting { workload, arrivals, early_termination }
}

fn percent(setting: &Setting, kind: Kind, seeds: u64) -> f64 {
    let share = |seed| 100.0 * setting.run(kind, seed).unwrap().on_time_share();
    Estimate::of(&(0..seeds).map(share).collect::<Vec<_>>()).unwrap().mean
}

#[test]
fn the_prototypes_shares_on_time_are_met() {
    for (servers, mean, expected) in ANCHORS {
        let setting = closed(servers, mean, EarlyTermination::Hopeless);
        for (kind, expected) in ANCHORED.into_iter().zip(expected) {
            let ours = percent(&setting, kind, 4);
            let off = (ours - expected).abs();
            assert!(off < TOLERANCE, "{kind}, {servers}, {mean}: {ours:.2}, not {expected}");
        }
        let setting = closed(servers, mean, EarlyTermination::Late);
        // Section 4.2.1: removing only what is past its deadline costs 11 points and more. (The
        // prototype's own 50.2 to 27.3 are 3 to 6 points above ours; how it did that is not said.)
        let late = percent(&setting, Kind::Pdq, 4);
        assert!(late + 11.0 < expected[0], "late, {servers}, {mean}: {late:.2}");
    }
}

fn figure(id: &str, readings: &Readings) -> Figure {
    figures(readings).into_iter().find(|figure| figure.id == id).unwrap()
}

fn at(figure: &Figure, x: f64) -> Setting {
    figure.points.iter().find(|(at, _)| *at == x).unwrap().1
}

#[test]
fn the_opposed_batch_is_the_prototypes() {
    // Section 7.3: flows on time at best, under PDQ and PEQ; PEQ's mean completion time over PDQ's.
    let expected = [(10.0, [4.06, 3.41, 3.77], 0.45), (80.0, [12.96, 6.14, 12.22], 0.39)];
    let figure = figure("3.1", &Readings::default());
    for (flows, counts, ratio) in expected {
        let setting = at(&figure, flows);
        let run = |kind| setting.run(kind, 1).unwrap();
        let per_batch = |count: u64| count as f64 / 1000.0;
        let (pdq, peq) = (run(Kind::Pdq), run(Kind::Peq));
        let ours = [pdq.optimum.unwrap(), pdq.on_time, peq.on_time].map(per_batch);
        for (ours, expected) in ours.into_iter().zip(counts) {
            assert!((ours / expected - 1.0).abs() < 0.025, "{flows}: {ours}, not {expected}");
        }
        assert!((peq.completion_slots / pdq.completion_slots - ratio).abs() < 0.02);
        assert_eq!(run(Kind::Weir).on_time, pdq.optimum.unwrap());
    }
}

#[test]
fn the_batch_relative_to_the_optimum_is_the_prototypes() {
    // Section 7.2, mean 60: percent of the optimum under PDQ and PEQ.
    let expected = [(4.0, 98.7, 99.6), (8.0, 97.6, 99.1), (12.0, 97.4, 98.9)];
    let readings = Readings { instances: 5000, ..Readings::default() };
    let figure = figure("3.4", &readings);
    for (flows, pdq, peq) in expected {
        for (kind, expected) in [(Kind::Pdq, pdq), (Kind::Peq, peq)] {
            let sample = at(&figure, flows).run(kind, 1).unwrap();
            let ours = 100.0 * sample.on_time as f64 / sample.optimum.unwrap() as f64;
            assert!((ours - expected).abs() < 0.3, "{kind}, {flows}: {ours:.2}, not {expected}");
        }
    }
}

#[test]
fn literal_deadlines_leave_the_share_that_is_feasible_at_birth() {
    // Section 7.1: no policy can do more; the closed form is the mean over sizes 2 to 198 of
    // exp(-(size - 1) / m).
    for mean in [30.0, 90.0, 120.0] {
        let bound = (2..=198).map(|size| (-f64::from(size - 1) / mean).exp()).sum::<f64>() / 197.0;
        let readings = Readings { reading: Reading::Deadline, ..Readings::default() };
        let mut setting = at(&figure("3.5", &readings), 20.0);
        setting.workload.deadlines =
            Deadlines::Exponential { mean_slots: mean, reading: Reading::Deadline };
        // Servers that hardly ever send are alone on the link.
        setting.arrivals =
            Arrivals::ClosedLoop { servers: 1, probability: 1e-3, slots: 50_000_000 };
        let sample = setting.run(Kind::Weir, 1).unwrap();
        assert!((sample.on_time_share() - bound).abs() < 0.01, "{mean}: {bound}");
    }
}

#[test]
fn the_same_seed_gives_the_same_and_policies_meet_the_same_flows() {
    for figure in figures(&Readings { slots: 20_000, instances: 3, ..Readings::default() }) {
        let (x, setting) = figure.points[0];
        for kind in Kind::ALL {
            let first = setting.run(kind, 7).unwrap();
            assert_eq!(first, setting.run(kind, 7).unwrap(), "{} at {x}, {kind}", figure.id);
            assert_ne!(first, setting.run(kind, 8).unwrap(), "{} at {x}, {kind}", figure.id);
        }
    }
    // Alone on the link and never hopeless, a server's flows do not depend on the policy.
    let mut alone = closed(1, 1e6, EarlyTermination::Hopeless);
    alone.arrivals = Arrivals::ClosedLoop { servers: 1, probability: 0.01, slots: 100_000 };
    let samples: Vec<Sample> = Kind::ALL
        .into_iter()
        .filter(|kind| !matches!(kind, Kind::Fair))
        .map(|kind| alone.run(kind, 1).unwrap())
        .collect();
    assert!(samples.windows(2).all(|pair| pair[0] == pair[1]), "{samples:?}");
}

#[test]
fn settings_that_cannot_be_name_the_key() {
    let good = closed(40, 20.0, EarlyTermination::Hopeless);
    let changed = |change: &dyn Fn(&mut Setting)| {
        let mut setting = good;
        change(&mut setting);
        setting.run(Kind::Weir, 1).unwrap_err().to_string()
    };
    let none = changed(&|setting| setting.workload.sizes.low = 0);
    assert!(none.contains("from 0 to 198"), "{none}");
    for mean_slots in [0.0, -1.0, f64::NAN, f64::INFINITY] {
        let reading = Reading::Cushion;
        let error = changed(&|setting| {
            setting.workload.deadlines = Deadlines::Exponential { mean_slots, reading };
        });
        assert!(error.contains("mean_slots"), "{error}");
    }
    for probability in [0.0, 1.5, f64::NAN] {
        let error = changed(&|setting| {
            setting.arrivals = Arrivals::ClosedLoop { servers: 1, probability, slots: 1 };
        });
        assert!(error.contains("probability"), "{error}");
    }
    let error = changed(&|setting| {
        setting.arrivals = Arrivals::Batch { flows: 0, instances: 1 };
    });
    assert!(error.contains("flows is 0"), "{error}");
    let mut never = good;
    never.workload.deadlines =
        Deadlines::Exponential { mean_slots: 1e-9, reading: Reading::Redrawn };
    assert!(matches!(never.run(Kind::Weir, 1), Err(SettingError::Redrawn { .. })));
}
