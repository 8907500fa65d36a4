"""Elephants that applications tell the calendar of: rights, quotas, bad input, restarts."""

import json
import subprocess

import pytest
from calendar_lab import NETWORK, WEIR, headers, patient_client, wait_for

from weir.calendar.elephants import HEARD_WITHIN_NS, TOLD_MAX, Elephant, Elephants
from weir.calendar.network import parse_network
from weir.calendar.problem import Problem
from weir.calendar.service.models import ElephantRequest
from weir.errors import BadInput

S = 10**9


def flow(**changes):
    told = {"source": "dtn1", "destination": "dtn3", "destination_port": 7411} | changes
    return {name: value for name, value in told.items() if value is not None}


def one(identifier, **changes):
    ends = {"source": "dtn1", "destination": "dtn3", "protocol": "tcp", "source_port": None}
    about = {"destination_port": 7411, "size_bytes": None, "rate_max_bps": None}
    made = {"id": identifier, "owner": "me", "told_ns": 0, "expires_ns": None} | ends | about
    return Elephant(**(made | changes))


# --- the book, without a service ---


def test_the_same_flow_of_one_owner_is_one_elephant_and_is_changed():
    book = Elephants((), 2)
    first = book.tell(one("a"))
    again = book.tell(one("b", told_ns=5, expires_ns=9, size_bytes=7))
    assert again == one("a", told_ns=first.told_ns, expires_ns=9, size_bytes=7)
    assert book.tell(one("c", owner="you")).id == "c"
    assert book.tell(one("d", protocol="udp")).id == "d"
    assert [book.end("a").id, book.end("a")] == ["a", None]
    assert book.tell(one("e")).id == "e"


def test_those_whose_time_has_come_are_over_and_no_others():
    told = [one("a", expires_ns=5), one("b", source_port=1), one("c", source_port=2, expires_ns=6)]
    book = Elephants(told, 10)
    assert (book.expired(4), book.expired(5), book.expired(99)) == ([], ["a"], ["a", "c"])


def test_one_that_was_told_again_just_now_is_not_believed_to_be_idle():
    book = Elephants([one("a"), one("b", source_port=1)], 10)
    book.tell(one("c", told_ns=50 * S))
    soon, later = 50 * S + HEARD_WITHIN_NS - 1, 50 * S + HEARD_WITHIN_NS
    assert book.believed_idle(["a", "b", "x"], soon) == ["b", "x"]
    assert book.believed_idle(["a", "b"], later) == ["a", "b"]


def test_no_more_than_a_quota_and_than_all_may_tell_of():
    book = Elephants((one(str(x), source_port=x) for x in range(1, 11)), 10)
    with pytest.raises(Problem, match="has told of") as caught:
        book.tell(one("more"))
    assert (caught.value.status, caught.value.kind) == (409, "quota")
    assert book.tell(one("more", source_port=3)).id == "3", "told already"
    assert book.tell(one("mine", owner="you")).id == "mine"
    full = Elephants((one(str(x), owner=f"o{x}") for x in range(TOLD_MAX)), 10)
    with pytest.raises(Problem, match="all together"):
        full.tell(one("more"))


def test_the_quota_stands_in_the_network_file():
    assert parse_network(NETWORK | {"quotas": {"elephants": 3}}).quotas.elephants == 3
    for wrong in (0, "3", True, 1.5):
        with pytest.raises(BadInput, match="quotas: elephants"):
            parse_network(NETWORK | {"quotas": {"elephants": wrong}})


# --- the service ---


@pytest.fixture
def controller(api, tokens):
    """A client with the right of an agent, at a node of the network."""
    with patient_client(api.base_url, headers=headers(tokens["agent"])) as client:
        yield client


def messages(client):
    """What the controller is told, as it comes."""
    path = "/v1/agents/west/assignments"
    with client.stream("GET", path, params={"role": "control"}) as response:
        for line in response.iter_lines():
            if line.startswith("data: "):
                yield json.loads(line.removeprefix("data: "))


def report(client, *elephants):
    body = {"edge": True, "elephants": list(elephants)}
    answer = client.post("/v1/agents/west/reports", json=body)
    assert answer.status_code == 200, answer.text


def kinds(api, *wanted):
    """What has happened, up to the last of `wanted`."""
    found = []
    with api.stream("GET", "/v1/events", headers={"Last-Event-ID": "0"}) as response:
        lines = (x for x in response.iter_lines() if x.startswith("data: "))
        for line in lines:
            found.append(json.loads(line.removeprefix("data: ")))
            if [x["kind"] for x in found] == list(wanted):
                return found


def test_what_is_told_reaches_the_controller_and_so_does_its_end(api, controller):
    stream = messages(controller)
    assert next(stream)["elephants"] == []
    made = api.post("/v1/elephants", json=flow(size_bytes=5, rate_max="8 Mbit/s"))
    assert made.status_code == 201
    made = made.json()
    assert (made["owner"], made["marked"], made["carried_bytes"]) == ("submit", False, 0)
    heard = next(stream)
    assert heard == {"kind": "elephants", "remove": [], "add": [heard["add"][0]]}
    assert heard["add"][0] == {
        **{"id": made["id"], "source": "dtn1", "destination": "dtn3", "protocol": "tcp"},
        **{"source_port": None, "destination_port": 7411},
        **{"size_bytes": 5, "rate_max_bps": 8_000_000},
    }
    again = api.post("/v1/elephants", json=flow(size_bytes=6))
    assert (again.status_code, again.json()["id"]) == (200, made["id"])
    assert next(stream)["add"][0]["size_bytes"] == 6
    assert [x["id"] for x in next(messages(controller))["elephants"]] == [made["id"]]
    gone = api.delete(f"/v1/elephants/{made['id']}")
    assert (gone.status_code, gone.json()["id"]) == (200, made["id"])
    assert next(stream) == {"kind": "elephants", "add": [], "remove": [made["id"]]}
    assert api.delete(f"/v1/elephants/{made['id']}").status_code == 404
    assert api.get("/v1/elephants").json() == []
    events = kinds(api, "elephant-told", "elephant-told", "elephant-over")
    assert events[-1]["elephant"] == made["id"]
    assert events[-1]["reason"] == "told"


def test_what_the_controller_has_is_in_the_list_and_the_idle_are_over(api, controller):
    made = [api.post("/v1/elephants", json=flow(source_port=x)).json() for x in (1, 2)]
    seen = {"source": "dtn1", "destination": "dtn3", "carried_bytes": 9, "path": ["core.forward"]}
    told = seen | {"id": made[0]["id"], "destination_port": 7411}
    found = seen | {"protocol": "udp", "source_port": 5, "destination_port": 6}
    report(controller, told, found, {"id": made[1]["id"], "over": "idle for 60 s"})
    first, second = api.get("/v1/elephants").json()
    assert (first["id"], first["marked"], first["carried_bytes"]) == (made[0]["id"], True, 9)
    assert first["path"] == ["core.forward"]
    assert (second["id"], second["owner"], second["protocol"]) == (None, None, "udp")
    assert second["marked"]
    metrics = api.get("/metrics").text
    for kind in ("told", "marked", "found"):
        assert f'weir_elephants{{kind="{kind}"}} 1.0' in metrics
    events = kinds(api, "elephant-told", "elephant-told", "elephant-over")
    assert events[-1]["reason"] == "idle for 60 s"
    # Nothing happens to what is gone already, or never was.
    report(controller, {"id": made[1]["id"], "over": "idle"}, {"id": "nobody", "over": "idle"})
    report(controller)
    assert [x["marked"] for x in api.get("/v1/elephants").json()] == [False]


def test_word_of_the_idle_that_crosses_a_second_telling_ends_nothing(api, controller):
    made = [api.post("/v1/elephants", json=flow(source_port=x)).json() for x in (1, 2)]
    assert api.post("/v1/elephants", json=flow(source_port=1)).status_code == 200
    report(controller, *({"id": x["id"], "over": "idle for 60 s"} for x in made))
    assert [x["id"] for x in api.get("/v1/elephants").json()] == [made[0]["id"]]


def test_its_time_ends_an_elephant(api):
    made = api.post("/v1/elephants", json=flow(expires_s=0.01))
    assert made.json()["expires"]
    wait_for(lambda: api.get("/v1/elephants").json() == [])
    assert kinds(api, "elephant-told", "elephant-over")[-1]["reason"] == "expired"


WRONG = [
    ({"source": "nowhere"}, "source"),
    ({"destination": "dtn1"}, "destination"),
    ({"destination_port": 0}, "destination_port"),
    ({"destination_port": 65_536}, "destination_port"),
    ({"source_port": -1}, "source_port"),
    ({"source_port": "80"}, "source_port"),
    ({"source_port": True}, "source_port"),
    ({"protocol": "sctp"}, "protocol"),
    ({"size_bytes": 0}, "size_bytes"),
    ({"size_bytes": 2**70}, "size_bytes"),
    ({"rate_max": "fast"}, "rate_max"),
    ({"rate_max": "0 bit/s"}, "rate_max"),
    ({"expires_s": 0}, "expires_s"),
    ({"expires_s": 1e300}, "expires_s"),
    ({"dscp": 46}, "dscp"),
]


@pytest.mark.parametrize(("wrong", "field"), WRONG)
def test_bad_input_is_refused_by_the_name_of_the_field(shared, wrong, field):
    answer = shared.post("/v1/elephants", json=flow() | wrong)
    assert answer.status_code == 422
    assert answer.json()["field"] == field
    assert shared.get("/v1/elephants").json() == []


def test_an_agents_token_tells_of_its_own_host_alone(api, tokens):
    with patient_client(api.base_url, headers=headers(tokens["dtn1"])) as agent:
        mine = agent.post("/v1/elephants", json=flow())
        assert mine.status_code == 201
        theirs = agent.post("/v1/elephants", json=flow(source="dtn2"))
        assert theirs.status_code == 403
        assert 'speaks for "dtn1", not for "dtn2"' in theirs.json()["detail"]
        assert api.delete(f"/v1/elephants/{mine.json()['id']}").status_code == 403
        assert agent.delete(f"/v1/elephants/{mine.json()['id']}").status_code == 200


def test_an_agents_token_of_a_host_ends_no_elephant_as_if_it_were_the_controller(api, tokens):
    made = api.post("/v1/elephants", json=flow()).json()
    with patient_client(api.base_url, headers=headers(tokens["dtn1"])) as agent:
        for told in ({"id": made["id"], "over": "idle"}, {"source": "dtn1", "destination": "dtn3"}):
            body = {"edge": True, "elephants": [told]}
            assert agent.post("/v1/agents/dtn1/reports", json=body).status_code == 403
    assert [x["id"] for x in api.get("/v1/elephants").json()] == [made["id"]]


def test_an_agents_token_of_a_host_takes_back_nothing_of_what_the_controller_said(
    api, tokens, controller
):
    made = api.post("/v1/elephants", json=flow()).json()
    ends = {"source": "dtn1", "destination": "dtn3"}
    report(controller, ends | {"id": made["id"]}, ends | {"source_port": 5})
    before = api.get("/v1/elephants").json()
    assert [x["marked"] for x in before] == [True, True]
    with patient_client(api.base_url, headers=headers(tokens["dtn1"])) as agent:
        for told in ({}, {"kept": [], "elephants": []}):
            answer = agent.post("/v1/agents/dtn1/reports", json={"edge": True} | told)
            assert (answer.status_code, answer.json()) == (200, {"stop": []})
    assert api.get("/v1/elephants").json() == before


def test_a_switch_is_no_host():
    nodes = {x: {} for x in NETWORK["nodes"]} | {"west": {"datapath": "1"}}
    asked = ElephantRequest(**flow(source="west"))
    with pytest.raises(Problem, match='no host "west"'):
        asked.elephant(parse_network(NETWORK | {"nodes": nodes}), 0, "me")


def test_they_outlive_a_kill_and_the_command_line_shows_them(calendar):
    def weir(*words):
        command = [WEIR, "calendar", "elephant", words[0], "--url", calendar.url]
        command += ["--token", calendar.token, *words[1:]]
        return subprocess.run(command, capture_output=True, text=True, timeout=100)

    added = weir("add", "dtn1", "dtn3", "--port", "7411", "--size", "2 GB", "--for", "2 h")
    assert added.returncode == 0, added.stderr
    identifier = added.stdout.strip()
    with calendar.client() as client:
        other = client.tell_elephant(flow(protocol="udp"))
        client.end_elephant(other["id"])
    calendar.kill()
    calendar.start()
    shown = weir("list")
    assert [line.split() for line in shown.stdout.splitlines()] == [
        ["id", "owner", "flow", "state", "carried", "path"],
        [identifier, "test", "tcp", "dtn1:*", ">", "dtn3:7411", "told", "0", "B", "-"],
    ]
    with calendar.client() as client:
        assert [x["size_bytes"] for x in client.elephants()] == [2 * 10**9]
        assert weir("remove", identifier).returncode == 0
        assert client.elephants() == []
    wrong = weir("add", "dtn1", "dtn3", "--port", "70000")
    assert (wrong.returncode, wrong.stderr.count("\n")) == (2, 1)
    assert "destination_port" in wrong.stderr
