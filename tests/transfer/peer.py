"""A peer of the mover's protocol (docs/transfer-protocol.md) that says what a test wants.

Version 1 of the protocol, which both ends must go on serving, unless a test says another.
"""

import contextlib
import socket
import struct
import time

from blake3 import blake3

CONTROL, DATA = 0, 1
HELLO, WELCOME, FAILURE, PUT, GET, READY = 1, 2, 3, 16, 17, 18
BEGIN, OFFER, ANSWERS, RECEIVED, COMMIT, COMMITTED, FILE_FAILED = 32, 33, 34, 35, 36, 37, 38
PROGRESS, TOTALS, LINKS, DIRECTORIES, FINISH, FINISHED, PING = 39, 40, 41, 42, 43, 44, 50
JOINED = 51
SUPPLY, ASK, DEALT, RETURN, WANT, SET_RATE = 21, 60, 61, 62, 63, 48
ASSIST, LEND, LENT, WRITTEN, UNSEEN, TAKE_BACK, LEASE, OPENED, STORED = 20, *range(52, 60)
UNNUMBERED = 2**64 - 1
MTIME_NS = 1_700_000_000_000_000_000
# However slow this machine is, no answer takes longer.
PATIENCE_S = 30


def check(data: bytes) -> bytes:
    return blake3(data).digest()[:8]


def message(kind: int, body: bytes = b"") -> bytes:
    fields = bytes([kind]) + body
    return struct.pack(">I", len(fields) + 8) + fields + check(fields)


def text(value: bytes) -> bytes:
    return struct.pack(">H", len(value)) + value


def listed(items: list[bytes]) -> bytes:
    return struct.pack(">I", len(items)) + b"".join(items)


def hello(role: int, token: bytes = bytes(16)) -> bytes:
    return message(HELLO, b"WEIRMOVE" + struct.pack(">HB", 1, role) + token)


def options(hashing: int = 1, streams: int = 1) -> bytes:
    return struct.pack(">BBBQ", hashing, 0, 0, 2**64 - 1) + text(b"") + struct.pack(">H", streams)


def entry(
    path: bytes, size: int, *, mtime_ns: int = MTIME_NS, mode: int = 0o644, sparse: int = 0
) -> bytes:
    return text(path) + struct.pack(">QqHB", size, mtime_ns, mode, sparse)


def offer(first: int, *entries: bytes) -> bytes:
    return message(OFFER, struct.pack(">Q", first) + listed(list(entries)))


def missing(number: int, *runs: tuple[int, int]) -> bytes:
    """What is missing of a file on offer: runs of chunks, each by its first and its count."""
    packed = listed([struct.pack(">QQ", first, count) for first, count in runs])
    return struct.pack(">QB", number, 1) + packed


def answers(*files: bytes) -> bytes:
    return message(ANSWERS, listed(list(files)))


def failed(number: int, code: int, words: bytes) -> bytes:
    return message(FILE_FAILED, struct.pack(">QB", number, code) + text(words))


def header(kind: int, number: int, offset: int, length: int) -> bytes:
    fields = struct.pack(">B3xIQQ", kind, length, number, offset)
    return fields + check(fields)


def chunk(number: int, data: bytes, offset: int = 0, digest: bytes | None = None) -> bytes:
    """A frame of content; the hash is that of a file of one chunk unless given."""
    digest = blake3(data).digest() if digest is None else digest
    return header(1, number, offset, len(data)) + data + struct.pack(">B7x", 1) + digest


END = header(3, 0, 0, 0)


class Peer:
    """A control connection and its data connections, of which most sessions have one."""

    def __init__(self, control: socket.socket, *streams: socket.socket) -> None:
        self.control, self.streams = control, streams
        for connection in (control, *streams):
            connection.settimeout(PATIENCE_S)

    def __enter__(self) -> "Peer":
        return self

    def __exit__(self, *_) -> None:
        self.close()

    def close(self) -> None:
        for connection in (self.control, *self.streams):
            connection.close()

    @property
    def data(self) -> socket.socket:
        return self.streams[0]

    def say(self, *messages: bytes) -> None:
        self.control.sendall(b"".join(messages))

    def hear(self, *kinds: int) -> tuple[int, bytes]:
        """The next message of one of these kinds; others are passed over, but not for ever."""
        end = time.monotonic() + PATIENCE_S
        while time.monotonic() < end:
            kind, body = hear(self.control)
            if kind in kinds:
                return kind, body
        raise TimeoutError(f"none of {kinds} within {PATIENCE_S} s")


def hear(connection: socket.socket) -> tuple[int, bytes]:
    (length,) = struct.unpack(">I", take(connection, 4))
    body = take(connection, length)
    assert check(body[:-8]) == body[-8:]
    return body[0], body[1:-8]


def take(connection: socket.socket, count: int) -> bytes:
    taken = b""
    while len(taken) < count:
        more = connection.recv(count - len(taken))
        if not more:
            raise EOFError(f"closed after {len(taken)} of {count} bytes")
        taken += more
    return taken


def dial(address: tuple[str, int]) -> socket.socket:
    return socket.create_connection(address, timeout=PATIENCE_S)


def greeted(address: tuple[str, int], streams: int = 1, dial=dial, version: int = 1) -> Peer:
    """A session with a server, nothing asked for; `dial` makes a connection."""
    with contextlib.ExitStack() as opened:
        control = opened.enter_context(dial(address))
        control.sendall(hello(CONTROL, struct.pack(">H14x", version)))
        kind, body = hear(control)
        assert kind == WELCOME
        joined = []
        for _ in range(streams):
            data = opened.enter_context(dial(address))
            data.sendall(hello(DATA, body[2:18]))
            assert take(data, 1) == b"\1"
            joined.append(data)
        # Who was not greeted leaves nothing open here.
        opened.pop_all()
        return Peer(control, *joined)


def client(address: tuple[str, int], request: bytes, streams: int = 1) -> Peer:
    """A session with a server, its request accepted."""
    with contextlib.ExitStack() as opened:
        peer = opened.enter_context(greeted(address, streams))
        peer.say(request)
        peer.hear(READY)
        opened.pop_all()
        return peer


def put_request(destination: bytes, **choices: int) -> bytes:
    return message(PUT, text(destination) + options(**choices))


def put(address: tuple[str, int], destination: bytes, **choices: int) -> Peer:
    """A session in which the server receives."""
    return client(address, put_request(destination, **choices), choices.get("streams", 1))


def get(address: tuple[str, int], source: bytes, **choices: int) -> Peer:
    """A session in which the server sends."""
    request = message(GET, listed([text(source)]) + options(**choices))
    return client(address, request, choices.get("streams", 1))


class Listener:
    """A server of one session."""

    def __init__(self) -> None:
        self.socket = socket.create_server(("127.0.0.1", 0))
        self.place = "{}:{}".format(*self.socket.getsockname())

    def __enter__(self) -> "Listener":
        return self

    def __exit__(self, *_) -> None:
        self.socket.close()

    def accept(self, version: int = 1) -> Peer:
        """The session of the client that connects, its request accepted."""
        with contextlib.ExitStack() as opened:
            control = opened.enter_context(self.socket.accept()[0])
            assert hear(control)[0] == HELLO
            welcome = struct.pack(">H16sH", version, b"T" * 16, 64)
            control.sendall(message(WELCOME, welcome))
            data = opened.enter_context(self.socket.accept()[0])
            assert hear(data)[0] == HELLO
            data.sendall(b"\1")
            peer = Peer(control, data)
            peer.hear(PUT, GET, SUPPLY, ASSIST)
            peer.say(message(READY))
            # Who had no request leaves nothing open here.
            opened.pop_all()
            return peer
