"""A link that goes down: whoever is told so has been told last, when all new rates are out."""

import asyncio
import json

import httpx
import pytest
from calendar_lab import headers, message, request, settings

from weir.calendar.rest.api import create_app
from weir.calendar.rest.tokens import TokenFile
from weir.calendar.service.service import Service
from weir.calendar.storage.store import Store

# Two ways from west to east, and a pair of hosts at each end.
NETWORK = {
    "nodes": ["dtn1", "dtn2", "dtn3", "dtn4", "west", "north", "south", "east"],
    "links": [
        *(
            {"name": name, "ends": ends, "capacity": "10 Gbit/s"}
            for name, ends in {
                "access1": ["dtn1", "west"],
                "access2": ["dtn2", "west"],
                "access3": ["east", "dtn3"],
                "access4": ["east", "dtn4"],
            }.items()
        ),
        {"name": "north1", "ends": ["west", "north"], "capacity": "1 Gbit/s"},
        {"name": "north2", "ends": ["north", "east"], "capacity": "1 Gbit/s"},
        {"name": "south1", "ends": ["west", "south"], "capacity": "1 Gbit/s"},
        {"name": "south2", "ends": ["south", "east"], "capacity": "1 Gbit/s"},
    ],
}
ACTIVE = 60


def submissions():
    for number in range(ACTIVE):
        yield request(
            source=f"dtn{1 + number % 2}",
            destination=f"dtn{3 + number % 2}",
            destination_path=f"inbox/{number}",
            size_bytes=20_000_000,
            deadline_s=3_600.0 + number,
        )


async def replanned(directory, policy):
    """What is told of a link that goes down, by the time that the answer is there."""
    tokens = TokenFile(directory / "tokens.json")
    token = tokens.create("me", "admin")
    store = Store(f"sqlite:///{directory / 'calendar.db'}")
    service = Service(settings(policy, NETWORK), store)
    app = create_app(service, tokens)
    await service.start()
    transport = httpx.ASGITransport(app)
    async with httpx.AsyncClient(
        transport=transport, base_url="http://calendar", headers=headers(token)
    ) as client:
        for content in submissions():
            assert (await client.post("/v1/transfers", json=content)).status_code == 201
        # Streams of tokens that are not known end within a second.
        mine = tokens.find(token).standing
        streams = [service.open_stream(host, "host", mine) for host in ("dtn1", "dtn2")]
        for stream in streams:
            assert message(await stream.take(1.0))["kind"] == "snapshot"
        used = next(iter(service.active.values())).path[1]
        before = service.hub.last_number
        answer = await client.put(f"/v1/links/{used}/state", json={"up": False})
        # From here on nothing is waited for: what is not there by now was told too late.
        told = service.hub.last_number
        messages = [x for stream in streams for x in await _told(stream)]
        links = service.links()
        shown = (await client.get("/v1/transfers?limit=100")).json()
    events = store.events_after(before, told - before)
    await service.stop()
    return used, answer, events, messages, links, shown


async def _told(stream):
    """What an agent is told now."""
    messages = []
    while (told := await stream.take(0)) is not None:
        messages.append(message(told))
    return messages


@pytest.mark.parametrize("policy", ["local-ljf", "weir"])
def test_the_answer_comes_after_every_new_rate(tmp_path, policy):
    used, answer, events, messages, links, shown = asyncio.run(replanned(tmp_path, policy))
    assert answer.status_code == 200 and not answer.json()[0]["up"]
    kinds = [event.kind for event in events]
    assert kinds[0] == "capacity" and "rates" in kinds
    # Those in danger are told so after their rates: what is said of them is of the new plan.
    if "at-risk" in kinds:
        assert kinds.index("rates") < kinds.index("at-risk")
    rates = {}
    for event in events:
        rates |= json.loads(event.text).get("rates_bps", {})
    assert rates.items() <= {x["id"]: x["rate_bps"] for x in shown}.items()
    assigned = {x["id"]: x["rate_bps"] for message in messages for x in message["assign"] or ()}
    assert rates.items() <= assigned.items()
    for name, capacity_bps, allotted_bps, _ in links:
        assert allotted_bps <= capacity_bps, name
    stopped = [x for x in shown if used in x["path"]]
    assert len(shown) == ACTIVE and all(x["rate_bps"] == 0 for x in stopped)
