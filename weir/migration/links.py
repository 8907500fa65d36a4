"""A plan by link: who is on it in which steps, with how much."""

import itertools
from dataclasses import dataclass

from weir.migration.plan import Outcome


@dataclass(frozen=True, slots=True)
class Load:
    """What a link carries in each of the steps `first` to `last`: bytes by machine."""

    first: int
    last: int
    amounts: dict[str, int]


def by_link(outcome: Outcome) -> dict[str, list[Load]]:
    """The loads of every directed link in use, in order of time; idle steps are left out."""
    pieces: dict[str, list[tuple[int, int, str, int]]] = {}
    for schedule in outcome.schedules:
        for link in schedule.path:
            for first, last, amount in schedule.pieces:
                pieces.setdefault(link, []).append((first, last, schedule.vm, amount))
    return {link: _loads(pieces[link]) for link in sorted(pieces)}


def _loads(pieces: list[tuple[int, int, str, int]]) -> list[Load]:
    changes = sorted({edge for first, last, _, _ in pieces for edge in (first, last + 1)})
    loads = []
    for first, after in itertools.pairwise(changes):
        amounts = {vm: amount for begin, end, vm, amount in pieces if begin <= first <= end}
        if amounts:
            loads.append(Load(first, after - 1, amounts))
    return loads
