"""A peer that speaks the wire protocol as docs/transfer.md has it, and says what it likes."""

import contextlib
import socket
import ssl
import struct
import threading
from pathlib import Path

from blake3 import blake3

FAILURE, PUT, GET, READY = 3, 16, 17, 18
OFFER, ANSWERS, FILE_FAILED, LINKS, DIRECTORIES, FINISH, FINISHED = 33, 34, 38, 41, 42, 43, 44
MODIFIED_NS = 1_700_000_000_000_000_000


def check(data: bytes) -> bytes:
    return blake3(data).digest()[:8]


def message(kind: int, body: bytes = b"") -> bytes:
    fields = bytes([kind]) + body
    return struct.pack(">I", len(fields) + 8) + fields + check(fields)


def text(data: bytes) -> bytes:
    return struct.pack(">H", len(data)) + data


def listed(items: list[bytes]) -> bytes:
    return struct.pack(">I", len(items)) + b"".join(items)


def options(streams: int = 1) -> bytes:
    return struct.pack(">BBBQ", 1, 0, 0, 2**64 - 1) + text(b"") + struct.pack(">H", streams)


def hello(role: int = 0, token: bytes = bytes(16)) -> bytes:
    return message(1, b"WEIRMOVE" + struct.pack(">HB", 1, role) + token)


def put(destination: bytes) -> bytes:
    return message(PUT, text(destination) + options())


def get(*sources: bytes) -> bytes:
    return message(GET, listed([text(source) for source in sources]) + options())


def begin(single: bool = False) -> bytes:
    return message(32, bytes([single]))


def offer(first: int, files: list[tuple[bytes, int]], sparse: bool = False) -> bytes:
    rest = struct.pack(">qHB", MODIFIED_NS, 0o644, sparse)
    entries = [text(path) + struct.pack(">Q", size) + rest for path, size in files]
    return message(OFFER, struct.pack(">Q", first) + listed(entries))


def links(pairs: list[tuple[bytes, bytes]]) -> bytes:
    return message(LINKS, listed([text(path) + text(target) for path, target in pairs]))


def directories(modes: list[tuple[bytes, int]]) -> bytes:
    entries = [text(path) + struct.pack(">qH", MODIFIED_NS, mode) for path, mode in modes]
    return message(DIRECTORIES, listed(entries))


def failure(code: int, words: bytes) -> bytes:
    return message(FAILURE, bytes([code]) + text(words))


def frame(kind: int, file: int = 0, offset: int = 0, length: int = 0) -> bytes:
    fields = struct.pack(">B3xIQQ", kind, length, file, offset)
    return fields + check(fields)


END = frame(3)


def chunk(file: int, data: bytes) -> bytes:
    trailer = struct.pack(">B7x", 1) + blake3(data).digest()
    return frame(1, file, 0, len(data)) + data + trailer


def receive(stream: socket.socket, count: int) -> bytes:
    data = b""
    while len(data) < count:
        more = stream.recv(count - len(data))
        if not more:
            raise EOFError
        data += more
    return data


def read(stream: socket.socket) -> tuple[int, bytes]:
    """The next message: its kind and fields."""
    (length,) = struct.unpack(">I", receive(stream, 4))
    body = receive(stream, length)
    return body[0], body[1:-8]


def read_until(stream: socket.socket, *kinds: int) -> tuple[int, bytes]:
    """The next message of one of these kinds; raises `EOFError` if the peer goes first."""
    while True:
        kind, fields = read(stream)
        if kind in kinds:
            return kind, fields


def dial(address: tuple[str, int], keys: Path | None = None) -> socket.socket:
    stream = socket.create_connection(address, timeout=30)
    if keys is None:
        return stream
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.load_verify_locations(keys / "ca.pem")
    context.load_cert_chain(keys / "client.pem", keys / "client.key")
    return context.wrap_socket(stream, server_hostname="weir-server")


@contextlib.contextmanager
def session(address: tuple[str, int], keys: Path | None = None):
    """A client's control and data connection."""
    with dial(address, keys) as control, dial(address, keys) as data:
        control.sendall(hello())
        kind, body = read(control)
        assert kind == 2
        data.sendall(hello(1, body[2:18]))
        assert receive(data, 1) == b"\1"
        yield control, data


class HostileServer:
    """Answers one `get` with what `act(control, data)` sends; a context manager."""

    def __init__(self, act) -> None:
        self._listener = socket.create_server(("127.0.0.1", 0))
        self._listener.settimeout(30)
        self._act = act
        self._thread = threading.Thread(target=self._serve, daemon=True)

    @property
    def place(self) -> str:
        return f"127.0.0.1:{self._listener.getsockname()[1]}"

    def _serve(self) -> None:
        control, _ = self._listener.accept()
        with control:
            read(control)
            control.sendall(message(2, struct.pack(">H", 1) + b"T" * 16 + struct.pack(">H", 64)))
            data, _ = self._listener.accept()
            with data:
                read(data)
                data.sendall(b"\1")
                read(control)
                try:
                    self._act(control, data)
                except (OSError, EOFError):
                    return  # The client has gone, as it should.

    def __enter__(self):
        self._thread.start()
        return self

    def __exit__(self, *_) -> None:
        self._listener.close()
        self._thread.join(timeout=30)
