//! How soon links could carry one transfer more, whatever policy shares them out.
//!
//! Everything admitted is there to be sent, so all of it is on time on one link exactly if by every
//! deadline no more is due than the link carries until then, and sending in the order of deadlines
//! does it (J. Jackson, UCLA Management Sciences Research Report 43, 1955). From that follows in
//! closed form the earliest deadline that one more transfer could have. Of a path each link says
//! so much by itself, and the latest of these is a bound: what crosses other links, too, may make
//! the truth later, never earlier.

use super::amount::Nanobits;

/// What is left of a transfer, and the time until it is due, in ns.
pub(super) type Due = (u64, Nanobits);

/// The least time in which a link of `capacity`, in bit/s and not zero, can carry `size` more
/// without anything else that is due being late, in ns; saturating. Sorts `due`.
pub(super) fn least_span(capacity: u64, due: &mut [Due], size: Nanobits) -> u64 {
    due.sort_unstable_by_key(|(span, _)| *span);
    let (mut sum, mut before) = (0, 0);
    for (span, left) in due {
        sum += *left;
        if sum + size > Nanobits::from(capacity) * Nanobits::from(*span) {
            // Not beside these: the newcomer has to come after them.
            before = sum;
        }
    }
    u64::try_from((before + size).div_ceil(Nanobits::from(capacity))).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Rates in bit/s and spans in s make amounts of a billion nanobits each.
    fn span_s(capacity: u64, due: &[(u64, u64)], size: u64) -> u64 {
        let scaled = |(span, left): &(u64, u64)| {
            (span * 1_000_000_000, Nanobits::from(*left) * 1_000_000_000)
        };
        let mut due: Vec<Due> = due.iter().map(scaled).collect();
        let span = least_span(capacity, &mut due, Nanobits::from(size) * 1_000_000_000);
        span.div_ceil(1_000_000_000)
    }

    #[test]
    fn what_is_due_later_waits_where_it_can() {
        assert_eq!(span_s(10, &[], 100), 10);
        // Ten seconds are spare before the deadline: the newcomer goes first.
        assert_eq!(span_s(10, &[(20, 100)], 100), 10);
        // Nine are not enough for it: it comes after.
        assert_eq!(span_s(10, &[(19, 100)], 100), 20);
        // The middle one is in the way, the last is not.
        assert_eq!(span_s(10, &[(100, 200), (19, 50), (22, 80)], 100), 23);
    }

    #[test]
    fn equal_deadlines_count_together() {
        assert_eq!(span_s(10, &[(20, 60), (20, 60)], 100), 22);
    }

    #[test]
    fn nothing_overflows() {
        let mut due = [(u64::MAX, u128::from(u64::MAX) * 8_000_000_000); 3];
        assert_eq!(least_span(1, &mut due, u128::from(u64::MAX) * 8_000_000_000), u64::MAX);
    }
}
