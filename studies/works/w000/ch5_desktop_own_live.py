"""Work 000, chapter 5: what it never varied, and what it named as future work (5.9).

Pictures on a desktop as in `ch5_desktop_live`, by TigerVNC and by VP8 over RTP, which repairs
itself over UDP as the work's PCoIP did.
"""

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any, cast

import numpy as np

from studies.rig.desktop import call, lossy, spoken
from studies.rig.desktop.lossy import RDP, RTP, VNC, Line
from studies.rig.statistics import margin, mean
from studies.works.row import Outcome, Row, Verdict
from weir import Bytes, Rate, Time
from weir.chart import charts
from weir.lab.scenario import Queue
from weir.observe.desktop import capacity, speech
from weir.observe.desktop.capacity import Demand
from weir.runs.point import Json, Point

LOSSES = (0.0, 0.5, 3.0, 5.0, 10.0)
"""In percent."""
REFRESH_S = 1 / 60
_ROUND = "iiiiii"
"""All six pictures."""
_NAMES = {VNC: "VNC", RTP: "RTP"}
"""One over TCP and one over UDP."""
_ALL = {**_NAMES, RDP: "RDP"}

# --- a line of any kind ---

Setting = Mapping[str, Any]


def pictures(*, protocol: str, plan: str, setting: Setting, seed: int) -> Json:
    """What was measured of each task of a plan over a line; of its loss `percent` are lost."""
    found = lossy.carry_out(plan, line(setting), seed, protocol=protocol)
    return cast(Json, [asdict(one) for one in found])


def line(setting: Setting) -> Line:
    """The line that a row names."""
    rate = Rate(setting.get("rate", "100 Mbit/s"))
    return Line(
        loss=setting.get("percent", 0.0) / 100,
        rate=rate,
        delay=Time(setting.get("delay", "500 us")),
        jitter=Time(setting.get("jitter", "0 ns")),
        burst=setting.get("burst", 1.0),
        queue=_queue(setting["queue"], rate) if "queue" in setting else Line().queue,
        bulk=setting.get("bulk", 0),
    )


def _queue(discipline: str, rate: Rate) -> Queue:
    """With its own defaults; what has to be told of a contract is the line's rate and 64 kB."""
    if discipline in ("token-bucket", "policer"):
        told = {"rate": int(rate.bit_per_s), "burst": Bytes("64 kB").count}
        return Queue(discipline, parameters=told)
    return Queue(discipline)


Tasks = Sequence[Mapping[str, Any]]


def _each(
    results: Sequence[Json], names: Sequence[str], protocols: Mapping[str, str] = _NAMES
) -> dict[tuple[str, str], list[Mapping[str, Any]]]:
    """All tasks of each protocol and setting; runs stand protocol by protocol."""
    runs = cast(list[Tasks], list(results))
    keys = list(itertools.product(protocols, names))
    each = len(runs) // len(keys)
    return {
        key: [one for run in runs[at * each : (at + 1) * each] for one in run]
        for at, key in enumerate(keys)
    }


def _points(
    settings: Mapping[str, Setting],
    plan: str,
    seeds: Sequence[int],
    protocols: Mapping[str, str] = _NAMES,
) -> list[Point]:
    return [
        Point(
            pictures,
            {"protocol": protocol, "plan": plan, "setting": dict(setting), "seed": seed},
        )
        for protocol in protocols
        for setting in settings.values()
        for seed in seeds
    ]


def _times(tasks: Sequence[Mapping[str, Any]], what: str = "fresh_dut") -> list[float]:
    return [one[what] for one in tasks if one[what]]


def _geometric(tasks: Sequence[Mapping[str, Any]], what: str = "fresh_dut") -> float:
    times = _times(tasks, what)
    return float(np.exp(np.mean(np.log(times)))) if times else np.inf


def _errors(tasks: Sequence[Mapping[str, Any]]) -> list[float]:
    return [one["fresh_dut"] - one["screen"] for one in _both(tasks)]


def _both(tasks: Sequence[Mapping[str, Any]]) -> Sequence[Mapping[str, Any]]:
    """What both the packets and the screen tell of."""
    return [one for one in tasks if one["fresh_dut"] is not None and one["screen"] is not None]


def _near(tasks: Sequence[Mapping[str, Any]]) -> float:
    """The share of tasks whose packets are within a refresh of the screen."""
    return mean([abs(one) <= REFRESH_S for one in _errors(tasks)]) if _errors(tasks) else 0.0


def _beside_screen(tasks: Sequence[Mapping[str, Any]]) -> str:
    behind = sum(one["screen"] is None for one in tasks)
    if behind == len(tasks):
        return "never within a minute"
    said = f"{_geometric(tasks):.3f} s (screen {_geometric(tasks, 'screen'):.3f} s"
    return f"{said}; {behind} of {len(tasks)} not within a minute)" if behind else f"{said})"


# --- loss: packets beside pixels ---

_BY_LOSS: dict[str, Setting] = {f"{loss:g} %": {"percent": loss} for loss in LOSSES}
_NEAR_UPDATES, _QUICK_NEAR_UPDATES = 67, 4
_ASKED = 0.95
_CUT_S = 1.0
_BLIND = 0.1
"""What the server's timer may see of the time's growth."""
_APART = 0.15
"""How far growth by packets and by the screen may be apart, as a share."""


def _near_points(quick: bool) -> list[Point]:
    plan = "i" * (_QUICK_NEAR_UPDATES if quick else _NEAR_UPDATES)
    return _points(_BY_LOSS, plan, (1,), _ALL)


def _judge_near(results: Sequence[Json]) -> Outcome:
    found = _each(results, list(_BY_LOSS), _ALL)
    said, shares = [], []
    for protocol, name in _ALL.items():
        tasks = [one for key, some in found.items() if key[0] == protocol for one in some]
        errors = np.array(_errors(tasks))
        waits = np.array([one["waited"] for one in _both(tasks)])
        missed = np.abs(errors) > REFRESH_S
        # What the screen's program waited for a processor is the machine's, not the method's.
        machine = missed & (errors < 0) & (-errors - waits <= REFRESH_S)
        shares.append(_near(tasks))
        said.append(
            f"{name}: {100 * shares[-1]:.1f} % of {len(errors)} updates within a refresh, "
            f"95 % within {1e3 * np.quantile(np.abs(errors), 0.95):.1f} ms; of {missed.sum()} "
            f"others the screen was late in {(missed & (errors < 0)).sum()}: in {machine.sum()} "
            f"its program had waited so long for a processor, in {(errors < -_CUT_S).sum()} a "
            "pause longer than GAP had cut the update"
        )
    return Outcome(
        "; ".join(said),
        Verdict.OURS if min(shares) >= _ASKED else Verdict.DIFFERS,
        "asked is 95 % of 1 000 updates at 0 to 10 % loss, for each protocol; between the last "
        "packet and the screen lies what the screen's program does with it",
        "",
    )


def _draw_loss(results: Sequence[Json], path: Path) -> None:
    found = _each(results, list(_BY_LOSS))
    series = [
        charts.Series(
            f"{name}, {word}",
            [
                (loss, mean(_times(found[protocol, at], what)), margin(_times(found[protocol, at])))
                for loss, at in zip(LOSSES, _BY_LOSS, strict=True)
            ],
        )
        for protocol, name in _NAMES.items()
        for word, what in (("VD-DUT", "fresh_dut"), ("screen", "screen"))
    ]
    charts.lines(path, "Pictures over TCP and over UDP", "packets lost, %", "s", series)


def _udp_points(quick: bool) -> list[Point]:
    return _points(_BY_LOSS, _ROUND, (1,) if quick else (1, 2, 3))


def _judge_udp(results: Sequence[Json]) -> Outcome:
    found = _each(results, list(_BY_LOSS))
    said, grown, apart = [], {}, []
    for protocol, name in _NAMES.items():
        grown[protocol], screen = (_growth(found, protocol, one) for one in ("fresh_dut", "screen"))
        apart.append(abs((1 + grown[protocol]) / (1 + screen) - 1))
        times = ", ".join(f"{_geometric(found[protocol, at]):.3f} s at {at}" for at in _BY_LOSS)
        said.append(f"{name}: {times} ({100 * grown[protocol]:+.1f} %, screen {100 * screen:+.1f})")
    ends = [[_geometric(found[VNC, at], what) for at in ("0 %", "10 %")] for what in _TIMES]
    seen = (ends[1][1] - ends[1][0]) / max(ends[0][1] - ends[0][0], 1e-9)
    holds = grown[VNC] > grown[RTP] and max(apart) <= _APART and abs(seen) <= _BLIND
    return Outcome(
        f"VD-DUT by {'; by '.join(said)}; the server's timer sees {100 * seen:.1f} % of what VNC's "
        "grows by",
        Verdict.OURS if holds else Verdict.DIFFERS,
        "over UDP a lost packet is asked for at once and nothing slows down: on a line of half a "
        "millisecond that costs next to nothing; TCP slows down and waits. PCoIP's growth was "
        "46.7 %, between both",
    )


_TIMES = ("fresh_dut", "server")


def _growth(
    found: Mapping[tuple[str, str], list[Mapping[str, Any]]], protocol: str, what: str
) -> float:
    ends = [_geometric(found[protocol, at], what) for at in ("0 %", "10 %")]
    return ends[1] / ends[0] - 1


# --- what the work never varied ---

_LINES: dict[str, Setting] = {
    "plain": {},
    "25 ms": {"delay": "25 ms"},
    "100 ms": {"delay": "100 ms"},
    "25 ± 20 ms": {"delay": "25 ms", "jitter": "20 ms"},
    "5 Mbit/s": {"rate": "5 Mbit/s"},
    "3 % lost": {"percent": 3.0, "delay": "25 ms"},
    "3 % lost in fives": {"percent": 3.0, "burst": 5.0, "delay": "25 ms"},
}


def _line_points(quick: bool) -> list[Point]:
    return _points(_LINES, _ROUND, (1,) if quick else (1, 2, 3))


def _judge_lines(results: Sequence[Json]) -> Outcome:
    found = _each(results, list(_LINES))
    said = [
        f"{name}: " + ", ".join(f"{at} {_beside_screen(found[protocol, at])}" for at in _LINES)
        for protocol, name in _NAMES.items()
    ]
    # A longer line, a slower one and one that loses are all seen.
    later = all(
        _geometric(found[protocol, at]) > _geometric(found[protocol, "plain"])
        for protocol in _NAMES
        for at in ("100 ms", "5 Mbit/s", "3 % lost")
    )
    return Outcome(
        "; ".join(said),
        Verdict.OURS if later else Verdict.DIFFERS,
        "one way's delay and its jitter, in order; the line of 100 Mbit/s where nothing is said; "
        "a loss in fives has the same share lost, five packets in a row in the mean",
    )


_QUICK_QUEUES = ("fifo", "priority", "pie", "codel", "fq-codel", "dual-pi2")
QUEUES = (
    *_QUICK_QUEUES,
    "wrr",
    "drr",
    "wfq",
    "red",
    "ared",
    "curvy-red",
    "dual-curvy-red",
    "phantom",
    "token-bucket",
    "policer",
)
"""Every discipline that Weir has, those first that a quick run tries."""


def _queue_settings(quick: bool) -> dict[str, Setting]:
    beside: dict[str, Json] = {"rate": "20 Mbit/s", "delay": "10 ms", "bulk": 4}
    return {one: {**beside, "queue": one} for one in (_QUICK_QUEUES if quick else QUEUES)}


def _queue_points(quick: bool) -> list[Point]:
    return _points(_queue_settings(quick), _ROUND, (1,) if quick else (1, 2, 3))


def _judge_queues(results: Sequence[Json]) -> Outcome:
    quick = len(results) < len(_queue_points(False))
    names = list(_queue_settings(quick))
    found = _each(results, names)
    said = [
        f"{name}: " + ", ".join(f"{at} {_beside_screen(found[protocol, at])}" for at in names)
        for protocol, name in _NAMES.items()
    ]
    kept = all(
        _geometric(found[protocol, "priority"]) < _geometric(found[protocol, "fifo"])
        for protocol in _NAMES
    )
    return Outcome(
        "; ".join(said),
        Verdict.OURS if kept else Verdict.DIFFERS,
        "a line of 20 Mbit/s and 10 ms each way, which four TCP connections of class CS1 fill; "
        "what a discipline does to them it does to the picture, unless it tells them apart",
    )


# --- calls ---

_CALLS: dict[str, Setting] = {
    **_BY_LOSS,
    "5 % in fives": {"percent": 5.0, "burst": 5.0},
    "50 ± 40 ms": {"delay": "50 ms", "jitter": "40 ms"},
}
_SPEECH_S = 8.0


def spoken_over(*, setting: Setting, sentences: int, seed: int) -> Json:
    """WSS, LLR and score of each sentence of both voices, all spoken at once over a line."""
    said = [
        call.speech(voice, _SPEECH_S, seed + number)
        for voice in call.VOICES
        for number in range(sentences)
    ]
    heard = spoken.heard(said, line(setting), seed)
    found = [speech.quality(one, other, call.RATE) for one, other in zip(said, heard, strict=True)]
    return [[one.wss, one.llr, one.score] for one in found]


def _call_points(quick: bool) -> list[Point]:
    return [
        Point(
            spoken_over,
            {"setting": dict(setting), "sentences": 1 if quick else 5, "seed": seed},
        )
        for setting in _CALLS.values()
        for seed in ((1,) if quick else (1, 2, 3))
    ]


def _calls(results: Sequence[Json]) -> dict[str, list[list[float]]]:
    runs = cast(list[list[list[float]]], list(results))
    each = len(runs) // len(_CALLS)
    return {
        name: [one for run in runs[at * each : (at + 1) * each] for one in run]
        for at, name in enumerate(_CALLS)
    }


def _judge_calls(results: Sequence[Json]) -> Outcome:
    found = _calls(results)
    scores = {name: mean([one[2] for one in some]) for name, some in found.items()}
    ends = [[mean([one[what] for one in found[at]]) for at in ("0 %", "10 %")] for what in (0, 1)]
    fell = 100 * (1 - scores["10 %"] / scores["0 %"])
    holds = fell > 0 and all(high > low for low, high in ends)
    return Outcome(
        f"score {', '.join(f'{one:.2f} at {name}' for name, one in scores.items())} ({-fell:+.1f} "
        f"% from 0 to 10 %); WSS {ends[0][0]:.3g} to {ends[0][1]:.3g}, LLR {ends[1][0]:.3g} to "
        f"{ends[1][1]:.3g}",
        Verdict.OURS if holds else Verdict.DIFFERS,
        "made speech by Opus at 24 kbit/s over RTP, each packet with a copy of the one before; "
        f"what is {spoken.PATIENCE_MS} ms late is lost. Row 000-fig-5.8 has G.711 without copies",
    )


def _draw_calls(results: Sequence[Json], path: Path) -> None:
    found = _calls(results)
    series = []
    for name, what, factor in (("score", 2, 1.0), ("WSS / 20", 0, 0.05), ("LLR", 1, 1.0)):
        values = {
            loss: [factor * one[what] for one in found[at]]
            for loss, at in zip(LOSSES, _BY_LOSS, strict=True)
        }
        series.append(
            charts.Series(name, [(loss, mean(one), margin(one)) for loss, one in values.items()])
        )
    charts.lines(path, "Calls by Opus over RTP", "packets lost, %", "score, distance", series)


# --- many desktops ---

_SHARED: Setting = {"rate": "10 Mbit/s"}
_DESKTOPS, _QUICK_DESKTOPS = (1, 2, 3, 4, 6), (1, 2, 4)
_THINK_S = 1.0
_SLOW = 2.0
"""An update may take so many times what it takes alone."""
_CLOSE = 0.35


def together(*, desktops: int, plan: str, setting: Setting, think_s: float, seed: int) -> Json:
    """What was measured of the tasks of all desktops that share a line."""
    found = lossy.carry_out_together(desktops, plan, line(setting), seed, think_s)
    return cast(Json, [asdict(one) for some in found for one in some])


def _together_points(quick: bool) -> list[Point]:
    return [
        Point(
            together,
            {
                "desktops": count,
                "plan": _ROUND * (3 if quick else 8),
                "setting": dict(_SHARED),
                "think_s": _THINK_S,
                "seed": 1,
            },
        )
        for count in (_QUICK_DESKTOPS if quick else _DESKTOPS)
    ]


def _demand(alone: Tasks) -> Demand:
    """What one desktop's updates take, when nobody else is there."""
    server = mean(_times(alone, "server"))
    carried = 8 * mean(_times(alone, "bytes")) / float(line(_SHARED).rate.bit_per_s)
    took = mean(_times(alone))
    return Demand(server, carried, max(0.0, took - server - carried), _THINK_S, 1)


def _measured_and_modelled(results: Sequence[Json]) -> tuple[dict[int, list[float]], Demand]:
    runs = cast(list[Tasks], list(results))
    counts = _QUICK_DESKTOPS if len(runs) == len(_QUICK_DESKTOPS) else _DESKTOPS
    found = {count: _times(run) for count, run in zip(counts, runs, strict=True)}
    return found, _demand(runs[0])


def _judge_together(results: Sequence[Json]) -> Outcome:
    found, demand = _measured_and_modelled(results)
    modelled = {one.desktops: one for one in itertools.islice(capacity.loads(demand), max(found))}
    said = [
        f"{count} desktops {mean(times):.3f} s (model {modelled[count].dut:.3f} s, line "
        f"{100 * modelled[count].line:.0f} %)"
        for count, times in found.items()
    ]
    off = [abs(modelled[count].dut / mean(times) - 1) for count, times in found.items()]
    patient = Demand(demand.server, demand.line, demand.waiting, 20.0, demand.processors)
    limit_s = _SLOW * modelled[1].dut
    many = capacity.most(patient, limit_s)
    return Outcome(
        f"VD-DUT {', '.join(said)}; by the model {many} desktops whose people look at a picture "
        f"for 20 s have it within {limit_s:.2f} s, twice what one alone has",
        Verdict.OURS if max(off) <= _CLOSE else Verdict.DIFFERS,
        f"TigerVNC on one server, a line of {_SHARED['rate']}, a picture every {_THINK_S:g} s and "
        f"its update's time; the model knows only what one desktop alone was measured to need, and "
        f"is off by {100 * max(off):.0f} % at most",
    )


def _draw_together(results: Sequence[Json], path: Path) -> None:
    found, demand = _measured_and_modelled(results)
    loads = itertools.islice(capacity.loads(demand), 2 * max(found))
    series = [
        charts.Series("measured", [(n, mean(one), margin(one)) for n, one in found.items()]),
        charts.Series("modelled", [(one.desktops, one.dut, 0.0) for one in loads]),
    ]
    charts.lines(path, "Desktops that share a line", "desktops", "VD-DUT, s", series)


_NOTHING = "not published"

ROWS = [
    Row(
        "000-own-5.3-near",
        "VD-DUT beside the pixels, by VNC, RDP and RTP, at 0 to 10 % loss",
        f"{_NOTHING}: the work could not see its screens; asked is a refresh for 95 % of updates",
        _near_points,
        _judge_near,
        live=1,
    ),
    Row(
        "000-own-5.6-udp",
        "Virtual desktop, 2D images, by a protocol over UDP: response time against packet loss",
        f"{_NOTHING} for it; PCoIP over UDP: VD-DUT +46.7 % from 0 to 10 % loss",
        _udp_points,
        _judge_udp,
        _draw_loss,
        live=1,
    ),
    Row(
        "000-own-5.6-line",
        "Virtual desktop, 2D images: delay, jitter, rate and loss in bursts",
        f"{_NOTHING}: only loss was varied",
        _line_points,
        _judge_lines,
        live=1,
    ),
    Row(
        "000-own-5.6-queues",
        "Virtual desktop, 2D images, beside four downloads, by queue discipline",
        f"{_NOTHING}: only loss was varied",
        _queue_points,
        _judge_queues,
        live=1,
    ),
    Row(
        "000-own-5.8-line",
        "Virtual desktop, calls by Opus over a line that loses packets",
        f"{_NOTHING} for it; Skype: ViSQOL falls by 47.04 % from 0 to 10 % loss",
        _call_points,
        _judge_calls,
        _draw_calls,
        live=1,
    ),
    Row(
        "000-own-5.9-desktops",
        "VD-DUT against the number of desktops on one server and one line",
        f"{_NOTHING}: named as future work",
        _together_points,
        _judge_together,
        _draw_together,
        live=1,
    ),
]
