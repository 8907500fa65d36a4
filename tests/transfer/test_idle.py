"""A session in which nothing is done ends, however its client shows that it lives."""

import contextlib
import functools
import itertools
import os
import struct
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import peer
import pytest
import wire_peer
from transfer_world import poll, weir

from weir.transfer import keys_init

MIB = 2**20
IDLE_S = 1
# However slow this machine is.
PATIENCE_S = 60
# Enough of what follows a header of 1 MiB.
SLOW = bytes(MIB)

STATES = [
    "greeted, no data connection",
    "greeted",
    "asked, no data connection",
    "accepted",
    "begun",
    "offered",
    "small offered",
    "half a chunk",
    "finished",
    "finished, a connection ended",
    "offered by the server",
    "answered",
    "got by half",
]
WAYS = ["pings", "totals", "control bytes", "data bytes", "failures", "unasked", "durable", "again"]


def reach(address, state, number):
    """A session that has come so far, with a file of its own: of one file, one alone has it."""
    file, connections = b"f%d" % number, contextlib.ExitStack()
    with connections:
        if state.startswith("greeted"):
            streams = 0 if "no data" in state else 1
            session = connections.enter_context(peer.greeted(address, streams))
        elif state == "asked, no data connection":
            session = connections.enter_context(peer.greeted(address, 0))
            session.say(peer.put_request(b"in/"))
        elif state in {"offered by the server", "answered", "got by half"}:
            session = connections.enter_context(peer.get(address, b"file"))
            session.hear(peer.OFFER)
            if state != "offered by the server":
                missing = peer.missing(0) if state == "answered" else peer.missing(0, (1, 1))
                session.say(peer.answers(missing))
            if state == "got by half":
                peer.take(session.data, 1)
        else:
            streams = 2 if state == "finished, a connection ended" else 1
            session = connections.enter_context(peer.put(address, b"in/", streams=streams))
            put_until(session, state, file)
        connections.pop_all()
        return session


def put_until(session, state, file):
    if state == "accepted":
        return
    session.say(peer.message(peer.BEGIN, b"\0"))
    if state == "begun":
        return
    size = 4096 if state == "small offered" else 3 * MIB
    session.say(peer.offer(0, peer.entry(file, size)))
    session.hear(peer.ANSWERS)
    if state == "half a chunk":
        session.data.sendall(peer.header(1, 0, 0, MIB) + bytes(1000))
    elif state.startswith("finished"):
        session.say(peer.message(peer.FINISH))
    if state == "finished, a connection ended":
        session.streams[1].sendall(peer.END)


def signs(state, way, turn):
    """What such a client says this time in its control and in a data connection."""
    ping = peer.message(peer.PING)
    rising = struct.pack(">Q", turn)
    slow = SLOW if state == "half a chunk" else peer.chunk(0, bytes(4096))
    return {
        "pings": (ping, b""),
        "totals": (peer.message(peer.TOTALS, rising + rising + b"\0"), b""),
        "control bytes": (peer.message(peer.TOTALS, bytes(1000))[turn : turn + 1], b""),
        "data bytes": (ping, slow[turn : turn + 1]),
        "failures": (peer.failed(peer.UNNUMBERED, 1, b"x"), b""),
        # Content of files that nobody offered.
        "unasked": (ping, peer.chunk(10**6 + turn, b"x")),
        "durable": (peer.message(peer.PROGRESS, rising + rising), b""),
        # The file has two chunks of three already, each time anew.
        "again": (peer.answers(peer.missing(0, (1, 1))), b""),
    }[way]


class Dawdlers(threading.Thread):
    """Say that they live, hear nothing, and wait for nobody."""

    def __init__(self, sessions) -> None:
        super().__init__(daemon=True)
        self.sessions, self.ended = sessions, threading.Event()

    def run(self) -> None:
        for turn in itertools.count():
            for (state, way, _), session in list(self.sessions.items()):
                control, data = signs(state, way, turn)
                send_now(session.control, control)
                for connection in session.streams[:1]:
                    send_now(connection, data)
            if self.ended.wait(IDLE_S / 10):
                return

    def __enter__(self):
        self.start()
        return self

    def __exit__(self, *_) -> None:
        self.ended.set()
        self.join(timeout=PATIENCE_S)
        for session in self.sessions.values():
            session.close()


def send_now(connection, what):
    connection.setblocking(False)
    # Whoever was put out cannot say anything, and a full connection shows life as it is.
    with contextlib.suppress(OSError):
        connection.send(what)


def is_open(connection):
    """Whether its other end has not closed it, behind all that it said."""
    connection.setblocking(False)
    try:
        while connection.recv(1 << 16):
            pass
    except BlockingIOError:
        return True
    except OSError:
        return False
    return False


def within(address, state, number):
    """As `reach`, and anew where this machine was so slow that the session was ended on its way."""

    def reached():
        with contextlib.suppress(EOFError, OSError):
            return reach(address, state, number)

    return poll(reached, PATIENCE_S)


def counts_at_rest(server):
    """Once it has its own threads, which wait for guests, watch them, sweep and log."""
    poll(lambda: counts(server)[0] >= 5)
    return counts(server)


def counts(server):
    """Threads and descriptors."""
    process = Path(f"/proc/{server.process.pid}")
    return len(list((process / "task").iterdir())), len(list((process / "fd").iterdir()))


def are_as(server, before):
    return all(now <= then for now, then in zip(counts(server), before, strict=True))


def address_of(server):
    host, port = server.listen.rsplit(":", 1)
    return host, int(port)


@pytest.fixture(scope="module")
def root(tmp_path_factory):
    root = tmp_path_factory.mktemp("root")
    (root / "file").write_bytes(os.urandom(3 * MIB))
    return root


@pytest.fixture
def server(serve, root):
    return serve("--root", root, "--insecure", "--idle", f"{IDLE_S} s")


def test_whoever_does_nothing_in_a_session_ends_whatever_was_said(server, root):
    """All at once: each state with each way to seem alive."""
    before = counts_at_rest(server)
    sessions = {}
    with Dawdlers(sessions):
        for number, (state, way) in enumerate(itertools.product(STATES, WAYS)):
            sessions[state, way, number] = within(address_of(server), state, number)

        def goes_on():
            return [key for key, session in sessions.items() if is_open(session.control)]

        with contextlib.suppress(AssertionError):
            poll(lambda: not goes_on(), PATIENCE_S)
        left = [f"{way} in {state}" for state, way, _ in goes_on()]
        assert not left, "; ".join(left)
        # The server has closed its ends while the peers still hold theirs.
        poll(lambda: are_as(server, before), PATIENCE_S)

    def served():
        done = weir("get", f"{server.listen}/file", root / "copy", "--insecure")
        return done.returncode == 0

    # Whoever this machine keeps from its session for a second is put out of it as they were.
    poll(served, PATIENCE_S)


def test_a_known_client_ends_as_a_stranger_does(serve, root, tmp_path):
    keys_init(tmp_path / "keys")
    server = serve("--root", root, "--keys", tmp_path / "keys", "--idle", f"{IDLE_S} s")
    before = counts_at_rest(server)
    dial = functools.partial(wire_peer.dial, keys=tmp_path / "keys")
    session = peer.greeted(address_of(server), dial=dial)
    session.say(peer.put_request(b"in/"))
    session.say(peer.message(peer.BEGIN, b"\0"), peer.message(peer.FINISH))
    with Dawdlers({("finished", "data bytes", 0): session}):
        poll(lambda: are_as(server, before), PATIENCE_S)


class Steps:
    """The times of a client's steps, which tell whether this machine kept up with them."""

    attempts = itertools.count()

    def __init__(self) -> None:
        self.attempt = next(self.attempts)
        self.begun = [time.monotonic()]
        self.pause = threading.Event()

    def next(self) -> int:
        """Goes on to the next step, a moment after the last one was answered."""
        self.pause.wait(IDLE_S / 20)
        self.begun.append(time.monotonic())
        return len(self.begun) - 2

    def are_enough(self) -> bool:
        """They took three times as long as a session may be idle."""
        return self.begun[-1] - self.begun[0] > 3 * IDLE_S

    def kept_up(self) -> bool:
        """Whatever the server did at a step, it did before the next one was answered: it was
        never idle for too long if any three steps were less apart."""
        times = [self.begun[0]] * 2 + [*self.begun, time.monotonic()]
        gaps = [later - earlier for earlier, later in zip(times, times[3:], strict=False)]
        return max(gaps) < IDLE_S


def puts(address, root, steps):
    """One small file a step, each of which the server says it has."""
    stored = f"slow-{steps.attempt}"
    with peer.put(address, f"{stored}/".encode()) as session:
        session.say(peer.message(peer.BEGIN, b"\0"))
        while not steps.are_enough():
            number = steps.next()
            session.say(peer.offer(number, peer.entry(b"%d" % number, 4)))
            session.hear(peer.ANSWERS)
            session.data.sendall(peer.chunk(number, b"%4d" % number))
            session.hear(peer.COMMITTED)
        session.say(peer.message(peer.FINISH))
        session.data.sendall(peer.END)
        session.hear(peer.FINISHED)
    contents = {path.name: path.read_bytes() for path in (root / stored).iterdir()}
    assert contents == {str(one): b"%4d" % one for one in range(number + 1)}


def gets(address, root, steps):
    """One small file a step, of those that the server offers, until there is none."""
    with peer.get(address, b"many") as session:
        offered = 0
        while not steps.are_enough():
            number = steps.next()
            while number >= offered:
                _, body = session.hear(peer.OFFER)
                offered += int.from_bytes(body[8:12], "big")
            session.say(peer.answers(peer.missing(number, (0, 1))))
            frame = peer.take(session.data, 32 + 4 + 40)
            assert frame[32:36] == (root / "many" / "0").read_bytes()


def test_a_transfer_that_goes_on_is_not_cut_however_long_it_takes(server, root):
    """Without a retry; only where this machine stood still for so long is it tried anew."""
    (root / "many").mkdir(exist_ok=True)
    for name in range(100):
        (root / "many" / f"{name}").write_bytes(b"same")

    def went_on(transfer):
        steps = Steps()
        try:
            transfer(address_of(server), root, steps)
        except (EOFError, OSError):
            assert not steps.kept_up()
            return False
        return True

    with ThreadPoolExecutor() as both:
        ways = both.map(lambda way: poll(lambda: went_on(way), PATIENCE_S), [puts, gets])
        assert list(ways) == [True, True]
