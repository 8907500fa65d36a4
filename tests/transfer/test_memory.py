"""What a peer says without end does not stay in memory: it is bounded at both ends."""

import contextlib
import errno
import itertools
import json
import os
import shutil
import signal
import struct
import subprocess
import threading
from pathlib import Path
from subprocess import PIPE

import peer
import pytest
import wire_peer
from rig import PATIENCE_S, WEIR
from transfer_world import poll, weir

from weir.transfer import Server
from weir.transfer.verify import Place, differences, read_both

# Names that stay in memory take several times as much.
GROWTH_MAX = 16 << 20
NAMES = 300_000
LONG = b"some/directory/of/a/tree/that/is/as/deep/as/most"


def resident(pid: int) -> int:
    """The most bytes of memory that a process had so far."""
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    return next(int(line.split()[1]) * 1024 for line in lines if line.startswith("VmHWM"))


def names(count: int, each: int = 500):
    """Lists of names, in the order of no sort."""
    for first in range(0, count, each):
        numbers = range(first, first + each)
        yield [LONG + b"/%08d" % (number * 7919 % count) for number in numbers]


def deleted(pid: int) -> int:
    """Bytes in files that a process has open and no name leads to."""
    total = 0
    for one in Path(f"/proc/{pid}/fd").iterdir():
        try:
            if one.readlink().name.endswith("(deleted)"):
                total += one.stat().st_size
        except OSError as error:
            assert error.errno == errno.ENOENT
    return total


def test_directories_without_end_do_not_fill_a_server(serve, tmp_path):
    server = serve("--root", tmp_path, "--insecure")
    pid = server.process.pid
    host, port = server.listen.split(":")
    with peer.put((host, int(port)), b"") as client:
        client.say(wire_peer.begin())
        before = resident(pid)
        for each in names(NAMES):
            client.say(wire_peer.directories([(name, 0o755) for name in each]))
        # What was said has been taken, and is where memory is not.
        poll(lambda: deleted(pid) > NAMES * len(LONG) * 0.9)
        assert resident(pid) - before < GROWTH_MAX
    poll(lambda: deleted(pid) == 0)
    assert not list(tmp_path.iterdir())


def test_a_catalogue_without_end_does_not_fill_a_client(tmp_path):
    taken = []

    def answer(control, _):
        control.sendall(wire_peer.message(peer.READY) + wire_peer.begin())
        for number, each in enumerate(names(NAMES)):
            first = number * len(each)
            hashes = [struct.pack(">Q32s", first + n, b"") for n in range(len(each))]
            committed = wire_peer.message(peer.COMMITTED, peer.listed(hashes))
            offered = wire_peer.offer(first, [(name, 1) for name in each])
            control.sendall(offered + committed)
        poll(lambda: deleted(taken[0]) > NAMES * len(LONG) * 0.9)
        taken.append(resident(taken[0]))
        control.sendall(wire_peer.message(peer.FINISHED))

    (tmp_path / "here").mkdir()
    with Teller(answer) as teller:
        command = [WEIR, "verify", f"{tmp_path}/here/", f"{teller.place}/x/", "--insecure"]
        with subprocess.Popen(command, stdout=subprocess.PIPE) as client:
            taken.append(client.pid)
            lines = sum(1 for _ in client.stdout)
            assert client.wait(PATIENCE_S) == 5
    assert lines == NAMES
    start = resident_of_a_start()
    assert taken[1] - start < GROWTH_MAX


def resident_of_a_start() -> int:
    """What a `weir verify` takes that has hardly anything to do."""
    with subprocess.Popen([WEIR, "verify", WEIR, WEIR], stdout=subprocess.DEVNULL) as small:
        _, _, usage = os.wait4(small.pid, 0)
        small.returncode = 0
    return usage.ru_maxrss * 1024


class Teller(wire_peer.HostileServer):
    """Answers one `verify`, for which there is no data connection."""

    def _serve(self) -> None:
        control, _ = self._listener.accept()
        with control:
            peer.hear(control)
            welcome = struct.pack(">H16sH", 1, b"T" * 16, 64)
            control.sendall(peer.message(peer.WELCOME, welcome))
            peer.hear(control)
            self._act(control, None)


def test_many_directories_get_their_attributes_and_are_compared(tmp_path):
    """More than are held at a time: in a temporary file they are what they were."""
    source, root = tmp_path / "tree", tmp_path / "root"
    root.mkdir()
    for number in range(90):
        above = source / f"{number:03}"
        above.mkdir(parents=True)
        for n in range(200):
            below = above / f"a-directory-with-a-name-of-some-length-{n:04}"
            below.mkdir(0o700 + n % 64)
            os.utime(below, (1, 1000 + n))
    (root / "tree").mkdir()
    (root / "tree" / "089").symlink_to("088")
    with Server([root], listen="127.0.0.1:0", keys=None) as server:
        place = "{}:{}/".format(*server.address)
        done = weir("send", source, place, "--insecure")
        # Two that are one there are found however many there are.
        assert done.returncode == 5
        assert '"tree/089" and "tree/088" are one directory' in done.stderr
        (root / "tree" / "089").unlink()
        assert weir("send", source, place, "--insecure").returncode == 0

        def compared():
            _, one, _, other = read_both(Place(str(source), None), Place(place + "tree", None))
            return [(found.path, found.what) for found in differences(one, other)]

        assert compared() == []
        last = root / "tree" / "089" / "a-directory-with-a-name-of-some-length-0199"
        last.rmdir()
        (last.parent / "another").symlink_to("x")
        wanted = [(b"089/" + last.name.encode(), "missing"), (b"089/another", "extra")]
        assert compared() == wanted
        last.mkdir(0o700 + 199 % 64)
        os.utime(last, (1, 1199))
        (last.parent / "another").unlink()
    stats = ((below.relative_to(source), below.stat()) for below in source.glob("*/*"))
    for below, stat in itertools.islice(stats, 0, None, 7):
        there = (root / "tree" / below).stat()
        assert (there.st_mode, there.st_mtime_ns) == (stat.st_mode, stat.st_mtime_ns), below


@pytest.mark.parametrize("linked", [False, True])
def test_a_request_of_thousands_of_directories_holds_few_of_them_open(serve, tmp_path, linked):
    """Each was held open from the beginning: one client could use up a server's descriptors."""
    count = 2_000
    (tmp_path / "real" / "empty").mkdir(parents=True)
    for number in range(count):
        if linked:
            (tmp_path / f"d{number}").symlink_to("real")
        else:
            (tmp_path / f"d{number}" / "empty").mkdir(parents=True)
    server = serve("--root", tmp_path, "--insecure")
    host, port = server.listen.split(":")
    sources = peer.listed([peer.text(b"d%d/empty" % number) for number in range(count)])
    with peer.greeted((host, int(port))) as client:
        client.say(peer.message(peer.GET, sources + peer.options()))
        kind, body = peer.hear(client.control)
        if linked:
            assert kind == peer.FAILURE
            assert b"links" in body
            return
        assert kind == peer.READY
        client.hear(peer.BEGIN)
        assert len(list(Path(f"/proc/{server.process.pid}/fd").iterdir())) < 100


def test_a_receiver_that_has_directories_to_make_says_that_it_lives(tmp_path):
    """It was taken for gone where that took longer than its peer's patience."""
    if shutil.which("strace") is None:
        pytest.skip("strace, which slows a call down, is not here")
    slowed = ["strace", "-f", "-o", "/dev/null", "-e", "trace=mkdirat"]
    slowed += ["-e", "inject=mkdirat:delay_enter=300ms"]
    command = [*slowed, WEIR, "serve", "--root", tmp_path, "--listen", "127.0.0.1:0"]
    command += ["--insecure", "--json"]
    with (
        subprocess.Popen(command, stdout=PIPE, text=True, start_new_session=True) as server,
        contextlib.ExitStack() as ending,
    ):
        # The tracer itself waits for what it traces.
        ending.callback(os.killpg, server.pid, signal.SIGTERM)
        started = json.loads(server.stdout.readline())
        with peer.put((started["host"], started["port"]), b"") as client:
            modes = [(b"d%d" % number, 0o755) for number in range(20)]
            client.say(wire_peer.begin(), wire_peer.directories(modes), peer.message(peer.FINISH))
            client.data.sendall(peer.END)
            heard = []
            while peer.FINISHED not in heard:
                heard.append(peer.hear(client.control)[0])
        # Six seconds have three signs of life; the last word has one before it anyway.
        assert heard.count(peer.PROGRESS) >= 3
    assert len(list(tmp_path.iterdir())) == 20


def test_what_has_no_room_ends_in_a_full_disk(tmp_path):
    """The list that memory has no room for has none on the disk either: it is tried again."""
    if os.geteuid() != 0:
        pytest.skip("mounting needs root")
    script = f"""
        mount -t tmpfs -o size=4m none {tmp_path} && exec "$@"
    """
    command = ["unshare", "--mount", "sh", "-c", script, "sh", WEIR, "serve", "--root", tmp_path]
    command += ["--listen", "127.0.0.1:0", "--insecure", "--json", "--reserve", "0 B"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as server:
        try:
            started = json.loads(server.stdout.readline())
            with peer.put((started["host"], started["port"]), b"") as client:
                client.say(wire_peer.begin())

                def tell():
                    # It breaks off while there is more.
                    try:
                        for each in names(NAMES):
                            client.say(wire_peer.directories([(name, 0o755) for name in each]))
                    except OSError as error:
                        broke.append(error.errno)

                broke = []
                telling = threading.Thread(target=tell)
                telling.start()
                kind, body = client.hear(peer.FAILURE)
                telling.join(PATIENCE_S)
            assert (kind, body[0]) == (peer.FAILURE, 6)
            assert b"No space left" in body
        finally:
            server.terminate()
