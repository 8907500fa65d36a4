"""The order of the `[[traffic]]` tables of a file says nothing: every order gives the same."""

from hypothesis import given, settings
from hypothesis import strategies as st

from weir import Time
from weir.lab import parse
from weir.lab.scenario import PpbpTraffic
from weir.lab.traffic import source_config
from weir.sim import Run
from weir.sim.run import run

NETWORK = """
[lab]
seed = {seed}
[hosts]
a = {{}}
b = {{ ecn = true }}
c = {{}}
d = {{}}
[routers]
left = {{}}
right = {{}}
[[link]]
ends = ["a", "left"]
[[link]]
ends = ["b", "left"]
[[link]]
name = "line"
ends = ["left", "right"]
rate = "20 Mbit/s"
delay = "5 ms"
loss = "0.1 %"
queue = {{ discipline = "{discipline}" }}
[[link]]
ends = ["right", "c"]
[[link]]
ends = ["right", "d"]
"""


def table(kind, ends, more=""):
    return f'\n[[traffic]]\nkind = "{kind}"\nfrom = "{ends[0]}"\nto = "{ends[1]}"\n{more}\n'


# What begins together and is alike but for a value, named and not; a name as one by default.
TABLES = [
    table("iperf3", "ac"),
    table("iperf3", "bc"),
    table("iperf3", "bd", 'congestion = "reno"\nname = "reno"'),
    table("udp", "ac", 'rate = "2 Mbit/s"'),
    table("udp", "ac", 'rate = "3 Mbit/s"\nname = "udp-4"'),
    table("ppbp", "bd", 'burst_rate = "4 Mbit/s"\nburst_interval = "100 ms"'),
    table("ppbp", "bd", 'burst_rate = "5 Mbit/s"\nburst_interval = "100 ms"'),
    table("web", "ad", 'interval = "50 ms"'),
    table("rpc", "bc"),
    table("game", "ac"),
]


def results(order, seed, discipline):
    """What each table came to, by the table, and each link."""
    text = NETWORK.format(seed=seed, discipline=discipline)
    described = parse(text + "".join(TABLES[index] for index in order))
    result = run(Run(described, Time("1 s")))
    assert [flow["name"] for flow in result["flows"]] == [one.name for one in described.traffic]
    flows = {
        index: {key: value for key, value in flow.items() if key != "name"}
        for index, flow in zip(order, result["flows"], strict=True)
    }
    bursts = {
        index: source_config(one, described.seed)
        for index, one in zip(order, described.traffic, strict=True)
        if isinstance(one, PpbpTraffic)
    }
    return flows, bursts, result["links"], result["jain_index"]


@settings(max_examples=25, deadline=None)
@given(
    orders=st.sets(st.sampled_from(range(len(TABLES))), min_size=2).flatmap(
        lambda chosen: st.tuples(st.permutations(sorted(chosen)), st.permutations(sorted(chosen)))
    ),
    seed=st.integers(0, 2**64 - 1),
    discipline=st.sampled_from(["fifo", "fq-codel", "dual-pi2", "red"]),
)
def test_every_order_of_the_tables_gives_the_same(orders, seed, discipline):
    first, second = orders
    assert results(first, seed, discipline) == results(second, seed, discipline)


def test_without_names_each_table_has_random_numbers_of_its_own():
    bursts = table("ppbp", "bd", 'burst_rate = "4 Mbit/s"\nburst_interval = "100 ms"')
    named = "".join(bursts + f'name = "ppbp-{number}"\n' for number in (2, 3))
    described = parse(NETWORK.format(seed=1, discipline="fifo") + bursts + named)
    assert len({one.draws for one in described.traffic}) == 3
