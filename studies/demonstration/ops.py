"""`weir demo ops`: one file beside CUBIC and beside BBR, with fixed controls and with a chosen one.

The static cases of the work's Table 6.3 (001-spec 6.6) in small, two labs at a time.
"""

import json
import threading
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path as File
from typing import TextIO

from rich.console import Console
from rich.live import Live

from studies.rig.trial.outcome import Outcome
from studies.rig.trial.trial import Trial, carry_out
from weir.chart.panels import Curve, Panel, draw
from weir.congestion.recordings import Path
from weir.errors import BadInput
from weir.numbers import jain
from weir.terminal import Column, Table, console

PATH = "100 Mbit/s, 30 ms, 1 BDP"
SECONDS, FIXED_SECONDS = 24.0, 16.0
"""What is chosen takes up to ten seconds more to begin."""
SETTLED_S = 10.0
"""At the end, of which figures are shown."""
FAIR = {"B0-C1": "cubic", "B1-C0": "bbr"}
"""The control that is fair beside each background (001-spec 6.3)."""
_NAMES = {"B0-C1": "CUBIC", "B1-C0": "BBR"}
_AT_ONCE = 2
_LATELY = 4  # intervals that a live figure is the mean of
_OWN, _OTHER = "#d55e00", "#0072b2"


@dataclass
class _Case:
    """A trial as it stands."""

    trial: Trial
    state: str = "waits"
    own: list[float] = field(default_factory=list)
    others: list[float] = field(default_factory=list)
    outcome: Outcome | None = None

    def saw(self, own: float, others: Sequence[float]) -> None:
        """Takes the goodput of an interval."""
        self.state = "runs"
        self.own.append(own)
        self.others.append(sum(others))

    @property
    def control(self) -> str:
        """What the file has, or had last."""
        if self.outcome and self.trial.control == "auto":
            return " → ".join(("auto", *self.outcome.controls[-1:])) or "auto"
        return self.trial.control


def show(out: File, seed: int, as_json: bool, stream: TextIO) -> int:
    """Carries all cases out in front of a person or a machine; returns the exit code.

    0 if the fair control was chosen beside each background, 1 if not.

    Raises:
        BadInput: the plot cannot be written to `out`.
        Unsupported: this machine has no labs, or lacks a congestion control.
    """
    path = Path.parse(PATH)
    cases = [
        _Case(Trial(background, control, path, seconds, seed=seed))
        for background in FAIR
        for control, seconds in (
            ("cubic", FIXED_SECONDS),
            ("bbr", FIXED_SECONDS),
            ("auto", SECONDS),
        )
    ]
    picture = out / "ops.svg"
    try:
        out.mkdir(parents=True, exist_ok=True)
        picture.write_text("")
    except OSError as error:
        raise BadInput(f"{picture}: {error.strerror}") from None
    if as_json:
        _run(cases, threading.Event())
        for case in cases:
            stream.write(json.dumps(_facts(case)) + "\n")
    else:
        _watch(cases, console(stream))
    picture.write_text(_picture(cases))
    if not as_json:
        stream.write(f"{picture}: goodput over time\n")
    return int(any(_chosen(case) != FAIR[case.trial.background] for case in cases[2::3]))


def _run(cases: Sequence[_Case], changed: threading.Event) -> None:
    longest_first = sorted(enumerate(cases), key=lambda one: -one[1].trial.seconds)
    with ThreadPoolExecutor(_AT_ONCE) as pool:
        begun = [pool.submit(_carry_out, *numbered, changed) for numbered in longest_first]
        for one in begun:
            one.result()


def _carry_out(number: int, case: _Case, changed: threading.Event) -> None:
    def seen(own: float, others: Sequence[float]) -> None:
        case.saw(own, others)
        changed.set()

    case.state = "begins"
    changed.set()
    case.outcome = carry_out(case.trial, f"demo-{number}", seen)
    case.state = "done"
    changed.set()


def _watch(cases: Sequence[_Case], console: Console) -> None:
    """Runs them under a table that keeps up with them."""
    changed, over = threading.Event(), threading.Event()
    console.print(
        f"A file beside one stream of CUBIC and beside one of BBR, over {PATH}: with a fixed "
        "congestion control, and with the one that `weir send --cca auto` chooses. "
        "It begins with CUBIC, as most hosts do. "
        f"A minute and a half on two cores, {_AT_ONCE} at a time; figures of those that are done "
        f"are of their last {SETTLED_S:g} s.\n"
    )
    with Live(_table(cases), console=console, auto_refresh=False) as live:

        def refresh() -> None:
            while not over.is_set():
                changed.wait(0.5)
                changed.clear()
                live.update(_table(cases), refresh=True)

        thread = threading.Thread(target=refresh)
        thread.start()
        try:
            _run(cases, changed)
        finally:
            over.set()
            thread.join()
        live.update(_table(cases), refresh=True)
    console.print()
    for case in cases:
        for one in case.outcome.choices if case.outcome else ():
            what = one.get("why") or one.get("what") or one.get("reason", "")
            console.print(
                f"beside {_NAMES[case.trial.background]}, at {one['at_s']:.1f} s: "
                f"{one['event']} {one.get('control', '')}: {what}"
            )
        for flaw in case.outcome.flaws if case.outcome else ():
            console.print(f"{case.trial.background}, {case.trial.control}: {flaw}", style="yellow")


def _table(cases: Sequence[_Case]) -> Table:
    figures = (Column(title, right=True) for title in ("file", "background", "Jain's index"))
    table = Table("beside", "the file's control", *figures, Column("", rank=2))
    for case in cases:
        own, others = _shown(case)
        fairness = f"{jain([own, others]):.2f}" if case.outcome else ""
        is_auto = case.trial.control == "auto"
        table.add_row(
            _NAMES[case.trial.background],
            case.control,
            f"{own / 1e6:.1f} Mbit/s" if case.own else "",
            f"{others / 1e6:.1f} Mbit/s" if case.own else "",
            fairness,
            case.state,
            style="bold" if is_auto else "",
        )
    return table


def _shown(case: _Case) -> tuple[float, float]:
    """Goodput of both: lately while it runs, in the end when it is done."""
    if case.outcome:
        settled = case.outcome.last(SETTLED_S)
        return settled.own_bps, sum(settled.others_bps)
    own, others = case.own[-_LATELY:], case.others[-_LATELY:]
    return sum(own) / max(1, len(own)), sum(others) / max(1, len(others))


def _chosen(case: _Case) -> str | None:
    """What it has in the end, unless that is only what it had before and kept in doubt."""
    choices = case.outcome.choices if case.outcome else ()
    made = [one for one in choices if one["event"] == "choice"]
    return str(made[-1]["control"]) if made and made[-1]["known"] else None


def _facts(case: _Case) -> dict[str, object]:
    assert case.outcome, "it was carried out"
    settled = case.outcome.last(SETTLED_S)
    return {
        "background": case.trial.background,
        "control": case.trial.control,
        "chosen": _chosen(case),
        "own_bps": round(case.outcome.own_bps),
        "others_bps": [round(rate) for rate in case.outcome.others_bps],
        "jain_of_means": round(case.outcome.jain_of_means, 4),
        "mean_of_jain": round(case.outcome.mean_of_jain, 4),
        "settled": {
            "seconds": SETTLED_S,
            "own_bps": round(settled.own_bps),
            "others_bps": [round(rate) for rate in settled.others_bps],
            "jain_of_means": round(settled.jain_of_means, 4),
        },
        "choices": list(case.outcome.choices),
        "flaws": list(case.outcome.flaws),
    }


def _picture(cases: Sequence[_Case]) -> str:
    panels = []
    for case in cases:
        assert case.outcome, "it was carried out"
        own, others = _shown(case)
        marks = [(one["at_s"], one.get("control", "?")) for one in case.outcome.choices]
        panels.append(
            Panel(
                f"beside {_NAMES[case.trial.background]}: {case.control}",
                f"{own / 1e6:.1f} beside {others / 1e6:.1f} Mbit/s, Jain's index "
                f"{jain([own, others]):.2f}",
                (
                    Curve("the file", [rate / 1e6 for rate in case.own], _OWN),
                    Curve("background", [rate / 1e6 for rate in case.others], _OTHER),
                ),
                case.outcome.step_s,
                marks,
            )
        )
    rate = Path.parse(PATH).rate_bps / 1e6
    return draw(panels, 3, f"A file on {PATH}", "Mbit/s", rate)
