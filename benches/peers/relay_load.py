"""What relays are loaded with: an echo server, and clients that wait, ask again and again, or ping.

Run as a program inside the benchmark's hosts; it needs nothing but Python.

    relay_load.py serve PORT
    relay_load.py idle HOST PORT COUNT            connections that have each exchanged a byte
    relay_load.py busy HOST PORT COUNT SECONDS    each sends, and sends again once it is answered
    relay_load.py ping HOST PORT COUNT            one byte at a time over one connection

`idle` says "held" and stays until its input ends; `busy` says "begun" when all are connected;
`busy` and `ping` end with a line of JSON.
"""

import json
import resource
import select
import socket
import statistics
import sys
import time
from collections.abc import Callable

BLOCK = 4_096
"""What a busy connection sends at a time, in bytes."""
PATIENCE_S = 120.0
# Handshakes under way at a time: no more than a listener's backlog.
_AT_ONCE = 100


def serve(port: int) -> None:
    """Sends back whatever comes, to everybody."""
    with socket.create_server(("0.0.0.0", port), backlog=4_096) as listener:
        listener.setblocking(False)
        poll, clients = select.epoll(), {}
        poll.register(listener, select.EPOLLIN)
        buffer = memoryview(bytearray(1 << 16))
        print("ready", flush=True)
        while True:
            for number, _ in poll.poll():
                if number == listener.fileno():
                    client = _accepted(listener)
                    if client is not None:
                        clients[client.fileno()] = client
                        poll.register(client, select.EPOLLIN)
                elif not _echoed(clients[number], buffer):
                    clients.pop(number).close()


def _accepted(listener: socket.socket) -> socket.socket | None:
    try:
        client = listener.accept()[0]
    except OSError:
        return None
    client.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return client


def _echoed(client: socket.socket, buffer: memoryview) -> bool:
    try:
        count = client.recv_into(buffer)
        # No more is under way than a client has sent, which is little.
        client.sendall(buffer[:count])
    except OSError:
        return False
    return count > 0


def connected(host: str, port: int, count: int) -> list[socket.socket]:
    """Connections that have each exchanged a byte with the server."""
    clients: list[socket.socket] = []
    while len(clients) < count:
        fresh = [
            socket.create_connection((host, port), PATIENCE_S)
            for _ in range(min(_AT_ONCE, count - len(clients)))
        ]
        for client in fresh:
            client.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            client.sendall(b"x")
        for client in fresh:
            if client.recv(1) != b"x":
                raise ConnectionError("a connection was closed")
        clients += fresh
    return clients


def idle(host: str, port: int, count: int) -> None:
    """Holds connections over which nothing goes."""
    clients = connected(host, port, count)
    print("held", flush=True)
    sys.stdin.read()
    for client in clients:
        client.close()


def busy(host: str, port: int, count: int, seconds: float) -> dict[str, float]:
    """Blocks that were sent and came back over all connections, a second."""
    clients = {client.fileno(): client for client in connected(host, port, count)}
    poll = select.epoll()
    block, buffer = bytes(BLOCK), bytearray(1 << 16)
    missing = dict.fromkeys(clients, BLOCK)
    for client in clients.values():
        poll.register(client, select.EPOLLIN)
        client.sendall(block)
    print("begun", flush=True)
    exchanges, begun = 0, time.perf_counter()
    while time.perf_counter() - begun < seconds:
        for number, _ in poll.poll(1.0):
            got = clients[number].recv_into(buffer)
            if not got:
                raise ConnectionError("a connection was closed")
            missing[number] -= got
            if not missing[number]:
                exchanges += 1
                missing[number] = BLOCK
                clients[number].sendall(block)
    return {"exchanges_per_s": exchanges / (time.perf_counter() - begun)}


def ping(host: str, port: int, count: int) -> dict[str, float]:
    """How long a byte takes there and back, in the median and at the 99th percentile."""
    (client,) = connected(host, port, 1)
    taken_ms = []
    for _ in range(count):
        begun = time.perf_counter()
        client.sendall(b"x")
        if not client.recv(1):
            raise ConnectionError("the connection was closed")
        taken_ms.append((time.perf_counter() - begun) * 1e3)
    taken_ms.sort()
    return {"p50_ms": statistics.median(taken_ms), "p99_ms": taken_ms[int(0.99 * count)]}


def main(argv: list[str]) -> None:
    """Does what the first word says."""
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    if argv[0] == "serve":
        serve(int(argv[1]))
        return
    kinds: dict[str, Callable[..., dict[str, float] | None]] = {
        "idle": idle,
        "busy": busy,
        "ping": ping,
    }
    told = kinds[argv[0]](argv[1], int(argv[2]), int(argv[3]), *map(float, argv[4:]))
    if told is not None:
        print(json.dumps(told), flush=True)


if __name__ == "__main__":
    main(sys.argv[1:])
