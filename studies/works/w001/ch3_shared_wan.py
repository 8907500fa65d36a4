"""Work 001, figure 3.2 (Overlay-1, chapters 5-7): the emulated WAN that its other results stand on.

500 Mbit/s, RTT 65 ms, 6 MiB drop-tail queue. A full queue adds 6 MiB / 500 Mbit/s = 100.7 ms, so
the RTT under load must reach about 165.7 ms and no more (figure 2.5 shows "up to 100 ms" more).
"""

import json
import re
import statistics
import subprocess
from collections.abc import Sequence
from typing import cast

from studies.works.row import Outcome, Row, Verdict
from weir.lab import Lab, parse
from weir.runs.point import Json, Point

_SCENARIO = """
[lab]
name = "shared-wan"
[hosts.s1]
[hosts.d1]
[routers.r1]
[routers.r2]
[[link]]
ends = ["s1", "r1"]
[[link]]
ends = ["r1", "r2"]
rate = "500 Mbit/s"
delay = "32.5 ms"
queue = { discipline = "fifo", limit = "6 MiB" }
[[link]]
ends = ["r2", "d1"]
"""

_SECONDS = 20
_RTT_FULL_MS = 65 + 6 * 2**20 * 8 / 500e6 * 1e3


def one_cubic_flow() -> Json:
    """Idle RTT and the machine's own part of it; goodput and largest RTT beside one CUBIC flow.

    RTTs are in ms, the goodput is in Mbit/s.
    """
    with Lab.up(parse(_SCENARIO, "the shared WAN of work 001")) as lab:
        idle_ms = statistics.median(_ping(lab, count=20))
        own_ms = _own_ms(lab)
        goodput_mbit_s, largest_ms = _loaded(lab)
    return [idle_ms, own_ms, goodput_mbit_s, largest_ms]


def _own_ms(lab: Lab) -> float:
    """What the machine adds to the RTT because it wakes late: measured, not what is emulated.

    The links at both ends have neither a rate nor a delay, so the RTT over each is what passing a
    packet on takes here. Of the link between them the emulator counts how late it released.
    """
    ends = sum(
        statistics.median(_ping(lab, source, target, count=20))
        for source, target in (("s1", "r1"), ("r2", "d1"))
    )
    (link,) = [link for link in lab.status()["links"] if link["forward"]["rate_bps"]]
    late_ns = sum(link[way]["lateness"]["p50_ns"] for way in ("forward", "backward"))
    return float(ends + late_ns / 1e6)


def _judge(results: Sequence[Json]) -> Outcome:
    ((idle_ms, own_ms, goodput_mbit_s, largest_ms),) = cast(Sequence[list[float]], results)
    ours = (
        f"idle RTT {idle_ms:.2f} ms, of which {own_ms:.2f} ms are this machine's; one CUBIC flow "
        f"{goodput_mbit_s:.0f} Mbit/s after its ramp; RTT under load up to {largest_ms:.1f} ms"
    )
    holds = (
        abs(idle_ms - own_ms - 65) <= 0.3
        and goodput_mbit_s >= 470
        and _RTT_FULL_MS - 10 <= largest_ms <= _RTT_FULL_MS + 3
    )
    return Outcome(ours, Verdict.MATCHES if holds else Verdict.DIFFERS)


def _loaded(lab: Lab) -> tuple[float, float]:
    """Goodput of the last three quarters in Mbit/s, and the largest RTT in ms."""
    address = lab.address("d1")
    server = lab.popen("d1", ["iperf3", "-s", "-1", "--forceflush"], stdout=subprocess.PIPE)
    assert server.stdout is not None, "asked for above"
    server.stdout.readline()
    server.stdout.readline()
    client = ["iperf3", "-c", address, "-C", "cubic", "-t", str(_SECONDS), "-O", "5", "-J"]
    with lab.popen("s1", client, stdout=subprocess.PIPE, text=True) as sender:
        largest_ms = max(_ping(lab, count=_SECONDS * 4))
        report = json.loads(sender.communicate(timeout=60)[0])
    server.wait(timeout=10)
    return report["end"]["sum_received"]["bits_per_second"] / 1e6, largest_ms


def _ping(lab: Lab, source: str = "s1", target: str = "d1", *, count: int) -> list[float]:
    """RTTs in ms, four a second."""
    command = ["ping", "-n", "-i", "0.25", "-c", str(count), lab.address(target)]
    reply = lab.run(source, command, capture_output=True, text=True, check=False)
    return [float(time) for time in re.findall(r"time=([0-9.]+) ms", reply.stdout)]


ROWS = [
    Row(
        "001-fig-3.2",
        "The shared WAN: 500 Mbit/s, 65 ms, 6 MiB tail-drop queue, one CUBIC flow",
        "queueing adds up to 100 ms to the RTT (Fig. 2.5); the flow fills the link",
        lambda quick: [Point(one_cubic_flow, {})],
        _judge,
        live=1,
    )
]
