"""Files in progress: nobody else's, bounded in number, room and memory, and gone in the end."""

import contextlib
import os
import resource
import stat
import struct
import time

import peer
import pytest
from blake3 import blake3
from transfer_world import leftovers, poll, weir

from weir.errors import BadInput, TransferFailed
from weir.transfer import PAUSED, Server, Transfer

MIB = 2**20
# For so long another transfer of the same name is waited for.
TAKE_OVER_S = 3


@pytest.fixture
def world(tmp_path):
    (tmp_path / "root").mkdir()
    return tmp_path


def send(sources, place, **choices):
    transfer = Transfer.send(sources, place, keys=None, **choices)
    transfer.start()
    return transfer


def stage(name: str, suffix: str) -> str:
    """The name that a file has while it is in progress, as docs/transfer.md tells it."""
    return f".weir-{blake3(name.encode()).hexdigest()[:16]}.{suffix}"


@pytest.mark.parametrize("size", [1000, 3 * MIB])
def test_one_transfer_may_offer_a_name_twice(world, size, measured):
    for name in ("a", "b"):
        (world / name).mkdir()
        (world / name / "f").write_bytes(name.encode() * size)

    def check():
        began = time.monotonic()
        send([f"{world}/a/", f"{world}/b/"], place, streams=3).wait()
        # One that waited for the other would wait for as long as another transfer is waited for.
        assert time.monotonic() - began < TAKE_OVER_S
        assert (world / "root" / "f").read_bytes() == b"b" * size

    with Server([world / "root"], listen="127.0.0.1:0", keys=None) as server:
        place = "{}:{}/".format(*server.address)
        measured(check)
    assert leftovers(world) == []


@pytest.mark.parametrize("plant", ["writable", "hard link", "link", "fifo", "directory"])
def test_a_part_that_others_could_have_made_is_not_adopted(world, plant):
    source, part = world / "f", world / "root" / stage("f", "part")
    source.write_bytes(os.urandom(3 * MIB))
    victim = world / "victim"
    victim.write_text("untouched")
    if plant == "writable":
        part.write_text("planted")
        part.chmod(0o666)
    elif plant == "hard link":
        part.hardlink_to(victim)
    elif plant == "link":
        part.symlink_to(victim)
    elif plant == "fifo":
        os.mkfifo(part)
    else:
        part.mkdir()
    held = part.open("r+b") if plant == "writable" else contextlib.nullcontext()
    with held as planted, Server([world / "root"], listen="127.0.0.1:0", keys=None) as server:
        transfer = send([source], "{}:{}/".format(*server.address))
        if plant == "directory":
            with pytest.raises(TransferFailed, match="cannot create"):
                transfer.wait()
        else:
            transfer.wait()
            if planted:
                planted.write(b"EVIL")
                planted.flush()
            assert (world / "root" / "f").read_bytes() == source.read_bytes()
    assert victim.read_text() == "untouched"


@pytest.mark.parametrize("size", [10, 3 * MIB])
@pytest.mark.parametrize("target", ["fifo", "link to a fifo", "link to what is open"])
def test_no_special_file_is_replaced(world, size, target):
    (world / "root" / "f").write_bytes(os.urandom(size))
    place = world / "special"
    if target == "fifo":
        os.mkfifo(place)
    elif target == "link to a fifo":
        os.mkfifo(world / "behind")
        place.symlink_to("behind")
    else:
        place.symlink_to("/proc/self/fd/1")
    before = place.lstat()
    with Server([world / "root"], listen="127.0.0.1:0", keys=None) as server:
        source = "{}:{}/f".format(*server.address)
        transfer = Transfer.get([source], place, keys=None)
        transfer.start()
        with pytest.raises(TransferFailed, match="not replaced"):
            transfer.wait()
    after = place.lstat()
    assert (after.st_ino, stat.S_IFMT(after.st_mode)) == (
        before.st_ino,
        stat.S_IFMT(before.st_mode),
    )


def test_an_offer_takes_neither_room_nor_memory_and_leaves_nothing(serve, world):
    server = serve("--root", world / "root", "--insecure")
    host, port = server.listen.rsplit(":", 1)

    def resident() -> int:
        status = f"/proc/{server.process.pid}/statm"
        with open(status) as file:  # noqa: PTH123 - not a path of ours
            return int(file.read().split()[1]) * resource.getpagesize()

    before = resident()
    with peer.put((host, int(port)), b"in/") as client:
        client.say(peer.message(peer.BEGIN, b"\0"))
        for number in range(8):
            size = 2**30 if number < 4 else 2**44 - MIB
            entry = peer.entry(b"f%d" % number, size, sparse=int(number >= 4))
            client.say(peer.offer(number, entry))
            client.hear(peer.ANSWERS)
        assert resident() - before < 50 * MIB
        parts = list((world / "root" / "in").iterdir())
        assert len(parts) == 16
        assert sum(part.lstat().st_blocks for part in parts) * 512 < MIB
    poll(lambda: not leftovers(world))


def test_large_files_on_offer_wait_for_room_among_the_descriptors(serve, world):
    server = serve("--root", world / "root", "--insecure")
    host, port = server.listen.rsplit(":", 1)
    answered = set()
    with peer.put((host, int(port)), b"in/") as client:
        entries = [peer.entry(b"f%d" % number, 2 * MIB) for number in range(200)]
        client.say(peer.message(peer.BEGIN, b"\0"), peer.offer(0, *entries))
        fds = list(os.scandir(f"/proc/{server.process.pid}/fd"))
        assert len(fds) < 150
        # Each that fails makes room for the next.
        while len(answered) < 200:
            _, body = client.hear(peer.ANSWERS)
            (count,) = struct.unpack(">I", body[:4])
            place = 4
            for _ in range(count):
                (number,) = struct.unpack(">Q", body[place : place + 8])
                place += 8 + 1 + 4 + 16
                answered.add(number)
                client.say(peer.failed(number, 4, b"changed"))
    assert answered == set(range(200))


def test_a_file_that_is_asked_for_a_thousand_times_is_opened_and_sent_once(serve, world):
    content = os.urandom(3 * MIB)
    (world / "root" / "f").write_bytes(content)
    server = serve("--root", world / "root", "--insecure")
    host, port = server.listen.rsplit(":", 1)

    def descriptors() -> int:
        return len(list(os.scandir(f"/proc/{server.process.pid}/fd")))

    before = descriptors()
    with peer.get((host, int(port)), b"f") as session:
        session.hear(peer.OFFER)
        session.say(peer.answers(*[peer.missing(0, (0, 3))] * 1000))
        frames = peer.take(session.data, 3 * (32 + MIB + 40))
        assert frames[32 : 32 + MIB] == content[:MIB]
        # What it is told first it does first.
        session.say(peer.message(peer.RECEIVED, bytes(8)))
        session.hear(peer.COMMIT)
        assert descriptors() < before + 20
        session.say(
            peer.message(peer.COMMITTED, peer.listed([bytes(8) + blake3(content).digest()]))
        )
        session.hear(peer.FINISH)
        session.say(peer.message(peer.FINISHED))
        assert peer.take(session.data, 32) == peer.END


def test_more_directories_than_descriptors(serve, world):
    server = serve("--root", world / "root", "--insecure")
    tree = world / "tree"
    for number in range(600):
        (tree / str(number)).mkdir(parents=True)
        (tree / str(number) / "f").write_text(str(number))
    resource.prlimit(server.process.pid, resource.RLIMIT_NOFILE, (256, 256))
    # Paused, so that all are on offer before the first is written.
    transfer = send([tree], f"{server.listen}/", rate=PAUSED)
    poll(lambda: transfer.progress().files_total == 600)
    transfer.set_rate(None)
    transfer.wait()
    for number in range(600):
        assert (world / "root" / "tree" / str(number) / "f").read_text() == str(number)


def test_old_files_in_progress_are_removed_and_young_ones_stay(world):
    root = world / "root"
    old, young = stage("old", "part"), stage("young", "part")
    for name in (old, stage("old", "journal"), young):
        (root / name).write_text("x")
        (root / name).chmod(0o600)
    week = 7 * 24 * 3600
    for name, age in ((old, week + 60), (stage("old", "journal"), week + 60), (young, week - 60)):
        os.utime(root / name, (time.time() - age,) * 2)
    (world / "f").write_bytes(os.urandom(2 * MIB))
    with Server([root], listen="127.0.0.1:0", keys=None) as server:
        send([world / "f"], "{}:{}/".format(*server.address)).wait()
    assert {path.name for path in root.iterdir()} == {"f", young}


def test_a_server_removes_old_files_in_progress_wherever_they_lie(world):
    """At its start, though nobody stores anything there any more, and not through links."""
    deep, other = world / "root" / "a" / "b", world / "other"
    deep.mkdir(parents=True)
    other.mkdir()
    (world / "root" / "a" / "link").symlink_to(other)
    names = [stage("old", "part"), stage("old", "journal"), stage("young", "part"), "file"]
    week = 7 * 24 * 3600
    for place in (deep, other):
        for name in names:
            (place / name).write_text("x")
            (place / name).chmod(0o600)
            age = week - 60 if name == stage("young", "part") else week + 60
            os.utime(place / name, (time.time() - age,) * 2)
    with Server([world / "root"], listen="127.0.0.1:0", keys=None):
        poll(lambda: {path.name for path in deep.iterdir()} == set(names[2:]))
    assert {path.name for path in other.iterdir()} == set(names)


def test_what_is_left_out_is_named_and_has_an_exit_code(serve, world):
    tree = world / "tree"
    tree.mkdir()
    (tree / stage("x", "part")).write_text("looks as if in progress")
    (tree / "fine").write_text("fine")
    server = serve("--root", world / "root", "--insecure")
    done = weir("send", tree, f"{server.listen}/", "--insecure")
    assert done.returncode == 5 and "name of a file in progress" in done.stderr
    assert (world / "root" / "tree" / "fine").read_text() == "fine"
    # A deep path is made in steps: no call takes it whole.
    (tree / stage("x", "part")).unlink()
    here = os.open(tree, os.O_RDONLY)
    for _ in range(17):
        os.mkdir("d" * 250, dir_fd=here)
        below = os.open("d" * 250, os.O_RDONLY, dir_fd=here)
        os.close(here)
        here = below
    os.close(here)
    done = weir("send", tree, f"{server.listen}/", "--insecure")
    assert done.returncode == 5 and "longer than 4095 bytes" in done.stderr


def test_a_source_that_is_no_file_is_refused_and_no_link_to_it_is_made(world):
    fifo = world / "fifo"
    os.mkfifo(fifo)
    reading, writing = os.pipe()
    try:
        for source in (fifo, f"/dev/fd/{reading}", f"/proc/self/fd/{reading}", "/dev/null"):
            with pytest.raises(BadInput, match="no file"):
                Transfer.send([source], "127.0.0.1:1/x", keys=None)
        with (world / "file").open("w") as file, pytest.raises(BadInput, match="no file"):
            Transfer.send([f"/dev/fd/{file.fileno()}"], "127.0.0.1:1/x", keys=None)
    finally:
        os.close(reading)
        os.close(writing)


def test_a_peer_cannot_write_to_what_is_in_progress(world):
    name = stage("f", "part").encode()
    with (
        Server([world / "root"], listen="127.0.0.1:0", keys=None) as server,
        peer.put(server.address, b"in/") as client,
    ):
        client.say(peer.message(peer.BEGIN, b"\0"))
        for number, path in enumerate((name, b"a/" + name, name + b"/a")):
            client.say(peer.offer(number, peer.entry(path, 10)))
            _, body = client.hear(peer.FILE_FAILED)
            assert b"in progress" in body
    assert not (world / "root" / "in").exists()
