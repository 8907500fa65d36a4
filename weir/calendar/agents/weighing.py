"""Rates enforced inside a relay's aggregate: promised clients have their weights by them.

The clients of a `weir relay join` share one connection by turns, in proportion to weights. Where
that connection has a rate C, and p is promised to a client, it has the weight p and all who are
promised nothing have C less all promises together. So each has what it was promised, whoever else
sends; what one does not use, all others have by weight.

A weight is each connection's: those of one client that are busy share its promise, as those that
are promised nothing share the rest. Who is busy is looked at once a second.
"""

import contextlib
import logging
import math
import threading
import time
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from weir import Rate
from weir.calendar.agents.enforcer import RATE_MIN_BPS, Allotment, Pair
from weir.errors import BadInput, Unavailable, WeirError
from weir.relay import WEIGHT_MAX, control

log = logging.getLogger(__name__)

LOOK_EVERY_S = 1.0
# Who has sent something so lately is busy: where many share a slow line its turn comes seldom.
BUSY_S = 5.0
# How exactly weights, which are whole numbers, are to give what is promised: a promise is kept
# within 1 %, of which turns take a part, too. So many are tried from the smallest on, which are the
# easiest to read, and as many of the largest, which are the most exact.
OFF_MAX = 0.003
KEPT_WITHIN = 0.01
_TRIED = 100
# The part of the line that who is promised nothing has at least: nobody is held for good. Promises
# below it are rounded up: no weight is as exact as theirs would have to be.
LEAST = 0.01
_OTHERS = ("0.0.0.0/0", "::/0")


@dataclass(frozen=True, slots=True)
class Aggregate:
    """Where a `weir relay join` answers, and what its aggregate carries, on the wire, in bit/s."""

    control: Path
    rate_bps: int


@dataclass(frozen=True, slots=True)
class Weighed:
    """Weights by networks, the first that fits counts, and how far off the worst promise is.

    `off` is relative: with 0.1 a client has a tenth less than was promised, or more.
    """

    weights: list[tuple[str, int]]
    off: float


class Weigher:
    """An `Enforcer`: the clients of one relay have weights by their promises.

    A pair is known by its source, whatever server it is connected to. While it is at work, others'
    weights do not hold.
    """

    def __init__(self, aggregate: Aggregate) -> None:
        self._aggregate = aggregate
        self._allotted: dict[Pair, Allotment] = {}
        self._activity = _Activity()
        self._given: list[tuple[str, int]] | None = None
        self._trouble: str | None = None
        self._ends, self._is_new = threading.Event(), threading.Event()
        self._looking: threading.Thread | None = None

    def install(self) -> None:
        """Begins with equal weights; a relay that does not answer has them when it does.

        Raises:
            BadInput: what answers there has no weights.
        """
        self._stop()
        self._allotted, self._given, self._trouble = {}, None, None
        self._ends, self._is_new = threading.Event(), threading.Event()
        try:
            control.ask(self._aggregate.control, {"weights": []})
        except Unavailable as error:
            self._say(str(error))
        self._looking = threading.Thread(target=self._look_forever, daemon=True)
        self._looking.start()

    def apply(self, wanted: Mapping[Pair, Allotment]) -> None:
        """Has the relay told at once; where it does not answer, as soon as it does."""
        self._allotted = dict(wanted)
        self._is_new.set()

    def in_force(self) -> Mapping[Pair, Allotment]:
        """What the last `apply` was told."""
        return self._allotted

    def remove(self) -> None:
        """Gives all clients the weight 1."""
        self._stop()
        self._allotted = {}
        with contextlib.suppress(WeirError):  # A relay that comes back has no promises.
            control.ask(self._aggregate.control, {"weights": []})

    def _stop(self) -> None:
        self._ends.set()
        self._is_new.set()
        if self._looking is not None:
            self._looking.join()
            self._looking = None

    def _look_forever(self) -> None:
        while not self._ends.is_set():
            try:
                self._say(self._look())
            except (WeirError, AttributeError, LookupError, TypeError, ValueError) as error:
                self._given = None  # Whoever answers next may be another.
                self._say(str(error))
            self._is_new.wait(LOOK_EVERY_S)
            self._is_new.clear()

    def _look(self) -> str | None:
        """Gives weights where they are not what they should be; what promise cannot be kept."""
        path, rate_bps = self._aggregate.control, self._aggregate.rate_bps
        flows = control.ask(path, {})["flows"]
        busy = self._activity.hear(flows, time.monotonic())
        promised = promises(self._allotted)
        total_bps = sum(promised.values())
        found = weigh(promised, busy, rate_bps)
        # A relay that began anew says so by weights that nobody gave.
        if found.weights != self._given or not _hold(found.weights, flows):
            control.ask(path, {"weights": found.weights})
            self._given = found.weights
        if found.off > KEPT_WITHIN:
            return f"{total_bps} bit/s are promised of {rate_bps}: not all can be kept within 1 %"
        return None

    def _say(self, trouble: str | None) -> None:
        """Says what is wrong, once, and that it is over."""
        if trouble != self._trouble:
            log.warning("%s: %s", self._aggregate.control, trouble or "promises are kept again")
        self._trouble = trouble


class _Activity:
    """Which connections have sent something lately."""

    def __init__(self) -> None:
        # By number and client: how much each had sent, and when that was last more than before.
        self._sent: dict[tuple[int, str], tuple[int, float]] = {}

    def hear(self, flows: list[dict[str, Any]], now_s: float) -> Counter[str]:
        """How many are busy, by their clients' addresses, after a relay has told of its flows."""
        busy: Counter[str] = Counter()
        sent: dict[tuple[int, str], tuple[int, float]] = {}
        for flow in flows:
            key, count = (flow["uid"], flow["client"]), flow["bytes_sent"]
            before, moved_s = self._sent.get(key, (0, -math.inf))
            sent[key] = (count, now_s if count > before else moved_s)
            busy[control.host(flow["client"])] += now_s - sent[key][1] <= BUSY_S
        self._sent = sent
        return busy


def promises(allotted: Mapping[Pair, Allotment]) -> dict[str, int]:
    """What is promised to each source in all, in bit/s."""
    promised: Counter[str] = Counter()
    for pair, allotment in allotted.items():
        promised[pair.source] += allotment.rate_bps
    return dict(promised)


def weigh(promised: Mapping[str, int], busy: Mapping[str, int], rate_bps: int) -> Weighed:
    """Weights by which each client has its promise within `OFF_MAX`; small ones, if they do.

    Args:
        promised: to whom, in bit/s.
        busy: how many connections of each client send. One that has none may begin to.
        rate_bps: what all have together.

    Returns:
        Those that are nearest of all that are tried, where none are near enough. Whoever is
        promised less than a hundredth of the line has it or more; who is promised nothing, a
        hundredth.
    """
    if not promised:
        return Weighed([], 0.0)
    rest_bps = max(rate_bps - sum(promised.values()), LEAST * rate_bps)
    many = {client: max(1, busy.get(client, 0)) for client in promised}
    others = max(1, sum(count for client, count in busy.items() if client not in promised))
    best: Weighed | None = None
    beside = {client: bps / many[client] * others / rest_bps for client, bps in promised.items()}
    most = max(1, int(WEIGHT_MAX / max(1.0, *beside.values())))
    large = range(max(_TRIED, most - _TRIED) + 1, most + 1)
    for other in (*range(1, min(_TRIED, most) + 1), *large):
        exact = {client: x * other for client, x in beside.items()}
        found = {
            client: min(WEIGHT_MAX, max(1, _whole(x, is_small=promised[client] < LEAST * rate_bps)))
            for client, x in exact.items()
        }
        total = sum(found[x] * many[x] for x in found) + other * others
        shares = {x: found[x] * many[x] * rate_bps / (total * promised[x]) for x in found}
        off = max(_off(shares[x], is_small=promised[x] < LEAST * rate_bps) for x in shares)
        if best is None or off < best.off:
            best = Weighed([*sorted(found.items()), *((x, other) for x in _OTHERS)], off)
        if off <= OFF_MAX:
            break
    assert best is not None
    return best


def _whole(exact: float, *, is_small: bool) -> int:
    return math.ceil(exact) if is_small else round(exact)


def _off(share: float, *, is_small: bool) -> float:
    """How far a client's share of its promise is off; what is small may be more."""
    return max(0.0, 1 - share) if is_small else abs(share - 1)


def _hold(weights: list[tuple[str, int]], flows: list[dict[str, Any]]) -> bool:
    """Whether all connections have the weights that were given."""
    given = dict(weights)
    other = given.get(_OTHERS[0], 1)
    return all(x["weight"] == given.get(control.host(x["client"]), other) for x in flows)


def parse_aggregate(text: str) -> Aggregate:
    """Reads `PATH=RATE`.

    Raises:
        BadInput: the rate is none, or missing.
    """
    path, equals, rate = text.rpartition("=")
    if not (equals and path):
        raise BadInput(f'"{text}": wanted PATH=RATE, of a relay\'s --control and its aggregate')
    rate_bps = Rate(rate.strip()).bit_per_s
    if not rate_bps >= RATE_MIN_BPS:
        raise BadInput(f'"{text}": an aggregate of next to no rate')
    return Aggregate(Path(path), rate_bps)
