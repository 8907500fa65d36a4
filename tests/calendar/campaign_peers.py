"""What one peer can do to the calendar, as figures.

    PYTHONPATH=tests python tests/calendar/campaign_peers.py

Each line is one figure; the command ends with 1 if one is beyond what is promised.
"""

import contextlib
import resource
import socket
import sys
import tempfile
import threading
import time
from pathlib import Path

import httpx
from calendar_lab import CalendarProcess, headers, request
from campaign_kills import ROOMY
from test_calendar_crowd import HALVES, LIMIT

READERS = 200
EVENTS = 6_000
HALF = 10_000
# Agents count as lost after 3 s.
WORST_S = 2.0


def main():
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(16_384, hard), hard))
    held = []
    for figure in (readers, half_requests, reports):
        with tempfile.TemporaryDirectory(prefix="weir-peers-") as folder:
            held.append(figure(Path(folder)))
    return 0 if all(held) else 1


@contextlib.contextmanager
def running(folder, *before):
    """A calendar, and a client of it."""
    process = CalendarProcess(folder, network=ROOMY)
    plain = process.command
    process.command = lambda: [*before, *plain()]
    with contextlib.ExitStack() as stack:
        stack.callback(process.stop)
        process.start()
        client = httpx.Client(base_url=process.url, headers=headers(process.token), timeout=60)
        yield process, stack.enter_context(client)


def readers(folder):
    """Readers of all events that never read."""
    with running(folder) as (process, client), contextlib.ExitStack() as stack:
        fill(process, EVENTS)
        before = worst_look(client, 3)
        line = f"GET /v1/events HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {process.token}\r\n"
        for _ in range(READERS):
            one = stack.enter_context(socket.socket())
            one.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
            one.connect(("127.0.0.1", process.port))
            one.sendall(f"{line}Last-Event-ID: 0\r\n\r\n".encode())
        worst = worst_look(client, 15)
    print(
        f"{READERS} readers of {EVENTS} events that never read: the slowest answer of /healthz "
        f"took {worst:.2f} s in 15 s, {before:.2f} s before them"
    )
    return worst < WORST_S


def fill(process, count):
    """Events: each admission is one."""

    def some():
        with httpx.Client(base_url=process.url, timeout=60) as client:
            client.headers.update(headers(process.token))
            for _ in range(count // 4):
                body = request(size_bytes=1_000, deadline_s=86_400.0)
                assert client.post("/v1/transfers", json=body).status_code == 201

    threads = [threading.Thread(target=some) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


def worst_look(client, seconds):
    """The slowest answer within so many seconds."""
    worst, end = 0.0, time.monotonic() + seconds
    while time.monotonic() < end:
        began = time.monotonic()
        assert client.get("/healthz").status_code == 200
        worst = max(worst, time.monotonic() - began)
    return worst


def half_requests(folder):
    """Connections with nothing, half a head, or half a body, at few descriptors."""
    limit = ("prlimit", f"--nofile={LIMIT}:{LIMIT}")
    with running(folder, *limit) as (process, client), contextlib.ExitStack() as stack:
        halves = [half.replace(b"%s", process.token.encode()) for half in HALVES]
        for number in range(HALF):
            one = stack.enter_context(socket.socket())
            one.settimeout(60)
            one.connect(("127.0.0.1", process.port))
            with contextlib.suppress(OSError):
                one.sendall(halves[number % 3])
        began, served = time.monotonic(), 0
        for _ in range(100):
            answer = client.post("/v1/transfers", json=request(size_bytes=10**6))
            served += answer.status_code == 201
        took = time.monotonic() - began
        log = (folder / "calendar.log").read_text()
    print(
        f"{HALF} half requests at {LIMIT} descriptors: {served} of 100 requests admitted in "
        f"{took:.1f} s; the log took {len(log)} bytes"
    )
    return served == 100 and "Traceback" not in log


def reports(folder):
    """A report of more transfers than there ever are."""
    with running(folder) as (_, client):
        many = [{"id": f"x{number}", "state": "waiting"} for number in range(10_001)]
        answer = client.post("/v1/agents/dtn1/reports", json={"transfers": many})
    told = len(answer.json().get("stop", []))
    print(
        f"a report of 10001 transfers: answered {answer.status_code}, {told} of them to be stopped"
    )
    return answer.status_code == 200


if __name__ == "__main__":
    sys.exit(main())
