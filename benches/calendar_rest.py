"""The calendar's REST service under a steady load: latency as its callers see it.

One service process with its SQLite store on this disk, one client process beside it, both on this
machine. The client keeps to its timetable whatever the service does (an open loop), and a
request's latency counts from the moment it was due, so that a stall is charged to every request
that it delayed.
"""

import asyncio
import random
import time
from typing import Any

from benches.calendar_service import Connection, connections, cpu_s, quantile, request, service
from benches.harness import quick, row
from weir.errors import Unavailable

RATE_PER_S = 200
CONNECTIONS = 32
ACTIVE = 1_000
# The published workload: transfers of 100 Mbit/s in the mean.
MEAN_BPS = 100e6
# Five of ten requests submit, three show one transfer, two list the newest twenty.
MIX = ("submit",) * 5 + ("show",) * 3 + ("list",) * 2


def rest_rows() -> list[dict[str, Any]]:
    """Rows of the service; `benches.calendar` adds those of the engine."""
    rounds = [_round(seed) for seed in range(1 if quick() else 3)]
    rows = []
    what = f"{RATE_PER_S} requests/s, {ACTIVE} active"
    for kind in ("all", "submit", "show", "list"):
        for name, share in (("p50", 0.5), ("p99", 0.99)):
            values = [quantile(one["latencies_ms"][kind], share) for one in rounds]
            metric = f"REST, {name} of {kind} requests, {what}"
            rows.append(row(metric, "ms", sorted(values)[len(values) // 2], None, None, values))
    for key, unit in (("cpu_ms_per_request", "ms"), ("answered_per_s", "1/s")):
        values = [one[key] for one in rounds]
        metric = f"REST, {key.replace('_', ' ')}, {what}"
        rows.append(row(metric, unit, sorted(values)[len(values) // 2], None, None, values))
    return rows


def _round(seed: int) -> dict[str, Any]:
    seconds = 5 if quick() else 30
    with service() as (port, token, process):
        # An hour at least, so that all are still there at the end.
        asyncio.run(_fill(port, token, random.Random(f"{seed} fill")))
        cpu_before_s, started_s = cpu_s(process.pid), time.monotonic()
        draw = random.Random(f"{seed} load")
        latencies_ms = asyncio.run(load(port, token, seconds, draw))
        count = len(latencies_ms["all"])
        return {
            "latencies_ms": latencies_ms,
            "cpu_ms_per_request": (cpu_s(process.pid) - cpu_before_s) * 1e3 / count,
            "answered_per_s": count / (time.monotonic() - started_s),
        }


async def _fill(port: int, token: str, draw: random.Random) -> None:
    wanted = [request(draw, MEAN_BPS, 3_600) for _ in range(ACTIVE)]
    async with connections(port, token, CONNECTIONS) as free:
        await submit_all(free, wanted)


async def submit_all(free: "asyncio.Queue[Connection]", wanted: list[dict[str, Any]]) -> int:
    """Submits them as fast as they are answered; how many were admitted."""

    async def one(body: dict[str, Any]) -> bool:
        connection = await free.get()
        status, answer = await connection.ask("POST", "/v1/transfers", body)
        free.put_nowait(connection)
        if status not in {201, 409}:
            raise Unavailable(f"the service answered {status}: {answer}")
        return status == 201

    return sum(await asyncio.gather(*(one(body) for body in wanted)))


async def load(
    port: int, token: str, seconds: int, draw: random.Random, rate_per_s: int = RATE_PER_S
) -> dict[str, list[float]]:
    """Asks by the timetable for so long: the latencies of "all" and of each kind, in ms."""
    latencies_ms: dict[str, list[float]] = {"all": [], "submit": [], "show": [], "list": []}
    known: list[str] = []

    async def one(kind: str, due_s: float) -> None:
        connection = await free.get()
        if kind == "submit":
            body = request(draw, MEAN_BPS, 30)
            status, answer = await connection.ask("POST", "/v1/transfers", body)
            if status == 201:
                known.append(answer["id"])
        elif kind == "show" and known:
            status, _ = await connection.ask("GET", f"/v1/transfers/{draw.choice(known)}")
        else:
            status, _ = await connection.ask("GET", "/v1/transfers?limit=20")
        free.put_nowait(connection)
        if status not in {200, 201, 409}:
            raise Unavailable(f"the service answered {status}")
        for key in ("all", kind):
            latencies_ms[key].append((time.perf_counter() - due_s) * 1e3)

    async with connections(port, token, CONNECTIONS) as free:
        started_s = time.perf_counter()
        tasks = []
        for number in range(seconds * rate_per_s):
            due_s = started_s + number / rate_per_s
            await asyncio.sleep(max(0.0, due_s - time.perf_counter()))
            tasks.append(asyncio.create_task(one(draw.choice(MIX), due_s)))
        await asyncio.gather(*tasks)
    return latencies_ms


__all__ = ["load", "rest_rows", "submit_all"]
