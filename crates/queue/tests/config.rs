//! Configurations: what is refused, by which key; what is written is read again.

mod common;

use common::{DISCIPLINES, RATE, TestPacket};
use weir_queue::{DisciplineConfig, QueueError, Random};

fn refusal(json: &str) -> Result<String, serde_json::Error> {
    let config: DisciplineConfig = serde_json::from_str(json)?;
    let built = config.build::<TestPacket>(Some(RATE), Random::of_source(1, &[]));
    Ok(built.err().unwrap_or_else(|| panic!("{json} was accepted")).to_string())
}

#[test]
fn a_parameter_outside_its_domain_is_refused_by_name() {
    for (parameters, part) in [
        (r#""red", "max_probability": 1.5"#, "max_probability = 1.5"),
        (r#""red", "weight": 0"#, "weight = 0"),
        (r#""red", "min_threshold": {"packets": 9}"#, "max_threshold"),
        (r#""red", "min_threshold": {"ns": 90000000}"#, "max_threshold"),
        (r#""ared", "interval_ns": 0"#, "interval_ns = 0 "),
        (r#""pie", "target_ns": 0"#, "target_ns = 0 "),
        (r#""pie", "alpha_per_s": -1"#, "alpha_per_s = -1"),
        (r#""pie", "max_mark_probability": 2"#, "max_mark_probability = 2"),
        (r#""codel", "interval_ns": 0"#, "interval_ns"),
        (r#""fq-codel", "flows": 0"#, "flows = 0"),
        (r#""fq-codel", "quantum_bytes": 1"#, "quantum_bytes = 1"),
        (r#""curvy-red", "curviness": 0"#, "curviness = 0"),
        (r#""dual-pi2", "coupling_factor": 0"#, "coupling_factor = 0"),
        (r#""dual-pi2", "classic_weight": 1"#, "classic_weight = 1"),
        (r#""dual-pi2", "update_interval_ns": 0"#, "update_interval_ns"),
        (r#""dual-curvy-red", "threshold": {"bytes": 5}"#, "threshold = 5 bytes"),
        (r#""token-bucket", "rate_bps": 0, "burst_bytes": 1"#, "rate_bps = 0"),
        (r#""policer", "rate_bps": 1, "burst_bytes": 0"#, "burst_bytes = 0"),
        (
            r#""policer", "rate_bps": 9, "burst_bytes": 9, "peak_rate_bps": 9"#,
            "peak_rate_bps = 9: a rate above rate is allowed",
        ),
        (
            r#""token-bucket", "rate_bps": 8, "burst_bytes": 9, "peak_rate_bps": 9"#,
            "peak_burst_bytes = 0: a burst of more than 0 is allowed, together with peak_rate",
        ),
        (
            r#""token-bucket", "rate_bps": 8, "burst_bytes": 9, "peak_burst_bytes": 9"#,
            "peak_rate_bps = 0",
        ),
        (r#""phantom", "drain_fraction": 1.1"#, "drain_fraction = 1.1"),
        (r#""phantom", "threshold": {"packets": 5}"#, "threshold"),
        (r#""priority", "classes": [[1], [2]]"#, "one class takes all other"),
        (r#""priority", "classes": [[], [64]]"#, "classes = 64"),
        (r#""drr", "classes": [{"weight": 0}]"#, "classes.weight = 0"),
        (r#""wfq", "classes": []"#, "classes = 0"),
    ] {
        let message = refusal(&format!(r#"{{"discipline": {parameters}}}"#)).expect(parameters);
        assert!(message.contains(part), "{parameters} gave {message:?}, expected {part:?}");
    }
}

#[test]
fn an_unknown_key_is_refused_by_every_discipline() {
    for (name, json) in DISCIPLINES {
        let json = json.replacen('{', r#"{"colour": "red", "#, 1);
        let error = serde_json::from_str::<DisciplineConfig>(&json).expect_err(name).to_string();
        assert!(error.contains("colour"), "{name}: {error}");
    }
}

#[test]
fn what_depends_on_a_rate_says_so_without_one() {
    for discipline in ["red", "ared", "phantom"] {
        let json = format!(r#"{{"discipline": "{discipline}"}}"#);
        let config: DisciplineConfig = serde_json::from_str(&json).expect(discipline);
        let built = config.build::<TestPacket>(None, Random::of_source(1, &[]));
        assert!(matches!(built.err(), Some(QueueError::NoRate { .. })), "{discipline}");
    }
}

#[test]
fn what_is_written_is_read_again() {
    for (name, json) in DISCIPLINES {
        let config: DisciplineConfig = serde_json::from_str(json).expect(name);
        let text = serde_json::to_string(&config).expect(name);
        assert_eq!(serde_json::from_str::<DisciplineConfig>(&text).expect(name), config, "{text}");
    }
}
