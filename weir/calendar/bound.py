"""What no calendar can exceed: the best plan of someone who knows every request beforehand.

A linear program on the time-expanded network (L. Ford, D. Fulkerson, Operations Research 1958):
between two neighbours of all starts and deadlines nothing happens, so rates may be taken as
constant there, and what is sent is a flow from source to destination in each such interval, over
any paths. Of each request a share between none and all is delivered by its deadline. For transfers
that are worth something in part this is the optimum; for those that are all or nothing it is an
upper bound, and `whole=True` gives the optimum of small instances as an integer program (HiGHS).
"""

import itertools
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from weir._core import CalendarBooking
from weir.errors import BadInput, Unavailable
from weir.migration.milp import Model

Value = Literal["requests", "bytes"]


@dataclass(frozen=True, slots=True)
class Request:
    """A transfer that somebody would ask for.

    Attributes:
        source, destination: nodes.
        start_s: before when nothing can be sent.
        deadline_s: after when nothing counts.
        size_bits: of all of it.
        value: of all of it; of a part, in proportion.
    """

    source: str
    destination: str
    start_s: float
    deadline_s: float
    size_bits: float
    value: float = 1.0


@dataclass(frozen=True, slots=True)
class Bound:
    """The greatest value, and the share of each request that reaches it."""

    value: float
    shares: Sequence[float]


def requests_of(bookings: Sequence[CalendarBooking], value: Value = "requests") -> list[Request]:
    """The requests of a study; each is worth 1, or its bytes."""
    return [
        Request(
            booking.source,
            booking.destination,
            booking.start_ns / 1e9,
            booking.deadline_ns / 1e9,
            booking.size_bytes * 8.0,
            1.0 if value == "requests" else float(booking.size_bytes),
        )
        for booking in bookings
    ]


def offline_bound(
    network: Mapping[str, Any],
    requests: Sequence[Request],
    *,
    whole: bool = False,
    time_limit_s: float = 60.0,
) -> Bound:
    """The greatest value that any plan reaches.

    Args:
        network: in the simulator's form (`weir.calendar.study.named_network`).
        requests: all there are; variables number requests x links x twice requests.
        whole: whether a part of a request is worth nothing.
        time_limit_s: for the solver.

    Raises:
        BadInput: an unknown or equal end, a size, time, value or capacity that is none; it is
            named.
        Unavailable: the solver needs more than its time.
    """
    links = [(link["from"], link["to"]) for link in network["links"]]
    rates = [float(link["capacity_bps"]) for link in network["links"]]
    _check(network["nodes"], rates, requests)
    if not requests:
        return Bound(0.0, [])
    times = sorted({time for r in requests for time in (r.start_s, r.deadline_s)})
    intervals = list(itertools.pairwise(times))
    # In units of what the widest link carries in a thousandth of the time: far above tolerances.
    unit = max(rates) * (times[-1] - times[0]) / 1000.0
    worth = max(request.value for request in requests)
    model = Model()
    on: dict[tuple[int, int], list[tuple[int, float]]] = {}
    shares = []
    for request in requests:
        share = model.column(-request.value / worth, whole=whole)
        shares.append(share)
        delivered = []
        for number, (begin, end) in enumerate(intervals):
            if begin < request.start_s or end > request.deadline_s:
                continue
            sent = [model.column(upper=rate * (end - begin) / unit) for rate in rates]
            for link, column in enumerate(sent):
                on.setdefault((link, number), []).append((column, 1.0))
            for node, terms in _balances(links, sent).items():
                if node == request.destination:
                    delivered += [(column, -factor) for column, factor in terms]
                elif node != request.source:
                    model.row(terms, least=0.0, most=0.0)
        model.row([*delivered, (share, -request.size_bits / unit)], least=0.0, most=0.0)
    for (link, number), terms in on.items():
        begin, end = intervals[number]
        model.row(terms, most=rates[link] * (end - begin) / unit)
    solution = model.solve(time_limit_s)
    if solution.values is None or not solution.proven:
        raise Unavailable(f"no bound for {len(requests)} requests within {time_limit_s:g} s")
    return Bound(-solution.objective * worth, [solution.values[share] for share in shares])


def _balances(
    links: Sequence[tuple[str, str]], sent: Sequence[int]
) -> dict[str, list[tuple[int, float]]]:
    """Of each node, what leaves it less what reaches it."""
    balances: dict[str, list[tuple[int, float]]] = {}
    for (source, target), column in zip(links, sent, strict=True):
        balances.setdefault(source, []).append((column, 1.0))
        balances.setdefault(target, []).append((column, -1.0))
    return balances


def _check(nodes: Sequence[str], rates: Sequence[float], requests: Sequence[Request]) -> None:
    if bad := [rate for rate in rates if not (math.isfinite(rate) and rate > 0)]:
        raise BadInput(f"a link has a capacity of {bad[0]:g} bit/s")
    for number, request in enumerate(requests):
        for end in (request.source, request.destination):
            if end not in nodes:
                raise BadInput(f"request {number}: {end!r} is no node of the network")
        if request.source == request.destination:
            raise BadInput(f"request {number}: both ends are {request.source!r}")
        for what, value in (("size", request.size_bits), ("value", request.value)):
            if not (math.isfinite(value) and value > 0):
                raise BadInput(f"request {number}: its {what} is {value:g}")
        if not math.isfinite(request.start_s + request.deadline_s):
            raise BadInput(f"request {number}: its times are not finite")
        if request.deadline_s <= request.start_s:
            raise BadInput(
                f"request {number}: its deadline at {request.deadline_s:g} s is not after its "
                f"start at {request.start_s:g} s"
            )
