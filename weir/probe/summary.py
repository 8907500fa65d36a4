"""What a probing found, in figures: of the path, of the machine that probed, of our traffic."""

from array import array
from collections.abc import Sequence
from typing import Any

from weir.probe.active import TurnReport
from weir.probe.sample import Sample
from weir.probe.tcp_info import TcpInfo

LATE_NS = 1_000_000  # a wake-up later than this is counted: the spacing of requests


class Summary:
    """Grows by samples; 8 bytes for each request."""

    def __init__(self) -> None:
        self.samples = 0
        self.missed = 0
        self.requests = 0
        self._rtts_ns = array("q")
        self._late_ns = array("q")

    def add(self, sample: Sample) -> None:
        """Takes a sample in."""
        self.samples += 1
        self.requests += len(sample.rtts_ns)
        self._rtts_ns.extend(sample.replies_ns)
        if sample.missed:
            self.missed += 1
        else:
            self._late_ns.append(sample.late_ns)

    @property
    def replies(self) -> int:
        """Requests that were answered in time."""
        return len(self._rtts_ns)

    def facts(
        self,
        stamped: int,
        turns: Sequence[TurnReport] = (),
        tcp: TcpInfo | None = None,
        is_realtime: bool = False,
    ) -> dict[str, Any]:
        """The figures; the unit is last in the name.

        Args:
            stamped: replies with kernel timestamps both ways.
            turns: of the pattern, empty in passive probing.
            tcp: our own connection at the end, None in passive probing.
            is_realtime: whether the prober had real-time priority.
        """
        facts: dict[str, Any] = {
            "samples": self.samples,
            "requests": self.requests,
            "replies": self.replies,
            "loss": 1 - self.replies / self.requests if self.requests else None,
            "rtt_ms": _spread(self._rtts_ns),
            "kernel_stamped": stamped,
            "prober": {
                "realtime": is_realtime,
                "missed_samples": self.missed,
                "late_samples": sum(late > LATE_NS for late in self._late_ns),
                "late_ms": _spread(self._late_ns),
            },
        }
        if turns:
            facts["turns"] = [turn_facts(turn) for turn in turns]
        if tcp:
            facts["tcp"] = _tcp(tcp)
        return facts


def _spread(values: Sequence[int]) -> dict[str, float] | None:
    """Least, median, mean, 99th percentile (nearest rank) and greatest, in ms."""
    if not values:
        return None
    ranked = sorted(values)
    ns = {
        "min": ranked[0],
        "p50": ranked[(len(ranked) - 1) // 2],
        "mean": sum(ranked) / len(ranked),
        "p99": ranked[-(-99 * len(ranked) // 100) - 1],
        "max": ranked[-1],
    }
    return {name: round(value / 1e6, 6) for name, value in ns.items()}


def turn_facts(turn: TurnReport) -> dict[str, Any]:
    """What became of a turn of a pattern, the unit last in the names."""
    length_s = turn.end_s - turn.begin_s
    return {
        "segment": turn.segment,
        "begin_s": turn.begin_s,
        "end_s": turn.end_s,
        "late_ms": turn.late_ns / 1e6,
        "cwnd_packets": turn.cwnd_packets,
        "confirmed_bytes": turn.confirmed_bytes,
        "rate_bps": round(turn.confirmed_bytes * 8 / length_s) if length_s > 0 else None,
        "drain_ms": None if turn.drain_ns is None else turn.drain_ns / 1e6,
    }


def _tcp(last: TcpInfo) -> dict[str, Any]:
    return {
        "min_rtt_ms": None if last.min_rtt_ns is None else last.min_rtt_ns / 1e6,
        "acked_bytes": last.acked_bytes,
        "retransmitted_packets": last.retransmitted_packets,
        "marked_packets": last.marked_packets,
        "ecn": last.ecn,
    }
