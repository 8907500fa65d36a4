"""When a switch's rules of flows are read, which may be tens of thousands.

Once in `READ_EVERY_S` a switch is asked how many it has, and told of one part of them, at most some
`PART_RULES`. Where their number is not what it should be all parts are read, one after the other;
so they are when a switch has just come. A part has the flows whose numbers end in the same bits.
"""

import math
from collections.abc import Iterable, Mapping

from weir.control import messages as m
from weir.control.promises import READ_EVERY_S
from weir.control.rules import FLOW

# What is read at a time, and so the longest that nothing else is done meanwhile.
PART_RULES = 1_024
_PARTS_MAX = 1 << 16
# A question without an answer is asked again.
_SILENCE_S = 5.0
# A number that stays wrong, since a switch refuses a rule, has all read so often at most.
_HURRY_EVERY_S = 5.0
_UID = 0xFFFF


class Wanted:
    """What a switch should have of flows."""

    def __init__(self) -> None:
        self.rules: dict[m.Place, m.Entry] = {}
        # The places of flows by their numbers, which flows of several aggregates have in common.
        self._places: dict[int, dict[m.Place, None]] = {}

    def add(self, rules: Mapping[m.Place, m.Entry]) -> None:
        """These, too."""
        self.remove(rules)
        for place, entry in rules.items():
            self.rules[place] = entry
            self._places.setdefault(entry.cookie & _UID, {})[place] = None

    def remove(self, places: Iterable[m.Place]) -> None:
        """None of these any more."""
        for place in places:
            entry = self.rules.pop(place, None)
            if entry is not None:
                uid = entry.cookie & _UID
                del self._places[uid][place]
                if not self._places[uid]:
                    del self._places[uid]

    def part(self, number: int, parts: int) -> dict[m.Place, m.Entry]:
        """Those of one part."""
        uids = range(number, _UID + 1, parts) if len(self._places) > _UID // parts else self._places
        chosen = (uid for uid in uids if uid % parts == number)
        places = (place for uid in chosen for place in self._places.get(uid, ()))
        return {place: self.rules[place] for place in places}


class Reading:
    """What a switch is asked; answers are taken only to the last question."""

    def __init__(self) -> None:
        # All has been read once since the switch came.
        self.is_done = False
        self._parts, self._next = 1, 0
        # Parts that are to be read without a pause.
        self._left = 0
        self._round_s = self._asked_s = self._hurried_s = -math.inf
        self._number = 0
        self._is_asked = False
        self._expected = 0

    def due(self, wanted: int, now_s: float) -> m.CountRules | m.ReadRules | None:
        """What to ask now.

        Args:
            wanted: how many rules of flows the switch has once it has done all that it was told.
            now_s: the time.
        """
        if self._is_asked and now_s - self._asked_s < _SILENCE_S:
            return None
        if not self._left and now_s - self._round_s < READ_EVERY_S:
            return None
        self._number += 1
        self._is_asked, self._asked_s = True, now_s
        if self._left:
            ends = m.Cookies(FLOW.cookie | self._next, FLOW.mask | self._parts - 1)
            return m.ReadRules(ends, self._number)
        self._round_s, self._expected = now_s, wanted
        return m.CountRules(FLOW, self._number)

    def counted(self, number: int, count: int | None, now_s: float) -> None:
        """A switch has so many rules of flows; None: it cannot tell."""
        if self._left or not self._answers(number):
            return
        count = self._expected if count is None else count
        parts = max(1, max(count, self._expected) / PART_RULES)
        self._parts = min(_PARTS_MAX, 1 << math.ceil(math.log2(parts)))
        self._next %= self._parts
        is_off = count != self._expected and now_s - self._hurried_s >= _HURRY_EVERY_S
        if is_off or not self.is_done:
            self._left, self._hurried_s = self._parts, now_s
        else:
            self._left = 1

    def has_read(self, number: int) -> tuple[int, int] | None:
        """A switch has told a part; its number and how many there are, if that was asked for."""
        if not self._answers(number) or not self._left:
            return None
        part, self._next = self._next, (self._next + 1) % self._parts
        self._left -= 1
        self.is_done = self.is_done or not self._left
        return part, self._parts

    def hurry(self) -> None:
        """Has all read at once: it is known only now what there should be."""
        self._left = self._parts if self.is_done or self._left else 0

    def _answers(self, number: int) -> bool:
        if not self._is_asked or number != self._number:
            return False
        self._is_asked = False
        return True
