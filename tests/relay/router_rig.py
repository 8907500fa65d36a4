"""A client, two routers and a server in a row, each a network namespace of its own.

    client 10.1.0.2 ── 10.1.0.1 near 10.1.9.1 ── 10.1.9.2 far 10.2.0.1 ── 10.2.0.9 server

Each has an IPv6 address, too, which begins with fd00: and ends alike.
"""

import contextlib
import ctypes
import ipaddress
import json
import os
import re
import shlex
import shutil
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from rig import PATIENCE_S

WEIR = f"{sys.executable} -m weir.cli "
NEAR, FAR, SERVER, CLIENT = "10.1.0.1", "10.2.0.1", "10.2.0.9", "10.1.0.2"
_PAGE = Path(__file__).parents[2] / "docs" / "relay.md"
_LIBC = ctypes.CDLL(None, use_errno=True)
_NEW_NETWORK = 0x40000000


class Node:
    """A network namespace, held by its `descriptor`."""

    def __init__(self, descriptor: int) -> None:
        self.descriptor = descriptor

    def do(self, work: Callable[[], Any]) -> Any:
        """What `work` returns when it is done in there; sockets stay there."""
        found: list[Any] = []
        failed: list[BaseException] = []

        def enter() -> None:
            try:
                assert _LIBC.setns(self.descriptor, _NEW_NETWORK) == 0
                found.append(work())
            except BaseException as error:
                failed.append(error)

        thread = threading.Thread(target=enter)
        thread.start()
        thread.join()
        if failed:
            raise failed[0]
        return found[0]

    def run(self, command: str, *descriptors: int) -> None:
        """A line of a shell, which must succeed, with these descriptors open."""
        words, passed = self._inside("sh", "-ec", command), [self.descriptor, *descriptors]
        done = subprocess.run(words, capture_output=True, text=True, pass_fds=passed)
        assert done.returncode == 0, f"{command}: {done.stderr}"

    def start(self, *words: str) -> "subprocess.Popen[str]":
        """A program that runs there."""
        return subprocess.Popen(
            self._inside(*words),
            stdout=subprocess.PIPE,
            text=True,
            pass_fds=[self.descriptor],
        )

    def _inside(self, *words: str) -> list[str]:
        return ["nsenter", f"--net=/proc/self/fd/{self.descriptor}", "--", *words]


def commands(first: str) -> list[str]:
    """The lines of the page's block of commands that end with one of `weir relay` and this word."""
    blocks = re.findall(r"```sh\n(.*?)```", _PAGE.read_text(), re.DOTALL)
    found = [x for x in blocks if "nft" in x and f"weir relay {first}" in x.splitlines()[-1]]
    assert len(found) == 1
    lines: list[str] = found[0].splitlines()
    return lines


def lacking() -> str | None:
    """What there can be no routers without."""
    if os.geteuid() != 0:
        return "root is needed"
    return None if shutil.which("nft") else "nft is not installed (Debian nftables)"


@contextlib.contextmanager
def row() -> Iterator[dict[str, Node]]:
    """The four of them, joined; all are gone at the end."""
    if missing := lacking():
        pytest.skip(missing)
    with contextlib.ExitStack() as held:
        nodes = {}
        for name in ("client", "near", "far", "server"):
            descriptor = _fresh()
            held.callback(os.close, descriptor)
            nodes[name] = Node(descriptor)
        cable(nodes, "client", CLIENT, "near", NEAR)
        cable(nodes, "near", "10.1.9.1", "far", "10.1.9.2")
        cable(nodes, "far", FAR, "server", SERVER)
        for name in ("near", "far"):
            nodes[name].run("sysctl -qw net.ipv4.ip_forward=1 net.ipv6.conf.all.forwarding=1")
        for name, via in (("client", NEAR), ("near", "10.1.9.2"), ("far", "10.1.9.1")):
            nodes[name].run(f"ip route add default via {via}")
            nodes[name].run(f"ip -6 route add default via {sixth(via)}")
        nodes["server"].run(f"ip route add default via {FAR}")
        nodes["server"].run(f"ip -6 route add default via {sixth(FAR)}")
        yield nodes


def sixth(address: str) -> str:
    """The IPv6 address of whoever has this one."""
    network, _, host = address.rpartition(".")
    return str(ipaddress.ip_address(f"fd00:{network.replace('.', ':')}::{host}"))


def _fresh() -> int:
    """A new network namespace, in which nothing runs."""
    made: list[int] = []

    def make() -> None:
        assert _LIBC.unshare(_NEW_NETWORK) == 0
        made.append(os.open("/proc/thread-self/ns/net", os.O_RDONLY | os.O_CLOEXEC))

    thread = threading.Thread(target=make)
    thread.start()
    thread.join()
    if not made:
        pytest.skip("no network namespace for this user")
    return made[0]


def cable(nodes: dict[str, Node], left: str, one: str, right: str, other: str) -> None:
    """A pair of devices between two, called as the other end."""
    there = nodes[right].descriptor
    ends = f"ip link add {right} type veth peer name {left} netns /proc/self/fd/{there}"
    nodes[left].run(ends, there)
    for name, device, address in ((left, right, one), (right, left, other)):
        nodes[name].run(
            f"ip link set lo up; ip address add {address}/24 dev {device};"
            f"ip -6 address add {sixth(address)}/80 dev {device} nodad; ip link set {device} up"
        )


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
            listener.close()  # The next one is another's.
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
