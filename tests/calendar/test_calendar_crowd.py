"""Many connections that ask slowly or not at all: whoever asks properly is served."""

import contextlib
import resource
import socket
import subprocess

import httpx
from calendar_lab import CalendarProcess, headers, request

from weir.calendar import connections
from weir.calendar.connections import Crowd

LIMIT = 1_024
HALVES = [
    b"",
    b"POST /v1/transfers HTTP/1.1\r\nHost: x\r\n",
    b"POST /v1/transfers HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer %s\r\n"
    b"Content-Type: application/json\r\nContent-Length: 500\r\n\r\n{",
]


class FakeConnection:
    def __init__(self):
        self.cut = False
        self.transport = self

    def abort(self):
        self.cut = True


def crowd_of(descriptors, count):
    crowd = Crowd(descriptors)
    people = [FakeConnection() for _ in range(count)]
    for one in people:
        crowd.enter(one)
    return crowd, people


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
    late = [FakeConnection() for _ in range(400)]
    for one in late:
        crowd.enter(one)
        crowd.serve(one)
    # Nobody who is served is cut off; who finds no place is.
    assert not any(x.cut for x in people)
    assert [x.cut for x in late] == [False] * 320 + [True] * 80


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
            one.settimeout(10)
            one.connect(("127.0.0.1", process.port))
            with contextlib.suppress(OSError):
                one.sendall(halves[number % 3])
        client = stack.enter_context(
            httpx.Client(base_url=process.url, headers=headers(process.token), timeout=10)
        )
        for _ in range(20):
            answer = client.post("/v1/transfers", json=request(size_bytes=10**6))
            assert answer.status_code == 201
    log = (tmp_path / "calendar.log").read_text()
    assert "Traceback" not in log and log.count("\n") < 20


def test_a_service_takes_as_many_descriptors_as_it_may_have(tmp_path):
    process = CalendarProcess(tmp_path)
    plain = process.command
    process.command = lambda: ["prlimit", "--nofile=512:2048", *plain()]
    process.start()
    shown = ["prlimit", f"--pid={process.process.pid}", "--nofile", "--output=SOFT", "--noheadings"]
    told = subprocess.run(shown, capture_output=True, text=True, check=True).stdout
    process.stop()
    assert told.strip() == "2048"
