"""The command line: what people type, what they are told, and how it ends."""

import json
import math
import os
import re
import subprocess
import threading
from concurrent.futures import ThreadPoolExecutor
from datetime import datetime, timedelta
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path

import pytest
from calendar_lab import NETWORK, CalendarProcess
from rig import WEIR

from weir.calendar.client import deadline_fields
from weir.calendar.rest.tokens import TokenFile
from weir.cli import main
from weir.errors import BadInput


@pytest.fixture(scope="module")
def served(tmp_path_factory):
    process = CalendarProcess(tmp_path_factory.mktemp("cli"))
    yield process.start()
    process.stop()


def run(*arguments, served=None, **environment):
    known = (
        {}
        if served is None
        else {
            "WEIR_CALENDAR_URL": served.url,
            "WEIR_CALENDAR_TOKEN": served.token,
        }
    )
    return subprocess.run(
        [WEIR, "calendar", *(x if isinstance(x, bytes) else str(x) for x in arguments)],
        env=os.environ | known | environment,
        capture_output=True,
        text=True,
        timeout=60,
    )


def test_a_transfers_life_from_the_command_line(served):
    submit = ["submit", "dtn1:data/x", "dtn3:in/x", "--by", "+90 s", "--size", "1 GB"]
    done = run(*submit, "--key", "once", served=served)
    assert done.returncode == 0, done.stderr
    told = re.fullmatch(r"admitted (\w{16}): by (\S+) at 1000\.0 Mbit/s over (.+)\n", done.stdout)
    assert told, done.stdout
    again = json.loads(run(*submit, "--key", "once", "--json", served=served).stdout)
    assert again["id"] == told[1]
    assert told[1] in run("list", served=served).stdout
    listed = json.loads(run("list", "--json", "--state", "active", served=served).stdout)
    assert [x["id"] for x in listed] == [told[1]]
    shown = run("show", told[1], served=served).stdout
    assert re.search(r"size_bytes +1000000000", shown)
    links = run("network", served=served).stdout
    assert re.search(r"core\.forward +west > east +1000\.0 Mbit/s +100\.0 %", links)
    refused = run("submit", "dtn1:y", "dtn3:y", "--by", "+10 s", "--size", "2 GB", served=served)
    assert refused.returncode == 4
    assert 'link "core.forward"' in refused.stderr
    assert re.search(r"ask for \d{4}-\d\d-\d\dT", refused.stderr)
    cancelled = run("cancel", told[1], "--json", served=served)
    assert json.loads(cancelled.stdout)["state"] == "cancelled"
    events = run("events", "--after", "0", "--count", "1", served=served).stdout.split()
    assert events[1:3] == ["admitted", told[1]]


def test_a_name_that_turns_what_follows_it_is_shown_as_it_is_written(served):
    """Another's path may have what a terminal acts on, short of control characters."""
    odd = "in/\u202egnp.exe"
    submit = ["submit", f"dtn1:{odd}", f"dtn3:{odd}", "--by", "+90 s", "--size", "1 kB"]
    made = json.loads(run(*submit, "--json", served=served).stdout)
    assert made["source_path"] == odd
    for words in (
        ["list"],
        ["show", made["id"]],
        ["events", "--after", "0", "--count", "3"],
        ["cancel", made["id"]],
    ):
        done = run(*words, served=served)
        assert done.returncode == 0 and "\u202e" not in done.stdout, words
        assert "in/\\u202egnp.exe" in done.stdout or words[0] == "events"


@pytest.mark.parametrize("answer", [b"<html>", b"", b"[" * 100_000, b'{"a": 1'])
@pytest.mark.parametrize("words", [["list"], ["show", "x"], ["events"], ["network", "--json"]])
def test_who_answers_unlike_a_calendar_is_named(answer, words):
    class Other(BaseHTTPRequestHandler):
        def do_GET(self):
            self.send_response(200)
            self.end_headers()
            self.wfile.write(b"data: " * (words == ["events"]) + answer + b"\n\n")

        def log_message(self, *_):
            pass

    with HTTPServer(("127.0.0.1", 0), Other) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        url = f"http://127.0.0.1:{server.server_port}"
        done = run(*words, "--url", url, "--token", "x")
        server.shutdown()
    assert (done.returncode, done.stderr.count("\n")) == (6, 1), done.stderr
    assert "does not answer like a calendar" in done.stderr


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["submit", "dtn1", "dtn3:y", "--by", "+9 s", "--size", "1 B"], '"dtn1" is not HOST:PATH'),
        (["submit", "dtn1:x", "dtn3:y", "--by", "soon", "--size", "1 B"], '"soon"'),
        (["submit", "dtn1:x", "dtn3:y", "--by", "+9", "--size", "1 B"], '"9" has no unit'),
        (["submit", "dtn1:x", "dtn3:y", "--by", "+0 s", "--size", "1 B"], "has to lie after now"),
        (["submit", "dtn1:x", "dtn3:y", "--by", "25:00", "--size", "1 B"], '"25:00"'),
        (["submit", "dtn1:x", "dtn3:y", "--by", "2001-01-01T00:00:00Z", "--size", "1 B"], "past"),
        (["submit", "dtn1:x", "dtn3:y", "--by", "+9 s", "--size", "-1 B"], "negative"),
        (["submit", "dtn1:x", "dtn3:y", "--by", "+9 s", "--size", "5 Gbit"], "Gbit"),
        (["submit", "mars:x", "dtn3:y", "--by", "+9 s", "--size", "1 B"], 'no host "mars"'),
        (["list", "--state", "lost"], "'lost' is not a state"),
        (["list", "--limit", "0"], "limit"),
        (["show", "nothing"], '"nothing"'),
        (["cancel", "../x"], "../x"),
        (["events", "--url", "ftp://x"], "ftp://x"),
        (["events", "--count", "0"], "--count 0"),
        (["show", b"\xff\xfe"], "there is no transfer"),
        (["submit", b"dtn1:\xff", "dtn3:y", "--by", "+9 s", "--size", "1 B"], "UTF-8"),
        (["submit", "dtn1:x", "dtn3:y", "--by", "+9 s", "--size", "1 B", "--key", ""], "key"),
        (["submit", "dtn1:x", "dtn3:y", "--by", "+9 s", "--size", "1 B", "--key", "ü"], "key"),
        (["list", "--token", "wrong"], "token"),
    ],
)
def test_a_mistake_is_one_message_that_names_it_and_exit_code_2(served, arguments, said):
    done = run(*arguments, served=served)
    assert done.returncode == 2, done.stderr
    assert said in done.stderr
    assert done.stderr.count("\n") == 1
    assert done.stdout == ""


def test_no_calendar_there_is_exit_code_6():
    done = run("list", "--url", "http://127.0.0.1:9", "--token", "x")
    assert done.returncode == 6
    assert "127.0.0.1:9" in done.stderr


def test_without_url_or_token_it_says_which_to_give():
    done = run("list", WEIR_CALENDAR_URL="", WEIR_CALENDAR_TOKEN="")
    assert (done.returncode, "WEIR_CALENDAR_URL" in done.stderr) == (2, True)
    done = run("list", WEIR_CALENDAR_URL="http://x", WEIR_CALENDAR_TOKEN="")
    assert (done.returncode, "WEIR_CALENDAR_TOKEN" in done.stderr) == (2, True)


def network(**changes):
    return json.dumps(NETWORK | changes)


LINK = {"name": "l", "from": "dtn1", "to": "west", "capacity": "1 Gbit/s"}
NO_CAPACITY = {"name": "l", "from": "dtn1", "to": "west"}


@pytest.mark.parametrize(
    ("text", "options", "said"),
    [
        (None, [], "No such file"),
        ("{", [], "network.json"),
        ("[]", [], "must be a table"),
        (network(nodes=["a", "a"]), [], '"a" is used twice'),
        (network(nodes=[]), [], '"nodes"'),
        (network(nodes=[["a"], "b"]), [], "['a'] is not a name"),
        (network(nodes=[*NETWORK["nodes"], "isle"]), [], 'no links join "isle" and "dtn1"'),
        (network(links=NETWORK["links"][3:]), [], 'no links join "dtn2" and "dtn1"'),
        (network(links=[]), [], '"links"'),
        (network(colour="red"), [], '"colour"'),
        (network(links=[LINK, LINK]), [], '"l" is used twice'),
        (network(links=[LINK | {"to": "mars"}]), [], '"mars"'),
        (network(links=[LINK | {"to": "dtn1"}]), [], 'both ends are "dtn1"'),
        (network(links=[LINK | {"capacity": "0 bit/s"}]), [], "cannot carry"),
        (network(links=[LINK | {"capacity": "1 GB"}]), [], "links[0]: capacity"),
        (network(links=[LINK | {"capacity_bps": 0} | {"capacity": None}]), [], "one of"),
        (network(links=[NO_CAPACITY | {"capacity_bps": 0}]), [], "capacity of 0 bit/s"),
        (network(links=[NO_CAPACITY | {"capacity_bps": -5}]), [], "capacity of -5 bit/s"),
        (network(links=[NO_CAPACITY | {"capacity_bps": math.nan}]), [], "capacity of nan bit/s"),
        (network(links=[NO_CAPACITY | {"capacity_bps": math.inf}]), [], "capacity of inf bit/s"),
        (network(links=[LINK | {"speed": 5}]), [], '"speed"'),
        (network(nodes={"a": {"address": "10.0.0.300"}}), [], "10.0.0.300"),
        (network(), ["--policy", "fifo"], '"fifo"'),
        (network(), ["--epoch", "0 s"], "epoch"),
        (network(), ["--epoch", "3"], '--epoch: "3" has no unit'),
        (network(), ["--margin", "-1 s"], '--margin: "-1 s" is negative'),
        (network(), ["--margin", "nan s"], '--margin: "nan s"'),
        (network(), ["--listen", "nowhere"], "nowhere"),
        (network(), ["--listen", "127.0.0.1:99999"], "99999"),
        (network(), ["--store", "mysql://h/d"], "mysql"),
        (network(), ["--store", "sqlite:////proc/no/x.db"], "/proc/no"),
        (network(), ["--store", f"sqlite:///{__file__}"], "not a database"),
        (network(), ["--store", "sqlite:////proc"], "/proc"),
        (network(), ["--store", ""], "store"),
    ],
)
def test_a_calendar_that_cannot_be_is_refused_and_leaves_nothing(
    tmp_path, capsys, caplog, text, options, said
):
    """In this process: one of its own takes a second, and those below end in theirs."""
    process = CalendarProcess(tmp_path)
    if text is None:
        process.network.unlink()
    else:
        process.network.write_text(text)
    process.options = options
    program, *words = process.command()
    assert program == WEIR
    assert main(words) == 2
    told = capsys.readouterr()
    assert said in told.err
    assert told.err.count("\n") == 1, told.err
    assert caplog.records == []  # which a process of its own prints as well
    left = {"network.json", "tokens.json", "tokens.json.lock", "calendar.db", "calendar.db.lock"}
    assert {path.name for path in tmp_path.iterdir()} <= left
    assert not Path(f"{__file__}.lock").exists()


def test_a_network_with_a_circle_is_one(tmp_path):
    ring = [{"ends": ends, "capacity": "1 Gbit/s"} for ends in (["a", "b"], ["b", "c"], ["c", "a"])]
    process = CalendarProcess(tmp_path, network={"nodes": ["a", "b", "c"], "links": ring})
    process.start()
    submit = ["submit", "a:x", "c:x", "--by", "+90 s", "--size", "1 GB", "--json"]
    made = json.loads(run(*submit, served=process).stdout)
    assert made["path"] == ["c-a.backward"]
    process.stop()


def test_a_direction_that_no_links_lead_is_said_at_submission(tmp_path):
    one_way = [{"name": "l", "from": "a", "to": "b", "capacity": "1 Gbit/s"}]
    process = CalendarProcess(tmp_path, network={"nodes": ["a", "b"], "links": one_way})
    process.start()
    submit = ["--by", "+90 s", "--size", "1 GB"]
    assert run("submit", "a:x", "b:x", *submit, served=process).returncode == 0
    done = run("submit", "b:x", "a:x", *submit, served=process)
    process.stop()
    assert done.returncode == 2
    assert "path" in done.stderr and '"a"' in done.stderr and '"b"' in done.stderr


def test_a_port_in_use_is_named(served, tmp_path):
    rival = CalendarProcess(tmp_path)
    rival.port = served.port
    done = subprocess.run(rival.command(), capture_output=True, text=True, timeout=60)
    assert done.returncode == 2
    assert f"127.0.0.1:{served.port}: Address already in use" in done.stderr


def test_tokens_are_made_listed_and_revoked_and_the_service_follows_at_once(served):
    file = ["--tokens", served.tokens]
    made = run("token", "create", "ana", "--role", "read", *file).stdout.strip()
    assert run("list", "--token", made, served=served).returncode == 0
    denied = run("cancel", "x", "--token", made, served=served)
    assert (denied.returncode, "may not submit" in denied.stderr) == (2, True)
    assert re.search(r"^ana +read +-$", run("token", "list", *file).stdout, re.M)
    assert made not in served.tokens.read_text()
    assert (served.tokens.stat().st_mode & 0o777) == 0o600
    twice = run("token", "create", "ana", "--role", "read", *file)
    assert (twice.returncode, '"ana"' in twice.stderr) == (2, True)
    assert run("token", "revoke", "ana", *file).returncode == 0
    assert run("list", "--token", made, served=served).returncode == 2
    assert run("token", "revoke", "ana", *file).returncode == 2
    assert '"god"' in run("token", "create", "eve", "--role", "god", *file).stderr


def test_whoever_changes_tokens_at_once_loses_none_and_brings_none_back(tmp_path):
    path, together = tmp_path / "tokens.json", threading.Barrier(8)
    for number in range(8):
        TokenFile(path).create(f"old{number}", "read")

    def change(number):
        together.wait()
        TokenFile(path).revoke(f"old{number}")
        for again in range(5):
            TokenFile(path).create(f"new{number}.{again}", "read")

    with ThreadPoolExecutor(8) as pool:
        list(pool.map(change, range(8)))
    names = {identity.name for identity in TokenFile(path).identities()}
    assert names == {f"new{number}.{again}" for number in range(8) for again in range(5)}
    assert {x.name for x in tmp_path.iterdir()} == {"tokens.json", "tokens.json.lock"}
    assert {x.stat().st_mode & 0o777 for x in tmp_path.iterdir()} == {0o600}


def test_a_token_file_that_a_link_leads_to_is_one_file(tmp_path):
    """What was revoked under one of its names was known under the other."""
    (tmp_path / "elsewhere").mkdir()
    there, link = tmp_path / "elsewhere" / "tokens.json", tmp_path / "tokens.json"
    link.symlink_to(there)
    token = TokenFile(link).create("ana", "submit")
    serving = TokenFile(there)
    assert serving.find(token).name == "ana"
    TokenFile(link).revoke("ana")
    assert serving.find(token) is None
    assert link.is_symlink()
    assert {path.name for path in tmp_path.iterdir()} == {"elsewhere", "tokens.json"}


@pytest.mark.parametrize(
    "entry",
    [
        {"sha256": "ü" * 64},
        {"sha256": ""},
        {"sha256": None},
        {"name": 5},
        {"role": []},
        {"host": 5},
    ],
)
def test_a_damaged_token_file_is_named_and_opens_nothing(tmp_path, entry):
    sound = {"name": "a", "role": "read", "host": None, "sha256": "0" * 64}
    path = tmp_path / "tokens.json"
    path.write_text(json.dumps({"tokens": [sound]}))
    assert TokenFile(path).find("x") is None
    path.write_text(json.dumps({"tokens": [sound | entry]}))
    with pytest.raises(BadInput, match="is not a token file"):
        TokenFile(path).find("x")


def test_a_calendar_without_tokens_says_how_to_make_one(tmp_path):
    process = CalendarProcess(tmp_path)
    process.tokens.unlink()
    done = subprocess.run(process.command(), capture_output=True, text=True, timeout=60)
    assert done.returncode == 2
    assert "weir calendar token create" in done.stderr


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("+90 s", {"deadline_s": 90.0}),
        ("+1.5 h", {"deadline_s": 5_400.0}),
        ("2030-01-31T06:00:00Z", {"deadline": "2030-01-31T06:00:00+00:00"}),
    ],
)
def test_deadlines_are_read_as_people_write_them(text, expected):
    assert deadline_fields(text) == expected


@pytest.mark.parametrize(
    ("text", "now", "day"), [("06:00", "05:59", 1), ("06:00", "06:00", 2), ("06:00", "23:00", 2)]
)
def test_a_time_of_day_is_the_next_one(text, now, day):
    local = datetime.fromisoformat(f"2030-03-01T{now}:00").astimezone()
    found = datetime.fromisoformat(deadline_fields(text, local)["deadline"])
    assert (found.day, found.hour, found.minute) == (day, 6, 0)
    assert timedelta(0) < found - local <= timedelta(days=1)


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ([], "--root"),
        (["--root", "/nowhere"], "/nowhere"),
        (["--root", ".", "--insecure", "--data-listen", "0.0.0.0:7411"], "--advertise"),
        (["--root", ".", "--insecure", "--data-listen", "x"], '"x" is not ADDR:PORT'),
        (["--root", ".", "--insecure", "--streams", "0"], "--streams"),
        (["--root", ".", "--keys", "/nowhere"], "/nowhere"),
        (["--root", ".", "--insecure", "--spare-packet", "100 B"], "576 to 65535"),
        (["--root", ".", "--insecure", "--spare-packet", "many"], "--spare-packet"),
        (["--edge"], "--device"),
        (["--edge", "--device", "wan0=5 apples"], "apples"),
        (["--edge", "--device", "a name"], "a name"),
        (["--edge", "--device", "nodevice0"], "nodevice0"),
        (["--root", ".", "--insecure", "--device", "eth0"], "--edge"),
        (["--root", ".", "--insecure", "--pace"], "--edge"),
        (["--edge", "--pace", "--device", "wan0"], "either --device, on a router, or --pace"),
        (["--edge", "--pace", "--relay", "x=1 Gbit/s"], "or --relay"),
        (["--root", ".", "--insecure", "--relay", "x=1 Gbit/s"], "--edge"),
        (["--edge", "--relay", "/run/join.sock"], "PATH=RATE"),
        (["--edge", "--relay", "/run/join.sock=0 bit/s"], "no rate"),
        (["--edge", "--relay", "/run/join.sock=many"], "many"),
    ],
)
def test_an_agent_that_cannot_be_is_refused(arguments, said):
    done = subprocess.run(
        [
            WEIR,
            "agent",
            "--calendar",
            "http://127.0.0.1:9",
            "--token",
            "t",
            "--host",
            "h",
            *arguments,
        ],
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert done.returncode == 2, done.stderr
    assert said in done.stderr


@pytest.mark.parametrize(
    ("host", "token", "said"), [("mars", None, "mars"), ("dtn1", "wrong", "turns this agent away")]
)
def test_an_agent_that_is_not_known_ends_and_says_why(served, tmp_path, host, token, said):
    done = subprocess.run(
        [
            WEIR,
            "agent",
            "--calendar",
            served.url,
            "--token",
            token or served.token,
            "--host",
            host,
            "--root",
            tmp_path,
            "--insecure",
        ],
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert done.returncode == 2, done.stderr
    assert said in done.stderr


def test_an_agent_whose_port_is_in_use_says_so(served, tmp_path):
    options = ["--root", tmp_path, "--insecure", "--data-listen", f"127.0.0.1:{served.port}"]
    known = ["--calendar", served.url, "--token", served.token, "--host", "dtn1"]
    done = subprocess.run(
        [WEIR, "agent", *known, *options], capture_output=True, text=True, timeout=60
    )
    assert done.returncode == 2
    assert done.stderr.count("\n") == 1
    assert f"127.0.0.1:{served.port}: Address already in use" in done.stderr
