"""`weir control serve`: what an operator is told."""

import json
import os
import subprocess
import sys

import pytest
from rig import WEIR

NETWORK = {
    "nodes": {"h1": {"address": "10.0.0.1"}, "s1": {"datapath": "1"}},
    "links": [{"ends": ["h1", "s1"], "capacity": "1 Gbit/s"}],
}


def control(tmp_path, *words, network=None, env=None):
    """What `weir control serve` says of a network, and how it ends."""
    path = tmp_path / "network.json"
    path.write_text(json.dumps(network or NETWORK))
    command = [WEIR, "control", "serve", "--network", str(path), *words]
    env = {key: x for key, x in os.environ.items() if not key.startswith("WEIR_")} | (env or {})
    return subprocess.run(command, capture_output=True, text=True, timeout=60, env=env)


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--listen", "nowhere"], '"nowhere" is not HOST:PORT or unix:PATH'),
        (["--listen", "127.0.0.1:70000"], '"127.0.0.1:70000" is not HOST:PORT or unix:PATH'),
        (["--listen", "unix:/no/such/folder/socket"], "cannot listen at unix:/no/such/folder"),
        (["--listen", "127.0.0.1:0", "--sflow", "nowhere"], '"nowhere" is not HOST:PORT or unix'),
        (["--find-from", "0 bit/s"], "--find-from and --find-within want more than nothing"),
        (["--paths-max", "0"], "--paths-max one from 1"),
        (["--host", "s1"], "which calendar? Give --calendar or set WEIR_CALENDAR_URL"),
    ],
)
def test_what_cannot_be_is_one_message(tmp_path, words, message):
    done = control(tmp_path, *words)
    assert done.returncode == 2
    assert message in done.stderr
    assert len(done.stderr.splitlines()) == 1


def test_a_network_without_switches_is_refused(tmp_path):
    nodes = {"h1": {"address": "10.0.0.1"}, "s1": {}}
    done = control(tmp_path, network=NETWORK | {"nodes": nodes})
    assert done.returncode == 2
    assert "no node has a datapath id" in done.stderr


def test_without_os_ken_it_says_what_to_install(tmp_path):
    # A module of that name that is none stands in front of the real one.
    (tmp_path / "os_ken").mkdir()
    (tmp_path / "os_ken/__init__.py").write_text(
        "raise ModuleNotFoundError(\"No module named 'os_ken'\", name='os_ken')\n"
    )
    environment = {"PYTHONPATH": str(tmp_path)}
    demo = [WEIR, "demo", "headroom", "--out", str(tmp_path / "out")]
    for done in (
        control(tmp_path, env=environment),
        subprocess.run(demo, env=os.environ | environment, capture_output=True, text=True),
    ):
        assert done.returncode == 3
        assert "needs the Python package os-ken" in done.stderr
        assert len(done.stderr.splitlines()) == 1


def test_it_says_where_it_listens_and_ends_when_told(tmp_path):
    path = tmp_path / "network.json"
    path.write_text(json.dumps(NETWORK))
    command = [WEIR, "control", "serve", "--network", str(path), "--listen", "127.0.0.1:0"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout.readline().startswith("listening for 1 switches at 127.0.0.1:")
        process.terminate()
        assert process.wait(60) == 0


def test_the_core_needs_no_os_ken():
    code = "import sys, weir.control.core; sys.exit(any('os_ken' in x for x in sys.modules))"
    assert subprocess.run([sys.executable, "-c", code]).returncode == 0
