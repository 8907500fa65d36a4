//! What one side of a connection is told before it starts.

use weir_units::{Rate, Time};

/// Options of one side of a connection; [`Config::default`] is a Linux host of today (6.x), with
/// the departures that `docs/tcp.md` lists.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Config {
    /// Most bytes of data in a segment: 1448 fills an Ethernet frame with timestamps.
    pub mss: u32,
    /// Bytes that [`write`](crate::Connection::write) takes before the first are acknowledged.
    pub send_buffer: u64,
    /// How much may wait for the reader.
    pub receive_buffer: ReceiveBuffer,
    /// Windows above 64 KiB (RFC 7323 section 2).
    pub window_scaling: bool,
    /// The timestamp option (RFC 7323 section 3).
    pub timestamps: bool,
    /// Selective acknowledgements (RFC 2018).
    pub sack: bool,
    /// Asks for Accurate ECN (RFC 9768) whenever ECN is asked for at all; L4S always does.
    pub accurate_ecn: bool,
    /// Whether a SYN that was sent twice in vain asks for ECN no more (RFC 3168 section 6.1.1.1);
    /// Linux began so with 4.2.
    pub ecn_fallback: bool,
    /// Answers each mark once, as DCTCP wants, where RFC 3168 was negotiated; a side whose own
    /// control is DCTCP does so anyway.
    pub dctcp_echo: bool,
    /// When data is acknowledged.
    pub delayed_ack: DelayedAck,
    /// Whether small segments wait for company.
    pub nagle: Nagle,
    /// The retransmission timer.
    pub rto: Rto,
    /// How a loss is found by what arrives after it.
    pub loss_detection: LossDetection,
    /// Fewer duplicates are enough while fewer than four segments are outstanding and nothing waits
    /// to be sent (RFC 5827); Linux from 3.5 until RACK, which then waited for another quarter of
    /// the round-trip time.
    pub early_retransmit: bool,
    /// The probe that finds losses at the tail of a flight, if any.
    pub tail_loss_probe: Option<TailLossProbe>,
    /// RTO restart (RFC 7765): the timer of a short flight runs from a transmission, not from the
    /// last acknowledgement.
    pub rto_restart: Option<RestartFrom>,
    /// From when the tail loss probe restarts (TLPR, 004-spec section 4.4).
    pub probe_restart: Option<RestartFrom>,
    /// Redundant data bundling (004-spec section 4.5).
    pub bundling: Option<Bundling>,
    /// A thin stream retransmits on the first duplicate acknowledgement (`tcp_thin_dupack`).
    pub thin_dupack: bool,
    /// A thin stream does not back its timer off for six timeouts (`tcp_thin_linear_timeouts`).
    pub thin_linear_timeouts: bool,
    /// Takes back a reduction that proves wrong (RFC 3522, RFC 3708, RFC 5682).
    pub undo: bool,
    /// Paces at twice (slow start) or 1.2 times the window per round trip where the control names
    /// no rate, as Linux does under the `fq` discipline.
    pub pacing: bool,
    /// A ceiling on the pacing rate, whatever the control (`SO_MAX_PACING_RATE`).
    pub pacing_rate_max: Option<Rate>,
    /// A paced sender lets a millisecond's worth go at once, two segments at least and 64 KiB at
    /// most, as Linux does to spare processor time (`tcp_tso_autosize`); else one segment.
    pub pacing_bursts: bool,
    /// New data waits until the window has room for such a train, paced or not, as Linux's does
    /// where the network card cuts what it is handed (`tcp_tso_should_defer`). A train meets a full
    /// queue as a whole: who loses is who came last, and streams fall one by one instead of all.
    pub segmentation_offload: bool,
    /// Timeouts in a row after which the connection is given up.
    pub retries_max: u32,
    /// How long the side that closed first answers for the connection.
    pub time_wait: Time,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            mss: 1448,
            send_buffer: 1 << 30,
            receive_buffer: ReceiveBuffer::Fixed { size: 1 << 28 },
            window_scaling: true,
            timestamps: true,
            sack: true,
            accurate_ecn: false,
            ecn_fallback: true,
            dctcp_echo: false,
            delayed_ack: DelayedAck::LINUX,
            nagle: Nagle::Minshall,
            rto: Rto::LINUX,
            loss_detection: LossDetection::Rack,
            early_retransmit: false,
            tail_loss_probe: Some(TailLossProbe::Rfc8985),
            rto_restart: None,
            probe_restart: None,
            bundling: None,
            thin_dupack: false,
            thin_linear_timeouts: false,
            undo: true,
            pacing: false,
            pacing_rate_max: None,
            pacing_bursts: true,
            segmentation_offload: false,
            retries_max: 15,
            time_wait: Time::from_ms(60_000),
        }
    }
}

/// How much may wait for the reader; the window is what is left of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReceiveBuffer {
    /// Always this much.
    Fixed {
        /// Bytes.
        size: u64,
    },
    /// Grows to twice what the reader took in a round trip, as Linux's dynamic right-sizing.
    Auto {
        /// Bytes at first: 65 536 on Linux.
        initial: u64,
        /// Bytes at most: 3 MiB on Linux, the window that its 6 MiB of `tcp_rmem` allow.
        most: u64,
    },
}

impl ReceiveBuffer {
    /// What it can grow to, in bytes.
    pub const fn most(self) -> u64 {
        match self {
            Self::Fixed { size } => size,
            Self::Auto { most, .. } => most,
        }
    }
}

/// When data is acknowledged; whatever arrives out of order is at once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DelayedAck {
    /// Full segments that one acknowledgement covers.
    pub every: u32,
    /// How long a lone segment may wait for it. Linux adapts this between 40 ms and 200 ms to the
    /// gaps between segments where `is_adaptive`.
    pub delay: Time,
    /// Whether `delay` follows the gaps between segments.
    pub is_adaptive: bool,
    /// Segments acknowledged one by one at the start and after a gap longer than an RTO.
    pub quick: u32,
}

impl DelayedAck {
    /// Linux: every second segment, 40 ms, the first sixteen at once.
    pub const LINUX: Self =
        Self { every: 2, delay: Time::from_ms(40), is_adaptive: true, quick: 16 };
    /// Every segment at once.
    pub const NONE: Self = Self { every: 1, delay: Time::ZERO, is_adaptive: false, quick: 0 };

    /// RFC 5681 section 4.2: every second segment, a lone one after `delay`, at most 500 ms.
    pub const fn plain(delay: Time) -> Self {
        Self { every: 2, delay, is_adaptive: false, quick: 0 }
    }
}

/// Whether a segment shorter than the MSS may leave.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Nagle {
    /// Always (`TCP_NODELAY`).
    Off,
    /// Only when nothing is unacknowledged (RFC 896).
    Rfc896,
    /// Only when no other short segment is unacknowledged (Minshall; Linux).
    Minshall,
}

/// The retransmission timer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rto {
    /// How it is computed.
    pub rule: RtoRule,
    /// Its floor: of the variance term under the Linux rules, of the whole under RFC 6298.
    pub min: Time,
    /// Before the first round-trip time is known.
    pub initial: Time,
    /// Its ceiling.
    pub max: Time,
}

impl Rto {
    /// Linux: 200 ms, 1 s, 120 s.
    pub const LINUX: Self = Self {
        rule: RtoRule::Linux,
        min: Time::from_ms(200),
        initial: Time::from_ms(1_000),
        max: Time::from_ms(120_000),
    };
    /// RFC 6298: 1 s, 1 s, 60 s.
    pub const RFC6298: Self = Self {
        rule: RtoRule::Rfc6298,
        min: Time::from_ms(1_000),
        initial: Time::from_ms(1_000),
        max: Time::from_ms(60_000),
    };
}

/// How the timer follows the round-trip time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RtoRule {
    /// SRTT + max(floor, 4 RTTVAR), where RTTVAR is the largest deviation of the last round trip
    /// and decays once per round trip; a falling RTT counts little.
    Linux,
    /// SRTT + max(floor, 4 RTTVAR) with the RTTVAR of RFC 6298 (004-spec section 4.1).
    LinuxFloor,
    /// max(floor, SRTT + 4 RTTVAR).
    Rfc6298,
}

/// How a loss is found by what arrives after it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LossDetection {
    /// By time of transmission (RFC 8985), with the threshold of three while no reordering was
    /// seen; finds lost retransmissions.
    Rack,
    /// Three segments delivered above it (RFC 6675).
    DupThresh,
}

/// How long the tail loss probe waits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TailLossProbe {
    /// Two SRTT, and 200 ms more for a single segment (RFC 8985 section 7).
    Rfc8985,
    /// Linux 3.18: two SRTT, at least 1.5 SRTT + 200 ms for a single segment, at least 10 ms; not
    /// while the window has room and data waits (004-spec sections 4.3 and 4.7).
    Linux318,
}

/// Which transmission a restarted timer counts from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RestartFrom {
    /// The earliest segment outstanding (RFC 7765).
    Earliest,
    /// The last segment sent.
    Last,
}

/// Redundant data bundling: a new segment repeats what is unacknowledged before it while both fit
/// in one MSS. It acts on thin streams with [`Nagle::Off`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bundling {
    /// Segments repeated in one packet.
    pub segments_max: u32,
    /// A stream is thin while segments in flight times this are shorter than the SRTT.
    pub spacing_min: Time,
}

impl Default for Bundling {
    fn default() -> Self {
        Self { segments_max: u32::MAX, spacing_min: Time::from_ms(10) }
    }
}
