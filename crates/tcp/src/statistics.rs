//! What a connection counted.

use weir_units::Time;

/// Counters of one side since it began, and its state when last asked.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Statistics {
    /// Congestion window in bytes, as the endpoint applies it now.
    pub window: u64,
    /// Slow-start threshold in bytes, `u64::MAX` while unknown.
    pub slow_start_threshold: u64,
    /// Bytes in flight.
    pub in_flight: u64,
    /// Smoothed round-trip time; zero before the first sample.
    pub srtt: Time,
    /// Latest round-trip time sample.
    pub rtt: Time,
    /// Least round-trip time; zero before the first sample.
    pub min_rtt: Time,
    /// Retransmission timeout, backoff included.
    pub rto: Time,
    /// Segments sent with data or FIN, retransmissions included.
    pub segments_sent: u64,
    /// Bytes of data sent, retransmissions and bundled copies included.
    pub bytes_sent: u64,
    /// Segments sent without data: acknowledgements, window probes.
    pub acks_sent: u64,
    /// Segments retransmitted, for whatever reason.
    pub retransmissions: u64,
    /// Bytes delivered to the other side, by cumulative or selective acknowledgement.
    pub delivered: u64,
    /// Bytes held for lost, each time they were.
    pub lost: u64,
    /// Times that fast recovery began.
    pub recoveries: u64,
    /// Retransmission timeouts.
    pub timeouts: u64,
    /// Tail loss probes.
    pub tail_loss_probes: u64,
    /// Reductions taken back.
    pub undone: u64,
    /// Packets that repeated older data (RDB), and the bytes repeated.
    pub bundles: u64,
    /// See `bundles`.
    pub bundled_bytes: u64,
    /// Reductions for ECN echoes (RFC 3168).
    pub ecn_reductions: u64,
    /// Bytes that the other side reported as marked.
    pub marked: u64,
    /// Window probes.
    pub window_probes: u64,
    /// Segments received.
    pub segments_received: u64,
    /// How many of those had the CE mark.
    pub ce_received: u64,
    /// Bytes of data received again, without need.
    pub duplicate_bytes: u64,
}
