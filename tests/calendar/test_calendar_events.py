"""The event stream: complete, resumable, and never held up by a slow reader."""

import asyncio
import contextlib
import itertools
import json
import socket
import statistics
import threading
import time
from unittest import mock

import httpx
import pytest
from calendar_lab import CalendarProcess, headers, patient_client, request, wait_for
from hypothesis import given
from hypothesis import strategies as st
from rig import PATIENCE_S

from weir.calendar.client import CalendarClient
from weir.calendar.records import EVENT_KINDS, Event, Outcome
from weir.calendar.rest.tokens import TokenFile
from weir.calendar.service.events import (
    PAGES_BYTES_MAX,
    RECENT_BYTES_MAX,
    Dropped,
    EventHub,
    Subscription,
    event_bytes,
)
from weir.calendar.storage.store import Store
from weir.errors import Unavailable


def follow(calendar, after, count):
    with calendar.client() as client:
        return list(itertools.islice(client.events(after), count))


def test_events_tell_a_transfers_life_in_order(calendar):
    with calendar.client() as client:
        made = client.submit(request(size_bytes=6 * 10**9))["id"]
        with pytest.raises(Exception, match="core"):
            client.submit(request(size_bytes=6 * 10**9))
        report = {"id": made, "state": "running", "bytes_durable": 5}
        client._call("POST", "/v1/agents/dtn1/reports", json={"transfers": [report]})
        report = {"id": made, "state": "done", "bytes_total": 6 * 10**9, "hash": "b3"}
        client._call("POST", "/v1/agents/dtn1/reports", json={"transfers": [report]})
    events = []
    with calendar.client() as client:
        for event in client.events(0):
            events.append(event)
            if event["kind"] == "completed":
                break
    assert [x["id"] for x in events] == list(range(1, len(events) + 1))
    assert {x["kind"] for x in events} <= set(EVENT_KINDS)
    # Where all this takes seconds it is also told that nobody has heard of the agents.
    life = ("admitted", "refused", "started", "completed")
    events = [x for x in events if x["kind"] in life]
    assert [x["kind"] for x in events] == ["admitted", "refused", "started", "completed"]
    assert [x["transfer"] for x in events] == [made, None, made, made]
    assert events[1]["link"] == "core.forward"
    assert events[3]["on_time"] is True


def test_a_missed_deadline_is_told_once(calendar):
    with calendar.client() as client:
        made = client.submit(request(size_bytes=10**6, deadline_s=1.5))["id"]
        wait_for(lambda: client.show(made)["on_time"] is False)
        report = {"id": made, "state": "done", "bytes_total": 10**6}
        client._call("POST", "/v1/agents/dtn1/reports", json={"transfers": [report]})
        client.cancel(client.submit(request())["id"])
    seen = []
    with calendar.client() as client:
        for told in client.events(0):
            seen.append(told)
            if told["kind"] == "cancelled":
                break
    missed = [x for x in seen if x["kind"] == "missed"]
    assert [x["transfer"] for x in missed] == [made]
    assert [x["on_time"] for x in seen if x["kind"] == "completed"] == [False]


def test_a_reader_that_comes_back_misses_nothing_even_over_a_kill_9(calendar):
    with calendar.client() as client:
        for _ in range(3):
            client.submit(request(size_bytes=10**6))
    first = follow(calendar, 0, 2)
    calendar.kill()
    calendar.start()
    with calendar.client() as client:
        client.submit(request(size_bytes=10**6))
    rest = follow(calendar, first[-1]["id"], 2)
    assert [x["id"] for x in first + rest] == [1, 2, 3, 4]


def test_live_events_reach_a_reader_at_once(calendar, measured):
    def check():
        assert statistics.median(waited_s(calendar)) < 0.2

    measured(check)


def waited_s(calendar):
    """How long after each of eleven requests it was told that it is admitted."""
    seen_s = {}

    def read():
        with calendar.client() as client:
            admitted = (x for x in client.events() if x["kind"] == "admitted")
            for told in itertools.islice(admitted, 11):
                seen_s[told["transfer"]] = time.monotonic()

    reader = threading.Thread(target=read)
    reader.start()
    sent_s = {}
    with calendar.client() as client:
        # The reader's own connection has to stand before the first that it can see.
        wait_for(lambda: "weir_event_readers 1.0" in client.metrics())
        for _ in range(11):
            started_s = time.monotonic()
            sent_s[client.submit(request(size_bytes=10**6))["id"]] = started_s
    reader.join(PATIENCE_S)
    assert seen_s.keys() == sent_s.keys()
    return [seen_s[x] - sent_s[x] for x in sent_s]


def numbers(chunk):
    """The ids of the events in a piece of a stream."""
    lines = chunk.decode().splitlines()
    return [int(line.removeprefix("id: ")) for line in lines if line.startswith("id: ")]


class Past:
    """A store of events, as the hub reads it."""

    def __init__(self):
        self.events = []

    def read(self, after, count):
        found = [x for x in self.events if x.number > after][:count]
        return [(x.number, event_bytes(x)) for x in found]

    def happen(self, hub, count, size=0):
        first = self.events[-1].number + 1 if self.events else 1
        new = [Event(first + n, 1, "rates", None, {"x": "y" * size}) for n in range(count)]
        self.events += new
        hub.publish(new)


async def take(stream, last):
    """Takes from a stream until an event of that number has come: the numbers seen."""
    seen = []
    while not seen or seen[-1] < last:
        seen += numbers(await anext(stream))
    return seen


def test_a_command_of_many_events_cuts_nobody_off():
    async def scenario():
        hub, past = EventHub(0), Past()
        streams = [hub.follow(None, past.read) for _ in range(20)]
        for stream in streams:
            assert await anext(stream) == b": connected\n\n"
        past.happen(hub, 5_000, 1_000)
        for stream in streams:
            assert await take(stream, 5_000) == list(range(1, 5_001))
            await stream.aclose()
        assert hub.readers == 0

    asyncio.run(scenario())


def test_readers_that_stand_still_cost_neither_memory_nor_the_others():
    async def scenario():
        hub, past = EventHub(0), Past()
        still = [hub.follow(0, past.read) for _ in range(200)]
        for stream in still:
            await anext(stream)
        reading = hub.follow(None, past.read)
        await anext(reading)
        for last in range(500, 5_001, 500):
            past.happen(hub, 500, 2_000)
            assert (await take(reading, last))[-1] == last
        held = sum(len(data) for _, data in hub._recent) + hub._pages_bytes
        assert held <= RECENT_BYTES_MAX + PAGES_BYTES_MAX
        # Whoever goes on has missed nothing.
        assert await take(still[0], 5_000) == list(range(1, 5_001))

    asyncio.run(scenario())


@given(st.lists(st.tuples(st.integers(0, 3), st.integers(0, 400)), max_size=25), st.integers(0, 60))
def test_every_reader_sees_every_event_once_and_in_order(steps, older):
    async def scenario():
        hub, past = EventHub(0), Past()
        past.happen(hub, older)
        # One from the beginning, one from the middle, one from now on.
        starts = [0, older // 2, hub.last_number]
        streams = [hub.follow(after, past.read) for after in starts]
        seen = [numbers(await anext(stream)) for stream in streams]
        for who, count in steps:
            past.happen(hub, count, 500)
            if who < 3 and starts[who] + len(seen[who]) < hub.last_number:
                seen[who] += numbers(await anext(streams[who]))
        for start, got, stream in zip(starts, seen, streams, strict=True):
            if start + len(got) < hub.last_number:
                got += await take(stream, hub.last_number)
            assert got == list(range(start + 1, hub.last_number + 1))

    with mock.patch("weir.calendar.service.events.RECENT_BYTES_MAX", 20_000):
        asyncio.run(scenario())


def test_a_reader_is_told_what_is_not_kept_any_more():
    async def scenario():
        hub, past = EventHub(400), Past()
        past.happen(EventHub(0), 400)
        del past.events[:300]
        stream = hub.follow(7, past.read)
        await anext(stream)
        assert await anext(stream) == b": events up to 300 are not kept any more\n\n"
        assert await take(stream, 400) == list(range(301, 401))

    asyncio.run(scenario())


def test_an_event_travels_the_same_from_memory_and_from_the_store(tmp_path):
    told = Event(7, 10**18, "refused", None, {"link": "ü \u2603", "earliest_deadline": None})
    bare = Event(8, 10**18, "started", "t1", {})
    with contextlib.closing(Store(f"sqlite:///{tmp_path / 's.db'}")) as store:
        store.commit([Outcome(events=[told, bare])])
        stored = store.sent_events_after(0, 10)
    assert stored == [(7, event_bytes(told)), (8, event_bytes(bare))]
    body = json.loads(stored[0][1].decode().splitlines()[2].removeprefix("data: "))
    assert body == {
        "id": 7,
        "at": "2001-09-09T01:46:40.000Z",
        "kind": "refused",
        "transfer": None,
        **told.data,
    }


@pytest.mark.alone
def test_two_hundred_readers_that_never_read_hold_up_nobody(tmp_path):
    with contextlib.closing(Store(f"sqlite:///{tmp_path / 'calendar.db'}")) as store:
        events = [Event(n, 1, "rates", None, {"x": "y" * 200}) for n in range(1, 6_001)]
        store.commit([Outcome(events=events)])
    process = CalendarProcess(tmp_path).start()
    head = f"GET /v1/events HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {process.token}\r\n"
    with contextlib.ExitStack() as stack:
        stack.callback(process.stop)
        for _ in range(200):
            still = stack.enter_context(socket.socket())
            still.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4_096)
            still.connect(("127.0.0.1", process.port))
            still.sendall(f"{head}Last-Event-ID: 0\r\n\r\n".encode())
        client = stack.enter_context(patient_client(process.url))
        waits_s = []
        end_s = time.monotonic() + 3
        while time.monotonic() < end_s:
            waits_s.append(client.get("/healthz").elapsed.total_seconds())
        # It was 34 s; an agent counts as lost after 3 s.
        assert max(waits_s) < 3
        assert len(follow(process, 0, 6_000)) == 6_000
        # Nor its end.
        process.stop()
    log = (tmp_path / "calendar.log").read_text()
    assert "Traceback" not in log, log


@pytest.mark.parametrize("path", ["/v1/events", "/v1/agents/dtn1/assignments"])
def test_a_revoked_token_ends_its_open_streams_and_no_others(api, tmp_path, path):
    file = TokenFile(tmp_path / "tokens.json")
    ended_s = []

    def read(name, token):
        url = f"{api.base_url}{path}"
        with httpx.stream("GET", url, headers=headers(token), timeout=PATIENCE_S) as response:
            assert response.status_code == 200
            opened.release()
            for _ in response.iter_raw():
                pass
        ended_s.append(name)

    opened = threading.Semaphore(0)
    names = ("kept", "gone")
    made = {name: file.create(name, "admin") for name in names}
    readers = [threading.Thread(target=read, args=(name, made[name])) for name in names]
    for reader in readers:
        reader.start()
        assert opened.acquire(timeout=PATIENCE_S)
    file.revoke("gone")
    wait_for(lambda: "gone" in ended_s)
    assert "kept" not in ended_s
    file.revoke("kept")
    for reader in readers:
        reader.join(PATIENCE_S)


def test_a_subscription_tells_its_end_only_once_it_is_reached():
    async def scenario():
        subscription = Subscription(2)
        subscription.put(1)
        assert await subscription.take(1) == 1
        assert await subscription.take(0.01) is None
        subscription.drop()
        subscription.put(2)
        with pytest.raises(Dropped):
            await subscription.take(1)

    asyncio.run(scenario())


def test_the_end_of_the_service_ends_the_stream_as_unavailable(calendar):
    client = CalendarClient(calendar.url, calendar.token)
    with client:
        stream = client.events(0)
        client.submit(request(size_bytes=10**6))
        assert next(stream)["kind"] == "admitted"
        calendar.stop()
        with pytest.raises(Unavailable):
            for _ in stream:
                pass


def test_an_agents_stream_begins_with_a_snapshot_and_goes_on_with_changes(calendar):
    with calendar.client() as client:
        first = client.submit(request(size_bytes=5 * 10**9))["id"]
        url = f"{calendar.url}/v1/agents/dtn1/assignments"
        given = {"headers": headers(calendar.token), "timeout": PATIENCE_S}
        with httpx.stream("GET", url, **given) as response:
            lines = (x for x in response.iter_lines() if x.startswith("data: "))
            messages = (json.loads(x.removeprefix("data: ")) for x in lines)
            snapshot = next(messages)
            assert snapshot["kind"] == "snapshot"
            assert [x["id"] for x in snapshot["assign"]] == [first]
            # What must slow down is told in the same breath as what it makes room for.
            second = client.submit(request(size_bytes=10**9, deadline_s=50.0))["id"]
            change = next(x for x in messages if any(y["id"] == second for y in x["assign"]))
            rates = {x["id"]: x["rate_bps"] for x in change["assign"]}
            assert rates.keys() == {first, second}
            assert sum(rates.values()) <= 10**9
            # Another host's address belongs to the assignment as soon as it is known. What nobody
            # has reported falls behind, and has another rate, where this takes seconds.
            client._call("POST", "/v1/agents/dtn3/reports", json={"data_address": "10.0.0.3:7411"})
            told = ({x["data_address"] for x in message["assign"]} for message in messages)
            assert next(x for x in told if x != {None}) == {"10.0.0.3:7411"}
            ports = {"data_address": "10.0.0.3:7411", "data_ports": [7411, 7412]}
            client._call("POST", "/v1/agents/dtn3/reports", json=ports)
            assigned = (x for message in messages for x in message["assign"])
            one = next(x for x in assigned if x["data_ports"] == [7411, 7412])
            assert one["lanes"] == [{"path": one["path"], "rate_bps": one["rate_bps"]}]
            client.cancel(first)
            assert next(x["release"] for x in messages if x["release"]) == [first]


def test_a_reader_goes_on_with_what_follows_in_a_store_that_was_put_back():
    async def scenario():
        hub = EventHub(0)
        old, new = (
            [Event(n, n, kind, None, {}) for n in range(first, 8)]
            for kind, first in (("started", 1), ("failed", 4))
        )
        stored = [(x.number, event_bytes(x)) for x in (*old[:3], *new)]

        def history(after, count):
            return [sent for sent in stored if sent[0] > after][:count]

        reader = hub.follow(None, history)
        assert await anext(reader) == b": connected\n\n"
        hub.publish(old)
        assert await anext(reader) == b"".join(map(event_bytes, old))
        hub.skip_to(3)
        hub.publish(new)
        assert await anext(reader) == b"".join(map(event_bytes, new))
        await reader.aclose()

    asyncio.run(scenario())
