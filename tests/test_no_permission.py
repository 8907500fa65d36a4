"""What a user may not do is one message that names it, exit code 2, and leaves nothing."""

import json
import subprocess

import pytest
from rig import WEIR

# Root of a user namespace without any privilege owns its files, and that is all.
PLAIN = ["unshare", "-Ur", "setpriv", "--bounding-set=-all", "--inh-caps=-all", "--no-new-privs"]
NETWORK = {"nodes": ["a", "b"], "links": [{"ends": ["a", "b"], "capacity": "1 Gbit/s"}]}
AGENT = ["agent", "--calendar", "http://127.0.0.1:9", "--token", "t", "--host", "a", "--insecure"]
CALENDAR = ["calendar", "serve", "--network", "network.json", "--listen", "127.0.0.1:0"]


@pytest.fixture
def place(tmp_path):
    """A folder with one that nobody may enter and one that nobody may write to."""
    (tmp_path / "network.json").write_text(json.dumps(NETWORK))
    (tmp_path / "source").write_text("x")
    token = ["calendar", "token", "create", "me", "--role", "admin", "--tokens", "tokens.json"]
    subprocess.run([WEIR, *token], check=True, cwd=tmp_path, capture_output=True)
    for name, mode in (("closed", 0o000), ("fixed", 0o500), ("secret.json", 0o000)):
        path = tmp_path / name
        path.touch() if "." in name else path.mkdir()
        path.chmod(mode)
    yield tmp_path
    (tmp_path / "closed").chmod(0o700)


def everything(place):
    return {path: path.lstat().st_mtime_ns for path in place.rglob("*")}


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["serve", "--root", "closed", "--listen", "127.0.0.1:0", "--insecure"], "closed"),
        (["serve", "--root", ".", "--listen", "127.0.0.1:0", "--keys", "closed"], "closed"),
        (["get", "127.0.0.1:9/x", "closed/x", "--insecure"], "closed"),
        (["keys", "init", "fixed/keys"], "fixed/keys"),
        ([*AGENT, "--root", "closed"], "--root closed"),
        ([*AGENT, "--root", "fixed", "--data-listen", "127.0.0.1:7411"], "--root fixed"),
        (["calendar", "token", "list", "--tokens", "closed/x.json"], "closed/x.json"),
        (["calendar", "token", "list", "--tokens", "secret.json"], "secret.json"),
        (
            ["calendar", "token", "create", "x", "--role", "read", "--tokens", "fixed/x.json"],
            "fixed/x.json",
        ),
        ([*CALENDAR, "--tokens", "secret.json"], "secret.json"),
        ([*CALENDAR, "--tokens", "tokens.json", "--store", "sqlite:///fixed/x.db"], "fixed/x.db"),
        (["calendar", "serve", "--network", "secret.json"], "secret.json"),
        (["run", "secret.json"], "secret.json"),
        (["run", "--out", "closed/out"], "--out closed/out"),
        (["run", "--out", "fixed/out"], "--out fixed/out"),
        (["lab", "up", "secret.json"], "secret.json"),
    ],
)
def test_what_is_not_allowed_is_named(place, words, said):
    before = everything(place)
    done = subprocess.run(
        [*PLAIN, WEIR, *words], cwd=place, capture_output=True, text=True, timeout=60
    )
    assert done.returncode == 2, done.stderr
    assert said in done.stderr and "ermission denied" in done.stderr
    assert done.stderr.startswith("weir: ") and done.stderr.count("\n") == 1
    assert everything(place) == before


def test_a_folder_for_labs_that_is_not_allowed_is_named(place):
    command = ["env", "WEIR_RUNTIME_DIR=fixed/labs", *PLAIN, WEIR, "lab", "up", "none.toml"]
    done = subprocess.run(command, cwd=place, capture_output=True, text=True, timeout=60)
    assert done.returncode == 2, done.stderr
    assert "fixed/labs: Permission denied" in done.stderr
