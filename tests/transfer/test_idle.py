"""A session in which nothing is done ends, however its client shows that it lives."""

import contextlib
import os
import threading
from pathlib import Path

import peer
import pytest
from transfer_world import poll, weir
from wire_peer import dial

from weir.transfer import keys_init

MIB = 2**20
IDLE = "4 s"
# However slow this machine is.
PATIENCE_S = 60


class Dawdler(threading.Thread):
    """Says that it lives, message by message or byte by byte, and hears nothing."""

    def __init__(self, session: "peer.Peer", way: str) -> None:
        super().__init__(daemon=True)
        self.session, self.way = session, way
        self.ended = threading.Event()

    def run(self) -> None:
        whole = peer.message(peer.TOTALS, bytes(17)) * 1000
        turn = 0
        while not self.ended.wait(0.2):
            with contextlib.suppress(OSError):
                if self.way == "pings":
                    self.session.say(peer.message(peer.PING))
                elif self.way == "totals":
                    self.session.say(
                        peer.message(peer.TOTALS, bytes(8) + bytes([turn % 200] * 8 + [0]))
                    )
                elif self.way == "control bytes":
                    self.session.say(whole[turn : turn + 1])
                else:
                    self.session.say(peer.message(peer.PING))
                    self.session.data.send(self.session.slow[turn : turn + 1])
            turn += 1


@contextlib.contextmanager
def dawdling(session, way):
    dawdler = Dawdler(session, way)
    dawdler.start()
    try:
        yield
    finally:
        dawdler.ended.set()
        dawdler.join(timeout=PATIENCE_S)
        session.close()


def asked(address, state):
    """A session that has come so far, or as far as it got before it was ended."""
    get = state in {"offered by the server", "got by half"}
    session = peer.get(address, b"file") if get else peer.put(address, b"in/")
    session.slow = peer.chunk(0, os.urandom(4096))
    with contextlib.suppress(EOFError, OSError):
        go_to(session, state)
    return session


def go_to(session, state):
    if state == "got by half":
        session.hear(peer.OFFER)
        run = b"\1" + (1).to_bytes(4, "big") + bytes(8) + (1).to_bytes(8, "big")
        answer = (1).to_bytes(4, "big") + bytes(8) + run
        session.say(peer.message(peer.ANSWERS, answer))
    if state in {"accepted", "offered by the server", "got by half"}:
        return
    session.say(peer.message(peer.BEGIN, b"\0"))
    size = 4096 if state.startswith("small") else 3 * MIB
    if state != "begun":
        session.say(peer.offer(0, peer.entry(b"f", size)))
        session.hear(peer.ANSWERS)
    if state == "finished":
        session.say(peer.message(peer.FINISH))
    elif state == "finished, a connection ended":
        session.say(peer.message(peer.FINISH))
        session.data.sendall(peer.END[:-1])
    elif state == "half a chunk":
        session.data.sendall(peer.header(1, 0, 0, MIB) + bytes(1000))
        session.slow = bytes(1000)


def counts_at_rest(server):
    """Once it has its own threads, which wait for guests, watch them, sweep and log."""
    poll(lambda: counts(server)[0] >= 5)
    return counts(server)


def counts(server):
    """Threads and descriptors."""
    process = Path(f"/proc/{server.process.pid}")
    return len(list((process / "task").iterdir())), len(list((process / "fd").iterdir()))


@pytest.fixture(scope="module")
def root(tmp_path_factory):
    root = tmp_path_factory.mktemp("root")
    (root / "file").write_bytes(os.urandom(3 * MIB))
    return root


@pytest.fixture
def server(serve, root):
    return serve("--root", root, "--insecure", "--idle", IDLE)


def test_a_transfer_that_goes_on_is_not_cut_however_long_it_takes(server, root):
    """Three times as long as a session may be idle, a little at a time."""
    done = weir("get", f"{server.listen}/file", root / "slow", "--insecure", "--rate", "4 Mbit/s")
    assert done.returncode == 0, done.stderr
    assert (root / "slow").read_bytes() == (root / "file").read_bytes()


def test_a_known_client_ends_as_a_stranger_does(serve, root, tmp_path):
    keys_init(tmp_path / "keys")
    server = serve("--root", root, "--keys", tmp_path / "keys", "--idle", IDLE)
    host, port = server.listen.rsplit(":", 1)
    before = counts_at_rest(server)
    control = dial((host, int(port)), tmp_path / "keys")
    control.sendall(peer.hello(peer.CONTROL))
    _, body = peer.hear(control)
    data = dial((host, int(port)), tmp_path / "keys")
    data.sendall(peer.hello(peer.DATA, body[2:18]))
    assert peer.take(data, 1) == b"\1"
    session = peer.Peer(control, data)
    session.slow = peer.chunk(0, os.urandom(4096))
    session.say(peer.message(peer.PUT, peer.text(b"in/") + peer.options()))
    session.say(peer.message(peer.BEGIN, b"\0"), peer.message(peer.FINISH))
    with dawdling(session, "data bytes"):
        poll(lambda: counts(server) <= before, PATIENCE_S)
