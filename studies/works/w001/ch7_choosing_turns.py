"""Work 001, chapter 7: a chosen congestion control beside a background in turns (001-spec 8.6).

One stream that is CUBIC's for X s, then BBR's for X s (ALT-X), and both fixed. What is chosen
stands beside fixed controls, an oracle that is told of each turn and follows at once, and chance.
OPS-Y probes anew after Y s, as the work does; Weir when it hears that the others changed. Both
probe in silence, and OPS-Y also as the work: in its patterns of bursts, with its classifier, which
learns from recordings of this path beside the same bursts. A file of the work's takes about as long
as Y at the most, as here, so that OPS-300 decides once.

The path is not the work's: on that, which is 1.5 bandwidth-delay products deep, today's CUBIC and
BBR get along, and there is little to choose (row 001-tab-6.3). On one product they do not, and some
labs of 100 Mbit/s fit on a small machine, where those that are compared run side by side.
"""

import itertools
import statistics
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from studies.rig.statistics import margin
from studies.rig.trial import Trial
from studies.works.row import Outcome, Row, Verdict
from studies.works.w001.ch6_choosing_runs import (
    CHOSEN,
    OPS,
    Found,
    Runs,
    arrived,
    facts,
    found,
    points,
)
from weir.chart.charts import Series, lines
from weir.chart.panels import draw
from weir.congestion.cycle.probing import PROBE_MAX_S
from weir.congestion.options import PATTERN
from weir.congestion.recordings import KERNEL_TURNS, NetworkPath
from weir.runs.point import Json, Point

PATH = "100 Mbit/s, 30 ms, 1 BDP"
PAYLOAD_MBPS = 100 * 1448 / 1500
"""What the path carries of files."""
SEEDS = (1, 2, 3, 4, 5)
CUBIC, BBR, ORACLE, CHANCE = "cubic", "bbr", "oracle", "random-60"
_OFTEN = ("OPS-60", "OPS-100", "OPS-200")
PATTERNS = {"P1": PATTERN, "P2": "S5-C5-S5-B5"}
"""The work's (001-spec 5.4)."""
_BY_P1 = "OPS-100 P1"
_BY_P2 = ("OPS-100 P2", "OPS-200 P2", "OPS-300 P2")
_ALL = (CUBIC, BBR, ORACLE, CHOSEN, CHANCE)
_QUICK_CONTROLS = (ORACLE, CHOSEN, CUBIC, BBR)
_QUICK_SECONDS = 60.0
_AT_ONCE = 4  # labs that two processors carry; beside five a program takes seconds to start
# The work's files take about 240 s at the path's rate and 450 at a fair share (14 GB).
_SECONDS = {"ALT-30": 300.0, "ALT-60": 300.0, "ALT-120": 360.0, "ALT-300": 600.0}
_FIXED = {"B0-C1": 120.0, "B1-C0": 120.0}
_LABELS = {"B0-C1": "CUBIC", "B1-C0": "BBR"}
_NAMES = {CUBIC: "CUBIC", BBR: "BBR", ORACLE: "oracle", CHOSEN: "chosen", CHANCE: "by chance"}
_ALIKE = 0.2  # of fixed CUBIC's goodput, how far OPS with P1 may be from it: "about equal"
_OF_ORACLE, _JAIN, _FIXED_JAIN, _OF_FAIR = 0.9, 0.9, 0.96, 0.95  # what Weir is to reach


def in_turns(
    *, background: str, control: str, seconds: float, seed: int, learned: str | None
) -> Json:
    """A file under a control beside a background in turns, or one that stays.

    `learned` is the digest of what a choice is made from; it stands among the arguments because
    the result depends on it. None where nothing is chosen.
    """
    del learned
    return facts(background, control, _trial(background, control, seconds, seed))


def _trial(background: str, control: str, seconds: float, seed: int) -> Trial:
    path = NetworkPath.parse(PATH)
    if not control.startswith(OPS):
        return Trial(background, control, path, seconds, seed=seed)
    name, _, pattern = control.partition(" ")
    options: tuple[str, ...] = ("--steady", f"{name.removeprefix(OPS)} s")
    if pattern:
        options += ("--pattern", PATTERNS[pattern], "--recordings", str(KERNEL_TURNS))
    return Trial(background, CHOSEN, path, seconds, seed=seed, options=options)


def _points_30(quick: bool) -> Sequence[Point]:
    if quick:
        return points(in_turns, "ALT-30", _QUICK_CONTROLS, _QUICK_SECONDS, SEEDS[0])
    return _points_of("ALT-30", (*_ALL, *_OFTEN, _BY_P1, *_BY_P2), _SECONDS["ALT-30"])


def _points_all(quick: bool) -> Sequence[Point]:
    if quick:
        return _points_30(quick)
    more = [
        point
        for background, seconds in (_SECONDS | _FIXED).items()
        if background != "ALT-30"
        for controls in [_ALL if background in _FIXED else (*_ALL, _BY_P2[0])]
        for point in _points_of(background, controls, seconds)
    ]
    return [*_points_30(quick), *more]


def _points_of(background: str, controls: Sequence[str], seconds: float) -> list[Point]:
    return [
        point for seed in SEEDS for point in points(in_turns, background, controls, seconds, seed)
    ]


def _judge(results: Sequence[Json]) -> Outcome:
    """The order of the figures, which is criterion H5, and what Weir is to reach."""
    of_all = found(results)
    ours = "; ".join(
        f"beside {_called(background)}: "
        + ", ".join(f"{_name(control)} {runs.words()}" for control, runs in of_one.items())
        for background, of_one in of_all.items()
    )
    flaws = [flaw for of_one in of_all.values() for runs in of_one.values() for flaw in runs.flaws]
    files = arrived(runs for of_one in of_all.values() for runs in of_one.values())
    if len(of_all["ALT-30"][CHOSEN].each) == 1:
        reason = "; ".join([_SHORT, files, *flaws])
        return Outcome(ours, _verdict(_is_sound(of_all["ALT-30"])), reason)
    in_turns = [of_one for label, of_one in of_all.items() if label not in _LABELS]
    in_order = [_is_between(of_one) for of_one in in_turns]
    statements = [
        f"H5 {'holds' if all(in_order) else 'does not hold'}: what was chosen gets more than CUBIC "
        f"and less than BBR in {in_order.count(True)} of {len(in_order)} backgrounds in turns",
        f"H7 with P2 {_longer(of_all['ALT-30'], _BY_P2)}",
        f"passive, it {_longer(of_all['ALT-30'], _OFTEN)}",
        _like_cubic(of_all["ALT-30"]),
        *(_target(label, of_one) for label, of_one in of_all.items()),
        f"on {PATH}, files of {_lengths(of_all)}: the work's path has 1.5 products, where today's "
        "CUBIC and BBR get along",
        f"goodput counts the silence of probing, up to {PROBE_MAX_S:g} s each time",
        files,
        *flaws,
    ]
    chosen = of_all["ALT-30"][CHOSEN].own
    interval = (
        f"chosen, beside ALT-30: {statistics.fmean(chosen):.1f} ± {margin(chosen):.1f} Mbit/s"
    )
    return Outcome(ours, _verdict(all(in_order)), "; ".join(statements), interval)


_SHORT = (
    f"{_QUICK_SECONDS:g} s have two turns, and probing takes up to {PROBE_MAX_S:g} s of them: only "
    "the order of CUBIC, the oracle and BBR is judged, and whether a choice is made"
)


def _is_sound(of_one: Mapping[str, Runs]) -> bool:
    low, middle, high = (of_one[control].own[0] for control in (CUBIC, ORACLE, BBR))
    return low < middle < high and bool(of_one[CHOSEN].each[0]["chosen"])


def _verdict(holds: bool) -> Verdict:
    return Verdict.TREND_HOLDS if holds else Verdict.DIFFERS


def _is_between(of_one: Mapping[str, Runs]) -> bool:
    chosen = [
        statistics.fmean(runs.own)
        for control, runs in of_one.items()
        if control == CHOSEN or (control.startswith(OPS) and control != _BY_P1)
    ]
    low, high = (statistics.fmean(of_one[control].own) for control in (CUBIC, BBR))
    return low < min(chosen) and max(chosen) < high


def _lengths(of_all: Found) -> str:
    """How long files are sent, in words."""
    lengths = sorted({(_SECONDS | _FIXED)[label] for label in of_all})
    return f"{lengths[0]:g} s" + (f" to {lengths[-1]:g} s" if len(lengths) > 1 else "")


def _longer(of_one: Mapping[str, Runs], lengths: Sequence[str]) -> str:
    """Criterion H7, in words: goodput does not fall with Y beyond its intervals."""
    means = [statistics.fmean(of_one[control].own) for control in lengths]
    margins = [margin(of_one[control].own) for control in lengths]
    falls = any(
        after + after_margin < before - before_margin
        for (before, before_margin), (after, after_margin) in itertools.pairwise(
            zip(means, margins, strict=True)
        )
    )
    told = ", ".join(
        f"{control} {mean:.1f} ± {half:.1f}"
        for control, mean, half in zip(lengths, means, margins, strict=True)
    )
    return f"{'does not hold' if falls else 'holds'}: {told} Mbit/s"


def _like_cubic(of_one: Mapping[str, Runs]) -> str:
    """Criterion H6, in words: with P1 a file gets what it gets under CUBIC."""
    own = statistics.fmean(of_one[_BY_P1].own) / statistics.fmean(of_one[CUBIC].own)
    verb = "holds" if abs(own - 1) <= _ALIKE else "does not hold"
    return f"H6 {verb}: with P1 a file has {own:.2f} of what it has under CUBIC"


def _target(label: str, of_one: Mapping[str, Runs]) -> str:
    """What Weir is to reach beside this background, and what it reaches."""
    chosen = of_one[CHOSEN]
    own = statistics.fmean(chosen.own)
    if label in _LABELS:
        whose, fair, least, index = "an equal share's", PAYLOAD_MBPS / 2, _OF_FAIR, _FIXED_JAIN
    else:
        whose, fair = "the oracle's", statistics.fmean(of_one[ORACLE].own)
        least, index = _OF_ORACLE, _JAIN
    missed = ["goodput"] if own < least * fair else []
    missed += ["fairness"] if chosen.jain < index else []
    end = f"missed: {' and '.join(missed)}" if missed else "reached"
    return (
        f"beside {_called(label)} the chosen has {own / fair:.2f} of {whose} goodput ({least:g} "
        f"asked) with Jain's index {chosen.jain:.2f} ({index:g}; {chosen.jain_by_interval:.2f} by "
        f"interval): {end}"
    )


def _called(background: str) -> str:
    return _LABELS.get(background, background)


def _name(control: str) -> str:
    return _NAMES.get(control, control)


def _plot(results: Sequence[Json], path: Path) -> None:
    """One background over time; several by the length of their turns."""
    of_all = found(results)
    if len(of_all) > 1:
        lengths = {label: float(label.removeprefix("ALT-")) for label in _SECONDS}
        series = [
            Series(
                _name(control), [_place(x, of_all[label][control]) for label, x in lengths.items()]
            )
            for control in _ALL
        ]
        lines(path, f"A file on {PATH}", "length of a turn, s", "goodput, Mbit/s", series)
        return
    panels = [runs.panel(_name(control)) for control, runs in of_all["ALT-30"].items()]
    path.write_text(draw(panels, 2, f"Beside ALT-30 on {PATH}", "Mbit/s", 100.0))


def _place(x: float, runs: Runs) -> tuple[float, float, float]:
    return x, statistics.fmean(runs.own), margin(runs.own)


def _row(id_: str, title: str, published: str, points: Callable[[bool], Sequence[Point]]) -> Row:
    return Row(id_, title, published, points, _judge, _plot, live=_AT_ONCE)


ROWS = [
    _row(
        "001-fig-7.9",
        "Adaptive tool beside a background that alternates every 30 s (H5, H6, H7)",
        "CUBIC about 50, BBR almost 350, adaptive 210 to 305 Mbit/s; pattern P1 as bad as CUBIC",
        _points_30,
    ),
    _row(
        "001-fig-7.10",
        "Adaptive tool beside backgrounds that alternate every 30 to 300 s (H5)",
        "the same order at every period (bars only)",
        _points_all,
    ),
]
