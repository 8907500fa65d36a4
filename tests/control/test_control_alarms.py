"""When it is told that a booking is empty, or that its packets are astray; and when it is not."""

from dataclasses import dataclass, field

import pytest

from weir.calendar.agents.enforcer import RATE_MIN_BPS, Pair
from weir.control import messages as m
from weir.control.promises import BEGUN_BYTES, PERIOD_S, READ_EVERY_S, Ledger
from weir.control.rules import label

PAIR = Pair("10.0.0.1", "10.0.0.2", 7411)
PATH = ["s1", "s2", "s3"]
LABEL = label(PAIR, PATH)
TICK_S = 0.05
FIRST = m.Place(0, 40_000, m.Match(source=PAIR.source, target=PAIR.destination, port=PAIR.port))
BEHIND = m.Place(0, 50_000, m.Match(in_port=1, eth_source=LABEL))
# 100 Mbit/s, in bytes of a tick.
FULL = 625_000


@dataclass
class Watched:
    """A ledger, whose switches are read in rounds and answer one after the other."""

    rate_bps: int = 100_000_000
    phase_s: float = 0.0
    ledger: Ledger = field(default_factory=Ledger)
    now_s: float = 0.0
    told: list = field(default_factory=list)

    def __post_init__(self):
        self.next_s = self.phase_s
        self.bytes = dict.fromkeys(PATH, 0)
        self.due = []
        # They were there, and had no rules of the pair.
        for switch in PATH:
            self.ledger.read(switch, {}, 0.0)

    def go_on(self, seconds, **bytes_per_tick):
        """Lets time pass, in which switches let so many bytes pass."""
        for _ in range(round(seconds / TICK_S)):
            self.now_s += TICK_S
            for switch, count in bytes_per_tick.items():
                self.bytes[switch] += count
            if self.due:
                self._answer(self.due.pop(0))
            elif self.now_s >= self.next_s:
                self.next_s += READ_EVERY_S
                self.due = list(reversed(PATH))
            elif self.ledger.wants(self.now_s):
                self.due = sorted(self.ledger.wants(self.now_s))
            paths = {PAIR: (PATH, LABEL)}
            self.ledger.settle({PAIR: self.rate_bps}, paths, self.now_s)
            alarm = self.ledger.kept()[PAIR].alarm
            if alarm != (self.told[-1][1] if self.told else ""):
                assert self.ledger.take_news()
                self.told.append((round(self.now_s, 2), alarm))

    def _answer(self, switch):
        place = FIRST if switch == PATH[0] else BEHIND
        self.ledger.read(switch, {place: self.bytes[switch]}, self.now_s)


PHASES = [0.0, 0.2, 0.4, 0.6, 0.8]
ALL = dict.fromkeys(PATH, FULL)


@pytest.mark.parametrize("phase_s", PHASES)
@pytest.mark.parametrize("stops_s", [5.0, 5.1, 5.3, 5.55])
def test_a_booking_that_falls_silent_is_told_within_a_period(phase_s, stops_s):
    watched = Watched(phase_s=phase_s)
    watched.go_on(stops_s, **ALL)
    assert watched.told == []
    watched.go_on(10)
    # Two rounds and the switches' answers, in ticks of this test.
    assert [alarm for _, alarm in watched.told] == ["empty"]
    assert READ_EVERY_S < watched.told[0][0] - stops_s <= PERIOD_S
    again_s = watched.now_s
    watched.go_on(5, **ALL)
    assert [alarm for _, alarm in watched.told] == ["empty", ""]
    assert watched.told[1][0] - again_s <= PERIOD_S
    assert watched.ledger.kept()[PAIR].detail == ""


@pytest.mark.parametrize("phase_s", PHASES)
@pytest.mark.parametrize("rate", [FULL // 20, FULL])
def test_packets_that_leave_the_path_are_told_within_a_period(phase_s, rate):
    watched = Watched(phase_s=phase_s)
    full = dict.fromkeys(PATH, rate)
    watched.go_on(5, **full)
    watched.go_on(5, s1=rate, s2=rate)
    assert [alarm for _, alarm in watched.told] == ["astray"]
    assert watched.told[0][0] - 5.0 <= PERIOD_S
    assert watched.ledger.kept()[PAIR].detail.endswith("entered at s1, and none passed s3")
    watched.go_on(5, **full)
    assert [alarm for _, alarm in watched.told] == ["astray", ""]


@pytest.mark.parametrize("phase_s", PHASES)
@pytest.mark.parametrize("speed", [1, 40])
def test_a_source_that_stops_while_switches_answer_has_led_nothing_astray(phase_s, speed):
    for ticks in range(24):
        watched = Watched(phase_s=phase_s)
        watched.go_on(4 + ticks * TICK_S, **{name: x * speed for name, x in ALL.items()})
        watched.go_on(5)
        assert [alarm for _, alarm in watched.told] == ["empty"]


@pytest.mark.parametrize("phase_s", PHASES)
def test_a_beginning_has_a_whole_period(phase_s):
    watched = Watched(phase_s=phase_s)
    watched.go_on(PERIOD_S - 0.3)
    watched.go_on(5, **ALL)
    assert watched.told == []
    # A handshake is no beginning, and nothing at all is an alarm when the period is over.
    watched = Watched(phase_s=phase_s)
    watched.go_on(0.1, **dict.fromkeys(PATH, BEGUN_BYTES // 4))
    watched.go_on(1.4)
    assert watched.told == []
    watched = Watched(phase_s=phase_s)
    watched.go_on(PERIOD_S + 0.05)
    assert [alarm for _, alarm in watched.told] == ["empty"]


@pytest.mark.parametrize("phase_s", PHASES)
def test_a_rate_at_which_packets_come_seldom_is_waited_for(phase_s):
    watched = Watched(rate_bps=16_000, phase_s=phase_s)
    watched.go_on(1, **ALL)
    for _ in range(20):
        watched.go_on(1.45)
        watched.go_on(TICK_S, **dict.fromkeys(PATH, 3_028))
    assert watched.told == []
    watched.go_on(10)
    assert [alarm for _, alarm in watched.told] == ["empty"]


def test_a_booking_that_waits_for_a_rate_is_not_empty_until_it_has_one():
    watched = Watched(rate_bps=RATE_MIN_BPS)
    watched.go_on(60)
    assert watched.told == []
    watched.rate_bps = 10**8
    watched.go_on(PERIOD_S + 0.1)
    assert watched.told == [(pytest.approx(62, abs=0.11), "empty")]


def test_a_switch_that_comes_back_has_not_been_empty_meanwhile():
    watched = Watched()
    watched.go_on(5, **ALL)
    watched.ledger.gone("s2")
    watched.next_s, watched.due = 20.0, []
    watched.go_on(15, s1=FULL)
    watched.go_on(10, **ALL)
    assert watched.told == []
