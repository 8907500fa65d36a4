"""One case of the validation on the kernel's own TCP, through the lab.

The flows are iperf3's; goodput is what their servers received, second by second. Losses and the
queue are the emulator's own counts at the bottleneck: losses between two instants, the backlog
sampled ten times a second.
"""

import json
import signal
import statistics
import subprocess
import time
from typing import Any

from benches.validation.case import Case, Result
from weir.errors import WeirError
from weir.lab import Lab, parse

_SAMPLE_S = 0.1
_FIRST_PORT = 5201


def run(case: Case, _seed: int) -> Result:
    """Runs one case; takes `case.seconds` and a moment.

    Raises:
        WeirError: a flow failed, or the emulator and not the scenario was the bottleneck.
    """
    with Lab.up(parse(case.scenario(), case.name)) as lab:
        servers = [_server(lab, _FIRST_PORT + number) for number, _ in enumerate(case.flows)]
        clients = []
        start = time.monotonic()
        for number, control in enumerate(case.flows):
            argv = ["iperf3", "-4", "-c", lab.address("d"), "-J"]
            argv += ["-p", str(_FIRST_PORT + number), "-t", str(case.seconds + 1)]
            if control != "dctcp":  # which has another name in the kernel, and is the hosts'
                argv += ["-C", control]
            clients.append(lab.popen("s", argv, stdout=subprocess.DEVNULL))
            time.sleep(max(0.0, start + case.stagger_s * (number + 1) - time.monotonic()))
        first, last, backlog = _watch(lab, start + case.from_s, start + case.seconds)
        for client in clients:
            client.wait(timeout=30)
        goodputs = [_received(server, case) for server in servers]
        headroom = lab.status()["headroom"]
    if headroom["bottleneck"]:
        raise WeirError(f"{case.name}: the emulator was the bottleneck")
    dropped = last["dropped_queue"] - first["dropped_queue"]
    sent = last["packets_out"] - first["packets_out"]
    marked = _marked(last) - _marked(first)
    return Result(
        goodput_bps=goodputs,
        loss=dropped / (sent + dropped),
        mean_queue_s=statistics.mean(backlog) * 8 / case.rate_bps,
        marked=marked / sent,
        extra={"lateness_p99_ms": headroom["lateness_p99_ns"] / 1e6},
    )


def _server(lab: Lab, port: int) -> "subprocess.Popen[str]":
    argv = ["iperf3", "-4", "-s", "-1", "-J", "-i", "1", "-p", str(port)]
    server = lab.popen("d", argv, stdout=subprocess.PIPE, text=True)
    while (
        f":{port:04X}"
        not in lab.run("d", ["cat", "/proc/net/tcp"], capture_output=True, text=True).stdout
    ):
        time.sleep(0.02)
    return server


def _watch(lab: Lab, begin: float, end: float) -> tuple[Any, Any, list[int]]:
    """The bottleneck's counters at both instants, and its backlog in bytes between them."""

    def look() -> Any:
        (link,) = (link for link in lab.status()["links"] if link["name"] == "bottleneck")
        return link["forward"]

    time.sleep(max(0.0, begin - time.monotonic()))
    first = last = look()
    backlog = []
    while time.monotonic() < end:
        last = look()
        backlog.append(last["queue_bytes"])
        time.sleep(_SAMPLE_S)
    return first, last, backlog


def _marked(link: Any) -> int:
    return sum(one["marked"] for one in link["classes"])


def _received(server: "subprocess.Popen[str]", case: Case) -> float:
    """Mean of the whole seconds from `case.from_s` to `case.seconds` as the receiver saw them."""
    try:
        output = server.communicate(timeout=30)[0]
    except subprocess.TimeoutExpired:
        server.send_signal(signal.SIGINT)
        output = server.communicate(timeout=5)[0]
    sums = [interval["sum"] for interval in json.loads(output)["intervals"]]
    counted = [one for one in sums if case.from_s <= one["start"] + 0.5 < case.seconds]
    seconds = sum(one["seconds"] for one in counted)
    return float(sum(one["bytes"] for one in counted) * 8 / seconds)
