"""Work 000, section 5.3: its method on a desktop with a window manager and a real browser.

Pictures, a turning scene and a clip in Chromium, driven by xdotool, by TigerVNC and by RDP. Nothing
shown carries a number: what a screen should show is what the desktop's X server has in the end.
"""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, replace
from functools import partial
from pathlib import Path
from typing import Any, cast

import numpy as np

from studies.rig.desktop import programs
from studies.rig.desktop.lossy import RDP, VNC, Line
from studies.rig.desktop.programs import CLIP, PICTURE, SLOW, TURN
from studies.rig.statistics import margin, mean
from studies.works.row import Outcome, Row, Verdict
from studies.works.w000 import ch5_desktop_live
from studies.works.w000.ch5_desktop_own_live import REFRESH_S
from weir.chart import charts
from weir.runs.point import Json, Point

LOSSES = (0.0, 3.0, 10.0)
"""In percent."""
_SERVERS = {VNC: "TigerVNC's server", RDP: "xrdp in front of TigerVNC's server, and FreeRDP"}
_TASKS = {PICTURE: "picture", TURN: "turn"}
_EACH, _QUICK_EACH = 10, 2
"""How many of each at each loss."""
_NEAR = 0.95
"""The share of updates that is to be within a refresh of the pixels."""
_BLIND = 0.1
"""What the server's timer may see of the time's growth."""

_CLIP_S, _QUICK_CLIP_S = 36.0, 6.0
"""The work's clip has 36 s."""
_CLIP_SEEDS, _QUICK_CLIP_SEEDS = (1, 2, 3), (1,)

Task = Mapping[str, Any]


def shown(*, plan: str, percent: float, seed: int, protocol: str = VNC) -> Json:
    """What was measured of each task of a plan over a line that loses so much."""
    found = programs.carry_out(plan, Line(loss=percent / 100), seed, protocol=protocol)
    return cast(Json, [asdict(one) for one in found])


def played(*, key: str, percent: float, clip_s: float, seed: int) -> Json:
    """What was measured of a clip in the browser over a line that loses so much."""
    found = programs.carry_out(key, Line(loss=percent / 100), seed, clip_s=clip_s)
    return cast(Json, [asdict(one) for one in found])


def _points(quick: bool, protocol: str) -> list[Point]:
    count = _QUICK_EACH if quick else _EACH
    plan = PICTURE * count + TURN * count
    asked: dict[str, Json] = {"plan": plan, "seed": 1}
    # Runs by VNC are older than the choice, and are known by what they were asked for.
    asked |= {} if protocol == VNC else {"protocol": protocol}
    return [Point(shown, asked | {"percent": loss}) for loss in LOSSES]


def _each(results: Sequence[Json]) -> dict[tuple[str, float], list[Task]]:
    runs = cast(list[list[Task]], list(results))
    return {
        (key, loss): [one for one in run if one["key"] == key]
        for loss, run in zip(LOSSES, runs, strict=True)
        for key in _TASKS
    }


def _compared(tasks: Sequence[Task], what: str) -> list[float]:
    """How much later than the screen the packets have each update's end, where both tell it."""
    return [
        one[what] - one["screen"]
        for one in tasks
        if one[what] is not None and one["screen"] is not None
    ]


def _within(tasks: Sequence[Task], what: str) -> int:
    return sum(abs(one) <= REFRESH_S for one in _compared(tasks, what))


def _times(tasks: Sequence[Task], what: str) -> list[float]:
    return [one[what] for one in tasks if one[what] is not None]


def _time(tasks: Sequence[Task], what: str) -> float:
    """The geometric mean; endless where there is nothing."""
    times = _times(tasks, what)
    return float(np.exp(np.mean(np.log(times)))) if times else np.inf


def _judge(results: Sequence[Json], protocol: str) -> Outcome:
    found = _each(results)
    said, blind = [], []
    for key, name in _TASKS.items():
        dut, server = (
            [_time(found[key, loss], what) for loss in LOSSES] for what in ("patient_dut", "server")
        )
        times = ", ".join(
            f"{time:.3f} s at {loss:g} % (screen {_time(found[key, loss], 'screen'):.3f} s)"
            for time, loss in zip(dut, LOSSES, strict=True)
        )
        grown = dut[-1] - dut[0]
        seen = (server[-1] - server[0]) / grown if grown > 0 else np.inf
        blind.append(abs(seen) <= _BLIND)
        said.append(f"{name} {times}; the server's timer sees {100 * seen:.1f} % of its growth")
    tasks = [one for some in found.values() for one in some]
    # What the screen never showed, or the packets do not tell, is not near.
    near, short = (_within(tasks, what) for what in ("patient_dut", "fresh_dut"))
    errors = np.abs(_compared(tasks, "patient_dut"))
    largest = f"95 % of them within {1e3 * np.quantile(errors, 0.95):.1f} ms" if len(errors) else ""
    return Outcome(
        f"VD-DUT of a {'; of a '.join(said)}; {near} of {len(tasks)} updates within a refresh of "
        f"the pixels, {largest}; {short} with a GAP of 2 s",
        Verdict.OURS if near >= _NEAR * len(tasks) and all(blind) else Verdict.DIFFERS,
        f"twm, Chromium and xdotool on {_SERVERS[protocol]}, geometric means of VD-DUT with a GAP "
        "of 10 s; the screen is up to date when its pixels are what the X server has in the end",
    )


def _draw(results: Sequence[Json], path: Path) -> None:
    found = _each(results)
    series = []
    for key, name in _TASKS.items():
        for word, what in (("VD-DUT", "patient_dut"), ("screen", "screen"), ("server", "server")):
            times = [(loss, _times(found[key, loss], what)) for loss in LOSSES]
            places = [(loss, mean(some), margin(some)) for loss, some in times if some]
            series.append(charts.Series(f"{name}, {word}", places))
    charts.lines(path, "Pictures and a turning scene in Chromium", "packets lost, %", "s", series)


# --- the clip ---


def _clip_points(quick: bool) -> list[Point]:
    asked: dict[str, Json] = {"clip_s": _QUICK_CLIP_S if quick else _CLIP_S}
    points = [
        Point(played, asked | {"key": CLIP, "percent": loss, "seed": seed})
        for loss in ch5_desktop_live.LOSSES
        for seed in (_QUICK_CLIP_SEEDS if quick else _CLIP_SEEDS)
    ]
    return [*points, Point(played, asked | {"key": SLOW, "percent": 0.0, "seed": 1})]


def _judge_clip(results: Sequence[Json]) -> Outcome:
    outcome = ch5_desktop_live.judge_video(results)
    return replace(
        outcome,
        verdict=Verdict.OURS if outcome.verdict == Verdict.TREND_HOLDS else Verdict.DIFFERS,
        reason="VP8 in Chromium, of which an update that changes a pixel is a frame; "
        + outcome.reason,
    )


def _row(id_: str, protocol: str, named: str = "") -> Row:
    return Row(
        id_,
        f"VD-DUT of pictures and a turning scene in Chromium beside the pixels{named}, at 0 to "
        "10 % loss",
        "not published: the work could not see its screens; asked is a refresh for 95 % of updates",
        partial(_points, protocol=protocol),
        partial(_judge, protocol=protocol),
        _draw,
        live=1,
    )


ROWS = [
    _row("000-own-5.3-programs", VNC),
    _row("000-own-5.3-programs-rdp", RDP, " by RDP"),
    Row(
        "000-own-5.3-clip",
        "A clip in Chromium: frame rate and slow-motion quality against packet loss",
        "not published for this; figure 5.9: frames -64.4 %, quality -71.8 %, most of it below 3 %",
        _clip_points,
        _judge_clip,
        ch5_desktop_live.draw_video,
        live=1,
    ),
]
