//! Reading and printing quantities exactly, in decimal, without a detour through floating point.

use std::fmt;

/// Why a text is not the quantity it was read as.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ParseError {
    /// Nothing was written.
    #[error("a {kind} is empty; write it like \"{example}\"")]
    Empty {
        /// What was expected: "time", "rate" or "size".
        kind: &'static str,
        /// A text that would have been accepted.
        example: &'static str,
    },
    /// The text does not begin with a decimal number.
    #[error("\"{text}\" has no number; write a {kind} like \"{example}\"")]
    Number {
        /// The text as given.
        text: String,
        /// What was expected.
        kind: &'static str,
        /// A text that would have been accepted.
        example: &'static str,
    },
    /// The number is negative.
    #[error("\"{text}\" is negative; a {kind} is zero or more")]
    Negative {
        /// The text as given.
        text: String,
        /// What was expected.
        kind: &'static str,
    },
    /// A number stands alone.
    #[error("\"{text}\" has no unit; write a {kind} like \"{example}\"")]
    NoUnit {
        /// The text as given.
        text: String,
        /// What was expected.
        kind: &'static str,
        /// A text that would have been accepted.
        example: &'static str,
    },
    /// The unit is not one of this quantity's.
    #[error("\"{unit}\" in \"{text}\" is not a unit of {kind}; use one of {known}")]
    Unit {
        /// The unit as given.
        unit: String,
        /// The text as given.
        text: String,
        /// What was expected.
        kind: &'static str,
        /// The units that are accepted.
        known: String,
    },
    /// The value does not fit 64 bits of the base unit.
    #[error("\"{text}\" is too large for a {kind}")]
    TooLarge {
        /// The text as given.
        text: String,
        /// What was expected.
        kind: &'static str,
    },
}

/// Spelling and how many base units it stands for; the first of a value is the one advertised.
pub(crate) type Units = &'static [(&'static str, u64)];

pub(crate) const TIME_UNITS: Units = &[
    ("ns", 1),
    ("us", 1_000),
    ("µs", 1_000),
    ("ms", 1_000_000),
    ("s", 1_000_000_000),
    ("min", 60_000_000_000),
    ("h", 3_600_000_000_000),
    ("d", 86_400_000_000_000),
];

pub(crate) const RATE_UNITS: Units = &[
    ("bit/s", 1),
    ("kbit/s", 1_000),
    ("Mbit/s", 1_000_000),
    ("Gbit/s", 1_000_000_000),
    ("Tbit/s", 1_000_000_000_000),
    ("B/s", 8),
    ("kB/s", 8_000),
    ("MB/s", 8_000_000),
    ("GB/s", 8_000_000_000),
    ("bps", 1),
    ("kbps", 1_000),
    ("Mbps", 1_000_000),
    ("Gbps", 1_000_000_000),
];

pub(crate) const SIZE_UNITS: Units = &[
    ("B", 1),
    ("kB", 1_000),
    ("MB", 1_000_000),
    ("GB", 1_000_000_000),
    ("TB", 1_000_000_000_000),
    ("KiB", 1 << 10),
    ("MiB", 1 << 20),
    ("GiB", 1 << 30),
    ("TiB", 1 << 40),
];

fn example(kind: &str) -> &'static str {
    match kind {
        "time" => "65 ms",
        "rate" => "500 Mbit/s",
        _ => "14 GB",
    }
}

/// Reads `text` as a number and a unit of `units`, rounded to the nearest base unit.
pub(crate) fn quantity(text: &str, kind: &'static str, units: Units) -> Result<u64, ParseError> {
    let trimmed = text.trim();
    let (given, example) = (|| trimmed.to_owned(), example(kind));
    if trimmed.is_empty() {
        return Err(ParseError::Empty { kind, example });
    }
    if trimmed.starts_with('-') {
        return Err(ParseError::Negative { text: given(), kind });
    }
    let unit_at = trimmed.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(trimmed.len());
    let (number, unit) = (&trimmed[..unit_at], trimmed[unit_at..].trim_start());
    let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
    if (whole.is_empty() && fraction.is_empty()) || fraction.contains('.') {
        return Err(ParseError::Number { text: given(), kind, example });
    }
    if unit.is_empty() {
        return Err(ParseError::NoUnit { text: given(), kind, example });
    }
    let Some(&(_, factor)) = units.iter().find(|(name, _)| *name == unit) else {
        let known = units.iter().map(|(name, _)| *name).collect::<Vec<_>>().join(", ");
        let unit = unit.to_owned();
        return Err(ParseError::Unit { unit, text: given(), kind, known });
    };
    exact(whole, fraction, factor).ok_or_else(|| ParseError::TooLarge { text: given(), kind })
}

/// `whole.fraction × factor`, rounded half up; `None` when it does not fit.
fn exact(whole: &str, fraction: &str, factor: u64) -> Option<u64> {
    // 18 decimals are more than any unit here resolves, and keep the product within 128 bits.
    let kept = &fraction[..fraction.len().min(18)];
    let scale = 10u128.pow(kept.len() as u32);
    let digits = |text: &str| if text.is_empty() { Ok(0) } else { text.parse::<u64>() };
    let whole = u128::from(digits(whole).ok()?) * u128::from(factor);
    let part = (u128::from(digits(kept).ok()?) * u128::from(factor) + scale / 2) / scale;
    u64::try_from(whole.checked_add(part)?).ok()
}

/// Prints `value` in the largest of `units` (descending) that loses nothing past three decimals.
pub(crate) fn print(
    out: &mut fmt::Formatter<'_>,
    value: u64,
    units: &[(&str, u64)],
) -> fmt::Result {
    let exact =
        |factor: u64| value >= factor && (factor == 1 || value.is_multiple_of(factor / 1_000));
    let smallest = units[units.len() - 1];
    let (unit, factor) = units.iter().copied().find(|&(_, f)| exact(f)).unwrap_or(smallest);
    let (whole, rest) = (value / factor, value % factor);
    if rest == 0 {
        return out.pad(&format!("{whole} {unit}"));
    }
    let decimals = format!("{:03}", rest / (factor / 1_000));
    out.pad(&format!("{whole}.{} {unit}", decimals.trim_end_matches('0')))
}
