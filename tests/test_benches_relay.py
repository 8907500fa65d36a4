"""The relay's benchmark: what loads relays, the plain copy loop, and how results become rows."""

import contextlib
import json
import os
import shutil
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from benches import harness, relay
from benches.peers import copy_loop, relay_load
from benches.peers.relays import CopyLoop, HaProxy, Joined, Proxy, Way, own_bytes
from benches.relay import Found, Sizes
from weir.errors import Unsupported

PATIENCE_S = 120


@contextlib.contextmanager
def running(program, *words):
    """A program of the benchmark's, once it is ready."""
    command = [sys.executable, program.__file__, *map(str, words)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout.readline() == "ready\n"
            yield
        finally:
            process.kill()


def free():
    with socket.create_server(("127.0.0.1", 0)) as listener:
        return listener.getsockname()[1]


def load(*words):
    """What a client of the benchmark's finds."""
    command = [sys.executable, relay_load.__file__, *map(str, words)]
    done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=PATIENCE_S)
    return [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]


def test_loads_go_through_a_plain_copy_loop():
    port, relayed = free(), free()
    with running(relay_load, "serve", port), running(copy_loop, relayed, "127.0.0.1", port):
        (told,) = load("ping", "127.0.0.1", relayed, 50)
        assert 0 < told["p50_ms"] <= told["p99_ms"]
        (told,) = load("busy", "127.0.0.1", relayed, 20, 0.2)
        assert told["exchanges_per_s"] > 0
        whole = os.urandom(1 << 20)
        with socket.create_connection(("127.0.0.1", relayed), PATIENCE_S) as client:
            got = b""
            # No more under way than the echo's buffers hold.
            for at in range(0, len(whole), 1 << 16):
                client.sendall(whole[at : at + (1 << 16)])
                while len(got) < at + (1 << 16):
                    got += client.recv(1 << 16)
            client.shutdown(socket.SHUT_WR)
            assert (got, client.recv(1)) == (whole, b"")


def test_memory_is_what_a_process_has_for_itself():
    before = own_bytes(os.getpid())
    block = bytearray(os.urandom(1 << 16) * 512)
    assert own_bytes(os.getpid()) - before > len(block) / 2


def test_each_of_weirs_ways_is_compared_with_all_others_by_medians():
    def found(mbit_per_s, ms):
        one = Found()
        for speed, delay in zip(mbit_per_s, ms, strict=True):
            one.add("8 connections", "Mbit/s", speed)
            one.add("a byte there and back, median", "ms", delay)
        return one

    results = {
        Proxy().name: found([200, 400, 900], [0.3, 0.2, 0.4]),
        Joined().name: found([100, 100, 100], [0.5, 0.5, 0.5]),
        HaProxy().name: found([800, 500, 100], [0.2, 0.3, 0.3]),
        Way().name: found([2_000, 2_000, 4_000], [0.1, 0.1, 0.2]),
    }
    rows = harness.validate(relay.rows(results), "relay")
    ratios = {(row["metric"], row["peer"]): row["ratio"] for row in rows}
    assert ratios["weir relay proxy, 8 connections", "HAProxy"] == pytest.approx(0.8)
    assert ratios["weir relay proxy, 8 connections", "no proxy"] == pytest.approx(0.2)
    # Joining is measured by the proxy, too; the proxy by nothing of Weir's.
    assert ratios["weir relay join, 8 connections", "weir relay proxy"] == pytest.approx(0.25)
    assert ("weir relay proxy, 8 connections", "weir relay join") not in ratios
    added = "weir relay proxy, a byte there and back, median, added"
    # Round by round: 0.2, 0.1 and 0.2 against 0.1, 0.2 and 0.1.
    assert ratios[added, "HAProxy"] == pytest.approx(2.0)
    assert (added, "no proxy") not in ratios


@pytest.mark.parametrize("way", [Proxy(), Joined(), HaProxy(1), CopyLoop()], ids=lambda x: x.name)
def test_a_way_is_measured_from_end_to_end(way):
    if isinstance(way, HaProxy) and shutil.which("haproxy") is None:
        pytest.skip("haproxy is not installed; `make bench` installs it")
    sizes = Sizes(seconds=1, streams=(2,), pings=20, idle=50, busy=20, rest_s=0.05)
    try:
        found = relay.session([way], sizes, 1)[way.name].values
    except Unsupported as error:
        pytest.skip(str(error))
    assert found["2 connections", "Mbit/s"][0] > 0
    assert found["2 connections", "CPU s/GB"][0] > 0
    assert found["a byte there and back, median", "ms"][0] > 0
    assert found["20 busy connections, blocks there and back", "1/s"][0] > 0
    assert found["50 idle connections, memory of each", "KiB"][0] >= 0
    assert not list(Path("/sys/fs/cgroup").glob(f"weir-bench-{os.getpid()}"))
