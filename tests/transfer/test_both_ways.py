"""One rule for `send` and `get`: what is left out is told, and what one thing is called there."""

import json
import os
import socket
import subprocess

import peer
import pytest
from transfer_world import weir

from weir.transfer import Server

WAYS = ["send", "get"]


@pytest.fixture
def ends(tmp_path):
    """Two directories, and how something of the first is moved into the second, either way."""
    here, there = tmp_path / "here", tmp_path / "there"
    here.mkdir()
    there.mkdir()

    def move(way, source, target, *options):
        with Server([there if way == "send" else here], listen="127.0.0.1:0", keys=None) as server:
            address = "{}:{}".format(*server.address)
            places = {
                "send": (f"{here}/{source}", f"{address}/{target}"),
                "get": (f"{address}/{source}", f"{there}/{target}"),
            }
            return weir(way, *places[way], "--insecure", *options)

    return here, there, move


@pytest.mark.parametrize("way", WAYS)
def test_what_is_no_file_is_left_out_with_a_notice(ends, way):
    here, there, move = ends
    tree = here / "tree"
    (tree / "deep").mkdir(parents=True)
    (tree / "deep" / "file").write_text("content")
    os.mkfifo(tree / "deep" / "a pipe\n")
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(os.fspath(tree / "a socket"))
        done = move(way, "tree", "")
        events = [json.loads(line) for line in move(way, "tree", "", "--json").stdout.splitlines()]
    assert done.returncode == 0
    told = [line for line in done.stderr.splitlines() if "skipped" in line]
    assert len(told) == 2
    assert any("tree/a socket" in line for line in told)
    # A name cannot break the line that it is in.
    assert any("tree/deep/a pipe\\n" in line for line in told)
    assert [one["event"] for one in events].count("notice") == 2
    assert (events[-1]["event"], events[-1]["files_skipped"]) == ("done", 2)
    assert sorted(one.name for one in there.rglob("*")) == ["deep", "file", "tree"]


def test_an_older_receiver_is_not_told_what_it_would_not_understand(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    with (
        Server([tmp_path], listen="127.0.0.1:0", keys=None) as server,
        peer.greeted(server.address, version=6) as client,
    ):
        client.say(peer.message(peer.GET, peer.listed([peer.text(b"/")]) + peer.options()))
        heard = []
        while (one := peer.hear(client.control)[0]) != peer.FINISH:
            heard.append(one)
    assert {peer.READY, peer.BEGIN, peer.TOTALS} <= set(heard) <= {*range(1, 64)}


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("kind", ["file", "link", "dangling", "link to a directory"])
def test_one_file_or_link_takes_the_destination_as_its_name(ends, way, kind):
    """As rsync has it, which is asked for the same."""
    here, there, move = ends
    one = here / "one"
    (here / "a directory").mkdir()
    (here / "aim").write_text("content")
    aims = {"link": "aim", "dangling": "nowhere", "link to a directory": "a directory"}
    if kind == "file":
        one.write_text("content")
    else:
        one.symlink_to(aims[kind])
    others = there.with_name("by rsync")
    for top in (there, others):
        (top / "directory").mkdir(parents=True)
        (top / "to a directory").symlink_to("directory")
        (top / "file").write_text("another")
        (top / "a link").symlink_to("file")
    options = ["--unsafe-links"] if way == "get" else []
    for target in ("new", "directory", "to a directory", "file", "a link", "slash/"):
        done = move(way, "one", target, *options)
        assert done.returncode == 0, (target, done.stderr)
        subprocess.run(["rsync", "-lt", one, f"{others}/{target}"], check=True)

    def listing(top):
        return {
            str(path.relative_to(top)): path.readlink() if path.is_symlink() else path.is_dir()
            for path in top.rglob("*")
        }

    assert listing(there) == listing(others)


@pytest.mark.parametrize("way", WAYS)
def test_a_file_that_has_more_than_it_says_is_no_success(tmp_path, way):
    """It arrived empty, and the transfer ended with 0; files of `/proc` are such."""
    target = tmp_path / "version"
    with Server(
        [tmp_path if way == "send" else "/proc"], listen="127.0.0.1:0", keys=None
    ) as server:
        address = "{}:{}".format(*server.address)
        ends = ["/proc/version", f"{address}/"] if way == "send" else [f"{address}/version", target]
        done = weir(way, *ends, "--insecure")
    assert done.returncode == 5
    assert "has content" in done.stderr
    assert not target.exists()


@pytest.mark.parametrize("way", WAYS)
def test_names_that_are_not_text_are_told_exactly(ends, way):
    here, _, move = ends
    odd = os.fsdecode(b'q"\xff\n\x1b')
    (here / "tree").mkdir()
    # The text of the first one is the name of the second.
    for name in (odd, 'q"\\xff\n\x1b'):
        (here / "tree" / name).write_text("content")
    lines = move(way, "tree", "", "--json").stdout.splitlines()
    files = [one for one in map(json.loads, lines) if one["event"] == "file"]
    assert {one["path"] for one in files} == {'tree/q"\\xff\n\x1b'}
    told = {bytes.fromhex(one["path_hex"]) for one in files if "path_hex" in one}
    assert told == {b"tree/" + os.fsencode(odd)}


@pytest.mark.parametrize("way", WAYS)
def test_a_link_that_is_in_the_way_is_called_one(ends, way):
    here, there, move = ends
    (here / "tree" / "a").mkdir(parents=True)
    (here / "tree" / "a" / "file").write_text("content")
    (there / "tree").mkdir()
    (there / "tree" / "a").symlink_to("/etc")
    done = move(way, "tree", "")
    assert done.returncode == 5
    assert "a symbolic link" in done.stderr
