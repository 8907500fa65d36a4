"""What is sent in a lower class harms nobody where routers serve it after best effort.

Its rest fills the link; the goodput of others stays within 2 % of what it is without, and their
packets wait no longer than for one packet of the lower class that is on the line already.
"""

import pytest

from weir import Time
from weir.lab import parse
from weir.sim.run import Run, run

# The link of the demonstration, and what others send over it: 30 of 200 Mbit/s, and bursts.
BACKGROUND = """
[lab]
seed = 3
[hosts]
campus = {}
internet = {}
hinxton = {}
bologna = {}
[routers]
paris = {}
milan = {}
[[link]]
name = "shared"
ends = ["paris", "milan"]
mtu = 9000
rate = "200 Mbit/s"
delay = "6 ms"
queue = { discipline = "priority", limit = "2 MB", classes = [[], [1, 8]] }
[[link]]
ends = ["campus", "paris"]
mtu = 9000
[[link]]
ends = ["milan", "internet"]
mtu = 9000
[[link]]
ends = ["hinxton", "paris"]
mtu = 9000
delay = "9 ms"
[[link]]
ends = ["milan", "bologna"]
mtu = 9000
[[traffic]]
name = "steady"
kind = "udp"
from = "campus"
to = "internet"
rate = "20 Mbit/s"
payload = "8000 B"
[[traffic]]
name = "paced"
kind = "iperf3"
from = "campus"
to = "internet"
rate = "10 Mbit/s"
[[traffic]]
name = "bursts"
kind = "ppbp"
from = "campus"
to = "internet"
burst_rate = "60 Mbit/s"
burst_interval = "300 ms"
payload = "8000 B"
"""
LOWER = """
[[traffic]]
name = "lower"
kind = "iperf3"
from = "hinxton"
to = "bologna"
streams = 4
dscp = "CS1"
"""


# A packet of the lower class that is on the line goes on: 9000 B at 200 Mbit/s.
ON_THE_LINE_NS = 9000 * 8 * 5


def measured(text):
    """Goodput of each traffic, the classes of the shared link, and how full it was."""
    result = run(Run(parse(text), Time("20 s")))
    shared = next(link for link in result["links"] if link["name"] == "shared")["forward"]
    goodput = {flow["name"]: flow["goodput_bps"] for flow in result["flows"]}
    return goodput, {entry["name"]: entry for entry in shared["classes"]}, shared["utilisation"]


def test_others_lose_nothing_to_a_lower_class_that_fills_the_link():
    alone, before, idle = measured(BACKGROUND)
    beside, after, busy = measured(BACKGROUND + LOWER)
    assert idle < 0.4 and busy > 0.99
    assert beside["lower"] > 100e6
    for name, goodput in alone.items():
        assert beside[name] == pytest.approx(goodput, rel=0.02)
    assert after["high"]["dropped"] == before["high"]["dropped"] == 0
    waits = [classes["high"]["sojourn"]["p99_ns"] for classes in (before, after)]
    assert waits[0] <= waits[1] <= waits[0] + ON_THE_LINE_NS


def test_without_the_class_others_do_lose():
    """The same on a router that does not know it: what the first test sees can be otherwise."""
    served = 'discipline = "priority", limit = "2 MB", classes = [[], [1, 8]]'
    assert served in BACKGROUND
    plain = BACKGROUND.replace(served, 'limit = "1 MB"')
    _, before, _ = measured(plain)
    _, after, _ = measured(plain + LOWER)
    waits = [classes["all"]["sojourn"]["p99_ns"] for classes in (before, after)]
    assert waits[1] > 3 * waits[0]
