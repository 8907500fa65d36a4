"""Holes that are told in a few bytes cost the server little that others want."""

import os
import threading
from pathlib import Path

import peer
import pytest
from blake3 import blake3
from transfer_world import poll, weir

MIB = 2**20
TIB = 2**40
HOLE = 64 * MIB
HUMBLE = min(19, os.getpriority(os.PRIO_PROCESS, 0) + 10)
TICK_S = 1 / os.sysconf("SC_CLK_TCK")


@pytest.fixture
def world(tmp_path):
    (tmp_path / "root").mkdir()
    return tmp_path


def tasks(server):
    """The nice value of each thread of the server, and the processor time that it took."""
    told = {}
    for task in Path(f"/proc/{server.process.pid}/task").iterdir():
        try:
            fields = (task / "stat").read_text().rsplit(")", 1)[1].split()
        except OSError:
            continue
        told[task.name] = int(fields[16]), (int(fields[11]) + int(fields[12])) * TICK_S
    return told


def humble(server):
    return sum(nice == HUMBLE for nice, _ in tasks(server).values())


def processor_s(server):
    fields = Path(f"/proc/{server.process.pid}/stat").read_text().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) * TICK_S


class Hostile:
    """Offers 16 TiB of nothing and tells as many holes as the connection takes."""

    def __init__(self, server) -> None:
        host, port = server.listen.rsplit(":", 1)
        self.session = peer.put((host, int(port)), b"in/")
        self.session.say(peer.message(peer.BEGIN, b"\0"))
        name = os.urandom(4).hex().encode()
        self.session.say(peer.offer(0, peer.entry(name, 16 * TIB, sparse=1)))
        self.session.hear(peer.ANSWERS)
        self.sent = 0
        self._thread = threading.Thread(target=self._tell, daemon=True)
        self._thread.start()

    def _tell(self) -> None:
        offset = 0
        try:
            while offset < 16 * TIB:
                holes = [peer.header(2, 0, offset + n * HOLE, HOLE) for n in range(64)]
                self.session.data.sendall(b"".join(holes))
                self.sent += 64 * 32
                offset += 64 * HOLE
        except OSError:
            return  # The connection is full for good, or was closed.

    def leave(self) -> None:
        self.session.close()
        self._thread.join(timeout=60)


def test_hashing_what_was_not_sent_waits_for_everybody_else(serve, world):
    server = serve("--root", world / "root", "--insecure")
    at_first = humble(server)
    hostile = [Hostile(server) for _ in range(3)]
    poll(lambda: humble(server) == at_first + 3, 240)
    before = tasks(server)

    def worked(is_humble):
        return sum(
            spent - before.get(task, (0, 0.0))[1]
            for task, (nice, spent) in tasks(server).items()
            if (nice == HUMBLE) == is_humble
        )

    # Three connections have kept a processor busy for a while: with a low claim on it.
    poll(lambda: worked(is_humble=True) > 0.3, 240)
    assert worked(is_humble=False) < 0.5
    (world / "f").write_bytes(os.urandom(5 * MIB))
    done = weir("send", world / "f", f"{server.listen}/f", "--insecure")
    assert done.returncode == 0, done.stderr
    for one in hostile:
        one.leave()


def test_work_for_a_peer_ends_with_its_session(serve, world):
    """Megabytes of frames have arrived by then, each of which stands for 64 MiB to be hashed."""
    server = serve("--root", world / "root", "--insecure")
    at_first = humble(server)
    hostile = Hostile(server)
    poll(lambda: hostile.sent > 100_000 and processor_s(server) > 0.5, 60)
    hostile.leave()
    poll(lambda: humble(server) == at_first, 120)
    left = processor_s(server)
    (world / "f").write_bytes(b"x")
    done = weir("send", world / "f", f"{server.listen}/f", "--insecure")
    assert done.returncode == 0, done.stderr
    assert processor_s(server) - left < 1


@pytest.mark.parametrize("hashing", ["blake3", "none"])
def test_a_sparse_file_arrives_with_its_hash_however_little_was_sent(serve, world, hashing):
    """More zeros for a few bytes than are hashed at the usual priority."""
    server = serve("--root", world / "root", "--insecure")
    size, tail = 1100 * MIB, b"the end"
    with (world / "sparse").open("wb") as file:
        file.write(b"the beginning")
        file.truncate(size - len(tail))
        file.seek(0, os.SEEK_END)
        file.write(tail)
    place = f"{server.listen}/sparse"
    done = weir("send", world / "sparse", place, "--insecure", "--hash", hashing, "--hashes")
    assert done.returncode == 0, done.stderr
    there = world / "root" / "sparse"
    assert there.stat().st_blocks * 512 < 4 * MIB
    if hashing == "blake3":
        hasher = blake3()
        hasher.update_mmap(there)
        assert hasher.hexdigest() in done.stdout
    assert there.stat().st_size == size
