"""The emulator on the real thing: two namespaces, one link, the kernel's own ping and TCP."""

import contextlib
import json
import os
import pathlib
import secrets
import subprocess
import time

import pytest
from rig import opened_by, until

from weir._core import Emulator
from weir.errors import BadInput, WeirError

MS = 1_000_000
SYSCTLS = [
    "net.ipv4.tcp_rmem=4096 131072 67108864",
    "net.ipv4.tcp_wmem=4096 131072 67108864",
    "net.ipv4.tcp_no_metrics_save=1",
]


def direction(**changes):
    queue = {"discipline": "fifo", "limit": {"bytes": 1_000_000}}
    return {"rate_bps": None, "delay_ns": 0, "queue": queue} | changes


def config(forward, backward=None, netns=("/proc/self/ns/net",) * 2, name="wan"):
    ends = [
        {"netns": path, "device": f"weir-{end}", "mtu": 1500}
        for end, path in zip("ab", netns, strict=True)
    ]
    return {
        "seed": 1,
        "links": [
            {
                "name": name,
                "a": ends[0],
                "b": ends[1],
                "forward": forward,
                "backward": backward or forward,
            }
        ],
    }


def run(*words):
    return subprocess.run(words, check=True, capture_output=True, text=True).stdout


class Path:
    """Two namespaces joined by one emulated link: 10.9.0.1 is a, 10.9.0.2 is b."""

    def __init__(self, names, emulator):
        self.names, self.emulator = names, emulator

    def a(self, *words):
        return run("ip", "netns", "exec", self.names[0], *words)

    def link(self):
        return json.loads(self.emulator.stats())["links"][0]

    @contextlib.contextmanager
    def flow(self):
        """One CUBIC flow from a to b by iperf3, which fills the queue in the context."""
        inside = [["ip", "netns", "exec", name, "iperf3"] for name in self.names]
        server = [*inside[1], "-s", "-1", "--forceflush"]
        client = [*inside[0], "-c", "10.9.0.2", "-C", "cubic", "-t", "120", "-J"]
        with contextlib.ExitStack() as stack:
            piped = {"stdout": subprocess.PIPE, "text": True}
            listening = stack.enter_context(subprocess.Popen(server, **piped))
            stack.callback(listening.kill)
            # A client that comes before the server listens is refused: wait for its word.
            assert any("listening" in line for line in listening.stdout)
            sending = stack.enter_context(subprocess.Popen(client, **piped))
            stack.callback(sending.kill)
            while self.link()["forward"]["dropped_queue"] == 0:
                assert sending.poll() is None, "the flow ended before it filled the queue"
            yield sending


@contextlib.contextmanager
def path(forward, backward=None):
    names = [f"weir-{secrets.token_hex(4)}" for _ in range(2)]
    with contextlib.ExitStack() as stack:
        for name in names:
            run("ip", "netns", "add", name)
            stack.callback(run, "ip", "netns", "del", name)
            run("ip", "netns", "exec", name, "sysctl", "-q", "-w", *SYSCTLS)
        netns = [f"/run/netns/{name}" for name in names]
        emulator = Emulator(json.dumps(config(forward, backward, netns)))
        stack.callback(emulator.stop)
        emulator.start()
        for name, device, ours, theirs in zip(
            names,
            ["weir-a", "weir-b"],
            ["10.9.0.1", "10.9.0.2"],
            ["10.9.0.2", "10.9.0.1"],
            strict=True,
        ):
            ip = ["ip", "-n", name]
            run(*ip, "address", "add", ours, "peer", theirs, "dev", device)
            run(*ip, "link", "set", device, "up")
        yield Path(names, emulator)


def median_rtt_ms(report):
    """The median of the times that `ping` printed."""
    times = sorted(
        float(line.split("time=")[1].split()[0]) for line in report.splitlines() if "time=" in line
    )
    return times[len(times) // 2]


@pytest.mark.alone
def test_a_link_of_10_ms_delays_a_ping_by_20_ms(measured):
    with path(direction(delay_ns=10 * MS)) as link:

        def check():
            rtt = median_rtt_ms(link.a("ping", "-c", "25", "-i", "0.02", "10.9.0.2"))
            assert rtt == pytest.approx(20, abs=0.3)

        measured(check)


def test_processors_stay_awake_while_packets_flow_and_a_second_longer():
    requests = pathlib.Path("/dev/cpu_dma_latency")
    if not os.access(requests, os.W_OK):
        pytest.skip(f"needs {requests}")

    def is_asked():
        return requests in opened_by()

    with path(direction()) as link:
        for _ in range(2):
            begin = time.monotonic()
            ping = ["ip", "netns", "exec", link.names[0], "ping", "-c", "25", "-i", "0.02"]
            with subprocess.Popen([*ping, "10.9.0.2"], stdout=subprocess.DEVNULL):
                until(is_asked)
            # Whoever looks at the statistics does not keep them awake.
            while is_asked():
                awake = link.link()["headroom"]["awake"]
                assert awake or not is_asked()
                assert time.monotonic() < begin + 60
            # The last of 25 is sent half a second after the first.
            assert time.monotonic() > begin + 1.3
    assert not is_asked()


@pytest.mark.alone
def test_a_link_of_100_mbit_carries_its_rate_and_no_more(measured):
    with path(direction(rate_bps=100_000_000, delay_ns=5 * MS)) as link:
        with link.flow() as sending:

            def check():
                begin, before = time.monotonic(), link.link()["forward"]
                with pytest.raises(subprocess.TimeoutExpired):
                    sending.wait(timeout=5)
                end, stats = time.monotonic(), link.link()["forward"]
                carried = 8 * (stats["bytes_out"] - before["bytes_out"]) / (end - begin)
                assert carried == pytest.approx(100e6, rel=0.01)

            measured(check)
        stats = link.link()["forward"]
    assert stats["malformed"] == stats["dropped_memory"] == 0
    counted = ["packets_out", "dropped_queue", "dropped_loss", "queue_packets", "delayed_packets"]
    assert stats["packets_in"] == sum(stats[key] for key in counted)


SERVE = """
import hashlib, socket
server = socket.create_server(("10.9.0.2", 5000))
print("listening", flush=True)
connection, _ = server.accept()
digest = hashlib.sha256()
while block := connection.recv(1 << 16):
    digest.update(block)
print(digest.hexdigest())
"""
SEND = """
import hashlib, random, socket
data = random.Random(1).randbytes(20_000_000)
with socket.create_connection(("10.9.0.2", 5000)) as connection:
    connection.sendall(data)
print(hashlib.sha256(data).hexdigest())
"""


def test_what_arrives_over_a_line_that_loses_packets_is_what_was_sent():
    lossy = {"model": "bernoulli", "probability": 0.02}
    with path(direction(rate_bps=400_000_000, delay_ns=MS, jitter_ns=MS // 2, loss=lossy)) as link:
        server = ["ip", "netns", "exec", link.names[1], "python3", "-c", SERVE]
        with subprocess.Popen(server, stdout=subprocess.PIPE, text=True) as receiving:
            assert receiving.stdout.readline() == "listening\n"
            sent = link.a("python3", "-c", SEND)
            received = receiving.stdout.readline()
        stats = link.link()["forward"]
    assert received == sent
    # The line sees the packets of an MTU of 1500, not the kernel's super-packets.
    assert stats["packets_in"] > 20_000_000 / 1448
    assert stats["bytes_in"] <= 1500 * stats["packets_in"]
    # Four standard deviations of a binomial: a quarter, of 14 000 packets.
    assert stats["dropped_loss"] / stats["packets_in"] == pytest.approx(0.02, rel=0.25)
    # The device's own queue is short: it loses what comes while others keep the machine from us.
    assert stats["malformed"] == stats["dropped_memory"] == 0


def test_a_device_that_exists_already_is_bad_input_and_leaves_nothing():
    with path(direction()) as link:
        netns = [f"/run/netns/{name}" for name in link.names]
        second = config(direction(), netns=netns)
        second["links"][0]["a"]["device"] = "weir-new"
        emulator = Emulator(json.dumps(second))
        with pytest.raises(BadInput, match="weir-b: exists already"):
            emulator.start()
        assert "weir-new" not in link.a("ip", "-br", "link")


def test_a_stopped_emulator_leaves_no_device_and_says_that_it_is_stopped():
    with path(direction()) as link:
        assert "weir-a" in link.a("ip", "-br", "link")
        link.emulator.stop()
        assert "weir-a" not in link.a("ip", "-br", "link")
        with pytest.raises(WeirError, match="not running"):
            link.emulator.stats()


@pytest.mark.parametrize(
    ("changes", "named"),
    [
        ({"rate_bps": 0}, "forward.rate_bps = 0"),
        (
            {"queue": {"discipline": "fifo", "limit": {"bytes": 9000, "packets": 5}}},
            "expected",
        ),
        ({"queue": {"discipline": "fifo", "limit": {"bytes": 100}}}, "queue.limit = 100 bytes"),
        ({"queue": {"discipline": "priority", "limit": {"packets": 1}}}, "each of the two classes"),
        ({"queue": {"discipline": "lifo"}}, "lifo"),
        ({"loss": {"model": "bernoulli", "probability": 1.5}}, "forward.loss.probability = 1.5"),
        ({"loss": {"model": "markov"}}, "markov"),
        ({"speed": 5}, "speed"),
    ],
)
def test_a_wrong_direction_is_bad_input_that_names_it(changes, named):
    with pytest.raises(BadInput, match=named.replace(".", r"\.")):
        Emulator(json.dumps(config(direction(**changes), direction())))


def test_a_wrong_link_is_bad_input_that_names_it():
    twice = config(direction())
    twice["links"] *= 2
    with pytest.raises(BadInput, match=r'"wan".*two links'):
        Emulator(json.dumps(twice))
    with pytest.raises(BadInput, match=r"a\.netns.*No such file"):
        Emulator(json.dumps(config(direction(), netns=("/nowhere", "/proc/self/ns/net"))))
    with pytest.raises(BadInput, match="line 1"):
        Emulator("{")


def cell(channel=None, link=None, forward=None, a=None):
    """A station and its access point, with what is wrong of them."""
    wrong = config(
        direction(**({"rate_bps": 11_000_000} | (forward or {}))), direction(rate_bps=1_000_000)
    )
    wrong["channels"] = [{"name": "air", "config": {"standard": "802.11b"} | (channel or {})}]
    wrong["links"][0] |= {"channel": "air"} | (link or {})
    for end, station in (("a", "phone"), ("b", "ap")):
        wrong["links"][0][end]["station"] = station
    wrong["links"][0]["a"] |= a or {}
    return wrong


@pytest.mark.parametrize(
    ("changes", "named"),
    [
        ({"channel": {"retry_limit": 0}}, '"air": retry_limit = 0'),
        ({"channel": {"standard": "802.11z"}}, "802.11z"),
        ({"link": {"channel": "six"}}, '"wan": channel = six: there is no such channel'),
        ({"link": {"channel": None}}, '"air": it has no stations'),
        ({"forward": {"rate_bps": 7}}, "forward.rate_bps = 7: 802.11b sends at"),
        ({"forward": {"delay_ns": 5}}, "forward.delay_ns = 5: a wireless link has no delay"),
        ({"a": {"station": "ap"}}, "are two stations"),
        ({"a": {"station": ""}}, "are two stations"),
        ({"a": {"ethernet": True}}, "a.ethernet = true"),
        ({"a": {"mtu": 9000}}, "mtu_bytes = 9000"),
    ],
)
def test_a_wrong_cell_is_bad_input_that_names_it(changes, named):
    with pytest.raises(BadInput, match=named.replace(".", r"\.")):
        Emulator(json.dumps(cell(**changes)))


def test_two_channels_of_one_name_are_bad_input():
    twice = cell()
    twice["channels"] *= 2
    with pytest.raises(BadInput, match='"air": there are two of that name'):
        Emulator(json.dumps(twice))
