"""An end of an aggregate whose process is stopped, while its kernel goes on to answer for it.

The other end gives it up within --heard-within, and resets whom it serves; `weir relay status` says
why. A server that reads nothing for longer than that is no such end.
"""

import contextlib
import signal
import socket
import subprocess
import threading
from collections.abc import Iterator

import pytest
from linked_rig import (
    PATIENCE_S,
    Ends,
    acknowledged,
    assert_reset,
    exactly,
    fill,
    listening,
    reasons,
    received,
    relayed,
    until,
)
from namespace_rig import namespace as namespace
from namespace_rig import tc

from weir.relay import hold

WITHIN_S = 5
WITHIN = ("--heard-within", str(WITHIN_S))
SILENT = f"has said nothing for {WITHIN_S} s"
STRICT = "strict" if hold.lacking() is None else None
"""With true acknowledgements where this machine can."""


@pytest.fixture
def alone(namespace):
    """A network namespace of this test's, where it may put filters."""
    tc("link", "set", "lo", "up", program="ip")


@contextlib.contextmanager
def stopped(process: "subprocess.Popen[str]") -> Iterator[None]:
    process.send_signal(signal.SIGSTOP)
    try:
        yield
    finally:
        process.send_signal(signal.SIGCONT)


@contextlib.contextmanager
def pair(ends: Ends, listener: socket.socket) -> Iterator[tuple[socket.socket, socket.socket]]:
    """A client, and its connection at the server."""
    with ends.client() as client, listener.accept()[0] as server:
        server.settimeout(PATIENCE_S)
        yield client, server


class Sending(threading.Thread):
    """Sends from one end to the other without a pause; `ended` has how each of them ended."""

    def __init__(self, client: socket.socket, server: socket.socket) -> None:
        super().__init__(daemon=True)
        self.ended: dict[str, OSError | None] = {}
        self._ends = client, server
        self._reader = threading.Thread(target=self._read, daemon=True)

    def run(self) -> None:
        self._reader.start()
        try:
            while True:
                self._ends[0].sendall(bytes(1 << 16))
        except OSError as error:
            self.ended["client"] = error

    def _read(self) -> None:
        self.ended["server"] = None
        try:
            while self._ends[1].recv(1 << 18):
                pass
        except OSError as error:
            self.ended["server"] = error

    def wait(self) -> None:
        """Until both have ended."""
        for thread in (self, self._reader):
            thread.join(PATIENCE_S)
            assert not thread.is_alive()


def broken(ends: Ends) -> int:
    told = ends.status()
    assert told["is_connected"]
    return told["broken"]


def test_who_waits_for_long_is_kept_and_who_is_stopped_is_given_up(tmp_path):
    with (
        listening() as listener,
        relayed(tmp_path, listener.getsockname()[1], None, more=WITHIN, of_split=WITHIN) as ends,
    ):
        with pair(ends, listener) as idle, pair(ends, listener) as full:
            fill(full[0])
            threading.Event().wait(WITHIN_S * 1.4)
            assert broken(ends) == 0
            idle[0].sendall(b"something")
            assert exactly(idle[1], 9) == b"something"
            with stopped(ends.split):
                for client, _ in (idle, full):
                    assert_reset(client)
                until(lambda: any(SILENT in x for x in reasons(ends.path)), "a reason")
            # Nor does anybody at the other side take it for an end in order.
            for _, server in (idle, full):
                assert_reset(server)
        until(lambda: ends.status()["is_connected"], "an aggregate again")

        def is_served() -> bool:
            with contextlib.suppress(ConnectionError), ends.client() as client:
                client.sendall(b"again")
                listener.settimeout(1)
                with contextlib.suppress(TimeoutError), listener.accept()[0] as server:
                    return exactly(server, 5) == b"again"
            return False

        until(is_served, "a client that is served again")


@pytest.mark.parametrize("end", ["join", "split"])
def test_an_end_that_is_stopped_under_load_is_given_up(alone, tmp_path, end):
    with (
        listening() as listener,
        relayed(tmp_path, listener.getsockname()[1], STRICT, more=WITHIN, of_split=WITHIN) as ends,
        pair(ends, listener) as (client, server),
    ):
        sending = Sending(client, server)
        sending.start()
        until(lambda: received(server) > 10_000_000, "a load")
        is_split = end == "split"
        left, path = ("client", ends.path) if is_split else ("server", ends.split_path)
        with stopped(ends.split if is_split else ends.join):
            until(lambda: isinstance(sending.ended.get(left), OSError), "it is reset")
            # What was on its way may be missed before a sign is.
            found = (SILENT, "no answer came")
            until(lambda: any(y in x for x in reasons(path) for y in found), "a reason")
        sending.wait()
        assert all(isinstance(x, ConnectionError) for x in sending.ended.values())
        if STRICT:
            assert acknowledged(client) <= received(server)
