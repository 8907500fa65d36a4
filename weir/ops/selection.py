"""The cycle of OPS beside a transfer: probe, recognise, choose, send on (001-spec 6.4).

    probing --samples--> recognising --who--> choosing --control--> steady
       ^                                                              |
       +------- Y is over, or the kernel's counters changed ----------+

The transfer is silent while the path is probed, so that the background shows its own signature; its
connections stay, and change their congestion control in place. Whatever goes wrong with probing or
recognising, the transfer goes on with the control that it has, and that is told.
"""

import json
import socket
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from fractions import Fraction
from pathlib import Path
from typing import Any, Protocol, TextIO

from weir._core import Rate
from weir.errors import WeirError
from weir.ops.change import ChangeDetector
from weir.ops.choice import Choice, Interaction, Wanted, choose
from weir.ops.choice.decide import Recognised
from weir.ops.probing.carrier import set_congestion
from weir.ops.probing.echo import IcmpEcho, Target
from weir.ops.probing.plan import Plan
from weir.ops.probing.probe import Probe
from weir.ops.sample import Sample
from weir.ops.tcp_info import TcpInfo, parse_tcp_info
from weir.transfer import Transfer
from weir.transfer.watch import News

SURE = 0.97
"""When BBR is there, or not there, with this probability, the path is probed no longer."""
PROBE_MAX_S = 10.0
"""Then it is decided with the doubt that is left."""
_LOOK_S = 0.25
_DRAIN_S = 5.0  # for what was on its way when the transfer fell silent
_LEAST_STEADY_S = 30.0  # doubled each time that probing again changed nothing
_SYSCTL = Path("/proc/sys/net/ipv4")
_PAUSED = Rate.from_bit_per_s(0)


class Recogniser(Protocol):
    """What tells a background from samples.

    Attributes:
        rate_hz: of the samples that it wants.
        requests: of each.
        seconds: lengths of time from which it can tell, ascending.
    """

    @property
    def rate_hz(self) -> float: ...  # noqa: D102 - see above
    @property
    def requests(self) -> int: ...  # noqa: D102 - see above
    @property
    def seconds(self) -> Sequence[float]: ...  # noqa: D102 - see above

    def recognise(self, samples: Sequence[Sample]) -> Recognised:
        """Who is on the path."""


@dataclass(frozen=True)
class Settings:
    """How a transfer selects.

    Attributes:
        fairness: see `weir.ops.choice.Wanted`.
        steady_s: how long a choice stands before the path is probed again: None until the kernel's
            counters change, 0 for ever.
        rate: the transfer's pace outside probing; None is unpaced.
        deadline: of the transfer, None without one.
        interaction: what the controls do; None for the shipped table.
        fallback: what the transfer was made with, kept in doubt; None is the host's default.
        log: gets what happens, a JSON object a line.
    """

    fairness: float = 1.0
    steady_s: float | None = None
    rate: Rate | None = None
    deadline: datetime | None = None
    interaction: Interaction | None = None
    fallback: str | None = None
    log: TextIO | None = None

    def __post_init__(self) -> None:
        """Checks what the choice would stumble over later."""
        Wanted(fairness=self.fairness)


def offered_controls() -> list[str]:
    """Congestion controls that this host lets this user's connections have."""
    offered = []
    with socket.socket() as connection:
        for name in (_SYSCTL / "tcp_available_congestion_control").read_text().split():
            try:
                set_congestion(connection, name)
            except WeirError:
                continue
            offered.append(name)
    return offered


def default_control() -> str:
    """The control that this host's connections have when nothing is said."""
    return (_SYSCTL / "tcp_congestion_control").read_text().strip()


class Selection:
    """Selects a transfer's congestion control while it runs; a companion of `weir.transfer.watch`.

    Args:
        transfer: made with a rate of zero, so that it is silent until the path was probed.
        host: that it goes to.
        recogniser: makes the recogniser, which may take a moment.
        settings: how to select.
    """

    def __init__(
        self,
        transfer: Transfer,
        host: str,
        recogniser: Callable[[], Recogniser],
        settings: Settings,
    ) -> None:
        self._transfer = transfer
        self._host = host
        self._make_recogniser = recogniser
        self._settings = settings
        self._control = settings.fallback or default_control()
        self._expected_own = 0.0  # share of the path's rate under the control in use
        self._path_bps = 0.0  # what goodput under it then told of the path's rate
        self._news: list[News] = []
        self._lock = threading.Lock()
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="weir-selection", daemon=True)

    def start(self) -> None:
        """Begins: the transfer stays silent until the first choice."""
        self._thread.start()

    def stop(self) -> None:
        """Ends it; the choice that stands remains."""
        self._stop.set()
        self._thread.join()

    def take_news(self) -> list[News]:
        """What was chosen and why, since the last call."""
        with self._lock:
            news, self._news = self._news, []
        return news

    def _run(self) -> None:
        try:
            recogniser = self._make_recogniser()
            target = Target.resolve(self._host)
            self._cycle(recogniser, target)
        except WeirError as error:
            words = f"{error}; the transfer goes on with {self._control}"
            self._tell("fallback", words, reason=str(error), control=self._control)
        finally:
            self._transfer.set_rate(self._settings.rate)

    def _cycle(self, recogniser: Recogniser, target: Target) -> None:
        least_s = _LEAST_STEADY_S
        while not self._is_over():
            recognised, samples, seconds = self._probe(recogniser, target)
            if recognised is None:
                return
            before = self._control
            choice = self._choose(recognised)
            self._use(choice, recognised, samples, seconds)
            least_s = _LEAST_STEADY_S if self._control != before else 2 * least_s
            if not self._steady(least_s):
                return

    def _probe(
        self, recogniser: Recogniser, target: Target
    ) -> tuple[Recognised | None, list[Sample], float]:
        """Samples for as long as it takes to be sure, and whose they are."""
        self._fall_silent()
        lengths = [
            round(length * recogniser.rate_hz)
            for length in recogniser.seconds
            if length <= max(PROBE_MAX_S, recogniser.seconds[0])
        ]
        rate_hz = Fraction(recogniser.rate_hz)
        plan = Plan(
            rate_hz=rate_hz, requests=recogniser.requests, seconds=Fraction(lengths[-1]) / rate_hz
        )
        samples: list[Sample] = []
        recognised: Recognised | None = None
        with Probe(target, IcmpEcho(target), plan) as probe:
            for sample in probe:
                samples.append(sample)
                if self._is_over():
                    return None, samples, 0.0
                if len(samples) in lengths and any(sample.replies_ns for sample in samples):
                    recognised = recogniser.recognise(samples)
                    if recognised.known and max(recognised.bbr, 1 - recognised.bbr) >= SURE:
                        break
        return recognised, samples, float(len(samples) / rate_hz)

    def _fall_silent(self) -> None:
        """Nothing of the transfer is on its way any more, or it takes too long to wait for."""
        self._transfer.set_rate(_PAUSED)
        end_s = time.monotonic() + _DRAIN_S
        while time.monotonic() < end_s and not self._stop.wait(_LOOK_S / 5):
            if not any(info.in_flight_packets or info.unsent_bytes for info in self._tcp_info()):
                return

    def _choose(self, recognised: Recognised) -> Choice:
        settings = self._settings
        wanted = Wanted(fairness=settings.fairness, share=self._needed_share())
        table = settings.interaction
        return choose(recognised, offered_controls(), self._control, wanted, table)

    def _needed_share(self) -> float:
        """Of the path's rate, to meet the deadline; 0 without one, or while the rate is unknown."""
        deadline = self._settings.deadline
        if deadline is None or not self._path_bps:
            return 0.0
        left_s = (deadline - datetime.now().astimezone()).total_seconds()
        left_bits = 8 * self._transfer.remaining.count
        return max(0.0, left_bits / max(left_s, 1e-3) / self._path_bps)

    def _use(
        self, choice: Choice, recognised: Recognised, samples: Sequence[Sample], seconds: float
    ) -> None:
        self._transfer.set_congestion(choice.control)
        self._control = choice.control
        own = choice.expected.get(choice.control)
        self._expected_own = own.own if own else 0.0
        self._transfer.set_rate(self._settings.rate)
        self._tell(
            "choice",
            f"{choice.control} after {seconds:g} s of probing: {choice.why}",
            control=choice.control,
            why=choice.why,
            probed_s=seconds,
            probabilities=_rounded(recognised.probabilities),
            bbr=round(recognised.bbr, 4),
            known=recognised.known,
            expected={
                control: _rounded({"of_fair": e.of_fair, "jain": e.jain, "worth": e.worth})
                for control, e in choice.expected.items()
            },
            rtt_ms=_rtt_range(samples),
        )

    def _steady(self, least_s: float) -> bool:
        """Sends on; whether to probe again after it."""
        steady_s = self._settings.steady_s
        begin_s = time.monotonic()
        acked = self._acked()
        changes = ChangeDetector()
        again = False
        while not again and not self._stop.wait(_LOOK_S) and not self._is_over():
            seconds = time.monotonic() - begin_s
            if steady_s is not None:
                again = 0 < steady_s <= seconds
            elif changed := changes.sees(seconds, self._tcp_info()):
                again = seconds >= least_s
                if again:
                    self._tell("change", f"{changed}: the path is probed again", what=changed)
                else:
                    changes = ChangeDetector()
        seconds = time.monotonic() - begin_s
        if self._expected_own and seconds > 1:
            goodput_bps = 8 * max(0, self._acked() - acked) / seconds
            self._path_bps = goodput_bps / self._expected_own
        return again

    def _acked(self) -> int:
        return sum(info.acked_bytes or 0 for info in self._tcp_info())

    def _tcp_info(self) -> list[TcpInfo]:
        return [parse_tcp_info(told) for told in self._transfer.tcp_info()]

    def _is_over(self) -> bool:
        return self._stop.is_set() or self._transfer.is_over

    def _tell(self, event: str, words: str, **facts: Any) -> None:
        with self._lock:
            self._news.append(News(words, event, facts))
        if log := self._settings.log:
            now = datetime.now().astimezone().isoformat()
            log.write(json.dumps({"event": event, "time": now, **facts}) + "\n")
            log.flush()


def _rounded(numbers: Mapping[str, float]) -> dict[str, float]:
    return {name: round(number, 4) for name, number in numbers.items()}


def _rtt_range(samples: Sequence[Sample]) -> dict[str, float] | None:
    rtts = [sample.min_ns for sample in samples if sample.min_ns is not None]
    return {"min": min(rtts) / 1e6, "max": max(rtts) / 1e6} if rtts else None
