//! Amounts of data in nanobits (10^-9 bit): what 1 bit/s moves in 1 ns. A rate times a span is then
//! a whole number, and nothing is rounded while a transfer runs.

use weir_units::Bytes;

/// An amount of data in nanobits.
pub(crate) type Nanobits = u128;

/// One byte.
pub(crate) const NANOBITS_PER_BYTE: u64 = 8_000_000_000;

/// What is reserved beyond what remains: the world's clock and a plan's round times differently,
/// and a transfer that is over by its plan may have some bits to go there.
const UNREPORTED: Nanobits = 1000 * NANOBITS_PER_BYTE as Nanobits;

/// So many bytes.
pub(crate) fn nanobits(size: Bytes) -> Nanobits {
    Nanobits::from(size.count()) * Nanobits::from(NANOBITS_PER_BYTE)
}

/// What a plan reserves for so much.
pub(crate) fn promised(remaining: Nanobits) -> Nanobits {
    remaining + UNREPORTED
}
