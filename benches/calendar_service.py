"""A calendar service as a process of its own, and clients that cost as little as will do."""

import asyncio
import itertools
import json
import os
import random
import subprocess
import tempfile
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import Any

from benches.peers.weir import WEIR
from weir._core import g_scale
from weir.calendar.rest.tokens import TokenFile
from weir.errors import Unavailable

NODES = range(1, 13)
# Two active transfers never go to one place.
_NUMBERS = itertools.count()


@contextmanager
def service(*options: str) -> Iterator[tuple[int, str, "subprocess.Popen[str]"]]:
    """A service on G-scale with its SQLite store on this disk: port, an admin's token, process."""
    with files() as (directory, token), started(directory, *options) as (port, process):
        yield port, token, process


@contextmanager
def files() -> Iterator[tuple[Path, str]]:
    """A folder with what a service on G-scale needs, on this disk, and an admin's token."""
    # Beside the results, not in /tmp: that may be in memory, where a commit costs nothing.
    Path("out/bench").mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir="out/bench") as name:
        directory = Path(name)
        (directory / "network.json").write_text(g_scale())
        yield directory, TokenFile(directory / "tokens.json").create("bench", "admin")


@contextmanager
def started(directory: Path, *options: str) -> Iterator[tuple[int, "subprocess.Popen[str]"]]:
    """A service by these files, once it listens: port and process."""
    process = subprocess.Popen(
        [
            *(WEIR, "calendar", "serve", "--network", str(directory / "network.json")),
            *("--store", f"sqlite:///{directory.resolve() / 'calendar.db'}"),
            *("--tokens", str(directory / "tokens.json"), "--listen", "127.0.0.1:0"),
            # As when the figures in the documents were taken.
            *("--policy", "local-ljf"),
            *options,
        ],
        stdout=subprocess.PIPE,
        text=True,
    )
    with process:
        line = process.stdout.readline() if process.stdout else ""
        if "listening on" not in line:
            process.kill()
            raise Unavailable("the calendar service did not start")
        yield int(line.rsplit(":", 1)[1]), process
        process.terminate()


class Connection:
    """HTTP/1.1 with as little cost of its own as will do: one request at a time."""

    def __init__(self, port: int, token: str) -> None:
        self._port, self._token = port, token

    async def open(self) -> "Connection":
        """Connects."""
        self._reader, self._writer = await asyncio.open_connection("127.0.0.1", self._port)
        return self

    async def ask(self, method: str, path: str, body: Any = None) -> tuple[int, Any]:
        """Sends a request and reads its answer: the status, and what the JSON says."""
        self._send(method, path, b"" if body is None else json.dumps(body).encode())
        status, fields = await self._head()
        length = next(int(x[15:]) for x in fields if x.startswith(b"content-length:"))
        return status, json.loads(await self._reader.readexactly(length))

    async def text(self, path: str) -> str:
        """The body of a GET whose answer is not JSON."""
        self._send("GET", path, b"")
        _, fields = await self._head()
        length = next(int(x[15:]) for x in fields if x.startswith(b"content-length:"))
        return (await self._reader.readexactly(length)).decode()

    async def events(self, path: str, after: int | None = None) -> AsyncIterator[dict[str, Any]]:
        """What comes as server-sent events, `after` the event of a number."""
        self._send("GET", path, b"", "" if after is None else f"Last-Event-ID: {after}\r\n")
        await self._head()
        while length := int(await self._reader.readline(), 16):
            piece = await self._reader.readexactly(length)
            await self._reader.readexactly(2)
            for line in piece.splitlines():
                if line.startswith(b"data: "):
                    yield json.loads(line[6:])

    def close(self) -> None:
        """Ends it."""
        self._writer.close()

    def _send(self, method: str, path: str, content: bytes, more: str = "") -> None:
        self._writer.write(
            f"{method} {path} HTTP/1.1\r\nHost: calendar\r\nAuthorization: Bearer {self._token}\r\n"
            "Content-Type: application/json\r\n"
            f"Content-Length: {len(content)}\r\n{more}\r\n".encode()
            + content
        )

    async def _head(self) -> tuple[int, list[bytes]]:
        head = await self._reader.readuntil(b"\r\n\r\n")
        return int(head[9:12]), head.lower().split(b"\r\n")


@asynccontextmanager
async def connections(
    port: int, token: str, count: int
) -> AsyncIterator["asyncio.Queue[Connection]"]:
    """So many connections, free to be taken and to be put back."""
    opened = [await Connection(port, token).open() for _ in range(count)]
    free: asyncio.Queue[Connection] = asyncio.Queue()
    for connection in opened:
        free.put_nowait(connection)
    try:
        yield free
    finally:
        for connection in opened:
            connection.close()


def request(draw: random.Random, rate_bps: float, least_s: float) -> dict[str, Any]:
    """A request of the published workload: an hour, and `rate_bps`, in the mean."""
    source, destination = draw.sample(NODES, 2)
    span_s = draw.expovariate(1 / 3600) + least_s
    return {
        "source": str(source),
        "source_path": "data/run.h5",
        "destination": str(destination),
        "destination_path": f"inbox/run{next(_NUMBERS)}.h5",
        "size_bytes": max(1, int(draw.expovariate(1 / rate_bps) * span_s / 8)),
        "deadline_s": span_s,
    }


def quantile(values: list[float], share: float) -> float:
    """The value that this share of them does not exceed."""
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(share * len(ordered)))]


def cpu_s(pid: int) -> float:
    """User and system time of a process, seconds."""
    fields = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
