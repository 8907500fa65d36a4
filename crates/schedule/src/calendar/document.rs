//! What snapshots have in common: JSON that is checked before it is believed.

use serde::{Deserialize, Serialize};
use weir_units::Bytes;

use super::CalendarError;
use super::amount::{NANOBITS_PER_BYTE, Nanobits, nanobits};

#[derive(Deserialize)]
struct Header {
    version: u64,
}

/// An amount of data as a snapshot has it: whole bytes, and the part of a further one in 10^-9 bit.
#[derive(Clone, Copy, Debug, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Amount {
    pub(super) bytes: u64,
    pub(super) nanobits: u64,
}

impl Amount {
    pub(super) fn of(amount: Nanobits) -> Self {
        let per_byte = Nanobits::from(NANOBITS_PER_BYTE);
        let narrow =
            |part: Nanobits| u64::try_from(part).expect("what remains is at most the size");
        Self { bytes: narrow(amount / per_byte), nanobits: narrow(amount % per_byte) }
    }

    /// What was written, unless it is no amount or more than that many bytes.
    pub(super) fn up_to(self, bytes: u64) -> Option<Nanobits> {
        let amount = nanobits(Bytes::new(self.bytes)) + Nanobits::from(self.nanobits);
        let is_sound = self.nanobits < NANOBITS_PER_BYTE && amount <= nanobits(Bytes::new(bytes));
        is_sound.then_some(amount)
    }
}

/// The document of that version.
///
/// # Errors
/// Another version, or text that is no such document; the error names the place.
pub(super) fn read_version<'a, T: Deserialize<'a>>(
    text: &'a str,
    version: u64,
) -> Result<T, CalendarError> {
    let header: Header = read(text)?;
    if header.version != version {
        return Err(CalendarError::SnapshotVersion { found: header.version, readable: version });
    }
    read(text)
}

fn read<'a, T: Deserialize<'a>>(text: &'a str) -> Result<T, CalendarError> {
    let mut reader = serde_json::Deserializer::from_str(text);
    let value = serde_path_to_error::deserialize(&mut reader)
        .map_err(|error| wrong(&error.path().to_string(), &error.inner().to_string()))?;
    reader.end().map_err(|error| wrong("after the document", &error.to_string()))?;
    Ok(value)
}

pub(super) fn wrong(place: &str, reason: &str) -> CalendarError {
    CalendarError::Snapshot { place: place.to_owned(), reason: reason.to_owned() }
}

impl CalendarError {
    /// The same error, placed in an entry of a list.
    pub(super) fn within(self, list: &str, index: usize) -> Self {
        match self {
            Self::Snapshot { place, reason } => {
                Self::Snapshot { place: format!("{list}[{index}].{place}"), reason }
            }
            other => wrong(&format!("{list}[{index}]"), &other.to_string()),
        }
    }
}
