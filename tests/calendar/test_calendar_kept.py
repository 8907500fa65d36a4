"""What a controller of switches is told, and what the calendar makes of what it has counted."""

import json

import pytest
from calendar_lab import headers, patient_client, request


@pytest.fixture
def controller(api, tokens):
    """A client with the right of an agent, at a node of the network."""
    with patient_client(api.base_url, headers=headers(tokens["agent"])) as client:
        yield client


def snapshot(client, role):
    """The first message to an agent of that role at "west"."""
    path = "/v1/agents/west/assignments"
    with client.stream("GET", path, params={"role": role}) as response:
        assert response.status_code == 200
        for line in response.iter_lines():
            if line.startswith("data: "):
                return json.loads(line.removeprefix("data: "))


def test_a_controller_is_assigned_everything_with_its_path(api, controller):
    made = api.post("/v1/transfers", json=request()).json()
    told = snapshot(controller, "control")
    assert [(x["id"], x["path"]) for x in told["assign"]] == [(made["id"], made["path"])]
    assert controller.get("/v1/agents/west/assignments?role=king").status_code == 422


def report(client, *kept):
    body = {"edge": True, "kept": list(kept)}
    return client.post("/v1/agents/west/reports", json=body)


def test_a_promise_is_in_the_view_the_events_and_the_metrics(api, controller):
    made = api.post("/v1/transfers", json=request()).json()
    assert made["promise"] is None
    told = {"id": made["id"], "promised_bytes": 1000, "carried_bytes": 0}
    broken = told | {"alarm": "empty", "detail": "nothing has entered at s1"}
    gone = {"id": "nobody", "promised_bytes": 5, "carried_bytes": 5}
    assert report(controller, broken, gone).status_code == 200
    view = api.get(f"/v1/transfers/{made['id']}").json()
    assert view["promise"] == {
        "promised_bytes": 1000,
        "carried_bytes": 0,
        "alarm": "empty",
        "detail": "nothing has entered at s1",
    }
    assert "weir_promise_alarms 1.0" in api.get("/metrics").text
    assert report(controller, told | {"promised_bytes": 2000, "carried_bytes": 990}).is_success
    metrics = api.get("/metrics").text
    for line in ("promise_alarms 0.0", "promised_wire_bytes 2000.0", "carried_wire_bytes 990.0"):
        assert f"weir_{line}" in metrics
    events = api.stream("GET", "/v1/events", headers={"Last-Event-ID": "0"})
    with events as response:
        lines = (x for x in response.iter_lines() if x.startswith("data: "))
        found = (json.loads(x.removeprefix("data: ")) for x in lines)
        alarm = next(x for x in found if x["kind"] == "promise-broken")
        over = next(x for x in found if x["kind"] == "promise-kept")
    assert (alarm["transfer"], alarm["alarm"]) == (made["id"], "empty")
    assert alarm["reason"] == "nothing has entered at s1"
    assert (over["transfer"], over["promised_bytes"], over["carried_bytes"]) == (
        made["id"],
        2000,
        990,
    )


def test_an_agents_token_of_a_host_says_nothing_of_promises(api, controller, tokens):
    made = api.post("/v1/transfers", json=request()).json()
    told = {"id": made["id"], "promised_bytes": 1000, "carried_bytes": 0}
    assert report(controller, told | {"alarm": "empty"}).status_code == 200
    with patient_client(api.base_url, headers=headers(tokens["dtn1"])) as agent:
        forged = {"edge": True, "kept": [told]}
        answer = agent.post("/v1/agents/dtn1/reports", json=forged)
        assert answer.status_code == 403
        assert 'speaks for "dtn1", which is no switch' in answer.json()["detail"]
        nothing = {"edge": True, "kept": []}
        assert agent.post("/v1/agents/dtn1/reports", json=nothing).status_code == 200
    assert api.get(f"/v1/transfers/{made['id']}").json()["promise"]["alarm"] == "empty"
    assert "weir_promise_alarms 1.0" in api.get("/metrics").text


def test_an_empty_booking_whose_bytes_are_all_there_is_no_alarm(api, controller):
    made = api.post("/v1/transfers", json=request()).json()
    broken = {"id": made["id"], "promised_bytes": 9, "carried_bytes": 0, "alarm": "empty"}

    def alarm_with(durable_bytes):
        one = {"id": made["id"], "state": "running", "bytes_total": made["size_bytes"]}
        body = {"transfers": [one | {"bytes_durable": durable_bytes}]}
        path = f"/v1/agents/{made['source']}/reports"
        assert controller.post(path, json=body).is_success
        assert report(controller, broken).is_success
        return api.get(f"/v1/transfers/{made['id']}").json()["promise"]["alarm"]

    assert alarm_with(made["size_bytes"] - 1) == "empty"
    assert alarm_with(made["size_bytes"]) is None


@pytest.mark.parametrize(
    "wrong",
    [
        {"alarm": "broken"},
        {"promised_bytes": -1},
        {"promised_bytes": 1.5},
        {"more": 1},
    ],
)
def test_a_count_that_cannot_be_is_refused(api, controller, wrong):
    told = {"id": "x", "promised_bytes": 1, "carried_bytes": 0} | wrong
    assert report(controller, told).status_code == 422


def test_what_an_agent_of_old_reports_is_still_taken(api, controller):
    assert controller.post("/v1/agents/west/reports", json={"edge": True}).status_code == 200
