"""What a congestion control gets, and leaves, beside each background: the interaction table.

The work's is four words, good or poor throughput and fairness of BBR and CUBIC beside each other
(001-spec 6.3, figure 6.7). Here each pair is a set of *meetings*, on paths of different rate, delay
and queue, since all of them decide who wins: beside a deep queue BBR yields to CUBIC, beside a
shallow one, or one of few packets, it takes nearly all. Which meetings count on a path is what is
known of it (`weir.congestion.choice.known`).
"""

import itertools
import json
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, fields
from functools import cache, cached_property
from pathlib import Path
from typing import Any, Self

from weir import files
from weir.congestion.choice.known import Known, Point
from weir.errors import BadInput
from weir.numbers import jain

FORMAT = 2
"""Until 1 a meeting had no rate, and no seed."""
SHIPPED = Path(__file__).with_name("interaction.json")


@dataclass(frozen=True, slots=True)
class Meeting:
    """One's own stream of one congestion control beside a background, on one path.

    Attributes:
        background: its label.
        control: of one's own stream.
        rate_bps: of the path.
        rtt_s: of the path, unloaded.
        queue_bdp: what its drop-tail queue holds, in products of its rate and `rtt_s`.
        own: goodput of one's own stream as a share of the path's rate.
        others: of each stream of the background.
        seed: of every random choice in it.
    """

    background: str
    control: str
    rate_bps: float
    rtt_s: float
    queue_bdp: float
    own: float
    others: tuple[float, ...]
    seed: int = 1

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

    @property
    def meetings(self) -> Iterator[Meeting]:
        """All of them."""
        return itertools.chain.from_iterable(self._meetings.values())

    def of(self, background: str, control: str) -> Sequence[Meeting]:
        """The meetings of a pair; none if it was not tried."""
        return self._meetings.get((background, control), ())

    def on(self, background: str, control: str, known: Known) -> list[tuple[Meeting, float]]:
        """The meetings of a pair that say something of a path, and how much each counts.

        Args:
            background: its label.
            control: of one's own stream.
            known: of the path.

        Returns:
            Weights above 0 whose sum is 1; nothing if the pair was not tried.
        """
        met = self.of(background, control)
        counts = known.weights([(one.rate_bps, one.rtt_s, one.queue_bdp) for one in met])
        return [(one, count) for one, count in zip(met, counts, strict=True) if count]

    def limits(self, known: Known) -> str:
        """What of a path is beyond the table, for a person; empty where nothing is."""
        return known.beyond(self._paths)

    @cached_property
    def _paths(self) -> Sequence[Point]:
        """Each path once."""
        return list({(one.rate_bps, one.rtt_s, one.queue_bdp) for one in self.meetings})

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
            meetings = [_meeting(*row) for row in document["meetings"]]
            return cls(meetings, document["provenance"])
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            raise BadInput(f"{where} is not an interaction table: {error}") from None

    def save(self, path: str | Path) -> None:
        """Writes it whole, a meeting a line, in place of what was there."""
        rows = ",\n".join(json.dumps(_row(meeting)) for meeting in self.meetings)
        provenance = json.dumps(self.provenance)
        with files.whole(Path(path)) as partial:
            partial.write_text(
                f'{{"format": {FORMAT}, "provenance": {provenance}, "meetings": [\n{rows}\n]}}\n'
            )


def _row(meeting: Meeting) -> tuple[Any, ...]:
    """As it is written: the fields in their order."""
    return tuple(getattr(meeting, one.name) for one in fields(meeting))


def _meeting(
    background: str,
    control: str,
    rate_bps: float,
    rtt_s: float,
    queue_bdp: float,
    own: float,
    others: Sequence[float],
    seed: int,
) -> Meeting:
    numbers = (rate_bps, rtt_s, queue_bdp, own, *others)
    if not all(math.isfinite(number) and number >= 0 for number in numbers):
        raise ValueError(
            f"{[background, control, *numbers]}: not a rate, a time, a depth or shares"
        )
    if not min(rate_bps, rtt_s, queue_bdp) > 0:
        raise ValueError(f"{[background, control, *numbers]}: a path of no rate, time or depth")
    return Meeting(background, control, rate_bps, rtt_s, queue_bdp, own, tuple(others), seed)
