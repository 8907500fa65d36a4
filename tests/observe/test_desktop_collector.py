"""The form on which people rate: what it keeps, and what it refuses."""

import contextlib
import json
import socket
import subprocess
import sys

import httpx
import pytest

from weir.cli import main
from weir.errors import BadInput
from weir.observe.desktop import collector, ratings
from weir.observe.desktop.ratings import Rating

ASKED = {"subject": "7", "activity": "images", "condition": "b", "iteration": "2"}


@pytest.fixture
def served(tmp_path):
    """A client of a collector, and the file that it writes."""
    path = tmp_path / "ratings.csv"
    command = [sys.executable, "-m", "weir.cli", "observe", "desktop", "collect", "--json"]
    command += ["--out", path, "--listen", "127.0.0.1:0", "--condition", "a=0"]
    with subprocess.Popen(
        [*command, "--condition", "b=0.5"], stdout=subprocess.PIPE, text=True
    ) as process:
        try:
            url = json.loads(process.stdout.readline())["url"]
            with httpx.Client(base_url=url, trust_env=False) as client:
                yield client, path
        finally:
            process.terminate()


def test_a_rating_is_kept_and_its_condition_stays_hidden(served):
    client, path = served
    page = client.get("/rate", params=ASKED).text
    assert "5 excellent" in page
    assert "0.5" not in page
    for value in ("4", "5"):
        assert "Thank you" in client.post("/rate", data=ASKED | {"rating": value}).text
    assert ratings.load(path) == [Rating("7", "images", 0.5, 4.5)]


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"rating": "6"}, "from 1 to 5"),
        ({"rating": ""}, "from 1 to 5"),
        ({"condition": "c"}, "no such condition"),
        ({"subject": '"><script>'}, "needs subject"),
        ({"activity": "=cmd|x"}, "needs activity"),
        ({"iteration": "1\n2"}, "needs iteration"),
        ({"subject": "x" * 2000}, "too long"),
    ],
)
def test_what_is_wrong_is_refused_and_nothing_is_kept(served, change, words):
    client, path = served
    answer = client.post("/rate", data=ASKED | {"rating": "3"} | change)
    assert answer.status_code in (413, 422)
    assert words in answer.text
    assert path.read_text().count("\n") == 1


def test_a_wrong_address_has_no_form(served):
    client, _ = served
    answer = client.get("/rate", params=ASKED | {"condition": "<b>"})
    assert answer.status_code == 422
    assert "<form" not in answer.text
    assert "<b>" not in answer.text


def test_another_file_is_not_added_to(tmp_path):
    path = tmp_path / "other.csv"
    path.write_text("a,b\n1,2\n")
    with pytest.raises(BadInput, match="another file"):
        collector.app(path, {"a": 0.0})
    assert path.read_text() == "a,b\n1,2\n"
    with pytest.raises(BadInput, match="No such file"):
        collector.app(tmp_path / "no" / "x.csv", {})


@pytest.mark.parametrize("text", ["b", "b=", "b=101", "b=x", "=3", "b c=3"])
def test_a_wrong_condition_is_named(text, tmp_path, capsys):
    command = ["observe", "desktop", "collect", "--out", str(tmp_path / "x"), "--condition", text]
    assert main(command) == 2
    assert "NAME=PERCENT" in capsys.readouterr().err


def test_a_head_without_end_is_cut_off_and_nobody_is_sent_elsewhere(served):
    client, _ = served
    with socket.create_connection((client.base_url.host, client.base_url.port)) as one:
        one.settimeout(60)
        one.sendall(b"GET /rate HTTP/1.1\r\n")
        sent = 0
        with contextlib.suppress(ConnectionError):
            while sent < 40_000_000:
                sent += one.send(b"a: b\r\n" * 10_000)
        assert sent < 40_000_000
    answer = client.get("/rate/", headers={"Host": "elsewhere.example"})
    assert (answer.status_code, answer.headers.get("location")) == (404, None)
    assert "5 excellent" in client.get("/rate", params=ASKED).text
