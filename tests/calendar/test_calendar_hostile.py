"""Whoever answers under the calendar's address may say anything: an agent lives, and carries out
nothing of what no calendar would say."""

import asyncio
import json
import time

import httpx
import pytest

from weir.calendar.agents import assignments as stream_module
from weir.calendar.agents.agent import ANSWERS_MAX, HostAgent, MoverOptions
from weir.calendar.agents.assignments import AssignmentStream
from weir.errors import BadInput

BOUND_S = 60
ASSIGNED = {
    "id": "t1",
    "source": "dtn1",
    "source_path": "f",
    "source_address": None,
    "destination": "dtn3",
    "destination_path": "f",
    "destination_address": "127.0.0.1",
    "data_address": None,
    "data_ports": [],
    "size_bytes": 5,
    "deadline_ns": time.time_ns() + 10**12,
    "path": ["core"],
    "spare": None,
    "rate_bps": 10**6,
    "lanes": [{"path": ["core"], "rate_bps": 10**6}],
}


class Answering:
    """A calendar that says the same at every connection; what it was asked."""

    def __init__(self, stream=b"", answer=b'{"stop":[]}', status=200):
        self.stream, self.answer, self.status = stream, answer, status
        self.connections, self.reports, self.answers = 0, [], []

    async def __call__(self, request):
        content = await request.aread()
        if request.method == "GET":
            self.connections += 1
            return httpx.Response(self.status, stream=Pieces(self.stream))
        told = self.answers if request.url.path.endswith("/answers") else self.reports
        told.append(json.loads(content))
        return httpx.Response(200, stream=Pieces(self.answer))


class Pieces(httpx.AsyncByteStream):
    """A body as a network brings it."""

    def __init__(self, content):
        self._content = content

    async def __aiter__(self):
        for start in range(0, len(self._content), 65_536):
            yield self._content[start : start + 65_536]
            await asyncio.sleep(0)


def lived(calendar, tmp_path, until):
    """The agent of a calendar, once something is so; it was still alive then."""

    async def run():
        stream = AssignmentStream("http://calendar", "token", "dtn1")
        stream._http = httpx.AsyncClient(transport=httpx.MockTransport(calendar))
        agent = HostAgent(stream, MoverOptions(tmp_path, None))
        async with stream:
            work = asyncio.create_task(agent.run())
            end = time.monotonic() + BOUND_S
            while not until() and not work.done():
                assert time.monotonic() < end, "it neither goes on nor ends"
                await asyncio.sleep(0.005)
            if work.done():
                await work  # raises what it ended by
            work.cancel()
            await asyncio.gather(work, return_exceptions=True)
        return agent

    return asyncio.run(run())


def message(**changes):
    return b"data: " + json.dumps({"kind": "snapshot", "assign": [], **changes}).encode() + b"\n\n"


def assigned(**changes):
    return message(assign=[ASSIGNED | changes])


UNLIKE = {
    "no JSON": b"data: {{{\n\n",
    "no text": b"data: \xff\xfe\n\n",
    "nothing": b"data: null\n\n",
    "a list": b"data: []\n\n",
    "nested deeply": b"data: " + b"[" * 200_000 + b"\n\n",
    "digits": b'data: {"kind":"snapshot","assign":[],"x":' + b"9" * 100_000 + b"}\n\n",
    "without kind": b"data: {}\n\n",
    "kind of a number": message(kind=5),
    "assigns nothing": message(assign=None),
    "assigns a number": message(assign=5),
    "assigns numbers": message(assign=[5]),
    "assigns without words": message(assign=[{}]),
    "releases a number": message(kind="change", release=5),
    "releases lists": message(kind="change", release=[[1]]),
    "question of nothing": b'data: {"kind":"question"}\n\n',
    "question of a number": b'data: {"kind":"question","ticket":"t","path":5}\n\n',
    "question with NUL": b'data: {"kind":"question","ticket":"t","path":"a\\u0000b"}\n\n',
    "question of no text": b'data: {"kind":"question","ticket":"t","path":"\\ud800"}\n\n',
    **{
        f"{name} = {value!r:.20}": assigned(**{name: value})
        for name, values in {
            "rate_bps": [float("nan"), float("inf"), 10**30, -5, 1.5, True, "fast", None],
            "deadline_ns": [10**40, float("nan"), -1, "soon", None],
            "size_bytes": [-1, float("nan"), "much"],
            "id": [5, [1], None, ""],
            "data_address": [5, "nowhere", "127.0.0.1:9\n", "127.0.0.1\0:9"],
            "data_ports": [5, [0], [10**9], list(range(1, 5000))],
            "lanes": [5, [1, 2], ASSIGNED["lanes"] * 5000, [{"path": [], "rate_bps": -1}]],
            "source_path": [5, "a\0b", "\ud800", None],
            "destination_path": [5, "a\0b", "\ud800", None],
            "destination_address": [5],
            "spare": [5],
        }.items()
        for value in values
    },
}


@pytest.mark.parametrize("said", UNLIKE.values(), ids=UNLIKE.keys())
def test_what_no_calendar_says_is_not_carried_out_and_the_agent_lives(tmp_path, said):
    calendar = Answering(said)
    agent = lived(calendar, tmp_path, lambda: calendar.connections >= 2)
    assert not agent._jobs


def test_what_a_calendar_says_is_taken(tmp_path):
    """Also what those of earlier versions left out, and what later ones may say more."""
    calendar = Answering(assigned(later=5))
    agent = lived(calendar, tmp_path, lambda: calendar.connections >= 2)
    assert list(agent._jobs) == ["t1"]
    more = ("source_address", "destination_address", "data_ports", "path", "spare", "lanes")
    earlier = {key: value for key, value in ASSIGNED.items() if key not in more}
    calendar = Answering(message(assign=[earlier]))
    agent = lived(calendar, tmp_path, lambda: calendar.connections >= 2)
    assert list(agent._jobs) == ["t1"]


def test_a_message_without_end_is_left(tmp_path, monkeypatch):
    monkeypatch.setattr(stream_module, "MESSAGE_BYTES_MAX", 1 << 20)
    endless = Answering(b"data: " + b"x" * (8 << 20))
    lived(endless, tmp_path, lambda: endless.connections >= 2)


@pytest.mark.parametrize(
    "answer",
    [b"null", b"[]", b"<html>", b'{"stop":5}', b'{"stop":[[1]]}', b"[" * 100_000, b"x" * (8 << 20)],
    ids=lambda answer: repr(answer[:12]),
)
def test_a_report_that_is_answered_unlike_a_calendar_is_sent_again(tmp_path, answer):
    calendar = Answering(answer=answer)
    lived(calendar, tmp_path, lambda: len(calendar.reports) >= 2)


@pytest.mark.parametrize("said", [b"<html>", b"null", b"[]", b"{}", b'{"detail":5}', b"[" * 60_000])
def test_who_turns_an_agent_away_without_a_reason_is_no_calendar(tmp_path, said):
    calendar = Answering(said, status=404)
    lived(calendar, tmp_path, lambda: calendar.connections >= 2)
    with pytest.raises(BadInput, match="turns this agent away: gone"):
        lived(Answering(b'{"detail":"gone"}', status=404), tmp_path, lambda: False)


def test_questions_without_end_are_answered_as_far_as_there_is_room(tmp_path):
    """An agent that answered all of a hundred thousand heard neither its calendar nor SIGTERM."""
    (tmp_path / "f").write_bytes(b"12345")
    question = b'data: {"kind":"question","ticket":"t","path":"f"}\n\n'
    calendar = Answering(question * 20_000)
    lived(calendar, tmp_path, lambda: calendar.connections >= 2)
    assert 1 <= len(calendar.answers) <= 4 * ANSWERS_MAX
    assert {"ticket": "t", "size_bytes": 5} in calendar.answers
