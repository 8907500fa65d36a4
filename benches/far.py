"""Paths that have much under way: 2 Gbit/s and 100 ms in a lab, 10 Gbit/s and 300 ms simulated.

In the lab a file goes as `weir send` chooses, beside the best fixed setting (`benches.choice`); a
lab's hosts may have 64 MiB in a socket's buffer. The simulator, which no processor limits, says
what such buffers allow on a path that has 375 MB under way, and what larger ones do.
"""

import sys
from collections.abc import Iterator
from typing import Any

from benches import choice
from benches.harness import PAYLOAD, quick, row
from studies.rig.dumbbell import traffic
from studies.training.simulated import along
from weir import Time
from weir.congestion.recordings import NetworkPath
from weir.sim.core import simulated
from weir.sim.traffic import Bulk, Tcp

LIVE = tuple(choice.Setting(2_000, 100, loss) for loss in ("no loss", "0.01 %"))
FAR = "10000 Mbit/s, 300 ms, 1 BDP"
BUFFERS_MIB = (64, 768, 1_536)
"""A lab's, two products of rate and round trip, and four."""
SECONDS, SETTLED_S = 60, 20
"""How long it sends, and after how long it counts: slow start takes five seconds there."""


def goodput_bps(path: NetworkPath, control: str, buffer_mib: int, seconds: int) -> float:
    """What a stream alone on a path gets in the last two thirds of its time, simulated."""
    most = buffer_mib << 20
    tcp = Tcp(control, send_buffer_bytes=most, receive_buffer_bytes=most)
    scenario = along(path, [traffic("own", Bulk(tcp), 0)], 1)
    found = simulated(scenario, Time(f"{seconds} s"), sample=Time("1 s"), trace=True)
    samples = [line.split(",") for line in found["traces"]["connections"].splitlines()[1:]]
    delivered = {round(int(one[0]) / 1e9): int(one[6]) for one in samples}
    begin_s = SETTLED_S * seconds // SECONDS
    return 8 * (delivered[seconds] - delivered[begin_s]) / (seconds - begin_s)


def rows(called: str, seconds: int) -> Iterator[dict[str, Any]]:
    """What each control gets with each buffer, beside what the line carries."""
    path = NetworkPath.parse(called)
    for control in ("cubic", "bbr"):
        for buffer_mib in BUFFERS_MIB:
            found_bps = goodput_bps(path, control, buffer_mib, seconds)
            words = f"{called}, simulated: {control}, buffers of {buffer_mib} MiB"
            print(f"{words}: {found_bps / 1e9:.2f} Gbit/s", file=sys.stderr, flush=True)
            line_gbit_s = path.rate_bps * PAYLOAD / 1e9
            yield row(words, "Gbit/s", found_bps / 1e9, "the line", line_gbit_s, 1)


def run() -> list[dict[str, Any]]:
    """Both; of the simulated path a part when WEIR_BENCH_QUICK=1, and none of the lab's."""
    if quick():
        return list(rows("1000 Mbit/s, 30 ms, 1 BDP", 6))
    live = (choice.measured(setting, seed) for seed, setting in enumerate(LIVE, 1))
    return [*(one for found in live for one in found), *rows(FAR, SECONDS)]
