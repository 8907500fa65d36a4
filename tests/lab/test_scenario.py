"""A scenario file means what it says, and what it cannot mean is refused at its line."""

import pytest

from weir import Bytes, Rate, Time
from weir.errors import BadInput
from weir.lab import applications
from weir.lab.reading import load, parse
from weir.lab.scenario import Bernoulli, GilbertElliott, Queue

GOOD = """\
[lab]
name = "two"
[hosts]
a = {}
b = { congestion = "cubic", segmentation_offload = false }
[routers.r]
[[link]]
ends = ["a", "r"]
rate = "1 Gbit/s"
[[link]]
name = "far"
ends = ["r", "b"]
rate = "500 Mbit/s"
delay = "32.5 ms"
queue = { limit = "6 MiB" }
forward = { rate = "10 Mbit/s", loss = "0.1 %", queue = { limit = "100 packets" } }
backward = { jitter = "2 ms", loss = { model = "gilbert-elliott", p = 0.01, r = "10 %" } }
[[traffic]]
kind = "iperf3"
from = "a"
to = "b"
start = "1 s"
stop = "3 s"
congestion = "bbr"
streams = 2
rate = "20 Mbit/s"
[[traffic]]
kind = "udp"
from = "b"
to = "a"
rate = "5 Mbit/s"
on = "1 s"
off = "2 s"
dscp = "CS1"
[[traffic]]
kind = "ppbp"
from = "b"
to = "a"
burst_rate = "50 Mbit/s"
burst_interval = "25 ms"
"""


def test_every_key_arrives():
    scenario = parse(GOOD)
    assert scenario.name == "two" and scenario.seed == 1
    assert [(n.name, n.forwards, n.congestion) for n in scenario.nodes] == [
        ("a", False, None),
        ("b", False, "cubic"),
        ("r", True, None),
    ]
    assert [n.segmentation_offload for n in scenario.nodes] == [None, False, None]
    near, far = scenario.links
    assert near.name == "a-r" and near.forward == near.backward
    assert near.forward.queue == Queue("fifo", Time("100 ms"))
    assert far.forward.rate == Rate("10 Mbit/s") and far.backward.rate == Rate("500 Mbit/s")
    assert far.forward.queue.limit == 100 and far.backward.queue.limit == Bytes("6 MiB")
    assert far.forward.loss == Bernoulli(0.001)
    assert far.backward.loss == GilbertElliott(0.01, 0.1)
    assert far.backward.jitter == Time("2 ms") and far.forward.delay == Time("32.5 ms")
    iperf, udp, ppbp = scenario.traffic
    assert (iperf.source, iperf.destination, iperf.streams) == ("a", "b", 2)
    assert (iperf.start, iperf.stop, iperf.congestion) == (Time("1 s"), Time("3 s"), "bbr")
    assert (udp.on, udp.off, udp.dscp, udp.stop) == (Time("1 s"), Time("2 s"), "CS1", None)
    assert (ppbp.burst_mean, ppbp.hurst, ppbp.name) == (Time("200 ms"), 0.7, "ppbp-3")


APPLICATIONS = """\
[hosts]
a = {}
b = {}
[[link]]
ends = ["a", "b"]
[[traffic]]
kind = "web"
from = "a"
to = "b"
interval = "100 ms"
largest = "2 MB"
[[traffic]]
kind = "rpc"
from = "a"
to = "b"
congestion = "reno"
concurrency = 8
service = "100 us"
[[traffic]]
kind = "messages"
from = "a"
to = "b"
size = "15 kB"
interval = "500 ms"
from_end = true
"""


def test_applications_arrive_in_the_units_of_the_core():
    web, rpc, messages = parse(APPLICATIONS).traffic
    assert web.parameters == {
        "requests_per_s": 10.0,
        "shape": 0.9,
        "least_bytes": 1000,
        "most_bytes": 2_000_000,
    }
    assert (web.kind, web.nagle, rpc.nagle, rpc.congestion) == ("web", True, False, "reno")
    assert rpc.parameters["service_ns"] == 100_000
    # Without a key it is the core's own default.
    assert rpc.parameters["reply_bytes"] == 32_768
    assert messages.parameters == {"size_bytes": 15_000, "interval_ns": 5 * 10**8, "from_end": True}
    assert applications.opener(web) == applications.acceptor(messages) == "b"


@pytest.mark.parametrize(
    ("old", "new", "line", "says"),
    [
        ('interval = "100 ms"', "", 6, "interval is missing"),
        ('interval = "100 ms"', 'interval = "0 ms"', 10, "a time of more than 0"),
        ('largest = "2 MB"', 'largest = "500 B"', 11, "smallest is more than largest"),
        ('largest = "2 MB"', 'largest = "65 MiB"', 11, "up to 64 MiB"),
        ('largest = "2 MB"', "shape = 0", 11, "a number above 0"),
        ('largest = "2 MB"', "nagle = 1", 11, "true or false"),
        ('largest = "2 MB"', "concurrency = 2", 11, "concurrency is not a key here"),
        ("concurrency = 8", "concurrency = 0", 17, "a whole number from 1 to 65536"),
        ('kind = "rpc"', 'kind = "nfs"', 13, "video, messages, game, piv, rpc"),
    ],
)
def test_what_is_wrong_with_an_application_is_refused_at_its_line(old, new, line, says):
    assert old in APPLICATIONS
    with pytest.raises(BadInput) as caught:
        parse(APPLICATIONS.replace(old, new, 1), "file.toml")
    message = str(caught.value)
    assert message.startswith(f"file.toml:{line}: ") and says in message, message


def test_the_wan_of_specification_001():
    wan = load("scenarios/wan.toml")
    assert [node.name for node in wan.nodes if node.forwards] == ["R1", "R2"]
    assert len(wan.nodes) == 10
    bottleneck = wan.links[0]
    assert bottleneck.forward.rate == Rate("500 Mbit/s")
    assert bottleneck.forward.delay.ns + bottleneck.backward.delay.ns == Time("65 ms").ns
    assert bottleneck.forward.queue.limit == Bytes("6 MiB")


# (what is replaced, by what, the line the message names, what the message says)
WRONG = [
    ('name = "two"', 'naem = "two"', 2, "naem is not a key here; did you mean name?"),
    ('name = "two"', 'name = "a/b"', 2, "not a name"),
    ('name = "two"', "seed = -1", 2, "seed = -1: a whole number from 0"),
    ('name = "two"', 'ipv6 = "yes"', 2, 'ipv6 = "yes"'),
    ("a = {}", "lo = {}", 4, "lo is a name the system uses"),
    ("a = {}", "a = {}\na = {}", 5, "stands twice"),
    ("[routers.r]", "[routers.r]\n[routers.a]", 7, "the name a stands twice"),
    ("a = {}", "a = {}\nA = {}", 5, "the names a and A differ in case only"),
    ("[routers.r]", "[routers.B]\n[routers.r]", 6, "the names b and B differ in case only"),
    ("a = {}", "a = {}\ndefault = {}", 5, "default is a name the kernel uses"),
    ("a = {}", "a = {}\nall = {}", 5, "all is a name the kernel uses"),
    ("a = {}", "a = {}\nlo = {}", 5, "lo is a name the system uses"),
    ("a = {}", "a = {}\na- = {}", 5, "ends in a hyphen"),
    ("[routers.r]", "[routers.r]\n[routers.r]", 7, "[routers.r] stands twice"),
    ("[routers.r]", "[routers.r]\n[routers.alone]", 7, "no path joins alone to any host"),
    ("[routers.r]", "[hosts.r]", 5, "no path joins b and a; paths run through routers"),
    ("[routers.r]", "[routers.r]\nspeed = 1", 7, "speed is not a key here"),
    ("a = {}", "a = { segmentation_offload = 1 }", 4, "true or false"),
    ("[lab]", "[labs]", 1, "labs is not a key here; did you mean lab?"),
    ("[lab]", "[lab", 1, ""),
    ('ends = ["a", "r"]', 'ends = ["a", "x"]', 8, "there is no node 'x'; the nodes are a, b, r"),
    ('ends = ["a", "r"]', 'ends = ["a", "a"]', 8, "two different nodes"),
    ('ends = ["a", "r"]', 'ends = ["a"]', 8, "two different nodes"),
    ('rate = "1 Gbit/s"', 'rate = "0 Mbit/s"', 9, 'rate = "0 Mbit/s": a rate of more than 0'),
    ('rate = "1 Gbit/s"', "rate = 1000", 9, "rate = 1000: 1000 is not a rate"),
    ('rate = "1 Gbit/s"', 'rate = "1 GB"', 9, '"GB" in "1 GB" is not a unit of rate'),
    ('rate = "1 Gbit/s"', 'rate = "-1 Gbit/s"', 9, "is negative"),
    ('rate = "1 Gbit/s"', "mtu = 68", 9, "mtu = 68: a whole number from 576 to 9216"),
    ('rate = "1 Gbit/s"', 'queue = { limit = "1 MB" }', 9, "a queue needs a rate"),
    ('rate = "1 Gbit/s"', 'forward = "fast"', 9, 'is a table, not "fast"'),
    ('name = "far"', 'name = "a-r"', 10, "the name a-r stands twice"),
    ('delay = "32.5 ms"', 'delay = "32.5"', 14, "has no unit"),
    ('delay = "32.5 ms"', 'delay = "1 ms"', 17, "jitter 2 ms is more than the delay 1 ms"),
    ('limit = "6 MiB"', 'limit = "0 B"', 15, "a limit of more than 0"),
    ('limit = "6 MiB"', "limit = 1000", 15, "bytes, packets or time"),
    ('limit = "6 MiB"', f'limit = "{"9" * 5000} packets"', 15, "bytes, packets or time"),
    ('limit = "6 MiB"', 'discipline = "red", weight = nan', 15, "weight = nan: a number is"),
    ('limit = "6 MiB"', 'discipline = "red", weight = -inf', 15, "weight = -inf: a number is"),
    ('limit = "6 MiB"', f'discipline = "red", weight = {"9" * 400}', 15, "a number is allowed"),
    (
        'limit = "6 MiB"',
        f'discipline = "red", min_threshold = "{"9" * 5000} packets", max_threshold = "9 MB"',
        15,
        "are allowed",
    ),
    ('limit = "6 MiB"', 'size = "6 MiB"', 15, "size is not a key here"),
    ('limit = "6 MiB"', 'discipline = "lifo"', 15, "allowed are fifo, priority"),
    ('limit = "6 MiB"', 'discipline = "pie", target = 15', 15, "target = 15: 15 is not a time"),
    ('limit = "6 MiB"', 'discipline = "pie", target = "0 ms"', 15, "target of pie: a time above 0"),
    ('limit = "6 MiB"', 'discipline = "pie", targte = "9 ms"', 15, "did you mean target?"),
    ('limit = "6 MiB"', 'discipline = "codel", ecn = "yes"', 15, "true or false"),
    ('limit = "6 MiB"', 'discipline = "red", max_probability = 2', 15, "a probability above 0"),
    ('limit = "6 MiB"', 'discipline = "red", max_threshold = "5 ms"', 15, "above min_threshold"),
    ('limit = "6 MiB"', 'discipline = "drr", classes = [{ weight = 0 }]', 15, "1 to 1000"),
    ('limit = "6 MiB"', 'discipline = "wfq", classes = [{ dscp = ["EF"] }]', 15, "has a weight"),
    ('limit = "6 MiB"', 'discipline = "priority", classes = [[64], []]', 15, "a DSCP is 0 to 63"),
    ('limit = "6 MiB"', 'discipline = "token-bucket", burst = "9 kB"', 15, "rate is missing"),
    ('loss = "0.1 %"', "loss = 2", 16, "a probability from 0 to 1"),
    ('loss = "0.1 %"', 'loss = { model = "burst" }', 16, "gilbert-elliott"),
    ("p = 0.01", "p = 1.01", 17, "a probability from 0 to 1"),
    ('kind = "iperf3"', 'kind = "iperf"', 19, "allowed are iperf3, udp, ppbp"),
    ('kind = "iperf3"\n', "", 18, "kind is missing"),
    ('from = "a"', 'from = "r"', 20, "there is no such host; the hosts are a, b"),
    ('to = "b"', 'to = "a"', 21, "is also where it comes from"),
    ('stop = "3 s"', 'stop = "1 s"', 23, "stop = 1 s is not after start = 1 s"),
    ('congestion = "bbr"', 'congestion = "ledbat:shallow"', 24, 'a name such as "cubic"'),
    ("streams = 2", "streams = 0", 25, "a whole number from 1 to 128"),
    ("streams = 2", "burst_rate = 2", 25, "burst_rate is not a key here"),
    ('off = "2 s"', "", 27, "on and off come together"),
    ('dscp = "CS1"', 'dscp = "CS9"', 34, "allowed are CS0, CS1"),
    ('burst_interval = "25 ms"', "", 35, "burst_interval is missing"),
    ('burst_interval = "25 ms"', 'burst_interval = "25 ms"\nhurst = 1.0', 41, "below 1"),
]


@pytest.mark.parametrize(("old", "new", "line", "says"), WRONG)
def test_what_is_wrong_is_refused_at_its_line(old, new, line, says):
    assert old in GOOD
    with pytest.raises(BadInput) as caught:
        parse(GOOD.replace(old, new, 1), "file.toml")
    message = str(caught.value)
    assert message.startswith(f"file.toml:{line}: ") and says in message, message


def test_a_file_that_cannot_be_read_is_bad_input(tmp_path):
    (tmp_path / "latin.toml").write_bytes(b'name = "\xe9"')
    for name, says in (("none.toml", "No such file"), ("latin.toml", "UTF-8"), (".", "directory")):
        with pytest.raises(BadInput, match=says):
            load(tmp_path / name)
    with pytest.raises(BadInput, match="0 nodes"):
        parse("")
