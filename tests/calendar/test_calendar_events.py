"""The event stream: complete, resumable, and never held up by a slow reader."""

import asyncio
import itertools
import statistics
import threading
import time

import httpx
import pytest
from calendar_lab import headers, request, wait_for

from weir.calendar.client import CalendarClient
from weir.calendar.events import BACKLOG_MAX, Dropped, EventHub, Subscription
from weir.calendar.records import EVENT_KINDS, Event
from weir.errors import Unavailable


def event(number):
    return Event(number, number, "rates", None, {})


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
    events = follow(calendar, 0, 4)
    assert [x["kind"] for x in events] == ["admitted", "refused", "started", "completed"]
    assert [x["id"] for x in events] == [1, 2, 3, 4]
    assert [x["transfer"] for x in events] == [made, None, made, made]
    assert events[1]["link"] == "core.forward"
    assert events[3]["on_time"] is True
    assert {x["kind"] for x in events} <= set(EVENT_KINDS)


def test_a_missed_deadline_is_told_once(calendar):
    with calendar.client() as client:
        made = client.submit(request(size_bytes=10**6, deadline_s=1.5))["id"]
        wait_for(lambda: client.show(made)["on_time"] is False, 10)
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


def test_live_events_reach_a_reader_at_once(calendar):
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
    reader.join(60)
    assert seen_s.keys() == sent_s.keys()
    assert statistics.median(seen_s[x] - sent_s[x] for x in sent_s) < 0.2


def test_a_reader_that_stands_still_is_dropped_and_holds_up_nobody():
    async def scenario():
        hub = EventHub(0)
        slow = hub.follow(None, lambda after: [])
        assert await anext(slow) == b": connected\n\n"
        waiting = asyncio.ensure_future(anext(slow))
        await asyncio.sleep(0)
        hub.publish([event(n) for n in range(1, BACKLOG_MAX + 10)])
        with pytest.raises(StopAsyncIteration):
            for _ in range(BACKLOG_MAX + 10):
                await waiting
                waiting = asyncio.ensure_future(anext(slow))
        assert hub.readers == 0

    asyncio.run(scenario())


def test_history_and_live_events_meet_without_gap_or_double():
    async def scenario():
        hub = EventHub(5)

        def history(after):
            # More happens while the past is read.
            if hub.last_number == 5:
                asyncio.run_coroutine_threadsafe(publish(), loop).result()
            return [event(n) for n in range(after + 1, 8)]

        async def publish():
            hub.publish([event(6), event(7), event(8)])

        loop = asyncio.get_running_loop()
        stream = hub.follow(2, history)
        assert await anext(stream) == b": connected\n\n"
        got = [await anext(stream) for _ in range(6)]
        numbers = [int(chunk.split(b"\n")[0].removeprefix(b"id: ")) for chunk in got]
        assert numbers == [3, 4, 5, 6, 7, 8]
        await stream.aclose()

    asyncio.run(scenario())


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
    import json

    with calendar.client() as client:
        first = client.submit(request(size_bytes=5 * 10**9))["id"]
        url = f"{calendar.url}/v1/agents/dtn1/assignments"
        with httpx.stream("GET", url, headers=headers(calendar.token), timeout=10) as response:
            lines = (x for x in response.iter_lines() if x.startswith("data: "))
            orders = (json.loads(x.removeprefix("data: ")) for x in lines)
            snapshot = next(orders)
            assert snapshot["kind"] == "snapshot"
            assert [x["id"] for x in snapshot["assign"]] == [first]
            # What must slow down is told in the same breath as what it makes room for.
            second = client.submit(request(size_bytes=10**9, deadline_s=50.0))["id"]
            change = next(orders)
            rates = {x["id"]: x["rate_bps"] for x in change["assign"]}
            assert rates.keys() == {first, second}
            assert sum(rates.values()) <= 10**9
            # Another host's address belongs to the order as soon as it is known.
            client._call("POST", "/v1/agents/dtn3/reports", json={"data_address": "10.0.0.3:7411"})
            assert {x["data_address"] for x in next(orders)["assign"]} == {"10.0.0.3:7411"}
            client.cancel(first)
            assert next(orders)["release"] == [first]
