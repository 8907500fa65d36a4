"""The measured result of a run with two halves: the calendar's, and plain TCP's.

Times are seconds: `submitted_s` and `at_s` since the half began, `deadline_s` and `finish_s`
since the transfer's own submission. Every figure here was measured; nothing is derived from what
was planned except where a field says so.
"""

from dataclasses import asdict, dataclass, field, fields
from typing import Any, Self


@dataclass(frozen=True)
class Delivery:
    """One file in one half. `finish_s` is None if it never arrived within the run."""

    id: str
    bytes: int
    source: str
    destination: str
    submitted_s: float
    deadline_s: float
    finish_s: float | None
    verified: bool
    what: str = ""

    @property
    def on_time(self) -> bool:
        """Arrived whole, under its final name, by its deadline."""
        return self.finish_s is not None and self.finish_s <= self.deadline_s

    @property
    def slack_s(self) -> float | None:
        """Time to spare at the deadline; negative when late."""
        return None if self.finish_s is None else self.deadline_s - self.finish_s

    def to_json(self) -> dict[str, Any]:
        """The fields and `on_time`."""
        return asdict(self) | {"on_time": self.on_time}


@dataclass(frozen=True)
class Timeline:
    """Samples every `step_s` from the half's start.

    `flows_bps` is the goodput of each transfer, `links` the fraction of each link's rate that
    left its queue in the direction of the transfers, background and headers included.
    """

    step_s: float
    flows_bps: dict[str, list[float]] = field(default_factory=dict)
    links: dict[str, list[float]] = field(default_factory=dict)


@dataclass(frozen=True)
class Half:
    """One pass over all the transfers, and the bottleneck's mean utilisation meanwhile."""

    deliveries: list[Delivery]
    timeline: Timeline
    utilisation: float

    @property
    def on_time(self) -> int:
        """How many transfers were on time."""
        return sum(delivery.on_time for delivery in self.deliveries)

    @property
    def verified(self) -> int:
        """How many received files hash like their source."""
        return sum(delivery.verified for delivery in self.deliveries)

    @property
    def end_s(self) -> float:
        """When the last file arrived, since the half began."""
        return max(
            (d.submitted_s + d.finish_s for d in self.deliveries if d.finish_s is not None),
            default=0.0,
        )


@dataclass(frozen=True)
class Decision:
    """One answer of the calendar, or one event it published.

    `kind` is "accepted", "refused", "rate" or "delivered".
    """

    at_s: float
    id: str
    kind: str
    rate_bps: int | None = None
    deadline_s: float | None = None
    earliest_deadline_s: float | None = None
    link: str | None = None
    detail: str = ""


@dataclass(frozen=True)
class Node:
    """A place in the network: kind "site", "router", "service" or "background"."""

    name: str
    kind: str
    what: str = ""


@dataclass(frozen=True)
class Link:
    """A link between two nodes, `rate_bps` in the direction of the transfers."""

    name: str
    ends: tuple[str, str]
    rate_bps: int
    delay_s: float


@dataclass(frozen=True)
class Scenario:
    """What was run: the network, and the terms that both halves shared."""

    name: str
    seed: int
    nodes: list[Node]
    links: list[Link]
    bottleneck: str
    calendar_bps: int
    background_bps: int
    background: str
    policy: str
    congestion: str

    @property
    def bottleneck_link(self) -> Link:
        """The link that all transfers share."""
        return next(link for link in self.links if link.name == self.bottleneck)


@dataclass(frozen=True)
class Result:
    """Both halves, the calendar's decisions, and how it was taken."""

    scenario: Scenario
    weir: Half
    plain: Half
    decisions: list[Decision]
    version: str
    taken_at: str
    machine: str
    notes: list[str] = field(default_factory=list)

    @property
    def kept_every_promise(self) -> bool:
        """Every transfer of the calendar's half was on time and verified."""
        return all(delivery.on_time and delivery.verified for delivery in self.weir.deliveries)

    def to_json(self) -> dict[str, Any]:
        """The content of `result.json`."""
        halves = {"weir": self.weir, "plain": self.plain}
        return {
            **{key: [d.to_json() for d in half.deliveries] for key, half in halves.items()},
            "utilisation": {key: half.utilisation for key, half in halves.items()},
            "scenario": asdict(self.scenario),
            "seed": self.scenario.seed,
            "version": self.version,
            "taken_at": self.taken_at,
            "machine": self.machine,
            "notes": self.notes,
            "decisions": [asdict(decision) for decision in self.decisions],
            "timelines": {key: asdict(half.timeline) for key, half in halves.items()},
        }

    @classmethod
    def from_json(cls, data: dict[str, Any]) -> Self:
        """The inverse of `to_json`; raises KeyError or TypeError on anything else."""
        scenario = data["scenario"] | {
            "nodes": [Node(**node) for node in data["scenario"]["nodes"]],
            "links": [
                Link(**link | {"ends": tuple(link["ends"])}) for link in data["scenario"]["links"]
            ],
        }
        return cls(
            scenario=Scenario(**scenario),
            weir=_half(data, "weir"),
            plain=_half(data, "plain"),
            decisions=[Decision(**decision) for decision in data["decisions"]],
            **{key: data[key] for key in ("version", "taken_at", "machine", "notes")},
        )


def _half(data: dict[str, Any], key: str) -> Half:
    known = {item.name for item in fields(Delivery)}
    return Half(
        deliveries=[
            Delivery(**{name: value for name, value in row.items() if name in known})
            for row in data[key]
        ],
        timeline=Timeline(**data["timelines"][key]),
        utilisation=data["utilisation"][key],
    )
