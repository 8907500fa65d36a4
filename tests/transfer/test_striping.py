"""One file sent to several receivers that share the destination's file system."""

import contextlib
import json
import os
import re
import secrets
import signal
import struct
import time
from datetime import datetime

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
from rig import free_port, until
from transfer_world import leftovers, weir

from weir import Time
from weir.errors import BadInput, TransferFailed
from weir.transfer import PAUSED, Grant, Server, Transfer, keys_init, keys_issue

# So long after a host was given up, what it might still have written may be there.
GRACE_S = 2


class World:
    """Two roots, of which receivers may share one, and a source."""

    def __init__(self, path) -> None:
        self.path, self.source, self.root = path, path / "source", path / "root"
        self.root.mkdir()
        self.source.write_bytes(os.urandom(20 * MIB + 77))

    @property
    def is_whole(self) -> bool:
        return (self.root / "copy").read_bytes() == self.source.read_bytes()


@pytest.fixture
def world(tmp_path):
    return World(tmp_path)


def begun(world, place, **choices):
    chosen = {"keys": None, "rate": SLOW} | choices
    transfer = Transfer.send([world.source], place, **chosen)
    transfer.start()
    return transfer


def told_and_finished(world, place, **choices):
    """What a transfer tells of its receivers, which is one thing; it is done afterwards."""
    transfer = begun(world, place, rate=PAUSED, **choices)
    (notice,) = until(transfer.take_notices)
    assert finish(transfer) == [] and world.is_whole
    return notice


def test_two_receivers_write_one_file(world):
    log = Log()
    with servers(world.root, world.root, log=log) as both:
        transfer = begun(world, together(both))
        half_way(transfer)
        assert len({port for _, _, _, port in transfer.ports()}) == 2
        assert finish(transfer) == []
        (settled,) = transfer.take_settled()
        until(lambda: log.of("assist"))
    assert world.is_whole and leftovers(world.root) == []
    hosts = transfer.progress().hosts
    assert [one.name for one in hosts] == ["{}:{}".format(*one.address) for one in both]
    assert sum(one.bytes.count for one in hosts) == 20 * MIB + 77
    assert [(one.lost_at_s, one.why) for one in hosts] == [(None, "")] * 2
    assert settled.hash == peer.blake3(world.source.read_bytes()).hexdigest()
    (put,), (assisted,) = log.of("put"), log.of("assist")
    assert put["bytes"] == 20 * MIB + 77
    assert 2 * MIB < assisted["bytes"] < 18 * MIB
    assert hosts[1].bytes.count == assisted["bytes"]
    assert (put["outcome"], assisted["outcome"]) == ("done", "done")


@pytest.mark.parametrize("choice", ["sync", "read_back", "checksum"])
def test_what_is_asked_of_one_receiver_is_done_by_several(world, choice):
    log = Log()
    with servers(world.root, world.root, world.root, log=log) as all_three:
        transfer = begun(world, together(all_three), streams=2, **{choice: True})
        assert finish(transfer) == []
        until(lambda: len(log.of("assist")) == 2)
    assert world.is_whole and leftovers(world.root) == []


def test_under_keys_and_into_a_directory(world, tmp_path):
    keys_init(tmp_path / "keys")
    (world.root / "copy").mkdir()
    log = Log()
    with servers(world.root, world.root, keys=tmp_path / "keys", log=log) as both:
        transfer = begun(world, together(both, "copy/"), keys=tmp_path / "keys")
        half_way(transfer)
        assert finish(transfer) == []
        until(lambda: log.of("assist"))
    assert (world.root / "copy" / "source").read_bytes() == world.source.read_bytes()
    assert log.of("assist")[0]["bytes"] > 0


def test_several_files_small_and_large_and_with_holes(world):
    tree = world.path / "tree"
    tree.mkdir()
    for number in range(5):
        (tree / f"large{number}").write_bytes(os.urandom(3 * MIB + number))
        (tree / f"small{number}").write_bytes(os.urandom(1000 + number))
    with (tree / "holes").open("wb") as file:
        file.seek(5 * MIB)
        file.write(b"end")
    log = Log()
    with servers(world.root, world.root, log=log) as both:
        transfer = Transfer.send([f"{tree}/"], together(both), keys=None, rate=SLOW)
        transfer.start()
        half_way(transfer)
        assert finish(transfer) == []
        until(lambda: log.of("assist"))
    content = {one.name: one.read_bytes() for one in (world.root / "copy").iterdir()}
    assert content == {one.name: one.read_bytes() for one in tree.iterdir()}
    assert log.of("assist")[0]["bytes"] > 0


def test_a_sparse_file_is_written_by_both_and_keeps_its_holes(world):
    holed(world.source)
    edges = data_and_holes(world.source)
    assert len(edges) == 7, "this file system tells holes"
    log = Log()
    with servers(world.root, world.root, log=log) as both:
        transfer = begun(world, together(both))
        half_way(transfer, 0.3)
        assert finish(transfer) == []
        until(lambda: log.of("assist"))
    assert world.is_whole and leftovers(world.root) == []
    assert data_and_holes(world.root / "copy") == edges
    first, other = transfer.progress().hosts
    assert 0 < log.of("assist")[0]["bytes"] == other.bytes.count < 13 * MIB
    assert first.bytes.count + other.bytes.count == 13 * MIB, "holes are not sent"


def test_a_sparse_file_survives_the_death_of_a_helper(world, serve):
    holed(world.source)
    edges = data_and_holes(world.source)
    with servers(world.root) as first:
        helper = serve("--root", world.root, "--insecure")
        place = together(first).replace("/copy", f",{helper.listen}/copy")
        transfer = begun(world, place)
        until(lambda: transfer.progress().hosts[1].bytes.count > MIB)
        helper.kill()
        until(lambda: transfer.progress().hosts[1].why)
        notices = finish(transfer)
    assert world.is_whole and leftovers(world.root) == []
    assert len(notices) == 1 and data_and_holes(world.root / "copy") == edges


def test_a_helper_that_dies_is_done_without(world, serve):
    with servers(world.root) as first:
        helper = serve("--root", world.root, "--insecure")
        place = together(first).replace("/copy", f",{helper.listen}/copy")
        transfer = begun(world, place)
        half_way(transfer)
        began_s = time.time()
        helper.kill()
        until(lambda: len(transfer.ports()) == 1)
        until(lambda: transfer.progress().hosts[1].why)
        assert began_s <= transfer.progress().hosts[1].lost_at_s <= time.time()
        notices = finish(transfer)
    assert world.is_whole and leftovers(world.root) == []
    # What it had not written went to the first one; nothing else is sent twice.
    there, gone = transfer.progress().hosts
    assert there.lost_at_s is None and gone.why in notices[0]
    assert 0 < gone.bytes.count < 18 * MIB
    assert 0 <= there.bytes.count + gone.bytes.count - (20 * MIB + 77) <= gone.bytes.count
    assert len(notices) == 1 and f"going on without {helper.listen}" in notices[0]


def test_a_helper_that_stands_still_is_done_without_and_writes_nothing_later(world, serve):
    """It comes back when the file has its name and other content, and leaves that alone."""
    with servers(world.root) as first:
        helper = serve("--root", world.root, "--insecure")
        place = together(first).replace("/copy", f",{helper.listen}/copy")
        transfer = begun(world, place, silence=Time("5 s"))
        half_way(transfer, 0.2)
        helper.process.send_signal(signal.SIGSTOP)
        notices = finish(transfer)
        assert world.is_whole
        (world.root / "copy").write_bytes(bytes(20 * MIB + 77))
        helper.process.send_signal(signal.SIGCONT)
        time.sleep(0.5)
        assert not any((world.root / "copy").read_bytes())
    assert len(notices) == 1 and "has been silent for too long" in notices[0]
    assert leftovers(world.root) == []


def test_a_helper_that_takes_chunks_and_writes_none_is_done_without(world):
    """Its storage hangs, or it lies: it goes on saying that it lives."""
    with servers(world.root) as first, peer.Listener() as other:
        place = together(first).replace("/copy", f",{other.place}/copy")
        transfer = begun(world, place, silence=Time("5 s"))
        with other.accept(version=6) as idle:
            _, lease = idle.hear(peer.LEASE)
            idle.say(peer.message(peer.OPENED, lease[:8]))
            idle.data.setblocking(False)
            until(lambda: transfer.progress().hosts[1].bytes.count)
            transfer.set_rate(None)
            while not transfer.progress().hosts[1].why:
                with contextlib.suppress(OSError):
                    idle.data.recv(MIB)
                    continue
                with contextlib.suppress(OSError):
                    idle.say(peer.message(peer.PING))
                time.sleep(0.1)
        (notice,) = finish(transfer)
    assert world.is_whole and "writes nothing of what it was sent" in notice


def test_the_first_receiver_dies_and_comes_back(world, serve):
    first = serve("--root", world.root, "--insecure")
    with servers(world.root) as others:
        place = f"{first.listen},{together(others)}"
        transfer = begun(world, place, retry=Time("60 s"))
        half_way(transfer)
        first.kill()
        first.start()
        until(lambda: transfer.progress().bytes_resumed.count > 4 * MIB)
        notices = finish(transfer)
        assert transfer.progress().hosts[1].lost_at_s is None, "it is there again"
    assert world.is_whole and leftovers(world.root) == []
    assert any("trying again" in notice for notice in notices)


def test_the_sender_dies_and_comes_back(world):
    with servers(world.root, world.root) as both:
        transfer = begun(world, together(both))
        half_way(transfer)
        transfer.cancel()
        with pytest.raises(TransferFailed, match="cancelled"):
            transfer.wait()
        again = begun(world, together(both))
        assert finish(again) == []
        assert again.progress().bytes_resumed.count > 4 * MIB
    assert world.is_whole and leftovers(world.root) == []


def test_a_receiver_that_does_not_share_the_file_system_is_done_without(world):
    (world.path / "other").mkdir()
    with servers(world.root, world.path / "other") as both:
        notice = told_and_finished(world, together(both))
    assert list((world.path / "other").iterdir()) == []
    assert "going on without" in notice and "nobody has lent here" in notice


def test_a_receiver_that_is_not_reached_is_done_without(world):
    with servers(world.root) as first:
        place = together(first).replace("/copy", f",127.0.0.1:{free_port()}/copy")
        notice = told_and_finished(world, place)
    assert "going on without" in notice and "cannot connect" in notice


def test_the_command_says_what_each_host_took_and_which_was_lost(world):
    with servers(world.root, world.root) as both:
        lost = f"127.0.0.1:{free_port()}"
        place = together(both).replace("/copy", f",{lost}/copy")
        send = ["send", "--insecure", "--rate", str(SLOW), world.source, place]
        before = datetime.now().astimezone()
        done = weir(*send, "--json")
        after = datetime.now().astimezone()
        (world.root / "copy").unlink()
        said = weir(*send).stderr
        alone = weir("send", "--insecure", "--json", world.source, together(both[:1], "alone"))
    assert done.returncode == 0, done.stderr
    *_, last = map(json.loads, done.stdout.splitlines())
    first, other, third = last["hosts"]
    assert [one["host"] for one in last["hosts"]] == place.removesuffix("/copy").split(",")
    assert first["bytes"] + other["bytes"] == 20 * MIB + 77 and third["bytes"] == 0
    assert min(first["bytes"], other["bytes"]) > 0
    assert (first["lost_at"], first["lost_why"], other["lost_at"]) == (None, None, None)
    assert before <= datetime.fromisoformat(third["lost_at"]) <= after
    assert "cannot connect" in third["lost_why"]
    a_size, a_time = r"[\d.]+ MB", r"\d\d:\d\d:\d\d"
    names = [re.escape(one) for one in place.removesuffix("/copy").split(",")]
    shares = f"; {names[0]} took {a_size}, {names[1]} took {a_size}, {names[2]} took 0 B"
    assert re.search(rf"{shares} \(lost at {a_time}\)", said), said
    assert all("hosts" not in json.loads(line) for line in alone.stdout.splitlines())


def test_a_client_that_may_not_store_at_the_other_receiver_does_without(world, tmp_path):
    keys = tmp_path / "keys"
    keys_init(keys)
    keys_issue(keys, tmp_path / "dtn7", "dtn7", False)
    log = Log()
    with (
        Server([world.root], listen="127.0.0.1:0", keys=keys) as first,
        Server(
            [world.root],
            listen="127.0.0.1:0",
            keys=keys,
            rights=[Grant("dtn7", True)],
            on_entry=log,
        ) as other,
    ):
        notice = told_and_finished(world, together([first, other]), keys=tmp_path / "dtn7")
        until(lambda: log.of("assist"))
    assert "read-only" in notice
    assert log.of("assist")[0]["outcome"] == "failed"


def test_an_older_receiver_beside_the_first_is_told_and_done_without(world):
    with peer.Listener() as older, servers(world.root) as first:
        place = together(first).replace("/copy", f",{older.place}/copy")
        transfer = begun(world, place, rate=PAUSED)
        with contextlib.suppress(EOFError, OSError):
            older.accept(version=4)
        (notice,) = until(transfer.take_notices)
        assert finish(transfer) == []
        assert transfer.progress().hosts[1].why in notice
    assert world.is_whole
    assert "cannot do several receivers: its weir serve is older than that" in notice


def test_an_older_first_receiver_is_used_alone_and_heard_nothing_new(world):
    world.source.write_bytes(b"small")
    with peer.Listener() as older:
        place = f"{older.place},127.0.0.1:{free_port()}/copy"
        transfer = begun(world, place)
        with older.accept(version=4) as there:
            there.hear(peer.OFFER)
            there.say(peer.answers(peer.missing(0, (0, 1))))
            peer.take(there.data, 32 + 5 + 40)
            digest = peer.blake3(b"small").digest()
            there.say(peer.message(peer.COMMITTED, peer.listed([bytes(8) + digest])))
            heard = set()
            while peer.FINISH not in heard:
                heard.add(peer.hear(there.control)[0])
            there.say(peer.message(peer.FINISHED))
            notices = finish(transfer)
    assert transfer.progress().hosts[1].why in notices
    assert not heard & {peer.LEND, peer.WRITTEN, peer.TAKE_BACK}
    assert len(notices) == 1
    assert "it speaks version 4 of the protocol" in notices[0]


@pytest.mark.parametrize(("place", "choices", "why"), IMPOSSIBLE)
def test_receivers_that_cannot_be_are_refused_before_anything_is_sent(world, place, choices, why):
    with pytest.raises(BadInput, match=why):
        Transfer.send([world.source], place, keys=None, **choices)


def test_the_command_sends_to_several(world):
    with servers(world.root, world.root) as both:
        done = weir("send", "--insecure", "--json", world.source, together(both))
    assert done.returncode == 0, done.stderr
    assert [json.loads(line)["event"] for line in done.stdout.splitlines()][-1] == "done"
    assert world.is_whole
    for option in ("--cca", "--streams"):
        refused = weir("send", "--insecure", option, "auto", world.source, together(both))
        assert refused.returncode == 2 and "one path is measured" in refused.stderr


# What follows speaks the protocol by itself: a client with an account at both receivers.

LAST = b"the last and short chunk"
SIZE = MIB + len(LAST)


IV = (
    *(0x6A09E667, 0xBB67AE85, 0x3C6EF372, 0xA54FF53A),
    *(0x510E527F, 0x9B05688C, 0x1F83D9AB, 0x5BE0CD19),
)


def chaining_value(data: bytes, place: int) -> bytes:
    """The BLAKE3 chaining value of what stands at `place` of a file of which it is not all.

    From section 2 of the BLAKE3 paper; blake3's own Python package has roots only.
    """
    if len(data) > 1024:
        half = 1024 << ((len(data) - 1) // 1024).bit_length() - 1
        left, right = data[:half], data[half:]
        both = chaining_value(left, place) + chaining_value(right, place + half)
        return compressed(IV, both, 0, 4)
    value = struct.pack("<8I", *IV)
    for start in range(0, len(data), 64):
        flags = (start == 0) | 2 * (start + 64 >= len(data))
        block = data[start : start + 64]
        value = compressed(struct.unpack("<8I", value), block, place // 1024, flags)
    return value


def compressed(value, data: bytes, counter: int, flags: int) -> bytes:
    """The compression function, cut to what is chained."""
    order = [2, 6, 3, 10, 7, 0, 4, 13, 1, 11, 12, 5, 9, 14, 15, 8]
    words = list(struct.unpack("<16I", data.ljust(64, b"\0")))
    state = [*value, *IV[:4], counter & 0xFFFFFFFF, counter >> 32, len(data), flags]

    def turn(value, bits):
        return (value >> bits | value << (32 - bits)) & 0xFFFFFFFF

    def mix(a, b, c, d, first, second):
        for word, bits in ((first, (16, 12)), (second, (8, 7))):
            state[a] = (state[a] + state[b] + word) & 0xFFFFFFFF
            state[d] = turn(state[d] ^ state[a], bits[0])
            state[c] = (state[c] + state[d]) & 0xFFFFFFFF
            state[b] = turn(state[b] ^ state[c], bits[1])

    columns = [(n, 4 + n, 8 + n, 12 + n) for n in range(4)]
    diagonals = [(n, 4 + (n + 1) % 4, 8 + (n + 2) % 4, 12 + (n + 3) % 4) for n in range(4)]
    for _ in range(7):
        for number, place_of in enumerate(columns + diagonals):
            mix(*place_of, words[2 * number], words[2 * number + 1])
        words = [words[index] for index in order]
    return struct.pack("<8I", *(state[n] ^ state[n + 8] for n in range(8)))


@pytest.fixture
def pair(world):
    with servers(world.root, world.root) as both, contextlib.ExitStack() as opened:
        yield Pair(world, [server.address for server in both], opened)


class Pair:
    """The first receiver with a file in progress, and another one that is asked to assist."""

    def __init__(self, world, addresses, opened) -> None:
        self.world, self.opened = world, opened
        self.first = opened.enter_context(peer.greeted(addresses[0], version=5))
        self.addresses = addresses
        self.first.say(peer.put_request(b"in/"))
        self.first.hear(peer.READY)
        self.first.say(peer.message(peer.BEGIN, b"\0"))
        self.helper = self.assisting()
        self.part = None

    def assisting(self, destination=b"in/"):
        helper = self.opened.enter_context(peer.greeted(self.addresses[1], version=5))
        helper.say(peer.message(peer.ASSIST, peer.text(destination) + peer.options()))
        helper.hear(peer.READY)
        return helper

    def offer(self, number, name, size=SIZE, sparse=0):
        self.first.say(peer.offer(number, peer.entry(name, size, sparse=sparse)))
        assert self.first.hear(peer.ANSWERS)[1][4:12] == struct.pack(">Q", number)
        self.part = next((self.world.root / "in").rglob("*.part"))

    def lend(self, number, helper=0):
        """The lease of a file, or None."""
        self.first.say(peer.message(peer.LEND, struct.pack(">QB", number, helper)))
        _, body = self.first.hear(peer.LENT)
        assert body[:9] == struct.pack(">QB", number, helper)
        return body[11:] if body[10] else None

    def show(self, number, name, lease, *, helper=0, size=SIZE, sparse=0, at=None):
        """What the helper makes of a lease: true if it opened the file, or why not."""
        body = struct.pack(">QB", number, helper) + peer.text(name)
        at = at or self.helper
        at.say(peer.message(peer.LEASE, body + struct.pack(">QBB", size, sparse, 0) + lease))
        kind, body = at.hear(peer.OPENED, peer.FILE_FAILED)
        return kind == peer.OPENED or body[11:].decode()

    def last(self, number=0, content=LAST, digest=None):
        """The frame of the last chunk."""
        digest = digest or chaining_value(LAST, MIB)
        return peer.chunk(number, content, MIB, digest)

    def ready(self):
        """The file is lent and the helper has it open."""
        self.offer(0, b"f")
        assert self.show(0, b"f", self.lend(0)) is True

    def refused(self):
        """Why the helper has not written the chunk that it was sent."""
        kind, body = self.helper.hear(peer.FILE_FAILED, peer.STORED)
        assert kind == peer.FILE_FAILED, "it was written"
        return body[8], body[11:].decode()

    def written(self, number=0, chunk=1, digest=None):
        """Says to the first receiver that a chunk was written."""
        digest = digest or chaining_value(LAST, MIB)
        one = struct.pack(">Q", chunk) + digest
        self.first.say(peer.message(peer.WRITTEN, struct.pack(">Q", number) + peer.listed([one])))

    def unseen(self):
        """What the first receiver does not see of what it was told; nothing else counts."""
        for _ in range(peer.PATIENCE_S):
            kind, body = self.first.hear(peer.UNSEEN, peer.PROGRESS)
            if kind == peer.UNSEEN:
                return body
            assert struct.unpack(">QQ", body)[1] == 0, "it was believed"
        raise AssertionError("it says nothing of it")


def ends(there):
    """Whether the session ends, with what the receiver says last."""
    with contextlib.suppress(EOFError, ConnectionError):
        while True:
            kind, body = peer.hear(there.control)
            if kind == peer.FAILURE:
                return body[3:].decode()
    return ""


def test_a_chunk_is_written_by_one_and_counted_by_the_other(pair):
    pair.ready()
    pair.helper.data.sendall(pair.last())
    _, body = pair.helper.hear(peer.STORED)
    assert body == struct.pack(">QIQ", 0, 1, 1)
    assert pair.part.read_bytes()[MIB:] == LAST
    pair.written()
    until(lambda: struct.unpack(">QQ", pair.first.hear(peer.PROGRESS)[1])[1] == len(LAST))
    # The first chunk is zeros, of which nothing need be sent.
    pair.first.data.sendall(peer.header(2, 0, 0, MIB))
    pair.first.hear(peer.RECEIVED)
    began = time.monotonic()
    pair.first.say(peer.message(peer.TAKE_BACK, struct.pack(">QBB", 0, 0, 1)))
    pair.first.say(peer.message(peer.COMMIT, struct.pack(">QB", 0, 0)))
    _, body = pair.first.hear(peer.COMMITTED)
    assert time.monotonic() - began < GRACE_S, "it was returned clean"
    content = (pair.world.root / "in" / "f").read_bytes()
    assert content == bytes(MIB) + LAST and body[12:] == peer.blake3(content).digest()
    assert leftovers(pair.world.root) == []


def test_a_forged_lease_opens_nothing(pair):
    pair.offer(0, b"f")
    lease = pair.lend(0)
    for wrong in (secrets.token_bytes(32), bytes(32), bytes([lease[0] ^ 1]) + lease[1:]):
        assert "no lease for it holds here" in pair.show(0, b"f", wrong)
    assert "no lease" in pair.show(0, b"f", lease, helper=1), "it is another's"
    assert "no lease" in pair.show(0, b"f", lease, size=2 * SIZE), "the size is another"
    pair.helper.data.sendall(pair.last() + peer.END)
    pair.helper.say(peer.message(peer.FINISH))
    pair.helper.hear(peer.FINISHED)
    assert pair.part.stat().st_size == 0
    assert pair.show(0, b"f", lease, at=pair.assisting()) is True


def test_a_lease_of_another_transfer_opens_nothing(pair):
    pair.offer(0, b"f")
    first = pair.lend(0)
    pair.offer(1, b"g")
    second = pair.lend(1)
    assert "no lease" in pair.show(0, b"f", second)
    assert "no lease" in pair.show(1, b"g", first)
    assert "No such file" in pair.show(2, b"never offered", first)
    assert pair.show(1, b"g", second) is True


@pytest.mark.parametrize(
    "name", [b".weir-0123456789abcdef.part", b"d/.weir-0123456789abcdef.lease"]
)
def test_what_is_in_progress_has_no_other_name(pair, name):
    pair.offer(0, b"f")
    assert "is no name that a file may have" in pair.show(0, name, pair.lend(0))


def test_no_link_is_followed(pair):
    pair.offer(0, b"d/f")
    lease = pair.lend(0)
    (pair.world.root / "in" / "e").symlink_to("d")
    assert "nobody has lent here" in pair.show(0, b"e/f", lease)
    assert pair.show(0, b"d/f", lease) is True
    (part,) = (pair.world.root / "in" / "d").glob("*.part")
    victim = pair.world.path / "victim"
    victim.write_text("untouched")
    part.rename(part.with_name("aside"))
    part.symlink_to(victim)
    assert "nobody has lent here" in pair.show(1, b"d/f", lease)
    part.unlink()
    part.hardlink_to(victim)
    assert "nobody has lent here" in pair.show(1, b"d/f", lease)
    assert victim.read_text() == "untouched"


@pytest.mark.parametrize(
    "frame",
    [
        peer.chunk(0, bytes(MIB), 7 * MIB),
        peer.chunk(0, LAST + b"more", MIB),
        peer.chunk(0, LAST[:-1], MIB),
        peer.chunk(0, LAST, 2**62),
        peer.header(2, 0, 0, MIB),
    ],
    ids=["past the end", "too long", "too short", "far out", "hole"],
)
def test_what_is_no_chunk_of_the_file_ends_the_session(pair, frame):
    pair.ready()
    pair.helper.data.sendall(frame)
    why = "zeros are no business" if frame[0] == 2 else "no chunk of the file"
    assert why in ends(pair.helper)
    assert pair.part.stat().st_size == 0


def test_a_chunk_that_comes_twice_ends_the_session(pair):
    pair.ready()
    pair.helper.data.sendall(pair.last() * 2)
    assert "came before" in ends(pair.helper)


def test_content_that_is_not_the_hash_s_is_not_written(pair):
    pair.ready()
    pair.helper.data.sendall(pair.last(content=LAST.swapcase()))
    code, why = pair.refused()
    assert code == 5 and "does not match its hash" in why
    assert pair.part.stat().st_size == 0


def test_nothing_is_written_after_a_lease_was_taken_back(pair):
    pair.ready()
    pair.first.say(peer.message(peer.TAKE_BACK, struct.pack(">QBB", 0, 0, 1)))
    lease = pair.lend(0, helper=1)
    pair.helper.data.sendall(pair.last())
    assert "no lease for it holds here" in pair.refused()[1]
    assert pair.part.stat().st_size == 0
    assert pair.show(0, b"f", lease, helper=1) is True, "the other's holds"


def test_nothing_is_written_to_a_file_that_has_its_name(pair):
    """Its helper was never heard of again, and a second one comes too late."""
    pair.ready()
    lease = pair.lend(0, helper=1)
    late = pair.assisting()
    content = os.urandom(MIB)
    pair.first.data.sendall(peer.header(2, 0, 0, MIB))
    pair.first.data.sendall(pair.last())
    pair.first.hear(peer.RECEIVED)
    began = time.monotonic()
    pair.first.say(peer.message(peer.COMMIT, struct.pack(">QB", 0, 0)))
    pair.first.hear(peer.COMMITTED)
    assert time.monotonic() - began > GRACE_S - 0.1, "those that hold a lease were waited for"
    final = pair.world.root / "in" / "f"
    final.write_bytes(content)
    pair.helper.data.sendall(pair.last())
    assert "cannot write" in pair.refused()[1]
    assert "No such file" in pair.show(0, b"f", lease, helper=1, at=late)
    assert pair.lend(0) is None
    assert final.read_bytes() == content and leftovers(pair.world.root) == []


def test_the_word_of_another_counts_for_nothing(pair):
    """What is said to be written and is not, or is other content, is asked for again."""
    pair.ready()
    for digest in (None, bytes(32)):
        pair.written(digest=digest)
        assert pair.unseen() == struct.pack(">QIQ", 0, 1, 1)
    pair.helper.data.sendall(pair.last())
    pair.helper.hear(peer.STORED)
    pair.written(digest=bytes(32))
    assert pair.unseen() == struct.pack(">QIQ", 0, 1, 1)
    pair.first.say(peer.message(peer.COMMIT, struct.pack(">QB", 0, 0)))
    _, body = pair.first.hear(peer.FILE_FAILED)
    assert b"before all of it arrived" in body


def test_a_chunk_past_the_end_that_is_said_to_be_written_ends_the_session(pair):
    pair.ready()
    pair.written(chunk=2**63)
    assert "past the end" in ends(pair.first)


def test_what_is_said_to_be_written_takes_no_memory_without_end(pair):
    """Looking for a chunk takes longer than saying that it is there."""
    pair.ready()
    chunks = peer.listed([struct.pack(">Q32s", 0, bytes(32))] * 8192)
    word = peer.message(peer.WRITTEN, struct.pack(">Q", 0) + chunks)
    with pytest.raises(ConnectionError):
        for _ in range(600):
            pair.first.say(word)


@pytest.mark.parametrize("kind", [peer.LEND, peer.WRITTEN, peer.TAKE_BACK, peer.ASSIST])
def test_a_peer_of_version_4_has_nothing_to_lend(pair, kind):
    with peer.greeted(pair.addresses[0], version=4) as older:
        if kind == peer.ASSIST:
            older.say(peer.message(kind, peer.text(b"in/") + peer.options()))
        else:
            older.say(peer.put_request(b"in/"), peer.message(peer.BEGIN, b"\0"))
            older.hear(peer.READY)
            bodies = {peer.LEND: bytes(9), peer.WRITTEN: bytes(12), peer.TAKE_BACK: bytes(10)}
            older.say(peer.message(kind, bodies[kind]))
        assert ends(older)


def test_what_was_never_offered_is_not_lent(pair):
    pair.offer(0, b"f")
    assert pair.lend(77) is None


@pytest.mark.parametrize("left", [False, True], ids=["nothing there", "something left there"])
def test_zeros_of_a_sparse_file_stay_holes_where_nothing_else_was(pair, left):
    """An earlier attempt may have left other content, of which nothing is to show."""
    size = MIB + 8192
    pair.offer(0, b"f", size, sparse=1)
    lease = pair.lend(0)
    if left:
        pair.part.write_bytes(bytes(MIB) + os.urandom(8192))
    assert pair.show(0, b"f", lease, size=size, sparse=1) is True
    content = b"x" * 4096 + bytes(4096)
    digest = chaining_value(content, MIB)
    pair.helper.data.sendall(peer.chunk(0, content, MIB, digest))
    pair.helper.hear(peer.STORED)
    pair.written(digest=digest)
    until(lambda: struct.unpack(">QQ", pair.first.hear(peer.PROGRESS)[1])[1] == 8192)
    assert pair.part.read_bytes() == bytes(MIB) + content
    assert data_and_holes(pair.part) == [(0, size) if left else (MIB, MIB + 4096)]


def test_a_hole_is_no_chunk_of_another_receiver(pair):
    """That of a sparse file neither: it is the first one's to tell."""
    pair.offer(0, b"f", sparse=1)
    assert pair.show(0, b"f", pair.lend(0), sparse=1) is True
    pair.helper.data.sendall(peer.header(2, 0, 0, MIB))
    assert "zeros are no business" in ends(pair.helper)
