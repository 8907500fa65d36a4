//! Any sequence of calls to any queue discipline, against the invariants of the property test
//! `every_discipline_keeps_its_contract` in `crates/queue/tests/properties.rs`.

#![no_main]

use libfuzzer_sys::fuzz_target;

#[path = "../../crates/queue/tests/common/mod.rs"]
mod common;

use common::DISCIPLINES;
use common::calls::{Call, play};

fuzz_target!(|bytes: &[u8]| {
    let Some((first, calls)) = bytes.split_first() else { return };
    let (_, json) = DISCIPLINES[usize::from(*first) % DISCIPLINES.len()];
    let config = serde_json::from_str(json).expect("a discipline of the table");
    let (calls, _) = calls.as_chunks();
    play(&config, &calls.iter().map(|bytes| Call::of_bytes(*bytes)).collect::<Vec<_>>());
});
