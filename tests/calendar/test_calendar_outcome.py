"""How a transfer ended is what the command line says, in words, in JSON and by its exit code."""

import json
import os
import subprocess
import time
from datetime import UTC, datetime, timedelta

import pytest
from calendar_lab import CalendarProcess, wait_for
from rig import PATIENCE_S, WEIR

from weir.cli import main


@pytest.fixture(scope="module")
def served(tmp_path_factory):
    process = CalendarProcess(tmp_path_factory.mktemp("outcome"))
    yield process.start()
    process.stop()


@pytest.fixture
def run(served, capsys, monkeypatch):
    """Runs the command line here: dozens of processes would take a minute."""
    monkeypatch.setenv("WEIR_CALENDAR_URL", served.url)
    monkeypatch.setenv("WEIR_CALENDAR_TOKEN", served.token)

    def command(*arguments):
        code = main(["calendar", *arguments])
        said = capsys.readouterr()
        return subprocess.CompletedProcess(arguments, code, said.out, said.err)

    return command


def asked(name, *more, by="+60 s"):
    places = [f"dtn1:{name}", f"dtn3:{name}"]
    size = ["--size", "1 MB", "--rate-max", "10 Mbit/s", "--key", name]
    return ["submit", *places, "--by", by, *size, *more]


def report(served, identifier, state, **more):
    body = {"transfers": [{"id": identifier, "state": state, **more}]}
    with served.client() as client:
        client._call("POST", "/v1/agents/dtn1/reports", json=body)


def end(served, identifier, how):
    match how:
        case "cancelled":
            with served.client() as client:
                client.cancel(identifier)
        case "failed":
            report(served, identifier, "failed", error="the disk is full")
        case "late":
            late = wait_for(lambda: show(served, identifier)["on_time"] is False)
            assert late
            report(served, identifier, "done", bytes_durable=10**6, bytes_total=10**6)
        case "completed":
            report(served, identifier, "done", bytes_durable=10**6, bytes_total=10**6)


def show(served, identifier):
    with served.client() as client:
        return client.show(identifier)


ENDS = [
    ("completed", 0, "on time"),
    ("late", 7, "completed late"),
    ("failed", 5, "the disk is full"),
    ("cancelled", 5, "was cancelled"),
]


@pytest.mark.parametrize(("how", "code", "said"), ENDS)
def test_a_key_used_again_says_what_became_of_it(served, run, how, code, said):
    # An instant: once it has passed, the same request is still the same.
    soon = datetime.now(UTC) + timedelta(seconds=6 if how == "late" else 600)
    by = soon.isoformat()
    made = json.loads(run(*asked(how, "--json", by=by)).stdout)["id"]
    again = json.loads(run(*asked(how, "--json", by=by)).stdout)
    assert again["id"] == made
    end(served, made, how)
    for waits in ([], ["--wait"]):
        done = run(*asked(how, *waits, by=by))
        assert (done.returncode, "admitted" in done.stdout) == (code, False)
        assert said in done.stdout + done.stderr and made in done.stdout + done.stderr
        told = run(*asked(how, "--json", *waits, by=by))
        assert told.returncode == code
        assert json.loads(told.stdout)["state"] == ("completed" if how == "late" else how)
    waited = run("wait", made)
    assert (waited.returncode, said in waited.stdout + waited.stderr) == (code, True)


@pytest.mark.parametrize(("how", "code", "said"), ENDS[:3])
def test_who_waits_is_told_how_it_ended(served, how, code, said):
    name, by = f"waited-{how}", "+6 s" if how == "late" else "+600 s"
    command = [WEIR, "calendar", *asked(name, "--wait", "--json", by=by)]
    known = {"WEIR_CALENDAR_URL": served.url, "WEIR_CALENDAR_TOKEN": served.token}
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    with subprocess.Popen(command, env=os.environ | known, **pipes) as waiting:
        made = wait_for(lambda: [x["id"] for x in active(served) if x["source_path"] == name])[0]
        end(served, made, how)
        out, error = waiting.communicate(timeout=PATIENCE_S)
    assert waiting.returncode == code, error
    assert json.loads(out)["id"] == made
    assert said in error or how == "completed"


def active(served):
    with served.client() as client:
        return client.list("active")


def test_a_wait_may_have_an_end(run):
    made = json.loads(run(*asked("long", "--json")).stdout)["id"]
    began_s = time.monotonic()
    done = run("wait", made, "--timeout", "0.5 s")
    assert (done.returncode, made in done.stderr) == (6, True)
    assert time.monotonic() - began_s < 50


def test_a_refusal_in_json_is_an_object_with_all_that_is_known(run):
    request = ["dtn1:x", "dtn3:x", "--by", "+10 s", "--size", "20 GB", "--json"]
    done = run("submit", *request)
    assert done.returncode == 4
    told = json.loads(done.stdout)
    assert (told["status"], told["link"], told["exit_code"]) == (409, "core.forward", 4)
    assert told["earliest_deadline"] > "20"
    wrong = run("submit", "dtn9:x", *request[1:])
    assert wrong.returncode == 2
    assert "dtn9" in json.loads(wrong.stdout)["message"]
