"""What labs with relays run: a server that counts, clients that write, and the relays."""

import contextlib
import subprocess
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import IO

from weir import python
from weir.errors import TransferFailed
from weir.lab import Lab
from weir.relay import control

# Counts what comes of each connection, which begins with four bytes that say whose it is, and tells
# all counts each second; at the end once more, with what its kernel still had.
SERVER = """
import json, selectors, socket, sys, time
ready = selectors.DefaultSelector()
listener = socket.create_server((sys.argv[1], int(sys.argv[2])), backlog=4096)
listener.setblocking(False)
ready.register(listener, selectors.EVENT_READ)
ready.register(sys.stdin, selectors.EVENT_READ)
names, counts, tell_at = {}, {}, time.monotonic()
print(flush=True)
while True:
    if time.monotonic() >= tell_at:
        print(json.dumps({"at": time.monotonic(), "bytes": counts}), flush=True)
        tell_at += 1
    for key, _ in ready.select(max(0, tell_at - time.monotonic())):
        if key.fileobj is sys.stdin:
            for connection in names:
                try:
                    while data := connection.recv(65536):
                        counts[names[connection]] += len(data)
                except OSError:
                    pass
            print(json.dumps({"at": time.monotonic(), "bytes": counts}), flush=True)
            raise SystemExit
        if key.fileobj is listener:
            client, _ = listener.accept()
            client.setblocking(False)
            ready.register(client, selectors.EVENT_READ)
            continue
        try:
            data = key.fileobj.recv(65536)
        except BlockingIOError:
            continue
        except OSError:
            data = b""
        if not data:
            ready.unregister(key.fileobj)
            key.fileobj.close()
            continue
        if key.fileobj not in names:
            if len(data) < 4:
                continue  # less than a name is not worth counting
            names[key.fileobj] = int.from_bytes(data[:4], "big")
        name = names[key.fileobj]
        counts[name] = counts.get(name, 0) + len(data)
"""
# Writes on so many connections as much as they take; told to end, says what the other end's kernel
# has acknowledged on each: tcpi_bytes_acked, less the SYN.
CLIENTS = """
import json, selectors, socket, sys
ready = selectors.DefaultSelector()
ready.register(sys.stdin, selectors.EVENT_READ)
clients = {}
for number in range(int(sys.argv[3]), int(sys.argv[4])):
    client = socket.create_connection((sys.argv[1], int(sys.argv[2])), 60)
    client.sendall(number.to_bytes(4, "big"))
    client.setblocking(False)
    clients[number] = client
    ready.register(client, selectors.EVENT_WRITE)
data = bytes(65536)
def acknowledged(client):
    told = client.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, 256)
    return max(0, int.from_bytes(told[120:128], "little") - 1)
while True:
    for key, _ in ready.select():
        if key.fileobj is sys.stdin:
            print(json.dumps({n: acknowledged(c) for n, c in clients.items()}), flush=True)
            raise SystemExit
        try:
            key.fileobj.send(data)
        except BlockingIOError:
            pass
        except OSError:
            ready.unregister(key.fileobj)
"""


@contextlib.contextmanager
def program(
    lab: Lab, host: str, source: str, *arguments: object
) -> Iterator["subprocess.Popen[str]"]:
    """A program in Python, which is killed in the end."""
    command = python.script(source, *map(str, arguments))
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
    # Ctrl-C at a terminal reaches all that are in its session.
    with lab.popen(host, command, text=True, start_new_session=True, **pipes) as process:
        try:
            yield process
        finally:
            process.kill()


@contextlib.contextmanager
def relay(lab: Lab, host: str, *arguments: str) -> Iterator["subprocess.Popen[str]"]:
    """`weir relay` with these arguments, which listens from the begin and is killed in the end."""
    command = python.program("weir.cli", "relay", *arguments, "--json")
    pipe = subprocess.PIPE
    with lab.popen(host, command, text=True, start_new_session=True, stdout=pipe) as process:
        try:
            heard(process)
            yield process
        finally:
            process.kill()


@contextlib.contextmanager
def join(
    lab: Lab, host: str, *arguments: str, control_at: Path | None = None
) -> Iterator["subprocess.Popen[str]"]:
    """`weir relay join`, which has its aggregate: clients that come before are reset.

    It answers at `control_at`, where that is given.
    """
    with tempfile.TemporaryDirectory() as folder:
        asked = control_at or Path(folder) / "join"
        with relay(lab, host, "join", *arguments, "--control", str(asked)) as process:
            while not control.ask(asked, {})["is_connected"]:
                time.sleep(0.05)
            yield process


def tell(process: "subprocess.Popen[str]") -> None:
    """Has a program do what it does when it is told to end."""
    pipe(process.stdin).write("\n")
    pipe(process.stdin).flush()


def heard(process: "subprocess.Popen[str]") -> str:
    """The next line that a program says.

    Raises:
        TransferFailed: it ended.
    """
    line = pipe(process.stdout).readline()
    if not line:
        raise TransferFailed("a program of the lab ended before its time")
    return line


def pipe(of: IO[str] | None) -> IO[str]:
    """A pipe that a program was started with."""
    assert of is not None, "it was started with a pipe"
    return of
