"""A calendar that is started again with another network file, while promises are open."""

import asyncio
from dataclasses import replace

import pytest
from calendar_lab import NETWORK, headers, request, settings
from httpx import ASGITransport, AsyncClient

from weir.calendar.network import Quotas
from weir.calendar.rest.api import create_app
from weir.calendar.rest.tokens import TokenFile
from weir.calendar.service.service import Service
from weir.calendar.storage.store import Store


def network(without=(), renamed=(), **capacities):
    links = [x for x in NETWORK["links"] if not set(x["ends"]) & set(without)]
    links = [x | {"capacity": capacities.get(x["name"], x["capacity"])} for x in links]
    links = [x | {"name": f"{x['name']} of old"} if x["name"] in renamed else x for x in links]
    return {"nodes": [x for x in NETWORK["nodes"] if x not in without], "links": links}


async def served(directory, token, policy, document, use):
    """What `use` makes of a service with such a network, and all transfers after that."""
    made = settings(policy, document)
    # With a bound on shares it is told what each link carries.
    made = replace(made, network=replace(made.network, quotas=Quotas(link_share=0.9)))
    service = Service(made, Store(f"sqlite:///{directory / 'calendar.db'}"))
    tokens = TokenFile(directory / "tokens.json")
    app = create_app(service, tokens)
    await service.start()
    try:
        transport = ASGITransport(app)
        async with AsyncClient(
            transport=transport, base_url="http://calendar", headers=headers(token)
        ) as client:
            used = await use(client, service, tokens.find(token).standing)
            shown = (await client.get("/v1/transfers?limit=100")).json()
            return used, {x["id"]: x for x in shown}
    finally:
        await service.stop()


async def submitted(client, _, __):
    made = []
    for source, waits in (("dtn1", None), ("dtn2", None), ("dtn1", 60)):
        body = request(source=source, destination_path=f"{len(made)}", hold_s=waits)
        answer = await client.post("/v1/transfers", json=body | {"deadline_s": 600.0})
        assert answer.status_code in {201, 202}, answer.text
        made.append(answer.json()["id"])
    return made


async def edges(_, service, standing):
    """What edge agents are told, and how each transfer explains itself."""
    for router in ("west", "east"):
        stream = service.open_stream(router, "edge", standing)
        assert await stream.take(1.0)
    return [await service.why(identifier) for identifier in service.active]


@pytest.mark.parametrize("policy", ["weir", "local-ljf"])
def test_hosts_and_links_that_are_gone_take_no_other_promise_with_them(tmp_path, policy):
    """The service did not start: one transfer of a host that was gone, and nobody was served. With
    a link of another name no edge agent could connect while a transfer lacked room."""

    token = TokenFile(tmp_path / "tokens.json").create("me", "admin")

    async def run():
        made, before = await served(tmp_path, token, policy, network(), submitted)
        gone, stays, waits = made
        assert {x["state"] for x in before.values()} <= {"accepted", "waiting"}
        smaller = network(without=["dtn1"], renamed=["core"])
        _, after = await served(tmp_path, token, policy, smaller, edges)
        words = "no links join dtn1 and dtn3 in this network"
        assert (after[gone]["state"], after[gone]["risk"]) == ("accepted", words)
        assert after[stays]["risk"] is None and after[stays]["rate_bps"] > 0
        if before[waits]["state"] == "waiting":
            assert after[waits]["state"] == "refused"
            assert "no links join" in after[waits]["refusal"]["detail"]
        # Whoever mends the file has lost nothing.
        _, mended = await served(tmp_path, token, policy, network(), edges)
        assert all(mended[x]["risk"] is None and mended[x]["path"] for x in (gone, stays))
        # What finds no room has no path either.
        thin = network(renamed=["core"], core="1 Mbit/s")
        _, thin = await served(tmp_path, token, policy, thin, edges)
        assert all(thin[x]["risk"] for x in (gone, stays))

    asyncio.run(run())
