"""Work 001, chapter 6: fixed and chosen congestion control beside CUBIC and BBR (001-spec 6.6).

Real files over the kernel's TCP in the lab, by `weir send`, on the work's path. The work's tool
probes for 20 s in every cycle of 80; ours until it is sure, and again when something changed. Its
throughput counts the phases in which it sends; ours counts probing, too (A-23).
"""

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

from weir.ops.choice.interaction import SHIPPED as SHIPPED_TABLE
from weir.ops.recognition.recogniser import SHIPPED as SHIPPED_MODEL
from weir.ops.recordings import Path as NetworkPath
from weir.ops.selection import PROBE_MAX_S
from weir.ops.trial import Trial, carry_out
from weir.report.panels import Curve, Panel, draw
from weir.reproduce.row import Json, Outcome, Point, Row, Verdict

WORKS_PATH = "500 Mbit/s, 65 ms, 6 MiB, fifo"
_SECONDS, _QUICK_SECONDS = 600.0, 25.0
_SEED = 1
_JAIN_TARGET = 0.96  # the work's own with its tool
_NAMES = {"cubic": "CUBIC", "bbr": "BBR", "auto": "chosen"}
_LABELS = {"CUBIC": "B0-C1", "BBR": "B1-C0"}
_OWN, _OTHER = "#d55e00", "#0072b2"


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


def beside(*, background: str, control: str, seconds: float, seed: int, learned: str) -> Json:
    """One file beside one stream; Mbit/s by the second, and what was chosen.

    `learned` is the digest of what a choice is made from; it stands among the arguments because
    the result depends on it.
    """
    del learned
    path = NetworkPath.parse(WORKS_PATH)
    outcome = carry_out(Trial(_LABELS[background], control, path, seconds, 10.0, seed))
    return {
        "own_mbps": _by_second(outcome.own, outcome.step_s),
        "others_mbps": _by_second(outcome.others[0], outcome.step_s),
        "jain_of_means": outcome.jain_of_means,
        "mean_of_jain": outcome.mean_of_jain,
        "chosen": list(outcome.controls),
        "at_s": [one["at_s"] for one in outcome.choices if one["event"] == "choice"],
        "flaws": list(outcome.flaws),
    }


def _by_second(series: Sequence[float], step_s: float) -> list[float]:
    group = round(1 / step_s)
    groups = (series[begin : begin + group] for begin in range(0, len(series), group))
    return [round(sum(values) / len(values) / 1e6, 1) for values in groups]


def _cases(quick: bool) -> list[tuple[str, str]]:
    return [case for case in PRINTED if not quick or case[1] == "auto"]


def _points(quick: bool) -> Sequence[Point]:
    common: dict[str, Json] = {
        "seconds": _QUICK_SECONDS if quick else _SECONDS,
        "seed": _SEED,
        "learned": _learned(),
    }
    return [
        Point(beside, {"background": background, "control": control, **common})
        for background, control in _cases(quick)
    ]


def _learned() -> str:
    digest = hashlib.sha256(SHIPPED_MODEL.read_bytes())
    digest.update(SHIPPED_TABLE.read_bytes())
    return digest.hexdigest()[:16]


def _found(results: Sequence[Json]) -> dict[tuple[str, str], dict[str, Any]]:
    cases = _cases(quick=len(results) < len(PRINTED))
    return dict(zip(cases, cast(Sequence[dict[str, Any]], results), strict=True))


def _mean(values: Sequence[float]) -> float:
    return sum(values) / len(values)


def _judge(results: Sequence[Json]) -> Outcome:
    found = _found(results)
    ours = "; ".join(_line(*case, one) for case, one in found.items())
    flaws = [flaw for one in found.values() for flaw in one["flaws"]]
    chosen = [one for (_, control), one in found.items() if control == "auto"]
    if len(found) < len(PRINTED):
        holds = all(one["chosen"] for one in chosen)
        return Outcome(ours, _verdict(holds), "; ".join([_SHORT, *flaws]))
    if all(_is_close(PRINTED[case], one) for case, one in found.items()):
        return Outcome(ours, Verdict.MATCHES, "; ".join(flaws))
    wrong = [found["CUBIC", "bbr"], found["BBR", "cubic"]]
    holds = min(map(_jain, chosen)) >= _JAIN_TARGET > max(map(_jain, wrong))
    return Outcome(ours, _verdict(holds), "; ".join(flaws))


_SHORT = (
    f"{_QUICK_SECONDS:g} s, of which up to {PROBE_MAX_S:g} go by with probing, are too short for "
    "shares to settle: only whether a choice is made is judged"
)


def _line(background: str, control: str, one: Mapping[str, Any]) -> str:
    chosen = f" ({', '.join(one['chosen']) or 'none'})" if control == "auto" else ""
    return (
        f"{background} beside {_NAMES[control]}{chosen}: {_mean(one['others_mbps']):.0f} and "
        f"{_mean(one['own_mbps']):.0f} Mbit/s, Jain {_jain(one):.2f} "
        f"({one['mean_of_jain']:.2f} by interval)"
    )


def _jain(one: Mapping[str, Any]) -> float:
    return float(one["jain_of_means"])


def _is_close(printed: _Printed, one: Mapping[str, Any]) -> bool:
    """Both throughputs are within a tenth of the printed ones."""
    pairs = (one["own_mbps"], printed.own), (one["others_mbps"], printed.background)
    return all(abs(_mean(ours) - theirs) <= 0.1 * theirs for ours, theirs in pairs)


def _verdict(holds: bool) -> Verdict:
    return Verdict.TREND_HOLDS if holds else Verdict.DIFFERS


def _plot(results: Sequence[Json], path: Path) -> None:
    panels = [
        Panel(
            f"beside {background}: {_NAMES[control]}",
            f"{_mean(one['own_mbps']):.0f} beside {_mean(one['others_mbps']):.0f} Mbit/s, "
            f"Jain's index {one['jain_of_means']:.2f}",
            (
                Curve("the file", one["own_mbps"], _OWN),
                Curve("background", one["others_mbps"], _OTHER),
            ),
            1.0,
            list(zip(one["at_s"], one["chosen"], strict=True)),
        )
        for (background, control), one in _found(results).items()
    ]
    columns = 3 if len(panels) > 2 else len(panels)
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
]
