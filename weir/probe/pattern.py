"""The pattern of active probing: which traffic of our own goes on while the path is sampled.

001-spec section 5.4: `pattern := segment ("-" segment)*`, `segment := code seconds`, in either
case: C is a burst of CUBIC, B one of BBR, S silence; seconds are positive whole numbers. Segments
are anchored to the pattern's beginning (section 8.5): what a burst leaves in the kernel's buffer
never shifts what follows.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass

from weir.errors import BadInput

CONGESTION = {"C": "cubic", "B": "bbr"}
SILENCE = "S"
SECONDS_MAX = 3600  # of one segment
_SEGMENT = re.compile(r"([A-Za-z])([0-9]{1,9})")
_NS = 1_000_000_000


class PatternError(BadInput):
    """A pattern with a segment that cannot be read.

    Attributes:
        number: of the segment in the pattern, from 1.
        segment: its text.
    """

    def __init__(self, pattern: str, number: int, segment: str, why: str) -> None:
        super().__init__(
            f"pattern {pattern!r}, segment {number} {segment!r}: {why}; a segment is C (CUBIC), "
            "B (BBR) or S (silence) and whole seconds, as in C5-B5-C5-S5"
        )
        self.number = number
        self.segment = segment


@dataclass(frozen=True, slots=True)
class Segment:
    """A part of a pattern.

    Attributes:
        code: C, B or S.
        seconds: its length.
    """

    code: str
    seconds: int

    @property
    def congestion(self) -> str | None:
        """The kernel's name of the burst's congestion control; None in silence."""
        return CONGESTION.get(self.code)

    def __str__(self) -> str:
        return f"{self.code}{self.seconds}"


@dataclass(frozen=True, slots=True)
class Turn:
    """One turn of a segment in a pattern that repeats.

    Attributes:
        number: of the turn, from 0 at the beginning of the probing.
        segment: whose turn it is.
        begin_ns: from the beginning of the probing.
        end_ns: likewise; the next turn begins there.
    """

    number: int
    segment: Segment
    begin_ns: int
    end_ns: int


@dataclass(frozen=True, slots=True)
class Pattern:
    """Segments that follow one another, over and over. Its text is `str(pattern)`."""

    segments: tuple[Segment, ...]

    @classmethod
    def parse(cls, text: str) -> "Pattern":
        """Reads a pattern.

        Raises:
            PatternError: one of its segments cannot be read; it says which, and why.
        """
        words = text.split("-")
        return cls(tuple(_segment(text, number, word) for number, word in enumerate(words, 1)))

    @property
    def seconds(self) -> int:
        """Length of the whole pattern."""
        return sum(segment.seconds for segment in self.segments)

    @property
    def congestions(self) -> list[str]:
        """The congestion controls that it needs, each once."""
        wanted = (segment.congestion for segment in self.segments)
        return list(dict.fromkeys(name for name in wanted if name))

    def at(self, since_ns: int) -> Segment:
        """Whose turn it is `since_ns` after the beginning, the pattern repeating."""
        left = since_ns % (self.seconds * _NS)
        for segment in self.segments:
            left -= segment.seconds * _NS
            if left < 0:
                return segment
        raise AssertionError("the segments are as long as the pattern")

    def turns(self, length_ns: int) -> Iterator[Turn]:
        """The turns of a probing of `length_ns`; the last may be cut short."""
        begin = number = 0
        while begin < length_ns:
            segment = self.segments[number % len(self.segments)]
            end = min(begin + segment.seconds * _NS, length_ns)
            yield Turn(number, segment, begin, end)
            begin, number = end, number + 1

    def __str__(self) -> str:
        return "-".join(map(str, self.segments))


def _segment(pattern: str, number: int, word: str) -> Segment:
    def error(why: str) -> PatternError:
        return PatternError(pattern, number, word, why)

    if not word:
        raise error("it is empty")
    if not (found := _SEGMENT.fullmatch(word)):
        raise error("it is not a letter and whole seconds")
    code, seconds = found[1].upper(), int(found[2])
    if code not in CONGESTION and code != SILENCE:
        raise error(f"{found[1]} is not a code")
    if not 1 <= seconds <= SECONDS_MAX:
        raise error(f"1 to {SECONDS_MAX} seconds are allowed")
    return Segment(code, seconds)
