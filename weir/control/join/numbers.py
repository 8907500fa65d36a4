"""Numbers that are given out and taken back: UIDs, and ports of connections to servers."""

import itertools
from collections import deque


class Numbers:
    """Those from a first to a last one; each is given out again as late as can be."""

    def __init__(
        self, first: int, last: int, rest_s: float = 0.0, begin: int | None = None
    ) -> None:
        """What is given back is not given out again for `rest_s`; `begin` is given out first."""
        begin = first if begin is None else begin
        self._fresh = itertools.chain(range(begin, last + 1), range(first, begin))
        self._rest_s = rest_s
        self._taken: set[int] = set()
        self._given_back: deque[tuple[float, int]] = deque()

    def take(self, now_s: float) -> int | None:
        """One that nobody has; None if there is none."""
        for number in self._fresh:
            if self.claim(number):
                return number
        while self._given_back and self._given_back[0][0] <= now_s:
            _, number = self._given_back.popleft()
            if self.claim(number):
                return number
        return None

    def claim(self, number: int) -> bool:
        """Takes this one; False: somebody has it."""
        if number in self._taken:
            return False
        self._taken.add(number)
        return True

    def give_back(self, number: int, now_s: float, rests: bool = True) -> None:
        """Takes one back; one that does not rest, since nobody has used it, is the next."""
        self._taken.discard(number)
        if rests:
            self._given_back.append((now_s + self._rest_s, number))
        else:
            self._given_back.appendleft((now_s, number))
