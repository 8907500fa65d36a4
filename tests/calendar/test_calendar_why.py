"""`weir why`: what is told of a transfer or a refusal is what the events and the links say."""

import json
import re
import subprocess

import pytest
from calendar_lab import CalendarProcess, headers, request
from rig import WEIR
from test_calendar_planner import GB, START, S, asked, planner, running

from weir.calendar.clock import format_instant
from weir.calendar.records import Event, Outcome
from weir.calendar.service.why import Known, Link, why, why_mine
from weir.calendar.storage.store import Store


class History:
    """A calendar in virtual time whose every outcome is stored."""

    def __init__(self, directory, **choices):
        self.plan = planner(**choices)
        self.store = Store(f"sqlite:///{directory / 'calendar.db'}")

    def keep(self, outcome):
        self.store.commit([outcome])
        return outcome

    def submit(self, at_s, *args, **changes):
        return self.keep(self.plan.submit(START + at_s * S, asked(*args, **changes)))

    def known(self, at_s, silent=()):
        rates, active = self.plan.rates, self.plan.transfers
        links = {
            name: Link(name, bps, sum(rates[x.id] for x in active.values() if name in x.path))
            for name, bps in self.plan.engine.capacities_bps.items()
        }
        return Known(START + at_s * S, dict(active), dict(rates), links, frozenset(silent))

    def why(self, identifier, at_s, **more):
        return why(self.store, self.known(at_s, **more), identifier)


@pytest.fixture
def history(tmp_path):
    made = History(tmp_path)
    yield made
    made.store.close()


def at(seconds):
    return format_instant(START + seconds * S)


def test_who_slowed_it_and_when_and_who_has_the_link(history):
    history.submit(0, "a", 6 * GB, 60)
    history.submit(5, "b", GB, 60, owner="bob", source="dtn2")
    told = history.why("a", 6)
    assert "slowed, from 1000.0 Mbit/s to" in told["answer"]
    assert f"when b was admitted (1 GB by {at(60)}), at {at(5)}" in told["answer"]
    assert told["link"] == "core.forward"
    assert "has 1000.0 Mbit/s of 1000.0 Mbit/s allotted now" in told["link_text"]
    assert [(x["id"], x["owner"], x["admitted"]) for x in told["others"]] == [("b", "bob", at(5))]
    assert told["others"][0]["rate_bps"] == history.plan.rates["b"]
    assert [x["kind"] for x in told["story"]] == ["admitted", "rate"]
    # It has what the other left; nobody slowed the other.
    assert "slowed" not in history.why("b", 6)["answer"]


def test_who_ends_gives_more_and_that_is_told(history):
    history.submit(0, "a", 6 * GB, 60)
    history.submit(0, "b", GB, 60, source="dtn2")
    history.keep(history.plan.cancel(START + S, "b"))
    history.keep(history.plan.epoch(START + 2 * S))
    last = history.why("a", 3)["story"][-1]
    assert re.search(r"given more, from \d+\.\d Mbit/s to 1000\.0 Mbit/s", last["text"])


def test_a_refusal_names_the_link_and_who_had_it_though_they_are_over_since(history):
    history.submit(0, "big", 6 * GB, 60, owner="bob")
    history.submit(1, "mine", 3 * GB, 60, owner="ana", source="dtn2", idempotency_key="k1")
    history.submit(2, "tiny", 3 * GB, 61, owner="ana", source="dtn2", idempotency_key="k2")
    told = history.why("mine", 3)
    assert told["state"] == "refused"
    assert 'on link "core.forward", which can give' in told["answer"]
    assert f"big (6 GB by {at(60)}, since {at(0)}) had been admitted" in told["answer"]
    assert f"ask again once big is over (due by {at(60)})" in told["remedies"]
    assert any(re.match(r"ask for 20\S+ or later before", x) for x in told["remedies"])
    history.keep(history.plan.cancel(START + 10 * S, "big"))
    told = history.why("mine", 11)
    assert [x["id"] for x in told["others"]] == ["big"]
    # By the key, and the last of all; other people's are not one's own.
    assert why_mine(history.store, history.known(11), "ana", "k1")["id"] == "mine"
    assert why_mine(history.store, history.known(11), "ana", None)["id"] == "tiny"
    assert why_mine(history.store, history.known(11), "bob", None) is None
    assert why_mine(history.store, history.known(11), "bob", "k1") is None


def test_who_was_admitted_after_a_refusal_is_not_its_reason(history):
    history.submit(0, "big", 6 * GB, 60)
    history.submit(1, "mine", 3 * GB, 60, source="dtn2")
    history.submit(2, "later", GB // 10, 600, source="dtn2")
    assert [x["id"] for x in history.why("mine", 3)["others"]] == ["big"]


def test_why_it_waits_and_why_it_will_be_late(history):
    history.submit(0, "a", GB, 60)
    told = history.why("a", 1, silent=["dtn3"])
    assert told["answer"].startswith('It waits: no agent answers on "dtn3"')
    assert told["remedies"] == ['start the agent on "dtn3"']
    assert 'the agent on "dtn1" has not begun yet' in history.why("a", 1)["answer"]
    history.keep(history.plan.hosts_lost(START + 2 * S, ["dtn1"]))
    history.keep(history.plan.hosts_back(START + 50 * S, ["dtn1"]))
    history.keep(history.plan.report(START + 59 * S, "dtn1", [running("a", 1_000)]))
    told = history.why("a", 59)
    assert "It may be late: it is behind, and the links allow no more" in told["answer"]
    history.keep(history.plan.tick(START + 61 * S))
    told = history.why("a", 62)
    assert told["answer"].startswith(f"It is late: it was due by {at(60)}, 999.999 MB are left")
    assert f"at risk since {at(59)}: it is behind" in told["answer"]
    assert "the deadline passed with 999.999 MB left" in [x["text"] for x in told["story"]]


def test_an_old_refusal_without_its_words_is_explained_by_its_link(history):
    data = {
        "source": "dtn1",
        "destination": "dtn3",
        "size_bytes": GB,
        "deadline": at(60),
        "link": "core.forward",
        "earliest_deadline": None,
    }
    event = Event(1, START, "refused", None, data, "r", "ana")
    history.keep(Outcome(events=[event]))
    told = history.why("r", 1)
    assert told["answer"] == 'It was refused: link "core.forward" had no room for it.'


def test_a_long_story_keeps_its_newest_changes(history):
    history.submit(0, "a", 6 * GB, 600)
    for count in range(15):
        history.submit(count + 1, f"b{count}", GB // 10, 600, source="dtn2")
        history.keep(history.plan.cancel(START + (count + 1) * S + 1, f"b{count}"))
        history.keep(history.plan.epoch(START + (count + 1) * S + 2))
    changes = [x for x in history.why("a", 60)["story"] if x["kind"] == "rate"]
    assert 10 <= len(changes) <= 20
    assert changes[-1]["at"] == at(15)


# --- over a real service ---


def test_a_refusals_id_is_in_its_answer_its_event_and_what_why_tells(api, tokens):
    api.post("/v1/transfers", json=request(size_bytes=6 * 10**9))
    wanted = request(source="dtn2", size_bytes=3 * 10**9, destination_path="in/b")
    refused = api.post("/v1/transfers", json=wanted, headers={"Idempotency-Key": "mine"}).json()
    told = api.get(f"/v1/transfers/{refused['id']}/why")
    assert told.status_code == 200, told.text
    assert told.json()["answer"].startswith(f"It was refused: {refused['detail']}")
    assert api.get("/v1/why").json() == api.get("/v1/why?key=mine").json()
    # Everyone who may read may ask by the id, and nobody but its owner by the key.
    other = headers(tokens["other"])
    assert api.get(f"/v1/transfers/{refused['id']}/why", headers=other).status_code == 200
    assert api.get("/v1/why?key=mine", headers=other).status_code == 404
    assert api.get("/v1/why", headers=headers(tokens["agent"])).status_code == 403
    assert api.get("/v1/transfers/nothing/why").status_code == 404


def test_the_command_tells_of_a_transfer_of_a_key_and_of_the_last_refusal(tmp_path):
    calendar = CalendarProcess(tmp_path).start()
    known = ["--url", calendar.url, "--token", calendar.token]

    def weir(*arguments, code=0):
        done = subprocess.run([WEIR, *arguments, *known], capture_output=True, text=True)
        assert done.returncode == code, done.stdout + done.stderr
        return done.stdout or done.stderr

    with calendar.client() as client:
        # It takes ten minutes, and a service that starts again may take one of them.
        made = client.submit(request(size_bytes=60 * 10**9, deadline_s=600.0))["id"]
        more = {"size_bytes": 30 * 10**9, "deadline_s": 600.0}
        with pytest.raises(Exception, match="core"):
            client.submit(request(source="dtn2", destination_path="b", **more), "k")
    calendar.kill()
    calendar.start()
    assert weir("why", made).startswith(f"{made} (accepted): It ")
    told = weir("why")
    assert "(refused): It was refused: 30 GB cannot be promised by" in told
    assert "what would change it: ask for" in told
    assert weir("why", "k") == weir("calendar", "why") == told
    assert json.loads(weir("why", "k", "--json"))["link"] == "core.forward"
    assert 'no transfer or refused request "what"' in weir("why", "what", code=2)
    calendar.stop()
