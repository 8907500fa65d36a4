//! The three quantities that every part of Weir speaks in: [`Time`], [`Rate`] and [`Bytes`].
//!
//! Each is a whole number of its base unit (nanosecond, bit per second, byte), so that the same
//! computation gives the same bits on every machine. Prefixes are decimal (1 MB = 10^6 B) unless
//! written with an `i` (1 MiB = 2^20 B). Text is parsed with [`str::parse`] and printed in the
//! largest unit that keeps the value exact to three decimals; a bare number is an error, because
//! a number without a unit is how a megabit becomes a megabyte.

mod parse;

pub use parse::ParseError;

use std::fmt;
use std::ops::{Add, AddAssign, Sub, SubAssign};
use std::str::FromStr;

const NS_PER_S: u128 = 1_000_000_000;
const BITS_PER_BYTE: u128 = 8;

/// An instant or a span in nanoseconds; instants count from the origin of the world in use.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Time(u64);

/// A data rate in bits per second.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Rate(u64);

/// An amount of data in bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Bytes(u64);

impl Time {
    /// The origin, or the empty span.
    pub const ZERO: Self = Self(0);
    /// The far end of time, about 584 years; used as "never".
    pub const MAX: Self = Self(u64::MAX);

    /// A time of `ns` nanoseconds.
    #[inline]
    pub const fn from_ns(ns: u64) -> Self {
        Self(ns)
    }

    /// A time of `us` microseconds, saturating at [`Time::MAX`].
    pub const fn from_us(us: u64) -> Self {
        Self(us.saturating_mul(1_000))
    }

    /// A time of `ms` milliseconds, saturating at [`Time::MAX`].
    pub const fn from_ms(ms: u64) -> Self {
        Self(ms.saturating_mul(1_000_000))
    }

    /// A time of `s` seconds, rounded to the nearest nanosecond; negative and NaN give zero.
    pub fn from_s(s: f64) -> Self {
        // A float-to-integer `as` cast saturates and maps NaN to zero.
        Self((s * NS_PER_S as f64).round() as u64)
    }

    /// Nanoseconds.
    #[inline]
    pub const fn as_ns(self) -> u64 {
        self.0
    }

    /// Seconds, as the nearest double.
    pub fn as_s(self) -> f64 {
        self.0 as f64 / NS_PER_S as f64
    }

    /// Sum, or `None` past [`Time::MAX`].
    pub fn checked_add(self, other: Self) -> Option<Self> {
        self.0.checked_add(other.0).map(Self)
    }

    /// Sum, at most [`Time::MAX`].
    #[inline]
    pub const fn saturating_add(self, other: Self) -> Self {
        Self(self.0.saturating_add(other.0))
    }

    /// Difference, at least zero.
    #[inline]
    pub const fn saturating_sub(self, other: Self) -> Self {
        Self(self.0.saturating_sub(other.0))
    }
}

impl Rate {
    /// No data at all.
    pub const ZERO: Self = Self(0);
    /// The largest rate, used as "unlimited".
    pub const MAX: Self = Self(u64::MAX);

    /// A rate of `bit_per_s` bits per second.
    #[inline]
    pub const fn from_bit_per_s(bit_per_s: u64) -> Self {
        Self(bit_per_s)
    }

    /// A rate of `mbit_per_s` megabits (10^6 bits) per second, saturating.
    pub const fn from_mbit_per_s(mbit_per_s: u64) -> Self {
        Self(mbit_per_s.saturating_mul(1_000_000))
    }

    /// Bits per second.
    #[inline]
    pub const fn as_bit_per_s(self) -> u64 {
        self.0
    }

    /// The time this rate needs for `size`, rounded up so that the data is surely through;
    /// [`Time::MAX`] at rate zero.
    pub fn time_for(self, size: Bytes) -> Time {
        if size.0 == 0 {
            return Time::ZERO;
        }
        if self.0 == 0 {
            return Time::MAX;
        }
        let bits_ns = size.0 as u128 * BITS_PER_BYTE * NS_PER_S;
        Time(u64::try_from(bits_ns.div_ceil(self.0 as u128)).unwrap_or(u64::MAX))
    }

    /// The whole bytes this rate carries in `span`, rounded down, saturating.
    pub fn bytes_in(self, span: Time) -> Bytes {
        let bytes = self.0 as u128 * span.0 as u128 / (BITS_PER_BYTE * NS_PER_S);
        Bytes(u64::try_from(bytes).unwrap_or(u64::MAX))
    }

    /// The smallest rate that carries `size` within `span`; `None` when `span` is zero and
    /// `size` is not, or when no rate is high enough.
    pub fn needed(size: Bytes, span: Time) -> Option<Self> {
        if size.0 == 0 {
            return Some(Self::ZERO);
        }
        if span.0 == 0 {
            return None;
        }
        let bits_ns = size.0 as u128 * BITS_PER_BYTE * NS_PER_S;
        u64::try_from(bits_ns.div_ceil(span.0 as u128)).ok().map(Self)
    }

    /// Sum, at most [`Rate::MAX`].
    #[inline]
    pub const fn saturating_add(self, other: Self) -> Self {
        Self(self.0.saturating_add(other.0))
    }

    /// Difference, at least zero.
    #[inline]
    pub const fn saturating_sub(self, other: Self) -> Self {
        Self(self.0.saturating_sub(other.0))
    }
}

impl Bytes {
    /// Nothing.
    pub const ZERO: Self = Self(0);
    /// The largest amount, used as "unlimited".
    pub const MAX: Self = Self(u64::MAX);

    /// An amount of `count` bytes.
    #[inline]
    pub const fn new(count: u64) -> Self {
        Self(count)
    }

    /// The number of bytes.
    #[inline]
    pub const fn count(self) -> u64 {
        self.0
    }

    /// Sum, at most [`Bytes::MAX`].
    #[inline]
    pub const fn saturating_add(self, other: Self) -> Self {
        Self(self.0.saturating_add(other.0))
    }

    /// Difference, at least zero.
    #[inline]
    pub const fn saturating_sub(self, other: Self) -> Self {
        Self(self.0.saturating_sub(other.0))
    }
}

/// `+` and `-` panic on overflow in every build: a wrapped time or rate is never what was meant.
macro_rules! arithmetic {
    ($($type:ident),*) => {$(
        impl Add for $type {
            type Output = Self;
            #[inline]
            fn add(self, other: Self) -> Self {
                Self(self.0.checked_add(other.0).expect(concat!(stringify!($type), " overflow")))
            }
        }
        impl AddAssign for $type {
            #[inline]
            fn add_assign(&mut self, other: Self) {
                *self = *self + other;
            }
        }
        impl Sub for $type {
            type Output = Self;
            #[inline]
            fn sub(self, other: Self) -> Self {
                Self(self.0.checked_sub(other.0).expect(concat!(stringify!($type), " below zero")))
            }
        }
        impl SubAssign for $type {
            #[inline]
            fn sub_assign(&mut self, other: Self) {
                *self = *self - other;
            }
        }
    )*};
}
arithmetic!(Time, Rate, Bytes);

impl FromStr for Time {
    type Err = ParseError;

    /// Parses `"65 ms"`, `"1.5 s"`, `"2 h"`: ns, us, ms, s, min, h, d.
    fn from_str(text: &str) -> Result<Self, ParseError> {
        parse::quantity(text, "time", parse::TIME_UNITS).map(Self)
    }
}

impl FromStr for Rate {
    type Err = ParseError;

    /// Parses `"500 Mbit/s"`, `"1.5 Gbit/s"`, `"12 MB/s"`; the shorthand `Mbps` is accepted too.
    fn from_str(text: &str) -> Result<Self, ParseError> {
        parse::quantity(text, "rate", parse::RATE_UNITS).map(Self)
    }
}

impl FromStr for Bytes {
    type Err = ParseError;

    /// Parses `"14 GB"` (10^9), `"6 MiB"` (2^20), `"512 B"`.
    fn from_str(text: &str) -> Result<Self, ParseError> {
        parse::quantity(text, "size", parse::SIZE_UNITS).map(Self)
    }
}

impl fmt::Display for Time {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        parse::print(
            out,
            self.0,
            &[("s", 1_000_000_000), ("ms", 1_000_000), ("us", 1_000), ("ns", 1)],
        )
    }
}

impl fmt::Display for Rate {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let units = [
            ("Tbit/s", 1_000_000_000_000),
            ("Gbit/s", 1_000_000_000),
            ("Mbit/s", 1_000_000),
            ("kbit/s", 1_000),
            ("bit/s", 1),
        ];
        parse::print(out, self.0, &units)
    }
}

impl fmt::Display for Bytes {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let units = [
            ("TB", 1_000_000_000_000),
            ("GB", 1_000_000_000),
            ("MB", 1_000_000),
            ("kB", 1_000),
            ("B", 1),
        ];
        parse::print(out, self.0, &units)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_megabyte_is_decimal_and_a_mebibyte_is_not() {
        assert_eq!("14 GB".parse(), Ok(Bytes::new(14_000_000_000)));
        assert_eq!("6 MiB".parse(), Ok(Bytes::new(6_291_456)));
        assert_eq!("500 Mbit/s".parse(), Ok(Rate::from_mbit_per_s(500)));
        assert_eq!("12 MB/s".parse(), Ok(Rate::from_mbit_per_s(96)));
        assert_eq!("32.5 ms".parse(), Ok(Time::from_us(32_500)));
        assert_eq!("1h".parse(), Ok(Time::from_ms(3_600_000)));
        assert_eq!("0.1 Gbps".parse(), Ok(Rate::from_mbit_per_s(100)));
    }

    #[test]
    fn text_that_is_no_quantity_is_refused_with_the_reason() {
        for (text, part) in [
            ("500", "no unit"),
            ("", "empty"),
            ("ms", "no number"),
            ("-3 ms", "negative"),
            ("5 furlongs", "furlongs"),
            ("1e400 s", "e400"),
            ("nan s", "no number"),
            ("99999999999 d", "too large"),
        ] {
            let error = text.parse::<Time>().unwrap_err().to_string();
            assert!(error.contains(part), "{text:?} gave {error:?}, expected {part:?}");
        }
    }

    #[test]
    fn values_print_in_their_largest_exact_unit() {
        assert_eq!(Rate::from_mbit_per_s(500).to_string(), "500 Mbit/s");
        assert_eq!(Rate::from_mbit_per_s(1_500).to_string(), "1.5 Gbit/s");
        assert_eq!(Time::from_us(32_500).to_string(), "32.5 ms");
        assert_eq!(Bytes::ZERO.to_string(), "0 B");
        assert_eq!(Bytes::new(6_291_456).to_string(), "6291.456 kB");
        assert_eq!(Bytes::new(u64::MAX).to_string(), "18446744073709551.615 kB");
    }

    #[test]
    fn zero_rate_takes_forever_unless_there_is_nothing_to_send() {
        assert_eq!(Rate::ZERO.time_for(Bytes::new(1)), Time::MAX);
        assert_eq!(Rate::ZERO.time_for(Bytes::ZERO), Time::ZERO);
        assert_eq!(Rate::needed(Bytes::new(1), Time::ZERO), None);
        assert_eq!(Rate::needed(Bytes::ZERO, Time::ZERO), Some(Rate::ZERO));
    }

    proptest! {
        #[test]
        fn printing_and_parsing_are_inverse(value: u64) {
            prop_assert_eq!(Time(value).to_string().parse(), Ok(Time(value)));
            prop_assert_eq!(Rate(value).to_string().parse(), Ok(Rate(value)));
            prop_assert_eq!(Bytes(value).to_string().parse(), Ok(Bytes(value)));
        }

        #[test]
        fn the_needed_rate_is_enough_and_one_bit_less_is_not(
            size in 1u64..1 << 50, span in 1_000_000u64..1 << 50,
        ) {
            let (size, span) = (Bytes(size), Time(span));
            if let Some(rate) = Rate::needed(size, span) {
                prop_assert!(rate.time_for(size) <= span);
                prop_assert!(Rate(rate.0 - 1).time_for(size) > span);
                prop_assert!(rate.bytes_in(rate.time_for(size)) >= size);
            }
        }

        #[test]
        fn any_text_is_parsed_or_refused_and_does_not_panic(text: String) {
            let _ = text.parse::<Time>();
            let _ = text.parse::<Rate>();
            let _ = text.parse::<Bytes>();
        }
    }
}
