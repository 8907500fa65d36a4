"""The hosts of the mover benchmark: real namespaces, real cgroups, a mover of ten lines."""

import subprocess
import sys
import time
from pathlib import Path

import pytest

from benches.account import Command, _cgroup2_mount
from benches.mover import Sizes, bench
from benches.peers.mover import ONE, Mover, Protection
from benches.testbed import BARE, SHAPED
from weir.errors import TransferFailed, Unsupported

SIZES = Sizes(file_bytes=1 << 24, files=3)

RECEIVE = """
import socket, sys
data = socket.create_server((sys.argv[1], 4000)).accept()[0]
with open(sys.argv[2], "wb") as file:
    while chunk := data.recv(1 << 20):
        file.write(chunk)
"""
SEND = """
import socket, sys, time
data = socket.create_connection((sys.argv[1], 4000))
with open(sys.argv[2], "rb") as file:
    data.sendall(file.read()[int(sys.argv[3]):])
data.shutdown(socket.SHUT_WR)
while sum(time.process_time_ns() for _ in range(100)) < 100 * float(sys.argv[4]) * 1e9:
    pass
"""


class Plain(Mover):
    """Sends a file without its first `skipped` bytes, then computes until `cpu_s` are used."""

    name = "plain"
    protection = Protection.NONE
    port = 4000
    data = (ONE,)
    ends_with_server = True

    def __init__(self, skipped=0, cpu_s=0.0):
        self.skipped, self.cpu_s = skipped, cpu_s

    def server(self, job):
        return Command([sys.executable, "-c", RECEIVE, job.address, str(job.target)])

    def client(self, job):
        what = [job.address, str(job.source), str(self.skipped), str(self.cpu_s)]
        return Command([sys.executable, "-c", SEND, *what])


@pytest.fixture(scope="module")
def ready():
    try:
        with bench(SIZES, [ONE], []) as found:
            yield found
    except Unsupported as error:
        pytest.skip(str(error))


def test_what_arrived_whole_is_intact_over_both_links(ready):
    bare, shaped = (ready.measure(Plain(), ONE, link) for link in (BARE, SHAPED))
    assert bare.difference is None and shaped.difference is None
    # 16 MiB at 1 Gbit/s, less the shaper's burst and its 4 MB of queue, take 0.1 s and more.
    assert shaped.wall_s > 0.1
    assert bare.bytes == 1 << 24


def test_what_arrived_short_is_not_intact(ready):
    assert ready.measure(Plain(skipped=7), ONE, BARE).difference == "one: -7 bytes"


@pytest.mark.alone
def test_processor_time_is_that_of_the_end_that_used_it(ready, measured):
    def check():
        idle, busy = (ready.measure(Plain(cpu_s=cpu_s), ONE, BARE) for cpu_s in (0.0, 1.0))
        assert busy.client_cpu_s - idle.client_cpu_s == pytest.approx(1.0, abs=0.15)
        assert busy.server_cpu_s - idle.server_cpu_s == pytest.approx(0.0, abs=0.15)
        assert busy.wall_s > 0.95

    measured(check)


def test_a_client_that_fails_is_an_error_with_its_words(ready):
    class Broken(Plain):
        def client(self, job):
            return Command([sys.executable, "-c", "raise SystemExit('out of ink')"])

    with pytest.raises(TransferFailed, match="out of ink"):
        ready.measure(Broken(), ONE, BARE)


HOLD = """
import sys
from benches.mover import ONE, Sizes, bench
with bench(Sizes(1 << 24, 1), [ONE], []) as ready:
    print("held by", ready._bed.sender.pid, ready._bed.receiver.pid, flush=True)
    sys.stdin.read()
"""


def test_a_killed_benchmark_leaves_no_process_and_its_cgroup_is_swept(ready):
    del ready
    argv = [sys.executable, "-c", HOLD]
    with subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as held:
        words = next(line for line in held.stdout if line.startswith("held by")).split()
        left = [Path(f"/proc/{pid}/ns/net") for pid in words[2:]]
        assert all(path.exists() for path in left)
        held.kill()
    deadline = time.monotonic() + 30
    while any(path.exists() for path in left):
        assert time.monotonic() < deadline
        time.sleep(0.01)
    mount = _cgroup2_mount()
    stale = mount / f"weir-bench-{held.pid}"
    assert stale.exists()
    # In a process of its own: this one has its cgroups already.
    sweep = "from benches.account import Cgroups\nwith Cgroups(): pass"
    subprocess.run([sys.executable, "-c", sweep], check=True, timeout=60)
    assert not stale.exists()
