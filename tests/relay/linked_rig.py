"""What tests of linked acknowledgements share: relays, and what kernels know of connections."""

import contextlib
import functools
import json
import signal
import socket
import subprocess
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
import rig
from relay_rig import WEIR
from rig import PATIENCE_S

from weir.relay import control

HERE = "127.0.0.1"
# Where struct tcp_info has what, from linux/tcp.h.
_STATE, _SENT_AGAIN, _ACKED, _RECEIVED = 0, 100, 120, 128
FIN_WAIT_1, CLOSED = 4, 7


def _info(connection: socket.socket, place: int, size: int) -> int:
    told = connection.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, 256)
    return int.from_bytes(told[place : place + size], "little")


def acknowledged(client: socket.socket) -> int:
    """What a client's kernel has been acknowledged, without the SYN; the FIN counts as one."""
    return max(0, _info(client, _ACKED, 8) - 1)


def received(server: socket.socket) -> int:
    """What a server's kernel has taken, in order; the FIN counts as one."""
    return _info(server, _RECEIVED, 8)


def sent_again(connection: socket.socket) -> int:
    """Segments that a kernel has sent again."""
    return _info(connection, _SENT_AGAIN, 4)


def state(connection: socket.socket) -> int:
    return _info(connection, _STATE, 1)


until = functools.partial(rig.until, every_s=0.001)
"""Looks more often: some of what is waited for here lasts for milliseconds."""


def fill(client: socket.socket) -> None:
    """Sends until nothing more is taken for a while."""
    client.setblocking(False)
    waited = 0
    while waited < 30:
        try:
            client.send(bytes(1 << 16))
            waited = 0
        except BlockingIOError:
            waited += 1
            threading.Event().wait(0.01)
    client.settimeout(PATIENCE_S)


def exactly(end: socket.socket, size: int) -> bytes:
    """The next so many bytes; MSG_WAITALL does not wait for them on a socket with a time-out."""
    got = b""
    while len(got) < size and (part := end.recv(size - len(got))):
        got += part
    return got


def reasons(path: Path) -> list[str]:
    """Why connections of a relay, and its aggregates, were broken."""
    told = control.ask(path, {})
    return [x for one in (told, *told.get("aggregates", ())) for x in one["reasons"]]


def assert_reset(end: socket.socket) -> None:
    """Reads until a connection is reset, which is to come before its end."""
    with pytest.raises(ConnectionResetError):
        while end.recv(1 << 18):
            pass


class Ends:
    """Both ends of an aggregate between clients and a server, as processes.

    Attributes:
        split, join: the processes.
        port: where clients connect.
        path, split_path: --control of the join end, and of the split end.
    """

    def __init__(
        self,
        folder: Path,
        server: int,
        linked: str | None,
        listen: str,
        more: tuple[str, ...],
        of_split: tuple[str, ...],
    ) -> None:
        self.path, self.split_path = folder / "join.sock", folder / "split.sock"
        to = f"{HERE}:{server}"
        far = ("--from", HERE, "--to", to, "--control", str(self.split_path))
        self.split, port = _started("split", *far, *of_split)
        told = () if linked is None else ("--linked-ack", linked)
        ends = ("--split", f"{HERE}:{port}", "--server", to, "--control", str(self.path))
        self.join, self.port = _started("join", *ends, *told, *more, listen=listen)
        until(lambda: self.status()["is_connected"], "an aggregate")

    def status(self):
        return control.ask(self.path, {})

    def seen(self, client: socket.socket, server: socket.socket) -> str:
        """What each side saw last, for a test that fails."""
        ends = {"join": self.status(), "split": control.ask(self.split_path, {})}
        kernels = {
            "client": {"acknowledged": acknowledged(client), "sent again": sent_again(client)},
            "server": {"received": received(server)},
        }
        for name, connection in (("client", client), ("server", server)):
            kernels[name]["state"] = state(connection)
        return json.dumps({**kernels, **ends}, indent=1)

    def client(self, to: str = HERE) -> socket.socket:
        client = socket.create_connection((to, self.port), PATIENCE_S)
        client.settimeout(PATIENCE_S)
        return client


def _started(*arguments: str, listen: str = HERE) -> tuple["subprocess.Popen[str]", int]:
    command = [*WEIR, *arguments, "--listen", f"{listen}:0", "--json"]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    assert process.stdout
    line = process.stdout.readline()
    assert line, f"it ended: {arguments}"
    return process, json.loads(line)["port"]


@contextlib.contextmanager
def relayed(
    folder: Path,
    server: int,
    linked: str | None,
    listen: str = HERE,
    more: tuple[str, ...] = (),
    of_split: tuple[str, ...] = (),
) -> Iterator[Ends]:
    """Relays that run until the block is left; then none is left, however it ended.

    `more` are options of the join end, `of_split` of the other one.
    """
    ends = Ends(folder, server, linked, listen, more, of_split)
    try:
        yield ends
    finally:
        for process in (ends.join, ends.split):
            if process.poll() is None:
                process.send_signal(signal.SIGTERM)
            process.wait(PATIENCE_S)
            assert process.stdout
            process.stdout.close()


@contextlib.contextmanager
def listening() -> Iterator[socket.socket]:
    with socket.create_server((HERE, 0)) as listener:
        listener.settimeout(PATIENCE_S)
        yield listener


@contextlib.contextmanager
def watched(client: socket.socket, server: socket.socket) -> Iterator[list[int]]:
    """How many bytes a client has been acknowledged beyond what its server has, look by look."""
    beyond: list[int] = []
    stop = threading.Event()

    def look() -> None:
        while not stop.is_set() or not beyond:
            known = acknowledged(client)
            beyond.append(known - received(server))
            time.sleep(1e-4)  # Else other threads get a turn each 5 ms, and a flood takes minutes.

    thread = threading.Thread(target=look, daemon=True)
    thread.start()
    try:
        yield beyond
    finally:
        stop.set()
        thread.join(PATIENCE_S)
