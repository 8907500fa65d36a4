"""A resumed file is the source's content and nobody else's, whatever earlier attempts left."""

import os
import struct

import peer
import pytest
from transfer_world import leftovers, poll

from weir import Rate, Time
from weir.transfer import Server, Transfer

MIB = 2**20
TIME_NS = 1_600_000_000_123_456_789
# It is not over before it is cut, however late that is.
SLOW = Rate("40 Mbit/s")
# The server may take its time to see that the first one has gone.
PATIENT = {"retry": Time("60 s")}


@pytest.fixture
def world(tmp_path):
    (tmp_path / "root").mkdir()
    (tmp_path / "here").mkdir()
    return tmp_path


def content(path, letter, size=16 * MIB):
    """A file of one letter whose size and time tell nothing of it."""
    path.write_bytes(letter * size)
    os.utime(path, ns=(TIME_NS, TIME_NS))
    return path


def transfers(server, way, source, target, hashing):
    """Makes transfers of one file, over and over, with what else is chosen."""
    place = "{}:{}/copy".format(*server.address)

    def transfer(**choices):
        choices |= {"keys": None, "hash": hashing}
        if way == "send":
            return Transfer.send([source], place, **choices)
        return Transfer.get([place], target, **choices)

    return transfer


def cut_after(transfer, least):
    transfer.start()
    poll(lambda: transfer.progress().bytes_durable.count > least)
    transfer.cancel()
    poll(lambda: transfer.is_over)


@pytest.mark.parametrize("hashing", ["blake3", "none"])
@pytest.mark.parametrize("way", ["send", "get"])
def test_old_and_new_content_of_one_size_and_time_are_never_mixed(world, way, hashing):
    source = world / ("source" if way == "send" else "root/copy")
    target = world / ("root/copy" if way == "send" else "here/copy")
    with Server([world / "root"], listen="127.0.0.1:0", keys=None) as server:
        transfer = transfers(server, way, source, target, hashing)
        content(source, b"A")
        cut_after(transfer(rate=SLOW), 2 * MIB)
        content(source, b"B")
        second = transfer(**PATIENT)
        second.start()
        second.wait()
        assert any("sent anew" in notice for notice in second.take_notices()) or way == "get"
        progress = second.progress()
        assert progress.bytes_done == progress.bytes_total == progress.bytes_durable
        assert progress.bytes_resumed.count == 0
    assert target.read_bytes() == source.read_bytes()
    assert leftovers(world) == []


@pytest.mark.parametrize("way", ["send", "get"])
def test_an_unchanged_source_is_resumed_and_confirmed(world, way):
    """The oracle of the hash is the blake3 package."""
    from blake3 import blake3

    source = world / ("source" if way == "send" else "root/copy")
    target = world / ("root/copy" if way == "send" else "here/copy")
    source.write_bytes(os.urandom(16 * MIB + 77))
    with Server([world / "root"], listen="127.0.0.1:0", keys=None) as server:
        place = "{}:{}/copy".format(*server.address)

        def transfer(**choices):
            if way == "send":
                return Transfer.send([source], place, keys=None, **choices)
            return Transfer.get([place], target, keys=None, **choices)

        cut_after(transfer(rate=SLOW), 2 * MIB)
        second = transfer(**PATIENT)
        second.start()
        second.wait()
        assert second.progress().bytes_resumed.count >= 2 * MIB
        (settled,) = second.take_settled()
        assert settled.hash == blake3(source.read_bytes()).hexdigest()
    assert target.read_bytes() == source.read_bytes()


@pytest.mark.parametrize("hashing", ["blake3", "none"])
@pytest.mark.parametrize("way", ["send", "get"])
@pytest.mark.parametrize("hole", ["begin", "middle", "end"])
def test_a_file_with_a_hole_is_resumed_wherever_the_hole_is(world, way, hashing, hole):
    """The oracle is the content as it was written."""
    source = world / ("source" if way == "send" else "root/copy")
    target = world / ("root/copy" if way == "send" else "here/copy")
    data = os.urandom(8 * MIB)
    pieces = {"begin": [(4, data)], "middle": [(0, data), (12, data)], "end": [(0, data)]}[hole]
    with source.open("wb") as file:
        for at, piece in pieces:
            file.seek(at * MIB)
            file.write(piece)
        file.truncate(20 * MIB if hole == "end" else file.tell())
    with Server([world / "root"], listen="127.0.0.1:0", keys=None) as server:
        transfer = transfers(server, way, source, target, hashing)
        cut_after(transfer(rate=SLOW), 2 * MIB)
        second = transfer(**PATIENT)
        second.start()
        second.wait()
    assert target.read_bytes() == source.read_bytes()
    assert leftovers(world) == []


def test_what_a_sender_of_version_1_cannot_confirm_is_not_resumed(world):
    """Nothing of it is asked for again but all, so that no mixture is possible."""
    size = 3 * MIB
    with Server([world / "root"], listen="127.0.0.1:0", keys=None) as server:
        for letter in (b"A", b"B"):
            data = letter * size
            with peer.put(server.address, b"copy", hashing=0) as client:
                entry = peer.entry(b"copy", size, mtime_ns=TIME_NS)
                client.say(peer.message(peer.BEGIN, b"\1"), peer.offer(0, entry))
                _, body = client.hear(peer.ANSWERS)
                assert struct.unpack(">IQBIQQ", body) == (1, 0, 1, 1, 0, 3)
                if letter == b"A":
                    client.data.sendall(peer.chunk(0, data[:MIB], 0, bytes(32)))
                    poll(lambda: chunks_here(world / "root") == 1)
                    continue
                for offset in range(0, size, MIB):
                    piece = data[offset : offset + MIB]
                    client.data.sendall(peer.chunk(0, piece, offset, bytes(32)))
                client.hear(peer.RECEIVED)
                client.say(peer.message(peer.COMMIT, struct.pack(">QB", 0, 0)))
                client.data.sendall(peer.END)
                client.say(peer.message(peer.FINISH))
                client.hear(peer.FINISHED)
    assert (world / "root" / "copy").read_bytes() == data


def chunks_here(root):
    sizes = [path.stat().st_size for path in root.glob(".weir-*.journal")]
    return (sizes[0] - 64) // 48 if sizes else 0
