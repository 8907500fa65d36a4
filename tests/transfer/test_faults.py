"""What can go wrong does: kills, corruption, full disks, changing files, silence."""

import contextlib
import json
import os
import random
import signal
import socket
import subprocess
import threading
import time

import pytest
from rig import PATIENCE_S, WEIR, sha256
from transfer_world import leftovers, poll, weir

from weir import Rate, Time
from weir.errors import TransferFailed, Unavailable
from weir.transfer import Server, Transfer

MIB = 2**20
# What is done to a transfer half-way finds it there, also after a second or two.
SLOW = Rate("40 Mbit/s")
# The server may take its time to see that the one before has gone.
PATIENT = Time("60 s")


def random_file(path, size):
    with path.open("wb") as file:
        file.write(os.urandom(size))
    return path


@pytest.fixture
def world(tmp_path):
    (tmp_path / "root").mkdir()
    return tmp_path


def start_send(source, target, *options):
    """A `weir send --json` whose progress can be followed."""
    command = [WEIR, "send", str(source), target, "--insecure", "--json", *options]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def connected(sender):
    """`sender` once it moves: a server that was never there is an error, not worth retrying."""
    for line in sender.stdout:
        if json.loads(line).get("state") == "running":
            return sender
    raise AssertionError(sender.communicate()[1])


@pytest.mark.parametrize("hashing", ["blake3", "none"])
def test_ten_kills_of_either_end_and_the_file_still_verifies(serve, world, hashing):
    source = random_file(world / "source", 192 * MIB)
    server = serve("--root", world / "root", "--insecure")
    target, dice = f"{server.listen}/copy", random.Random(hashing)
    options = ["--rate", "100 Mbit/s", "--streams", "2", "--hash", hashing, "--retry", "20 s"]
    sender = connected(start_send(source, target, *options))
    for _ in range(10):
        # A kill hits a transfer that is moving: chunks are being added.
        before = poll(lambda: chunks_here(world / "root"), 60)
        poll(lambda before=before: chunks_here(world / "root") > before, 60)
        time.sleep(dice.uniform(0, 0.15))
        if dice.random() < 0.5:
            server.kill()
            server.start()
        else:
            sender.kill()
            sender.communicate()
            sender = connected(start_send(source, target, *options))
    out, err = sender.communicate(timeout=PATIENCE_S)
    last = json.loads(out.splitlines()[-1])
    assert last["event"] == "done", err
    assert last["bytes_resumed"] > 0
    assert sha256(world / "root" / "copy") == sha256(source)
    assert leftovers(world / "root") == []


def chunks_here(root):
    """How many chunks the journal of the only file in progress holds."""
    sizes = [path.stat().st_size for path in root.glob(".weir-*.journal")]
    return (sizes[0] - 64) // 48 if sizes else 0


def test_a_crash_between_the_last_chunk_and_the_name_is_mended(world):
    """A directory that comes into its place keeps the complete part from getting its name."""
    source = random_file(world / "source", 5 * MIB)
    with Server([world / "root"], listen="127.0.0.1:0", keys=None) as server:
        place = "{}:{}/".format(*server.address)
        first = Transfer.send([source], place, keys=None, rate=Rate("20 Mbit/s"))
        first.start()
        poll(lambda: chunks_here(world / "root") > 0)
        (world / "root" / "source" / "occupant").mkdir(parents=True)
        with pytest.raises(TransferFailed, match="source"):
            first.wait(Time("60 s"))
        assert chunks_here(world / "root") == 5
        (world / "root" / "source" / "occupant").rmdir()
        (world / "root" / "source").rmdir()
        second = Transfer.send([source], place, keys=None)
        second.start()
        assert second.wait(Time("60 s"))
        assert second.progress().bytes_resumed.count == 5 * MIB
    assert sha256(world / "root" / "source") == sha256(source)
    assert leftovers(world / "root") == []


def test_ctrl_c_says_how_to_resume_and_the_rest_is_not_sent_again(serve, world):
    source = random_file(world / "source", 64 * MIB)
    server = serve("--root", world / "root", "--insecure")
    target = f"{server.listen}/copy"
    sender = subprocess.Popen(
        [WEIR, "send", source, target, "--insecure", "--rate", "100 Mbit/s"],
        stderr=subprocess.PIPE,
        text=True,
    )
    poll(lambda: chunks_here(world / "root") > 8, 60)
    sender.send_signal(signal.SIGINT)
    _, err = sender.communicate(timeout=60)
    assert sender.returncode == 130
    assert "the same command resumes it" in err and "Traceback" not in err
    assert not (world / "root" / "copy").exists()
    done = weir("send", source, target, "--insecure", "--json", "--retry", "60 s")
    last = json.loads(done.stdout.splitlines()[-1])
    assert last["event"] == "done" and last["bytes_resumed"] >= 4 * MIB
    assert sha256(world / "root" / "copy") == sha256(source)


def test_damage_to_the_part_file_is_found_on_resume(world):
    """As after a power loss: the journal claims chunks whose data is not there."""
    source = random_file(world / "source", 32 * MIB)
    with Server([world / "root"], listen="127.0.0.1:0", keys=None) as server:
        place = "{}:{}/copy".format(*server.address)
        first = Transfer.send([source], place, keys=None, rate=SLOW)
        first.start()
        poll(lambda: first.progress().bytes_durable.count >= 5 * MIB)
        first.cancel()
        part = poll(lambda: list((world / "root").glob(".weir-*.part")))[0]
        with part.open("r+b") as file:
            file.seek(3 * MIB + 17)
            file.write(b"lost")
        second = Transfer.send([source], place, keys=None, retry=PATIENT)
        second.start()
        assert second.wait()
        assert second.progress().bytes_resumed.count >= 4 * MIB
    assert sha256(world / "root" / "copy") == sha256(source)


def test_a_part_of_another_version_is_not_resumed(world):
    source = random_file(world / "source", 32 * MIB)
    with Server([world / "root"], listen="127.0.0.1:0", keys=None) as server:
        place = "{}:{}/copy".format(*server.address)
        first = Transfer.send([source], place, keys=None, rate=SLOW)
        first.start()
        poll(lambda: first.progress().bytes_durable.count > 2 * MIB)
        first.cancel()
        random_file(source, 32 * MIB)
        second = Transfer.send([source], place, keys=None, retry=PATIENT)
        second.start()
        assert second.wait()
        assert second.progress().bytes_resumed.count == 0
    assert sha256(world / "root" / "copy") == sha256(source)


class Proxy:
    """Passes bytes both ways; flips one at a given place of the stream to the server."""

    def __init__(self, server, connection, place):
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.server, self.connection, self.place = server, connection, place
        self.flipped = False
        self.sockets = [self.listener]
        self.threads = []
        self.spawn(self.run)

    @property
    def address(self):
        return "{}:{}".format(*self.listener.getsockname())

    def __enter__(self):
        return self

    def __exit__(self, *_):
        for one in self.sockets:
            with contextlib.suppress(OSError):
                one.shutdown(socket.SHUT_RDWR)
        for thread in self.threads:
            thread.join(PATIENCE_S)
        for one in self.sockets:
            one.close()

    def spawn(self, target, *args):
        self.threads.append(threading.Thread(target=target, args=args, daemon=True))
        self.threads[-1].start()

    def run(self):
        with contextlib.suppress(OSError):
            for number in range(100):
                client, _ = self.listener.accept()
                self.sockets.append(client)
                server = socket.create_connection(self.server)
                self.sockets.append(server)
                damage = self.place if number == self.connection else None
                self.spawn(self.pump, client, server, damage)
                self.spawn(self.pump, server, client, None)

    def pump(self, source, target, damage):
        passed = 0
        with contextlib.suppress(OSError):
            while data := source.recv(65536):
                if damage is not None and passed <= damage < passed + len(data):
                    data = bytearray(data)
                    data[damage - passed] ^= 4
                    self.flipped = True
                passed += len(data)
                target.sendall(data)
        with contextlib.suppress(OSError):
            target.shutdown(socket.SHUT_WR)


# The first connection is for control, the second for data. A header has 32 bytes, a greeting 40.
@pytest.mark.parametrize(
    ("connection", "place", "size", "secure"),
    [
        (1, 5 * MIB, 8 * MIB, False),  # content of a file of several chunks
        (1, 3000, 100_000, False),  # content of a small file
        (1, 40 + 20, 8 * MIB, False),  # a frame's header: good data for a wrong place
        (1, 40 + 32 + MIB + 20, 8 * MIB, False),  # a chunk's hash
        (0, 160, 8 * MIB, False),  # the offer: a wrong name or size
        (1, 5 * MIB, 8 * MIB, True),  # a record of TLS
    ],
)
def test_corruption_on_the_way_is_a_clear_error_and_leaves_nothing(
    world, connection, place, size, secure
):
    source = random_file(world / "source", size)
    keys = None
    if secure:
        keys = world / "keys"
        assert weir("keys", "init", keys).returncode == 0
    with Server([world / "root"], listen="127.0.0.1:0", keys=keys) as server:
        with Proxy(server.address, connection, place) as proxy:
            transfer = Transfer.send([source], f"{proxy.address}/copy", keys=keys)
            transfer.start()
            with pytest.raises((TransferFailed, Unavailable)) as caught:
                transfer.wait(Time("60 s"))
            assert proxy.flipped
        text = str(caught.value)
        words = ("does not match", "check over the bytes", "damaged")
        assert any(word in text for word in words), text
        assert not (world / "root" / "copy").exists()
        # What was verified before counts; the rest is sent again, and all is well.
        place = "{}:{}/copy".format(*server.address)
        again = Transfer.send([source], place, keys=keys, retry=PATIENT)
        again.start()
        assert again.wait()
    assert sha256(world / "root" / "copy") == sha256(source)
    assert leftovers(world / "root") == []


@pytest.mark.parametrize("hashing", ["blake3", "none"])
@pytest.mark.parametrize("change", ["rewritten", "shrunk", "touched"])
def test_a_file_that_changes_while_read_is_not_committed(world, hashing, change):
    source = random_file(world / "source", 24 * MIB)
    with Server([world / "root"], listen="127.0.0.1:0", keys=None) as server:
        place = "{}:{}/copy".format(*server.address)
        transfer = Transfer.send([source], place, keys=None, rate=SLOW, hash=hashing)
        transfer.start()
        poll(lambda: transfer.progress().bytes_durable.count >= 2 * MIB)
        if change == "rewritten":
            with source.open("r+b") as file:
                file.seek(20 * MIB)
                file.write(b"other")
        elif change == "shrunk":
            os.truncate(source, 5 * MIB)
        else:
            os.utime(source)
        transfer.set_rate(None)
        with pytest.raises(TransferFailed, match="changed while it was read"):
            transfer.wait(Time("60 s"))
    assert not (world / "root" / "copy").exists()


def test_a_full_disk_is_said_at_once_and_nothing_wrong_stays(world):
    root = world / "root"
    try:
        subprocess.run(
            ["mount", "-t", "tmpfs", "-o", "size=16m", "weir-test", root],
            check=True,
            capture_output=True,
        )
    except subprocess.CalledProcessError as error:
        pytest.fail(f"this test mounts a small tmpfs and needs root: {error.stderr!r}")
    try:
        source = random_file(world / "source", 24 * MIB)
        many = world / "many"
        many.mkdir()
        for number in range(40):
            random_file(many / f"{number}", 500_000)
        with Server([root], listen="127.0.0.1:0", keys=None) as server:
            place = "{}:{}".format(*server.address)
            for what in (source, many):
                transfer = Transfer.send([what], f"{place}/copy", keys=None)
                transfer.start()
                with pytest.raises(TransferFailed, match="No space left"):
                    transfer.wait(Time("60 s"))
            assert not (root / "copy").is_file()
            for copy in (root / "copy" / "many").iterdir():
                assert sha256(copy) == sha256(many / copy.name)
    finally:
        subprocess.run(["umount", root], check=True)


def test_a_disk_that_fills_up_midway_leaves_a_resumable_part(world):
    """Room is there when the file is offered, and what is not reserved of it goes to another."""
    root = world / "root"
    subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=200m", "weir-test", root],
        check=True,
        capture_output=True,
    )
    try:
        source = random_file(world / "source", 120 * MIB)
        with Server([root], listen="127.0.0.1:0", keys=None) as server:
            place = "{}:{}/copy".format(*server.address)
            transfer = Transfer.send([source], place, keys=None, rate=Rate("100 Mbit/s"))
            transfer.start()
            poll(lambda: transfer.progress().bytes_durable.count > 4 * MIB)
            hog = root / "hog"
            with contextlib.suppress(OSError), hog.open("wb") as file:
                while True:
                    file.write(bytes(MIB))
            transfer.set_rate(None)
            with pytest.raises(TransferFailed, match="No space left"):
                transfer.wait(Time("60 s"))
            assert not (root / "copy").exists()
            hog.unlink()
            again = Transfer.send([source], place, keys=None, retry=PATIENT)
            again.start()
            assert again.wait()
            assert again.progress().bytes_resumed.count >= 4 * MIB
        assert sha256(root / "copy") == sha256(source)
    finally:
        subprocess.run(["umount", root], check=True)


@pytest.mark.parametrize("fetch", [False, True])
def test_a_full_disk_that_is_cleared_in_time_is_waited_for(world, fetch):
    full, other = world / "full", world / "root"
    full.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=16m", "weir-test", full]
    subprocess.run(mount, check=True, capture_output=True)
    try:
        hog = random_file(full / "hog", 12 * MIB)
        source = random_file((other if fetch else world) / "source", 8 * MIB)
        served = other if fetch else full
        with Server([served], listen="127.0.0.1:0", keys=None) as server:
            place = "{}:{}".format(*server.address)
            patient = {"keys": None, "retry": Time("60 s")}
            if fetch:
                transfer = Transfer.get([f"{place}/source"], full / "copy", **patient)
            else:
                transfer = Transfer.send([source], f"{place}/copy", **patient)
            transfer.start()
            told = poll(transfer.take_notices)
            assert any("No space left" in notice for notice in told), told
            hog.unlink()
            assert transfer.wait(Time("60 s"))
        assert sha256(full / "copy") == sha256(source)
    finally:
        subprocess.run(["umount", full], check=True)


def test_a_peer_that_falls_silent_is_given_up(serve, world):
    source = random_file(world / "source", 64 * MIB)
    server = serve("--root", world / "root", "--insecure")
    transfer = Transfer.send(
        [source],
        f"{server.listen}/copy",
        keys=None,
        rate=Rate("50 Mbit/s"),
        silence=Time("5 s"),
    )
    transfer.start()
    poll(lambda: transfer.progress().bytes_durable.count > MIB)
    server.process.send_signal(signal.SIGSTOP)
    began = time.monotonic()
    try:
        with pytest.raises(Unavailable, match="silent"):
            transfer.wait(Time("60 s"))
        assert time.monotonic() - began < 55
    finally:
        server.process.send_signal(signal.SIGCONT)
    assert not (world / "root" / "copy").exists()


def test_a_sender_that_falls_silent_does_not_block_its_successor(serve, world):
    source = random_file(world / "source", 64 * MIB)
    server = serve("--root", world / "root", "--insecure", "--silence", "5 s")
    target = f"{server.listen}/copy"
    first = start_send(source, target, "--rate", "50 Mbit/s")
    poll(lambda: list((world / "root").glob(".weir-*.part")), 60)
    first.send_signal(signal.SIGSTOP)
    try:
        second = weir("send", source, target, "--insecure", "--retry", "90 s")
        assert second.returncode == 0, second.stderr
    finally:
        first.kill()
        first.communicate()
    assert sha256(world / "root" / "copy") == sha256(source)


def test_a_server_that_is_not_there_is_unavailable_at_once(world):
    source = random_file(world / "source", 10)
    with socket.socket() as placeholder:
        placeholder.bind(("127.0.0.1", 0))
        port = placeholder.getsockname()[1]
        done = weir("send", source, f"127.0.0.1:{port}/x", "--insecure")
    assert done.returncode == 6
    assert "cannot connect" in done.stderr
