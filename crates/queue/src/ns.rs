//! Serde for times as whole nanoseconds, for keys that end in `_ns`.

use serde::{Deserialize, Deserializer, Serializer};
use weir_units::Time;

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde hands over references")]
pub(crate) fn serialize<S: Serializer>(value: &Time, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_u64(value.as_ns())
}

pub(crate) fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Time, D::Error> {
    u64::deserialize(deserializer).map(Time::from_ns)
}
