"""Work 001, chapter 6: fixed and chosen congestion control beside CUBIC and BBR (001-spec 6.6).

Real files over the kernel's TCP in the lab, by `weir send`, on the work's path. The work's tool
probes for 20 s in every cycle of 80; ours until it is sure, and again when something changed. Its
throughput counts the phases in which it sends; ours counts probing, too (A-23). Beside what the
work compares stands a control by chance, drawn anew every minute.
"""

import itertools
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from weir.ops.recordings import Path as NetworkPath
from weir.ops.selection import PROBE_MAX_S
from weir.ops.trial import Trial
from weir.report.panels import draw
from weir.reproduce.choosing_runs import Runs, arrived, facts, learned, margin
from weir.reproduce.row import Json, Outcome, Point, Row, Verdict

WORKS_PATH = "500 Mbit/s, 65 ms, 6 MiB, fifo"
_SECONDS, _QUICK_SECONDS = 300.0, 25.0
_SEEDS = (1, 2, 3, 4, 5)
_JAIN_TARGET = 0.96  # the work's own with its tool
_UNFAIR, _FAIR, _CHOSEN_FAIR, _GAIN = 0.65, 0.95, 0.95, 3.5  # criteria H1 and H4, 001-spec 15
_CHANCE = "random-60"
_NAMES = {"cubic": "CUBIC", "bbr": "BBR", "auto": "chosen", _CHANCE: "by chance"}
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
CASES = (
    *itertools.islice(PRINTED, 0, 3),
    ("CUBIC", _CHANCE),
    *itertools.islice(PRINTED, 3, 6),
    ("BBR", _CHANCE),
)
"""Background and control, as the table has them."""
_Found = Mapping[tuple[str, str], Runs]


def beside(*, background: str, control: str, seconds: float, seed: int, learned: str) -> Json:
    """One file beside one stream.

    `learned` is the digest of what a choice is made from; it stands among the arguments because
    the result depends on it.
    """
    del learned
    path = NetworkPath.parse(WORKS_PATH)
    return facts(Trial(_LABELS[background], control, path, seconds, 10.0, seed))


def _cases(quick: bool) -> list[tuple[str, str]]:
    return [case for case in CASES if not quick or case[1] == "auto"]


def _points(quick: bool) -> Sequence[Point]:
    common: dict[str, Json] = {
        "seconds": _QUICK_SECONDS if quick else _SECONDS,
        "learned": learned(),
    }
    return [
        Point(beside, {"background": background, "control": control, "seed": seed, **common})
        for seed in (_SEEDS[:1] if quick else _SEEDS)
        for background, control in _cases(quick)
    ]


def _found(results: Sequence[Json]) -> _Found:
    cases = _cases(quick=len(results) < len(CASES))
    return {case: Runs.of(results[at :: len(cases)]) for at, case in enumerate(cases)}


def _judge(results: Sequence[Json]) -> Outcome:
    found = _found(results)
    ours = "; ".join(
        [*(_line(*case, runs) for case, runs in found.items()), arrived(found.values())]
    )
    flaws = [flaw for runs in found.values() for flaw in runs.flaws]
    if len(found) < len(CASES):
        holds = all(one["chosen"] for runs in found.values() for one in runs.each)
        return Outcome(ours, _verdict(holds), "; ".join([_SHORT, *flaws]))
    chosen = [runs for (_, control), runs in found.items() if control == "auto"]
    interval = ", ".join(
        f"{statistics.fmean(runs.own):.0f} ± {margin(runs.own):.0f}" for runs in chosen
    )
    interval = f"chosen {interval} Mbit/s"
    reason = "; ".join([_fairness(found), _pays(found), *flaws])
    if all(_is_close(printed, found[case]) for case, printed in PRINTED.items()):
        return Outcome(ours, Verdict.MATCHES, reason, interval)
    wrong = max(found["CUBIC", "bbr"].jain, found["BBR", "cubic"].jain)
    holds = min(runs.jain for runs in chosen) >= _JAIN_TARGET > wrong
    return Outcome(ours, _verdict(holds), reason, interval)


_SHORT = (
    f"{_QUICK_SECONDS:g} s, of which up to {PROBE_MAX_S:g} go by with probing, are too short for "
    "shares to settle: only whether a choice is made is judged"
)


def _line(background: str, control: str, runs: Runs) -> str:
    names = sorted({" then ".join(one["chosen"]) or "none" for one in runs.each})
    chosen = f" ({', '.join(names)})" if control == "auto" else ""
    return f"{background} beside {_NAMES[control]}{chosen}: {runs.words()}"


def _fairness(found: _Found) -> str:
    """Criterion H1: CUBIC and BBR are unfair to each other, and fair to their own kind."""
    mixed = max(found["CUBIC", "bbr"].jain, found["BBR", "cubic"].jain)
    matched = min(found["CUBIC", "cubic"].jain, found["BBR", "bbr"].jain)
    return (
        f"H1 {_holds(mixed <= _UNFAIR and matched >= _FAIR)}: Jain's index at most {mixed:.2f} of "
        f"a mixed pair ({_UNFAIR:g} asked) and at least {matched:.2f} of a matched ({_FAIR:g})"
    )


def _gains(found: _Found) -> tuple[float, float]:
    """How much more than beside the wrong one CUBIC gets in the background, a file beside BBR."""
    others = [statistics.fmean(found["CUBIC", control].others) for control in ("auto", "bbr")]
    own = [statistics.fmean(found["BBR", control].own) for control in ("auto", "cubic")]
    return others[0] / max(others[1], 1e-3), own[0] / max(own[1], 1e-3)


def _pays(found: _Found) -> str:
    """Criterion H4: the choice is fair, and worth much against the wrong one."""
    to_others, to_own = _gains(found)
    least = min(found[background, "auto"].jain for background in _LABELS)
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
    found = _found(results)
    if len(found) < len(CASES):
        return _judge(results)
    to_others, to_own = _gains(found)
    ours = (
        f"against the wrong choice a background of CUBIC has {to_others:.1f} times, a file beside "
        f"BBR {to_own:.1f} times"
    )
    return Outcome(ours, _verdict(min(to_others, to_own) >= _GAIN), _pays(found))


def _is_close(printed: _Printed, runs: Runs) -> bool:
    """Both throughputs are within a tenth of the printed ones."""
    pairs = (runs.own, printed.own), (runs.others, printed.background)
    return all(abs(statistics.fmean(ours) - theirs) <= 0.1 * theirs for ours, theirs in pairs)


def _verdict(holds: bool) -> Verdict:
    return Verdict.TREND_HOLDS if holds else Verdict.DIFFERS


def _plot(results: Sequence[Json], path: Path) -> None:
    panels = [
        runs.panel(f"beside {background}: {_NAMES[control]}")
        for (background, control), runs in _found(results).items()
    ]
    columns = 4 if len(panels) > 2 else len(panels)
    path.write_text(draw(panels, columns, f"A file on {WORKS_PATH}", "Mbit/s", 500.0))


ROWS = [
    Row(
        "001-tab-6.3",
        "Fixed and adaptive choice of congestion control beside CUBIC and BBR",
        "adaptive 258 and 221 Mbit/s, Jain 0.98 and 0.96; wrong choice Jain 0.62 and 0.60",
        _points,
        _judge,
        _plot,
        live=True,
    ),
    Row(
        "001-fig-6.9",
        "The same as bars: what the choice gives over the wrong one (H4)",
        "up to four times the wrong choice: 62 to 243 and 49 to 221 Mbit/s",
        _points,
        _judge_bars,
        live=True,
    ),
]
