"""What active transfers lay claim to: places at their destinations, and their owners' quotas."""

import bisect
import math
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from weir import Bytes
from weir.calendar.network import Quotas
from weir.calendar.problem import Problem
from weir.calendar.records import Submission, Transfer

NS_PER_S = 1_000_000_000
# Instants are told in milliseconds, rounded down: a deadline that is told is later by so much.
TOLD_NS = 1_000_000


class _Need(NamedTuple):
    """What a transfer's deadline needs of a link, and when."""

    from_ns: int
    until_ns: int
    rate_bps: float


@dataclass(slots=True)
class _Held:
    """What one submitter holds; `needs` by link and transfer, only where shares are bounded."""

    transfers: int = 0
    size_bytes: int = 0
    needs: dict[str, dict[str, _Need]] = field(default_factory=lambda: defaultdict(dict))


_NOTHING = _Held()


class Claims:
    """Every active transfer's claims, kept up to date with `add` and `remove`."""

    def __init__(
        self, quotas: Quotas, capacities: Mapping[str, int], transfers: Iterable[Transfer]
    ) -> None:
        self._quotas = quotas
        self._capacities = capacities
        self._held: dict[str, _Held] = defaultdict(_Held)
        # Whose requests go to a place, and how many of each: who repeats a request has several.
        self._users: dict[tuple[str, str], dict[tuple[str, str, str], int]] = {}
        # The places of each host in order, where all that is below a directory stands together.
        self._places: dict[str, list[str]] = defaultdict(list)
        for transfer in transfers:
            self.add(transfer)

    def add(self, transfer: Transfer) -> None:
        """Takes up a transfer that was admitted."""
        place = (transfer.destination, transfer.destination_path)
        users = self._users.get(place)
        if users is None:
            users = self._users[place] = {}
            bisect.insort(self._places[transfer.destination], transfer.destination_path)
        who = _who(transfer)
        users[who] = users.get(who, 0) + 1
        self._count(transfer, 1)

    def remove(self, transfer: Transfer) -> None:
        """Lets go of a transfer that is over."""
        place, who = (transfer.destination, transfer.destination_path), _who(transfer)
        users = self._users[place]
        users[who] -= 1
        if not users[who]:
            del users[who]
        if not users:
            del self._users[place]
            places = self._places[transfer.destination]
            del places[bisect.bisect_left(places, transfer.destination_path)]
        self._count(transfer, -1)

    def refusal(self, asked: Submission) -> Problem | None:
        """Why a request would get in the way of another's file, or goes beyond a quota; or None."""
        taken = self._taken(asked)
        if taken is not None:
            return _refused(
                "place-taken",
                "Another transfer goes there",
                f'an active transfer goes to "{asked.destination}:{taken}", so that one of the two '
                f"would overwrite the other's files",
                "destination_path",
                "name another place, or wait until that transfer is over",
            )
        held = self._held.get(asked.owner, _NOTHING)
        if held.transfers >= self._quotas.transfers:
            return _beyond(asked.owner, f"{held.transfers} active transfers", "size_bytes")
        if held.size_bytes + asked.size_bytes > self._quotas.size_bytes:
            most = Bytes.from_count(self._quotas.size_bytes)
            return _beyond(asked.owner, f"{most} in active transfers", "size_bytes")
        return None

    def replace(self, before: Transfer, after: Transfer) -> None:
        """Takes note of the paths that a transfer has now."""
        if self._quotas.link_share < 1 and before.routes != after.routes:
            self._count(before, -1)
            self._count(after, 1)

    def share_refusal(
        self, asked: Submission, paths: Sequence[Sequence[str]], now_ns: int
    ) -> Problem | None:
        """Why a request would have its owner hold too much of a link of its paths; or None."""
        share = self._quotas.link_share
        if share >= 1:
            return None
        needed_bps, begins_ns = _promised(asked, now_ns), max(now_ns, asked.start_ns or now_ns)
        for link, part in self._parts(paths).items():
            steps = self._steps(asked.owner, link, begins_ns, now_ns)
            held_bps = _most(steps, asked.deadline_ns)
            if held_bps + part * needed_bps > share * self._capacities[link]:
                return _beyond(asked.owner, f'{share:.0%} of link "{link}"', "deadline", link)
        return None

    def share_deadline_ns(
        self, asked: Submission, paths: Sequence[Sequence[str]], from_ns: int
    ) -> int | None:
        """The earliest deadline that keeps a request, made then, within its owner's shares.

        It is none where nothing is left of the share of a link of its paths. The same does for a
        request that is made earlier: it has longer, and what is over until `from_ns` counts here.
        """
        begins_ns = max(from_ns, asked.start_ns or from_ns)
        parts = self._parts(paths)
        steps = {link: self._steps(asked.owner, link, begins_ns, from_ns) for link in parts}
        # Between two of these nothing is held that is not held before.
        edges = sorted({at_ns for held in steps.values() for at_ns, _ in held})
        ends: list[float] = [*edges[1:], math.inf]
        for at_ns, next_ns in zip(edges, ends, strict=True):
            least_ns = begins_ns if at_ns == begins_ns else at_ns + 1
            for link, part in parts.items():
                held_bps = _most(steps[link], at_ns + 1)
                left_bps = self._quotas.link_share * self._capacities[link] - held_bps
                if left_bps <= 0:
                    return None
                takes_ns = part * asked.size_bytes * 8 * NS_PER_S / left_bps
                least_ns = max(least_ns, begins_ns + math.ceil(takes_ns))
            if least_ns + TOLD_NS <= next_ns:
                return least_ns
        return begins_ns

    def _steps(
        self, owner: str, link: str, begins_ns: int, overdue_ns: int
    ) -> list[tuple[int, float]]:
        """What an owner holds of a link at most from `begins_ns` on until any later instant.

        Each step is from when on it is so much, in bit/s. What is due by `overdue_ns` and not over
        is held for as long as it takes.
        """
        edges: list[tuple[float, float]] = []
        for need in self._held.get(owner, _NOTHING).needs.get(link, {}).values():
            until_ns = need.until_ns if need.until_ns > overdue_ns else math.inf
            if until_ns > begins_ns:
                edges.append((max(begins_ns, need.from_ns), need.rate_bps))
                edges.append((until_ns, -need.rate_bps))
        # At one instant what ends comes before what begins.
        edges.sort()
        steps, held_bps = [(begins_ns, 0.0)], 0.0
        for at_ns, change_bps in edges:
            held_bps += change_bps
            if held_bps > steps[-1][1]:
                if at_ns == steps[-1][0]:
                    steps.pop()
                steps.append((int(at_ns), held_bps))
        return steps

    def _taken(self, asked: Submission) -> str | None:
        """The place of an active transfer that the request would write to, below or around."""
        host, who = asked.destination, _who(asked)
        for place in _upwards(asked.destination_path):
            users = self._users.get((host, place), {})
            # Who repeats a request moves the same to the same place, and harms nobody.
            if users and not (place == asked.destination_path and users.keys() == {who}):
                return place
        places, below = self._places.get(host, []), f"{asked.destination_path}/"
        first = bisect.bisect_left(places, below)
        if first < len(places) and places[first].startswith(below):
            return places[first]
        return None

    def _count(self, transfer: Transfer, sign: int) -> None:
        held = self._held[transfer.owner]
        held.transfers += sign
        held.size_bytes += sign * transfer.declared_bytes
        if not held.transfers:
            del self._held[transfer.owner]
        elif self._quotas.link_share < 1:
            from_ns = max(transfer.submitted_ns, transfer.start_ns or transfer.submitted_ns)
            needed_bps = _promised(transfer, transfer.submitted_ns)
            for link, part in self._parts(transfer.routes).items():
                if sign > 0:
                    need = _Need(from_ns, transfer.deadline_ns, part * needed_bps)
                    held.needs[link][transfer.id] = need
                else:
                    held.needs[link].pop(transfer.id, None)

    def _parts(self, paths: Sequence[Sequence[str]]) -> dict[str, float]:
        """How much of what a transfer takes counts on each link."""
        carried = [min((self._capacities[x] for x in path), default=0) for path in paths]
        parts: dict[str, float] = defaultdict(float)
        for path, capacity_bps in zip(paths, carried, strict=True):
            for link in path:
                parts[link] += capacity_bps / sum(carried)
        return parts


def _promised(asked: Submission | Transfer, now_ns: int) -> float:
    """What a request's deadline needs of its links, in bit/s of file bytes."""
    declared = asked.declared_bytes if isinstance(asked, Transfer) else asked.size_bytes
    from_ns = max(now_ns, asked.start_ns or now_ns)
    return declared * 8 * NS_PER_S / max(1, asked.deadline_ns - from_ns)


def _most(steps: Sequence[tuple[int, float]], until_ns: int) -> float:
    """What is held at most before an instant: see `Claims._steps`."""
    return steps[max(1, bisect.bisect_left(steps, (until_ns, 0.0))) - 1][1]


def _who(asked: Submission | Transfer) -> tuple[str, str, str]:
    return asked.owner, asked.source, asked.source_path


def _upwards(path: str) -> Iterator[str]:
    """A path and everything above it."""
    while path:
        yield path
        path = path.rpartition("/")[0]


def _beyond(owner: str, what: str, field: str, link: str | None = None) -> Problem:
    return _refused(
        "quota",
        "A quota is reached",
        f'"{owner}" would hold more than the {what} that a submitter may hold at a time',
        field,
        "wait until one of your transfers is over, or cancel one",
        link,
    )


def _refused(
    kind: str, title: str, detail: str, field: str, hint: str, link: str | None = None
) -> Problem:
    nothing: dict[str, Any] = dict.fromkeys(
        (
            *("needed_bps", "available_bps", "earliest_deadline", "offer_valid_s"),
            *("offer_held_s", "earliest_by_links", "largest_size_bytes", "latest_start"),
            *("paths_that_do", "lanes_that_do"),
        )
    )
    return Problem(409, kind, title, detail, field=field, hint=hint, link=link, **nothing)
