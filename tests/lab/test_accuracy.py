"""The emulated links are what the scenario says, measured on the real thing from outside them.

The bounds are the product's promises, not what this machine happens to do. Medians and counts
over seconds carry the comparison, and what a busy machine has spoilt is measured again.
"""

import contextlib
import itertools
import json
import os
import re
import statistics
import subprocess
import sys
import time
from pathlib import Path

import pytest
from lab_rig import supervisor_of
from rig import until

from weir.lab import load

pytestmark = pytest.mark.alone

HERE = Path(__file__).parent
PACKET_BITS = 1498 * 8  # 1470 B of payload with its headers
PORT = 9000
# The hosts' programs are not what is measured: other work on the machine shall not hold them up.
EAGER = ["nice", "-n", "-15"]
# Leaves a processor to others for 10 ms of each 100.
HOG = """
import threading, time
while True:
    begin_s = time.monotonic()
    while time.monotonic() < begin_s + 0.09:
        pass
    threading.Event().wait(0.01)
"""
CAPTURED = {"capture_output": True, "text": True}


def link(**keys):
    lines = "\n".join(f"{key} = {value}" for key, value in keys.items())
    return (
        f'[lab]\nname = "pair"\n[hosts]\na = {{}}\nb = {{}}\n[[link]]\nends = ["a", "b"]\n{lines}\n'
    )


def round_trips_ms(lab, node, to, count=100, interval_s=0.01):
    """Round-trip times by ping, which takes the arrival's time from the kernel."""
    argv = ["ping", "-c", str(count), "-i", str(interval_s), to]
    printed = lab.run(node, argv, capture_output=True, text=True).stdout
    times = [float(value) for value in re.findall(r"time=([\d.]+) ms", printed)]
    assert len(times) == count
    return times


def forward(lab):
    return lab.status()["links"][0]["forward"]


class Blast:
    """UDP from a to b at a rate until its end is asked for, counted at both ends."""

    def __init__(self, lab, rate_bps, dscp=0, port=PORT):
        count = [*EAGER, sys.executable, HERE / "count_packets.py", str(port)]
        pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
        self._lab = lab
        self._counter = lab.popen("b", count, **pipes)
        assert self._counter.stdout.readline() == "ready\n"
        datagrams = {
            "address": lab.address("b"),
            "port": port,
            "dscp": dscp,
            "source": {"kind": "udp", "rate_bps": round(rate_bps), "payload_bytes": 1470},
        }
        order = {"datagrams": datagrams, "length_s": None}
        send = [*EAGER, sys.executable, "-m", "weir.lab.player", json.dumps(order)]
        self._sender = lab.popen("a", send, **pipes)
        assert self._sender.stdout.readline() == "ready\n"

    def begin(self):
        """Starts to send."""
        self._sender.stdin.write(f"{time.monotonic()}\n")
        self._sender.stdin.flush()

    def received(self):
        """Time and packets that have arrived by then."""
        self._counter.stdin.write("\n")
        self._counter.stdin.flush()
        return json.loads(self._counter.stdout.readline())

    def sent(self):
        """Packets handed to the kernel; ends the sender, and waits for the link to be empty."""
        with self._sender:
            self._sender.terminate()
            sent = json.loads(self._sender.stdout.read())
        until(lambda: forward(self._lab)["queue_packets"] == 0)
        until(lambda: forward(self._lab)["delayed_packets"] == 0)
        return sent["packets"]

    def __enter__(self):
        return self

    def __exit__(self, *_):
        for process in (self._sender, self._counter):
            with process:
                process.kill()


def test_a_65_ms_path_has_an_idle_round_trip_of_65_ms(lab_of, measured):
    lab = lab_of(link(delay='"32.5 ms"', rate='"500 Mbit/s"'))

    def check():
        median = statistics.median(round_trips_ms(lab, "a", "b", 200))
        print(f"median RTT {median} ms")
        assert abs(median - 65) <= 0.3

    measured(check)


def test_a_0_ms_path_adds_less_than_a_tenth_of_a_millisecond(lab_of, measured):
    lab = lab_of(link(rate='"1 Gbit/s"'))

    def check():
        across, within = [], []
        for _ in range(6):  # interleaved: whatever else runs burdens both alike
            within += round_trips_ms(lab, "a", "a", 50)
            across += round_trips_ms(lab, "a", "b", 50)
        added = statistics.median(across) - statistics.median(within)
        print(f"added {added:.3f} ms")
        assert 0 <= added < 0.1

    measured(check)


@pytest.mark.parametrize("rate_mbps", [10, 500])
def test_a_link_delivers_its_rate_and_drops_only_in_its_queue(lab_of, measured, rate_mbps):
    queue = '{ limit = "100 ms" }'
    lab = lab_of(link(rate=f'"{rate_mbps} Mbit/s"', delay='"1 ms"', queue=queue))
    with Blast(lab, rate_mbps * 1.2e6) as blast:
        blast.begin()
        until(lambda: forward(lab)["dropped_queue"] > 0)

        def check():
            begin_s, begin = blast.received()
            time.sleep(5)  # what is measured is what passes in five seconds
            end_s, end = blast.received()
            rate_bps = (end - begin) * PACKET_BITS / (end_s - begin_s)
            print(f"{rate_bps / 1e6:.3f} of {rate_mbps} Mbit/s")
            assert rate_bps == pytest.approx(rate_mbps * 1e6, rel=0.01)

        measured(check)
        sent = blast.sent()
        counters = forward(lab)
        _, received = blast.received()
    assert sent == counters["packets_in"] == received + counters["dropped_queue"]
    assert counters["dropped_queue"] > 0
    for cause in ("dropped_loss", "dropped_device", "dropped_memory", "malformed"):
        assert counters[cause] == 0, cause


@contextlib.contextmanager
def cubic_flow(lab, source, destination):
    """What one CUBIC flow delivers in each second, in bit/s as received, once its window is open.

    How long that takes is no matter of the path: on a busy machine a few late acknowledgements
    make CUBIC leave slow start early (HyStart, at 4 to 16 ms), and its growth from there is
    0.4 t^3 segments (RFC 9438, section 4.2): 26 s for 4 MB in flight and 6 MiB of queue. After
    the first drop its window, 0.7 of both together, keeps the link full.
    """
    serve = [*EAGER, "iperf3", "-4", "-s", "-1", "-i", "1", "-f", "k", "--forceflush"]
    ask = [*EAGER, "iperf3", "-c", destination, "-C", "cubic", "-t", "300"]
    with contextlib.ExitStack() as stack:
        pipe = {"stdout": subprocess.PIPE, "text": True}
        server = stack.enter_context(lab.popen(destination, serve, **pipe))
        stack.callback(server.kill)
        assert any("listening" in line for line in server.stdout)
        started_s = time.monotonic()
        client = stack.enter_context(lab.popen(source, ask, stdout=subprocess.DEVNULL))
        stack.callback(client.kill)
        until(lambda: forward(lab)["dropped_queue"] > 0, timeout_s=60)
        assert "cubic" in lab.run(source, ["ss", "-tinH", "dport", "=", ":5201"], **CAPTURED).stdout
        yield received_bps(server.stdout, time.monotonic() - started_s)


def received_bps(lines, after_s):
    """The rates that an iperf3 server prints for the seconds after a time of its flow."""
    for line in lines:
        found = re.search(r"([\d.]+)-[\d.]+ +sec .* ([\d.]+) Kbits/sec", line)
        if found and float(found[1]) >= after_s:
            yield float(found[2]) * 1e3


def carried_bps(lab, source, destination, enough_bps):
    """What the path carries of one CUBIC flow: the median of seven seconds, as received.

    A machine that is busy elsewhere may keep the flow's ends from it, so the best of up to four
    such medians counts. A path that is slower or loses packets is so in each of them.
    """
    medians = []
    with cubic_flow(lab, source, destination) as seconds:
        while len(medians) < 4 and max(medians, default=0) < enough_bps:
            medians.append(statistics.median(itertools.islice(seconds, 7)))
    print([f"{each / 1e6:.1f} Mbit/s" for each in medians], lab.status()["headroom"])
    return max(medians)


def test_the_wan_carries_one_cubic_flow_at_470_mbit_per_s(lab_of):
    lab = lab_of(load(HERE.parent.parent / "scenarios" / "wan.toml"))
    assert carried_bps(lab, "S1", "D1", 470e6) >= 470e6
    for way in ("forward", "backward"):
        for each in lab.status()["links"]:
            assert each[way]["dropped_device"] == each[way]["dropped_memory"] == 0


def test_1_gbit_per_s_with_10_ms_each_way(lab_of):
    lab = lab_of(link(rate='"1 Gbit/s"', delay='"10 ms"', queue='{ limit = "6 MiB" }'))
    # Full packets carry 1448 B of payload in 1500 B; the link's rate counts the whole packet.
    full_bps = 1e9 * 1448 / 1500
    assert carried_bps(lab, "a", "b", 0.99 * full_bps) == pytest.approx(full_bps, rel=0.01)


@pytest.mark.parametrize(
    ("loss", "expected"),
    [('"1 %"', 0.01), ('{ model = "gilbert-elliott", p = 0.005, r = 0.2 }', 0.005 / 0.205)],
)
def test_loss_has_the_rate_of_its_model(lab_of, loss, expected):
    lab = lab_of(link(loss=loss))
    with Blast(lab, 200e6) as blast:
        blast.begin()
        until(lambda: forward(lab)["packets_in"] > 40_000, timeout_s=60)
        sent, counters = blast.sent(), forward(lab)
        _, received = blast.received()
    assert sent == received + counters["dropped_loss"] + counters["dropped_device"]
    # Bursts of mean length 1 / r make the count of a Gilbert-Elliott loss this much wider.
    widening = 1 if "model" not in loss else (2 - 0.205) / 0.205
    passed = counters["packets_in"]
    deviation = (expected * (1 - expected) * widening / passed) ** 0.5
    assert counters["dropped_loss"] / passed == pytest.approx(expected, abs=4 * deviation)


def test_jitter_is_uniform_about_the_delay(lab_of, measured):
    lab = lab_of(link(delay='"20 ms"', jitter='"5 ms"'))

    def check():
        times = round_trips_ms(lab, "a", "b", 400, 0.012)
        # Two independent uniform parts of +-5 ms make a triangle of +-10 ms, whose quartiles lie
        # 10 x (1 - sqrt(1/2)) = 2.93 ms from its middle.
        lower, middle, upper = statistics.quantiles(times, n=4)
        print(f"quartiles {lower} {middle} {upper} ms")
        assert middle == pytest.approx(40, abs=1)
        assert upper - lower == pytest.approx(5.86, rel=0.2)
        assert min(times) >= 30

    measured(check)


def test_strict_priority_serves_cs0_before_cs1(lab_of, measured):
    queue = '{ discipline = "priority", limit = "200 kB" }'
    lab = lab_of(link(rate='"20 Mbit/s"', queue=queue))
    with (
        Blast(lab, 15e6, dscp=0) as upper,
        Blast(lab, 15e6, dscp=8, port=PORT + 1) as lower,
    ):
        upper.begin()
        lower.begin()
        until(lambda: forward(lab)["dropped_queue"] > 0)

        def check():
            begin_s, begin = served_by(upper, lower)
            until(lambda: time.monotonic() - begin_s > 2)
            end_s, end = served_by(upper, lower)
            # The lower class gets what the upper leaves: together they fill the link.
            assert (end - begin) * PACKET_BITS / (end_s - begin_s) == pytest.approx(20e6, rel=0.02)

        measured(check)
        sent_lower, sent_upper = lower.sent(), upper.sent()
        received_upper, received_lower = upper.received()[1], lower.received()[1]
        counters = forward(lab)
    assert received_upper == sent_upper
    assert sent_lower - received_lower == counters["dropped_queue"] > 0


def served_by(*blasts):
    """Mean time of reading and sum of the packets received by all."""
    times, packets = zip(*(blast.received() for blast in blasts), strict=True)
    return statistics.fmean(times), sum(packets)


def test_the_emulator_says_when_it_is_the_bottleneck(lab_of, weir):
    lab = lab_of(link(delay='"1 ms"'))
    assert not lab.status()["headroom"]["bottleneck"]
    # A machine that has little time for the emulator: its threads last, and something else on for
    # most of each tenth of a second. With none at all it could not even say so.
    tasks = Path(f"/proc/{supervisor_of(lab)}/task").iterdir()
    emulating = [task for task in tasks if (task / "comm").read_text().startswith("weir ")]
    assert emulating
    for thread in emulating:
        os.sched_setscheduler(int(thread.name), os.SCHED_IDLE, os.sched_param(0))
    hog = [*EAGER, sys.executable, "-c", HOG]
    hogs = [subprocess.Popen(hog) for _ in os.sched_getaffinity(0)]

    def owns_up():
        lab.run("a", ["ping", "-c", "20", "-i", "0.02", "-q", "b"], check=False, **CAPTURED)
        return lab.status()["headroom"]["bottleneck"]

    try:
        until(owns_up, timeout_s=30)
    finally:
        for process in hogs:
            with process:
                process.kill()
    assert "WARNING emulator" in weir("lab", "status").stdout
