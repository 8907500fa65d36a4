"""Work 001, chapter 6: fixed and chosen congestion control beside CUBIC and BBR (001-spec 6.6).

Real files over the kernel's TCP in the lab, by `weir send`, on the work's path. The work's tool
probes for 20 s in every cycle of 80 (OPS-60); ours until it is sure, and again when something
changed. Its throughput counts the phases in which it sends; ours counts probing, too (A-23). Beside
what the work compares stands a control by chance, drawn anew every minute.
"""

import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from studies.rig.statistics import margin
from studies.rig.trial import Trial
from studies.works.row import Outcome, Row, Verdict
from studies.works.w001.ch6_choosing_runs import (
    CHOSEN,
    Found,
    Runs,
    arrived,
    facts,
    found,
    points,
)
from weir.chart.panels import draw
from weir.congestion.cycle.probing import PROBE_MAX_S
from weir.congestion.recordings import NetworkPath
from weir.runs.point import Json, Point

WORKS_PATH = "500 Mbit/s, 65 ms, 6 MiB, fifo"
_SECONDS, _QUICK_SECONDS = 300.0, 25.0
_SEEDS = (1, 2, 3, 4, 5)
_AT_ONCE = 2  # labs that two processors carry without being late
_JAIN_TARGET = 0.96  # the work's own with its tool
_UNFAIR, _FAIR, _CHOSEN_FAIR, _GAIN = 0.65, 0.95, 0.95, 3.5  # criteria H1 and H4, 001-spec 15
_CHANCE, _WORKS = "random-60", "OPS-60"
_CONTROLS = ("cubic", "bbr", CHOSEN, _WORKS, _CHANCE)
_NAMES = {"cubic": "CUBIC", "bbr": "BBR", CHOSEN: "chosen", _CHANCE: "by chance"}
_AS_THE_WORK = ("--classifier", "k-nn", "--steady", "60 s")
_LABELS = {"CUBIC": "B0-C1", "BBR": "B1-C0"}


@dataclass(frozen=True)
class _Printed:
    """A line of Table 6.3: Mbit/s of background and foreground, and the reported index."""

    background: float
    own: float
    jain: float


PRINTED: Mapping[tuple[str, str], _Printed] = {
    ("CUBIC", "cubic"): _Printed(265, 254, 0.99),
    ("CUBIC", "bbr"): _Printed(62, 474, 0.62),
    ("CUBIC", "auto"): _Printed(243, 258, 0.98),
    ("BBR", "cubic"): _Printed(465, 49, 0.60),
    ("BBR", "bbr"): _Printed(280, 258, 0.97),
    ("BBR", "auto"): _Printed(328, 221, 0.96),
}
"""By background and control."""


def beside(
    *, background: str, control: str, seconds: float, seed: int, learned: str | None
) -> Json:
    """A file under a control beside one stream.

    `learned` is the digest of what a choice is made from; it stands among the arguments because
    the result depends on it. None where nothing is chosen.
    """
    del learned
    path, label = NetworkPath.parse(WORKS_PATH), _LABELS[background]
    is_works = control == _WORKS
    cca, options = (CHOSEN, _AS_THE_WORK) if is_works else (control, ())
    trial = Trial(label, cca, path, seconds, 10.0, seed, options=options)
    return facts(background, control, trial)


def _points(quick: bool) -> Sequence[Point]:
    controls = (CHOSEN,) if quick else _CONTROLS
    seconds = _QUICK_SECONDS if quick else _SECONDS
    return [
        point
        for background in _LABELS
        for seed in (_SEEDS[:1] if quick else _SEEDS)
        for point in points(beside, background, controls, seconds, seed)
    ]


def _is_reduced(results: Sequence[Json]) -> bool:
    return len(results) == len(_LABELS)


def _judge(results: Sequence[Json]) -> Outcome:
    of_all = found(results)
    cases = {
        (background, control): runs
        for background, of_one in of_all.items()
        for control, runs in of_one.items()
    }
    ours = "; ".join(
        [*(_line(*case, runs) for case, runs in cases.items()), arrived(cases.values())]
    )
    flaws = [flaw for runs in cases.values() for flaw in runs.flaws]
    chosen = [of_one[CHOSEN] for of_one in of_all.values()]
    if _is_reduced(results):
        holds = all(one["chosen"] for runs in chosen for one in runs.each)
        return Outcome(ours, _verdict(holds), "; ".join([_SHORT, *flaws]))
    interval = ", ".join(
        f"{statistics.fmean(runs.own):.0f} ± {margin(runs.own):.0f}" for runs in chosen
    )
    interval = f"chosen {interval} Mbit/s"
    reason = "; ".join([_fairness(of_all), _shares(of_all), _pays(of_all), _SHORTER, *flaws])
    if all(_is_close(printed, cases[case]) for case, printed in PRINTED.items()):
        return Outcome(ours, Verdict.MATCHES, reason, interval)
    wrong = max(of_all["CUBIC"]["bbr"].jain, of_all["BBR"]["cubic"].jain)
    holds = min(runs.jain for runs in chosen) >= _JAIN_TARGET > wrong
    return Outcome(ours, _verdict(holds), reason, interval)


_SIMULATED = (
    "the packet simulator's BBR v1 has 57 % and 55 % with this queue of 1.55 bandwidth-delay "
    "products, and with one of 1.00 product 88 % and 89 %, as published (docs/ops.md)"
)


def _shares(of_all: Found) -> str:
    """What BBR has of a pair with CUBIC, and with which queue it would have what is published."""
    second, first = of_all["CUBIC"]["bbr"], of_all["BBR"]["cubic"]
    pairs = (second.own, second.others), (first.others, first.own)
    means = [[statistics.fmean(rates) for rates in pair] for pair in pairs]
    shares = [bbr / max(bbr + cubic, 1e-3) for bbr, cubic in means]
    return (
        f"BBR has {shares[0]:.0%} of a pair with CUBIC that it comes second to, {shares[1]:.0%} of "
        f"one that it was first in; {_SIMULATED}"
    )


_SHORTER = f"{_SECONDS:g} s a file, where the work has 30 minutes"
_SHORT = (
    f"{_QUICK_SECONDS:g} s, of which up to {PROBE_MAX_S:g} go by with probing, are too short for "
    "shares to settle: only whether a choice is made is judged"
)


def _line(background: str, control: str, runs: Runs) -> str:
    names = sorted({" then ".join(one["chosen"]) or "none" for one in runs.each})
    chosen = f" ({', '.join(names)})" if control in (CHOSEN, _WORKS) else ""
    return f"{background} beside {_NAMES.get(control, control)}{chosen}: {runs.words()}"


def _fairness(of_all: Found) -> str:
    """Criterion H1: CUBIC and BBR are unfair to each other, and fair to their own kind."""
    mixed = max(of_all["CUBIC"]["bbr"].jain, of_all["BBR"]["cubic"].jain)
    matched = min(of_all["CUBIC"]["cubic"].jain, of_all["BBR"]["bbr"].jain)
    return (
        f"H1 {_holds(mixed <= _UNFAIR and matched >= _FAIR)}: Jain's index at most {mixed:.2f} of "
        f"a mixed pair ({_UNFAIR:g} asked) and at least {matched:.2f} of a matched ({_FAIR:g})"
    )


def _gains(of_all: Found) -> tuple[float, float]:
    """How much more than beside the wrong one CUBIC gets in the background, a file beside BBR."""
    others = [statistics.fmean(of_all["CUBIC"][control].others) for control in (CHOSEN, "bbr")]
    own = [statistics.fmean(of_all["BBR"][control].own) for control in (CHOSEN, "cubic")]
    return others[0] / max(others[1], 1e-3), own[0] / max(own[1], 1e-3)


def _pays(of_all: Found) -> str:
    """Criterion H4: the choice is fair, and worth much against the wrong one."""
    to_others, to_own = _gains(of_all)
    least = min(of_one[CHOSEN].jain for of_one in of_all.values())
    holds = least >= _CHOSEN_FAIR and min(to_others, to_own) >= _GAIN
    return (
        f"H4 {_holds(holds)}: the choice has an index of at least {least:.2f} ({_CHOSEN_FAIR:g} "
        f"asked) and gives a background of CUBIC {to_others:.1f} times, a file beside BBR "
        f"{to_own:.1f} times what the wrong one does ({_GAIN:g})"
    )


def _holds(yes: bool) -> str:
    return "holds" if yes else "does not hold"


def _judge_bars(results: Sequence[Json]) -> Outcome:
    """The figure that has the table's means as bars."""
    if _is_reduced(results):
        return _judge(results)
    of_all = found(results)
    to_others, to_own = _gains(of_all)
    ours = (
        f"against the wrong choice a background of CUBIC has {to_others:.1f} times, a file beside "
        f"BBR {to_own:.1f} times"
    )
    return Outcome(ours, _verdict(min(to_others, to_own) >= _GAIN), _pays(of_all))


def _is_close(printed: _Printed, runs: Runs) -> bool:
    """Both throughputs are within a tenth of the printed ones."""
    pairs = (runs.own, printed.own), (runs.others, printed.background)
    return all(abs(statistics.fmean(ours) - theirs) <= 0.1 * theirs for ours, theirs in pairs)


def _verdict(holds: bool) -> Verdict:
    return Verdict.TREND_HOLDS if holds else Verdict.DIFFERS


def _plot(results: Sequence[Json], path: Path) -> None:
    panels = [
        runs.panel(f"beside {background}: {_NAMES.get(control, control)}")
        for background, of_one in found(results).items()
        for control, runs in of_one.items()
    ]
    columns = len(_CONTROLS) if len(panels) > 2 else len(panels)
    path.write_text(draw(panels, columns, f"A file on {WORKS_PATH}", "Mbit/s", 500.0))


ROWS = [
    Row(
        "001-tab-6.3",
        "Fixed and adaptive choice of congestion control beside CUBIC and BBR",
        "adaptive 258 and 221 Mbit/s, Jain 0.98 and 0.96; wrong choice Jain 0.62 and 0.60",
        _points,
        _judge,
        _plot,
        live=_AT_ONCE,
    ),
    Row(
        "001-fig-6.9",
        "Table 6.3 as bars: what the choice gives over the wrong one (H4)",
        "up to four times the wrong choice: 62 to 243 and 49 to 221 Mbit/s",
        _points,
        _judge_bars,
        live=_AT_ONCE,
    ),
]
