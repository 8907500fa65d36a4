//! What a scenario says of an application: names, kinds, bounds and defaults of its parameters.

use serde_json::{Value, json};

use crate::config::{
    game_clients, game_think_ns, one, page_connections, page_objects, page_root,
    piv_command_interval_ns, piv_frames_per_s, piv_in_flight_max, piv_rate_bps, rpc_reply,
    rpc_request, video_caution, video_samples, web_least, web_most, web_shape,
};

/// What the send buffer of a host holds.
const SIZE_MAX: u64 = 64 << 20;
/// Connections of one browser, objects of one page, and other things that are counted.
const COUNT_MAX: u32 = 10_000;

/// Every application that a scenario can name, as JSON: `[{"kind", "nagle": whether its programs
/// leave Nagle's algorithm on, "opener": "client", or "sender" of what is sent, "parameters":
/// [{"name", "key": in [`ApplicationConfig`](crate::ApplicationConfig), "kind", "least", "most",
/// "default": null where it must be given}]}]`. Numbers are of the key's unit.
///
/// A parameter is of the kind `time` (above 0), `pause` (a time from 0), `size` (above 0), `rate`,
/// `per-second` (a time, whose inverse the key takes), `positive` (a number above 0), `number`
/// (from 0), `count` (whole, from `least` to `most`) or `flag`.
pub fn parameters() -> Value {
    json!([
        told(
            "web",
            true,
            "client",
            [vec![given("interval", "requests_per_s", "per-second")], objects()]
        ),
        told("pages", true, "client", [pages(), objects()]),
        told("video", true, "client", [video()]),
        told("messages", false, "sender", [messages()]),
        told("game", false, "client", [game()]),
        told("piv", false, "client", [panorama()]),
        told("rpc", false, "client", [calls()]),
    ])
}

fn told<const N: usize>(kind: &str, nagle: bool, opener: &str, parts: [Vec<Value>; N]) -> Value {
    json!({"kind": kind, "nagle": nagle, "opener": opener, "parameters": parts.concat()})
}

/// Sizes of objects, which follow a truncated Pareto law.
fn objects() -> Vec<Value> {
    vec![
        value("shape", "shape", "positive", web_shape()),
        size("smallest", "least_bytes", web_least()),
        size("largest", "most_bytes", web_most()),
    ]
}

fn pages() -> Vec<Value> {
    vec![
        given("interval", "interval_ns", "time"),
        size("root", "root_bytes", page_root()),
        count("objects", "objects", [0, COUNT_MAX], page_objects()),
        count("connections", "connections", [1, 256], page_connections()),
    ]
}

fn video() -> Vec<Value> {
    vec![
        count("samples", "samples", [1, 1000], video_samples()),
        value("caution", "caution", "number", video_caution()),
        value("of_both", "of_both", "flag", false),
    ]
}

fn messages() -> Vec<Value> {
    vec![
        bounded("size", "size_bytes", "size", [1, SIZE_MAX], None::<u64>),
        given("interval", "interval_ns", "time"),
        value("from_end", "from_end", "flag", false),
    ]
}

fn game() -> Vec<Value> {
    vec![
        count("clients", "clients", [1, COUNT_MAX], game_clients()),
        value("think", "think_ns", "time", game_think_ns()),
    ]
}

fn panorama() -> Vec<Value> {
    vec![
        value("rate", "rate_bps", "rate", piv_rate_bps()),
        count("frames_per_s", "frames_per_s", [1, 1000], piv_frames_per_s()),
        count("in_flight", "in_flight_max", [1, 1000], piv_in_flight_max()),
        value("command_interval", "command_interval_ns", "time", piv_command_interval_ns()),
    ]
}

fn calls() -> Vec<Value> {
    vec![
        count("concurrency", "concurrency", [1, 65_536], one()),
        size("request", "request_bytes", rpc_request()),
        size("reply", "reply_bytes", rpc_reply()),
        value("service", "service_ns", "pause", 0),
    ]
}

fn given(name: &str, key: &str, kind: &str) -> Value {
    value(name, key, kind, Value::Null)
}

fn value(name: &str, key: &str, kind: &str, default: impl Into<Value>) -> Value {
    let default = default.into();
    json!({"name": name, "key": key, "kind": kind, "least": null, "most": null, "default": default})
}

fn size(name: &str, key: &str, default: u64) -> Value {
    bounded(name, key, "size", [1, SIZE_MAX], Some(default))
}

fn count(name: &str, key: &str, bounds: [u32; 2], default: u32) -> Value {
    bounded(name, key, "count", bounds.map(u64::from), Some(default))
}

fn bounded<T: Into<Value>>(
    name: &str,
    key: &str,
    kind: &str,
    [least, most]: [u64; 2],
    default: Option<T>,
) -> Value {
    let default: Value = default.map_or(Value::Null, Into::into);
    json!({
        "name": name, "key": key, "kind": kind, "least": least, "most": most, "default": default,
    })
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use serde_json::Map;

    use super::*;
    use crate::ApplicationConfig;

    fn entries() -> Vec<Value> {
        parameters().as_array().unwrap().clone()
    }

    /// The application with its keys: those that must be there, or all.
    fn read(entry: &Value, with_defaults: bool) -> ApplicationConfig {
        let mut config = Map::from_iter([("kind".to_owned(), entry["kind"].clone())]);
        for one in entry["parameters"].as_array().unwrap() {
            let key = one["key"].as_str().unwrap().to_owned();
            if one["default"].is_null() {
                config.insert(key, 1.into());
            } else if with_defaults {
                config.insert(key, one["default"].clone());
            }
        }
        serde_json::from_value(config.into()).unwrap()
    }

    #[test]
    fn the_parameters_are_keys_of_the_configurations_with_their_defaults() {
        for entry in entries() {
            let (short, whole) = (read(&entry, false), read(&entry, true));
            assert_eq!(format!("{short:?}"), format!("{whole:?}"));
            assert_eq!(whole.opener_receives(), entry["opener"] == "client", "{whole:?}");
        }
    }

    /// What is debugged names every field, so none is left out.
    #[test]
    fn every_key_of_an_application_is_told() {
        for entry in entries() {
            let shown = without_tcp(&format!("{:?}", read(&entry, true)));
            let fields: BTreeSet<&str> = shown
                .split([' ', '{', '}', ','])
                .filter_map(|word| word.strip_suffix(':'))
                .collect();
            let listed = entry["parameters"].as_array().unwrap();
            let told = listed.iter().map(|one| one["key"].as_str().unwrap()).collect();
            assert_eq!(fields, told, "{shown}");
        }
    }

    fn without_tcp(shown: &str) -> String {
        let (before, rest) = shown.split_once("tcp: TcpConfig {").unwrap();
        let (_, after) = rest.split_once('}').unwrap();
        format!("{before}{after}")
    }

    #[test]
    fn all_applications_are_told_but_those_that_scenarios_name_otherwise() {
        let told: BTreeSet<String> =
            entries().iter().map(|one| one["kind"].as_str().unwrap().to_owned()).collect();
        let others = ["bulk", "writes"];
        let known = ApplicationConfig::KINDS.into_iter().filter(|kind| !others.contains(kind));
        assert_eq!(told, known.map(str::to_owned).collect());
    }
}
