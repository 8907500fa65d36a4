"""What no calendar can exceed: the best plan of someone who knows every request beforehand.

A linear program on the time-expanded network (L. Ford, D. Fulkerson, Operations Research 1958):
between two neighbours of all starts and deadlines nothing happens, so rates may be taken as
constant there, and what is sent is a flow from source to destination in each such interval, over
any paths. What leaves one source is one commodity, since flows can be taken apart into paths. Of
each request a share between none and all is delivered by its deadline. For transfers that are worth
something in part this is the optimum; for those that are all or nothing it is an upper bound, and
`whole=True` gives a tighter one, the optimum if the integer program is solved (HiGHS).
"""

import itertools
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from weir._core import CalendarBooking
from weir.errors import BadInput, Unavailable
from weir.milp import Model

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
    """What nobody can exceed, and who gets what share of it.

    Attributes:
        value: an upper bound, proven by the solver.
        shares: what each request gets in the best plan that was found; empty if none was found.
        reached: whether that plan is worth `value`, which is then the optimum.
    """

    value: float
    shares: Sequence[float]
    reached: bool


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
    """The greatest value that any plan reaches, or with `whole` what it is proven not to exceed.

    Args:
        network: in the simulator's form (`weir.calendar.study.named_network`).
        requests: all there are; variables number sources x links x twice requests.
        whole: whether a part of a request is worth nothing.
        time_limit_s: for the solver. An integer program may not be solved in it; what it has proven
            by then is a bound all the same.

    Raises:
        BadInput: an unknown or equal end, a size, time, value or capacity that cannot be; it is
            named.
        Unavailable: the solver needs more than its time for any bound.
    """
    links = [(link["from"], link["to"]) for link in network["links"]]
    rates = [float(link["capacity_bps"]) for link in network["links"]]
    _check(network["nodes"], rates, requests)
    if not requests:
        return Bound(0.0, [], True)
    times = sorted({time for r in requests for time in (r.start_s, r.deadline_s)})
    intervals = list(itertools.pairwise(times))
    # In units of what the widest link carries in a thousandth of the time: far above tolerances.
    unit = max(rates) * (times[-1] - times[0]) / 1000.0
    worth = max(request.value for request in requests)
    model = Model()
    on: dict[tuple[int, int], list[tuple[int, float]]] = {}
    shares = [model.column(-request.value / worth, whole=whole) for request in requests]
    delivered: list[list[tuple[int, float]]] = [[] for _ in requests]
    for number, (begin, end) in enumerate(intervals):
        active = [at for at, r in enumerate(requests) if r.start_s <= begin and end <= r.deadline_s]
        for source in dict.fromkeys(requests[at].source for at in active):
            sent = [model.column(upper=rate * (end - begin) / unit) for rate in rates]
            for link, column in enumerate(sent):
                on.setdefault((link, number), []).append((column, 1.0))
            balances = _balances(links, sent)
            for at in active:
                if requests[at].source == source:
                    column = model.column(upper=requests[at].size_bits / unit)
                    delivered[at].append((column, 1.0))
                    balances.setdefault(requests[at].destination, []).append((column, 1.0))
            for node, terms in balances.items():
                if node != source:
                    model.row(terms, least=0.0, most=0.0)
    for request, share, terms in zip(requests, shares, delivered, strict=True):
        model.row([*terms, (share, -request.size_bits / unit)], least=0.0, most=0.0)
    for (link, number), terms in on.items():
        begin, end = intervals[number]
        model.row(terms, most=rates[link] * (end - begin) / unit)
    solution = model.solve(time_limit_s, interior=not whole)
    # HiGHS has a dual bound only of integer programs; a linear one must be solved.
    proven = solution.bound if whole else solution.objective
    if not math.isfinite(proven) or not (whole or solution.proven):
        raise Unavailable(f"no bound for {len(requests)} requests within {time_limit_s:g} s")
    value = -proven
    if whole and all(request.value == worth for request in requests):
        value = math.floor(value + 1e-6)
    found = solution.values
    reached = found is not None and -solution.objective >= value - 1e-6 * max(1.0, value)
    return Bound(value * worth, [found[share] for share in shares] if found else [], reached)


def _balances(
    links: Sequence[tuple[str, str]], sent: Sequence[int]
) -> dict[str, list[tuple[int, float]]]:
    """What leaves each node less what reaches it."""
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
                raise BadInput(f"request {number}: {end!r} is not a node of the network")
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
