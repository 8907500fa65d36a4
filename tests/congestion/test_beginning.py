"""The beginning of a file in virtual time: who holds it up, and what is heard meanwhile.

A path is a round-trip time, when its connections are made, and which echo requests are lost. A
prober gives its samples in order, so that all wait for a lost one for a second.
"""

import itertools
import threading
from types import SimpleNamespace

import pytest

from weir.congestion.cycle import beginning
from weir.congestion.cycle.beginning import begin
from weir.congestion.cycle.samples import RATE_HZ, Samples, silence
from weir.congestion.path import PathState
from weir.errors import BadInput
from weir.probe.sample import Sample

MS, SECOND = 10**6, 10**9
TIMEOUT_NS = SECOND
LOSSY = PathState("room", 0.03, 60e6, 480e6, delivered=100_000, lost=10, loss_events=10)


class World:
    """A transfer, its path, and the samples of it; the clock is the test's.

    Args:
        rtt_ms: of the path.
        connected_ms: when its connections are made.
        lost: which echo requests are; None for all.
        until_ms: when somebody noted that the transfer began to send; None if nobody did.
    """

    def __init__(self, monkeypatch, rtt_ms, connected_ms, lost=(), until_ms=None):
        self.now_ns = self.begin_ns = 1000 * SECOND
        self.rtt_ns, self.lost = round(rtt_ms * MS), lost
        self.connected_ns = self.begin_ns + connected_ms * MS
        self.until_ns = None if until_ms is None else self.begin_ns + until_ms * MS
        self.released_ns = self.released_first_ns = None
        self.silent_ns = []
        self.is_over, self.is_ended = False, False
        self.path, self.index, self.out_ns = None, 0, 0
        self.transfer = SimpleNamespace(tcp_info=lambda: [b""] * self.is_connected)
        clock = SimpleNamespace(
            monotonic=lambda: self.now_ns / SECOND, monotonic_ns=lambda: self.now_ns
        )
        monkeypatch.setattr(beginning, "time", clock)

    @property
    def is_connected(self):
        return self.now_ns >= self.connected_ns

    @property
    def has_sent(self):
        return self.is_connected and self.released_ns is not None

    def take(self, at_most_s):
        """The next sample, once it and all before it are complete."""
        until_ns = self.now_ns + round(at_most_s * SECOND)
        is_lost = self.lost is None or self.index in self.lost
        at_ns = self.begin_ns + self.index * SECOND // RATE_HZ
        done_ns = max(self.out_ns, at_ns + (TIMEOUT_NS if is_lost else self.rtt_ns))
        if done_ns > until_ns:
            self.now_ns = until_ns
            return None
        self.now_ns, self.out_ns = max(self.now_ns, done_ns), done_ns
        self.index += 1
        return Sample(self.index - 1, at_ns, 0, (None if is_lost else self.rtt_ns,))

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.is_ended = True

    def wait(self, seconds):
        self.now_ns += round(seconds * SECOND)

    def release_pace(self):
        self.released_ns = self.now_ns
        self.released_first_ns = self.released_first_ns or self.now_ns

    def hold_pace(self):
        assert self.released_ns is not None

    def fall_silent(self):
        self.silent_ns.append(self.now_ns)
        self.now_ns += 20 * MS

    def again(self):
        self.begin_ns, self.index, self.out_ns = self.now_ns, 0, 0
        return self

    def look(self):
        assert self.released_ns is not None
        return []

    def begin(self):
        """What the beginning shows, and how long after the connections it sent, in ms."""
        begun = begin(self, self, self)
        assert self.is_ended
        return begun, (self.released_first_ns - self.connected_ns) / MS


@pytest.mark.parametrize("lost", [(), (3,), range(10, 30), None])
@pytest.mark.parametrize(("rtt_ms", "connected_ms"), [(30, 180), (150, 900)])
def test_no_answer_is_waited_for(monkeypatch, rtt_ms, connected_ms, lost):
    begun, late_ms = World(monkeypatch, rtt_ms, connected_ms, lost).begin()
    assert 0 <= late_ms <= 5
    assert bool(begun) == (lost is not None)


@pytest.mark.parametrize("use", [None, "ours", "shared"])
def test_a_short_silence_tells_nothing_and_holds_nothing_up(monkeypatch, use):
    world = World(monkeypatch, 5, 30)
    world.path = use and PathState(use, 0.005, 60e6, 480e6)
    begun, late_ms = world.begin()
    assert begun is None and world.silent_ns == []
    assert 0 <= late_ms <= 5


@pytest.mark.parametrize(("noise_ms", "is_told"), [(0, True), (3, False)])
def test_a_near_path_with_room_is_worth_a_silence_of_a_tenth_of_a_second(
    monkeypatch, noise_ms, is_told
):
    world = World(monkeypatch, 5, 30)
    look = world.look

    def finds_room():
        if world.now_ns > world.connected_ns + SECOND:
            world.path = LOSSY
        return look()

    def noisy(at_most_s):
        sample = World.take(world, at_most_s)
        if world.silent_ns:
            world.rtt_ns = (5 + noise_ms * (world.index % 2)) * MS
        return sample

    world.look, world.take = finds_room, noisy
    begun, late_ms = world.begin()
    assert 0 <= late_ms <= 5
    (silent_ns,) = world.silent_ns
    assert silent_ns - world.connected_ns == pytest.approx(SECOND, abs=100 * MS)
    assert world.released_ns - silent_ns <= 120 * MS
    assert bool(begun) == is_told
    if is_told:
        assert begun.who.why == "the path loses 0.01 % at random"


@pytest.mark.parametrize(("until_ms", "is_told"), [(180, True), (40, False)])
def test_a_beginning_that_was_noted_before_it_was_looked_at_counts(monkeypatch, until_ms, is_told):
    """The choice was loaded late; what was asked since is no silence, however quiet it was."""
    world = World(monkeypatch, 30, 0, until_ms=until_ms)
    world.now_ns += 500 * MS
    begun, _ = world.begin()
    assert bool(begun) == is_told


def test_what_was_asked_before_the_first_byte_is_silence_whenever_it_is_answered(monkeypatch):
    """Connected after one round trip, so that no answer has come by then."""
    heard = World(monkeypatch, 150, 149)
    begun, _ = heard.begin()
    assert begun
    # Asked at 0, 10 ... 140 ms; what the first byte's queue holds up is not among it.
    moved = World(monkeypatch, 150, 149)
    take = moved.take

    def behind_us(at_most_s):
        sample = take(at_most_s)
        if sample and sample.index >= 15:
            moved.rtt_ns = 170 * MS
        return sample

    moved.take = behind_us
    assert moved.begin()[0]


def test_room_shows_while_a_lost_answer_holds_up_the_others(monkeypatch):
    world = World(monkeypatch, 30, 180, lost={40, 150})
    looks = []

    def look():
        looks.append(world.now_ns)
        if world.now_ns > world.connected_ns + SECOND:
            world.path = LOSSY
        return []

    world.look = look
    begun, _ = world.begin()
    assert begun.who.why == "the path loses 0.01 % at random"
    assert begun.seconds == pytest.approx(1.0, abs=0.1)
    assert max(b - a for a, b in itertools.pairwise(looks)) <= 50 * MS


def test_others_end_it(monkeypatch):
    world = World(monkeypatch, 30, 180)
    take = world.take

    def gave_way(at_most_s):
        sample = take(at_most_s)
        if sample and sample.index == 60:
            return Sample(60, sample.at_ns, 0, (25 * MS,))
        return sample

    world.take = gave_way
    assert world.begin()[0] is None
    assert world.now_ns - world.begin_ns < SECOND


@pytest.mark.parametrize("use", ["room", None])
@pytest.mark.parametrize(
    ("goodput_bps", "lost", "is_alone"), [(60e6, 100, True), (2e5, 400, False), (0.0, 0, False)]
)
def test_who_is_squeezed_is_not_alone_however_quiet_the_silence_was(
    monkeypatch, use, goodput_bps, lost, is_alone
):
    """All streams of BBR pause together, for 0.2 s of ten, and drain the queue."""
    world = World(monkeypatch, 30, 180)
    world.path = PathState(use, 0.03, goodput_bps, 90e6, delivered=1_000, lost=lost)
    begun, _ = world.begin()
    assert bool(begun) == is_alone
    assert world.now_ns - world.released_ns < 6 * SECOND


def test_samples_come_while_others_are_waited_for():
    with silence("127.0.0.1", None) as asked:
        taken = [one for _ in range(200) if (one := asked.take(0.1))]
        assert not asked.are_few
        assert [one.index for one in taken] == list(range(len(taken)))
        # One that is much too late is left out by the prober.
        assert sum(bool(one.replies_ns) for one in taken) >= 8
    assert not asked.is_over


def test_what_cannot_be_asked_says_so_once_and_is_over():
    with silence("no such host", None) as asked:
        with pytest.raises(BadInput, match="unknown host"):
            asked.take(10.0)
        assert asked.is_over
        assert not asked.are_few
        assert asked.take(10.0) is None


def test_who_comes_late_is_given_all_that_has_come():
    """One at a time, a process that is not scheduled for each falls behind for good."""
    all_came, goes_on = threading.Event(), threading.Event()

    class Seven:
        begin_ns = 0

        def __enter__(self):
            return self

        def __exit__(self, *_):
            pass

        def __iter__(self):
            for index in range(7):
                yield Sample(index, index * SECOND, 0, ())
            all_came.set()
            goes_on.wait(10)
            yield Sample(7, 7 * SECOND, 0, ())

        def stop(self):
            pass

    with Samples(Seven) as asked:
        assert all_came.wait(10)
        assert [one.index for one in asked.take_all(10.0)] == list(range(7))
        assert asked.take_all(0.01) == []
        goes_on.set()
        assert [one.index for one in asked.take_all(10.0)] == [7]
        assert asked.take_all(10.0) == []
        assert asked.is_over


def test_what_is_ended_before_it_has_begun_asks_nothing():
    made = []

    class Never:
        begin_ns = 0

        def __enter__(self):
            made.append(self)
            return self

        def __exit__(self, *_):
            pass

        def __iter__(self):
            raise AssertionError("it was ended")

        def stop(self):
            pass

    asked = Samples(Never)
    asked.end()
    asked.begin()
    assert asked.take(0.1) is None
