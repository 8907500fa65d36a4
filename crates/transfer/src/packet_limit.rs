//! The largest packets of a transfer: what the path carries, until some are lost for their size.

use std::sync::atomic::{AtomicU16, Ordering::Relaxed};

use crate::error::TransferError;
use crate::wire::FailureCode;

/// What is tried in turn: what every path of IPv6 carries, and every path of IPv4 but for relics.
const SMALLER: [u16; 2] = [1_280, 576];

/// How far an attempt came that failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Reached {
    /// A connection, perhaps; no request was accepted.
    Greeting,
    /// What was asked for was to come from the peer, and no byte of it came.
    Nothing,
    /// Some content moved, or was to leave from here.
    Content,
}

/// The largest packets of the attempts to come; no limit at first.
#[derive(Debug)]
pub(crate) struct PacketLimit(AtomicU16);

impl Default for PacketLimit {
    fn default() -> Self {
        Self(AtomicU16::new(u16::MAX))
    }
}

impl PacketLimit {
    /// The limit, if there is one.
    pub(crate) fn bytes(&self) -> Option<u16> {
        let bytes = self.0.load(Relaxed);
        (bytes < u16::MAX).then_some(bytes)
    }

    /// Lowers the limit if smaller packets may mend this failure; says to what.
    pub(crate) fn lower(&self, error: &TransferError, reached: Reached) -> Option<u16> {
        let mut smaller = SMALLER.iter().copied().filter(|bytes| *bytes < self.0.load(Relaxed));
        let silent = matches!(
            error,
            TransferError::Silent { .. } | TransferError::Peer { code: FailureCode::Lost, .. }
        );
        let next = match (error, reached) {
            (TransferError::LargePackets { bytes: lost, .. }, _) => {
                smaller.find(|bytes| u32::from(*bytes) < *lost)
            }
            // A greeting has less than a packet of Ethernet: one try, with the smallest.
            (_, Reached::Greeting) if silent && self.bytes().is_none() => smaller.last(),
            (_, Reached::Nothing) if silent => smaller.next(),
            _ => None,
        }?;
        self.0.store(next, Relaxed);
        Some(next)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lost(bytes: u32) -> TransferError {
        TransferError::LargePackets { peer: "x".into(), bytes }
    }

    fn silent() -> TransferError {
        TransferError::Silent { peer: "x".into() }
    }

    #[test]
    fn what_is_lost_for_its_size_is_followed_by_smaller_ones_and_in_the_end_by_none() {
        let limit = PacketLimit::default();
        assert_eq!(limit.bytes(), None);
        assert_eq!(limit.lower(&lost(1_500), Reached::Content), Some(1_280));
        assert_eq!(limit.lower(&lost(1_280), Reached::Content), Some(576));
        assert_eq!(limit.bytes(), Some(576));
        assert_eq!(limit.lower(&lost(576), Reached::Content), None);
        assert_eq!(PacketLimit::default().lower(&lost(1_200), Reached::Content), Some(576));
    }

    #[test]
    fn a_greeting_that_does_not_come_through_is_tried_once_more() {
        let limit = PacketLimit::default();
        assert_eq!(limit.lower(&silent(), Reached::Greeting), Some(576));
        assert_eq!(limit.lower(&silent(), Reached::Greeting), None);
    }

    #[test]
    fn silence_after_content_moved_has_other_reasons() {
        let limit = PacketLimit::default();
        assert_eq!(limit.lower(&silent(), Reached::Content), None);
        assert_eq!(limit.lower(&silent(), Reached::Nothing), Some(1_280));
        let refused = TransferError::Denied { why: "x".into() };
        assert_eq!(limit.lower(&refused, Reached::Nothing), None);
    }
}
