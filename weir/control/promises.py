"""Whether promises are kept: what switches carried of every pair, and what it was promised.

Bytes are counted where a pair's packets enter the network and at every switch of their path. All
switches are read in rounds; a round of a pair is over when all switches of its path have answered.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from weir.calendar.agents.enforcer import RATE_MIN_BPS, Pair
from weir.control.messages import Place
from weir.control.rules import label_of, pair_of

# Switches are asked for their counters once in so long: two rounds fit into a period.
READ_EVERY_S = 0.9
# So soon a booking is known to be empty, or its packets to be astray: after its last byte, or after
# it began.
PERIOD_S = 2.0
# What was under way when a pair ended is counted for so long: until its last rules are gone.
LINGER_S = 4.0
# So much may be under way between two switches of a path, and what enters in a quarter of a round:
# switches do not answer at the same instant. So what has only begun is not judged either.
UNDER_WAY_BYTES = 131_072
# Handshakes are no beginning.
BEGUN_BYTES = 65_536
# Between two rounds in which nothing entered, unless a source may send so seldom at its rate:
# paced kernels send two packets at a time.
_SILENT_S = 0.7
_SELDOM_BITS = 2 * 3_028 * 8
# A beginning is judged by an answer that comes so long before its period is over, or later.
_EARLY_S = 0.2

EMPTY, ASTRAY = "empty", "astray"


@dataclass(frozen=True, slots=True)
class Kept:
    """A pair's promise so far.

    Attributes:
        promised_bytes: its rate, over the time that it was allotted.
        carried_bytes: what the last switch of its path has carried, as packets.
        alarm: "empty" when nothing has entered the network any more, or within a period of the
            beginning; "astray" when what entered did not pass a switch of its path; or nothing.
        detail: the same in words.
    """

    promised_bytes: int = 0
    carried_bytes: int = 0
    alarm: str = ""
    detail: str = ""


@dataclass(slots=True)
class _Account:
    """What is known of one pair.

    Attributes:
        seen_s: until when its promise is counted.
        path: the switches that its packets pass.
        moved_s: when something has entered last, or since when something could.
        round_s: when its last round was over.
        got: in this round, what has passed each switch.
        since: what has entered since each switch behind the first let something pass.
        before: what entered in the last round.
        entered: all that has entered on this path.
        told_bits: what was promised when it was last counted what was carried.
    """

    seen_s: float
    path: tuple[str, ...]
    moved_s: float
    round_s: float
    got: dict[str, int] = field(default_factory=dict)
    since: dict[str, int] = field(default_factory=dict)
    before: int = 0
    entered: int = 0
    promised_bits: float = 0.0
    told_bits: float = 0.0
    carried_bytes: int = 0
    alarm: tuple[str, str] = ("", "")
    ended_s: float | None = None

    @property
    def has_begun(self) -> bool:
        """Whether more than a handshake has entered."""
        return self.entered >= BEGUN_BYTES

    def begin(self, path: tuple[str, ...], now_s: float) -> None:
        """What was counted so far says nothing about this path."""
        self.path, self.moved_s, self.round_s = path, now_s, now_s
        self.got, self.since, self.before, self.entered = {}, {}, 0, 0

    def end_round(self) -> str | None:
        """Begins another round; the first switch that let nothing pass of what has entered."""
        entered = self.got.get(self.path[0], 0)
        may_bytes = UNDER_WAY_BYTES + self.before // 4
        has_only_begun = entered > 8 * self.before
        found = None
        for switch in reversed(self.path[1:]):
            self.since[switch] = self.since.get(switch, 0) + entered
            if self.got.get(switch, 0):
                self.since[switch] = 0
            elif self.since[switch] > may_bytes and not has_only_begun:
                found = switch
        self.got, self.before = {}, entered
        self.entered += entered
        return found


class Ledger:
    """The counters of every switch, turned into what each pair's promise has come to."""

    def __init__(self) -> None:
        self._accounts: dict[Pair, _Account] = {}
        self._labels: dict[str, Pair] = {}
        self._last: dict[str, dict[Place, int]] = {}
        # When switches that are connected have last answered.
        self._read_s: dict[str, float] = {}
        self._is_news = False

    def gone(self, switch: str) -> None:
        """A switch says nothing any more."""
        self._read_s.pop(switch, None)

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
            account.got[switch] = account.got.get(switch, 0) + moved
            if account.path and switch == account.path[-1]:
                account.carried_bytes += moved
        self._last[switch] = dict(passed)
        self._read_s[switch] = now_s

    def settle(
        self,
        rates: Mapping[Pair, int],
        paths: Mapping[Pair, tuple[Sequence[str], str]],
        now_s: float,
    ) -> None:
        """Counts what is promised, and judges every pair whose round is over.

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
                account = self._accounts[pair] = _Account(now_s, path, now_s, now_s)
            account.promised_bits += rate_bps * (now_s - account.seen_s)
            account.seen_s = now_s
            if path != account.path:
                account.begin(path, now_s)
            if rate_bps <= RATE_MIN_BPS:
                account.moved_s = now_s  # It waits for a rate.
            if self._is_over(account, now_s):
                account.told_bits = account.promised_bits
                alarm = self._judged(account, rate_bps)
                self._is_news = self._is_news or alarm[0] != account.alarm[0]
                account.alarm = alarm

    def wants(self, now_s: float) -> set[str]:
        """The switches to read before their next round: a beginning is to be judged by them."""
        found: set[str] = set()
        for account in self._accounts.values():
            if account.has_begun or account.ended_s is not None:
                continue
            due_s = account.moved_s + PERIOD_S - _EARLY_S
            if account.round_s < due_s <= now_s:
                found.update(account.path)
        return found

    def kept(self) -> dict[Pair, Kept]:
        """Every pair's promise so far."""
        return {
            pair: Kept(int(x.told_bits / 8), x.carried_bytes, *x.alarm)
            for pair, x in self._accounts.items()
        }

    def take_news(self) -> bool:
        """Whether an alarm has begun or ended since the last call."""
        is_news, self._is_news = self._is_news, False
        return is_news

    def _linger(self, pair: Pair, now_s: float) -> None:
        """A pair that is promised nothing any more; what it was is known for a while."""
        account = self._accounts[pair]
        if account.ended_s is None:
            account.ended_s, account.alarm = now_s, ("", "")
            account.told_bits = account.promised_bits
        if now_s - account.ended_s >= LINGER_S:
            del self._accounts[pair]

    def _is_over(self, account: _Account, now_s: float) -> bool:
        """Whether all switches of a pair's path have answered in its round, or cannot."""
        last_s = [self._read_s.get(x) for x in account.path]
        if None in last_s:
            account.begin(account.path, now_s)
            return True
        if any(x is not None and x <= account.round_s for x in last_s):
            return False
        account.round_s = now_s
        return True

    def _judged(self, account: _Account, rate_bps: int) -> tuple[str, str]:
        """The alarm of a pair whose round is over, with the reason."""
        path = account.path
        if not path:
            return ASTRAY, "no path is up that it could take"
        first_s = self._read_s.get(path[0], account.moved_s)
        if account.got.get(path[0]):
            account.moved_s = first_s
        if switch := account.end_round():
            count = account.since[switch]
            return ASTRAY, f"{count} bytes entered at {path[0]}, and none passed {switch}"
        patience_s = _SILENT_S if account.has_begun else PERIOD_S - _EARLY_S
        patience_s = max(patience_s, _SELDOM_BITS / rate_bps)
        if first_s - account.moved_s >= patience_s:
            return EMPTY, f"nothing has entered at {path[0]}"
        return "", ""
