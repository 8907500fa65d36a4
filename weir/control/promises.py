"""Whether promises are kept: what switches carried of every pair, and what it was promised.

Bytes are counted where a pair's packets enter the network and at every switch of their path.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from weir.calendar.enforcer import Pair
from weir.control.messages import Place
from weir.control.rules import label_of, pair_of

# A booking is judged over periods of this length.
PERIOD_S = 2.0
# What was under way when a pair ended is counted for so long: until its last rules are gone.
LINGER_S = 4.0
# So much may be under way between two switches of a path.
UNDER_WAY_BYTES = 1_000_000

EMPTY, ASTRAY = "empty", "astray"


@dataclass(frozen=True, slots=True)
class Kept:
    """A pair's promise so far.

    Attributes:
        promised_bytes: its rate, over the time that it was allotted.
        carried_bytes: what the last switch of its path has carried, as packets.
        alarm: "empty" when nothing entered the network in the last period, "astray" when what
            entered did not pass a switch of its path; or nothing.
        detail: the same in words.
    """

    promised_bytes: int = 0
    carried_bytes: int = 0
    alarm: str = ""
    detail: str = ""


def judge(carried: Mapping[str, int], path: Sequence[str]) -> tuple[str, str]:
    """The alarm of one period, and why, from the bytes at every switch of a path in that time."""
    entered = carried.get(path[0], 0)
    if entered == 0:
        return EMPTY, f"nothing has entered at {path[0]}"
    for switch in path[1:]:
        if carried.get(switch, 0) == 0 and entered > UNDER_WAY_BYTES:
            return ASTRAY, f"{entered} bytes entered at {path[0]}, and none passed {switch}"
    return "", ""


@dataclass(slots=True)
class _Account:
    """What is known of one pair; `carried` since the period began."""

    since_s: float
    seen_s: float
    path: tuple[str, ...]
    is_whole: bool = False
    carried: dict[str, int] = field(default_factory=dict)
    kept: Kept = field(default_factory=Kept)
    promised_bits: float = 0.0
    ended_s: float | None = None


class Ledger:
    """The counters of every switch, turned into what each pair's promise has come to."""

    def __init__(self) -> None:
        self._accounts: dict[Pair, _Account] = {}
        self._labels: dict[str, Pair] = {}
        self._last: dict[str, dict[Place, int]] = {}
        self._read_s: dict[str, float] = {}

    def read(self, switch: str, passed: Mapping[Place, int], now_s: float) -> None:
        """A switch has told the bytes that each of its rules has let pass since it is there."""
        last = self._last.get(switch)
        for place, count in passed.items():
            label = label_of(place)
            pair = self._labels.get(label) if label else pair_of(place)
            account = self._accounts.get(pair) if pair else None
            if account is None or last is None:
                continue
            before = last.get(place, 0)
            # A rule that was taken away and put back counts from nothing.
            moved = count - before if count >= before else count
            account.carried[switch] = account.carried.get(switch, 0) + moved
        self._last[switch] = dict(passed)
        self._read_s[switch] = now_s

    def settle(
        self,
        rates: Mapping[Pair, int],
        paths: Mapping[Pair, tuple[Sequence[str], str]],
        now_s: float,
    ) -> None:
        """Judges every pair whose period is over.

        Args:
            rates: of those who are promised one, in bit/s.
            paths: of every pair, the switches and the label.
            now_s: the time.
        """
        for pair in self._accounts.keys() - rates.keys():
            self._linger(pair, now_s)
        known = {x: pair for x, pair in self._labels.items() if pair in self._accounts}
        self._labels = known | {label: pair for pair, (_, label) in paths.items()}
        for pair, rate_bps in rates.items():
            path = tuple(paths[pair][0]) if pair in paths else ()
            account = self._accounts.get(pair)
            if account is None or account.ended_s is not None:
                account = self._accounts[pair] = _Account(now_s, now_s, path)
            account.promised_bits += rate_bps * (now_s - account.seen_s)
            account.seen_s = now_s
            if path != account.path:
                # What is counted so far says nothing about the new path.
                account.path, account.is_whole = path, False
            if now_s - account.since_s >= PERIOD_S:
                self._close(account, now_s)

    def kept(self) -> dict[Pair, Kept]:
        """Every pair's promise, as judged last."""
        return {pair: account.kept for pair, account in self._accounts.items()}

    def _linger(self, pair: Pair, now_s: float) -> None:
        """A pair that is promised nothing any more; what it was is known for a while."""
        account = self._accounts[pair]
        if account.ended_s is None:
            account.ended_s, account.is_whole = now_s, False
        if now_s - account.ended_s >= LINGER_S:
            del self._accounts[pair]
        elif account.path:
            carried = account.kept.carried_bytes + account.carried.pop(account.path[-1], 0)
            account.kept = Kept(int(account.promised_bits / 8), carried)

    def _close(self, account: _Account, now_s: float) -> None:
        carried = account.kept.carried_bytes
        alarm, detail = ("", "")
        if account.path:
            carried += account.carried.get(account.path[-1], 0)
            if account.is_whole and all(self._is_read(x, account.since_s) for x in account.path):
                alarm, detail = judge(account.carried, account.path)
        else:
            alarm, detail = ASTRAY, "no path is up that it could take"
        account.kept = Kept(int(account.promised_bits / 8), carried, alarm, detail)
        account.since_s, account.carried, account.is_whole = now_s, {}, True

    def _is_read(self, switch: str, since_s: float) -> bool:
        return self._read_s.get(switch, since_s) > since_s
