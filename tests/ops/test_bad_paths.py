"""`weir send --cca auto` over paths hard to tell: the file goes, and what is unsure is told."""

import contextlib
import json
import os
import subprocess

import pytest
from probe_rig import WEIR, Pair, pair
from rig import lab_lacks

from weir.lab.namespaces import default_congestion_control

PORT = 7411
SIZE = 300_000


@pytest.fixture
def chosen(tmp_path, monkeypatch):
    """A function that sends a file over a link of these keys; what is told of the choice."""
    if missing := lab_lacks():
        pytest.skip(f"a lab needs {missing}")
    monkeypatch.setenv("WEIR_RUNTIME_DIR", str(tmp_path / "run"))
    source, root = tmp_path / "source", tmp_path / "root"
    source.write_bytes(os.urandom(SIZE))
    root.mkdir()

    def send(name, **keys):
        with contextlib.ExitStack() as stack:
            lab = Pair(stack, pair(name, **keys)).lab
            place = f"{lab.address('b')}:{PORT}"
            serve = ["serve", "--root", root, "--listen", place, "--insecure", "--json"]
            server = lab.popen("b", [*WEIR, *map(str, serve)], stdout=subprocess.PIPE, text=True)
            stack.enter_context(server)
            stack.callback(server.terminate)
            assert server.stdout.readline()
            command = ["send", source, f"{place}/copy", "--insecure", "--cca", "auto", "--json"]
            told = lab.run(
                "a", [*WEIR, *map(str, command)], capture_output=True, text=True, timeout=90
            )
            events = [json.loads(line) for line in told.stdout.splitlines()]
        assert events[-1]["event"] == "done"
        assert (root / "copy").read_bytes() == source.read_bytes()
        (event,) = (one for one in events if one["event"] in ("choice", "fallback"))
        return event

    return send


def test_a_path_that_is_longer_one_way_is_as_one_that_is_not(chosen):
    keys = {"forward": '{ rate = "100 Mbit/s", delay = "5 ms" }'}
    keys["backward"] = '{ rate = "10 Mbit/s", delay = "45 ms" }'
    choice = chosen("askew", **keys)
    assert choice["event"] == "choice"
    assert choice["rtt_ms"]["min"] == pytest.approx(50, abs=1)
    assert choice["known"]
    assert choice["bbr"] < 0.5  # nobody is there


def test_a_path_that_loses_much_is_unknown_and_the_control_stays(chosen):
    keys = {"forward": '{ delay = "5 ms" }', "backward": '{ delay = "20 ms", loss = "45 %" }'}
    choice = chosen("lossy", **keys)
    assert choice["event"] == "choice"
    assert (choice["known"], choice["control"]) == (False, default_congestion_control())
    assert "of the samples of 10 s have no reply" in choice["why"]
    assert f"{default_congestion_control()} is kept" in choice["why"]
