"""One agent speaks for a host: a second one waits, and takes its place once it is gone."""

import asyncio
import logging
import time

import httpx
from calendar_lab import headers, request

from weir.calendar.agents.agent import HostAgent, MoverOptions
from weir.calendar.agents.assignments import AssignmentStream
from weir.calendar.service.registry import SILENCE_S, Registry, Stream

BOUND_S = 60


def statuses(client, token, instance):
    """How reports and answers of an agent are taken."""
    given = headers(token) | ({} if instance is None else {"Weir-Agent": instance})
    bodies = {"reports": {}, "answers": {"ticket": "x"}}
    return [
        client.post(f"/v1/agents/dtn1/{kind}", json=body, headers=given).status_code
        for kind, body in bodies.items()
    ]


def test_a_second_agent_is_refused_while_the_first_is_connected(api, tokens):
    token, path = tokens["dtn1"], "/v1/agents/dtn1/assignments"
    first, second = (headers(token, **{"Weir-Agent": x}) for x in ("aa", "bb"))
    with api.stream("GET", path, headers=first) as stream:
        lines = stream.iter_lines()
        assert next(lines)
        assert statuses(api, token, "aa") == [200, 204]
        refused = api.get(path, headers=second)
        assert (refused.status_code, refused.json()["type"]) == (
            409,
            "urn:weir:problem:another-agent",
        )
        assert 'another agent speaks for "dtn1", from 127.0.0.1' in refused.json()["detail"]
        assert statuses(api, token, "bb") == [409, 409]
        # Those of earlier versions do not say which they are.
        assert statuses(api, token, None) == [200, 204]
        # An edge agent beside it is another thing.
        beside = {**second, "Authorization": f"Bearer {tokens['agent']}"}
        for role in ("edge", "control"):
            with api.stream("GET", path, params={"role": role}, headers=beside) as other:
                assert other.status_code == 200
    end_s = time.monotonic() + BOUND_S
    while statuses(api, token, "bb") != [200, 204]:
        assert time.monotonic() < end_s
    wrong = api.get(path, headers=headers(token, **{"Weir-Agent": "Zorro"}))
    assert wrong.status_code == 422


def test_who_was_silent_has_its_place_taken_and_is_told():
    async def run():
        registry = Registry(0.0)
        first = Stream("dtn1", "host", "token", lambda _: b"", "aa")
        registry.hold("dtn1", "aa", 100.0)
        registry.streams.add(first)
        registry.heard("dtn1", 100.0)
        refused = []
        for now_s in (101.0, 100.0 + SILENCE_S, 100.1 + SILENCE_S):
            try:
                registry.hold("dtn1", "bb", now_s)
            except Exception as problem:
                refused.append((now_s, problem.status))
        assert [status for _, status in refused] == [409, 409]
        assert first.dropped

    asyncio.run(run())


async def until(probe):
    end_s = time.monotonic() + BOUND_S
    while not await probe():
        assert time.monotonic() < end_s
        await asyncio.sleep(0.05)


def test_an_agent_that_is_started_for_anothers_host_fails_nothing(api, tokens, tmp_path, caplog):
    """It had every file of that host looked for where it is not, and each transfer failed."""
    (tmp_path / "right" / "data").mkdir(parents=True)
    (tmp_path / "right" / "data" / "file").write_bytes(b"12345")
    (tmp_path / "wrong").mkdir()
    url = str(api.base_url)

    async def agent(root):
        async with AssignmentStream(url, tokens["agent"], "dtn1") as stream:
            await HostAgent(stream, MoverOptions(tmp_path / root, None)).run()

    async def run():
        async with httpx.AsyncClient(base_url=url, headers=headers(tokens["admin"])) as client:
            # Nobody listens there, so the right one tries again and again.
            where = {"data_address": "127.0.0.1:9"}
            await client.post("/v1/agents/dtn3/reports", json=where)
            made = (await client.post("/v1/transfers", json=request(size_bytes=5))).json()["id"]

            async def shown():
                return (await client.get(f"/v1/transfers/{made}")).json()

            right = asyncio.create_task(agent("right"))

            async def tried():
                return "refused" in ((await shown())["error"] or "")

            await until(tried)
            wrong = asyncio.create_task(agent("wrong"))

            async def warned():
                return "another agent speaks" in caplog.text

            await until(warned)
            assert (await shown())["state"] != "failed"
            right.cancel()

            async def failed():
                return (await shown())["state"] == "failed"

            # It takes the place of the one that is gone.
            await until(failed)
            wrong.cancel()
            await asyncio.gather(right, wrong, return_exceptions=True)
            return (await shown())["error"]

    with caplog.at_level(logging.WARNING):
        assert "is not there" in asyncio.run(run())
    assert caplog.text.count("another agent speaks") == 1
