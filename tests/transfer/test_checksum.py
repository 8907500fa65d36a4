"""`--checksum`: what is there is the same by its content, and by nothing else.

The oracles are the bytes, the file system's own numbers and the blake3 package.
"""

import os
import shutil
import stat
import struct
from pathlib import Path

import peer
import pytest
from blake3 import blake3
from transfer_world import flip, leftovers, poll, weir

from weir.errors import Refused
from weir.transfer import Server, Transfer

MIB = 2**20
SIZES = (0, 1, 5000, MIB - 1, MIB, MIB + 1, 3 * MIB + 5)
TIME_NS = 1_600_000_000_123_456_789
ALIKE, CONTENT = 2, 47
CHANGED = 4


class World:
    """The same tree at a source and at a destination, one of them served."""

    def __init__(self, folder: Path, way: str) -> None:
        self.way = way
        self.source, self.target = folder / "source", folder / "target"
        self.source.mkdir()
        (self.source / "deep").mkdir()
        for size in SIZES:
            for place in (self.source, self.source / "deep"):
                (place / f"of-{size}").write_bytes(os.urandom(size))
        shutil.copytree(self.source, self.target)

    def served(self) -> Server:
        served = self.target if self.way == "send" else self.source
        return Server([served], listen="127.0.0.1:0", keys=None)

    def move(self, **choices) -> Transfer:
        """Carries a transfer out, of the source's content."""
        with self.served() as server:
            place = "{}:{}/".format(*server.address)
            if self.way == "send":
                transfer = Transfer.send([f"{self.source}/"], place, keys=None, **choices)
            else:
                transfer = Transfer.get([place], self.target, keys=None, **choices)
            transfer.start()
            transfer.wait()
            return transfer

    def facts(self) -> dict:
        """Each file's identity in the file system, its mode and its time."""
        files = [path for path in self.target.rglob("*") if path.is_file()]
        stats = {path.relative_to(self.target): path.stat() for path in files}
        return {
            path: (info.st_ino, stat.S_IMODE(info.st_mode), info.st_mtime_ns)
            for path, info in stats.items()
        }

    def differing(self) -> list[Path]:
        """The files that differ in content."""
        return [
            path
            for path in self.facts()
            if (self.source / path).read_bytes() != (self.target / path).read_bytes()
        ]


@pytest.fixture(params=["send", "get"])
def world(tmp_path, request):
    return World(tmp_path, request.param)


@pytest.mark.parametrize("hashing", ["blake3", "none"])
def test_other_content_of_equal_size_and_time_is_found_and_nothing_else_moves(world, hashing):
    damaged = [f"of-{size}" for size in SIZES if size] + ["deep/of-5000"]
    for name in damaged:
        flip(world.target / name, (world.target / name).stat().st_size // 2)
    before = world.facts()
    world.move(hash=hashing)
    assert world.facts() == before and len(world.differing()) == len(damaged)
    done = world.move(checksum=True, hash=hashing)
    assert world.differing() == [] and leftovers(world.target) == []
    kept = {path for path, facts in world.facts().items() if facts[0] == before[path][0]}
    assert kept == set(before) - {Path(name) for name in damaged}
    settled = {os.fsdecode(file.path): file for file in done.take_settled()}
    assert {name for name, file in settled.items() if not file.already_there} == set(damaged)
    # What was compared has a hash, as what was sent has.
    for name, file in settled.items():
        if file.already_there or hashing == "blake3":
            assert file.hash == blake3((world.source / name).read_bytes()).hexdigest()


def test_equal_content_is_not_sent_but_gets_its_time_and_mode(world):
    for path in world.facts():
        os.utime(world.target / path, (1, 1))
        (world.target / path).chmod(0o600)
        (world.source / path).chmod(0o640)
    before = world.facts()
    progress = world.move(checksum=True).progress()
    assert progress.bytes_resumed == progress.bytes_durable == progress.bytes_total
    for path, (inode, mode, modified_ns) in world.facts().items():
        assert inode == before[path][0] and mode == 0o640
        assert modified_ns == (world.source / path).stat().st_mtime_ns


def test_without_it_equal_content_of_another_time_is_sent(world):
    """So the test above can fail."""
    name = Path("of-5000")
    os.utime(world.target / name, (1, 1))
    before = world.facts()[name]
    world.move()
    assert world.facts()[name] != before


def served_file(tmp_path, serve, size):
    """A server with one file, and how much it has read."""
    root = tmp_path / "root"
    root.mkdir()
    there = root / "f"
    there.write_bytes(os.urandom(size))
    os.utime(there, ns=(TIME_NS, TIME_NS))
    server = serve("--root", root, "--insecure")
    host, port = server.listen.rsplit(":", 1)

    def has_read() -> int:
        text = Path(f"/proc/{server.process.pid}/io").read_text()
        return int(text.partition("rchar: ")[2].split()[0])

    return there, (host, int(port)), has_read


def with_demands(bits: int) -> bytes:
    plain = peer.options()
    return plain[:1] + bytes([bits]) + plain[2:]


@pytest.mark.parametrize("size", [MIB, 2 * MIB])
@pytest.mark.parametrize("changed", [False, True])
def test_what_changes_after_it_was_hashed_is_not_taken_for_the_same(tmp_path, serve, size, changed):
    """The sender tells the hash of what the receiver had, once the receiver has other content."""
    there, address, has_read = served_file(tmp_path, serve, size)
    before = there.read_bytes()
    request = peer.message(peer.PUT, peer.text(b"f") + with_demands(2))
    with peer.client(address, request) as client:
        read = has_read()
        client.say(peer.message(peer.BEGIN, b"\1"), peer.offer(0, peer.entry(b"f", size)))
        _, body = client.hear(peer.ANSWERS)
        assert body == struct.pack(">IQB", 1, 0, ALIKE)
        poll(lambda: has_read() >= read + size)
        if changed:
            flip(there, size - 1)
        digest = blake3(before).digest()
        client.say(peer.message(CONTENT, struct.pack(">Q", 0) + digest))
        _, body = client.hear(peer.ANSWERS)
    missing = struct.pack(">IQBIQQ", 1, 0, 1, 1, 0, size // MIB)
    assert body == (missing if changed else struct.pack(">IQB", 1, 0, 0))
    assert (there.stat().st_mtime_ns == peer.MTIME_NS) != changed


def test_a_source_that_changes_before_it_is_hashed_fails(tmp_path, serve):
    there, address, _ = served_file(tmp_path, serve, 5000)
    with peer.get(address, b"f") as client:
        _, body = client.hear(peer.OFFER)
        flip(there, 7)
        client.say(peer.message(peer.ANSWERS, struct.pack(">IQB", 1, 0, ALIKE)))
        kind, body = client.hear(CONTENT, peer.FILE_FAILED)
    assert (kind, body[8]) == (peer.FILE_FAILED, CHANGED)


@pytest.mark.parametrize("option", ["checksum", "read_back"])
@pytest.mark.parametrize("way", ["send", "get"])
def test_a_server_of_version_1_is_not_asked_for_what_it_cannot_do(tmp_path, way, option):
    (tmp_path / "f").write_text("content")
    with peer.Listener() as listener:
        place = f"{listener.place}/f"
        if way == "send":
            transfer = Transfer.send([tmp_path / "f"], place, keys=None, **{option: True})
        else:
            target = tmp_path / "got"
            transfer = Transfer.get([place], target, keys=None, **{option: True})
        transfer.start()
        if (way, option) == ("get", "read_back"):
            # That is done here.
            with listener.accept() as server:
                server.say(peer.message(peer.BEGIN, b"\1"), peer.offer(0, peer.entry(b"f", 7)))
                server.hear(peer.ANSWERS)
                server.data.sendall(peer.chunk(0, b"content") + peer.END)
                server.say(peer.message(peer.FINISH))
                server.hear(peer.FINISHED)
                transfer.wait()
            assert target.read_text() == "content"
            return
        with pytest.raises(EOFError), listener.accept():
            pass
        named = f"--{option}".replace("_", "-")
        with pytest.raises(Refused, match=f"cannot do {named}: its weir serve is older"):
            transfer.wait()


def test_the_commands_take_both_options(serve, world, tmp_path):
    flip(world.target / "of-1", 0)
    served = world.target if world.way == "send" else world.source
    address = serve("--root", served, "--insecure").listen
    places = [f"{world.source}/", f"{address}/"]
    if world.way == "get":
        places = [f"{address}/", world.target]
    options = ("--checksum", "--read-back", "--hashes", "--insecure")
    done = weir(world.way, *places, *options)
    assert done.returncode == 0, done.stderr
    assert world.differing() == []
    told = dict(line.split("  ")[::-1] for line in done.stdout.splitlines())
    wanted = {str(path): blake3((world.source / path).read_bytes()) for path in world.facts()}
    assert told == {path: hash.hexdigest() for path, hash in wanted.items()}
