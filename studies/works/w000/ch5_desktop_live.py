"""Work 000, section 5.5.1: pictures, scenes, a clip and a call on a desktop over a lossy line.

TigerVNC in the lab instead of PCoIP on hardware: its data go over TCP, which never gives up quality
and sends everything again, so that time grows where PCoIP's picture gets worse. The line has 100
Mbit/s and the lab's loss goes both ways, as the work's did. Calls are G.711's packets of 20 ms.
"""

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any, cast

import numpy as np

from studies.rig.desktop import call, card, lossy, raters
from studies.rig.desktop.lossy import Line
from studies.rig.statistics import margin, mean, words
from studies.works.row import Outcome, Row, Verdict
from studies.works.w000.ch5_opinions import SLOPES, opinions
from weir.chart import charts
from weir.observe.desktop import ratings, speech
from weir.observe.desktop.video import Playback, slow_motion_quality
from weir.runs.point import Json, Point

LOSSES = (0.0, 0.5, 3.0, 5.0, 10.0)
"""In percent."""
PICTURES, TURNS, CLIP = "i", "p", "v"
_SIZES = {PICTURES: (24, 6), TURNS: (12, 3), CLIP: (3, 1)}
"""Tasks of a run at full and at reduced size: the six pictures four times, or once."""
_CLIP_S, _QUICK_CLIP_S = 36.0, 6.0
"""The work's clip has 36 s."""
_SEEDS, _QUICK_SEEDS = (1, 2, 3), (1,)
_CALL_SEEDS, _QUICK_CALL_SEEDS = range(1, 51), range(1, 3)
_SPEECH_S = 8.0
_CARRIED = 0.7
"""The share of a clip's frames that have to come when nothing is lost; the work's was 0.87."""
_BLIND = 0.1
"""What the server's timer may see of the time's growth."""


def desktop(*, plan: str, loss_percent: float, clip_s: float, seed: int) -> Json:
    """What was measured of each task of a plan at a loss."""
    line = Line(loss_percent / 100)
    found = lossy.carry_out(plan, line, seed, clip_s=clip_s)
    return cast(Json, [asdict(one) for one in found])


def heard(*, voice: str, loss_percent: float, seed: int) -> Json:
    """WSS, LLR and score of one sentence over a line that loses so much."""
    said = call.speech(voice, _SPEECH_S, seed)
    lost = call.losses(-(-len(said) // call.PACKET), loss_percent / 100, seed)
    found = speech.quality(said, call.heard(said, lost), call.RATE)
    return [found.wss, found.llr, found.score]


def _desktop_points(kind: str, quick: bool) -> list[Point]:
    full, reduced = _SIZES[kind]
    clip_s = (_QUICK_CLIP_S if quick else _CLIP_S) if kind == CLIP else 1.0
    losses = LOSSES
    points = [
        Point(
            desktop,
            {
                "plan": kind * (reduced if quick else full),
                "loss_percent": loss,
                "clip_s": clip_s,
                "seed": seed,
            },
        )
        for loss in losses
        for seed in (_QUICK_SEEDS if quick else _SEEDS)
    ]
    if kind == CLIP:
        slow: dict[str, Json] = {"plan": "s", "loss_percent": 0.0, "clip_s": clip_s, "seed": 1}
        points.append(Point(desktop, slow))
    return points


def _call_points(quick: bool) -> list[Point]:
    return [
        Point(heard, {"voice": voice, "loss_percent": loss, "seed": seed})
        for loss in LOSSES
        for voice in call.VOICES
        for seed in (_QUICK_CALL_SEEDS if quick else _CALL_SEEDS)
    ]


Tasks = Sequence[Mapping[str, Any]]


def _by_loss(results: Sequence[Json]) -> dict[float, list[Tasks]]:
    """The runs at each loss."""
    runs = cast(list[Tasks], list(results))
    each = len(runs) // len(LOSSES)
    return {loss: runs[at * each : (at + 1) * each] for at, loss in enumerate(LOSSES)}


def _geometric(runs: Sequence[Tasks], what: str) -> list[float]:
    """The geometric mean over each run's tasks, as the work has it."""
    return [float(np.exp(np.mean([np.log(one[what]) for one in run if one[what]]))) for run in runs]


def _growth(found: Mapping[float, list[Tasks]], what: str) -> float:
    first, last = (mean(_geometric(found[loss], what)) for loss in (LOSSES[0], LOSSES[-1]))
    return 100 * (last / first - 1)


def _judge_updates(results: Sequence[Json], published: float, why: str) -> Outcome:
    found = _by_loss(results)
    times = {loss: _geometric(runs, "fresh_dut") for loss, runs in found.items()}
    grown, timer = _growth(found, "fresh_dut"), _growth(found, "marker")
    screen = _growth(found, "screen")
    errors = [
        abs(one["fresh_dut"] - one["screen"])
        for runs in found.values()
        for run in runs
        for one in run
        if one["fresh_dut"] is not None and one["screen"] is not None
    ]
    near = mean([one <= 1 / 60 for one in errors])
    rises = mean(times[10.0]) > mean(times[3.0]) > mean(times[0.0])
    # Milliseconds of a busy machine are not what the finding is about.
    markers = [mean(_geometric(found[loss], "marker")) for loss in (LOSSES[0], LOSSES[-1])]
    seen = (markers[1] - markers[0]) / max(mean(times[10.0]) - mean(times[0.0]), 1e-9)
    holds = rises and abs(seen) <= _BLIND
    close = abs(grown - published) <= 10
    said = ", ".join(f"{mean(one):.3f} s at {loss:g} %" for loss, one in times.items())
    return Outcome(
        f"VD-DUT {said} ({grown:+.1f} %); RT-Marker {timer:+.1f} %, {100 * seen:.1f} % of "
        f"that in seconds; by the screen itself "
        f"{screen:+.1f} %; {100 * near:.1f} % of {len(errors)} updates within a refresh of it",
        Verdict.DIFFERS if not holds else Verdict.MATCHES if close else Verdict.TREND_HOLDS,
        why,
        f"VD-DUT at 10 %: {words(times[10.0], '.3f')} s",
    )


_TCP = "over TCP nothing is given up and all is sent again, on a line of 100 Mbit/s"


def _judge_pictures(results: Sequence[Json]) -> Outcome:
    return _judge_updates(
        results, 46.7, f"{_TCP}: the time grows by more than PCoIP's, which sends less as it loses"
    )


def _judge_turns(results: Sequence[Json]) -> Outcome:
    return _judge_updates(
        results, 9.1, f"{_TCP}; the turn itself takes 0.8 s, and only its last picture counts"
    )


def _draw_updates(results: Sequence[Json], path: Path) -> None:
    found = _by_loss(results)
    series = []
    for name, what in (("VD-DUT", "fresh_dut"), ("screen", "screen"), ("RT-Marker", "marker")):
        at = {loss: _geometric(runs, what) for loss, runs in found.items()}
        series.append(
            charts.Series(name, [(loss, mean(one), margin(one)) for loss, one in at.items()])
        )
    charts.lines(path, "Updates over TigerVNC", "packets lost, %", "s", series)


def _clips(results: Sequence[Json]) -> dict[float, tuple[list[float], list[float]]]:
    """Frames a second and slow-motion quality of each run, by loss."""
    *normal, slow = results
    (still,) = cast(Tasks, slow)
    slowly = Playback(still["clip_bytes"], still["server"], card.SLOW_FPS)
    answer = {}
    for loss, runs in _by_loss(normal).items():
        played = [one for run in runs for one in run]
        fps = [one["frames"] / one["server"] for one in played]
        quality = [
            slow_motion_quality(Playback(one["clip_bytes"], one["server"], card.CLIP_FPS), slowly)
            for one in played
        ]
        answer[loss] = fps, quality
    return answer


def judge_video(results: Sequence[Json]) -> Outcome:
    """What a clip's frames and its slow-motion quality lose: runs by loss, the slow one last."""
    found = _clips(results)
    fps = {loss: mean(one) for loss, (one, _) in found.items()}
    quality = {loss: mean(one) for loss, (_, one) in found.items()}
    fell = [100 * (1 - one[10.0] / one[0.0]) for one in (fps, quality)]
    early = 100 * (fps[0.0] - fps[3.0]) / (fps[0.0] - fps[10.0])
    # Where the machine itself cannot keep up, a fall says nothing of the line.
    is_carried = fps[0.0] >= _CARRIED * card.CLIP_FPS
    holds = is_carried and fell[0] > 25 and fell[1] > 25
    return Outcome(
        f"{', '.join(f'{one:.1f} at {loss:g} %' for loss, one in fps.items())} frames/s "
        f"({-fell[0]:+.1f} %); quality {100 * quality[0.0]:.0f} % ({-fell[1]:+.1f} %); "
        f"{early:.0f} % of the fall of frames is below 3 %",
        Verdict.DIFFERS if not holds else Verdict.TREND_HOLDS if early > 50 else Verdict.DIFFERS,
        "a clip of 320 by 256 pixels without sound over TCP, which still carries it at 0.5 %"
        if is_carried
        else f"this machine had no time for a clip of {card.CLIP_FPS} frames/s even without loss",
        f"at 10 %: {words(found[10.0][0], '.1f')} frames/s",
    )


def draw_video(results: Sequence[Json], path: Path) -> None:
    """Both over loss."""
    found = _clips(results)
    series = [
        charts.Series(
            "frames/s", [(loss, mean(one), margin(one)) for loss, (one, _) in found.items()]
        ),
        charts.Series(
            "quality by 24",
            [(loss, 24 * mean(one), 24 * margin(one)) for loss, (_, one) in found.items()],
        ),
    ]
    charts.lines(path, "A clip over TigerVNC", "packets lost, %", "frames/s", series)


_MEASURES = ("WSS", "LLR", "score")


def _heard(results: Sequence[Json]) -> dict[str, dict[float, list[float]]]:
    calls = cast(list[list[float]], list(results))
    each = len(calls) // len(LOSSES)
    return {
        name: {
            loss: [one[number] for one in calls[at * each : (at + 1) * each]]
            for at, loss in enumerate(LOSSES)
        }
        for number, name in enumerate(_MEASURES)
    }


def _judge_calls(results: Sequence[Json]) -> Outcome:
    found = _heard(results)
    ends = {name: [mean(one[loss]) for loss in (0.0, 10.0)] for name, one in found.items()}
    fell = 100 * (1 - ends["score"][1] / ends["score"][0])
    rises = all(ends[name][1] > ends[name][0] for name in ("WSS", "LLR"))
    holds = rises and fell > 10
    return Outcome(
        "from 0 to 10 % loss: "
        + ", ".join(f"{name} {low:.3g} to {high:.3g}" for name, (low, high) in ends.items())
        + f"; the score falls by {fell:.1f} %",
        (Verdict.MATCHES if abs(fell - 47.04) < 5 else Verdict.TREND_HOLDS)
        if holds
        else Verdict.DIFFERS,
        "made speech in G.711's packets, loss drawn, lost packets repeated; a similarity like "
        "ViSQOL's from 5 at best, not Skype through a sound card, whose best was 3.2; WSS and LLR "
        "rise, being distances (AMB-37)",
        f"score at 10 %: {words(found['score'][10.0])}",
    )


def _draw_calls(results: Sequence[Json], path: Path) -> None:
    found = _heard(results)
    scaled = {"score": 1.0, "WSS": 0.05, "LLR": 1.0}
    series = [
        charts.Series(
            name if factor == 1 else f"{name} / {1 / factor:g}",
            [(loss, factor * mean(one), factor * margin(one)) for loss, one in found[name].items()],
        )
        for name, factor in scaled.items()
    ]
    charts.lines(path, "Calls in G.711's packets", "packets lost, %", "score, distance", series)


def _slope_points(quick: bool) -> list[Point]:
    kinds = [point for kind in (PICTURES, TURNS, CLIP) for point in _desktop_points(kind, quick)]
    draws = [Point(opinions, {"seed": seed}) for seed in (range(1, 5) if quick else range(1, 41))]
    return [*kinds, *_call_points(quick), *draws]


def _judge_slopes(results: Sequence[Json]) -> Outcome:
    quick = len(results) < len(_slope_points(False))
    parts = [len(_desktop_points(kind, quick)) for kind in (PICTURES, TURNS, CLIP)]
    parts.append(len(_call_points(quick)))
    cut = np.cumsum([0, *parts]).tolist()
    pictures, turns, clips, calls = (results[a:b] for a, b in itertools.pairwise(cut))
    draws = cast(Sequence[Mapping[str, Any]], results[cut[-1] :])
    lines = {}
    for name, one in (("images VD-DUT", pictures), ("360 VD-DUT", turns)):
        times = {loss: mean(_geometric(r, "fresh_dut")) for loss, r in _by_loss(one).items()}
        lines[name] = ratings.slope(times).estimate
    for name, values in _heard(calls).items():
        lines[f"calls {name}"] = ratings.slope(
            {loss: mean(one) for loss, one in values.items()}
        ).estimate
    few = {loss: one for loss, one in _clips(clips).items() if loss <= 3}
    for number, name in enumerate(("frames/s", "slow-mo-VQ")):
        means = {loss: mean(one[number]) for loss, one in few.items()}
        lines[f"video {name}"] = ratings.slope(means).estimate
    said = {name: mean([run[name]["slope"][0] for run in draws]) for name in raters.ACTIVITIES}
    found = all(abs(said[name] / SLOPES[name] - 1) < 0.25 for name in said)
    signs = all(
        (lines[name] > 0) == is_up
        for name, is_up in (
            ("images VD-DUT", True),
            ("360 VD-DUT", True),
            ("calls WSS", True),
            ("calls LLR", True),
            ("calls score", False),
            ("video frames/s", False),
            ("video slow-mo-VQ", False),
        )
    )
    return Outcome(
        ", ".join(f"{name} {one:+.4f}" for name, one in lines.items())
        + "; opinions "
        + ", ".join(f"{name} {one:+.4f}" for name, one in said.items()),
        Verdict.TREND_HOLDS if found and signs else Verdict.DIFFERS,
        "every measure turns the way it did; how fast is the protocol's; opinions are planted ones "
        "found again, a little less steep for being whole numbers from 1 to 5",
    )


ROWS = [
    Row(
        "000-fig-5.6",
        "Virtual desktop, 2D images: response time against packet loss",
        "VD-DUT +46.7 % from 0 to 10 % loss; timers at the server flat",
        lambda quick: _desktop_points(PICTURES, quick),
        _judge_pictures,
        _draw_updates,
        live=1,
    ),
    Row(
        "000-fig-5.7",
        "Virtual desktop, 360 degree images: response time against packet loss",
        "VD-DUT +9.1 % from 0 to 10 % loss",
        lambda quick: _desktop_points(TURNS, quick),
        _judge_turns,
        _draw_updates,
        live=1,
    ),
    Row(
        "000-fig-5.8",
        "Virtual desktop, calls: speech quality against packet loss",
        "from 0 to 10 % loss: ViSQOL 3.2 falls by 47.04 %, WSS changes by 4.59 %, LLR by 7.65 %",
        _call_points,
        _judge_calls,
        _draw_calls,
    ),
    Row(
        "000-fig-5.9",
        "Virtual desktop, video: frame rate and slow-motion quality against packet loss",
        "20.75 to 7.4 frames/s (-64.4 %), quality 70 % falls by 71.8 %; most of it below 3 % loss",
        lambda quick: _desktop_points(CLIP, quick),
        judge_video,
        draw_video,
        live=1,
    ),
    Row(
        "000-tab-5.3",
        "Slopes of objective and subjective quality per percent of loss",
        "images 0.1260 and -0.1041; calls (ViSQOL) -0.1494; video -2.9060 frames/s and -0.6565",
        _slope_points,
        _judge_slopes,
        live=1,
    ),
]
