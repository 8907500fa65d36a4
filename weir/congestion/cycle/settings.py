"""How a transfer selects its congestion control, and what it takes to be told who is there."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Protocol, TextIO

from weir._core import Rate
from weir.congestion.choice import FAIRNESS, Interaction, Wanted
from weir.congestion.choice.decide import Recognised
from weir.congestion.cycle.samples import Samples
from weir.congestion.options import RULES, Rule
from weir.deadline import wall
from weir.errors import BadInput
from weir.probe.sample import Sample


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
        fairness: see `weir.congestion.choice.Wanted`.
        steady_s: how long a choice stands before the path is probed again: None until the kernel's
            counters change, 0 for ever.
        rate: the transfer's pace outside probing, at first; None is unpaced.
        deadline: of the transfer, None without one.
        clock: by which that is kept.
        udp: port of a responder that the path is probed by; None for ICMP.
        interaction: what the controls do; None for the shipped table.
        pattern: of active probing, such as C5-B5-C5-S5; None for passive. It is read when the path
            is to be probed: a wrong one is told, and the transfer goes on.
        rule: how a control is chosen: by its worth beside what was recognised (`choose`), or by the
            work's tree (`one_level_tree`).
        fallback: what the transfer was made with, kept in doubt; None is the host's default, in
            whose place, where that is BBR, doubt puts CUBIC.
        reads_path: whether what the path does to packets counts. Only of one stream that is not
            paced, without `steady_s` and `pattern`.
        silence: samples of the path to the other end: what `reads_path` allows begins to send at
            once, and learns meanwhile. None probes before the first byte, and the transfer is made
            `PAUSED`.
        controls: those that may be chosen; None for all that the host offers. Of one that was
            given only the number of its streams is left to choose.
        log: gets what happens, a JSON object a line.
        label: on each line of the log, to tell runs apart; empty for none.
    """

    fairness: float = FAIRNESS
    steady_s: float | None = None
    rate: Rate | None = None
    deadline: datetime | None = None
    clock: Callable[[], datetime] = wall
    udp: int | None = None
    interaction: Interaction | None = None
    pattern: str | None = None
    rule: Rule = "worth"
    fallback: str | None = None
    reads_path: bool = False
    silence: Samples | None = None
    controls: tuple[str, ...] | None = None
    log: TextIO | None = None
    label: str = ""

    def __post_init__(self) -> None:
        """Checks what the choice would stumble over later."""
        Wanted(fairness=self.fairness)
        if self.rule not in RULES:
            raise BadInput(f"rule {self.rule}: there are {' and '.join(RULES)}")
