"""Work 004's household line: servers, a bottleneck under a queue discipline, clients.

Testbeds T2 (20 Mbit/s, 20 ms) and T3 (40 Mbit/s, 7 ms) of 004-spec section 7, in the packet
simulator. Servers stand at `server`, what they send waits before the line; acknowledgements find no
queue. ECN-capable packets are L4S, as in 2015, unless a queue says otherwise.
"""

import csv
import io
import random
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from weir import Rate, Time
from weir.lab.scenario import Bernoulli, Direction, Link, Node, Queue, Scenario
from weir.runs.point import Json
from weir.sim.core import simulated
from weir.sim.traffic import Bulk, Generator, SimulatedTraffic, Tcp, between

ENDS = ("server", "client")
_MS = 10**6


def red(*, ecn: bool, max_probability: float = 0.006) -> Queue:
    """RED from 20 to 70 ms (004-spec section 5.5)."""
    parameters = {
        "min_threshold": {"ns": 20 * _MS},
        "max_threshold": {"ns": 70 * _MS},
        "max_probability": max_probability,
        "weight": 1 / 512,
        "gentle": False,
        "ecn": ecn,
    }
    return Queue("red", parameters=parameters)


def pie(*, ecn: bool) -> Queue:
    """PIE of Linux 3.18 at its defaults (004-spec section 5.6)."""
    parameters = {
        "variant": "linux-3.18",
        "target": 20 * _MS,
        "update_interval": 30 * _MS,
        "max_burst": 100 * _MS,
        "ecn": ecn,
        "max_mark_probability": 0.1,
        "derandomize": False,
        "activity_gate": False,
    }
    return Queue("pie", parameters=parameters)


def fq_codel(queues: int = 1024) -> Queue:
    """FQ-CoDel at its defaults (004-spec section 5.7); with one queue, all flows collide."""
    return Queue("fq-codel", parameters={"flows": queues, "ecn": True})


def dual_curvy_red(range_ns: int, coupling: float, coupling_input: str = "max") -> Queue:
    """The work's own DualQ (004-spec section 5.2)."""
    parameters = {
        "range": range_ns,
        "coupling_factor": coupling,
        "smoothing": 5,
        "threshold": {"packets": 5},
        "coupling_input": coupling_input,
        "scheduler": "strict",
        "classifier": "any-ect",
    }
    return Queue("dual-curvy-red", parameters=parameters)


def dual_pi2() -> Queue:
    """DualPI2 of RFC 9332, which the work did not have."""
    return Queue("dual-pi2", parameters={"classifier": "any-ect"})


CONTROLS = {
    "dctcp": "dctcp:on-loss=linux-3.18",
    "dctcp-windows": "dctcp:on-loss=windows",
}
"""What the testbeds had where it is not a control's default (004-spec section 4.10)."""


def control(name: str) -> Tcp:
    """The TCP of a sender called `name` in a table."""
    # Linux 3.18, whose DCTCP it is, asked for ECN by every SYN.
    return Tcp(CONTROLS.get(name, name), ecn_fallback=name != "dctcp")


def sent(
    name: str, generator: Generator, start_ns: int = 0, *, ecn: str | None = None
) -> SimulatedTraffic:
    """Traffic from the server to the client, to the end of the run."""
    return between(ENDS, name, generator, start_ns, ecn=ecn)


@dataclass(frozen=True, slots=True)
class Line:
    """A bottleneck.

    Attributes:
        rate_bps: what it carries.
        rtt_ns: round-trip time without a queue.
    """

    rate_bps: int
    rtt_ns: int

    def run(
        self,
        queue: Queue,
        traffic: Sequence[SimulatedTraffic],
        seconds: int,
        seed: int,
        *,
        warmup_s: int = 0,
        trace_ns: int = 0,
        loss: float = 0.0,
    ) -> dict[str, Any]:
        """What the simulator found.

        Args:
            queue: in front of the line.
            traffic: from the server to the client.
            seconds: of the run.
            seed: of the run.
            warmup_s: at its begin, not measured.
            trace_ns: keep a look each such interval.
            loss: probability that the line loses a packet.
        """
        return simulated(
            self._scenario(queue, traffic, seed, loss),
            Time(f"{seconds} s"),
            warmup=Time(f"{warmup_s} s"),
            sample=Time.from_ns(trace_ns) if trace_ns else None,
            trace=trace_ns > 0,
        )

    def _scenario(
        self, queue: Queue, traffic: Sequence[SimulatedTraffic], seed: int, loss: float
    ) -> Scenario:
        """The line between its two hosts, and what is sent over it."""
        back = Direction(delay=Time.from_ns(self.rtt_ns // 2))
        rate, lost = Rate.from_bit_per_s(self.rate_bps), Bernoulli(loss) if loss else None
        forward = replace(back, rate=rate, queue=queue, loss=lost)
        link = Link("line", ENDS, forward, back)
        nodes = tuple(Node(name) for name in ENDS)
        return Scenario("line", seed, nodes, (link,), tuple(traffic))

    def queue(self, answer: Mapping[str, Any]) -> dict[str, Json]:
        """An answer's mean queue and each class's waits in ms, its marks and drops."""
        forward = answer["links"][0]["forward"]
        found: dict[str, Json] = {
            "mean_ms": forward["queue_bytes_mean"] * 8e3 / self.rate_bps,
            "utilisation": forward["utilisation"],
        }
        for one in forward["classes"]:
            found[one["name"]] = {
                "p50_ms": one["sojourn"]["p50_ns"] / 1e6,
                "p99_ms": one["sojourn"]["p99_ns"] / 1e6,
                "marked": one["marked"] / max(1, one["packets_out"]),
                "dropped": one["dropped"] / max(1, one["packets_in"]),
            }
        return found


def long_flows(kinds: Mapping[str, int], seed: int) -> list[SimulatedTraffic]:
    """So many endless downloads of each control, which begin within the first second."""
    draw = random.Random(f"starts {seed}")
    return [
        sent(f"{kind} {number}", Bulk(control(kind)), draw.randrange(10**9))
        for kind, count in kinds.items()
        for number in range(count)
    ]


def mbit_s(answer: Mapping[str, Any], kind: str) -> list[float]:
    """The rates of the long flows of a control."""
    flows = (flow for flow in answer["flows"] if flow["name"].split(" ")[0] == kind)
    return [flow["goodput_bps"] / 1e6 for flow in flows]


def read(answer: Mapping[str, Any], trace: str) -> Iterator[list[str]]:
    """The lines of a trace, without their titles."""
    lines = csv.reader(io.StringIO(answer["traces"][trace]))
    next(lines)
    return lines
