"""Who is not known, or does nothing, keeps nobody out and costs little."""

import contextlib
import json
import os
import resource
import selectors
import socket
import subprocess
import threading
import time
from pathlib import Path

import pytest
from rig import PATIENCE_S, WEIR
from transfer_world import poll, weir
from wire_peer import CONTROL, PUT, dial, get, hello, message, options, read, session, text

from weir.transfer import keys_init, keys_issue

# What a TLS client says first, longer than it will ever send.
GREETING = b"\x16\x03\x01\x3f\xff\x01\x00\x3f\xfb\x03\x03" + b"A" * 20_000


class Flood(threading.Thread):
    """Keeps `count` connections open that say nothing, or a byte each `drip_s`."""

    def __init__(self, address, count, drip_s=None) -> None:
        super().__init__(daemon=True)
        self.address, self.count, self.drip_s = address, count, drip_s
        self.sent: dict[socket.socket, int] = {}
        self.closed_by_server = 0
        self.stop = threading.Event()

    def run(self) -> None:
        with selectors.DefaultSelector() as selector:
            dripped = time.monotonic()
            while not self.stop.is_set():
                while len(self.sent) < self.count:
                    stream = socket.socket()
                    stream.setblocking(False)
                    stream.connect_ex(self.address)
                    self.sent[stream] = 0
                    selector.register(stream, selectors.EVENT_READ)
                for key, _ in selector.select(0.02):
                    self.drop(selector, key.fileobj)
                if self.drip_s and time.monotonic() - dripped > self.drip_s:
                    dripped = time.monotonic()
                    self.drip()
        for stream in self.sent:
            stream.close()

    def drop(self, selector, stream) -> None:
        with contextlib.suppress(OSError):
            if stream.recv(100):
                return
        selector.unregister(stream)
        stream.close()
        del self.sent[stream]
        self.closed_by_server += 1

    def drip(self) -> None:
        for stream, count in self.sent.items():
            with contextlib.suppress(OSError):
                stream.send(GREETING[count : count + 1])
                self.sent[stream] += 1

    def __enter__(self):
        self.start()
        poll(lambda: len(self.sent) == self.count)
        return self

    def __exit__(self, *_) -> None:
        self.stop.set()
        self.join(timeout=30)


@pytest.fixture
def world(tmp_path):
    (tmp_path / "root").mkdir()
    (tmp_path / "source").write_text("content")
    keys_init(tmp_path / "keys")
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(4096, hard), hard))
    yield tmp_path
    resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


def address(server):
    host, port = server.listen.rsplit(":", 1)
    return host, int(port)


def threads(server):
    return len(list(Path(f"/proc/{server.process.pid}/task").iterdir()))


@pytest.mark.parametrize("drip_s", [None, 0.1])
@pytest.mark.parametrize("with_keys", [True, False])
def test_strangers_do_not_lock_out_who_is_known(serve, world, drip_s, with_keys):
    security = ["--keys", world / "keys"] if with_keys else ["--insecure"]
    server = serve("--root", world / "root", *security)
    with Flood(address(server), 600, drip_s) as flood:
        took_s = []
        for number in range(4):
            began = time.monotonic()
            # A greeting that takes a tenth of a second, as on a busy machine, may be cut.
            arguments = ["send", world / "source", f"{server.listen}/{number}", *security]
            poll(lambda arguments=arguments: weir(*arguments).returncode == 0)
            took_s.append(time.monotonic() - began)
        # Where nobody made room each would wait for the ten seconds of a greeting to be over.
        assert min(took_s) < 8
        assert threads(server) < 400
    assert flood.closed_by_server > 0
    told = entries(server)
    assert len(told) < 200
    served = [entry for entry in told if entry["event"] == "transfer"]
    assert sum(entry["outcome"] == "done" for entry in served) >= 4


def test_drips_do_not_put_off_the_end_of_a_greeting(serve, world):
    """A byte every second is not silence; the ten seconds are over all the same."""
    server = serve("--root", world / "root", "--keys", world / "keys")
    began = time.monotonic()
    with socket.create_connection(address(server)) as stranger:
        stranger.settimeout(1)
        for byte in GREETING:
            if time.monotonic() - began > 90:
                break
            try:
                stranger.send(bytes([byte]))
                if stranger.recv(1) == b"":
                    break
            except TimeoutError:
                continue
            except OSError:
                break
        assert 8 < time.monotonic() - began < 80


def test_who_asks_and_goes_leaves_nothing_behind(serve, world):
    (world / "root" / "file").write_bytes(os.urandom(3_000_000))
    server = serve("--root", world / "root", "--insecure")
    before = threads(server)
    for way in ("finished", "gone"):
        for _ in range(20):
            with session(address(server)) as (control, _):
                control.sendall(get(b"file"))
                if way == "finished":
                    control.sendall(message(44))
                read(control)
    poll(lambda: threads(server) <= before + 2, seconds=PATIENCE_S)
    assert weir("get", f"{server.listen}/file", world / "x", "--insecure").returncode == 0


def test_the_server_takes_all_descriptors_that_it_may(serve, world):
    server = serve("--root", world / "root", "--insecure")
    limits = Path(f"/proc/{server.process.pid}/limits").read_text()
    soft, hard = next(line for line in limits.splitlines() if "open files" in line).split()[3:5]
    assert soft == hard


def entries(server):
    """The log of a server that was started with --json, until it ends."""
    server.process.terminate()
    out, _ = server.process.communicate(timeout=60)
    return [json.loads(line) for line in out.splitlines()]


def test_the_log_says_who_moved_what_and_how_it_ended(serve, world):
    keys_issue(world / "keys", world / "dtn7", "dtn7", server=False)
    keys = ["--keys", world / "dtn7"]
    server = serve("--root", world / "root", "--keys", world / "keys")
    assert weir("send", world / "source", f"{server.listen}/a b", *keys).returncode == 0
    assert weir("get", f"{server.listen}/a b", world / "copy", *keys).returncode == 0
    assert weir("get", f"{server.listen}/absent", world / "copy", *keys).returncode == 2
    told = [entry for entry in entries(server) if entry["event"] == "transfer"]
    assert [(entry["request"], entry["path"], entry["outcome"]) for entry in told] == [
        ("put", "a b", "done"),
        ("get", "a b", "done"),
        ("get", "absent", "failed"),
    ]
    for entry in told:
        assert entry["client"] == "dtn7"
        assert entry["address"].startswith("127.0.0.1:")
        assert entry["time"]
    assert [entry["bytes"] for entry in told] == [7, 7, 0]
    assert "absent" in told[2]["message"]


@contextlib.contextmanager
def text_server(world, *more):
    """A server as a person starts it: its address and process."""
    command = [WEIR, "serve", "--root", world / "root", "--listen", "127.0.0.1:0", "--insecure"]
    pipe = subprocess.PIPE
    with subprocess.Popen([*command, *more], stdout=pipe, stderr=pipe) as process:
        line = process.stdout.readline().decode()
        port = json.loads(line)["port"] if "--json" in more else int(line.rsplit(":", 1)[1])
        try:
            yield ("127.0.0.1", port), process
        finally:
            process.kill()


def test_what_a_peer_says_is_escaped_and_forges_no_line(world):
    forged = b'x\n203.0.113.9:1: put "y": 9 files\x1b[2J\xe2\x80\xae'
    with text_server(world) as (where, process):
        with session(where) as (control, _):
            control.sendall(message(PUT, text(b"a\n\x1b[2Jb/") + options()))
            read(control)
            control.sendall(message(3, bytes([1]) + text(forged)))
            with contextlib.suppress(EOFError):
                read(control)
        process.terminate()
        log = process.communicate(timeout=30)[1].decode()
    assert "203.0.113.9" in log
    assert not any(ord(letter) < 32 for letter in log.replace("\n", ""))
    assert "\u202e" not in log
    assert not any(line.startswith(("203", '"')) for line in log.splitlines())
    assert "\\x1b[2J" in log


@pytest.mark.parametrize("more", [["--json"], []])
def test_a_reader_of_the_log_that_sleeps_holds_nobody_up(world, more):
    """Nothing is read of what the server writes, far beyond what a pipe holds."""
    with text_server(world, *more) as (where, process):
        long = b"x" * 200
        for _ in range(400):
            with dial(where) as control:
                control.sendall(hello(CONTROL))
                read(control)
                control.sendall(get(b"/".join([long] * 4)))
                kind, _ = read(control)
                assert kind == 3
        process.terminate()
        process.stdout.close()
        process.stderr.close()
        assert process.wait(timeout=PATIENCE_S) == 0
