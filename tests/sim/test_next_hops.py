"""Next hops in the lab and in the simulator: one scenario, one way, and the best of all."""

import itertools
from functools import partial

from hypothesis import given, settings
from hypothesis import strategies as st

from weir import Rate, Time
from weir.lab.addressing import plan
from weir.lab.scenario import Direction, Link, Node, Scenario, UdpTraffic
from weir.sim import Run
from weir.sim.run import run

RATE = Rate("100 Mbit/s")
START = Time.from_ns(0)
_delays = st.integers(0, 3).map(lambda ms: Time(f"{ms} ms"))
_directions = st.builds(partial(Direction, rate=RATE), delay=_delays)


@st.composite
def networks(draw):
    """Two hosts, up to four nodes between them, of which some do not forward, and links.

    Delays are often equal, and links often parallel.
    """
    count = draw(st.integers(2, 6))
    between = [Node(f"n{i}", forwards=draw(st.integers(0, 3)) > 0) for i in range(2, count)]
    nodes = (Node("n0"), Node("n1"), *between)
    ends = st.lists(st.sampled_from(nodes), min_size=2, max_size=2, unique=True)
    links = [
        Link(f"l{i}", (a.name, b.name), draw(_directions), draw(_directions))
        for i, (a, b) in enumerate(draw(st.lists(ends, min_size=1, max_size=9)))
    ]
    return Scenario("random", 1, nodes, tuple(links))


def every_way(scenario, source, to):
    """Every way without loops as (delay in ns, links), by trying all orders of nodes between."""
    between = [x.name for x in scenario.nodes if x.forwards and x.name not in (source, to)]
    for count in range(len(between) + 1):
        for middle in itertools.permutations(between, count):
            delays = [
                [
                    direction.delay.ns
                    for link in scenario.links
                    for ends, direction in (
                        (link.ends, link.forward),
                        (link.ends[::-1], link.backward),
                    )
                    if ends == hop
                ]
                for hop in itertools.pairwise((source, *middle, to))
            ]
            if all(delays):
                yield sum(map(min, delays)), count + 1


def length(scenario, way):
    """Delay in ns and links of a way that is given as ports."""
    links = {link.name: link for link in scenario.links}
    sides = [
        links[x.link].forward if x.node == links[x.link].ends[0] else links[x.link].backward
        for x in way
    ]
    return sum(side.delay.ns for side in sides), len(way)


@given(networks())
def test_the_way_is_as_short_as_the_best_of_all(scenario):
    planned = plan(scenario)
    for source, to in itertools.permutations(planned.addresses, 2):
        best = min(every_way(scenario, source, to), default=None)
        way = planned.way(source, to)
        if best is None:
            assert way is None and to not in planned.next_hops[source]
            continue
        assert length(scenario, way) == best
        assert planned.next_hops[source][to] == way[0]
        assert [port.peer for port in way] == [*(port.node for port in way[1:]), to]


@settings(max_examples=60)
@given(networks().filter(lambda network: plan(network).way("n0", "n1")))
def test_simulated_packets_take_the_way_of_the_lab(scenario):
    """The kernels of a lab send a packet on by each node's own table, and so does the simulator."""
    hops = plan(scenario).next_hops
    here, expected = "n0", []
    while here != "n1" and len(expected) < len(scenario.nodes):
        port = hops[here]["n1"]
        expected.append((port.link, here))
        here = port.peer
    traffic = UdpTraffic(
        name="probe", source="n0", destination="n1", start=START, stop=None, rate=Rate("1 Mbit/s")
    )
    probed = Scenario("probed", 1, scenario.nodes, scenario.links, (traffic,))
    result = run(Run(probed, duration=Time("50 ms"), warmup=START))
    ends = {link.name: link.ends for link in scenario.links}
    crossed = {
        (link["name"], ends[link["name"]][side])
        for link in result["links"]
        for side, way in enumerate(("forward", "backward"))
        if link[way]["packets_out"]
    }
    assert crossed == set(expected)
