//! The sending half of a connection, which takes little memory until something is written.
//!
//! Most connections have a side that never sends: what it is told is kept, and becomes a [`Sender`]
//! when the application first writes or closes.

use std::sync::Arc;

use weir_units::Time;

use super::rtt::RttEstimator;
use super::{Outgoing, PeerWindow, Sender};
use crate::config::Config;
use crate::congestion::{CongestionControl, EcnUse, Silent};
use crate::ecn::{EcnMode, EcnState};
use crate::segment::Segment;
use crate::statistics::Statistics;

/// The number of the first byte of data: the SYN has number 0.
const FIRST: u64 = 1;

/// What the handshake told.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Established {
    /// When it was over, and how long it took if that is known.
    pub(crate) now: Time,
    pub(crate) rtt: Option<Time>,
    /// The window that the other side offers, and the longest segment that it takes.
    pub(crate) window: u32,
    pub(crate) mss: u64,
    pub(crate) has_sack: bool,
    pub(crate) ecn_mode: EcnMode,
}

#[derive(Debug)]
pub(crate) enum SendHalf {
    /// Nothing was written yet.
    Quiet(Box<Quiet>),
    Active(Box<Sender>),
}

/// What a sender will begin with.
#[derive(Debug)]
pub(crate) struct Quiet {
    config: Arc<Config>,
    control: Box<dyn CongestionControl>,
    made_at: Time,
    established: Option<Established>,
    peer: PeerWindow,
    rto: Time,
    /// It was asked for a segment and had none: samples of the first flight will say little.
    was_polled: bool,
}

impl SendHalf {
    pub(crate) fn new(config: Arc<Config>, control: Box<dyn CongestionControl>, now: Time) -> Self {
        let rto = RttEstimator::new(config.rto).rto();
        let peer = PeerWindow::new(0);
        let (established, was_polled) = (None, false);
        let made_at = now;
        let quiet = Quiet { config, control, made_at, established, peer, rto, was_polled };
        Self::Quiet(Box::new(quiet))
    }

    /// The sender, made now if there was none.
    fn active(&mut self) -> &mut Sender {
        if let Self::Quiet(quiet) = self {
            let config = Arc::clone(&quiet.config);
            let control = std::mem::replace(&mut quiet.control, Box::new(Silent::default()));
            let mut sender = Sender::new(config, control, quiet.made_at);
            if let Some(established) = quiet.established {
                sender.establish(established);
                sender.peer = quiet.peer;
            }
            if quiet.was_polled {
                sender.note_app_limited();
            }
            *self = Self::Active(Box::new(sender));
        }
        match self {
            Self::Active(sender) => sender,
            Self::Quiet(_) => unreachable!("it was made active above"),
        }
    }

    pub(crate) fn establish(&mut self, established: Established) {
        match self {
            Self::Quiet(quiet) => {
                let mut rtt = RttEstimator::new(quiet.config.rto);
                if let Some(first) = established.rtt {
                    rtt.sample(first, FIRST, FIRST);
                }
                quiet.rto = rtt.rto();
                quiet.peer = PeerWindow::new(established.window);
                quiet.established = Some(established);
            }
            Self::Active(sender) => sender.establish(established),
        }
    }

    /// See [`Sender::on_ack`].
    pub(crate) fn on_ack(
        &mut self,
        segment: &Segment,
        ecn: &mut EcnState,
        is_handshake: bool,
        now: Time,
    ) {
        match self {
            Self::Quiet(quiet) => {
                quiet.peer.update(segment, FIRST);
                let Segment { flags, accurate_ecn, .. } = *segment;
                ecn.feedback(flags, accurate_ecn, is_handshake, 0, self.mss());
            }
            Self::Active(sender) => sender.on_ack(segment, ecn, is_handshake, now),
        }
    }

    /// See [`Sender::poll`].
    pub(crate) fn poll(&mut self, now: Time) -> Option<Outgoing> {
        match self {
            Self::Quiet(quiet) => {
                quiet.was_polled = true;
                None
            }
            Self::Active(sender) => sender.poll(now),
        }
    }

    pub(crate) fn write(&mut self, bytes: u64) -> u64 {
        self.active().write(bytes)
    }

    pub(crate) fn close(&mut self) {
        self.active().close();
    }

    pub(crate) fn on_timer(&mut self, now: Time) {
        if let Self::Active(sender) = self {
            sender.on_timer(now);
        }
    }

    pub(crate) fn next_timer(&self) -> Time {
        self.sender().map_or(Time::MAX, Sender::next_timer)
    }

    fn sender(&self) -> Option<&Sender> {
        match self {
            Self::Quiet(_) => None,
            Self::Active(sender) => Some(sender),
        }
    }

    pub(crate) fn has_given_up(&self) -> bool {
        self.sender().is_some_and(Sender::has_given_up)
    }

    pub(crate) fn is_closing(&self) -> bool {
        self.sender().is_some_and(Sender::is_closing)
    }

    pub(crate) fn is_fin_acked(&self) -> bool {
        self.sender().is_some_and(Sender::is_fin_acked)
    }

    pub(crate) fn is_all_acked(&self) -> bool {
        self.sender().is_none_or(Sender::is_all_acked)
    }

    pub(crate) fn acked(&self) -> u64 {
        self.sender().map_or(0, Sender::acked)
    }

    pub(crate) fn unsent(&self) -> u64 {
        self.sender().map_or(0, Sender::unsent)
    }

    pub(crate) fn nxt(&self) -> u64 {
        self.sender().map_or(FIRST, Sender::nxt)
    }

    pub(crate) fn writable(&self) -> u64 {
        match self {
            Self::Quiet(quiet) => quiet.config.send_buffer,
            Self::Active(sender) => sender.writable(),
        }
    }

    pub(crate) fn mss(&self) -> u64 {
        match self {
            Self::Quiet(quiet) => {
                let theirs = quiet.established.map_or(u64::MAX, |established| established.mss);
                theirs.min(quiet.config.mss.into()).max(1)
            }
            Self::Active(sender) => sender.mss(),
        }
    }

    pub(crate) fn rto(&self) -> Time {
        match self {
            Self::Quiet(quiet) => quiet.rto,
            Self::Active(sender) => sender.rto(),
        }
    }

    pub(crate) fn ecn_use(&self) -> EcnUse {
        match self {
            Self::Quiet(quiet) => quiet.control.ecn(),
            Self::Active(sender) => sender.ecn_use(),
        }
    }

    pub(crate) fn control(&self) -> &dyn CongestionControl {
        match self {
            Self::Quiet(quiet) => &*quiet.control,
            Self::Active(sender) => sender.control(),
        }
    }

    pub(crate) fn statistics(&self) -> Statistics {
        match self {
            Self::Quiet(quiet) => {
                let rtt = quiet.established.and_then(|told| told.rtt).unwrap_or_default();
                Statistics {
                    window: quiet.control.window(),
                    slow_start_threshold: quiet.control.slow_start_threshold(),
                    srtt: rtt,
                    rtt,
                    min_rtt: rtt,
                    rto: quiet.rto,
                    ..Statistics::default()
                }
            }
            Self::Active(sender) => sender.statistics(),
        }
    }
}
