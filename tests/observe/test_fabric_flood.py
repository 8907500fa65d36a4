"""Word of changes without end: the fabric is walked now and then, and no sweep waits for it."""

import itertools

import pytest
from umad_rig import Answering

from weir.observe.infiniband import asking, collect, discovery, mad, plan, roles, umad, watched
from weir.observe.infiniband.asking import Answer, Port

S = 10**9


class Fabric:
    """Answers at once; only sleeping and walking take time, which is virtual."""

    def __init__(self):
        self.now = 10**18

    def now_ns(self):
        return self.now

    def sleep(self, seconds):
        self.now += round(seconds * S)

    def ask(self, ports):
        return [Answer(self.now, 0, 0, 20.0) for _ in ports]


@pytest.fixture
def walked(monkeypatch):
    """A fabric in virtual time, and who asks it; when it was walked, begin and end."""
    made = plan.fat_tree(2, 1, 2)
    fabric, walks, said = Fabric(), [], []
    names = asking.Names(made, roles.classified(made))

    def walk(kept, again):
        begin = fabric.now
        fabric.now += took_s[0] * S
        walks.append((begin, fabric.now))
        return made

    took_s = [5]
    monkeypatch.setattr(discovery, "discovered", walk)
    asked = watched.Watched(
        fabric, asking.ports_of(made), names, str, changed=lambda: True, say=said.append
    )
    return fabric, asked, walks, took_s, said


def hour(fabric, asked):
    """Sweeps, one a second, until an hour is over; how many there were."""
    end = fabric.now + 3600 * S
    swept = collect.sweeps(fabric, asked.ports, None, 1.0, asked.names, asked.renewed)
    for count, _ in enumerate(swept, 1):
        if fabric.now >= end:
            return count
    raise AssertionError("sweeps have no end")


@pytest.mark.parametrize("took_s", [5, 100])
def test_changes_without_end_are_found_by_a_walk_a_minute(walked, took_s):
    fabric, asked, walks, walk_s, said = walked
    walk_s[0] = took_s
    count = hour(fabric, asked)
    rests = [after - before for (_, before), (after, _) in itertools.pairwise(walks)]
    rest_s = max(60, took_s)
    # Each is asked for by the first sweep after its rest: a second later at most.
    assert all(rest_s * S <= rest <= (rest_s + 1) * S for rest in rests)
    assert len(rests) == pytest.approx(3600 / (rest_s + took_s), abs=2)
    assert count >= 3600 - (len(walks) + 1) * took_s
    assert "".join(said).count("looking at the fabric again") == len(walks)


def test_a_clock_that_is_set_back_does_not_put_a_walk_off(walked):
    fabric, asked, walks, *_ = walked
    assert asked.renewed(False)
    fabric.now -= 86_400 * S
    assert asked.renewed(False)
    assert len(walks) == 2


class Flooded(Answering):
    """A port where notices come without end, as long as anybody is told of them."""

    notices = 0

    def umad_recv(self, port, buffer, length, patience):
        if self.told:
            self.notices += 1
            datagram = bytearray(mad.SIZE)
            datagram[3], datagram[17] = mad.REPORT, mad.NOTICE
            datagram[60:62] = (128).to_bytes(2, "big")
            self.replies.insert(0, (min(self.told), bytes(datagram), 0))
        return super().umad_recv(port, buffer, length, patience)


class Clock:
    def __init__(self):
        self.now = 0

    def monotonic_ns(self):
        return self.now

    def time_ns(self):
        return 10**18 + self.now


def test_notices_without_end_hold_up_no_sweep(monkeypatch):
    flooded, clock = Flooded(), Clock()
    monkeypatch.setattr(umad, "_library", lambda: flooded)
    monkeypatch.setattr(umad, "time", clock)
    ports = [Port(5, number) for number in range(1, 100)]
    with umad.Umad() as fabric:
        for minute in range(1, 4):
            # The first look of each minute asks to be told, and is drowned in notices.
            for _ in range(60):
                assert len(fabric.ask(ports)) == len(ports)
                fabric.changed()
                clock.now += S
            assert flooded.notices == minute * umad._MOST_NOTICES


def test_a_flood_of_notices_is_one_change(monkeypatch):
    flooded = Flooded()
    monkeypatch.setattr(umad, "_library", lambda: flooded)
    monkeypatch.setattr(umad, "_MOST_NOTICES", 10)
    with umad.Umad() as fabric:
        assert fabric.changed()
        assert not fabric.changed()
