//! The parameters of every discipline, for whoever reads, checks or describes configurations.

use serde_json::{Map, Value, json};
use weir_units::Rate;

use crate::{DisciplineConfig, Limit};

/// What a parameter's value is, and how a configuration's key says so.
#[derive(Clone, Copy, Debug)]
enum Kind {
    Time,
    Size,
    Rate,
    PerSecond,
    Number,
    Count,
    Flag,
    Amount,
    Choice(&'static [&'static str]),
    /// Lists of DSCPs.
    Classes,
    /// Lists of DSCPs with weights.
    WeightedClasses,
}

/// One parameter. The default is that of the configuration's type.
#[derive(Clone, Copy, Debug)]
struct Parameter {
    name: &'static str,
    kind: Kind,
    /// What holds where there is no default value: `REQUIRED` where it must be given.
    unset: Option<&'static str>,
}

const REQUIRED: &str = "required";

const fn of(name: &'static str, kind: Kind) -> Parameter {
    Parameter { name, kind, unset: None }
}

const fn unset(name: &'static str, kind: Kind, unset: &'static str) -> Parameter {
    Parameter { name, kind, unset: Some(unset) }
}

const TARGET: Parameter = of("target", Kind::Time);
const INTERVAL: Parameter = of("interval", Kind::Time);
const ECN: Parameter = of("ecn", Kind::Flag);
const CE_THRESHOLD: Parameter = unset("ce_threshold", Kind::Time, "never");
const WEIGHTED: Parameter = of("classes", Kind::WeightedClasses);
const QUANTUM: Parameter = of("quantum", Kind::Size);
const MEAN_PACKET: Parameter = of("mean_packet", Kind::Size);
const COUPLING_FACTOR: Parameter = of("coupling_factor", Kind::Number);
const CLASSIFIER: Parameter = of("classifier", Kind::Choice(&["l4s", "any-ect"]));
const DERANDOMIZE: Parameter = of("derandomize", Kind::Flag);
const SCHEDULER: Parameter =
    of("scheduler", Kind::Choice(&["strict", "time-shifted-fifo", "weighted"]));
const TIME_SHIFT: Parameter = of("time_shift", Kind::Time);
const CLASSIC_WEIGHT: Parameter = of("classic_weight", Kind::Number);
const FROM_TARGET: &str = "from `target` and `rtt_max`";

const BUCKET: &[Parameter] = &[
    unset("rate", Kind::Rate, REQUIRED),
    unset("burst", Kind::Size, REQUIRED),
    unset("peak_rate", Kind::Rate, "none"),
    unset("peak_burst", Kind::Size, "none"),
];
const RED: &[Parameter] = &[
    of("min_threshold", Kind::Amount),
    of("max_threshold", Kind::Amount),
    of("max_probability", Kind::Number),
    of("weight", Kind::Number),
    of("gentle", Kind::Flag),
    ECN,
    of("hard_drop", Kind::Flag),
    of("byte_mode", Kind::Flag),
    MEAN_PACKET,
];
const PIE: &[Parameter] = &[
    TARGET,
    of("update_interval", Kind::Time),
    of("alpha", Kind::PerSecond),
    of("beta", Kind::PerSecond),
    of("max_burst", Kind::Time),
    ECN,
    of("max_mark_probability", Kind::Number),
    of("byte_mode", Kind::Flag),
    DERANDOMIZE,
    of("activity_gate", Kind::Flag),
    of("delay_estimate", Kind::Choice(&["timestamp", "departure-rate"])),
    of("variant", Kind::Choice(&["rfc8033", "linux", "linux-3.18"])),
];
const FQ_CODEL: &[Parameter] = &[
    TARGET,
    INTERVAL,
    ECN,
    CE_THRESHOLD,
    of("flows", Kind::Count),
    QUANTUM,
    unset("perturbation", Kind::Count, "of the hash random"),
];
const CURVY_RED: &[Parameter] = &[
    of("range", Kind::Time),
    of("min_threshold", Kind::Time),
    of("smoothing", Kind::Count),
    of("curviness", Kind::Count),
    COUPLING_FACTOR,
    CLASSIFIER,
];
const DUAL_PI2: &[Parameter] = &[
    TARGET,
    of("rtt_max", Kind::Time),
    unset("update_interval", Kind::Time, FROM_TARGET),
    unset("alpha", Kind::PerSecond, FROM_TARGET),
    unset("beta", Kind::PerSecond, FROM_TARGET),
    COUPLING_FACTOR,
    of("min_threshold", Kind::Time),
    of("ramp", Kind::Time),
    of("min_backlog_packets", Kind::Count),
    SCHEDULER,
    CLASSIC_WEIGHT,
    TIME_SHIFT,
    CLASSIFIER,
    DERANDOMIZE,
    of("drop_on_overload", Kind::Flag),
];
const DUAL_CURVY_RED: &[Parameter] = &[
    of("range", Kind::Time),
    of("min_threshold", Kind::Time),
    of("smoothing", Kind::Count),
    of("curviness", Kind::Count),
    COUPLING_FACTOR,
    CLASSIFIER,
    of("threshold", Kind::Amount),
    of("coupling_input", Kind::Choice(&["max", "average", "head"])),
    SCHEDULER,
    CLASSIC_WEIGHT,
    TIME_SHIFT,
];

/// Every discipline with its parameters beside `limit`, which all have.
const DISCIPLINES: &[(&str, &[Parameter])] = &[
    ("fifo", &[]),
    ("priority", &[of("classes", Kind::Classes)]),
    ("wrr", &[WEIGHTED]),
    ("drr", &[WEIGHTED, QUANTUM]),
    ("wfq", &[WEIGHTED]),
    ("red", RED),
    ("ared", &[TARGET, INTERVAL, ECN, MEAN_PACKET]),
    ("pie", PIE),
    ("codel", &[TARGET, INTERVAL, ECN, CE_THRESHOLD]),
    ("fq-codel", FQ_CODEL),
    ("curvy-red", CURVY_RED),
    ("dual-pi2", DUAL_PI2),
    ("dual-curvy-red", DUAL_CURVY_RED),
    ("token-bucket", BUCKET),
    ("policer", BUCKET),
    ("phantom", &[of("drain_fraction", Kind::Number), of("threshold", Kind::Amount)]),
];

impl Kind {
    /// Its name, and what a configuration's key has behind the parameter's name: the unit.
    const fn words(self) -> (&'static str, &'static str) {
        match self {
            Self::Time => ("time", "_ns"),
            Self::Size => ("size", "_bytes"),
            Self::Rate => ("rate", "_bps"),
            Self::PerSecond => ("per-second", "_per_s"),
            Self::Number => ("number", ""),
            Self::Count => ("count", ""),
            Self::Flag => ("flag", ""),
            Self::Amount => ("amount", ""),
            Self::Choice(_) => ("choice", ""),
            Self::Classes => ("classes", ""),
            Self::WeightedClasses => ("weighted-classes", ""),
        }
    }
}

impl Parameter {
    fn key(self) -> String {
        format!("{}{}", self.name, self.kind.words().1)
    }

    /// As JSON, with the default that `config` has.
    fn json(self, config: &Value) -> Value {
        let choices: &[&str] = if let Kind::Choice(choices) = self.kind { choices } else { &[] };
        let default = if self.unset.is_some() { &Value::Null } else { &config[self.key()] };
        json!({
            "name": self.name,
            "key": self.key(),
            "kind": self.kind.words().0,
            "choices": choices,
            "required": self.unset == Some(REQUIRED),
            "default": default,
            "unset": self.unset,
        })
    }
}

/// A discipline with nothing given but what must be.
fn plain(discipline: &str, parameters: &[Parameter]) -> DisciplineConfig {
    let mut given = Map::from_iter([("discipline".to_owned(), discipline.into())]);
    let required = parameters.iter().filter(|parameter| parameter.unset == Some(REQUIRED));
    given.extend(required.map(|parameter| (parameter.key(), 1.into())));
    serde_json::from_value(given.into()).expect("what is required is given")
}

/// Every discipline as JSON: `[{"discipline", "limits_itself": whether it has a limit by default,
/// "parameters": [{"name", "key": in a configuration, "kind", "choices", "required", "default",
/// "unset": what holds where there is no default value}]}]`.
pub fn parameters() -> Value {
    let described = |(discipline, parameters): &(&str, &[Parameter])| {
        let config = plain(discipline, parameters);
        let limit = config.limit(Some(Rate::from_mbit_per_s(100)));
        let values = serde_json::to_value(&config).expect("a configuration has a JSON form");
        let listed = parameters.iter().map(|parameter| parameter.json(&values));
        json!({
            "discipline": discipline,
            "limits_itself": limit != Limit::None,
            "parameters": listed.collect::<Vec<_>>(),
        })
    };
    DISCIPLINES.iter().map(described).collect()
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn the_parameters_are_the_keys_of_the_configurations() {
        for (discipline, parameters) in DISCIPLINES {
            let values = serde_json::to_value(plain(discipline, parameters)).unwrap();
            let keys: BTreeSet<String> = values.as_object().unwrap().keys().cloned().collect();
            let mut told: BTreeSet<String> = parameters.iter().map(|one| one.key()).collect();
            assert_eq!(told.len(), parameters.len(), "{discipline} has one twice");
            told.extend(["discipline".to_owned(), "limit".to_owned()]);
            assert_eq!(told, keys, "{discipline}");
        }
    }

    /// Serde's message on an unknown name lists the known ones.
    #[test]
    fn choices_and_disciplines_are_all_that_there_are() {
        let refused = |value: Value| {
            let error = serde_json::from_value::<DisciplineConfig>(value).unwrap_err().to_string();
            let words: Vec<&str> = error.split('`').skip(3).step_by(2).collect();
            words.into_iter().map(str::to_owned).collect::<BTreeSet<_>>()
        };
        let named = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect();
        let disciplines: Vec<&str> = DISCIPLINES.iter().map(|(name, _)| *name).collect();
        let known: BTreeSet<String> = named(&disciplines);
        assert_eq!(refused(json!({"discipline": "?"})), known);
        for (discipline, parameters) in DISCIPLINES {
            for parameter in *parameters {
                if let Kind::Choice(choices) = parameter.kind {
                    let given = json!({"discipline": discipline, parameter.name: "?"});
                    let known: BTreeSet<String> = named(choices);
                    assert_eq!(refused(given), known, "{discipline} {}", parameter.name);
                }
            }
        }
    }

    #[test]
    fn defaults_are_values_but_where_it_says_what_holds_instead() {
        for discipline in parameters().as_array().unwrap() {
            for parameter in discipline["parameters"].as_array().unwrap() {
                let is_value = !parameter["default"].is_null();
                assert_eq!(is_value, parameter["unset"].is_null(), "{parameter}");
            }
        }
    }
}
