"""A transfer whose congestion control follows a timetable: nothing is probed, nothing recognised.

What a chosen control is measured against goes by one: the oracle's, which is told of every change
of the background, and chance's. It runs in a lab's host, as `weir send` does otherwise:

    python -m studies.rig.trial --at 1200.5=cubic --at 1230.5=bbr files/ dtn7:7411/data/
"""

import argparse
import time
from collections.abc import Sequence
from dataclasses import dataclass

from weir.cli.transfers import add_options, carry_out, choices
from weir.errors import BadInput
from weir.transfer import Transfer
from weir.transfer.watch import News, ThreadedCompanion


@dataclass(frozen=True, slots=True)
class Turn:
    """A control, and when it begins.

    Attributes:
        at_s: the instant. On a command line by `time.monotonic`, which all namespaces share.
        control: its name in the kernel.
    """

    at_s: float
    control: str

    @classmethod
    def parse(cls, text: str) -> "Turn":
        """Reads what `str` writes; BadInput if the text is not a turn."""
        at, _, control = text.partition("=")
        try:
            return cls(float(at), control)
        except ValueError:
            raise BadInput(f"{text!r} is not a turn, such as 1200.5=bbr") from None

    def __str__(self) -> str:
        """The turn as text, such as `1200.5=bbr`."""
        return f"{self.at_s}={self.control}"


class Timetable(ThreadedCompanion):
    """Changes a transfer's control at each turn; each that came is told as a choice.

    Args:
        transfer: under the first turn's control.
        turns: in the order of their instants.
    """

    def __init__(self, transfer: Transfer, turns: Sequence[Turn]) -> None:
        super().__init__("weir-timetable")
        self._transfer = transfer
        self._turns = turns

    def _run(self) -> None:
        for turn in _from_now(self._turns):
            if self._stop.wait(max(0.0, turn.at_s - time.monotonic())):
                return
            self._transfer.set_congestion(turn.control)
            facts = {"control": turn.control, "why": "it is its turn"}
            self._add_news(News(f"{turn.control} by the timetable", "choice", facts))


def _from_now(turns: Sequence[Turn]) -> Sequence[Turn]:
    """Without those that are over."""
    over = sum(turn.at_s <= time.monotonic() for turn in turns)
    return turns[max(0, over - 1) :]


def main(argv: Sequence[str] | None = None) -> int:
    """Sends as `weir send` does; its exit code."""
    parser = argparse.ArgumentParser(prog="studies.rig.trial")
    parser.add_argument("source", nargs="+")
    parser.add_argument("destination")
    parser.add_argument("--at", action="append", required=True, metavar="SECONDS=CONTROL")
    add_options(parser)
    args = parser.parse_args(argv)
    turns = [Turn.parse(text) for text in args.at]
    chosen = {**choices(args), "congestion": _from_now(turns)[0].control}
    transfer = Transfer.send(args.source, args.destination, **chosen)
    return carry_out(transfer, args, "sent", Timetable(transfer, turns))
