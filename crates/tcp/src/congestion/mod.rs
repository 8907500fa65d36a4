//! Congestion controls: how much may be in flight now, and how fast it may leave.
//!
//! One file per control behind [`CongestionControl`]. The endpoint finds out what was delivered,
//! lost and marked and tells the control; the control answers with a window and, if it paces, a
//! rate. Windows are bytes; a control that thinks in segments divides by the MSS it was made with.

mod algorithm;
mod bbr;
mod bbr3;
mod ctcp;
mod cubic;
mod dctcp;
mod htcp;
mod hystart;
mod ledbat;
mod loss_based;
mod max_filter;
mod prague;
mod reno;
#[cfg(test)]
mod rig;
mod silent;
#[cfg(test)]
mod tests;
mod turns;
mod validated;
mod window;

pub use algorithm::{Algorithm, AlgorithmError, Control};
pub use cubic::CubicOptions;
pub use dctcp::{DctcpLoss, DctcpOptions};
pub use hystart::Hystart;
pub use ledbat::LedbatOptions;
pub use loss_based::Validation;
pub use silent::Silent;
pub use turns::{Turn, Turns};

use weir_units::{Bytes, Rate, Time};

/// What an acknowledgement that delivered something new says, in the manner of
/// draft-cheng-iccrg-delivery-rate-estimation and of Linux's `rate_sample`.
#[derive(Clone, Copy, Debug)]
pub struct AckSample {
    /// When it arrived.
    pub now: Time,
    /// Bytes newly acknowledged, cumulatively or by SACK.
    pub acked: u64,
    /// Bytes newly held for lost since the acknowledgement before.
    pub lost: u64,
    /// Bytes of `acked` that arrived marked CE: exact with AccECN; with RFC 3168, and for the
    /// DCTCP echo, all of `acked` where ECE was set.
    pub marked: u64,
    /// Round-trip time of the newest segment acknowledged; `None` where it was sent twice and no
    /// timestamp tells which.
    pub rtt: Option<Time>,
    /// Smoothed round-trip time (RFC 6298).
    pub srtt: Time,
    /// Least round-trip time ever seen.
    pub min_rtt: Time,
    /// Bytes in flight before this acknowledgement.
    pub prior_in_flight: u64,
    /// Bytes in flight after it.
    pub in_flight: u64,
    /// Bytes delivered since the connection began, this acknowledgement's included.
    pub delivered: u64,
    /// What `delivered` was when the newest segment acknowledged here was sent: a round trip ends
    /// when it reaches the `delivered` at which the round began.
    pub prior_delivered: u64,
    /// How fast data was delivered over the flight of that segment; `None` if too short to tell.
    pub delivery_rate: Option<Rate>,
    /// Whether the sender had nothing to send while that sample was taken.
    pub is_app_limited: bool,
    /// Whether it acknowledges cumulatively: on SACK alone a window does not grow (Linux's
    /// `tcp_may_raise_cwnd`).
    pub advances: bool,
    /// Whether the window, and not the application, had been holding the sender back.
    pub is_cwnd_limited: bool,
    /// Whether the endpoint repairs a loss at present (RFC 6675 recovery or after a timeout).
    pub in_recovery: bool,
}

/// Why the window should fall.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Signal {
    /// A segment was lost: entering recovery, once per round trip.
    Loss,
    /// A classic ECN echo (RFC 3168), once per round trip.
    Ecn,
    /// The retransmission timer ran out.
    Timeout,
}

/// Which codepoint a control wants on its data, and how it wants the answer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum EcnUse {
    /// Not ECN-capable.
    #[default]
    None,
    /// ECT(0), echo until CWR (RFC 3168).
    Classic,
    /// ECT(0), each mark echoed once (DCTCP, RFC 8257).
    Dctcp,
    /// ECT(1), AccECN (RFC 9331, RFC 9768).
    L4s,
}

/// Decides how much may be in flight.
///
/// The endpoint calls [`on_send`](Self::on_send) for each data segment, then for each
/// acknowledgement at most one [`on_congestion`](Self::on_congestion) followed by
/// [`on_ack`](Self::on_ack). `now` never goes back. All windows are bytes.
pub trait CongestionControl: std::fmt::Debug + Send {
    /// The name that the kernel has for it ("cubic"), or the field.
    fn name(&self) -> &'static str;

    /// The handshake is complete and took `rtt`; not called where that is not known. A control
    /// that paces begins with it.
    fn on_established(&mut self, _now: Time, _rtt: Time) {}

    /// A segment of `size` leaves; `in_flight` does not yet count it.
    fn on_send(&mut self, _now: Time, _size: Bytes, _in_flight: u64) {}

    /// Something new was delivered.
    fn on_ack(&mut self, sample: &AckSample);

    /// The window should fall. `in_flight` is what was in flight when the signal came.
    fn on_congestion(&mut self, signal: Signal, now: Time, in_flight: u64);

    /// The repair of a loss is complete.
    fn on_recovery_exit(&mut self, _now: Time) {}

    /// The last [`on_congestion`](Self::on_congestion) was wrong (DSACK or Eifel): back to the
    /// window before it.
    fn on_spurious(&mut self, _now: Time) {}

    /// Sending starts again after nothing was in flight for `idle`.
    fn on_restart(&mut self, _now: Time, _idle: Time) {}

    /// Bytes that may be in flight. While the endpoint repairs a loss and
    /// [`wants_prr`](Self::wants_prr), it approaches this proportionally (RFC 9937).
    fn window(&self) -> u64;

    /// The slow-start threshold in bytes, `u64::MAX` while unknown or where there is none.
    fn slow_start_threshold(&self) -> u64 {
        u64::MAX
    }

    /// Puts the window and the slow-start threshold where another mechanism (congestion-window
    /// validation, say) wants them.
    fn set_window(&mut self, window: u64, slow_start_threshold: u64);

    /// The rate at which segments should leave; `None` to send as the window opens.
    fn pacing_rate(&self) -> Option<Rate> {
        None
    }

    /// Whether a loss is repaired under proportional rate reduction.
    fn wants_prr(&self) -> bool {
        true
    }

    /// Whether what is sent again carries the codepoint of its data; RFC 3168 section 6.1.5 forbids
    /// it, Linux's DCTCP and L4S do it.
    fn retransmits_ecn_capable(&self) -> bool {
        false
    }

    /// The codepoint of its data.
    fn ecn(&self) -> EcnUse {
        EcnUse::None
    }
}
