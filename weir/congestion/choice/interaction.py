"""What a congestion control gets, and leaves, beside each background: the interaction table.

The work's is four words, good or poor throughput and fairness of BBR and CUBIC beside each other
(001-spec 6.3, figure 6.7). Here each pair is a set of *meetings*, on paths of different delay and
queue, since both decide who wins: beside a deep queue BBR yields to CUBIC, beside a shallow one it
takes nearly all.
"""

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import cache
from pathlib import Path
from typing import Any, Self

from weir import files
from weir.errors import BadInput
from weir.numbers import jain

FORMAT = 1
SHIPPED = Path(__file__).with_name("interaction.json")


@dataclass(frozen=True, slots=True)
class Meeting:
    """One's own stream of one congestion control beside a background, on one path.

    Attributes:
        background: its label.
        control: of one's own stream.
        rtt_s: of the path, unloaded.
        queue_bdp: what its drop-tail queue holds, in products of its rate and `rtt_s`.
        own: goodput of one's own stream as a share of the path's rate.
        others: of each stream of the background.
    """

    background: str
    control: str
    rtt_s: float
    queue_bdp: float
    own: float
    others: tuple[float, ...]

    @property
    def jain(self) -> float:
        """Jain's index of all streams' goodput; 1 is alike."""
        return jain((self.own, *self.others))

    @property
    def of_fair(self) -> float:
        """One's own goodput as a multiple of an equal share of the path's rate."""
        return self.own * (1 + len(self.others))


class Interaction:
    """Meetings by background and control.

    Args:
        meetings: all of them.
        provenance: what made them, for people.
    """

    def __init__(self, meetings: Sequence[Meeting], provenance: Mapping[str, Any]) -> None:
        self.provenance = dict(provenance)
        self._meetings: dict[tuple[str, str], list[Meeting]] = {}
        for meeting in meetings:
            self._meetings.setdefault((meeting.background, meeting.control), []).append(meeting)

    @property
    def backgrounds(self) -> set[str]:
        """The backgrounds that were met."""
        return {background for background, _ in self._meetings}

    @property
    def controls(self) -> set[str]:
        """The controls that were tried beside them."""
        return {control for _, control in self._meetings}

    def of(self, background: str, control: str) -> Sequence[Meeting]:
        """The meetings of a pair; none if it was not tried."""
        return self._meetings.get((background, control), ())

    @classmethod
    @cache
    def shipped(cls) -> Self:
        """The table that comes with Weir."""
        return cls.load(SHIPPED)

    @classmethod
    def load(cls, path: str | Path) -> Self:
        """A table from a file.

        Raises:
            BadInput: the file cannot be read, or is not a table of this version.
        """
        return cls._read(files.text(Path(path)), str(path))

    @classmethod
    def _read(cls, text: str, where: str) -> Self:
        try:
            document = json.loads(text)
            if document["format"] != FORMAT:
                raise BadInput(
                    f"{where} has format {document['format']}, this Weir reads {FORMAT}: "
                    "make it again (weir ops measure)"
                )
            meetings = [_meeting(row) for row in document["meetings"]]
            return cls(meetings, document["provenance"])
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            raise BadInput(f"{where} is not an interaction table: {error}") from None

    def save(self, path: str | Path) -> None:
        """Writes it, a meeting a line."""
        rows = [json.dumps(asdict(m)) for found in self._meetings.values() for m in found]
        provenance = json.dumps(self.provenance)
        meetings = ",\n".join(rows)
        Path(path).write_text(
            f'{{"format": {FORMAT}, "provenance": {provenance}, "meetings": [\n{meetings}\n]}}\n'
        )


def _meeting(row: Mapping[str, Any]) -> Meeting:
    meeting = Meeting(**{**row, "others": tuple(row["others"])})
    numbers = (meeting.rtt_s, meeting.queue_bdp, meeting.own, *meeting.others)
    if not all(math.isfinite(number) and number >= 0 for number in numbers):
        raise ValueError(f"{row}: not a share, a time or a depth")
    return meeting
