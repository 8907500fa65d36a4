"""A peer that speaks the wire protocol (docs/transfer-protocol.md) and says what it likes."""

import contextlib
import socket
import ssl
import struct
import threading
from pathlib import Path

from peer import (
    ANSWERS,
    BEGIN,
    CONTROL,
    DATA,
    DIRECTORIES,
    END,
    FAILURE,
    FILE_FAILED,
    FINISHED,
    GET,
    LINKS,
    MTIME_NS,
    OFFER,
    PUT,
    READY,
    WELCOME,
    chunk,
    hear,
    hello,
    listed,
    message,
    options,
    take,
    text,
)

__all__ = [
    "ANSWERS",
    "CONTROL",
    "END",
    "FAILURE",
    "FILE_FAILED",
    "FINISHED",
    "PUT",
    "READY",
    "HostileServer",
    "begin",
    "chunk",
    "dial",
    "directories",
    "get",
    "hello",
    "links",
    "message",
    "offer",
    "options",
    "put",
    "read",
    "read_until",
    "session",
    "text",
]


def put(destination: bytes) -> bytes:
    return message(PUT, text(destination) + options())


def get(*sources: bytes) -> bytes:
    return message(GET, listed([text(source) for source in sources]) + options())


def begin(single: bool = False) -> bytes:
    return message(BEGIN, bytes([single]))


def offer(first: int, files: list[tuple[bytes, int]], sparse: bool = False) -> bytes:
    rest = struct.pack(">qHB", MTIME_NS, 0o644, sparse)
    entries = [text(path) + struct.pack(">Q", size) + rest for path, size in files]
    return message(OFFER, struct.pack(">Q", first) + listed(entries))


def links(pairs: list[tuple[bytes, bytes]]) -> bytes:
    return message(LINKS, listed([text(path) + text(target) for path, target in pairs]))


def directories(modes: list[tuple[bytes, int]]) -> bytes:
    entries = [text(path) + struct.pack(">qH", MTIME_NS, mode) for path, mode in modes]
    return message(DIRECTORIES, listed(entries))


def failure(code: int, words: bytes) -> bytes:
    return message(FAILURE, bytes([code]) + text(words))


read = hear


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
        control.sendall(hello(CONTROL))
        kind, body = read(control)
        assert kind == WELCOME
        data.sendall(hello(DATA, body[2:18]))
        assert take(data, 1) == b"\1"
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
            welcome = struct.pack(">H16sH", 1, b"T" * 16, 64)
            control.sendall(message(WELCOME, welcome))
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
