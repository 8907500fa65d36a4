"""What the kernel tells of a TCP connection: `struct tcp_info` of <linux/tcp.h>.

The structure has grown at its end for twenty years: an older kernel fills less of it, and what it
does not know is None here.
"""

import socket
import struct
from dataclasses import dataclass

_SIZE = 256  # more than any kernel fills (248 bytes in Linux 6.18); it says how much it did
_ECN_AGREED = 8  # TCPI_OPT_ECN
_RECOVERY = 3  # TCP_CA_Recovery; above it TCP_CA_Loss, after a timeout
_INFINITE_SSTHRESH = 2**31 - 1
_UNLIMITED = 2**64 - 1  # what an unpaced connection gives as its pacing rate

# Offset and format of each value taken, checked against the kernel's header by the tests.
_LAYOUT = {
    "ca_state": (1, "B"),
    "options": (5, "B"),
    "flags": (7, "B"),
    "snd_mss": (16, "I"),
    "unacked": (24, "I"),
    "lost": (32, "I"),
    "rtt_us": (68, "I"),
    "rttvar_us": (72, "I"),
    "snd_ssthresh": (76, "I"),
    "snd_cwnd": (80, "I"),
    "total_retrans": (100, "I"),
    "pacing_rate": (104, "Q"),
    "bytes_acked": (120, "Q"),
    "notsent_bytes": (144, "I"),
    "min_rtt_us": (148, "I"),
    "delivery_rate": (160, "Q"),
    "busy_time_us": (168, "Q"),
    "rwnd_limited_us": (176, "Q"),
    "sndbuf_limited_us": (184, "Q"),
    "delivered": (192, "I"),
    "delivered_ce": (196, "I"),
    "bytes_sent": (200, "Q"),
    "bytes_retrans": (208, "Q"),
}


@dataclass(frozen=True, slots=True)
class TcpInfo:
    """A connection as its sending kernel saw it at one instant.

    All of it is free: no packet is sent for it. Counters are since the connection began. None is
    what this kernel does not tell.

    Attributes:
        srtt_ns: smoothed round-trip time (RFC 6298).
        rttvar_ns: its mean deviation.
        min_rtt_ns: least round-trip time of late (of tcp_min_rtt_wlen, 300 s).
        cwnd_packets: congestion window, in packets of `mss_bytes`.
        threshold_packets: where slow start ends, None before the first loss; BBR leaves there what
            it takes the path to carry.
        mss_bytes: payload of a full packet.
        in_flight_packets: sent and not acknowledged.
        pacing_rate_bps: at which the kernel spaces packets, None where it does not.
        delivery_rate_bps: the latest measured rate of delivery (payload), as of BBR.
        app_limited: whether that rate was limited by what the application gave, not by the path.
        acked_bytes: acknowledged payload.
        sent_bytes: payload sent, retransmissions included.
        retransmitted_bytes: payload sent again.
        retransmitted_packets: packets sent again.
        lost_packets: now taken for lost.
        delivered_packets: delivered, marked ones included.
        marked_packets: delivered with a congestion mark (CE), as far as ECN was echoed.
        ecn: whether both ends agreed on ECN.
        unsent_bytes: in the send buffer and never sent.
        busy_ns: time with data to send or unacknowledged.
        peer_limited_ns: of that, held up by the peer's window.
        buffer_limited_ns: of that, held up by a full send buffer.
        recovering: whether the connection is in loss recovery or after a timeout.
        starting: whether nothing has ended its first slow start, or BBR's.
    """

    srtt_ns: int | None
    rttvar_ns: int | None
    min_rtt_ns: int | None
    cwnd_packets: int | None
    threshold_packets: int | None
    mss_bytes: int | None
    in_flight_packets: int | None
    pacing_rate_bps: int | None
    delivery_rate_bps: int | None
    app_limited: bool | None
    acked_bytes: int | None
    sent_bytes: int | None
    retransmitted_bytes: int | None
    retransmitted_packets: int | None
    lost_packets: int | None
    delivered_packets: int | None
    marked_packets: int | None
    ecn: bool | None
    unsent_bytes: int | None
    busy_ns: int | None
    peer_limited_ns: int | None
    buffer_limited_ns: int | None
    recovering: bool | None
    starting: bool | None


def read_tcp_info(connection: socket.socket) -> TcpInfo:
    """What the kernel tells of `connection` now.

    Raises:
        OSError: it is not a TCP socket.
    """
    return parse_tcp_info(connection.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, _SIZE))


def parse_tcp_info(told: bytes) -> TcpInfo:
    """Reads as much of the structure as the kernel filled."""

    def value(name: str) -> int | None:
        offset, kind = _LAYOUT[name]
        if offset + struct.calcsize(kind) > len(told):
            return None
        return int(struct.unpack_from("=" + kind, told, offset)[0])

    def flag(name: str, bits: int) -> bool | None:
        return None if (found := value(name)) is None else bool(found & bits)

    state, threshold = value("ca_state"), value("snd_ssthresh")
    is_starting = None if threshold is None else threshold >= _INFINITE_SSTHRESH
    pacing = value("pacing_rate")
    return TcpInfo(
        srtt_ns=_scaled(value("rtt_us"), 1000),
        rttvar_ns=_scaled(value("rttvar_us"), 1000),
        min_rtt_ns=_scaled(value("min_rtt_us"), 1000),
        cwnd_packets=value("snd_cwnd"),
        threshold_packets=None if is_starting else threshold,
        mss_bytes=value("snd_mss"),
        in_flight_packets=value("unacked"),
        pacing_rate_bps=None if pacing == _UNLIMITED else _scaled(pacing, 8),
        delivery_rate_bps=_scaled(value("delivery_rate"), 8),
        app_limited=flag("flags", 1),
        acked_bytes=value("bytes_acked"),
        sent_bytes=value("bytes_sent"),
        retransmitted_bytes=value("bytes_retrans"),
        retransmitted_packets=value("total_retrans"),
        lost_packets=value("lost"),
        delivered_packets=value("delivered"),
        marked_packets=value("delivered_ce"),
        ecn=flag("options", _ECN_AGREED),
        unsent_bytes=value("notsent_bytes"),
        busy_ns=_scaled(value("busy_time_us"), 1000),
        peer_limited_ns=_scaled(value("rwnd_limited_us"), 1000),
        buffer_limited_ns=_scaled(value("sndbuf_limited_us"), 1000),
        recovering=None if state is None else state >= _RECOVERY,
        starting=is_starting,
    )


def _scaled(value: int | None, factor: int) -> int | None:
    return None if value is None else value * factor
