"""The calendar with 10 000 active transfers, and readers of its events that never read.

Twelve agents, one for each host of G-scale, take their assignments and report once a second as real
ones do: every transfer moves as it was allotted, and ends. Service, clients and agents share this
machine, so what two processes beside it take is in the figures. Whether the service counted an
agent as lost is told by its own events.
"""

import asyncio
import contextlib
import random
import socket
import time
from typing import Any

from benches.calendar_agents import agents
from benches.calendar_rest import CONNECTIONS, load, submit_all
from benches.calendar_service import Connection, connections, cpu_s, quantile, request, service
from benches.harness import quick, row
from weir.calendar.clock import format_instant

# Requests per second: what benchmarks have had since the first of them, and what is aimed at. With
# the default policy, and with the one that earlier figures are of.
SETTINGS = (
    *(("weir", 200), ("weir", 500), ("weir", 1_000)),
    *(("local-ljf", 200), ("local-ljf", 1_000)),
)
ACTIVE = 10_000
READERS = 50
# What is active before has so long a deadline, and so little to move, that it all finds room and
# is still there at the end.
FILL_BPS = 8e6
FILL_LEAST_S = 7_200
SETTLE_S = 5
# With epochs of three minutes the measured time would hold none, or one.
EPOCH = "30 s"


def run() -> list[dict[str, Any]]:
    """p50, p99 and longest answer, processor time per request, agents lost, transfers active."""
    return [row for policy, rate_per_s in SETTINGS for row in _rows_at(policy, rate_per_s)]


def _rows_at(policy: str, rate_per_s: int) -> list[dict[str, Any]]:
    seeds = range(1 if quick() else 3)
    rounds = [asyncio.run(_round(seed, policy, rate_per_s)) for seed in seeds]
    what = f"{policy}, {rate_per_s} requests/s, {ACTIVE} active, {READERS} readers that never read"
    rows = []
    for kind in ("all", "submit"):
        for name, share in (("p50", 0.5), ("p99", 0.99), ("longest", 1.0)):
            values = [quantile(one["latencies_ms"][kind], share) for one in rounds]
            rows.append(_row(f"load, {name} of {kind} requests, {what}", "ms", values))
    for key, unit in (("cpu ms per request", "ms"), ("agents lost", "1"), ("active at end", "1")):
        rows.append(_row(f"load, {key}, {what}", unit, [one[key] for one in rounds]))
    return rows


def _row(metric: str, unit: str, values: list[float]) -> dict[str, Any]:
    return row(metric, unit, sorted(values)[len(values) // 2], None, None, values)


async def _round(seed: int, policy: str, rate_per_s: int) -> dict[str, Any]:
    options = ("--policy", policy, "--epoch", EPOCH)
    with service(*options) as (port, token, process), contextlib.ExitStack() as stack:
        stack.enter_context(agents(port, token))
        await _await_agents(port, token)
        draw = random.Random(f"{seed} fill")
        wanted = [request(draw, FILL_BPS, FILL_LEAST_S) for _ in range(ACTIVE)]
        async with connections(port, token, CONNECTIONS) as free:
            await submit_all(free, wanted)
        for _ in range(READERS):
            _read_never(stack.enter_context(socket.socket()), port, token)
        await asyncio.sleep(SETTLE_S)
        cpu_before_s = cpu_s(process.pid)
        draw = random.Random(f"{seed} load")
        latencies_ms = await load(port, token, 10 if quick() else 60, draw, rate_per_s)
        spent_s = cpu_s(process.pid) - cpu_before_s
        return {
            "latencies_ms": latencies_ms,
            "cpu ms per request": spent_s * 1e3 / len(latencies_ms["all"]),
            "agents lost": float(await _agents_lost(port, token)),
            "active at end": await _active(port, token),
        }


async def _await_agents(port: int, token: str) -> None:
    """Until all have come: before it they count as lost, and rightly."""
    connection = await Connection(port, token).open()
    while True:
        _, network = await connection.ask("GET", "/v1/network")
        if all(node["agent"] == "alive" for node in network["nodes"]):
            break
        await asyncio.sleep(0.1)
    connection.close()


def _read_never(reader: socket.socket, port: int, token: str) -> None:
    reader.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4_096)
    reader.connect(("127.0.0.1", port))
    head = f"GET /v1/events HTTP/1.1\r\nHost: calendar\r\nAuthorization: Bearer {token}\r\n"
    reader.sendall(f"{head}Last-Event-ID: 0\r\n\r\n".encode())


async def _active(port: int, token: str) -> float:
    connection = await Connection(port, token).open()
    text = await connection.text("/metrics")
    connection.close()
    return float(text.split("\nweir_active_transfers ")[1].split()[0])


async def _agents_lost(port: int, token: str) -> int:
    """How often an agent counted as lost, by the events that are kept."""
    until = format_instant(time.time_ns())
    connection = await Connection(port, token).open()
    lost = 0
    async for event in connection.events("/v1/events", after=0):
        lost += event["kind"] == "agent-lost"
        if event["at"] >= until:
            break
    connection.close()
    return lost
