"""How a transfer's end is foretold, in virtual time; and the line that tells it."""

import itertools
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from weir import Bytes, Rate
from weir.transfer import Progress
from weir.transfer.forecast import STANDS_S, TIME_CONSTANT_S, Forecast, SmoothedRate
from weir.transfer.line import fitted

BEGAN = datetime(2026, 11, 20, 6, 0, tzinfo=UTC)
LOOK_S = 0.2


class World:
    """A transfer of so many bytes that moves as it is told, and clocks that go with it."""

    def __init__(self, total: int, due_s: float | None = None) -> None:
        self.total, self.done, self.resumed, self.now_s = total, 0.0, 0, 0.0
        deadline = None if due_s is None else BEGAN + timedelta(seconds=due_s)
        self.forecast = Forecast(deadline, self.clock, self.wall)
        self.forecast.saw(self.progress())

    def clock(self) -> float:
        return 7000.0 + self.now_s

    def wall(self) -> datetime:
        return BEGAN + timedelta(seconds=self.now_s)

    def progress(self) -> Progress:
        return Progress(
            bytes_done=Bytes.from_count(int(self.done)),
            bytes_total=Bytes.from_count(self.total),
            bytes_durable=Bytes.from_count(int(self.done)),
            bytes_resumed=Bytes.from_count(self.resumed),
            files_done=0,
            files_failed=0,
            files_skipped=0,
            files_total=1,
            total_is_known=True,
            rate=Rate.from_bit_per_s(0),
            state="running",
            error=None,
        )

    def goes_on(self, seconds: float, bps: float, pieces_s: float = LOOK_S):
        """Looks on for some seconds, in which bytes come in pieces so far apart."""
        until_s, next_s = self.now_s + seconds, self.now_s + pieces_s
        while self.now_s < until_s - 1e-9:
            self.now_s += LOOK_S
            while next_s <= self.now_s + 1e-9:
                self.done += bps / 8 * pieces_s
                next_s += pieces_s
            self.forecast.saw(self.progress())
            yield self.forecast


def test_what_was_there_before_an_attempt_adds_nothing_to_the_rate():
    world = World(10**12)
    *_, before = world.goes_on(30, 100e6)
    assert before.rate.bit_per_s == pytest.approx(100e6, rel=0.05)
    world.done += 10**9
    world.resumed += 10**9
    assert all(
        one.rate.bit_per_s == pytest.approx(100e6, rel=0.05) for one in world.goes_on(9, 100e6)
    )


@pytest.mark.parametrize("pieces_s", [0.2, 0.4, 1.0])
def test_what_comes_in_pieces_has_a_steady_rate(pieces_s):
    """Looked at five times a second it is nothing or up to five times the rate."""
    world = World(10**12)
    seen = [one.rate.bit_per_s for one in world.goes_on(30, 100e6, pieces_s)]
    settled = seen[round(5 / LOOK_S) :]
    assert all(rate == pytest.approx(100e6, rel=0.2) for rate in settled)


def test_a_change_shows_with_the_time_constant():
    world = World(10**12)
    list(world.goes_on(60, 100e6))
    rates = [one.rate.bit_per_s for one in world.goes_on(TIME_CONSTANT_S, 0)]
    assert rates[-1] == pytest.approx(100e6 / 2.71828, rel=0.01)
    assert all(later < earlier for earlier, later in itertools.pairwise(rates))


@given(st.lists(st.tuples(st.floats(0.01, 5), st.integers(0, 10**9)), min_size=1))
def test_a_smoothed_rate_lies_between_those_it_is_made_of(steps):
    smoothed, at_s, count = SmoothedRate(), 0.0, 0
    smoothed.saw(at_s, count)
    for span_s, more in steps:
        at_s, count = at_s + span_s, count + more
        smoothed.saw(at_s, count)
    rates = [more * 8 / span_s for span_s, more in steps]
    if at_s >= 1.001:
        assert min(rates) * 0.999 - 1 <= smoothed.bps <= max(rates) * 1.001 + 1


def test_a_count_that_went_back_makes_no_rate_below_zero():
    smoothed = SmoothedRate()
    for at_s, count in ((0, 0), (2, 2_000_000), (2.5, 0), (4.5, 2_000_000)):
        smoothed.saw(at_s, count)
    assert smoothed.bps == pytest.approx(8e6)


def test_a_pause_of_a_second_or_two_is_no_alarm():
    """100 MB at 100 Mbit/s take 8 s: with 10 s to go, a pause of 1.5 s leaves it on time."""
    world = World(100_000_000, due_s=10)
    for seconds, bps in ((4, 100e6), (1.5, 0), (3.9, 100e6)):
        assert not any(one.is_late for one in world.goes_on(seconds, bps, 0.4))


def test_a_slow_beginning_is_no_alarm():
    """The first second of TCP says nothing of the tenth."""
    world = World(100_000_000, due_s=12)
    for seconds, bps in ((1, 1e6), (1, 20e6), (8, 100e6)):
        assert not any(one.is_late for one in world.goes_on(seconds, bps))


def test_what_will_truly_be_late_is_said_to_be():
    world = World(1_000_000_000, due_s=60)
    seen = [(world.now_s, one.is_late) for one in world.goes_on(30, 50e6)]
    first = next(now for now, late in seen if late)
    assert first < TIME_CONSTANT_S + STANDS_S + 1
    assert all(late for now, late in seen if now >= first)


def test_a_deadline_that_passed_is_missed_at_once():
    world = World(1_000_000_000, due_s=10)
    for seconds, bps in ((9.0, 810e6), (2.0, 0.0)):
        for forecast in world.goes_on(seconds, bps):
            assert forecast.is_late == (world.now_s > 10)


@pytest.mark.parametrize("status", ["", "listening beside BBR and CUBIC", "p\x1b[2J\nq"])
@pytest.mark.parametrize("state", ["connecting", "running"])
@pytest.mark.parametrize("due_s", [None, 20.0, 20_000.0])
def test_the_line_is_shorter_than_the_terminal_is_wide(status, state, due_s):
    world = World(123_456_789_012, due_s)
    list(world.goes_on(5, 987e6))
    progress = world.progress()._replace(state=state)
    lines = {wide: fitted(progress, world.forecast, status, wide) for wide in range(10, 200)}
    assert all(len(line) < wide for wide, line in lines.items())
    assert all(line.isprintable() for line in lines.values())
    lengths = [len(line) for line in lines.values()]
    assert max(lengths) < 170


def test_what_matters_most_is_the_last_to_go():
    world = World(5_000_000_000, due_s=3600)
    list(world.goes_on(10, 100e6))

    def line(width: int) -> str:
        return fitted(world.progress(), world.forecast, "", width)

    whole = line(120)
    for piece in ("125 MB of 5 GB", "100 Mbit/s", "ETA 6:29 min", "slack 53:20 min", "─"):
        assert piece in whole
    assert "of 5 GB" in line(80)
    assert "slack" in line(25) and "ETA" not in line(25)
    assert "ETA" in line(40) and "Mbit/s" not in line(40)
