"""A client or a server that is gone without a word: no end, no reset, nobody who answers.

The cable of its host is pulled. The kernel finds out by asking (keepalive), within what the relay
was told by --gone-after; whoever is left is then reset, and `weir relay status` says why.
"""

import contextlib
import socket
from collections.abc import Iterator

import pytest
from linked_rig import assert_reset, fill, reasons, until
from router_rig import CLIENT, SERVER, Node, commands, connected, operated, row

from weir.relay import control

AFTER = ("--gone-after", "5")
GONE = "its host is gone without a word"


@pytest.fixture
def nodes() -> Iterator[dict[str, Node]]:
    with row() as found:
        yield found


@pytest.mark.parametrize("gone", ["client", "server"])
def test_whoever_is_left_is_reset_and_told_why(nodes, tmp_path, gone):
    """Whether the one that is gone was silent, or its data had no room, or it had sent its end."""
    paths = {name: tmp_path / name for name in ("join", "split")}
    with contextlib.ExitStack() as stack:
        for node, name in (("far", "split"), ("near", "join")):
            words = ("--control", str(paths[name]), *AFTER)
            stack.enter_context(operated(nodes[node], commands(name), *words))
        until(lambda: control.ask(paths["join"], {})["is_connected"], "an aggregate")
        pairs = [stack.enter_context(connected(nodes)) for _ in range(3)]
        lost, left = zip(*(x if gone == "client" else x[::-1] for x in pairs), strict=True)
        lost[0].sendall(b"something")
        assert left[0].recv(100) == b"something"
        fill(lost[1])
        lost[2].shutdown(socket.SHUT_WR)
        assert left[2].recv(1) == b""
        nodes[gone].run(f"ip link set {'near' if gone == 'client' else 'far'} down")
        for end in left[:2]:
            assert_reset(end)
        near, other = ("join", "split") if gone == "client" else ("split", "join")
        for client, _ in pairs:
            why = f"{CLIENT}:{client.getsockname()[1]} to {SERVER}:443: {GONE}"
            until(lambda why=why: why in reasons(paths[near]), why)
            told = f"{why} (told by the other end)"
            until(lambda told=told: told in reasons(paths[other]), told)
        until(lambda: control.ask(paths["join"], {})["flows"] == [], "nothing is left")


def test_a_proxy_alone_gives_both_up(nodes, tmp_path):
    path = tmp_path / "proxy"
    lines = [*commands("join")[:-1], "weir relay proxy --listen 0.0.0.0:7600"]
    with operated(nodes["near"], lines, "--control", str(path), *AFTER):
        with connected(nodes) as idle, connected(nodes) as full:
            fill(full[0])
            nodes["client"].run("ip link set near down")
            for client, server in (idle, full):
                assert_reset(server)
                why = f"{CLIENT}:{client.getsockname()[1]} to {SERVER}:443: {GONE}"
                until(lambda why=why: why in reasons(path), why)
        assert control.ask(path, {})["flows"] == []
