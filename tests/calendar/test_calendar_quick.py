"""Plain requests are answered without the framework's layers, and as the framework would."""

import json

import pytest
from calendar_lab import headers, request
from test_calendar_store import transfer

from weir.calendar.planning.split import lanes
from weir.calendar.rest.quick import QuickRoutes
from weir.calendar.service.kept import Kept
from weir.calendar.service.models import TransferView, Views, view

# The framework reads such a request as it does a plain one.
ODD = {"Content-Type": "application/json; charset=utf-8"}
# What is different in every answer, also to the same request.
OWN = {"id", "submitted", "slack_s", "deadline", "destination_path", "rate_bps"}


@pytest.fixture
def quick(monkeypatch):
    """The paths of requests that the framework has not seen."""
    seen = []
    answer = QuickRoutes.answer

    async def noted(self, scope, receive, send):
        unread = await answer(self, scope, receive, send)
        if unread is None:
            seen.append((scope["method"], scope["path"]))
        return unread

    monkeypatch.setattr(QuickRoutes, "answer", noted)
    return seen


def told(response):
    """What a response says, but for what is its own."""
    body = response.json()
    entries = body if isinstance(body, list) else [body]
    kept = [{key: x for key, x in entry.items() if key not in OWN} for entry in entries]
    said = {key: x for key, x in response.headers.items() if key not in {"date", "location"}}
    said.pop("content-length")
    return response.status_code, said, kept


def test_plain_requests_do_not_reach_the_framework_and_are_answered_alike(api, quick):
    content = request(size_bytes=1_000_000)
    plain = api.post("/v1/transfers", json=content)
    odd_body = json.dumps(content | {"destination_path": "inbox/other"})
    odd = api.post("/v1/transfers", content=odd_body, headers=ODD)
    assert quick == [("POST", "/v1/transfers")]
    assert plain.status_code == 201 and told(plain) == told(odd)
    assert plain.headers["location"] == f"/v1/transfers/{plain.json()['id']}"
    one = f"/v1/transfers/{odd.json()['id']}"
    assert told(api.get(one)) == told(api.get(f"{one}?by=hand"))
    for query in ("", "?limit=1", "?state=active&limit=20", "?state=completed"):
        more = "&" if query else "?"
        both = [api.get(f"/v1/transfers{query}"), api.get(f"/v1/transfers{query}{more}odd=1")]
        assert told(both[0]) == told(both[1])
    assert quick[1:] == [("GET", one)] + [("GET", "/v1/transfers")] * 4


@pytest.mark.parametrize(
    "content",
    [
        request(size_bytes=10**15),
        request(deadline_s=None),
        request(source="nobody"),
        request(destination="dtn1"),
        request(start_s=20.0),
    ],
)
def test_what_is_refused_is_refused_alike(api, quick, content):
    plain = api.post("/v1/transfers", json=content)
    odd = api.post("/v1/transfers", content=json.dumps(content), headers=ODD)
    assert len(quick) == 1
    assert plain.status_code in {409, 422} and told(plain)[:2] == told(odd)[:2]
    assert plain.json()["type"] == odd.json()["type"]


@pytest.mark.parametrize(
    "wrong",
    [
        {"json": request(size_bytes=-1)},
        {"json": request(unknown=1)},
        {"json": []},
        {"content": b"{", "headers": {"Content-Type": "application/json"}},
        {"content": b"[" * 100_000, "headers": {"Content-Type": "application/json"}},
        {"content": json.dumps(request()), "headers": {"Content-Type": "text/plain"}},
        {"json": request(), "headers": {"Idempotency-Key": "two words"}},
        {"json": request(), "headers": {"Authorization": "Bearer nobody"}},
        {"content": (x for x in [b" " * 70_000, json.dumps(request(size_bytes="1")).encode()])},
    ],
)
def test_the_framework_says_what_is_wrong_with_a_request(api, quick, wrong):
    response = api.post("/v1/transfers", **wrong)
    assert response.headers["content-type"] == "application/problem+json"
    assert response.status_code in {400, 401, 422} and response.json()["detail"]
    assert quick == []


def test_a_body_in_pieces_is_read_whole(api, quick):
    whole = json.dumps(request()).encode()
    pieces = iter([whole[:10], whole[10:]])
    odd = api.post("/v1/transfers", content=pieces, headers={"Content-Type": "application/json"})
    assert odd.status_code == 201, odd.text


def test_who_may_not_gets_nothing_by_the_quick_way(api, tokens, quick):
    agent, reader = headers(tokens["agent"]), headers(tokens["read"])
    assert api.post("/v1/transfers", json=request(), headers=reader).status_code == 403
    for path in ("/v1/transfers", "/v1/transfers/abc"):
        assert api.get(path, headers=agent).status_code == 403
    assert quick == []


def test_a_key_is_a_key_by_either_way(api, quick):
    keyed = {"Idempotency-Key": "run-7"}
    first = api.post("/v1/transfers", json=request(), headers=keyed)
    again = api.post("/v1/transfers", content=json.dumps(request()), headers=keyed | ODD)
    third = api.post("/v1/transfers", json=request(), headers=keyed)
    assert (first.status_code, again.status_code, third.status_code) == (201, 200, 200)
    assert {x.json()["id"] for x in (again, third)} == {first.json()["id"]}
    assert len(quick) == 2


def test_a_transfer_is_written_as_it_is_now_however_often_it_was_before():
    views, several = Views(), {"paths_max": 2, "paths": (("l1", "l2"), ("l3",))}
    over = {"state": "completed", "finished_ns": 9, "missed": True}
    changes = ({}, {"bytes_durable": 7}, several, over)
    for number, change in enumerate([*changes, *changes]):
        one = transfer(**change)
        told_bps = number * 10**6, (number * 10**6, 7) if one.paths else None
        kept = Kept(number, 1, None, None) if number % 2 else None
        told = json.loads(views.text(one, 2**61 + number, *told_bps, 8.6 * number, kept))
        each = lanes(one, *told_bps)
        assert told == view(one, 2**61 + number, each, 8.6 * number, kept)
        assert TransferView(**told).model_dump() == told
        assert (told["bytes_durable"], told["lanes"]) == (one.bytes_durable, each)
