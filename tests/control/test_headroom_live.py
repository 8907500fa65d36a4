"""Elephants on real switches: the mark on packets that arrive, from whoever says so to its end."""

import contextlib
import json
import subprocess
import sys
import time
from types import SimpleNamespace

import pytest
from rig import WEIR, free_port, lab_lacks, until

from weir.calendar.client import CalendarClient
from weir.calendar.tokens import TokenFile
from weir.lab import Lab, parse, switches

CABLES = [("h1", "s1"), ("s1", "s2"), ("s2", "h2"), ("s1", "s3"), ("s3", "s2")]
RING = """\
[lab]
name = "elephants"
[hosts]
h1 = {}
h2 = {}
[routers]
s1 = { kind = "switch" }
s2 = { kind = "switch" }
s3 = { kind = "switch" }
""" + "".join(f'[[link]]\nends = ["{a}", "{b}"]\n' for a, b in CABLES)
# Datagrams to a port, 20 a second; and the code points with which they arrive, as they change.
SEND = """
import socket, sys, threading
s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
s.bind(("", 5000))
pause = threading.Event()
while not pause.wait(0.05):
    s.sendto(b"x", (sys.argv[1], 7000))
"""
TAKE = """
import socket
s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
s.setsockopt(socket.IPPROTO_IP, socket.IP_RECVTOS, 1)
s.bind(("", 7000))
last = None
while True:
    tos = s.recvmsg(9, 99)[1][0][2][0] >> 2
    if tos != last:
        print(tos, flush=True)
    last = tos
"""


@pytest.fixture
def lab(tmp_path, monkeypatch):
    """Three switches that wait for a controller, and what the controller has to know of them."""
    if lacking := switches.missing() or lab_lacks():
        pytest.skip(f"a lab of switches needs {lacking}")
    monkeypatch.setenv("WEIR_RUNTIME_DIR", str(tmp_path / "run"))
    where = f"unix:{tmp_path}/c"
    with Lab.up(parse(RING), controller=where) as up:
        nodes = {name: {"address": up.address(name)} for name in up.hosts}
        nodes |= {name: {"datapath": one.datapath_id} for name, one in up.switches().items()}
        links = [{"name": f"{a}{b}", "ends": [a, b], "capacity": "1 Gbit/s"} for a, b in CABLES]
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
def arriving(lab):
    """Datagrams from h1 to h2; the code points that have been seen, as they came."""
    up, python = lab.lab, sys.executable
    seen = []
    with (
        up.popen("h2", [python, "-c", TAKE], stdout=subprocess.PIPE, text=True) as taker,
        up.popen("h1", [python, "-c", SEND, up.address("h2")]) as sender,
    ):

        def next_mark():
            seen.append(int(taker.stdout.readline()))
            return seen[-1]

        yield next_mark
        sender.kill()
        taker.kill()


def test_an_elephant_that_is_told_of_is_marked_at_once_and_until_it_is_over(lab):
    with calendar(lab) as (client, where):
        command = ["control", "serve", "--network", lab.network, "--listen", lab.where, *where]
        with running(*command), arriving(lab) as next_mark:
            assert next_mark() == 0
            flow = {"source": "h1", "destination": "h2", "protocol": "udp"}
            told = client.tell_elephant(flow | {"source_port": 5000, "destination_port": 7000})
            begun_s = time.monotonic()
            assert next_mark() == 8
            print(f"marked {time.monotonic() - begun_s:.2f} s after it was told of")
            until(lambda: [x["marked"] and x["carried_bytes"] > 0 for x in client.elephants()])
            client.end_elephant(told["id"])
            begun_s = time.monotonic()
            assert next_mark() == 0
            print(f"unmarked {time.monotonic() - begun_s:.2f} s after it was over")
            client.tell_elephant(flow | {"expires_s": 1.0})
            assert [next_mark(), next_mark()] == [8, 0]
