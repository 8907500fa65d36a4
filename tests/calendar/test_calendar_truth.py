"""What an agent delivers is what its calendar says: nothing is completed that is not there."""

import os
import random
import signal
import socket
import time

import pytest
from calendar_pair import Pair

from weir.errors import BadInput


@pytest.fixture(scope="module")
def pair(tmp_path_factory):
    pair = Pair(tmp_path_factory.mktemp("pair"))
    yield pair
    pair.close()


def make(pair, kind, name):
    place = pair.directory / "dtn1" / name
    match kind:
        case "fifo":
            os.mkfifo(place)
        case "socket":
            with socket.socket(socket.AF_UNIX) as made:
                made.bind(str(place))
        case "device":
            place.symlink_to("/dev/zero")
        case "empty":
            place.write_bytes(b"")
        case "file":
            place.write_bytes(random.Random(1).randbytes(300_000))
        case "empty directory":
            place.mkdir()
        case "tree":
            (place / "deep").mkdir(parents=True)
            (place / "deep" / "empty").write_bytes(b"")
            (place / "deep" / "full").write_bytes(b"x" * 100_000)
    return place


@pytest.mark.parametrize("declared", [1_000_000, None])
@pytest.mark.parametrize("kind", ["fifo", "socket", "empty directory"])
def test_what_is_no_file_fails_at_once_and_says_why(pair, kind, declared):
    name = f"{kind}-{declared}"
    make(pair, kind, name)
    if declared is None:
        with pytest.raises(BadInput, match=f"(?i)is an? {kind}"):
            pair.submit(name)
        return
    # Long before it would be late.
    shown = pair.finished(pair.submit(name, 600.0, size_bytes=declared)["id"])
    assert (shown["state"], shown["bytes_durable"]) == ("failed", 0)
    assert kind in shown["error"].lower()
    assert not pair.received(name).exists()


@pytest.mark.parametrize("declared", [1_000_000, 0, None])
@pytest.mark.parametrize(("kind", "size"), [("empty", 0), ("tree", 100_000)])
def test_what_is_completed_is_at_the_destination_whatever_was_declared(pair, kind, size, declared):
    name = f"{kind}-{declared}"
    place = make(pair, kind, name)
    shown = pair.finished(pair.submit(name, size_bytes=declared)["id"])
    assert shown["state"] == "completed", shown
    assert shown["bytes_durable"] == shown["size_bytes"] == size
    there = pair.received(name)
    assert there.is_dir() == place.is_dir() and there.exists()
    found = {x.relative_to(there): x.stat().st_size for x in there.rglob("*") if x.is_file()}
    sent = {x.relative_to(place): x.stat().st_size for x in place.rglob("*") if x.is_file()}
    assert found == sent


def test_questions_about_fifos_neither_stop_an_agent_nor_its_end(pair):
    make(pair, "fifo", "asked")
    began_s = time.monotonic()
    for _ in range(20):
        with pytest.raises(BadInput, match="FIFO"):
            pair.submit("asked")
    # An agent that opened one would not answer: each would take three seconds.
    assert time.monotonic() - began_s < 60
    make(pair, "file", "after")
    assert pair.finished(pair.submit("after")["id"])["state"] == "completed"
    assert pair.stop_agent("dtn1", signal.SIGTERM) == 0
    pair.start_agent("dtn1")
    pair.wait_alive()
