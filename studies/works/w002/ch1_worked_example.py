"""Work 002, figure 1.15: four flows on one link, served by deadline and by cushion."""

from collections.abc import Sequence
from typing import cast

from studies.works.row import Outcome, Row, Verdict
from weir._core import deadline_serve
from weir.runs.point import Json, Point


def serve(flows: list[list[int]]) -> Json:
    """The ends of (arrival, size, deadline) under three policies, none for a flow that is late."""
    known = [(arrival, size, deadline) for arrival, size, deadline in flows]
    return {policy: deadline_serve(policy, known) for policy in ("edf", "peq", "weir")}


def judge(results: Sequence[Json]) -> Outcome:
    """Whether each policy has as many of the flows on time as is printed."""
    (ends,) = cast(Sequence[dict[str, list[int | None]]], results)
    counts = {policy: sum(end is not None for end in ends[policy]) for policy in ends}
    ours = (
        f"EDF {counts['edf']}, PEQ {counts['peq']}, Weir {counts['weir']} on time; "
        f"PEQ's end at {sorted(end for end in ends['peq'] if end is not None)}"
    )
    right = counts["edf"] == 2 and counts["peq"] == 3
    return Outcome(ours, Verdict.MATCHES if right else Verdict.DIFFERS)


ROWS = [
    Row(
        "002-fig-1.15",
        "The worked example: four flows, one link",
        "EDF 2 of 4 on time, by cushion 3 of 4",
        lambda quick: [Point(serve, {"flows": [[0, 10, 23], [0, 13, 15], [0, 4, 26], [0, 3, 25]]})],
        judge,
    ),
]
