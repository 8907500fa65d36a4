"""`weir demo join`: a hundred clients over one narrow line: each for itself, joined, by weights.

Work 003's joined connection (003-spec sections 2.9 and 2.14), over the kernel's TCP in the lab.
"""

import itertools
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from rich.text import Text

from studies.demonstration.scaffold import Figures
from studies.rig.joined import RATE_BPS, Seen, carry_out
from weir.chart.panels import Curve, Panel, draw
from weir.format import mbit_s, percent
from weir.numbers import jain
from weir.relay import hold
from weir.terminal import Column, Table

CLIENTS = 100
SETTLE_S, SECONDS = 4.0, 24.0
"""What is counted begins after the first and ends with the second."""
STRICT_S = 12.0
"""How long clients send whose acknowledgements are linked."""
WEIGHTS = (1, 3)
# Clients that a tenth, half and nine tenths of all have no more than.
_SHARES = (
    ("slow", 0.1, "#d55e00"),
    ("median", 0.5, "#222222"),
    ("fast", 0.9, "#0072b2"),
)
_FAIR = 0.99
"""Jain's index that joined clients have at least."""
_FULL = 0.98
"""What joined clients have of the line at least, of what the others had: frames have headers."""


@dataclass
class _Way:
    """A way in which the clients send, as it stands.

    Attributes:
        key: in the figures.
        name: for people.
        weights: of each half of the clients; none: nothing is joined.
        linked_ack: what clients' acknowledgements mean, as `weir relay join` has it.
        seconds: how long they send.
    """

    key: str
    name: str
    weights: Sequence[int] | None = None
    linked_ack: str | None = None
    seconds: float = SECONDS
    state: str = "waits"
    seen: Seen = field(default_factory=Seen)

    @property
    def counted(self) -> tuple[float, Mapping[int, int]]:
        """For how long was counted, in s, and what arrived of each client meanwhile."""
        return self.seen.within(SETTLE_S, self.seconds)

    @property
    def goodput(self) -> float | None:
        """The line's rate that arrived at the server, as a share of it."""
        taken_s, counts = self.counted
        return 8 * sum(counts.values()) / taken_s / RATE_BPS if taken_s else None

    def fairness(self, clients: int) -> float | None:
        """Jain's index of what arrived of each client, over its weight."""
        taken_s, counts = self.counted
        weights = self.weights or (1, 1)
        half = clients // 2
        shares = [counts.get(x, 0) / weights[x // half] for x in range(clients)]
        return jain(shares) if taken_s and any(shares) else None

    @property
    def undelivered_bytes(self) -> int | None:
        """What clients had acknowledged and the server never got, the far relay being killed."""
        if self.weights is None or not self.seen.acknowledged:
            return None
        received = self.seen.received
        each = (told - received.get(x, 0) for x, told in self.seen.acknowledged.items())
        return sum(max(0, one) for one in each)


class Join:
    """The demonstration; a lab for each way.

    Args:
        seed: of the lab.
        clients: half of them on each of two hosts.
    """

    name = "join"
    caption = "what arrived of slow, middling and fast clients"
    intro = (
        f"{CLIENTS} clients send through a line of 8 Mbit/s and 40 ms to one server: each by its "
        "own connection, joined into one by `weir relay`, and joined with half of them at three "
        "times the weight; then joined with linked acknowledgements. Not two minutes."
    )

    def __init__(self, seed: int, clients: int = CLIENTS) -> None:
        self._seed, self._clients = seed, clients
        self._ways = [
            _Way("plain", "each by itself"),
            _Way("joined", "joined", (1, 1)),
            _Way("weighted", "joined, weights 1 and 3", WEIGHTS),
            _Way("strict", "joined, acknowledged by servers", (1, 1), "strict", STRICT_S),
        ]

    def carry_out(self, changed: Callable[[], None]) -> None:
        """All ways, one after the other.

        Raises:
            Unsupported: this machine has no labs.
            TransferFailed: a program ended before its time.
        """
        for way in self._ways:
            if way.linked_ack is not None and (missing := hold.lacking()) is not None:
                way.state = f"left out: {missing}"
                continue
            way.state = "runs"
            changed()

            def told(seen: Seen, way: _Way = way) -> None:
                way.seen = seen
                changed()

            ends = (self._clients, way.seconds, self._seed, way.weights)
            way.seen = carry_out(*ends, told, way.linked_ack)
            way.state = f"{len(way.counted[1])} clients"
            changed()

    def table(self) -> Table:
        """The line's use and the clients' shares, way by way."""
        table = Table("", *(Column(x, right=True) for x in ("arrived", "of the line", "Jain")), "")
        for way in self._ways:
            goodput, fairness = way.goodput, way.fairness(self._clients)
            table.add_row(
                way.name,
                mbit_s(goodput * RATE_BPS) if goodput else "",
                percent(goodput) if goodput else "",
                f"{fairness:.4f}" if fairness else "",
                way.state,
            )
        return table

    def notes(self) -> Iterator[Text]:
        """What an acknowledgement means."""
        joined, strict = (self._of(key).undelivered_bytes for key in ("joined", "strict"))
        if joined is not None:
            yield Text(
                "When the relay at the server's side was killed, clients had been acknowledged "
                f"{joined:,} bytes that the server never got."
            )
        if strict is not None:
            yield Text(f"With --linked-ack strict these were {strict:,} bytes.")

    def facts(self) -> list[dict[str, object]]:
        """An object a way, with what arrived of each client."""
        return [
            {
                "way": way.name,
                "goodput": way.goodput,
                "jain": way.fairness(self._clients),
                "bytes": {str(client): count for client, count in sorted(way.counted[1].items())},
            }
            for way in self._ways
        ]

    def figures(self) -> Figures:
        """The line's use, Jain's index of each way, and what acknowledgements were worth."""
        plain, joined, weighted, strict = self._ways
        return {
            "seed": self._seed,
            "clients": self._clients,
            "plain_goodput": _rounded(plain.goodput),
            "joined_goodput": _rounded(joined.goodput),
            "weighted_goodput": _rounded(weighted.goodput),
            "plain_jain": _rounded(plain.fairness(self._clients)),
            "joined_jain": _rounded(joined.fairness(self._clients)),
            "weighted_jain": _rounded(weighted.fairness(self._clients)),
            "acknowledged_undelivered_bytes": joined.undelivered_bytes,
            "strict_goodput": _rounded(strict.goodput),
            "strict_acknowledged_undelivered_bytes": strict.undelivered_bytes,
        }

    def picture(self) -> str:
        """A panel a way."""
        panels = [self._panel(way) for way in self._ways if way.seen.arrived]
        most = max(max(curve.values) for panel in panels for curve in panel.curves)
        title = f"{self._clients} clients over 8 Mbit/s, 40 ms"
        return draw(panels, 2, title, "kbit/s", most)

    def holds(self) -> bool:
        """Whether joined ones filled the line, shared it by weights, and linked ones lost none."""
        plain, joined, weighted, strict = self._ways
        shares = [way.fairness(self._clients) or 0.0 for way in (joined, weighted)]
        is_full = (joined.goodput or 0.0) >= _FULL * (plain.goodput or 1.0)
        return is_full and min(shares) >= _FAIR and not strict.undelivered_bytes

    def _panel(self, way: _Way) -> Panel:
        fairness, goodput = way.fairness(self._clients) or 0.0, way.goodput or 0.0
        words = f"{percent(goodput)} of the line, Jain {fairness:.3f}"
        steps = [sorted(one) for one in _rates_kbit_s(way.seen, self._clients)]
        curves = [
            Curve(name, [step[int(share * (len(step) - 1))] for step in steps], colour)
            for name, share, colour in _SHARES
        ]
        return Panel(way.name, words, curves, 1.0)

    def _of(self, key: str) -> _Way:
        return next(way for way in self._ways if way.key == key)


def _rates_kbit_s(seen: Seen, clients: int) -> Iterator[list[float]]:
    """What arrived of each client from one second to the next."""
    for (begin_s, before), (end_s, after) in itertools.pairwise(seen.arrived):
        moved = (after.get(x, 0) - before.get(x, 0) for x in range(clients))
        yield [8 * one / (end_s - begin_s) / 1e3 for one in moved]


def _rounded(value: float | None) -> float | None:
    return None if value is None else round(value, 4)
