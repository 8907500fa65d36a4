"""Whoever enforces allotments does what the seam says: at an edge, and in switches."""

import re
import subprocess

import pytest
from control_rig import Fabric, network
from namespace_rig import namespace as namespace

from weir.calendar.enforcer import RATE_MIN_BPS, Allotment, Pair, TrafficClass
from weir.calendar.htb import Device, Shaper
from weir.control.core import DRAIN_S, Core
from weir.control.enforcer import SwitchEnforcer
from weir.control.rules import METER_PER_RATE, pair_of

ONE = Pair("10.0.0.1", "10.0.0.2", 7411)
OTHER = Pair("10.0.0.2", "10.0.0.1", 7412)


class Edge:
    """HTB on a device of this kernel, read back by `tc`."""

    def __init__(self):
        self.enforcer = Shaper([Device("wan0")])

    def held(self):
        """Every pair that is held, with its rate, and whether it comes before the rest."""
        classes = {}
        for line in _tc("class").splitlines():
            found = re.search(r"class htb 1:(\w+) .*prio (\d) .*?rate (\d+)(K|M|G)?bit", line)
            if found:
                unit = {None: 1, "K": 10**3, "M": 10**6, "G": 10**9}[found[4]]
                classes[found[1]] = (int(found[3]) * unit, found[2] == "0")
        held = {}
        for filter_ in _tc("filter").split("filter ")[1:]:
            flow = re.search(r"flowid 1:(\w+)", filter_)
            if flow and "at 12" in filter_:  # others are no pair's
                words = {at: x for x, at in re.findall(r"match (\w{8})/\w+ at (\d+)", filter_)}
                ends = [".".join(str(x) for x in bytes.fromhex(words[at])) for at in ("12", "16")]
                held[Pair(*ends, int(words["20"][4:], 16))] = classes[flow[1]]
        return held


def _tc(what):
    return subprocess.check_output(["tc", what, "show", "dev", "wan0"], text=True)


class InSwitches:
    """A controller's core and switches that do by the book what they are told."""

    def __init__(self):
        made = network(["h1", "h2"], [("h1", "s1"), ("s1", "s2"), ("s2", "h2")], ["s1", "s2"])
        self.core, self.fabric, self.now_s = Core(made), Fabric(made), 0.0
        self.fabric.connect(self.core)
        self.enforcer = SwitchEnforcer(self.core, self.pump)
        self.pump()

    def pump(self):
        for _ in range(3):
            self.fabric.settle(self.core, self.now_s)
            self.now_s += DRAIN_S

    def held(self):
        """The same, from the rules and meters of the first switch of each pair."""
        found = {}
        for tables in self.fabric.does.values():
            for place, entry in tables.rules.items():
                pair = pair_of(place)
                if pair is not None and entry.actions.meter is not None:
                    rate_bps = tables.meters[entry.actions.meter].rate_kbps * 1000 / METER_PER_RATE
                    promised = entry.actions.dscp == TrafficClass.PROMISED.dscp
                    found[pair] = (pytest.approx(rate_bps, rel=0.01, abs=1000), promised)
        return found


@pytest.fixture(params=[Edge, InSwitches])
def at_work(request):
    """An enforcer, and what is really held."""
    if request.param is Edge:
        request.getfixturevalue("namespace")
    return request.param()


def test_it_holds_those_that_it_is_told_and_no_others(at_work):
    enforcer = at_work.enforcer
    enforcer.install()
    assert enforcer.in_force() == {}
    for wanted in (
        {ONE: Allotment(10**7)},
        {ONE: Allotment(10**7), OTHER: Allotment(5 * 10**7, traffic_class=TrafficClass.LOWER)},
        {ONE: Allotment(2 * 10**7), OTHER: Allotment(5 * 10**7)},
        {OTHER: Allotment(RATE_MIN_BPS)},
        {},
        {ONE: Allotment(10**9, ("h1s1.forward", "s1s2.forward", "s2h2.forward"))},
    ):
        enforcer.apply(wanted)
        assert enforcer.in_force() == wanted
        assert at_work.held() == {
            pair: (one.rate_bps, one.traffic_class is TrafficClass.PROMISED)
            for pair, one in wanted.items()
        }
    enforcer.remove()
    assert at_work.held() == {}


def test_what_an_earlier_process_has_left_is_gone_with_the_first_that_is_told(at_work):
    at_work.enforcer.install()
    at_work.enforcer.apply({ONE: Allotment(10**7)})
    if isinstance(at_work, Edge):
        again = Shaper([Device("wan0")])
    else:
        again = SwitchEnforcer(at_work.core, at_work.pump)
    again.install()
    assert again.in_force() == {}
    again.apply({OTHER: Allotment(10**7)})
    assert list(at_work.held()) == [OTHER]


def test_a_path_that_it_does_not_know_holds_the_pair_all_the_same(at_work):
    at_work.enforcer.install()
    at_work.enforcer.apply({ONE: Allotment(10**7, ("nowhere",))})
    assert list(at_work.held()) == [ONE]
