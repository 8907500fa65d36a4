"""One file there and back through real processes; the content is compared by sha256."""

import json
import os

import pytest
from blake3 import blake3
from rig import sha256
from transfer_world import leftovers, weir


@pytest.mark.parametrize("size", [0, 1, 4096, 2**20 - 1, 2**20, 2**20 + 1, 7 * 2**20 + 12345])
@pytest.mark.parametrize("hashing", ["blake3", "none"])
def test_a_file_arrives_whole_and_comes_back(serve, tmp_path, size, hashing):
    source = tmp_path / "source"
    source.write_bytes(os.urandom(size))
    source.chmod(0o640)
    os.utime(source, ns=(1_600_000_000_123_456_789, 1_500_000_000_987_654_321))
    root = tmp_path / "root"
    root.mkdir()
    server = serve("--root", root, "--insecure")
    done = weir("send", source, f"{server.listen}/there", "--insecure", "--hash", hashing)
    assert done.returncode == 0, done.stderr
    done = weir("get", f"{server.listen}/there", tmp_path / "back", "--insecure", "--hash", hashing)
    assert done.returncode == 0, done.stderr
    for copy in (root / "there", tmp_path / "back"):
        assert sha256(copy) == sha256(source)
        assert copy.stat().st_mode & 0o7777 == 0o640
        assert copy.stat().st_mtime_ns == 1_500_000_000_987_654_321
    assert leftovers(tmp_path) == []


def test_the_printed_hash_is_ordinary_blake3(serve, tmp_path):
    """The oracle is the blake3 package: what `b3sum` prints."""
    (tmp_path / "root").mkdir()
    source = tmp_path / "source"
    source.write_bytes(os.urandom(5 * 2**20 + 321))
    expected = blake3(source.read_bytes()).hexdigest()
    server = serve("--root", tmp_path / "root", "--insecure")
    done = weir("send", source, f"{server.listen}/copy", "--insecure", "--hashes", "--streams", "3")
    assert done.stdout == f"{expected}  source\n"
    done = weir("get", f"{server.listen}/copy", tmp_path / "back", "--insecure", "--json")
    events = [json.loads(line) for line in done.stdout.splitlines()]
    (file,) = [event for event in events if event["event"] == "file"]
    assert file["blake3"] == expected


def test_events_tell_the_story_in_order(serve, tmp_path):
    (tmp_path / "root").mkdir()
    source = tmp_path / "source"
    source.write_bytes(os.urandom(4 * 2**20))
    server = serve("--root", tmp_path / "root", "--insecure")
    options = ["--insecure", "--json", "--rate", "20 Mbit/s", "--by", "+60 s"]
    done = weir("send", source, f"{server.listen}/copy", *options)
    events = [json.loads(line) for line in done.stdout.splitlines()]
    kinds = [event["event"] for event in events]
    assert kinds[0] == "start" and kinds[-2:] == ["file", "done"]
    assert set(kinds[1:-2]) == {"progress"} and len(kinds) > 4
    durable = [event["bytes_durable"] for event in events if "bytes_durable" in event]
    assert durable == sorted(durable) and durable[-1] == 4 * 2**20
    # Others on the machine make it slower than its rate, and nobody makes it faster.
    slack_s, mean_bps = events[-1]["slack_s"], events[-1]["mean_rate_bps"]
    assert 0 < mean_bps < 1.15 * 20e6
    took_s = 4 * 2**20 * 8 / mean_bps
    assert 0.9 * took_s < 60 - slack_s < took_s + 40


def test_a_failure_is_an_event_with_its_exit_code(serve, tmp_path):
    (tmp_path / "source").write_text("x")
    (tmp_path / "root").mkdir()
    server = serve("--read-only", tmp_path / "root", "--insecure")
    done = weir("send", tmp_path / "source", f"{server.listen}/x", "--insecure", "--json")
    last = json.loads(done.stdout.splitlines()[-1])
    assert (last["event"], last["exit_code"], done.returncode) == ("error", 4, 4)
    assert "read-only" in last["message"]
