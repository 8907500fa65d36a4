"""Many connections that ask slowly or not at all: whoever asks properly is served."""

import contextlib
import json
import resource
import socket
import subprocess
from pathlib import Path

import httpx
from calendar_lab import CalendarProcess, headers, request
from rig import PATIENCE_S

from weir.calendar.rest import connections
from weir.calendar.rest.connections import Crowd

LIMIT = 1_024
HALVES = [
    b"",
    b"POST /v1/transfers HTTP/1.1\r\nHost: x\r\n",
    b"POST /v1/transfers HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer %s\r\n"
    b"Content-Type: application/json\r\nContent-Length: 500\r\n\r\n{",
]


class FakeConnection:
    def __init__(self, address="10.0.0.1"):
        self.address = address
        self.cut = False
        self.transport = self

    def abort(self):
        self.cut = True


def crowd_of(descriptors, count):
    crowd = Crowd(descriptors)
    return crowd, come(crowd, count, "10.0.0.1")


def come(crowd, count, address, served=False):
    people = [FakeConnection(address) for _ in range(count)]
    for one in people:
        crowd.enter(one)
        if served:
            crowd.serve(one)
    return people


def test_who_has_waited_longest_makes_way():
    crowd, people = crowd_of(100_000, connections.WAITING_MAX)
    assert not any(x.cut for x in people)
    # The first is being served by now: the second has waited longest.
    crowd.serve(people[0])
    crowd.enter(FakeConnection())
    assert not people[1].cut
    crowd.enter(FakeConnection())
    assert [x.cut for x in people[:3]] == [False, True, False]


def test_there_are_never_more_connections_than_descriptors():
    crowd, people = crowd_of(1_024, 320)
    assert sum(x.cut for x in people) == 0
    for one in people:
        crowd.serve(one)
    late = come(crowd, 400, "10.0.0.2", served=True)
    # Nobody who is served is cut off; who finds no place is.
    assert not any(x.cut for x in people)
    assert [x.cut for x in late] == [False] * 320 + [True] * 80


def test_one_address_has_no_more_than_half_of_all_connections():
    crowd = Crowd(1_024)
    greedy = come(crowd, 1_000, "10.0.0.1", served=True)
    assert [x.cut for x in greedy] == [False] * 320 + [True] * 680
    others = come(crowd, 320, "10.0.0.2", served=True)
    assert not any(x.cut for x in others)
    # Whoever of it waits makes way for whoever of it comes, as behind a proxy.
    crowd.wait(greedy[7])
    (late,) = come(crowd, 1, "10.0.0.1")
    assert greedy[7].cut
    assert not late.cut
    for one in (*greedy, *others, late):
        crowd.leave(one)
    assert not any(x.cut for x in come(crowd, 320, "10.0.0.1", served=True))


def test_an_ipv6_network_of_64_bits_counts_as_one_address():
    peers = ["2001:db8::1", "2001:db8::ffff:1", "2001:db8:0:1::1", "10.0.0.1", "10.0.0.2"]
    origins = [connections._origin((peer, 1)) for peer in peers]
    assert origins[0] == origins[1]
    assert len(set(origins)) == 4
    assert connections._origin(("fe80::1%eth0", 1)) == connections._origin(("fe80::2", 1))


def test_waiting_has_an_end(monkeypatch):
    monkeypatch.setattr(connections, "REQUEST_S", 0.0)
    crowd, people = crowd_of(1_024, 3)
    crowd.serve(people[1])
    crowd.sweep()
    assert [x.cut for x in people] == [True, False, True]
    crowd.wait(people[1])
    crowd.sweep()
    assert people[1].cut


def test_three_thousand_half_requests_at_1024_descriptors_do_not_stop_the_service(tmp_path):
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft < 4_096:
        resource.setrlimit(resource.RLIMIT_NOFILE, (min(hard, 4_096), hard))
    process = CalendarProcess(tmp_path)
    plain = process.command
    process.command = lambda: ["prlimit", f"--nofile={LIMIT}:{LIMIT}", *plain()]
    process.start()
    halves = [half.replace(b"%s", process.token.encode()) for half in HALVES]
    with contextlib.ExitStack() as stack:
        stack.callback(process.stop)
        for number in range(3_000):
            one = stack.enter_context(socket.socket())
            one.settimeout(PATIENCE_S)
            one.connect(("127.0.0.1", process.port))
            with contextlib.suppress(OSError):
                one.sendall(halves[number % 3])
        client = stack.enter_context(
            httpx.Client(base_url=process.url, headers=headers(process.token), timeout=PATIENCE_S)
        )
        for _ in range(20):
            answer = client.post("/v1/transfers", json=request(size_bytes=10**6))
            assert answer.status_code == 201
    log = (tmp_path / "calendar.log").read_text()
    assert "Traceback" not in log and log.count("\n") < 20


HEAD = b"GET /healthz HTTP/1.1\r\nHost: x\r\n"
CHUNKED = b"POST /healthz HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n"
ENDLESS = {
    "headers": (HEAD, b"a: b\r\n" * 10_000),
    "a value": (HEAD + b"X: ", b"y" * 60_000),
    "a name": (HEAD, b"y" * 60_000),
    "an address": (b"GET /", b"y" * 60_000),
    "trailers": (CHUNKED + b"1\r\nx\r\n0\r\n", b"a: b\r\n" * 10_000),
    "a body, after the answer": (CHUNKED, b"ffff\r\n" + b"y" * 65_535 + b"\r\n"),
    "an extension": (CHUNKED + b"1;", b"y" * 60_000),
}


def test_what_has_no_end_is_cut_off_before_it_fills_the_memory(tmp_path):
    """48 MB of headers took 1 GB, and anybody who could connect could send them."""
    process = CalendarProcess(tmp_path).start()
    status = Path(f"/proc/{process.process.pid}/status")

    def resident_mb():
        [line] = [x for x in status.read_text().splitlines() if x.startswith("VmRSS")]
        return int(line.split()[1]) / 1024

    with contextlib.ExitStack() as stack:
        stack.callback(process.stop)
        before_mb = resident_mb()
        for what, (begin, piece) in ENDLESS.items():
            one = stack.enter_context(socket.create_connection(("127.0.0.1", process.port)))
            one.settimeout(PATIENCE_S)
            one.sendall(begin)
            sent = 0
            with contextlib.suppress(ConnectionError):
                while sent < 40_000_000:
                    sent += one.send(piece)
            assert sent < 40_000_000, what
        assert resident_mb() - before_mb < 60
        # Heads of 50 kB are none of these, nor are bodies in very many pieces.
        long = headers(process.token, **{"X-Long": "y" * 50_000})
        client = stack.enter_context(httpx.Client(base_url=process.url, timeout=PATIENCE_S))
        for _ in range(3):
            assert client.get("/v1/transfers", headers=long).status_code == 200
        body = json.dumps(request()).encode() + b" " * 100_000
        pieces = (body[at : at + 1] for at in range(len(body)))
        told = headers(process.token, **{"Content-Type": "application/json"})
        assert client.post("/v1/transfers", content=pieces, headers=told).status_code == 201


def test_a_service_takes_as_many_descriptors_as_it_may_have(tmp_path):
    process = CalendarProcess(tmp_path)
    plain = process.command
    process.command = lambda: ["prlimit", "--nofile=512:2048", *plain()]
    process.start()
    shown = ["prlimit", f"--pid={process.process.pid}", "--nofile", "--output=SOFT", "--noheadings"]
    told = subprocess.run(shown, capture_output=True, text=True, check=True).stdout
    process.stop()
    assert told.strip() == "2048"
