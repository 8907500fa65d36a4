"""Addresses, device names and routes, decided on paper."""

from weir.lab.addressing import plan
from weir.lab.reading import load, parse

# s reaches d by two ways: over r (one hop fewer, 20 ms) and over q and p (10 ms in all).
DIAMOND = """
[hosts]
s = {}
d = {}
[routers]
r = {}
p = {}
q = {}
[[link]]
ends = ["s", "r"]
delay = "10 ms"
[[link]]
ends = ["r", "d"]
delay = "10 ms"
[[link]]
ends = ["s", "p"]
delay = "4 ms"
backward = { delay = "40 ms" }
[[link]]
ends = ["p", "q"]
delay = "3 ms"
[[link]]
ends = ["q", "d"]
delay = "3 ms"
[[link]]
name = "second"
ends = ["s", "r"]
delay = "10 ms"
"""


def test_routes_take_the_least_delay_in_each_direction():
    hops = plan(parse(DIAMOND)).next_hops
    assert hops["s"]["d"].peer == "p"  # 10 ms over p, 20 ms over r
    assert hops["d"]["s"].peer == "r"  # 46 ms over p, 20 ms over r
    assert "r" not in hops["p"]  # only s and d lie between, and hosts do not forward


def test_parallel_links_and_long_names_get_devices_of_their_own():
    ports = plan(parse(DIAMOND)).ports
    assert [p.device for p in ports["s-r"]] == ["r", "s"]
    assert [p.device for p in ports["second"]] == ["r-2", "s-2"]
    long = "a-very-long-name-of-a-site"
    text = f"[hosts]\nx={{}}\n[routers]\n{long}-1={{}}\n{long}-2={{}}\n" + "".join(
        f'[[link]]\nends=["x", "{long}-{n}"]\n' for n in (1, 2)
    )
    devices = [p.device for pair in plan(parse(text)).ports.values() for p in pair]
    assert devices == ["a-very-long-nam", "x", "a-very-long-n-2", "x"]


def test_every_node_has_one_address_and_a_name():
    wan = plan(load("scenarios/wan.toml"))
    assert len(set(wan.addresses.values())) == 10
    assert wan.addresses["S1"] == "10.77.0.1"
    assert "10.77.0.1 S1\n" in wan.hosts_file()
    assert {p.device for p in wan.ports["bottleneck"]} == {"R1", "R2"}
    assert wan.next_hops["S1"]["D4"].peer == "R1" and wan.next_hops["R1"]["D4"].peer == "R2"
