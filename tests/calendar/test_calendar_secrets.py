"""Tokens: read from files, and not readable in the process list."""

import os
import signal
import subprocess
import sys
import threading
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path

import pytest
from calendar_lab import wait_for
from rig import PATIENCE_S, WEIR

from weir.calendar.storage import database
from weir.errors import BadInput

TOKEN = "weir-0123456789abcdef-SECRET"


@pytest.fixture
def seen():
    """The tokens that a server is shown, and its URL; it answers no request."""
    shown = []

    class Ask(BaseHTTPRequestHandler):
        def do_GET(self):
            shown.append(self.headers["Authorization"])
            self.send_error(503)

        def log_message(self, *_):
            pass

    with HTTPServer(("127.0.0.1", 0), Ask) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield shown, f"http://127.0.0.1:{server.server_port}"
        server.shutdown()
        thread.join()


def as_nobody(pid):
    """What a user without rights reads of a process's arguments."""
    command = ["cat", f"/proc/{pid}/cmdline"]
    if os.geteuid() == 0:
        command = ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups", *command]
    return subprocess.run(command, capture_output=True, text=True).stdout


@pytest.mark.parametrize("program", [[WEIR], [sys.executable, "-m", "weir.cli"]])
@pytest.mark.parametrize("given", [["--token", TOKEN], [f"--token={TOKEN}"]])
def test_a_token_vanishes_from_the_process_list_and_is_used(seen, tmp_path, program, given):
    shown, url = seen
    command = [*program, "agent", "--calendar", url, *given, "--host", "h", "--root", tmp_path]
    agent = subprocess.Popen([*map(str, command), "--insecure"], stderr=subprocess.PIPE)
    try:
        wait_for(lambda: shown)
        assert set(shown) == {f"Bearer {TOKEN}"}
        listed = as_nobody(agent.pid)
        assert "--host\0h\0" in listed  # it is the agent, and the rest stands
        assert "SECRET" not in listed
        agent.send_signal(signal.SIGTERM)
        assert agent.wait(PATIENCE_S) == 0
    finally:
        agent.kill()
        agent.communicate()


@pytest.mark.parametrize(
    ("url", "hidden"),
    [
        ("postgresql://weir:SECRET@127.0.0.1/db", "postgresql://weir:******@127.0.0.1/db"),
        ("postgresql://weir:SE/RET@127.0.0.1/db", "postgresql://weir:******@127.0.0.1/db"),
        ("postgresql:///db?password=SECRET&user=u", "postgresql:///db?password=******&user=u"),
    ],
)
def test_the_password_of_a_store_vanishes_too(url, hidden):
    code = """
import sys
from weir.cli import secret
secret.hide()
print(flush=True)
sys.stdin.read()
"""
    command = [sys.executable, "-c", code, "--store", url]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        process.stdout.readline()
        listed = as_nobody(process.pid)
        process.stdin.close()
    assert f"{hidden}\0" in listed


@pytest.mark.parametrize(
    "url",
    [
        "postgresql://weir:SECRET@127.0.0.1/db",
        "postgresql://weir:SE/CRET@127.0.0.1/db",
        "postgresql://127.0.0.1/db?user=weir&password=SECRET",
        "postgresql://127.0.0.1:port/db?password=SECRET",
        "postgresql//weir:SE/CRET@127.0.0.1/db",
        "postgresql://weir:SECRET@127.0.0.1:port/db",
    ],
)
def test_no_message_says_the_password_of_a_store(url):
    try:
        said = database.shown(database.parsed(url))
    except BadInput as error:
        said = str(error)
    assert "CRET" not in said
    assert "127.0.0.1" in said and "/db" in said


@pytest.mark.parametrize("command", ["list", "agent"])
def test_a_token_is_read_from_its_file(seen, tmp_path, command):
    shown, url = seen
    (tmp_path / "token").write_text(f"{TOKEN}\n")
    options = ["--token-file", tmp_path / "token"]
    arguments = ["calendar", "list", "--url", url, *options]
    if command == "agent":
        host = ["--host", "h", "--root", tmp_path, "--insecure"]
        arguments = ["agent", "--calendar", url, *options, *host]
    process = subprocess.Popen(
        [WEIR, *map(str, arguments)],
        env=os.environ | {"WEIR_CALENDAR_TOKEN": "another"},
        stderr=subprocess.DEVNULL,
    )
    wait_for(lambda: shown)
    process.kill()
    process.wait()
    assert set(shown) == {f"Bearer {TOKEN}"}


@pytest.mark.parametrize("content", [b"", b"two words\n", b"\xff\xfe", b"x" * 5_000, None])
def test_a_file_without_a_token_is_named(tmp_path, content):
    path = tmp_path / "token"
    if content is not None:
        Path(path).write_bytes(content)
    command = [WEIR, "calendar", "list", "--url", "http://127.0.0.1:9", "--token-file", str(path)]
    done = subprocess.run(command, capture_output=True, text=True)
    assert (done.returncode, str(path) in done.stderr) == (2, True), done.stderr
    assert done.stderr.count("\n") == 1
