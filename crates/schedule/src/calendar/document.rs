//! What snapshots have in common: JSON that is checked before it is believed.

use serde::{Deserialize, Serialize};
use weir_topology::{LinkId, Network};
use weir_units::{Bytes, Rate, Time};

use super::CalendarError;
use super::amount::{NANOBITS_PER_BYTE, Nanobits, nanobits};
use super::capacity::{Capacity, CapacityPiece};

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

/// What a link can carry over time, as a snapshot has it.
#[derive(Debug, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub(super) struct CapacityEntry {
    link: String,
    outside_bps: u64,
    pieces: Vec<CapacityPieceEntry>,
}

#[derive(Debug, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
struct CapacityPieceEntry {
    from_ns: u64,
    to_ns: u64,
    rate_bps: u64,
}

impl CapacityEntry {
    pub(super) fn of(network: &Network, link: LinkId, capacity: &Capacity) -> Self {
        let piece = |piece: &CapacityPiece| CapacityPieceEntry {
            from_ns: piece.from.as_ns(),
            to_ns: piece.to.as_ns(),
            rate_bps: piece.rate.as_bit_per_s(),
        };
        Self {
            link: network.link(link).name.clone(),
            outside_bps: capacity.outside().as_bit_per_s(),
            pieces: capacity.pieces().iter().map(piece).collect(),
        }
    }

    pub(super) fn read(&self, network: &Network) -> Result<(LinkId, Capacity), CalendarError> {
        let piece = |piece: &CapacityPieceEntry| CapacityPiece {
            from: Time::from_ns(piece.from_ns),
            to: Time::from_ns(piece.to_ns),
            rate: Rate::from_bit_per_s(piece.rate_bps),
        };
        let pieces: Vec<CapacityPiece> = self.pieces.iter().map(piece).collect();
        let capacity = Capacity::new(&pieces, Rate::from_bit_per_s(self.outside_bps))?;
        Ok((network.link_named(&self.link)?, capacity))
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
