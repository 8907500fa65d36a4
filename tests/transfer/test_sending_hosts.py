"""One file got from several servers that have the same."""

import contextlib
import hashlib
import json
import os
import re
import signal
import struct
import subprocess
import time
from pathlib import Path

import peer
import pytest
from hosts_world import (
    IMPOSSIBLE,
    MIB,
    SLOW,
    Log,
    data_and_holes,
    finish,
    half_way,
    holed,
    servers,
    together,
)
from rig import WEIR, free_port, until
from transfer_world import leftovers, weir

from weir import Rate, Time
from weir.errors import BadInput, TransferFailed
from weir.transfer import PAUSED, Grant, Server, Transfer, keys_init, keys_issue

SIZE = 12 * MIB + 77
# Not so long ago that a server takes a file in progress for one that was left behind.
NOW_NS = time.time_ns()


class World:
    """A root that servers share, with a file to get, and a place for the copy."""

    def __init__(self, path) -> None:
        self.path, self.root, self.here = path, path / "root", path / "here"
        self.root.mkdir()
        self.here.mkdir()
        self.source, self.copy = self.root / "run7", self.here / "copy"
        self.source.write_bytes(os.urandom(SIZE))

    @property
    def is_whole(self) -> bool:
        return digest(self.copy) == digest(self.source) and leftovers(self.here) == []

    def twin(self, name="twin", content=None, later_ns=0) -> Path:
        """Another root whose file has the size and time of the first one's."""
        root = self.path / name
        root.mkdir()
        content = self.source.read_bytes() if content is None else content
        (root / "run7").write_bytes(content)
        at_ns = self.source.stat().st_mtime_ns + later_ns
        os.utime(root / "run7", ns=(at_ns, at_ns))
        return root


def digest(path):
    return hashlib.sha256(path.read_bytes()).hexdigest()


@pytest.fixture
def world(tmp_path):
    return World(tmp_path)


def begun(world, place, **choices):
    chosen = {"keys": None, "rate": SLOW} | choices
    transfer = Transfer.get([place], world.copy, **chosen)
    transfer.start()
    return transfer


def of_all(running):
    return together(running, "run7")


def with_helper(first, helper):
    return together(first, "run7").replace("/run7", f",{helper}/run7")


def given(transfer):
    return [one.bytes.count for one in transfer.progress().hosts]


def told_and_finished(world, place, **choices):
    """What a transfer tells of its hosts, which is one thing; it is done afterwards."""
    transfer = begun(world, place, **choices)
    (notice,) = until(transfer.take_notices)
    assert finish(transfer) == [] and world.is_whole
    there, gone = transfer.progress().hosts
    assert there.lost_at_s is None and gone.why in notice and gone.lost_at_s is not None
    return notice


def test_two_hosts_send_one_file(world):
    log = Log()
    with servers(world.root, world.root, log=log) as both:
        transfer = begun(world, of_all(both))
        half_way(transfer)
        assert len({port for _, _, _, port in transfer.ports()}) == 2
        assert finish(transfer) == []
        (settled,) = transfer.take_settled()
        until(lambda: log.of("supply") and log.of("get"))
    assert world.is_whole
    assert settled.hash == peer.blake3(world.source.read_bytes()).hexdigest()
    hosts = transfer.progress().hosts
    assert [one.name for one in hosts] == ["{}:{}".format(*one.address) for one in both]
    assert [(one.lost_at_s, one.why) for one in hosts] == [(None, "")] * 2
    (got,), (supplied,) = log.of("get"), log.of("supply")
    assert (got["outcome"], supplied["outcome"]) == ("done", "done")
    assert given(transfer) == [got["bytes"], supplied["bytes"]], "each chunk is sent once"
    assert sum(given(transfer)) == SIZE and min(given(transfer)) > 2 * MIB


def test_what_is_asked_of_one_sender_is_done_by_several(world):
    log = Log()
    with servers(world.root, world.root, world.root, log=log) as three:
        place = of_all(three)
        transfer = begun(world, place, streams=2, sync=True, read_back=True, checksum=True)
        assert finish(transfer) == []
        until(lambda: len(log.of("supply")) == 2)
    assert world.is_whole and sum(given(transfer)) == SIZE


def test_a_tree_of_small_and_large_files_empty_ones_and_holes_under_keys(world, tmp_path):
    keys_init(tmp_path / "keys")
    world.source.unlink()
    for number in range(4):
        (world.root / "tree" / f"d{number}").mkdir(parents=True)
        for small in range(60):
            (world.root / "tree" / f"d{number}" / f"small{small}").write_bytes(os.urandom(small))
        (world.root / "tree" / f"d{number}" / "large").write_bytes(os.urandom(6 * MIB + number))
    holed(world.root / "tree" / "holes", 8)
    (world.root / "tree" / "link").symlink_to("d0/large")
    log = Log()
    with servers(world.root, world.root, keys=tmp_path / "keys", log=log) as both:
        chosen = {"keys": tmp_path / "keys", "rate": SLOW}
        transfer = Transfer.get([together(both, "tree")], world.here, **chosen)
        transfer.start()
        half_way(transfer)
        assert finish(transfer) == []
        until(lambda: log.of("supply"))
    there, here = (
        {
            str(one.relative_to(top)): digest(one)
            for one in (top / "tree").rglob("*")
            if one.is_file()
        }
        for top in (world.root, world.here)
    )
    assert there == here and len(there) == 4 * 61 + 2 and leftovers(world.here) == []
    assert min(given(transfer)) > MIB and log.of("supply")[0]["outcome"] == "done"


@pytest.mark.parametrize("source", ["d/", "d/run7"])
def test_helpers_find_files_by_whatever_they_were_asked_for_with(world, source):
    (world.root / "d").mkdir()
    world.source.rename(world.root / "d" / "run7")
    world.source = world.root / "d" / "run7"
    with servers(world.root, world.root) as both:
        chosen = {"keys": None, "rate": SLOW}
        transfer = Transfer.get([together(both, source)], f"{world.here}/", **chosen)
        transfer.start()
        half_way(transfer)
        assert finish(transfer) == []
    (world.copy,) = world.here.rglob("run7")
    assert world.is_whole and min(given(transfer)) > MIB


def test_several_sources_come_from_all_hosts(world):
    (world.root / "other").write_bytes(os.urandom(5 * MIB))
    with servers(world.root, world.root) as both:
        sources = [together(both, "run7"), together(both, "other")]
        transfer = Transfer.get(sources, world.here, keys=None, rate=SLOW)
        transfer.start()
        half_way(transfer)
        assert finish(transfer) == []
        with pytest.raises(BadInput, match="all sources must be on one server"):
            Transfer.get([sources[0], together(both[:1], "other")], world.here, keys=None)
    assert digest(world.here / "run7") == digest(world.source)
    assert digest(world.here / "other") == digest(world.root / "other")
    assert sum(given(transfer)) == SIZE + 5 * MIB and min(given(transfer)) > MIB


def test_a_sparse_file_comes_from_both_and_keeps_its_holes(world):
    holed(world.source)
    edges = data_and_holes(world.source)
    assert len(edges) == 7, "this file system tells holes"
    with servers(world.root, world.root) as both:
        transfer = begun(world, of_all(both))
        half_way(transfer, 0.3)
        assert finish(transfer) == []
    assert world.is_whole and data_and_holes(world.copy) == edges
    assert sum(given(transfer)) == 13 * MIB, "holes are not sent"
    assert min(given(transfer)) > MIB


def test_an_empty_file_and_one_of_a_single_chunk_come_from_the_first_alone(world):
    for size in (0, MIB):
        world.source.write_bytes(os.urandom(size))
        with servers(world.root, world.root) as both:
            assert finish(begun(world, of_all(both))) == []
        assert world.is_whole


def test_a_helper_that_is_killed_is_done_without(world, serve):
    with servers(world.root) as first:
        helper = serve("--root", world.root, "--insecure")
        transfer = begun(world, with_helper(first, helper.listen))
        until(lambda: given(transfer)[1] > 2 * MIB)
        helper.kill()
        until(lambda: transfer.progress().hosts[1].why)
        notices = finish(transfer)
    assert world.is_whole
    assert len(notices) == 1 and f"going on without {helper.listen}" in notices[0]
    there, gone = given(transfer)
    assert there + gone == SIZE and gone > 2 * MIB, "what came from it is not sent again"


def test_helpers_that_stand_still_or_send_nothing_are_done_without(world, serve):
    with servers(world.root) as first, peer.Listener() as other:
        stopped = serve("--root", world.root, "--insecure")
        place = with_helper(first, f"{stopped.listen},{other.place}")
        transfer = begun(world, place, silence=Time("5 s"), rate=Rate("15 Mbit/s"))
        with other.accept(version=6) as idle:
            idle.hear(peer.WANT)
            until(lambda: given(transfer)[1] > 0)
            stopped.process.send_signal(signal.SIGSTOP)
            while not transfer.progress().hosts[2].why:
                with contextlib.suppress(OSError):
                    idle.say(peer.message(peer.PING))
                time.sleep(0.5)
        until(lambda: transfer.progress().hosts[1].why)
        stopped.process.send_signal(signal.SIGCONT)
        notices = finish(transfer)
    assert world.is_whole and len(notices) == 2
    assert "has been silent for too long" in transfer.progress().hosts[1].why
    assert "sends nothing of what it was asked for" in transfer.progress().hosts[2].why


def test_a_helper_that_says_it_has_done_all_and_has_not_is_done_without(world):
    with servers(world.root) as first, peer.Listener() as other:
        transfer = begun(world, with_helper(first, other.place))
        with other.accept(version=6) as hasty:
            hasty.hear(peer.WANT)
            hasty.say(peer.message(peer.FINISHED))
            until(lambda: transfer.progress().hosts[1].why)
        (notice,) = finish(transfer)
    assert world.is_whole
    assert "it ends before it has sent all that it was asked for" in notice


def test_a_stale_helper_is_found_and_its_content_is_nowhere(world):
    """It shows other content under the same name, size and time."""
    content = bytearray(world.source.read_bytes())
    content[: 11 * MIB] = os.urandom(11 * MIB)
    with servers(world.root, world.twin(content=content)) as both:
        notice = told_and_finished(world, of_all(both))
    assert "has other content than the first host" in notice


def test_a_helper_with_a_copy_helps_as_one_that_shares_the_file_system(world):
    with servers(world.root, world.twin()) as both:
        transfer = begun(world, of_all(both))
        half_way(transfer)
        assert finish(transfer) == []
    assert world.is_whole and min(given(transfer)) > 2 * MIB


@pytest.mark.parametrize("what", ["longer", "later", "link", "gone"])
def test_a_helper_that_has_another_file_there_sends_nothing_of_it(world, what):
    content = world.source.read_bytes() + (b"!" if what == "longer" else b"")
    twin = world.twin(content=content, later_ns=1 if what == "later" else 0)
    if what in {"link", "gone"}:
        (twin / "run7").rename(twin / "elsewhere")
    if what == "link":
        (twin / "run7").symlink_to("elsewhere")
    with servers(world.root, twin) as both:
        notice = told_and_finished(world, of_all(both))
    assert {
        "longer": "is not there as it is at the first host",
        "later": "is not there as it is at the first host",
        "link": "cannot read",
        "gone": "No such file",
    }[what] in notice


def test_a_client_that_may_not_read_at_the_helper_does_without(world, tmp_path):
    keys = tmp_path / "keys"
    keys_init(keys)
    keys_issue(keys, tmp_path / "dtn7", "dtn7", False)
    log = Log()
    chosen = {"listen": "127.0.0.1:0", "keys": keys}
    rights = [Grant("dtn7", True, prefix="elsewhere")]
    with (
        Server([world.root], **chosen) as first,
        Server([world.root], rights=rights, on_entry=log, **chosen) as other,
    ):
        notice = told_and_finished(world, of_all([first, other]), keys=tmp_path / "dtn7")
        until(lambda: log.of("supply"))
    assert 'this client may not use "run7" here' in notice
    assert log.of("supply")[0]["outcome"] == "failed"


def test_a_helper_that_is_not_reached_is_done_without(world):
    with servers(world.root) as first:
        notice = told_and_finished(world, with_helper(first, f"127.0.0.1:{free_port()}"))
    assert "cannot connect" in notice


def test_an_older_helper_is_done_without(world):
    with peer.Listener() as older, servers(world.root) as first:
        transfer = begun(world, with_helper(first, older.place), rate=PAUSED)
        with contextlib.suppress(EOFError, OSError):
            older.accept(version=5)
        (notice,) = until(transfer.take_notices)
        assert finish(transfer) == []
    assert world.is_whole
    assert "cannot do several senders: its weir serve is older than that" in notice


def test_an_older_first_host_is_used_alone_and_heard_nothing_new(world):
    content = b"small"
    with peer.Listener() as older:
        transfer = begun(world, f"{older.place},127.0.0.1:{free_port()}/run7")
        with older.accept(version=5) as there:
            there.say(peer.message(peer.BEGIN, b"\1"))
            there.say(peer.offer(0, peer.entry(b"run7", len(content))))
            there.hear(peer.ANSWERS)
            there.data.sendall(peer.chunk(0, content) + peer.END)
            there.say(peer.message(peer.FINISH))
            heard = set()
            while peer.FINISHED not in heard:
                heard.add(peer.hear(there.control)[0])
            notices = finish(transfer)
    assert world.copy.read_bytes() == content
    assert peer.ASK not in heard and len(notices) == 1
    assert "it speaks version 5 of the protocol" in notices[0]
    assert transfer.progress().hosts[1].why in notices


def test_the_first_host_dies_and_comes_back(world, serve):
    first = serve("--root", world.root, "--insecure")
    with servers(world.root) as others:
        place = f"{first.listen},{of_all(others)}"
        transfer = begun(world, place, retry=Time("60 s"))
        half_way(transfer)
        first.kill()
        first.start()
        until(lambda: transfer.progress().bytes_resumed.count > 3 * MIB)
        notices = finish(transfer)
        assert transfer.progress().hosts[1].lost_at_s is None, "it is there again"
    assert world.is_whole and any("trying again" in notice for notice in notices)


def test_the_getter_is_killed_and_what_came_is_not_sent_again(world):
    with servers(world.root, world.root) as both:
        place = of_all(both)
        get = [WEIR, "get", "--insecure", "--rate", "60 Mbit/s", place, world.copy]
        with subprocess.Popen(get, stderr=subprocess.DEVNULL) as process:
            journal = until(lambda: list(world.here.glob(".weir-*.journal")))[0]
            until(lambda: journal.stat().st_size > 8 * 40)
            process.kill()
        transfer = begun(world, place)
        assert finish(transfer) == []
    resumed = transfer.progress().bytes_resumed.count
    assert world.is_whole and resumed >= 4 * MIB
    assert sum(given(transfer)) == SIZE - resumed


def test_what_changes_while_it_is_read_fails(world):
    with servers(world.root, world.root) as both:
        transfer = begun(world, of_all(both))
        half_way(transfer, 0.2)
        with world.source.open("r+b") as file:
            file.write(b"changed")
        transfer.set_rate(None)
        with pytest.raises(TransferFailed, match="changed"):
            transfer.wait(Time("60 s"))
    assert not world.copy.exists()


def test_the_rate_is_of_all_hosts_together_and_can_be_changed(world):
    world.source.write_bytes(os.urandom(20 * MIB))
    with servers(world.root, world.root, world.root) as three:
        transfer = begun(world, of_all(three), rate=PAUSED)
        time.sleep(0.3)
        assert transfer.progress().bytes_done.count == 0
        transfer.set_rate(SLOW)
        half_way(transfer, 0.1)
        began_s, before = time.monotonic(), transfer.progress().bytes_done.count
        half_way(transfer, 0.7)
        seconds, bits = (
            time.monotonic() - began_s,
            8 * (transfer.progress().bytes_done.count - before),
        )
        assert 0.5 < bits / seconds / SLOW.bit_per_s < 1.25
        assert finish(transfer) == []
    assert world.is_whole and min(given(transfer)) > MIB


@pytest.mark.parametrize(("place", "choices", "why"), IMPOSSIBLE)
def test_hosts_that_cannot_be_are_refused_before_anything_is_asked(world, place, choices, why):
    with pytest.raises(BadInput, match=why):
        Transfer.get([place], world.copy, keys=None, **choices)


def test_the_command_says_what_each_host_gave_and_which_was_lost(world):
    with servers(world.root, world.root) as both:
        place = with_helper(both[:1], f"127.0.0.1:{free_port()}")
        place = place.replace(",", ",{}:{},".format(*both[1].address))
        get = ["get", "--insecure", "--rate", "200 Mbit/s", place, world.copy]
        done = weir(*get, "--json")
        world.copy.unlink()
        said = weir(*get).stderr
        assert world.is_whole
        for option in ("--cca", "--streams"):
            refused = weir("get", "--insecure", option, "auto", place, world.copy)
            assert refused.returncode == 2 and "is for weir send" in refused.stderr
    assert done.returncode == 0, done.stderr
    *_, last = map(json.loads, done.stdout.splitlines())
    first, other, third = last["hosts"]
    names = place.removesuffix("/run7").split(",")
    assert [one["host"] for one in last["hosts"]] == names
    assert first["bytes"] + other["bytes"] == SIZE and third["bytes"] == 0
    assert min(first["bytes"], other["bytes"]) > 0
    assert "cannot connect" in third["lost_why"]
    a_size, a_time = r"[\d.]+ MB", r"\d\d:\d\d:\d\d"
    names = [re.escape(name) for name in names]
    shares = f"; {names[0]} gave {a_size}, {names[1]} gave {a_size}, {names[2]} gave 0 B"
    assert re.search(rf"received: .*{shares} \(lost at {a_time}\)", said), said


# What follows speaks the protocol by itself: a helper that does not do what it should, and a
# getter with an account at both servers.


def wanted(body):
    """What a helper is asked for: the file's number, its name, and the chunks."""
    number, length = struct.unpack(">QH", body[:10])
    first, count = struct.unpack(">QQ", body[-16:])
    return number, body[10 : 10 + length], first, count


@pytest.mark.parametrize("wrong", ["content", "place", "file", "hole", "nonsense", "twice"])
def test_nothing_of_a_hostile_helper_gets_into_the_file(world, wrong):
    with servers(world.root) as first, peer.Listener() as listener:
        transfer = begun(world, with_helper(first, listener.place))
        with listener.accept(version=6) as helper:
            number, name, at, count = wanted(helper.hear(peer.WANT)[1])
            assert name == b"run7" and count >= 1
            evil, right = os.urandom(MIB), world.source.read_bytes()[at * MIB : (at + 1) * MIB]
            helper.data.sendall(
                {
                    "content": peer.chunk(number, evil, at * MIB),
                    "place": peer.chunk(number, right, 11 * MIB),
                    "file": peer.chunk(number + 1, right, at * MIB),
                    "hole": peer.header(2, number, at * MIB, MIB),
                    "nonsense": os.urandom(4096),
                    "twice": 2 * peer.chunk(number, evil, at * MIB),
                }[wrong]
            )
            until(lambda: transfer.progress().hosts[1].why)
            (notice,) = finish(transfer)
    assert world.is_whole
    assert {
        "content": "sends damaged content",
        "twice": "sends damaged content",
        "place": "not asked for",
        "file": "not asked for",
        "hole": "zeros are no business",
        "nonsense": "check over the bytes",
    }[wrong] in notice


class Getter:
    """A getter that has a session with a server, as it would with the first one."""

    def __init__(self, there) -> None:
        self.there = there
        there.say(peer.message(peer.GET, peer.listed([peer.text(b"run7")]) + peer.options()))
        there.hear(peer.READY)
        there.hear(peer.OFFER)

    def answer(self, *runs):
        self.there.say(peer.answers(peer.missing(0, *runs)))

    def ask(self, helper=0, chunks=4):
        self.there.say(peer.message(peer.ASK, struct.pack(">BH", helper, chunks)))

    def dealt(self):
        """The first of the chunks that are left to a helper, and how many."""
        _, body = self.there.hear(peer.DEALT)
        number, helper, first, count = struct.unpack(">QBQI", body[:21])
        assert (number, helper, len(body)) == (0, 0, 21 + 32 * count)
        return first, count

    def give_back(self, *chunks):
        packed = peer.listed([struct.pack(">Q", chunk) for chunk in chunks])
        self.there.say(peer.message(peer.RETURN, struct.pack(">Q", 0) + packed))

    def why(self):
        """What the server says last."""
        return self.there.hear(peer.FAILURE)[1][3:].decode()


@pytest.fixture
def server(world):
    with servers(world.root) as (running,):
        yield running


@pytest.fixture
def getter(server):
    with peer.greeted(server.address, version=6) as there:
        yield Getter(there)


def test_what_is_dealt_is_not_sent_until_it_comes_back(world, getter):
    getter.ask()
    getter.answer((2, 1), (4, 3))
    first, count = getter.dealt()
    assert (first, count) in {(2, 1), (4, 1), (5, 1), (6, 1)}
    came = [struct.unpack(">Q", frame[16:24])[0] // MIB for frame in frames(getter.there.data, 3)]
    assert sorted([first, *came]) == [2, 4, 5, 6]
    getter.give_back(first)
    (frame,) = frames(getter.there.data, 1)
    assert struct.unpack(">Q", frame[16:24])[0] == first * MIB
    assert frame[32:-40] == world.source.read_bytes()[first * MIB : (first + 1) * MIB]


def frames(data, count):
    """Frames of whole chunks."""
    return [peer.take(data, 32 + MIB + 40) for _ in range(count)]


def test_chunks_come_back_once_and_only_those_that_were_dealt(getter):
    getter.ask()
    getter.answer((0, 12))
    first, _ = getter.dealt()
    getter.give_back(first)
    getter.give_back(first)
    assert "chunks came back that were not dealt out" in getter.why()


def test_one_request_for_chunks_waits_for_each_helper(getter):
    for helper in range(64):
        getter.ask(helper)
    getter.ask(7)
    assert "before the first was met" in getter.why()


@pytest.mark.parametrize("kind", ["ask", "return", "supply"])
def test_a_peer_of_version_5_has_nothing_dealt_out(server, kind):
    with peer.greeted(server.address, version=5) as there:
        if kind == "supply":
            sources = peer.listed([peer.text(b"run7")])
            there.say(peer.message(peer.SUPPLY, sources + peer.options()))
            assert "no request" in there.hear(peer.FAILURE)[1][3:].decode()
            return
        getter = Getter(there)
        getter.ask() if kind == "ask" else getter.give_back()
        assert "only a sender sends" in getter.why() or "a message" in getter.why()


def want(there, name=b"run7", *, size=SIZE, mtime_ns=None, run=(0, 1)):
    seconds, nanoseconds = divmod(mtime_ns, 10**9)
    body = struct.pack(">Q", 9) + peer.text(name) + struct.pack(">QqI", size, seconds, nanoseconds)
    there.say(peer.message(peer.WANT, body + struct.pack(">QQ", *run)))


@pytest.fixture
def helper(below, server):
    """A server that is to help with what is below `d`."""
    with peer.greeted(server.address, version=6) as there:
        sources = peer.listed([peer.text(b"d")])
        there.say(peer.message(peer.SUPPLY, sources + peer.options()))
        there.hear(peer.READY)
        yield there


@pytest.fixture
def below(world):
    (world.root / "d").mkdir()
    (world.root / "d" / "run7").write_bytes(world.source.read_bytes())
    (world.root / "d" / "link").symlink_to("../run7")
    (world.root / "d" / "way").symlink_to("..")
    (world.root / "d" / ".weir-0123456789abcdef.part").write_bytes(world.source.read_bytes())
    for one in (world.root / "d").iterdir():
        os.utime(one, ns=(NOW_NS, NOW_NS), follow_symlinks=False)
    os.utime(world.source, ns=(NOW_NS, NOW_NS))
    return world


@pytest.mark.parametrize(
    "name",
    [b"run7", b"d/link", b"d/way/run7", b"d/none", b"d", b"d/.weir-0123456789abcdef.part"],
)
def test_a_helper_opens_nothing_but_what_it_was_asked_for(below, helper, name):
    want(helper, name, mtime_ns=NOW_NS)
    _, body = helper.hear(peer.FILE_FAILED)
    assert struct.unpack(">Q", body[:8]) == (9,)
    want(helper, b"d/run7", mtime_ns=NOW_NS, run=(12, 1))
    frame = peer.take(helper.data, 32 + 77 + 40)
    assert frame[32:-40] == below.source.read_bytes()[12 * MIB :]


@pytest.mark.parametrize("run", [(0, 0), (0, 14), (13, 1), (2**64 - 1, 2)])
def test_chunks_past_the_end_are_refused(below, helper, run):
    want(helper, b"d/run7", mtime_ns=NOW_NS, run=run)
    assert "past the end" in helper.hear(peer.FAILURE)[1][3:].decode()


def test_only_so_much_may_be_wanted_at_once(below, helper):
    for _ in range(200):
        with contextlib.suppress(OSError):
            want(helper, b"d/run7", mtime_ns=NOW_NS, run=(0, 12))
    assert "too many chunks are wanted at once" in helper.hear(peer.FAILURE)[1][3:].decode()
