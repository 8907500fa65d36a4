//! The sending half: what may leave, what was lost, when to try again.

mod ack;
mod half;
mod prr;
mod rack;
mod rate;
mod recovery;
mod rtt;
mod scoreboard;
mod timers;
mod transmit;

use std::sync::Arc;

use weir_units::Time;

pub(crate) use self::half::{Established, SendHalf};
use self::prr::Prr;
use self::rack::Rack;
use self::rate::RateSampler;
use self::rtt::RttEstimator;
use self::scoreboard::Scoreboard;
pub(crate) use self::transmit::{Content, Outgoing};
use crate::config::Config;
use crate::congestion::{CongestionControl, EcnUse};
use crate::ecn::EcnMode;
use crate::segment::{SackBlock, Segment};
use crate::statistics::Statistics;

/// Where the repair of a loss stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    Open,
    /// The window falls for an ECN echo or a loss that a probe repaired.
    Reducing,
    /// Fast recovery (RFC 6675).
    Recovery,
    /// After a retransmission timeout.
    Loss,
}

/// How the F-RTO test stands (RFC 5682 section 3.1).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Frto {
    Off,
    /// The first segment was sent again; nothing was heard yet.
    Retransmitted,
    /// An acknowledgement advanced: new data goes out instead of retransmissions.
    NewData,
}

/// What would show that a reduction was wrong.
#[derive(Clone, Copy, Debug)]
struct Undo {
    /// The first byte unacknowledged when it began; `None` if there is nothing to take back.
    marker: Option<u64>,
    /// Retransmissions since then and outstanding before, less those that a DSACK told to be
    /// needless.
    retransmissions: u32,
}

/// A tail loss probe under way.
#[derive(Clone, Copy, Debug)]
struct Probe {
    /// Sent last, when it left.
    end: u64,
    is_retransmission: bool,
}

/// What a timer wants sent whatever the window says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Forced {
    TailLossProbe,
    WindowProbe,
}

/// What the other side lets us have under way.
#[derive(Clone, Copy, Debug)]
struct PeerWindow {
    end: u64,
    largest: u64,
    /// The segment that told last.
    seq: u64,
    ack: u64,
}

impl PeerWindow {
    /// As the handshake offered it.
    fn new(window: u32) -> Self {
        Self { end: 1 + u64::from(window), largest: u64::from(window), seq: 0, ack: 0 }
    }

    /// Takes the offer of a segment; whether that is newer than what is known.
    fn update(&mut self, segment: &Segment, una: u64) -> bool {
        let Segment { seq, ack, window, .. } = *segment;
        if ack < una || (seq, ack) < (self.seq, self.ack) {
            return false;
        }
        let largest = self.largest.max(u64::from(window));
        *self = Self { end: ack + u64::from(window), largest, seq, ack };
        true
    }
}

#[derive(Debug)]
pub(crate) struct Sender {
    config: Arc<Config>,
    control: Box<dyn CongestionControl>,
    uses_prr: bool,
    ecn_use: EcnUse,
    ecn_mode: EcnMode,
    mss: u64,
    has_sack: bool,

    una: u64,
    nxt: u64,
    /// One past the last byte that the application wrote.
    written: u64,
    is_closing: bool,
    peer: PeerWindow,
    board: Scoreboard,
    sack_seen: [SackBlock; 3],
    sack_seen_count: u8,

    rtt: RttEstimator,
    rate: RateSampler,
    rack: Rack,
    prr: Prr,
    phase: Phase,
    /// What was sent when the phase began ends here.
    recovery_point: u64,
    /// Echoes tell nothing new until this is acknowledged.
    echo_point: u64,
    frto: Frto,
    undo: Undo,
    /// The first retransmission since none was outstanding (Linux `retrans_stamp`): what arrives
    /// for one that an earlier repair left behind is not an original.
    sent_again_at: Option<Time>,
    probe: Option<Probe>,
    has_rtt_since_probe: bool,
    forced: Option<Forced>,
    /// Without SACK: duplicate acknowledgements in a row, and the bytes they stand for.
    duplicates: u32,
    duplicate_bytes: u64,
    /// The edge of what RFC 6675 holds for lost, and the segments delivered above it.
    lost_edge: u64,
    sacked_above: u32,
    /// End of the last segment shorter than the MSS (Nagle).
    short_end: u64,
    /// Bytes lost since the control was last told.
    lost_untold: u64,
    limited: CwndLimited,
    sent_at: Time,

    rto_at: Time,
    probe_at: Time,
    reorder_at: Time,
    persist_at: Time,
    pace_at: Time,
    is_paced: bool,
    /// What may still follow at `burst_at`, the instant of the last transmission.
    burst_left: u64,
    burst_at: Time,
    timeouts_in_row: u32,
    /// Window probes that got no answer, and all while the window is shut.
    window_probes_in_row: u32,
    window_probe_backoff: u32,
    counted: Counted,
}

/// What it counts; see [`Statistics`].
#[derive(Clone, Copy, Debug, Default)]
struct Counted {
    segments_sent: u64,
    bytes_sent: u64,
    retransmissions: u64,
    lost: u64,
    recoveries: u64,
    timeouts: u64,
    tail_loss_probes: u64,
    undone: u64,
    bundles: u64,
    bundled_bytes: u64,
    ecn_reductions: u64,
    marked: u64,
    window_probes: u64,
}

impl From<Counted> for Statistics {
    fn from(counted: Counted) -> Self {
        Self {
            segments_sent: counted.segments_sent,
            bytes_sent: counted.bytes_sent,
            retransmissions: counted.retransmissions,
            lost: counted.lost,
            recoveries: counted.recoveries,
            timeouts: counted.timeouts,
            tail_loss_probes: counted.tail_loss_probes,
            undone: counted.undone,
            bundles: counted.bundles,
            bundled_bytes: counted.bundled_bytes,
            ecn_reductions: counted.ecn_reductions,
            marked: counted.marked,
            window_probes: counted.window_probes,
            ..Self::default()
        }
    }
}

/// Whether the window was what held the sender back, per round trip (as Linux's
/// `tcp_cwnd_validate`).
#[derive(Clone, Copy, Debug, Default)]
struct CwndLimited {
    is_limited: bool,
    in_flight_most: u64,
    round_end: u64,
}

impl Sender {
    pub(crate) fn new(config: Arc<Config>, control: Box<dyn CongestionControl>, now: Time) -> Self {
        Self {
            uses_prr: control.wants_prr(),
            ecn_use: control.ecn(),
            ecn_mode: EcnMode::Off,
            mss: u64::from(config.mss.max(1)),
            has_sack: false,
            una: 1,
            nxt: 1,
            written: 1,
            is_closing: false,
            peer: PeerWindow::new(0),
            board: Scoreboard::new(),
            sack_seen: [SackBlock::default(); 3],
            sack_seen_count: 0,
            rtt: RttEstimator::new(config.rto),
            rate: RateSampler::default(),
            rack: Rack::new(),
            prr: Prr::default(),
            phase: Phase::Open,
            recovery_point: 1,
            echo_point: 0,
            frto: Frto::Off,
            undo: Undo { marker: None, retransmissions: 0 },
            sent_again_at: None,
            probe: None,
            has_rtt_since_probe: true,
            forced: None,
            duplicates: 0,
            duplicate_bytes: 0,
            lost_edge: 1,
            sacked_above: 0,
            short_end: 0,
            lost_untold: 0,
            limited: CwndLimited::default(),
            sent_at: now,
            rto_at: Time::MAX,
            probe_at: Time::MAX,
            reorder_at: Time::MAX,
            persist_at: Time::MAX,
            pace_at: Time::ZERO,
            is_paced: false,
            burst_left: 0,
            burst_at: Time::ZERO,
            timeouts_in_row: 0,
            window_probes_in_row: 0,
            window_probe_backoff: 0,
            counted: Counted::default(),
            config,
            control,
        }
    }

    /// The handshake is over.
    pub(crate) fn establish(&mut self, told: Established) {
        self.mss = self.mss.min(told.mss).max(1);
        self.has_sack = told.has_sack;
        self.ecn_mode = told.ecn_mode;
        self.peer = PeerWindow::new(told.window);
        if let Some(rtt) = told.rtt {
            self.rtt.sample(rtt, self.una, self.nxt);
            self.rtt.observe(rtt);
            self.control.on_established(told.now, rtt);
        }
    }

    /// Takes up to `bytes` into the send buffer.
    pub(crate) fn write(&mut self, bytes: u64) -> u64 {
        let taken = if self.is_closing { 0 } else { bytes.min(self.writable()) };
        self.written += taken;
        taken
    }

    pub(crate) fn writable(&self) -> u64 {
        self.config.send_buffer.saturating_sub(self.written - self.una.min(self.written))
    }

    /// A FIN follows what was written.
    pub(crate) fn close(&mut self) {
        self.is_closing = true;
    }

    pub(crate) fn is_closing(&self) -> bool {
        self.is_closing
    }

    /// One past the FIN, if there is one.
    fn fin_end(&self) -> Option<u64> {
        self.is_closing.then_some(self.written + 1)
    }

    /// The FIN was sent.
    pub(crate) fn is_fin_sent(&self) -> bool {
        self.fin_end().is_some_and(|end| self.nxt >= end)
    }

    /// The FIN was acknowledged.
    pub(crate) fn is_fin_acked(&self) -> bool {
        self.fin_end().is_some_and(|end| self.una >= end)
    }

    /// All data was acknowledged.
    pub(crate) fn is_all_acked(&self) -> bool {
        self.una >= self.written
    }

    /// Bytes of data that the other side acknowledged.
    pub(crate) fn acked(&self) -> u64 {
        self.una.min(self.written) - 1
    }

    pub(crate) fn nxt(&self) -> u64 {
        self.nxt
    }

    /// Bytes written that were never sent.
    pub(crate) fn unsent(&self) -> u64 {
        self.written.saturating_sub(self.nxt)
    }

    pub(crate) fn mss(&self) -> u64 {
        self.mss
    }

    pub(crate) fn ecn_use(&self) -> EcnUse {
        self.ecn_use
    }

    pub(crate) fn rto(&self) -> Time {
        self.rtt.rto()
    }

    /// More timeouts in a row than the configuration bears.
    pub(crate) fn has_given_up(&self) -> bool {
        self.timeouts_in_row.max(self.window_probes_in_row) > self.config.retries_max
    }

    /// Bytes believed to be under way.
    fn in_flight(&self) -> u64 {
        self.board.in_flight_bytes().saturating_sub(self.duplicate_bytes)
    }

    /// Bytes that may be under way now.
    fn window(&self) -> u64 {
        match self.phase {
            Phase::Reducing | Phase::Recovery if self.uses_prr => self.prr.window(),
            _ => self.control.window(),
        }
    }

    fn in_recovery(&self) -> bool {
        matches!(self.phase, Phase::Recovery | Phase::Loss)
    }

    /// Too few segments are outstanding for three duplicate acknowledgements.
    fn is_thin(&self) -> bool {
        self.board.len() < 4
    }

    pub(crate) fn statistics(&self) -> Statistics {
        Statistics {
            window: self.window(),
            slow_start_threshold: self.control.slow_start_threshold(),
            in_flight: self.in_flight(),
            srtt: self.rtt.srtt(),
            rtt: self.rtt.latest(),
            min_rtt: self.rtt.min(),
            rto: self.rtt.rto(),
            delivered: self.rate.delivered(),
            ..self.counted.into()
        }
    }

    pub(crate) fn control(&self) -> &dyn CongestionControl {
        &*self.control
    }
}
