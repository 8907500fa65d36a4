"""Rows of work 001, chapter 4: each is a set of `Cell` and what must hold of it."""

import statistics
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path

from studies.works.row import Outcome, Row, Verdict
from studies.works.w001.ch4_shared_network import (
    QUEUES,
    RATES,
    Cell,
    Found,
    Size,
    found,
    points,
)
from weir.chart import charts
from weir.runs.point import Json

_FULL = Size(300, (1, 2, 3, 4, 5))
_NEW = ("BBR v3", "Prague")
"""What the work did not have."""

Cells = Mapping[Cell, Size]
Results = Mapping[Cell, Found]
Judge = Callable[[Results], Outcome]


def _row(
    id_: str,
    title: str,
    published: str,
    cells: Callable[[bool], Cells],
    judge: Judge,
    plot: Callable[[Cells, Sequence[Json], Path], None] | None = None,
) -> Row:
    """A row of cells; at its full size there may be more of them than at the reduced one."""

    def ran(results: Sequence[Json]) -> Cells:
        full = cells(False)
        return full if len(results) == len(points(full)) else cells(True)

    return Row(
        id_,
        title,
        published,
        lambda quick: points(cells(quick)),
        lambda results: judge(found(ran(results), results)),
        (lambda results, path: plot(ran(results), results, path)) if plot else None,
    )


def _best(overlay: int) -> float:
    """What TCP can carry of the bottleneck, in Mbit/s."""
    return RATES[overlay] / 1e6 * 1448 / 1500


# Tables 4.2 and 4.3, figure 4.9: one CUBIC stream, ten seconds later something beside it.

LEAD_S = 10
"""How long the CUBIC stream is alone."""
_TOOLS = ("iPerf", "GridFTP-16", "UDT")
PUBLISHED: dict[int, dict[str, tuple[float, float, float]]] = {
    1: {"iPerf": (238, 253, 1.0), "GridFTP-16": (415, 75.6, 0.68), "UDT": (398, 85.3, 0.7)},
    2: {"iPerf": (412, 485, 0.99), "GridFTP-16": (738, 109, 0.64), "UDT": (591, 161, 0.75)},
}
"""For each overlay and tool: background and foreground in Mbit/s, and Jain's index."""


def _dedicated(overlay: int, tool: str) -> Cell:
    return Cell(overlay, "FIFO", tool, "none", LEAD_S)


def _beside(overlay: int, queue: str, other: str) -> Cell:
    return Cell(overlay, queue, "iPerf", other, LEAD_S)


def _table_cells(overlay: int, quick: bool) -> Cells:
    """At the reduced size the second half is measured: CUBIC takes minutes to make way."""
    cells = {_dedicated(overlay, tool): Size(16, (1,), 8) for tool in _TOOLS}
    for queue in QUEUES:
        for other in (*_TOOLS, *_NEW):
            cells[_beside(overlay, queue, other)] = Size(22, (1,), 16)
    for tool in _TOOLS:
        seconds = 90 if tool == "GridFTP-16" else {1: 60, 2: 30}[overlay]
        cells[_beside(overlay, "FIFO", tool)] = Size(seconds, (1,), seconds // 2)
    return cells if quick else dict.fromkeys(cells, _FULL)


def _judge_table(overlay: int, results: Results) -> Outcome:
    def said(queue: str) -> str:
        each = (results[_beside(overlay, queue, other)] for other in (*_TOOLS, *_NEW))
        return ", ".join(
            f"{other} {one.background:.0f}/{one.foreground:.0f} ({one.jain:.2f})"
            for other, one in zip((*_TOOLS, *_NEW), each, strict=True)
        )

    alone = ", ".join(
        f"{tool} {results[_dedicated(overlay, tool)].foreground:.0f}" for tool in _TOOLS
    )
    ours = (
        f"alone {alone} Mbit/s; beside one CUBIC stream, in Mbit/s with what that has left and "
        f"Jain's index: {'; through '.join(f'{queue}: {said(queue)}' for queue in QUEUES)}"
    )
    fifo = {tool: results[_beside(overlay, "FIFO", tool)] for tool in _TOOLS}
    near = all(
        abs(fifo[tool].background / back - 1) < 0.15
        and abs(fifo[tool].foreground / front - 1) < 0.15
        and abs(fifo[tool].jain - jain) < 0.05
        for tool, (back, front, jain) in PUBLISHED[overlay].items()
    )
    shares = {
        tool: one.background / (one.background + one.foreground) for tool, one in fifo.items()
    }
    greedy = all(shares[tool] > 0.5 > shares["iPerf"] for tool in _TOOLS[1:])
    verdict = Verdict.TREND_HOLDS if greedy else Verdict.DIFFERS
    gridftp = fifo["GridFTP-16"]
    reason = (
        "two CUBIC streams over 128 ms take minutes to share evenly, sixteen some time to push one "
        "aside; UDT is its published control, DualPI2 with defaults, and Prague against a FIFO "
        "finds no marks"
    )
    interval = f"Jain's index beside GridFTP-16: {gridftp.jain:.3f} ± {gridftp.spread:.3f}"
    if not gridftp.spread:
        reason += "; here only the second half of at most 90 s is measured"
        interval = ""
    return Outcome(ours, Verdict.MATCHES if near else verdict, "" if near else reason, interval)


def _judge_over_time(results: Results) -> Outcome:
    """The same runs as the table's, in the mean of what was measured."""
    left = {tool: results[_beside(1, "FIFO", tool)] for tool in _TOOLS}
    late = {tool: statistics.mean(one.series[-10:]) for tool, one in left.items()}
    seconds = len(left["iPerf"].series)
    shares = {tool: 1 - late[tool] / _best(1) for tool in _TOOLS[1:]}
    ours = f"the CUBIC stream in the last 10 of {seconds} s measured: " + ", ".join(
        f"{value:.0f} Mbit/s beside {tool}" for tool, value in late.items()
    )
    greedy = all(share > 0.8 for share in shares.values())
    holds = all(late[tool] < late["iPerf"] / 2 for tool in _TOOLS[1:])
    verdict = Verdict.TREND_HOLDS if holds else Verdict.DIFFERS
    reason = "" if greedy else "it gives way more slowly than in the work; see 001-tab-4.2"
    return Outcome(ours, Verdict.MATCHES if greedy and holds else verdict, reason)


def _draw_over_time(cells: Cells, results: Sequence[Json], path: Path) -> None:
    every = found(cells, results)
    series = []
    for queue in QUEUES:
        for other in (*_TOOLS, *_NEW) if queue == "FIFO" else ("GridFTP-16", "UDT"):
            cell = _beside(1, queue, other)
            first = cells[cell].skip_s
            places = [
                (first + 5 * n + 2.5, statistics.mean(every[cell].series[5 * n : 5 * n + 5]), 0.0)
                for n in range(len(every[cell].series) // 5)
            ]
            name = other if queue == "FIFO" else f"{other}, {queue}"
            series.append(charts.Series(name, places))
    title = "One CUBIC stream beside each, from 10 s on (500 Mbit/s, 128 ms)"
    charts.lines(path, title, "seconds", "Mbit/s", series)


# Figures 4.1 and 4.2: tools beside square waves and bursts that come five seconds later.

_WAVES = ("iPerf", "iPerf 10/10", "UDP(10,10)", "RBUDP")
_BURSTY = ("UDP(1,1)", "UDP(1,2)", "UDP(1,5)", "UDP(1,10)")


def _tool(overlay: int, queue: str, tool: str, other: str) -> Cell:
    """Who begins is not published: the tool, so that the mean is not that of its slow start."""
    return Cell(overlay, queue, tool, other, 5)


def _tool_cells(overlay: int, beside: Sequence[str], few: Sequence[str], quick: bool) -> Cells:
    if quick:
        size = Size(37, (1,), 17) if overlay == 1 else Size(27, (1,), 7)
        return {
            _tool(overlay, "FIFO", tool, other): size
            for tool in ("GridFTP-16", "UDT")
            for other in ("none", *few)
        }
    tools = ("iPerf", "GridFTP-8", "GridFTP-16", "UDT", *_NEW)
    cells = [
        _tool(overlay, queue, tool, other)
        for queue in QUEUES
        for tool in (tools if queue == "FIFO" else _NEW)
        for other in ("none", *beside)
    ]
    return dict.fromkeys(cells, _FULL)


def _kept(results: Results) -> dict[tuple[str, str], dict[str, float]]:
    """By queue and tool: what it keeps of its rate beside each background."""
    kept: dict[tuple[str, str], dict[str, float]] = {}
    for cell, one in results.items():
        alone = results[_tool(cell.overlay, cell.queue, cell.foreground, "none")].foreground
        shares = kept.setdefault((cell.queue, cell.foreground), {})
        if cell.background != "none":
            shares[cell.background] = one.foreground / alone
    return kept


def _said_kept(kept: Mapping[tuple[str, str], Mapping[str, float]]) -> str:
    return "; ".join(
        f"{tool}{'' if queue == 'FIFO' else f' through {queue}'} "
        + ", ".join(f"{share:.0%} beside {other}" for other, share in shares.items())
        for (queue, tool), shares in kept.items()
    )


_NOT_PUBLISHED = (
    "the work does not say at which rate bursts are sent (here the bottleneck's), "
    "nor who begins (here the tool)"
)


def _judge_waves(results: Results) -> Outcome:
    kept = _kept(results)
    gridftp, udt = kept["FIFO", "GridFTP-16"], kept["FIFO", "UDT"]
    over_tcp = [min(_beside_tcp(tool)) > 0.75 for tool in (gridftp, udt)]
    falls = max(gridftp["UDP(10,10)"], udt["UDP(10,10)"]) < 0.75
    better = gridftp["UDP(10,10)"] < udt["UDP(10,10)"]
    reasons = [_NOT_PUBLISHED]
    if not all(over_tcp):
        reasons.append(
            "beside TCP the tools do not keep all of their rate: UDT halves its rate where TCP "
            "overruns the queue and regains 12 Mbit/s in a second, longer than is measured here"
            if over_tcp[0]
            else "beside TCP the tools do not keep all of their rate"
        )
    if not better:
        reasons.append("beside bursts GridFTP falls no further than UDT")
    holds = all(over_tcp) and falls and better
    return Outcome(
        f"of its rate alone keeps {_said_kept(kept)}",
        Verdict.TREND_HOLDS if holds else Verdict.DIFFERS,
        "; ".join(reasons),
    )


def _beside_tcp(shares: Mapping[str, float]) -> list[float]:
    return [share for other, share in shares.items() if other.startswith("iPerf")]


def _judge_bursty(results: Results) -> Outcome:
    kept = _kept(results)
    gridftp, udt = kept["FIFO", "GridFTP-16"], kept["FIFO", "UDT"]
    worst = min(gridftp.values())
    eases = gridftp["UDP(1,1)"] < gridftp.get("UDP(1,10)", 1.0)
    verdict = Verdict.TREND_HOLDS if eases and worst < 0.25 else Verdict.DIFFERS
    if eases and 0.05 <= worst <= 0.15:
        verdict = Verdict.MATCHES
    reason = _NOT_PUBLISHED
    if udt["UDP(1,1)"] < worst:
        reason += "; UDT, said to be the better choice there, falls further"
    return Outcome(f"of its rate alone keeps {_said_kept(kept)}", verdict, reason)


# Figures 4.3 and 4.8: tools beside clients of NFS, which were there before.


def _clients(quick: bool) -> Sequence[int]:
    return (1, 16) if quick else (1, 2, 4, 8, 16)


def _beside_clients(tool: str, clients: int) -> Cell:
    return Cell(1, "FIFO", tool, f"NFS({clients})" if clients else "none")


def _client_cells(quick: bool) -> Cells:
    tools = _TOOLS if quick else ("iPerf", "GridFTP-8", "GridFTP-16", "UDT", *_NEW)
    cells = [_beside_clients(tool, number) for tool in tools for number in (0, *_clients(quick))]
    return dict.fromkeys(cells, Size(30, (1,), 15) if quick else _FULL)


def _judge_beside_clients(results: Results) -> Outcome:
    quick = _beside_clients("GridFTP-8", 1) not in results
    kept = {
        tool: [
            results[_beside_clients(tool, number)].foreground
            / results[_beside_clients(tool, 0)].foreground
            for number in _clients(quick)
        ]
        for tool in dict.fromkeys(cell.foreground for cell in results)
    }
    numbers = ", ".join(map(str, _clients(quick)))
    ours = f"of its rate alone keeps, beside {numbers} clients: " + "; ".join(
        f"{tool} {', '.join(f'{share:.0%}' for share in shares)}" for tool, shares in kept.items()
    )
    if all(min(kept[tool]) > 0.9 for tool in _TOOLS[1:]):
        return Outcome(ours, Verdict.MATCHES)
    reason = (
        "by figure 4.8 of the work 16 clients keep almost 10 Mbit/s each, so that a tool can have "
        "no more than two thirds of the link; why the clients of the work were slow is not said"
    )
    # What can be followed is that a tool of many connections keeps more than a single one does.
    more = all(min(kept[tool]) > min(kept[_TOOLS[0]]) for tool in _TOOLS[1:])
    return Outcome(ours, Verdict.CANNOT_FOLLOW if more else Verdict.DIFFERS, reason)


def _judge_clients(results: Results) -> Outcome:
    left = {
        tool: results[_beside_clients(tool, 16)].background
        for tool in dict.fromkeys(cell.foreground for cell in results)
    }
    ours = "Mbit/s of each of 16 clients: " + ", ".join(
        f"{rate:.1f} beside {tool}" for tool, rate in left.items()
    )
    near = abs(left["iPerf"] / 29 - 1) < 0.15
    if near and max(left[tool] for tool in _TOOLS[1:]) < 10:
        return Outcome(ours, Verdict.MATCHES)
    holds = near and all(left[tool] < 0.75 * left["iPerf"] for tool in _TOOLS[1:])
    reason = (
        "an equal share beside a tool's 16 connections would be 15 Mbit/s, and those that come "
        "later take minutes to it over 128 ms"
    )
    return Outcome(ours, Verdict.TREND_HOLDS if holds else Verdict.DIFFERS, reason)


# Figures 4.5 and 4.6: CUBIC and BBR beside each other, which was there five seconds before.

_CONTROLS = ("iPerf", "BBR")


def _control_cells(overlay: int, quick: bool) -> Cells:
    size = Size(25, (1,), 15) if overlay == 1 else Size(20, (1,), 12)
    pairs = [Cell(overlay, "FIFO", front, back) for front in _CONTROLS for back in _CONTROLS]
    if quick:
        return dict.fromkeys(pairs, size)
    waves = [
        Cell(overlay, "FIFO", front, f"{back} 10/10") for front in _CONTROLS for back in _CONTROLS
    ]
    many = [
        Cell(overlay, "FIFO", front, back)
        for front in ("GridFTP-8", "GridFTP-16", "BBR-8", "BBR-16")
        for back in _CONTROLS
    ]
    modern = [
        Cell(overlay, queue, front, back)
        for queue in QUEUES
        for front, back in (*((new, "iPerf") for new in _NEW), *(("iPerf", new) for new in _NEW))
    ]
    return dict.fromkeys(pairs + waves + many + modern, _FULL)


def called(mover: str) -> str:
    """A mover by its congestion control: the tools' streams are CUBIC's."""
    return mover.replace("iPerf", "CUBIC").replace("GridFTP", "CUBIC")


def _judge_controls(overlay: int, results: Results) -> Outcome:
    best = _best(overlay)
    ours = "in front/behind, Mbit/s: " + ", ".join(
        f"{called(cell.foreground)}/{called(cell.background)} {one.foreground:.0f}/"
        f"{one.background:.0f}{'' if cell.queue == 'FIFO' else f' through {cell.queue}'}"
        for cell, one in results.items()
    )
    in_front = results[Cell(overlay, "FIFO", "iPerf", "BBR")].foreground / best
    behind = results[Cell(overlay, "FIFO", "BBR", "iPerf")].background / best
    matched = results[Cell(overlay, "FIFO", "BBR", "BBR")].jain
    # At 1 Gbit/s the work says no more than that CUBIC suffers.
    if max(in_front, behind) < 0.1:
        return Outcome(ours, Verdict.MATCHES)
    reason = f"CUBIC has {in_front:.0%} of the link in front of BBR and {behind:.0%} behind it"
    holds = max(in_front, behind) < 0.4 and matched > 0.8
    return Outcome(ours, Verdict.TREND_HOLDS if holds else Verdict.DIFFERS, reason)


# Figure 4.7: two and three constant streams.


def _mix_cells(quick: bool) -> Cells:
    size = Size(25, (1,), 15) if quick else _FULL
    twos = [Cell(1, "FIFO", front, back) for front in _CONTROLS for back in _CONTROLS]
    threes = [
        Cell(1, "FIFO", f"{front} + {other}", back)
        for front, other, back in (
            ("iPerf", "iPerf", "iPerf"),
            ("iPerf", "iPerf", "BBR"),
            ("iPerf", "BBR", "BBR"),
            ("BBR", "BBR", "BBR"),
        )
    ]
    modern = [
        Cell(1, queue, f"iPerf + {new}", "BBR") for queue in QUEUES for new in _NEW if not quick
    ]
    return dict.fromkeys(twos + threes + modern, size)


def _judge_mixes(results: Results) -> Outcome:
    said, holds = [], True
    for cell, one in results.items():
        names = [*cell.foreground.split(" + "), cell.background]
        streams = list(zip(names, (*one.streams, one.background), strict=True))
        rates = ", ".join(f"{called(name)} {rate:.0f}" for name, rate in streams)
        said.append(rates + ("" if cell.queue == "FIFO" else f" through {cell.queue}"))
        cubic = [rate for name, rate in streams if name == "iPerf"]
        bbr = [rate for name, rate in streams if name == "BBR"]
        if cell.queue == "FIFO" and cubic and bbr:
            holds &= statistics.mean(cubic) < statistics.mean(bbr)
    ours = f"Mbit/s, the last was there first: {'; '.join(said)}"
    return Outcome(ours, Verdict.TREND_HOLDS if holds else Verdict.DIFFERS)


def _table_row(id_: str, title: str, published: str, overlay: int) -> Row:
    return _row(
        id_, title, published, partial(_table_cells, overlay), partial(_judge_table, overlay)
    )


_FEW_BURSTS = {1: ("UDP(1,1)", "UDP(1,10)"), 2: ("UDP(1,1)",)}

ROWS = [
    *(
        _row(
            id_,
            f"{rate}: transfer tools beside square waves of TCP and UDP",
            published,
            partial(_tool_cells, overlay, _WAVES, ("iPerf", "UDP(10,10)")),
            _judge_waves,
        )
        for id_, overlay, rate, published in (
            (
                "001-fig-4.1a",
                1,
                "500 Mbit/s",
                "GridFTP and UDT keep their rate beside TCP; beside UDP both fall, GridFTP by up "
                "to 80 %",
            ),
            ("001-fig-4.2a", 2, "1 Gbit/s", "as at 500 Mbit/s (bars only)"),
        )
    ),
    *(
        _row(
            id_,
            f"{rate}: transfer tools beside bursty UDP",
            published,
            partial(_tool_cells, overlay, _BURSTY, _FEW_BURSTS[overlay]),
            _judge_bursty,
        )
        for id_, overlay, rate, published in (
            ("001-fig-4.1b", 1, "500 Mbit/s", "GridFTP falls to about 10 % of its best"),
            ("001-fig-4.2b", 2, "1 Gbit/s", "as at 500 Mbit/s (bars only)"),
        )
    ),
    _row(
        "001-fig-4.3",
        "Transfer tools beside 1 to 16 NFS clients",
        "GridFTP and UDT lose nothing",
        _client_cells,
        _judge_beside_clients,
    ),
    _row(
        "001-fig-4.5",
        "500 Mbit/s: CUBIC against BBR, constant and square-wave background",
        "BBR pushes CUBIC below 10 % of its best, whichever of them is in front",
        partial(_control_cells, 1),
        partial(_judge_controls, 1),
    ),
    _row(
        "001-fig-4.6",
        "1 Gbit/s: CUBIC against BBR, constant and square-wave background",
        "BBR depresses CUBIC here too",
        partial(_control_cells, 2),
        partial(_judge_controls, 2),
    ),
    _row(
        "001-fig-4.7",
        "Two and three constant streams, all mixtures of CUBIC and BBR",
        "BBR depresses CUBIC in all (bars only)",
        _mix_cells,
        _judge_mixes,
    ),
    _row(
        "001-fig-4.8",
        "16 NFS connections beside iPerf, GridFTP and UDT",
        "about 29 Mbit/s a stream beside iPerf, below 10 beside GridFTP-16 and UDT",
        _client_cells,
        _judge_clients,
    ),
    _row(
        "001-fig-4.9",
        "One CUBIC stream over time beside each tool",
        "well below 100 Mbit/s after 60 s beside GridFTP-16 and UDT, which take more than 80 %",
        partial(_table_cells, 1),
        _judge_over_time,
        _draw_over_time,
    ),
    _table_row(
        "001-tab-4.2",
        "500 Mbit/s: throughput and Jain index of one TCP stream beside each tool",
        "iPerf 238/253 Mbit/s, Jain 1; GridFTP-16 415/75.6, 0.68; UDT 398/85.3, 0.7",
        1,
    ),
    _table_row(
        "001-tab-4.3",
        "1 Gbit/s: throughput and Jain index of one TCP stream beside each tool",
        "iPerf 412/485 Mbit/s, Jain 0.99; GridFTP-16 738/109, 0.64; UDT 591/161, 0.75",
        2,
    ),
]
