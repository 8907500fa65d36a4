"""Elephants on real switches: the mark on packets that arrive, from whoever says so to its end."""

import contextlib
import json
import re
import subprocess
import sys
import time
from pathlib import Path
from types import SimpleNamespace

import pytest
from rig import WEIR, free_port, lab_lacks, until

from weir.calendar.client import CalendarClient, RefusedTransfer
from weir.calendar.rest.tokens import TokenFile
from weir.lab import Lab, parse, switches

CABLES = [("h1", "s1"), ("s1", "s2"), ("s2", "h2"), ("s1", "s3"), ("s3", "s2")]
RING = """\
[lab]
name = "elephants"
ipv6 = true
[hosts]
h1 = {}
h2 = {}
[routers]
s1 = { kind = "switch" }
s2 = { kind = "switch" }
s3 = { kind = "switch" }
""" + "".join(f'[[link]]\nends = ["{a}", "{b}"]\n' for a, b in CABLES)
# Datagrams to a port; and the code points with which they arrive, as they change.
SEND = """
import socket, sys, threading
dscp = int(sys.argv[2])
s = socket.socket(socket.AF_INET6 if ":" in sys.argv[1] else socket.AF_INET, socket.SOCK_DGRAM)
if s.family == socket.AF_INET6:
    s.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_TCLASS, dscp << 2)
else:
    s.setsockopt(socket.IPPROTO_IP, socket.IP_TOS, dscp << 2)
s.bind(("", 5000))
fast = threading.Event()
def hear():
    sys.stdin.readline()
    fast.set()
    sys.stdin.readline()
    fast.clear()
threading.Thread(target=hear, daemon=True).start()
while True:
    # 7 datagrams each 10 ms, as the machine allows: up to 8 Mbit/s.
    for _ in range(7 if fast.is_set() else 1):
        s.sendto(b"x" * (1400 if fast.is_set() else 1), (sys.argv[1], 7000))
    threading.Event().wait(0.01 if fast.is_set() else 0.05)
"""
# Carries what a switch samples out of its own room.
CARRY = """
import contextlib, socket, sys
taken = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
taken.bind(("127.0.0.1", 6343))
onward = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
onward.bind(sys.argv[2])
print(flush=True)
while True:
    data = taken.recv(2048)
    with contextlib.suppress(OSError):  # nobody listens yet
        onward.sendto(data, sys.argv[1])
"""
TAKE = """
import socket, sys
s = socket.socket(socket.AF_INET6 if ":" in sys.argv[1] else socket.AF_INET, socket.SOCK_DGRAM)
if s.family == socket.AF_INET6:
    s.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_RECVTCLASS, 1)
else:
    s.setsockopt(socket.IPPROTO_IP, socket.IP_RECVTOS, 1)
s.bind(("", 7000))
last = None
while True:
    tos = s.recvmsg(9, 99)[1][0][2][0] >> 2
    if tos != last:
        print(tos, flush=True)
    last = tos
"""


# Mice: datagrams of which each is a flow of its own, more than the narrow link carries.
MICE = """
import socket, sys, threading
sender = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
port = 0
while True:
    for _ in range(20):
        port = (port + 1) % 1000
        sender.sendto(b"x" * 1400, (sys.argv[1], 20_000 + port))
    threading.Event().wait(0.01)
"""


# One narrow link, in front of which elephants wait behind all others.
NARROW_CABLES = [("h1", "s1"), ("h3", "s1"), ("s1", "s2"), ("s2", "h2")]
NARROW = """\
[lab]
name = "narrow"
[hosts]
h1 = {}
h2 = {}
h3 = {}
[routers]
s1 = { kind = "switch" }
s2 = { kind = "switch" }
[switches]
[[switches.class]]
name = "ordinary"
rate = "97 %"
[[switches.class]]
name = "elephants"
dscp = ["CS1"]
rate = "3 %"
[[link]]
ends = ["h1", "s1"]
[[link]]
ends = ["h3", "s1"]
[[link]]
ends = ["s1", "s2"]
rate = "2 Mbit/s"
queue = { limit = "200 ms" }
[[link]]
ends = ["s2", "h2"]
"""


@pytest.fixture(params=[(RING, CABLES)], ids=["ring"])
def lab(request, tmp_path, monkeypatch):
    """Switches that wait for a controller, and what the controller has to know of them."""
    text, cables = request.param
    if lacking := switches.missing() or lab_lacks():
        pytest.skip(f"a lab of switches needs {lacking}")
    monkeypatch.setenv("WEIR_RUNTIME_DIR", str(tmp_path / "run"))
    where = f"unix:{tmp_path}/c"
    with Lab.up(parse(text), controller=where) as up:
        nodes = {name: {"address": up.address(name)} for name in up.hosts}
        for name, node in nodes.items():
            node |= {"address6": sixth} if (sixth := up.address6(name)) else {}
        nodes |= {name: {"datapath": one.datapath_id} for name, one in up.switches().items()}
        links = [{"name": f"{a}{b}", "ends": [a, b], "capacity": "1 Gbit/s"} for a, b in cables]
        network = tmp_path / "network.json"
        network.write_text(json.dumps({"nodes": nodes, "links": links}))
        yield SimpleNamespace(lab=up, where=where, network=str(network), folder=tmp_path)


@contextlib.contextmanager
def running(*command):
    """A program of weir's, killed at the end."""
    with subprocess.Popen([WEIR, *command], stdout=subprocess.PIPE, text=True) as process:
        try:
            yield process
        finally:
            process.kill()


@contextlib.contextmanager
def calendar(lab):
    """A calendar with its client, and how a controller reaches it."""
    file, port = lab.folder / "tokens.json", free_port()
    token = TokenFile(file).create("test", "admin")
    url, store = f"http://127.0.0.1:{port}", f"sqlite:///{lab.folder / 'store.db'}"
    command = ["calendar", "serve", "--network", lab.network, "--store", store]
    command += ["--tokens", str(file), "--listen", f"127.0.0.1:{port}"]
    with running(*command) as process, CalendarClient(url, token) as client:
        assert process.stdout.readline()
        yield client, ["--calendar", url, "--token", token]


@contextlib.contextmanager
def arriving(lab, dscp=0, to=None):
    """Datagrams from h1 to h2: the next code point that they arrive with, and their sender.

    They go to the IPv4 address of h2 unless another is given, and are few and small but from the
    first line that the sender is given to the next.
    """
    up, python = lab.lab, sys.executable
    seen = []
    words = [to or up.address("h2"), str(dscp)]
    with (
        up.popen("h2", [python, "-c", TAKE, words[0]], stdout=subprocess.PIPE, text=True) as taker,
        up.popen("h1", [python, "-c", SEND, *words], stdin=subprocess.PIPE, text=True) as sender,
    ):

        def next_mark():
            seen.append(int(taker.stdout.readline()))
            return seen[-1]

        def go(pace):
            sender.stdin.write(f"{pace}\n")
            sender.stdin.flush()

        try:
            yield next_mark, go
        finally:
            sender.kill()
            taker.kill()


def test_an_elephant_that_is_told_of_is_marked_at_once_and_until_it_is_over(lab):
    with calendar(lab) as (client, where):
        command = ["control", "serve", "--network", lab.network, "--listen", lab.where, *where]
        command += ["--headroom", "dynamic"]
        with running(*command), arriving(lab) as (next_mark, _):
            assert next_mark() == 0
            flow = {"source": "h1", "destination": "h2", "protocol": "udp"}
            other = client.tell_elephant(flow | {"destination_port": 7001})
            told = client.tell_elephant(flow | {"source_port": 5000, "destination_port": 7000})
            begun_s = time.monotonic()
            assert next_mark() == 8
            print(f"marked {time.monotonic() - begun_s:.2f} s after it was told of")

            def shown(identifier):
                return next(x for x in client.elephants() if x["id"] == identifier)

            until(lambda: shown(told["id"])["carried_bytes"] > 0 and shown(other["id"])["marked"])
            # The other was first and has the direct path.
            around = [f"{name}.forward" for name in ("h1s1", "s1s3", "s3s2", "s2h2")]
            assert (shown(other["id"])["path"], shown(told["id"])["path"]) == ([], around)
            until(lambda: passed(lab.lab.switches()["s3"]))
            client.end_elephant(other["id"])
            client.end_elephant(told["id"])
            begun_s = time.monotonic()
            assert next_mark() == 0
            print(f"unmarked {time.monotonic() - begun_s:.2f} s after it was over")
            # Long enough for the mark to be there before it is over.
            client.tell_elephant(flow | {"expires_s": 5.0})
            assert [next_mark(), next_mark()] == [8, 0]


def test_an_elephant_that_goes_by_ipv6_is_marked_until_it_is_over(lab):
    with calendar(lab) as (client, where):
        command = ["control", "serve", "--network", lab.network, "--listen", lab.where, *where]
        with running(*command), arriving(lab, dscp=46, to=lab.lab.address6("h2")) as (next_mark, _):
            assert next_mark() == 46
            flow = {"source": "h1", "destination": "h2", "protocol": "udp"}
            told = client.tell_elephant(flow | {"source_port": 5000, "destination_port": 7000})
            assert next_mark() == 8
            until(lambda: client.elephants()[0]["carried_bytes"] > 0)
            client.end_elephant(told["id"])
            assert next_mark() == 46


def passed(bridge):
    """Whether packets with a label have passed a switch."""
    command = ["ovs-ofctl", "-O", "OpenFlow13", "dump-flows", str(bridge.management)]
    said = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    return re.search(r"n_packets=[1-9]\d*,.* priority=50000,", said)


@contextlib.contextmanager
def sampling(lab, one_of):
    """All switches send one of so many packets by sFlow; where a controller takes it."""
    where = lab.folder / "samples"
    with contextlib.ExitStack() as stack:
        for name, bridge in lab.lab.switches().items():
            command = [sys.executable, "-c", CARRY, where, lab.folder / f"from-{name}"]
            carrier = stack.enter_context(lab.lab.popen(name, command, stdout=subprocess.PIPE))
            stack.callback(carrier.kill)
            assert carrier.stdout.readline()
            words = ["ovs-vsctl", f"--db=unix:{bridge.database}", "--", "--id=@s", "create"]
            words += ["sFlow", "agent=lo", 'targets="127.0.0.1:6343"', "header=128"]
            words += [f"sampling={one_of}", "polling=0"]
            words += ["--", "set", "Bridge", bridge.device, "sflow=@s"]
            subprocess.run(words, check=True, stdout=subprocess.DEVNULL)
        yield f"unix:{where}"


def test_an_elephant_that_nobody_tells_of_is_found_whatever_it_calls_itself(lab):
    with sampling(lab, 16) as where:
        command = ["control", "serve", "--network", lab.network, "--listen", lab.where]
        command += ["--sflow", where, "--find-from", "400 kbit/s"]
        with running(*command), arriving(lab, dscp=46) as (next_mark, go):
            assert next_mark() == 46
            go("fast")
            begun_s = time.monotonic()
            assert next_mark() == 8
            print(f"found {time.monotonic() - begun_s:.2f} s after its begin")
            go("slow")
            begun_s = time.monotonic()
            assert next_mark() == 46
            print(f"unmarked {time.monotonic() - begun_s:.2f} s after it was slow")


def dropped(up, name):
    """What the class of this name has dropped in front of the narrow link."""
    switch = next(one for one in up.status()["switches"] if one["name"] == "s1")
    port = next(one for one in switch["ports"] if one["to"] == "s2")
    return next(one["dropped"] for one in port["classes"] if one["name"] == name)


@pytest.mark.parametrize("lab", [(NARROW, NARROW_CABLES)], indirect=True, ids=["narrow"])
def test_who_floods_as_expedited_is_found_and_then_hurts_nobody_else(lab):
    with sampling(lab, 16) as where:
        command = ["control", "serve", "--network", lab.network, "--listen", lab.where]
        command += ["--sflow", where, "--find-from", "400 kbit/s"]
        with running(*command), arriving(lab, dscp=46) as (next_mark, go):
            assert next_mark() == 46
            go("fast")
            assert next_mark() == 8
            until(lambda: dropped(lab.lab, "elephants") > 0)
            before = dropped(lab.lab, "ordinary")
            assert reached(lab.lab, 20) == 20
            assert dropped(lab.lab, "ordinary") == before


def reached(up, count):
    """How many of so many pings of h3 were answered by h2."""
    ping = ["ping", "-c", str(count), "-i", "0.05", "-W", "20", "h2"]
    said = up.run("h3", ping, stdout=subprocess.PIPE, text=True).stdout
    return int(re.search(r"(\d+) received", said)[1])


@pytest.mark.parametrize("lab", [(NARROW, NARROW_CABLES)], indirect=True, ids=["narrow"])
def test_who_calls_its_mice_elephants_hurts_nobody_else_and_takes_no_more_rules_than_it_may(lab):
    file = Path(lab.network)
    file.write_text(json.dumps(json.loads(file.read_text()) | {"quotas": {"elephants": 3}}))
    with calendar(lab) as (client, where):
        command = ["control", "serve", "--network", lab.network, "--listen", lab.where, *where]
        up = lab.lab
        words = [sys.executable, "-c", MICE, up.address("h2")]
        with running(*command), up.popen("h1", words) as mice:
            try:
                until(lambda: dropped(up, "ordinary") > 0)
                mouse = {"source": "h1", "destination": "h2", "protocol": "udp"}
                for port in range(20_000, 20_002):
                    client.tell_elephant(mouse | {"destination_port": port})
                client.tell_elephant(mouse)
                with pytest.raises(RefusedTransfer, match="as many as may be at a time"):
                    client.tell_elephant(mouse | {"destination_port": 20_002})
                # One by its own word took them all in, and what waited before is through.
                until(lambda: all(one["marked"] for one in client.elephants()))
                until(lambda: is_calm(up))
                before, rules = dropped(up, "ordinary"), marking(up.switches()["s1"])
                assert reached(up, 20) == 20
                assert dropped(up, "ordinary") == before
                assert dropped(up, "elephants") > 0
                assert len(rules) == 3
            finally:
                mice.kill()


def is_calm(up):
    """Whether nothing ordinary is dropped while a ping goes there and back."""
    before = dropped(up, "ordinary")
    return reached(up, 1) == 1 and dropped(up, "ordinary") == before


def marking(bridge):
    """The rules by which a switch marks elephants."""
    command = ["ovs-ofctl", "-O", "OpenFlow13", "dump-flows", str(bridge.management)]
    said = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    return re.findall(r" priority=38000,", said)
