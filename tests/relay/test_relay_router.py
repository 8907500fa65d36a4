"""`weir relay` on routers, by the commands of docs/relay.md: nobody knows that it is there."""

import contextlib
import os
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from linked_rig import PATIENCE_S, acknowledged, assert_reset, exactly, until, watched
from router_rig import (
    CLIENT,
    SERVER,
    Node,
    cable,
    commands,
    connected,
    exchange,
    operated,
    row,
    sixth,
)

from weir.relay import control, hold

needs_holding = pytest.mark.skipif(hold.lacking() is not None, reason=f"{hold.lacking()}")


@pytest.fixture
def nodes() -> Iterator[dict[str, Node]]:
    with row() as found:
        yield found


def alone(*options: str) -> list[str]:
    """The page's way for one relay."""
    return [*commands("join")[:-1], f"weir relay proxy --listen 0.0.0.0:7600 {' '.join(options)}"]


def of_ipv6(lines: list[str]) -> list[str]:
    """The same commands for IPv6, as the page says how."""
    changes = {
        " ip weir": " ip6 weir",
        "icmp ": "icmpv6 ",
        "ip saddr": "ip6 saddr",
        "ip daddr": "ip6 daddr",
        "daddr 10.2.0.0/16": "daddr fd00:10:2::/48",
        "ipv4_addr": "ipv6_addr",
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
        assert server.getpeername() == client.getsockname()
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


@needs_holding
@pytest.mark.parametrize("lacking", ["tcp_timestamps", "tcp_sack", "tcp_window_scaling"])
def test_acknowledgements_are_held_whatever_options_a_client_lacks(nodes, tmp_path, lacking):
    path = tmp_path / "join.sock"
    nodes["client"].run(f"sysctl -qw net.ipv4.{lacking}=0")
    strict = ("--linked-ack", "strict", "--control", str(path))
    with (
        operated(nodes["far"], commands("split")),
        operated(nodes["near"], commands("join"), *strict),
    ):
        until(lambda: control.ask(path, {})["is_connected"], "an aggregate")
        with connected(nodes) as (client, server), watched(client, server) as beyond:
            exchange(client, server)
            assert beyond and max(beyond) <= 0
            until(lambda: acknowledged(client) == 3_000_001, "all, and its end")
        until(lambda: control.ask(path, {})["ended"] == 1, "it has ended in order")


@pytest.mark.parametrize("linked", [None, pytest.param("strict", marks=needs_holding)])
@pytest.mark.parametrize("ip", ["IPv4", "IPv6"])
def test_who_finds_next_to_no_room_goes_to_its_server_by_itself(nodes, tmp_path, linked, ip):
    path = tmp_path / "join.sock"
    options = ["--control", str(path), "--at-most", "4"]
    options += ["--linked-ack", linked] if linked else []
    change = of_ipv6 if ip == "IPv6" else list
    server_at = sixth(SERVER) if ip == "IPv6" else SERVER

    def flows() -> int:
        return len(control.ask(path, {})["flows"])

    def is_said(words: str) -> bool:
        return any(words in x for x in control.ask(path, {})["reasons"])

    def goes_on(client: socket.socket, server: socket.socket) -> None:
        for ours, theirs in ((client, server), (server, client)):
            ours.sendall(b"goes on")
            assert exactly(theirs, 7) == b"goes on"

    with (
        operated(nodes["far"], change(commands("split"))),
        operated(nodes["near"], change(commands("join")), *options),
    ):
        until(lambda: control.ask(path, {})["is_connected"], "an aggregate")
        with contextlib.ExitStack() as apart:
            with contextlib.ExitStack() as joined:
                pairs = [
                    joined.enter_context(connected(nodes, server_at=server_at)) for _ in range(3)
                ]
                until(lambda: is_said("next to full"), "it lets others by")
                past = apart.enter_context(connected(nodes, server_at=server_at))
                goes_on(*past)
                for pair in pairs:
                    goes_on(*pair)
                assert flows() == 3
                exchange(*pairs[0])
            until(lambda: flows() == 0 and is_said("there is room again"), "it takes others again")
            with connected(nodes, server_at=server_at) as (client, server):
                until(lambda: flows() == 1, "it is joined")
                exchange(client, server, 100_000)
            # Who has gone past the relay is none of those whom it takes.
            exchange(*past)
        until(lambda: control.ask(path, {})["ended"] >= 2, "those that were joined have ended")


def test_a_split_end_that_is_gone_resets_clients(nodes, tmp_path):
    path = tmp_path / "join.sock"
    with operated(nodes["near"], commands("join"), "--control", str(path)):
        with pytest.raises(ConnectionError):
            reaching = (SERVER, 443), PATIENCE_S
            with nodes["client"].do(lambda: socket.create_connection(*reaching)) as client:
                client.recv(1)
        words = "there is no aggregate"
        until(lambda: any(words in x for x in control.ask(path, {})["reasons"]), "it is said")


def test_a_server_whose_answers_come_back_another_way_resets_clients(nodes, tmp_path):
    """Its answers pass by the router that speaks to it in its clients' names (docs/relay.md)."""
    path = tmp_path / "proxy.sock"
    cable(nodes, "client", "10.7.0.1", "server", "10.7.0.2")
    nodes["server"].run("ip route add 10.1.0.0/24 via 10.7.0.1")
    with connected(nodes) as (client, server):
        exchange(client, server, 1_000)
    with operated(nodes["near"], alone("--as-client"), "--control", str(path)):
        listener = nodes["server"].do(lambda: socket.create_server(("", 443)))
        reaching = (SERVER, 443), PATIENCE_S
        with listener, nodes["client"].do(lambda: socket.create_connection(*reaching)) as client:
            assert_reset(client)
        words = "the server does not answer"
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
