"""`weir demo desktop`: pictures on a desktop far away, over a line that loses more and more.

Work 000's finding (000-spec section 5.7.1): the server's timers do not see it, VD-DUT does. Beyond
it: how near VD-DUT is to the screen, which the work could not know.
"""

import statistics
import tempfile
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path

import numpy as np
from rich.text import Text

from studies.demonstration.scaffold import Figures
from studies.rig.desktop import lossy
from studies.rig.desktop.lossy import Line, Measured
from studies.rig.threads import at_once
from weir.chart import charts
from weir.terminal import Column, Table

LOSSES = (0.0, 0.005, 0.03, 0.05, 0.1)
"""The work's (000-spec section 5.2)."""
UPDATES = 12
"""Pictures at each loss."""
REFRESH_S = 1 / 60
"""A server of VNC sends so often at most."""
_NEAR_S = 0.005
_SHARE = 0.95
_BLIND = 0.1
"""What the server's timer may see of the growth: a machine that does all of it is never quite even.
"""
_GROWN = 25.0
"""By how many percent the time grows at least."""


@dataclass
class _At:
    """What was measured at a loss."""

    loss: float
    found: Sequence[Measured] = field(default_factory=list)
    done: int = 0

    def mean(self, what: str) -> float | None:
        """One of its times, in s."""
        values = [value for one in self.found if (value := getattr(one, what)) is not None]
        return statistics.fmean(values) if values else None


class Desktop:
    """The demonstration; a lab for each loss.

    Args:
        seed: of losses and pictures.
        updates: pictures at each loss.
    """

    name = "desktop"
    caption = "how long pictures take to the screen, and who notices"
    intro = (
        "A desktop shows pictures over a line of 100 Mbit/s that loses 0 to 10 % of all packets: "
        "TigerVNC's server in one host, a screen in another. How long they take, by the server's "
        "timer, by packets alone (VD-DUT), and by the screen itself. Not two minutes."
    )

    def __init__(self, seed: int, updates: int = UPDATES) -> None:
        self._seed, self._updates = seed, updates
        self._all = [_At(loss) for loss in LOSSES]

    def carry_out(self, changed: Callable[[], None]) -> None:
        """All losses at once: most of the time every desktop waits until its screen is still.

        Raises:
            Unsupported: this machine has no labs, or no TigerVNC.
            Unavailable: a program ended before its time.
        """

        def measure(one: _At) -> None:
            def told(key: str) -> None:
                one.done += 1
                changed()

            one.found = lossy.carry_out("i" * self._updates, Line(one.loss), self._seed, told)
            changed()

        with at_once() as threads:
            list(threads.map(measure, self._all))

    def table(self) -> Table:
        """Times and errors, loss by loss."""
        titles = ("server's timer", "VD-DUT", "screen", "error (95 %)")
        table = Table("loss", *(Column(one, right=True) for one in titles), "")
        for one in self._all:
            errors = _errors(one.found)
            table.add_row(
                f"{100 * one.loss:g} %",
                *(_ms(one.mean(what)) for what in ("server", "fresh_dut", "screen")),
                _ms(_most(errors)) if errors else "",
                f"{one.done} pictures" if one.done else "waits",
            )
        return table

    def notes(self) -> Iterator[Text]:
        """What it comes to."""
        figures = self.figures()
        yield Text(
            f"From 0 to {100 * LOSSES[-1]:g} % loss the screen is later by "
            f"{figures['screen_growth_percent']} %, by packets alone "
            f"{figures['dut_growth_percent']} %; the server's timer sees "
            f"{figures['server_timer_share_of_growth_percent']} % of that."
        )

    def facts(self) -> list[dict[str, object]]:
        """An object a picture."""
        return [{"loss": at.loss, **asdict(one)} for at in self._all for one in at.found]

    def figures(self) -> Figures:
        """Growth from the least loss to the most, and how near packets are to the screen."""
        found = [one for at in self._all for one in at.found]
        errors = _errors(found)
        plain = [one.dut - one.screen for one in found if one.dut is not None and one.screen]
        bound = max(_NEAR_S, REFRESH_S)
        near = sum(abs(one) <= bound for one in errors) / len(errors) if errors else None
        return {
            "seed": self._seed,
            "updates": len(found),
            "dut_error_p95_ms": _rounded(_most(errors), 1e3),
            "dut_error_median_ms": _rounded(_median(errors), 1e3),
            "dut_error_with_repeats_p95_ms": _rounded(_most(plain), 1e3),
            "dut_within_refresh_share": _rounded(near),
            "dut_growth_percent": self._growth("fresh_dut"),
            "screen_growth_percent": self._growth("screen"),
            "server_timer_growth_percent": self._growth("server"),
            "server_timer_share_of_growth_percent": self._share_of_growth(),
            "marker_growth_percent": self._growth("marker"),
            "dut_no_loss_ms": _rounded(self._all[0].mean("fresh_dut"), 1e3),
            "dut_most_loss_ms": _rounded(self._all[-1].mean("fresh_dut"), 1e3),
            "server_timer_no_loss_ms": _rounded(self._all[0].mean("server"), 1e3),
            "server_timer_most_loss_ms": _rounded(self._all[-1].mean("server"), 1e3),
        }

    def picture(self) -> str:
        """A curve for each way of telling."""
        series = [
            charts.Series(name, [self._place(at, what) for at in self._all if at.found])
            for name, what in (
                ("screen", "screen"),
                ("VD-DUT", "fresh_dut"),
                ("server's timer", "server"),
            )
        ]
        title = "A picture's way to a far screen, mean"
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "desktop.svg"
            charts.lines(path, title, "packets lost, %", "s", series)
            return path.read_text()

    def holds(self) -> bool:
        """Whether packets tell what the screen shows, and the server's timer does not."""
        figures = self.figures()
        growth, near = figures["dut_growth_percent"], figures["dut_within_refresh_share"]
        seen = self._share_of_growth()
        if not (isinstance(growth, float) and isinstance(near, float)) or seen is None:
            return False
        return near >= _SHARE and growth > _GROWN and abs(seen) <= 100 * _BLIND

    def _share_of_growth(self) -> float | None:
        """What the server's timer sees of the screen's growth, in percent."""
        (timer, screen), (more, later) = (
            (at.mean("server"), at.mean("screen")) for at in (self._all[0], self._all[-1])
        )
        if timer is None or screen is None or more is None or later is None or later <= screen:
            return None
        return round(100 * (more - timer) / (later - screen), 1)

    def _place(self, at: _At, what: str) -> tuple[float, float, float]:
        return 100 * at.loss, at.mean(what) or 0.0, 0.0

    def _growth(self, what: str) -> float | None:
        first, last = self._all[0].mean(what), self._all[-1].mean(what)
        return round(100 * (last / first - 1), 1) if first and last else None


def _errors(found: Sequence[Measured]) -> list[float]:
    return [one.error_s for one in found if one.error_s is not None]


def _most(errors: Sequence[float]) -> float | None:
    """What 95 % of all are not further off than, in s."""
    return float(np.quantile(np.abs(errors), 0.95)) if len(errors) else None


def _median(errors: Sequence[float]) -> float | None:
    return statistics.median(errors) if errors else None


def _ms(seconds: float | None) -> str:
    return "" if seconds is None else f"{1e3 * seconds:.1f} ms"


def _rounded(value: float | None, factor: float = 1.0) -> float | None:
    return None if value is None else round(factor * value, 3)
