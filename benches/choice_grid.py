"""Draws what `WEIR_BENCH_PAIRS=1 make bench NAME=choice` found, as one picture of all paths."""

import re
from collections.abc import Mapping, Sequence

from benches.choice import LOSSES, SLOWER
from benches.harness import Row
from weir.chart import svg

_METRIC = re.compile(r"choice, (\d+) Mbit/s, ([\d.]+) ms, (.+): auto")
_CELL, _HEIGHT, _LEFT, _TOP, _GAP = 78, 30, 70, 100, 34
_FASTER, _SLOWER, _ALIKE = "#0072b2", "#d55e00", "#f2f2f2"
_STRONG = 0.25
"""So small a share of plain's time, or that much more of it, has the full colour."""

Setting = tuple[int, float, str]
"""Rate in Mbit/s, round trip in ms, loss."""


def shares(rows: Sequence[Row]) -> dict[Setting, float]:
    """What `auto` took of plain sending's time in each setting; other rows are passed over."""
    found = {}
    for row in rows:
        named = _METRIC.fullmatch(row["metric"])
        if named and row["peer"] == "plain" and row["ratio"] is not None:
            found[int(named[1]), float(named[2]), named[3]] = float(row["ratio"])
    return found


def picture(found: Mapping[Setting, float]) -> str:
    """SVG: a table for each rate, round trips down and losses across.

    A cell is the bluer the faster `auto` was, grey up to `SLOWER`, and orange where it was slower.
    """
    rates = sorted({rate for rate, _, _ in found})
    trips = sorted({trip for _, trip, _ in found})
    title = "Time that --cca auto takes, as a share of plain CUBIC's"
    shapes = [svg.text(24, 26, title, "start", 'font-weight="bold"')]
    shapes += [
        svg.text(_LEFT + (column + 0.5) * _CELL, 52 + 15 * line, word, "middle")
        for column, loss in enumerate(LOSSES)
        for line, word in enumerate(_lines(loss))
    ]
    top = float(_TOP)
    for rate in rates:
        shapes.append(svg.text(24, top, f"{rate} Mbit/s", "start", 'font-weight="bold"'))
        top += 8
        for trip in trips:
            shapes.append(svg.text(_LEFT - 8, top + _HEIGHT / 2 + 4, f"{trip:g} ms", "end"))
            for column, loss in enumerate(LOSSES):
                if (share := found.get((rate, trip, loss))) is not None:
                    shapes += _cell(_LEFT + column * _CELL, top, share)
            top += _HEIGHT
        top += _GAP
    return svg.image(_LEFT + len(LOSSES) * _CELL + 24, top - _GAP + 16, shapes)


def _lines(loss: str) -> list[str]:
    """A loss in two lines at most."""
    words, _, rest = loss.partition(" in ")
    return [words, f"in {rest}"] if rest else [words]


def _cell(left: float, top: float, share: float) -> list[str]:
    fill, opacity = _ALIKE, 1.0
    if share > SLOWER:
        fill, opacity = _SLOWER, min(1.0, 0.3 + (share - 1) / _STRONG)
    elif share < 1 / SLOWER:
        fill, opacity = _FASTER, min(1.0, (1 - share) / (1 - _STRONG))
    ink = 'fill="#fff"' if fill != _ALIKE and opacity > 0.5 else 'fill="#222"'
    return [
        f'<rect x="{left}" y="{top:g}" width="{_CELL - 2}" height="{_HEIGHT - 2}" '
        f'fill="{fill}" fill-opacity="{opacity:.2f}"/>',
        svg.text(left + _CELL / 2, top + _HEIGHT / 2 + 3, f"{share:.2f}", "middle", ink),
    ]
