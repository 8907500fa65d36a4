"""`weir demo headroom`: elephants as best effort, in spare capacity (SH), and on chosen paths (DH).

Work 000's services (000-spec sections 3.3.2 and 3.6) on switches that speak OpenFlow.
"""

from collections.abc import Callable, Iterator, Sequence

from rich.text import Text

from studies.demonstration.elephants import Seen, carry_out, elephants, rates_bps
from studies.demonstration.scaffold import Figures
from studies.rig.arrivals import STEP_S
from studies.rig.provider import DYNAMIC, PLAIN, STATIC
from weir.chart.panels import Curve, Panel, draw
from weir.format import mbit_s
from weir.terminal import Column, Table

SECONDS = 15.0
EACH_WAY = 2
"""Elephants from B to C, and as many back."""
_AXIS_MBIT_S = 100.0
_ELEPHANTS, _ORDINARY = "#d55e00", "#0072b2"
_FEWER = 0.1
"""What best effort may lose beside elephants in the class below, as a share of the plain loss."""


class Headroom:
    """The demonstration; a run for each service.

    Args:
        seed: of what is drawn.
        seconds: of each run.
    """

    name = "headroom"
    intro = (
        f"{2 * EACH_WAY} elephants between B and C of six OpenFlow switches (20 Mbit/s a link), "
        "beside bursts of others: as best effort like those, marked into the class below on the "
        "default paths (SH), and on the paths that the provider's controller chooses (DH). "
        "About a minute."
    )
    caption = "rates over time"

    def __init__(self, seed: int, seconds: float = SECONDS) -> None:
        self._seed, self._seconds = seed, seconds
        self._runs = [Seen(service) for service in (PLAIN, STATIC, DYNAMIC)]

    def carry_out(self, changed: Callable[[], None]) -> None:
        """One run after the other.

        Raises:
            Unsupported: this machine has no labs or no switches.
        """
        flows = elephants(EACH_WAY)
        for seen in self._runs:
            carry_out(seen, flows, self._seconds, self._seed, changed)

    def table(self) -> Table:
        """What elephants and others had, run by run."""
        return _table(self._runs)

    def notes(self) -> Iterator[Text]:
        """Which paths the elephants took under DH, and which runs the machine spoilt."""
        for at, path in enumerate(self._runs[-1].paths):
            yield Text(f"DH, elephant {at + 1}: {', '.join(path)}")
        for seen in self._runs:
            if seen.is_slow:
                words = "this machine was late, and may have lost packets that no queue did"
                yield Text(f"{seen.service.name}: {words}", "yellow")

    def facts(self) -> list[dict[str, object]]:
        """An object a run."""
        return [_facts(seen) for seen in self._runs]

    def figures(self) -> Figures:
        """What each run had in the end."""
        return _figures(self._runs, self._seed)

    def picture(self) -> str:
        """A panel a run."""
        return _picture(self._runs)

    def holds(self) -> bool:
        """Whether both services all but spare best effort, and DH carries more than SH."""
        figures = self.figures()
        plain = figures["best_effort_loss_percent_plain"]
        headroom = figures["best_effort_loss_percent_headroom"]
        gain = figures["gain_dh_over_sh"]
        assert isinstance(plain, float) and isinstance(headroom, float)
        assert isinstance(gain, float)
        return headroom <= _FEWER * plain and gain > 1.0


def _figures(runs: Sequence[Seen], seed: int) -> Figures:
    plain, static, dynamic = runs
    return {
        "seed": seed,
        "elephants": len(plain.taken),
        "best_effort_loss_percent_plain": _lost(plain),
        "best_effort_loss_percent_sh": _lost(static),
        "best_effort_loss_percent_dh": _lost(dynamic),
        "best_effort_loss_percent_headroom": max(_lost(static), _lost(dynamic)),
        "elephant_plain_bps": round(plain.elephant_bps),
        "elephant_sh_bps": round(static.elephant_bps),
        "elephant_dh_bps": round(dynamic.elephant_bps),
        "gain_dh_over_sh": round(dynamic.elephant_bps / max(1.0, static.elephant_bps), 3),
        "links_in_use_sh": static.links_in_use,
        "links_in_use_dh": dynamic.links_in_use,
        "machine_was_slow": any(seen.is_slow for seen in runs),
    }


def _lost(seen: Seen) -> float:
    return round(seen.lost_percent or 0.0, 4)


def _table(runs: Sequence[Seen]) -> Table:
    figures = (Column(title, right=True) for title in ("an elephant", "best effort lost", "links"))
    table = Table("elephants as", *figures, Column("", rank=2))
    for seen in runs:
        lost, is_done = seen.lost_percent, seen.state == "done"
        table.add_row(
            seen.service.name,
            mbit_s(seen.elephant_bps) if any(seen.taken) else "",
            f"{lost:.2f} %" if is_done and lost is not None else "",
            f"{seen.links_in_use}" if is_done else "",
            seen.state,
        )
    return table


def _facts(seen: Seen) -> dict[str, object]:
    return {
        "service": seen.service.name,
        "elephants_bps": [round(8 * one[-1] / (len(one) * STEP_S)) for one in seen.taken if one],
        "paths": seen.paths,
        "best_effort_sent_packets": seen.sent,
        "best_effort_lost_percent": _lost(seen),
        "best_effort_stalled_s": seen.stalled_s,
        "links_in_use": seen.links_in_use,
        "carried_bytes": seen.carried_bytes,
        "machine_was_slow": seen.is_slow,
    }


def _picture(runs: Sequence[Seen]) -> str:
    panels = []
    for seen in runs:
        taken = [rate / 1e6 for rate in rates_bps(seen.taken)]
        arrived = [rate / 1e6 for rate in rates_bps(seen.arrived, seen.payload_bytes)]
        panels.append(
            Panel(
                f"elephants as {seen.service.name}",
                f"{mbit_s(seen.elephant_bps)} each, best effort loses {_lost(seen):.2f} %",
                (
                    Curve("elephants", taken, _ELEPHANTS),
                    Curve("best effort", arrived, _ORDINARY),
                ),
                STEP_S,
            )
        )
    return draw(panels, 3, "Between B and C, both ways", "Mbit/s", _AXIS_MBIT_S)
