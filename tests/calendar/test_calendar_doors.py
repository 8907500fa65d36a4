"""Every route with every credential: who has no right is refused, and nothing happens.

The routes are the application's own, so that one which is added and not listed here fails.
"""

import hashlib
from pathlib import Path
from types import SimpleNamespace

import pytest
from calendar_lab import headers, patient_client, request

from weir.calendar.rest.api import create_app, router
from weir.calendar.rest.tokens import TokenFile

ANYBODY = {"read", "submit", "other", "agent", "dtn1", "dtn2", "admin"}
READERS = {"read", "submit", "other", "admin"}
AGENTS = {"agent", "dtn1", "admin"}
# Who may, the host being dtn1 and the transfer one of "submit".
DOORS = {
    ("POST", "/v1/transfers"): READERS - {"read"},
    ("POST", "/v1/series"): READERS - {"read"},
    ("POST", "/v1/prechecks"): READERS - {"read"},
    ("GET", "/v1/transfers"): READERS,
    ("GET", "/v1/transfers/{identifier}"): READERS,
    ("GET", "/v1/transfers/{identifier}/why"): READERS,
    ("GET", "/v1/why"): READERS,
    ("POST", "/v1/elephants"): ANYBODY - {"read", "dtn2"},
    ("GET", "/v1/elephants"): READERS,
    ("GET", "/v1/network"): READERS,
    ("GET", "/v1/links/{name}/timetable"): READERS,
    ("POST", "/v1/links/{name}/timetable"): {"admin"},
    ("PUT", "/v1/links/{name}/timetable"): {"admin"},
    ("DELETE", "/v1/links/{name}/timetable"): {"admin"},
    ("PUT", "/v1/links/{name}/state"): {"admin"},
    ("GET", "/v1/events"): READERS,
    ("GET", "/v1/agents/{host}/assignments"): AGENTS,
    ("POST", "/v1/agents/{host}/reports"): AGENTS,
    ("POST", "/v1/agents/{host}/answers"): AGENTS,
    ("GET", "/metrics"): READERS,
    ("GET", "/openapi.json"): ANYBODY,
    ("DELETE", "/v1/elephants/{identifier}"): {"submit", "admin"},
    # The last, so that the transfer is there until then.
    ("DELETE", "/v1/transfers/{identifier}"): {"submit", "admin"},
}
ELEPHANT = {"source": "dtn1", "destination": "dtn3", "destination_port": 7411}
METHODS = ("GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS", "TRACE")


@pytest.fixture
def world(api, tokens, tmp_path):
    """A calendar with one transfer, and a token of every kind."""
    file = TokenFile(tmp_path / "tokens.json")
    known = tokens | {"dtn2": file.create("agent-dtn2", "agent", "dtn2")}
    revoked = file.create("gone", "admin")
    file.revoke("gone")
    made = api.post("/v1/transfers", json=request()).json()
    made["elephant"] = api.post("/v1/elephants", json=ELEPHANT).json()["id"]
    with patient_client(api.base_url) as client:
        yield SimpleNamespace(client=client, known=known, revoked=revoked, made=made)


def body(method, path, made, name="another"):
    """Sound ones, so that nothing but the right is missing."""
    if (method, path) in {("POST", "/v1/transfers"), ("POST", "/v1/prechecks")}:
        return request(destination_path=name, size_bytes=1_000)
    if path == "/v1/series":
        common = request(destination_path=f"{name} again", size_bytes=1_000, deadline_s=None)
        return common | {"occurrences": [{"deadline": made["deadline"]}]}
    if path == "/v1/elephants":
        return ELEPHANT | {"source_port": 7000 + len(name)}
    if path.endswith("/timetable"):
        entry = {"capacity": "1 Gbit/s", "from": "22:00", "to": "23:00", "daily": True}
        return {"POST": entry, "PUT": {"entries": [entry]}}.get(method)
    if path.endswith("/state"):
        return {"up": True}
    if path.endswith("/reports"):
        done = {"id": made["id"], "state": "done", "bytes_durable": made["size_bytes"]}
        return {"transfers": [done]}
    return {"ticket": "1", "size_bytes": 1} if path.endswith("/answers") else None


def filled(path, made):
    identifier = made["elephant" if "elephants" in path else "id"]
    return path.format(identifier=identifier, host="dtn1", name="core")


def status(client, method, url, **given):
    """How it is answered; of a stream that opens nothing is read."""
    with client.stream(method, url, **given) as answer:
        return answer.status_code


def wrong_credentials(token, revoked):
    """Whatever one might try who has seen a token, or a part of one, but holds none."""
    digest = hashlib.sha256(token.encode()).hexdigest()
    texts = ["", "Bearer", "Bearer nobody", "Basic d2VpcjoxMjM=", "Bearer \xff", token, "Bearer *"]
    texts += [f"Basic {token}", f"Bearer {token[:-1]}", f"Bearer {token}x", f"Bearer {digest}"]
    texts += [f"Bearer {token.swapcase()}", f"Bearer {revoked}", f"Bearer {token} {token}"]
    yield from ({"headers": {"Authorization": text.encode("latin-1")}} for text in texts)
    yield {}
    yield {"params": {"token": token, "access_token": token, "authorization": f"Bearer {token}"}}
    yield {"headers": {"Cookie": f"token={token}; Authorization=Bearer {token}"}}
    yield {"headers": {"X-Authorization": f"Bearer {token}", "X-Forwarded-For": "127.0.0.1"}}


def test_every_route_is_listed():
    app = create_app(SimpleNamespace(), TokenFile(Path("nowhere")))
    # Those of the module's router, and what the application has beside it.
    beside = [route for route in app.routes if hasattr(route, "methods")]
    assert len(app.routes) - len(beside) <= 1
    everything = [*router.routes, *beside]
    routes = {(method, route.path_format) for route in everything for method in route.methods}
    assert routes - {("HEAD", "/openapi.json")} == {*DOORS, ("GET", "/healthz")}


def test_without_a_right_nothing_opens_and_nothing_happens(world):
    client, made, refused = world.client, world.made, 0
    for (method, path), those in DOORS.items():
        url, content = filled(path, made), body(method, path, made)
        for wrong in wrong_credentials(world.known["admin"], world.revoked):
            assert status(client, method, url, json=content, **wrong) == 401, wrong
            refused += 1
        for name in ANYBODY - those:
            given = headers(world.known[name])
            answer = status(client, method, url, json=content, headers=given)
            assert answer == 403, f"{name}: {method} {path}"
            refused += 1
    for path in {path for _, path in DOORS} | {"/v1", "/docs", "/redoc", "/healthz/..%2f", "//"}:
        for method in METHODS:
            url = f"{str(client.base_url).rstrip('/')}{filled(path, made)}"
            assert status(client, method, url) == 401, f"{method} {path}"
            refused += 1
    print(f"{refused} requests without a right refused, over {len(DOORS)} routes")
    assert refused >= 155
    left = client.get("/v1/transfers", headers=headers(world.known["read"])).json()
    assert [(x["id"], x["state"], x["bytes_durable"]) for x in left] == [
        (made["id"], "accepted", 0)
    ]


def test_with_the_right_each_opens(world):
    """Else the test above would be about requests that nobody may make."""
    client, made = world.client, world.made
    for (method, path), those in DOORS.items():
        for name in sorted(those):
            # What is completed cannot be cancelled: the report is an empty one here.
            content = {} if path.endswith("/reports") else body(method, path, made, name)
            given = headers(world.known[name])
            url = filled(path, made)
            # Cancelled by the first of them; of none was anything refused that could be told.
            expected = {200, 201, 204} if method != "DELETE" else {200, 409}
            # Nothing is known any more of an elephant that is over.
            gone = {"/v1/why", "/v1/elephants/{identifier}"}
            expected |= {404} if path in gone else set()
            answer = status(client, method, url, json=content, headers=given)
            assert answer in expected, f"{name}: {method} {path}"


def test_the_agent_of_a_host_is_told_of_no_others_transfers(world):
    """The controller is told of all; so who asks as the controller has to be it."""
    opened = {}
    for name in sorted(AGENTS):
        url, given = "/v1/agents/dtn1/assignments", headers(world.known[name])
        opened[name] = status(world.client, "GET", url, params={"role": "control"}, headers=given)
    assert opened == {"agent": 200, "dtn1": 403, "admin": 200}


def test_the_agent_of_another_host_reports_nothing_of_this_ones_transfer(world):
    content = body("POST", "/v1/agents/{host}/reports", world.made)
    given = headers(world.known["dtn2"])
    answer = world.client.post("/v1/agents/dtn2/reports", json=content, headers=given)
    assert answer.status_code == 200
    given = headers(world.known["read"])
    shown = world.client.get(f"/v1/transfers/{world.made['id']}", headers=given).json()
    assert (shown["state"], shown["bytes_durable"]) == ("accepted", 0)
