"""What is compared in the validation: one dumbbell in three worlds."""

from dataclasses import dataclass, field

_STEP = (
    'discipline = "red", limit = "1 MB", min_threshold = "60000 B", max_threshold = "60001 B", '
    "weight = 1.0, ecn = true"
)


@dataclass(frozen=True)
class Case:
    """Long flows over one bottleneck.

    Attributes:
        flows: the congestion control of each.
        rtt_ms: without queues.
        buffer_bdp: the limit of a drop-tail queue over rate x RTT.
        queue: "fifo", which is drop-tail, a discipline that has its defaults instead of a limit, or
            "step", which marks whatever finds more than 60 kB waiting (RED with one threshold).
        ecn: whether the flows ask for ECN.
        rate_mbit_s: of the bottleneck.
        seconds: simulated, or waited.
        from_s: how much of the start is left out.
        stagger_s: between two flows' starts.
    """

    flows: tuple[str, ...]
    rtt_ms: int
    buffer_bdp: float = 4
    queue: str = "fifo"
    ecn: bool = False
    rate_mbit_s: int = 50
    seconds: int = 40
    from_s: int = 10
    stagger_s: float = 0.01

    @property
    def name(self) -> str:
        """Unique, readable."""
        kinds = "+".join(f"{self.flows.count(kind)}x{kind}" for kind in dict.fromkeys(self.flows))
        queue = f"{self.buffer_bdp:g}bdp" if self.queue == "fifo" else self.queue
        return f"{kinds}-{self.rtt_ms}ms-{queue}{'-ecn' if self.ecn else ''}"

    @property
    def rate_bps(self) -> int:
        """The bottleneck's rate."""
        return self.rate_mbit_s * 10**6

    @property
    def buffer_bytes(self) -> int:
        """The queue's limit."""
        return round(self.buffer_bdp * self.rate_bps / 8 * self.rtt_ms / 1e3)

    def scenario(self) -> str:
        """The lab's file: hosts s and d, routers r1 and r2 around the link "bottleneck"."""
        queue = {
            "fifo": f'discipline = "fifo", limit = "{self.buffer_bytes} B"',
            "step": _STEP,
        }.get(self.queue, f'discipline = "{self.queue}"')
        host = f"ecn = {str(self.ecn).lower()}"
        if "dctcp" in self.flows:
            host += '\ncongestion = "dctcp"'
        return f"""
[lab]
name = "validation"
[hosts.s]
{host}
[hosts.d]
{host}
[routers.r1]
[routers.r2]
[[link]]
ends = ["s", "r1"]
[[link]]
name = "bottleneck"
ends = ["r1", "r2"]
rate = "{self.rate_mbit_s} Mbit/s"
delay = "{self.rtt_ms / 2:g} ms"
queue = {{ {queue} }}
[[link]]
ends = ["r2", "d"]
"""


@dataclass(frozen=True)
class Result:
    """What one world says of a case.

    Attributes:
        goodput_bps: of each flow, from `from_s` on.
        loss: packets dropped at the bottleneck over those offered.
        mean_queue_s: waiting there.
        marked: packets marked over those that left it.
        extra: what only this world knows.
    """

    goodput_bps: list[float]
    loss: float
    mean_queue_s: float
    marked: float = 0.0
    extra: dict[str, float] = field(default_factory=dict)


def _alone(kind: str) -> list[Case]:
    one, few, many = (kind,), (kind,) * 4, (kind,) * 10
    return [
        Case(one, 10, 1),
        Case(one, 50, 0.5),
        Case(one, 50, 1),
        Case(one, 50, 4),
        Case(one, 200, 1),
        Case(few, 50, 1),
        Case(many, 10, 0.5),
        Case(many, 50, 1),
        Case(many, 200, 4),
    ]


DROP_TAIL = [
    *_alone("reno"),
    *_alone("cubic"),
    *_alone("bbr"),
    Case(("cubic", "bbr"), 20, 1),
    Case(("cubic", "bbr"), 50, 0.5),
    Case(("cubic", "bbr"), 50, 1),
    Case(("cubic", "bbr"), 50, 4),
    Case(("cubic",) * 5 + ("bbr",) * 5, 50, 1),
    Case(("cubic",) * 5 + ("bbr",) * 5, 50, 4),
]
"""One to ten flows of Reno, CUBIC and BBR over 10 to 200 ms and 0.5 to 4 BDP of buffer."""

_MANAGERS = ("codel", "fq-codel", "pie", "dual-pi2")
MANAGED = [
    *(Case(("cubic",) * 4, 50, queue=queue) for queue in _MANAGERS),
    *(Case(("cubic",) * 4, 50, queue=queue, ecn=True) for queue in _MANAGERS),
    Case(("reno",) * 4, 50, queue="codel"),
    Case(("reno",) * 4, 50, queue="pie"),
    Case(("cubic",) * 10, 20, queue="codel"),
    Case(("cubic",) * 10, 20, queue="pie"),
    Case(("bbr",) * 4, 50, queue="codel"),
    Case(("cubic", "bbr"), 50, queue="fq-codel"),
    Case(("dctcp",), 20, queue="step", ecn=True),
    Case(("dctcp",) * 4, 50, queue="step", ecn=True),
    Case(("dctcp", "cubic"), 20, queue="step", ecn=True),
]
"""The same flows where the bottleneck manages its queue, with and without ECN."""

CASES = [*DROP_TAIL, *MANAGED]
