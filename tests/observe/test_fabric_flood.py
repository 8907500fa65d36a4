"""Word of changes without end: the fabric is walked now and then, and no sweep waits for it."""

import ctypes
import itertools
from argparse import Namespace

import pytest

from weir.cli import observe_fabric
from weir.observe.infiniband import asking, collect, discovery, mad, plan, roles, umad
from weir.observe.infiniband.asking import Answer, Port

S = 10**9
HEAD = 64
"""Bytes before a datagram, as libibumad has them."""


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
    fabric, walks = Fabric(), []
    names = asking.Names(made, roles.classified(made))

    def walk(kept, again):
        begin = fabric.now
        fabric.now += took_s[0] * S
        walks.append((begin, fabric.now))
        return made

    took_s = [5]
    monkeypatch.setattr(discovery, "discovered", walk)
    args = Namespace(fabric=None, subsystems=[])
    asked = observe_fabric._Asked(fabric, asking.ports_of(made), names, None, args, lambda: True)
    return fabric, asked, walks, took_s


def hour(fabric, asked):
    """Sweeps, one a second, until an hour is over; how many there were."""
    end = fabric.now + 3600 * S
    swept = collect.sweeps(fabric, asked.ports, None, 1.0, asked.names, asked.renewed)
    for count, _ in enumerate(swept, 1):
        if fabric.now >= end:
            return count
    raise AssertionError("sweeps have no end")


@pytest.mark.parametrize("took_s", [5, 100])
def test_changes_without_end_are_found_by_a_walk_a_minute(walked, capsys, took_s):
    fabric, asked, walks, walk_s = walked
    walk_s[0] = took_s
    count = hour(fabric, asked)
    rests = [after - before for (_, before), (after, _) in itertools.pairwise(walks)]
    rest_s = max(60, took_s)
    # Each is asked for by the first sweep after its rest: a second later at most.
    assert all(rest_s * S <= rest <= (rest_s + 1) * S for rest in rests)
    assert len(rests) == pytest.approx(3600 / (rest_s + took_s), abs=2)
    assert count >= 3600 - (len(walks) + 1) * took_s
    assert capsys.readouterr().err.count("looking at the fabric again") == len(walks)


def test_a_clock_that_is_set_back_does_not_put_a_walk_off(walked):
    fabric, asked, walks, _ = walked
    assert asked.renewed(False)
    fabric.now -= 86_400 * S
    assert asked.renewed(False)
    assert len(walks) == 2


class Flooded:
    """libibumad on a port where notices come without end, as long as anybody is told of them."""

    def __init__(self):
        self.agents, self.told, self.notices, self.replies = {}, set(), 0, []
        self._next = itertools.count()

    def umad_init(self):
        return 0

    def umad_size(self):
        return HEAD

    def umad_status(self, buffer):
        return 0

    def umad_open_port(self, device, port):
        return 1

    def umad_close_port(self, port):
        return 0

    def umad_get_port(self, device, port, about):
        ctypes.memmove(ctypes.byref(about, 32), (7).to_bytes(4, "little"), 4)
        return 0

    def umad_release_port(self, about):
        return 0

    def umad_register(self, port, kind, version, rmpp, methods):
        agent = next(self._next)
        if methods is not None:
            self.told.add(agent)
        return agent

    def umad_unregister(self, port, agent):
        self.told.discard(agent)
        return 0

    def umad_send(self, port, agent, buffer, length, timeout, retries):
        datagram = bytearray(buffer.raw[HEAD:])
        if datagram[3] != mad.REPORT_RESPONSE:
            datagram[3] = mad.RESPONSE
            self.replies.append((agent, bytes(datagram)))
        return 0

    def umad_recv(self, port, buffer, length, patience):
        if self.told:
            self.notices += 1
            agent = min(self.told)
            datagram = bytearray(mad.SIZE)
            datagram[3], datagram[17] = mad.REPORT, mad.NOTICE
            datagram[60:62] = (128).to_bytes(2, "big")
        elif self.replies:
            agent, datagram = self.replies.pop(0)
        else:
            return -1
        ctypes.memmove(ctypes.byref(buffer, HEAD), bytes(datagram), mad.SIZE)
        return agent


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
