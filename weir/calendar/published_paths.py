"""The paths that the simulator behind the Calibers figures sent on.

It asked NetworkX for the shortest ones, under Python 2: breadth first, and of equally short paths
the one that was met first, in the order of dicts of that time. With these, links are less evenly
loaded than with the paths of ours, which come first by the names of their links.
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from weir.errors import BadInput

_NUMBER = re.compile(r"0|[1-9][0-9]{0,8}")
_SMALLEST = 8
_PERTURB_SHIFT = 5


def published_paths(network: Mapping[str, Any]) -> list[list[str]]:
    """One path for every ordered pair of nodes, as their names from end to end.

    Args:
        network: in the simulator's form, its nodes named by numbers below 10^9, its links in both
            directions.

    Raises:
        BadInput: a node that is not named by such a number; Python 2 orders others otherwise.
    """
    for name in network["nodes"]:
        if not _NUMBER.fullmatch(name):
            raise BadInput(f"node {name!r}: the published paths are of nodes with numbers as names")
    joined: dict[int, dict[int, None]] = {int(name): {} for name in network["nodes"]}
    for link in network["links"]:
        a, b = int(link["from"]), int(link["to"])
        joined[a][b] = joined[b][a] = None
    ordered = {node: _as_in_python_2(beyond) for node, beyond in joined.items()}
    return [
        [str(node) for node in path]
        for source in joined
        for path in _found_first(ordered, source).values()
        if len(path) > 1
    ]


def _found_first(joined: Mapping[int, Sequence[int]], source: int) -> dict[int, list[int]]:
    """The path to each node, as a breadth-first search meets them level by level."""
    paths, level = {source: [source]}, [source]
    while level:
        found = []
        for node in level:
            for beyond in joined[node]:
                if beyond not in paths:
                    paths[beyond] = [*paths[node], beyond]
                    found.append(beyond)
        level = _as_in_python_2(found)
    return paths


def _as_in_python_2(numbers: Iterable[int]) -> list[int]:
    """The order that a dict of CPython 2 has its keys in, put in as given: that of its table."""
    table: list[int | None] = [None] * _SMALLEST
    for count, number in enumerate(numbers, start=1):
        _put(table, number)
        if 3 * count >= 2 * len(table):
            kept = [known for known in table if known is not None]
            size = _SMALLEST
            while size <= 4 * count:
                size *= 2
            table = [None] * size
            for known in kept:
                _put(table, known)
    return [number for number in table if number is not None]


def _put(table: list[int | None], number: int) -> None:
    """In the first free place that its hash, the number itself, leads to."""
    at = perturb = number
    while table[at % len(table)] is not None:
        at = 5 * at + perturb + 1
        perturb >>= _PERTURB_SHIFT
    table[at % len(table)] = number
