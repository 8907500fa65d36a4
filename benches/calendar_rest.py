"""The calendar's REST service under a steady load: latency as its callers see it.

One service process with its SQLite store on this disk, one client process beside it, both on this
machine. The client keeps to its timetable whatever the service does (an open loop), and a
request's latency counts from the moment it was due, so that a stall is charged to every request
that it delayed.
"""

import asyncio
import itertools
import json
import os
import random
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from benches.harness import quick, row
from weir._core import g_scale
from weir.calendar.tokens import TokenFile
from weir.errors import Unavailable

RATE_PER_S = 200
CONNECTIONS = 32
ACTIVE = 1_000
# Of ten requests five submit, three show one transfer, two list the newest twenty.
MIX = ("submit",) * 5 + ("show",) * 3 + ("list",) * 2


def rest_rows() -> list[dict[str, Any]]:
    """Rows of the service; `benches.calendar` adds those of the engine."""
    rounds = [_round(seed) for seed in range(1 if quick() else 3)]
    rows = []
    what = f"{RATE_PER_S} requests/s, {ACTIVE} active"
    for kind in ("all", "submit", "show", "list"):
        for name, share in (("p50", 0.5), ("p99", 0.99)):
            values = [_quantile(one["latencies_ms"][kind], share) for one in rounds]
            metric = f"REST, {name} of {kind} requests, {what}"
            rows.append(row(metric, "ms", sorted(values)[len(values) // 2], None, None, values))
    for key, unit in (("cpu_ms_per_request", "ms"), ("answered_per_s", "1/s")):
        values = [one[key] for one in rounds]
        metric = f"REST, {key.replace('_', ' ')}, {what}"
        rows.append(row(metric, unit, sorted(values)[len(values) // 2], None, None, values))
    return rows


def _round(seed: int) -> dict[str, Any]:
    seconds = 5 if quick() else 30
    with _service() as (port, token, process):
        asyncio.run(_fill(port, token, ACTIVE, random.Random(f"{seed} fill")))
        cpu_before_s, started_s = _cpu_s(process.pid), time.monotonic()
        latencies_ms = asyncio.run(_load(port, token, seconds, random.Random(f"{seed} load")))
        count = len(latencies_ms["all"])
        return {
            "latencies_ms": latencies_ms,
            "cpu_ms_per_request": (_cpu_s(process.pid) - cpu_before_s) * 1e3 / count,
            "answered_per_s": count / (time.monotonic() - started_s),
        }


@contextmanager
def _service() -> Iterator[tuple[int, str, "subprocess.Popen[str]"]]:
    # Beside the results, not in /tmp: that may be in memory, where a commit costs nothing.
    Path("out/bench").mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir="out/bench") as name:
        directory = Path(name)
        (directory / "network.json").write_text(g_scale())
        token = TokenFile(directory / "tokens.json").create("bench", "admin")
        weir = str(Path(sys.executable).with_name("weir"))
        process = subprocess.Popen(
            [
                *(weir, "calendar", "serve", "--network", str(directory / "network.json")),
                *("--store", f"sqlite:///{directory.resolve() / 'calendar.db'}"),
                *("--tokens", str(directory / "tokens.json"), "--listen", "127.0.0.1:0"),
            ],
            stdout=subprocess.PIPE,
            text=True,
        )
        with process:
            line = process.stdout.readline() if process.stdout else ""
            if "listening on" not in line:
                process.kill()
                raise Unavailable("the calendar service did not start")
            yield int(line.rsplit(":", 1)[1]), token, process
            process.terminate()


class _Connection:
    """HTTP/1.1 with as little cost of its own as will do: one request at a time."""

    def __init__(self, port: int, token: str) -> None:
        self._port, self._token = port, token

    async def open(self) -> "_Connection":
        self._reader, self._writer = await asyncio.open_connection("127.0.0.1", self._port)
        return self

    async def ask(self, method: str, path: str, body: Any = None) -> tuple[int, Any]:
        content = b"" if body is None else json.dumps(body).encode()
        self._writer.write(
            f"{method} {path} HTTP/1.1\r\nHost: calendar\r\nAuthorization: Bearer {self._token}\r\n"
            f"Content-Type: application/json\r\nContent-Length: {len(content)}\r\n\r\n".encode()
            + content
        )
        head = await self._reader.readuntil(b"\r\n\r\n")
        status = int(head[9:12])
        fields = head.lower().split(b"\r\n")
        length = next(int(x[15:]) for x in fields if x.startswith(b"content-length:"))
        return status, json.loads(await self._reader.readexactly(length))

    def close(self) -> None:
        self._writer.close()


# Two active transfers never go to one place.
_NUMBERS = itertools.count()


def _request(draw: random.Random) -> dict[str, Any]:
    """The published workload: rates of 100 Mbit/s and deadlines of an hour in the mean."""
    source, destination = draw.sample(range(1, 13), 2)
    span_s = draw.expovariate(1 / 3600) + 30
    return {
        "source": str(source),
        "source_path": "data/run.h5",
        "destination": str(destination),
        "destination_path": f"inbox/run{next(_NUMBERS)}.h5",
        "size_bytes": max(1, int(draw.expovariate(1 / 100e6) * span_s / 8)),
        "deadline_s": span_s,
    }


async def _fill(port: int, token: str, count: int, draw: random.Random) -> None:
    """Submits until so many transfers are active: large deadlines, so that they stay."""
    connections = [await _Connection(port, token).open() for _ in range(CONNECTIONS)]

    async def work(connection: _Connection, share: int) -> None:
        for _ in range(share):
            # An hour at least, so that all are still there at the end.
            body = _request(draw) | {"deadline_s": 3_600 + draw.expovariate(1 / 3600)}
            status, answer = await connection.ask("POST", "/v1/transfers", body)
            if status not in {201, 409}:
                raise Unavailable(f"the service answered {status}: {answer}")

    await asyncio.gather(*(work(x, count // CONNECTIONS + 1) for x in connections))
    for connection in connections:
        connection.close()


async def _load(port: int, token: str, seconds: int, draw: random.Random) -> dict[str, list[float]]:
    free: asyncio.Queue[_Connection] = asyncio.Queue()
    for _ in range(CONNECTIONS):
        free.put_nowait(await _Connection(port, token).open())
    latencies_ms: dict[str, list[float]] = {"all": [], "submit": [], "show": [], "list": []}
    known: list[str] = []

    async def one(kind: str, due_s: float) -> None:
        connection = await free.get()
        if kind == "submit":
            status, answer = await connection.ask("POST", "/v1/transfers", _request(draw))
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

    started_s = time.perf_counter()
    tasks = []
    for number in range(seconds * RATE_PER_S):
        due_s = started_s + number / RATE_PER_S
        await asyncio.sleep(max(0.0, due_s - time.perf_counter()))
        tasks.append(asyncio.create_task(one(draw.choice(MIX), due_s)))
    await asyncio.gather(*tasks)
    while not free.empty():
        free.get_nowait().close()
    return latencies_ms


def _quantile(values: list[float], share: float) -> float:
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(share * len(ordered)))]


def _cpu_s(pid: int) -> float:
    """User and system time of a process, seconds."""
    fields = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


__all__ = ["rest_rows"]
