//! One side of one connection: handshake, both directions of data, close.

mod input;
mod output;

use std::sync::Arc;

use weir_queue::Ecn;
use weir_units::{Bytes, Time};

use crate::config::Config;
use crate::congestion::CongestionControl;
use crate::ecn::{self, EcnMode, EcnState};
use crate::receiver::{AckPolicy, Reassembly, ReceiveWindow, scale_for};
use crate::segment::{Flags, Offer, Segment};
use crate::sender::SendHalf;
use crate::statistics::Statistics;

/// The states of RFC 9293 section 3.3.2.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum State {
    /// Waits for a SYN.
    Listen,
    /// Sent a SYN.
    SynSent,
    /// Answered a SYN.
    SynReceived,
    /// Open in both directions.
    Established,
    /// Sent a FIN.
    FinWait1,
    /// The FIN was acknowledged.
    FinWait2,
    /// The other side sent its FIN.
    CloseWait,
    /// Both FINs are sent; ours is not acknowledged.
    Closing,
    /// Sent the last FIN.
    LastAck,
    /// Answers for a while.
    TimeWait,
    /// Over.
    Closed,
}

/// How a connection ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    /// Both sides closed, and all was delivered.
    Finished,
    /// The other side reset it.
    Reset,
    /// The other side did not answer any more.
    TimedOut,
    /// This side aborted it.
    Aborted,
}

/// A segment to send.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Transmit {
    /// What to send.
    pub segment: Segment,
    /// The codepoint of its packet.
    pub ecn: Ecn,
    /// Length of the packet: IP (v4), TCP, options and data.
    pub size: Bytes,
}

/// The SYN or SYN/ACK of this side.
#[derive(Clone, Copy, Debug)]
struct Opening {
    is_due: bool,
    sent_at: Time,
    transmissions: u32,
    retry_at: Time,
}

/// One side of one connection.
///
/// Input: [`on_segment`](Self::on_segment), [`on_timer`](Self::on_timer). The application:
/// [`write`](Self::write), [`read`](Self::read), [`close`](Self::close), [`abort`](Self::abort).
/// Output: [`poll_segment`](Self::poll_segment), to be called until it gives `None` after any of
/// these, then [`next_timer`](Self::next_timer). Everything else asks and changes nothing. `now`
/// never goes back.
#[derive(Debug)]
pub struct Connection {
    config: Arc<Config>,
    state: State,
    end: Option<End>,
    sender: SendHalf,
    reassembly: Reassembly,
    acks: AckPolicy,
    window: ReceiveWindow,
    ecn: EcnState,
    /// What the SYN asked for.
    asked: EcnMode,
    is_active: bool,
    opening: Opening,
    has_timestamps: bool,
    has_sack: bool,
    /// The shift of the windows this side offers, and the MSS of the other.
    scale: u8,
    peer_mss: u64,
    /// The timestamp to echo.
    ts_recent: Time,
    /// The last sequence number of the other side, its FIN, once that arrived in order or not.
    fin: Option<u64>,
    /// DCTCP: an acknowledgement of what came before a change of codepoint.
    early_ack: Option<(u64, Flags)>,
    /// The number of a RST to send.
    reset: Option<u64>,
    challenged_at: Option<Time>,
    time_wait_until: Time,
    counted: Counted,
}

/// What concerns the receiving half; see [`Statistics`].
#[derive(Clone, Copy, Debug, Default)]
struct Counted {
    acks_sent: u64,
    segments_received: u64,
    ce_received: u64,
    duplicate_bytes: u64,
}

impl Connection {
    /// Opens a connection by `config`, which many may share: the first
    /// [`poll_segment`](Self::poll_segment) gives the SYN.
    pub fn connect(
        config: impl Into<Arc<Config>>,
        congestion: Box<dyn CongestionControl>,
        now: Time,
    ) -> Self {
        let mut connection = Self::new(config.into(), congestion, State::SynSent, now);
        let accurate = connection.config.accurate_ecn;
        connection.asked = ecn::wanted(connection.sender.ecn_use(), accurate);
        connection.opening.is_due = true;
        connection
    }

    /// Waits for a SYN.
    pub fn accept(
        config: impl Into<Arc<Config>>,
        congestion: Box<dyn CongestionControl>,
        now: Time,
    ) -> Self {
        Self::new(config.into(), congestion, State::Listen, now)
    }

    fn new(
        config: Arc<Config>,
        congestion: Box<dyn CongestionControl>,
        state: State,
        now: Time,
    ) -> Self {
        // The SYN has number 0: the first byte is 1, in both directions.
        let next = 1;
        Self {
            state,
            end: None,
            sender: SendHalf::new(Arc::clone(&config), congestion, now),
            reassembly: Reassembly::new(next),
            acks: AckPolicy::new(config.delayed_ack, next),
            window: ReceiveWindow::new(config.receive_buffer, u64::from(config.mss), next),
            ecn: EcnState::default(),
            asked: EcnMode::Off,
            is_active: state == State::SynSent,
            opening: Opening { is_due: false, sent_at: now, transmissions: 0, retry_at: Time::MAX },
            has_timestamps: false,
            has_sack: false,
            scale: 0,
            peer_mss: u64::from(config.mss),
            ts_recent: Time::ZERO,
            fin: None,
            early_ack: None,
            reset: None,
            challenged_at: None,
            time_wait_until: Time::MAX,
            counted: Counted::default(),
            config,
        }
    }

    /// The application offers `bytes`; returns how many the send buffer took. The sizes of the
    /// calls are the boundaries that small segments follow.
    pub fn write(&mut self, bytes: u64) -> u64 {
        if self.state == State::Closed { 0 } else { self.sender.write(bytes) }
    }

    /// Nothing follows what was written: a FIN.
    pub fn close(&mut self) {
        if self.state != State::Closed {
            self.sender.close();
        }
    }

    /// Gives the connection up, with a RST if the other side knows of it.
    pub fn abort(&mut self) {
        let is_known =
            !matches!(self.state, State::Listen | State::SynSent | State::TimeWait | State::Closed);
        if self.state != State::Closed {
            self.reset = is_known.then(|| self.sender.nxt());
            self.finish(End::Aborted);
        }
    }

    /// The application takes up to `most` bytes that arrived in order; returns how many it got.
    #[inline]
    pub fn read(&mut self, most: u64) -> u64 {
        let taken = self.window.read(most, self.data_end());
        let can_send = !matches!(self.state, State::Listen | State::SynSent | State::Closed);
        if taken > 0 && can_send && self.window.is_worth_an_update(self.reassembly.next()) {
            self.acks.demand_update();
        }
        taken
    }

    /// When [`on_timer`](Self::on_timer) is wanted; `None` if never.
    #[inline]
    pub fn next_timer(&self) -> Option<Time> {
        let at = match self.state {
            State::Closed | State::Listen => Time::MAX,
            State::TimeWait => self.time_wait_until.min(self.acks.due_at()),
            State::SynSent | State::SynReceived => self.opening.retry_at,
            _ => self.sender.next_timer().min(self.acks.due_at()),
        };
        (at < Time::MAX).then_some(at)
    }

    /// Runs the timers that are due at `now`.
    pub fn on_timer(&mut self, now: Time) {
        match self.state {
            State::Closed | State::Listen => return,
            State::SynSent | State::SynReceived => {
                self.on_opening_timer(now);
                return;
            }
            State::TimeWait if self.time_wait_until <= now => {
                self.finish(End::Finished);
                return;
            }
            State::TimeWait => {}
            _ => self.sender.on_timer(now),
        }
        self.acks.on_timer(now);
        if self.sender.has_given_up() {
            self.finish(End::TimedOut);
        }
    }

    fn on_opening_timer(&mut self, now: Time) {
        if self.opening.retry_at > now {
            return;
        }
        self.opening.retry_at = Time::MAX;
        if self.opening.transmissions > self.config.retries_max {
            self.finish(End::TimedOut);
        } else {
            self.opening.is_due = true;
        }
    }

    /// Where the connection is.
    pub fn state(&self) -> State {
        self.state
    }

    /// How it ended, if it did.
    pub fn end(&self) -> Option<End> {
        self.end
    }

    /// Bytes that [`read`](Self::read) would give.
    pub fn readable(&self) -> u64 {
        self.window.readable(self.data_end())
    }

    /// Bytes that [`write`](Self::write) would take.
    pub fn writable(&self) -> u64 {
        if self.state == State::Closed || self.sender.is_closing() {
            0
        } else {
            self.sender.writable()
        }
    }

    /// Bytes written that the other side acknowledged.
    #[inline]
    pub fn acked(&self) -> u64 {
        self.sender.acked()
    }

    /// Bytes written that were never sent.
    pub fn unsent(&self) -> u64 {
        self.sender.unsent()
    }

    /// Whether the other side said that nothing follows what is readable.
    #[inline]
    pub fn is_at_end(&self) -> bool {
        self.fin.is_some_and(|fin| self.reassembly.next() > fin)
    }

    /// How marks are told to each other, once that is agreed.
    pub fn ecn_mode(&self) -> EcnMode {
        self.ecn.mode
    }

    /// Bytes of data in a full segment.
    pub fn mss(&self) -> u64 {
        self.sender.mss()
    }

    /// What was counted, and the state of the sender.
    pub fn statistics(&self) -> Statistics {
        Statistics {
            acks_sent: self.counted.acks_sent,
            segments_received: self.counted.segments_received,
            ce_received: self.counted.ce_received,
            duplicate_bytes: self.counted.duplicate_bytes,
            ..self.sender.statistics()
        }
    }

    /// The congestion control.
    pub fn congestion(&self) -> &dyn CongestionControl {
        self.sender.control()
    }

    /// One past the last byte of data in order.
    fn data_end(&self) -> u64 {
        let next = self.reassembly.next();
        self.fin.map_or(next, |fin| next.min(fin))
    }

    fn finish(&mut self, end: End) {
        self.state = State::Closed;
        self.end.get_or_insert(end);
    }

    fn own_offer(&self) -> Offer {
        Offer {
            mss: u16::try_from(self.config.mss).unwrap_or(u16::MAX),
            window_scale: self.own_scale(),
            sack: self.config.sack,
            timestamps: self.config.timestamps,
        }
    }

    fn own_scale(&self) -> Option<u8> {
        self.config.window_scaling.then(|| scale_for(self.config.receive_buffer.most()))
    }
}
