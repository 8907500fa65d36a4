"""How long a calendar with 10 000 active transfers is away when it is killed and started again.

From the start of the process to its first answer: what is loaded, the store that is looked through,
the plan that is restored, and the steps since it was last saved whole that are taken again.
"""

import asyncio
import random
import statistics
import time
from pathlib import Path
from typing import Any

from benches.calendar_load import ACTIVE, FILL_BPS, FILL_LEAST_S
from benches.calendar_rest import CONNECTIONS, submit_all
from benches.calendar_service import Connection, connections, cpu_s, files, request, started
from benches.harness import quick, row


def run() -> list[dict[str, Any]]:
    """Wall and processor seconds from the start to the first answer, after a kill."""
    with files() as (directory, token):
        with started(directory) as (port, process):
            asyncio.run(_fill(port, token))
            process.kill()
        taken = [_restarted(directory, token) for _ in range(2 if quick() else 5)]
    rows = []
    for name, values in zip(("time", "processor time"), zip(*taken, strict=True), strict=True):
        metric = f"restart after a kill, {name} to the first answer, {ACTIVE} active"
        rows.append(row(metric, "s", statistics.median(values), None, None, list(values)))
    return rows


async def _fill(port: int, token: str) -> None:
    draw, admitted = random.Random(1), 0
    async with connections(port, token, CONNECTIONS) as free:
        while admitted < ACTIVE:
            wanted = [request(draw, FILL_BPS, FILL_LEAST_S) for _ in range(ACTIVE - admitted)]
            admitted += await submit_all(free, wanted)


def _restarted(directory: Path, token: str) -> tuple[float, float]:
    since_s = time.monotonic()
    with started(directory) as (port, process):
        asyncio.run(_ask(port, token))
        taken = time.monotonic() - since_s, cpu_s(process.pid)
        process.kill()
    return taken


async def _ask(port: int, token: str) -> None:
    connection = await Connection(port, token).open()
    await connection.ask("GET", "/v1/transfers?limit=1")
    connection.close()
