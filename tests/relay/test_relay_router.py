"""`weir relay` on routers, by the commands of docs/relay.md: nobody knows that it is there."""

import contextlib
import json
import os
import shlex
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from linked_rig import PATIENCE_S, acknowledged, received, until
from router_rig import CLIENT, SERVER, Node, commands, row, sixth

from weir.relay import control, hold

WEIR = f"{sys.executable} -m weir.cli "
needs_holding = pytest.mark.skipif(hold.lacking() is not None, reason=f"{hold.lacking()}")


@pytest.fixture
def nodes() -> Iterator[dict[str, Node]]:
    with row() as found:
        yield found


@contextlib.contextmanager
def operated(node: Node, lines: list[str], *options: str) -> Iterator[None]:
    """What an operator has typed, the last line being a relay, with more options."""
    for line in lines[:-1]:
        node.run(line)
    command = lines[-1].replace("weir ", WEIR, 1)
    process = node.start(*shlex.split(command), *options, "--json")
    try:
        assert process.stdout
        assert json.loads(process.stdout.readline())["event"] == "listening"
        yield
    finally:
        process.send_signal(signal.SIGTERM)
        assert process.wait(PATIENCE_S) == 0
        process.stdout.close()


def alone(*options: str) -> list[str]:
    """The page's way for one relay."""
    return [*commands("join")[:-1], f"weir relay proxy --listen 0.0.0.0:7600 {' '.join(options)}"]


def of_ipv6(lines: list[str]) -> list[str]:
    """The same commands for IPv6, as the page says how."""
    changes = {
        " ip weir": " ip6 weir",
        "icmp ": "icmpv6 ",
        "ip daddr 10.2.0.0/16": "ip6 daddr fd00:10:2::/48",
        "ip rule": "ip -6 rule",
        "ip route": "ip -6 route",
        "0.0.0.0/0": "::/0",
        "0.0.0.0:": "[::]:",
        "10.2.0.1:7500": f"[{sixth('10.2.0.1')}]:7500",
        "--from 10.1.0.0/16": "--from fd00:10:1::/48",
        "--to 10.2.0.0/16:443": "--to [fd00:10:2::/48]:443",
    }
    found = []
    for line in lines:
        for before, after in changes.items():
            line = line.replace(before, after)
        found.append(line)
    return found


@contextlib.contextmanager
def connected(
    nodes: dict[str, Node], port: int = 443, server_at: str = SERVER
) -> Iterator[tuple[socket.socket, socket.socket]]:
    """The client's end and the server's of a connection to a port of the server."""
    family = socket.AF_INET6 if ":" in server_at else socket.AF_INET
    listener = nodes["server"].do(
        lambda: socket.create_server(("", port), family=family, reuse_port=True)
    )
    with listener:
        listener.settimeout(PATIENCE_S)
        client = nodes["client"].do(lambda: socket.create_connection((server_at, port), PATIENCE_S))
        with client, listener.accept()[0] as server:
            client.settimeout(PATIENCE_S)
            server.settimeout(PATIENCE_S)
            yield client, server


def exchange(client: socket.socket, server: socket.socket, size: int = 3_000_000) -> None:
    """Something whole, each way, and the ends."""
    there, back = os.urandom(size), os.urandom(size // 3)

    def send(end: socket.socket, data: bytes) -> None:
        end.sendall(data)
        end.shutdown(socket.SHUT_WR)

    for ours, theirs, data in ((client, server, there), (server, client, back)):
        thread = threading.Thread(target=send, args=(ours, data), daemon=True)
        thread.start()
        got = bytearray()
        while block := theirs.recv(1 << 18):
            got += block
        assert got == data
        thread.join(PATIENCE_S)


def seen(server: socket.socket) -> str:
    """Whom a server takes for its client."""
    address: str = server.getpeername()[0]
    return address


def test_a_relay_on_a_router_is_not_seen_by_either_end(nodes):
    with operated(nodes["near"], alone("--as-client")):
        with connected(nodes) as (client, server):
            assert client.getpeername() == (SERVER, 443)
            # Neither is the port another one: the server's peer is the client.
            assert server.getpeername() == client.getsockname()
            exchange(client, server)
        # What is not for that port goes by.
        with connected(nodes, 80) as (client, server):
            assert server.getpeername() == client.getsockname()
            exchange(client, server, 1_000)
    # Nor is it missed when it is gone.
    with connected(nodes) as (client, server):
        assert server.getpeername() == client.getsockname()
        exchange(client, server, 1_000)


def test_without_as_client_servers_see_the_router(nodes):
    with operated(nodes["near"], alone()), connected(nodes) as (client, server):
        assert seen(server) == "10.1.9.1"
        exchange(client, server)


def test_packets_that_are_too_long_behind_the_router_are_noticed(nodes):
    # Neither end of any device knows: the far router alone, which says so to the packets' source.
    nodes["far"].run("ip route change 10.2.0.0/24 dev server mtu 1300")
    with operated(nodes["near"], alone("--as-client")), connected(nodes) as (client, server):
        exchange(client, server)


@pytest.mark.parametrize("linked", [None, pytest.param("strict", marks=needs_holding)])
@pytest.mark.parametrize("ip", ["IPv4", "IPv6"])
def test_connections_are_joined_between_two_routers(nodes, tmp_path, linked, ip):
    path = tmp_path / "join.sock"
    options = ["--control", str(path), *(["--linked-ack", linked] if linked else [])]
    change = of_ipv6 if ip == "IPv6" else list
    client_at, server_at = (sixth(CLIENT), sixth(SERVER)) if ip == "IPv6" else (CLIENT, SERVER)
    with (
        operated(nodes["far"], change(commands("split"))),
        operated(nodes["near"], change(commands("join")), *options),
    ):
        until(lambda: control.ask(path, {})["is_connected"], "an aggregate")
        with connected(nodes, server_at=server_at) as (client, server):
            assert (seen(server), client.getpeername()[0]) == (client_at, server_at)
            with watched(client, server) as beyond:
                exchange(client, server)
            if linked:
                assert beyond and max(beyond) <= 0
                until(lambda: acknowledged(client) == 3_000_001, "all, and its end")
        until(lambda: control.ask(path, {})["ended"] == 1, "it has ended in order")
        assert control.ask(path, {})["reasons"] == []


@contextlib.contextmanager
def watched(client: socket.socket, server: socket.socket) -> Iterator[list[int]]:
    """How many bytes a client has been acknowledged beyond what its server has, look by look."""
    beyond: list[int] = []
    stop = threading.Event()

    def look() -> None:
        while not stop.is_set() or not beyond:
            known = acknowledged(client)
            beyond.append(known - received(server))

    thread = threading.Thread(target=look, daemon=True)
    thread.start()
    try:
        yield beyond
    finally:
        stop.set()
        thread.join(PATIENCE_S)


def test_a_split_end_that_is_gone_resets_clients(nodes, tmp_path):
    path = tmp_path / "join.sock"
    with operated(nodes["near"], commands("join"), "--control", str(path)):
        with pytest.raises(ConnectionError):
            reaching = (SERVER, 443), PATIENCE_S
            with nodes["client"].do(lambda: socket.create_connection(*reaching)) as client:
                client.recv(1)
        words = "there is no aggregate"
        until(lambda: any(words in x for x in control.ask(path, {})["reasons"]), "it is said")


def test_nobody_but_the_relays_user_can_take_its_port(tmp_path, monkeypatch):
    """A name that any user might have taken first is none."""
    monkeypatch.setenv("WEIR_RUNTIME_DIR", str(tmp_path / "run"))
    if missing := hold.lacking():
        pytest.skip(missing)
    with socket.socket(socket.AF_UNIX) as other:
        other.bind("\0weir-hold-7600")
        command = [sys.executable, "-m", "weir.cli", "relay", "clear", "7600"]
        subprocess.run(command, check=True, timeout=PATIENCE_S)
    folder = tmp_path / "run" / ".relays"
    assert [oct(x.stat().st_mode & 0o777) for x in (folder.parent, folder)] == ["0o700"] * 2
    assert list(folder.iterdir()) == []
    folder.parent.chmod(0o777)
    told = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE_S)
    assert told.returncode == 2 and "may be written by others" in told.stderr


def test_a_lock_is_held_by_one_and_let_go_of(tmp_path):
    path: Path = tmp_path / "7600"
    first = hold._locked(path)
    assert first is not None and hold._locked(path) is None
    # Whoever waited for one that was removed meanwhile does not have it.
    path.unlink()
    second = hold._locked(path)
    assert second is not None and second != first
    assert hold._locked(path) is None
    os.close(second)
    again = hold._locked(path)
    assert again is not None
    for descriptor in (first, again):
        os.close(descriptor)
