"""`weir demo ops`: one file beside CUBIC and beside BBR, with fixed controls and with a chosen one.

The static cases of the work's Table 6.3 (001-spec 6.6) in small, two labs at a time.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field

from rich.text import Text

from studies.demonstration.scaffold import Figures
from studies.rig.threads import at_once
from studies.rig.trial.outcome import Outcome
from studies.rig.trial.trial import Trial, carry_out
from weir.chart.panels import Curve, Panel, draw
from weir.congestion.recordings import NetworkPath
from weir.format import mbit_s
from weir.numbers import jain
from weir.terminal import Column, Table

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


class Ops:
    """The demonstration; one trial for each background and control.

    Args:
        seed: of what is drawn.
    """

    name = "ops"
    intro = (
        f"A file beside one stream of CUBIC and beside one of BBR, over {PATH}: with a fixed "
        "congestion control, and with the one that `weir send --cca auto` chooses. "
        "It begins with CUBIC, as most hosts do. "
        f"A minute and a half on two cores, {_AT_ONCE} at a time; figures of those that are done "
        f"are of their last {SETTLED_S:g} s."
    )
    caption = "goodput over time"

    def __init__(self, seed: int) -> None:
        self._seed = seed
        path = NetworkPath.parse(PATH)
        self._cases = [
            _Case(Trial(background, control, path, seconds, seed=seed))
            for background in FAIR
            for control, seconds in (
                ("cubic", FIXED_SECONDS),
                ("bbr", FIXED_SECONDS),
                ("auto", SECONDS),
            )
        ]

    def carry_out(self, changed: Callable[[], None]) -> None:
        """All cases, those that take longest first.

        Raises:
            Unsupported: this machine has no labs, or lacks a congestion control.
        """
        longest_first = sorted(enumerate(self._cases), key=lambda one: -one[1].trial.seconds)
        with at_once(_AT_ONCE) as pool:
            begun = [pool.submit(_carry_out, *numbered, changed) for numbered in longest_first]
            for one in begun:
                one.result()

    def table(self) -> Table:
        """Goodput of the file and of the background, case by case."""
        return _table(self._cases)

    def notes(self) -> Iterator[Text]:
        """What was chosen and why, and why a case should not be believed."""
        for case in self._cases:
            for one in case.outcome.choices if case.outcome else ():
                what = one.get("why") or one.get("what") or one.get("reason", "")
                yield Text(
                    f"beside {_NAMES[case.trial.background]}, at {one['at_s']:.1f} s: "
                    f"{one['event']} {one.get('control', '')}: {what}"
                )
            for flaw in case.outcome.flaws if case.outcome else ():
                yield Text(f"{case.trial.background}, {case.trial.control}: {flaw}", "yellow")

    def facts(self) -> list[dict[str, object]]:
        """An object a case."""
        return [_facts(case) for case in self._cases]

    def figures(self) -> Figures:
        """What each case had in the end."""
        figures: dict[str, bool | int | float | str | None] = {
            "seed": self._seed,
            "settled_s": SETTLED_S,
        }
        for case in self._cases:
            own, others = _shown(case)
            begin = f"{case.trial.control}_beside_{_NAMES[case.trial.background].lower()}"
            figures[f"{begin}_own_bps"] = round(own)
            figures[f"{begin}_others_bps"] = round(others)
            figures[f"{begin}_jain_index"] = round(jain([own, others]), 4)
            if case.trial.control == "auto":
                figures[f"{begin}_chosen"] = _chosen(case)
        return figures

    def picture(self) -> str:
        """A panel a case."""
        return _picture(self._cases)

    def holds(self) -> bool:
        """Whether the fair control was chosen beside each background."""
        chosen = [case for case in self._cases if case.trial.control == "auto"]
        return all(_chosen(case) == FAIR[case.trial.background] for case in chosen)


def _carry_out(number: int, case: _Case, changed: Callable[[], None]) -> None:
    def seen(own: float, others: Sequence[float]) -> None:
        case.saw(own, others)
        changed()

    case.state = "begins"
    changed()
    case.outcome = carry_out(case.trial, f"demo-{number}", seen)
    case.state = "done"
    changed()


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
            mbit_s(own) if case.own else "",
            mbit_s(others) if case.own else "",
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
                f"{mbit_s(own)} beside {mbit_s(others)}, Jain's index {jain([own, others]):.2f}",
                (
                    Curve("the file", [rate / 1e6 for rate in case.own], _OWN),
                    Curve("background", [rate / 1e6 for rate in case.others], _OTHER),
                ),
                case.outcome.step_s,
                marks,
            )
        )
    rate = NetworkPath.parse(PATH).rate_bps / 1e6
    return draw(panels, 3, f"A file on {PATH}", "Mbit/s", rate)
