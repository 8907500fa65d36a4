"""The lanes of a transfer: its paths, in an order that stays, with the rate on each."""

from collections.abc import Sequence
from typing import Any

from weir.calendar.records import Transfer
from weir.format import mbit_s


def lanes(
    transfer: Transfer, rate_bps: int, lanes_bps: Sequence[int] | None
) -> list[dict[str, Any]]:
    """Every path of a transfer with the rate on it; `lanes_bps` is of those that have several."""
    if not transfer.paths:
        return [{"path": list(transfer.path), "rate_bps": rate_bps}]
    each_bps = lanes_bps or [0] * len(transfer.paths)
    return [
        {"path": list(path), "rate_bps": bps}
        for path, bps in zip(transfer.paths, each_bps, strict=True)
    ]


def on_link(transfer: Transfer, rate_bps: int, lanes_bps: Sequence[int] | None, link: str) -> int:
    """What a transfer sends over a link."""
    told = lanes(transfer, rate_bps, lanes_bps)
    return sum(lane["rate_bps"] for lane in told if link in lane["path"])


def words(told: Sequence[dict[str, Any]]) -> str:
    """Lanes for people: the path, or each with its rate."""
    if len(told) == 1:
        return " > ".join(told[0]["path"])
    parts = [f"{mbit_s(lane['rate_bps'])} over {' > '.join(lane['path'])}" for lane in told]
    return f"{', '.join(parts[:-1])} and {parts[-1]}"
