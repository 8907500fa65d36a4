//! Explicit congestion notification: what was agreed, what is echoed, what an echo means.
//!
//! RFC 3168 section 6.1 (echo until CWR), RFC 8257 section 3.2 (DCTCP's echo), RFC 9768 (Accurate
//! ECN: the ACE counter of section 3.2.2 and the option of section 3.2.3).

use weir_queue::Ecn;

use crate::congestion::EcnUse;
use crate::segment::Flags;

/// Where both counters of CE-marked packets begin (RFC 9768 section 3.2.1).
const COUNTER_INITIAL: u64 = 5;
const ACE_MASK: u64 = 0b111;
/// The bits of the ACE field.
const ACE: Flags = Flags::AE.with(Flags::CWR).with(Flags::ECE);

/// How both sides speak of congestion.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum EcnMode {
    /// Not at all.
    #[default]
    Off,
    /// ECE until CWR.
    Classic,
    /// ECE tells of each segment.
    Dctcp,
    /// Counters of marked packets and bytes.
    Accurate,
}

/// What an acknowledgement says of marks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Feedback {
    /// ECE was set (classic, DCTCP), or the counters moved (accurate).
    pub(crate) is_echo: bool,
    /// Bytes marked since the last one, where the other side counts them.
    pub(crate) marked_bytes: Option<u64>,
}

/// One side's ECN: feedback to the other side of what arrives, and from it of what left.
#[derive(Debug, Default)]
pub(crate) struct EcnState {
    pub(crate) mode: EcnMode,
    /// Classic: echo until CWR. DCTCP: the last data segment was marked.
    is_echoing: bool,
    /// Accurate: what arrived marked, in packets and bytes, and in bytes with ECT(1).
    ce_packets: u64,
    ce_bytes: u64,
    ect1_bytes: u64,
    last: Ecn,
    /// Accurate: what the other side has reported.
    peer_ce_packets: u64,
    peer_ce_bytes: u64,
    /// The codepoint of the handshake segment that arrived, until it is fed back.
    handshake: Option<Ecn>,
    /// Classic: the next new data says CWR.
    pub(crate) must_say_reduced: bool,
}

/// The flags of a SYN that asks for `mode` (RFC 3168 section 6.1.1, RFC 9768 section 3.1.1).
pub(crate) fn request(mode: EcnMode) -> Flags {
    match mode {
        EcnMode::Off => Flags::default(),
        EcnMode::Classic | EcnMode::Dctcp => Flags::ECE.with(Flags::CWR),
        EcnMode::Accurate => ACE,
    }
}

/// The mode that a side asks for whose control uses ECN so.
pub(crate) fn wanted(ecn: EcnUse, accurate: bool) -> EcnMode {
    match ecn {
        EcnUse::None => EcnMode::Off,
        EcnUse::L4s => EcnMode::Accurate,
        _ if accurate => EcnMode::Accurate,
        EcnUse::Classic => EcnMode::Classic,
        EcnUse::Dctcp => EcnMode::Dctcp,
    }
}

/// The ACE field that tells which codepoint a handshake segment arrived with (RFC 9768 tables 2
/// and 3).
fn handshake_flags(arrived: Ecn) -> Flags {
    match arrived {
        Ecn::NotEct => Flags::CWR,
        Ecn::Ect1 => Flags::CWR.with(Flags::ECE),
        Ecn::Ect0 => Flags::AE,
        Ecn::Ce => Flags::AE.with(Flags::CWR),
    }
}

fn ace(flags: Flags) -> u64 {
    u64::from(flags.has(Flags::AE)) << 2
        | u64::from(flags.has(Flags::CWR)) << 1
        | u64::from(flags.has(Flags::ECE))
}

fn ace_flags(counter: u64) -> Flags {
    let bit = |mask: u64, flag: Flags| if counter & mask != 0 { flag } else { Flags::default() };
    bit(4, Flags::AE).with(bit(2, Flags::CWR)).with(bit(1, Flags::ECE))
}

impl EcnState {
    pub(crate) fn agree(&mut self, mode: EcnMode) {
        self.mode = mode;
        (self.ce_packets, self.peer_ce_packets) = (COUNTER_INITIAL, COUNTER_INITIAL);
    }

    /// The passive side answers a SYN with `flags` that arrived with codepoint `arrived`;
    /// `echo_each` chooses DCTCP's echo over that of RFC 3168.
    pub(crate) fn on_syn(&mut self, flags: Flags, arrived: Ecn, echo_each: bool) {
        let mode = match (flags.has(ACE), flags.has(Flags::ECE.with(Flags::CWR))) {
            (true, _) => EcnMode::Accurate,
            (false, true) if echo_each => EcnMode::Dctcp,
            (false, true) => EcnMode::Classic,
            (false, false) => EcnMode::Off,
        };
        self.agree(mode);
        self.handshake = Some(arrived);
    }

    /// The flags of the SYN/ACK.
    pub(crate) fn syn_ack_flags(&self) -> Flags {
        match self.mode {
            EcnMode::Off => Flags::default(),
            EcnMode::Classic | EcnMode::Dctcp => Flags::ECE,
            EcnMode::Accurate => handshake_flags(self.handshake.unwrap_or_default()),
        }
    }

    /// The active side reads the SYN/ACK, having asked for `asked`.
    pub(crate) fn on_syn_ack(&mut self, asked: EcnMode, flags: Flags, arrived: Ecn) {
        let mode = match (asked, ace(flags)) {
            (EcnMode::Off, _) | (_, 0b000 | 0b111) => EcnMode::Off,
            (EcnMode::Accurate, 0b001 | 0b101) => EcnMode::Classic,
            (EcnMode::Accurate, _) => EcnMode::Accurate,
            (asked, 0b001) => asked,
            _ => EcnMode::Off,
        };
        self.agree(mode);
        if mode == EcnMode::Accurate {
            self.handshake = Some(arrived);
            self.ce_packets += u64::from(arrived == Ecn::Ce);
        }
    }

    /// The passive side's SYN/ACK was acknowledged.
    pub(crate) fn on_established(&mut self) {
        self.handshake = None;
    }

    /// A segment with `len` bytes of data arrived. Whether what it says of congestion should be
    /// told at once; [`Self::wants_ack_before`] was asked first.
    pub(crate) fn on_arrival(&mut self, arrived: Ecn, flags: Flags, len: u32) -> bool {
        let is_marked = arrived == Ecn::Ce;
        match self.mode {
            EcnMode::Off => false,
            EcnMode::Classic => {
                if flags.has(Flags::CWR) && len > 0 {
                    self.is_echoing = false;
                }
                let begins = is_marked && !self.is_echoing;
                self.is_echoing |= is_marked;
                begins
            }
            EcnMode::Dctcp => {
                let changes = len > 0 && is_marked != self.is_echoing;
                if len > 0 {
                    self.is_echoing = is_marked;
                }
                changes
            }
            EcnMode::Accurate => {
                let bytes = u64::from(len);
                match arrived {
                    Ecn::Ce => {
                        self.ce_packets += 1;
                        self.ce_bytes += bytes;
                    }
                    Ecn::Ect1 => self.ect1_bytes += bytes,
                    _ => {}
                }
                let changes = len > 0 && arrived != self.last;
                if len > 0 {
                    self.last = arrived;
                }
                changes
            }
        }
    }

    /// DCTCP: what waits for an acknowledgement should be acknowledged before a segment with this
    /// codepoint counts, because it was marked otherwise (RFC 8257 section 3.2).
    pub(crate) fn wants_ack_before(&self, arrived: Ecn, len: u32) -> bool {
        self.mode == EcnMode::Dctcp && len > 0 && (arrived == Ecn::Ce) != self.is_echoing
    }

    /// The echo in the flags of a segment that acknowledges. `is_first`: it is the pure
    /// acknowledgement of the SYN/ACK, which tells of that (RFC 9768 section 3.2.2.1).
    pub(crate) fn echo_flags(&mut self, is_first: bool) -> Flags {
        match self.mode {
            EcnMode::Off => Flags::default(),
            EcnMode::Classic | EcnMode::Dctcp if self.is_echoing => Flags::ECE,
            EcnMode::Classic | EcnMode::Dctcp => Flags::default(),
            EcnMode::Accurate => match self.handshake.take() {
                Some(arrived) if is_first => handshake_flags(arrived),
                _ => ace_flags(self.ce_packets),
            },
        }
    }

    /// The AccECN option: bytes that arrived with CE and with ECT(1).
    pub(crate) fn option(&self) -> Option<(u64, u64)> {
        (self.mode == EcnMode::Accurate).then_some((self.ce_bytes, self.ect1_bytes))
    }

    /// Reads the echo of an acknowledgement of `acked` bytes, newly delivered, in segments of
    /// `mss`. `is_handshake`: its ACE field tells of the SYN/ACK and counts nothing.
    pub(crate) fn feedback(
        &mut self,
        flags: Flags,
        option: Option<(u64, u64)>,
        is_handshake: bool,
        acked: u64,
        mss: u64,
    ) -> Feedback {
        match self.mode {
            EcnMode::Off => Feedback::default(),
            EcnMode::Classic | EcnMode::Dctcp => {
                Feedback { is_echo: flags.has(Flags::ECE), marked_bytes: None }
            }
            EcnMode::Accurate if is_handshake => Feedback::default(),
            EcnMode::Accurate => self.counted(flags, option, acked, mss),
        }
    }

    fn counted(
        &mut self,
        flags: Flags,
        option: Option<(u64, u64)>,
        acked: u64,
        mss: u64,
    ) -> Feedback {
        // A counter that runs backwards belongs to an acknowledgement overtaken by a later one.
        let packets = (ace(flags).wrapping_sub(self.peer_ce_packets)) & ACE_MASK;
        let packets_acked = acked.div_ceil(mss);
        let Some((ce_bytes, _)) = option else {
            if acked == 0 {
                return Feedback::default();
            }
            // RFC 9768 appendix A.2: the least that agrees, unless so much was acknowledged that
            // the counter may have wrapped; then all of it, less what would be too much.
            let packets = if packets_acked > ACE_MASK {
                packets_acked - ((packets_acked.wrapping_sub(packets)) & ACE_MASK)
            } else {
                packets
            };
            self.peer_ce_packets += packets;
            let bytes = (packets * mss).min(acked);
            self.peer_ce_bytes += bytes;
            return Feedback { is_echo: packets > 0, marked_bytes: Some(bytes) };
        };
        let bytes = ce_bytes.saturating_sub(self.peer_ce_bytes);
        self.peer_ce_bytes = self.peer_ce_bytes.max(ce_bytes);
        if acked > 0 || bytes > 0 {
            self.peer_ce_packets += packets;
        }
        Feedback { is_echo: bytes > 0, marked_bytes: Some(bytes) }
    }
}
