"""A relay on a router that holds acknowledgements, and whoever sends it what is made up.

Its filter knows connections by their SYN-ACKs, and a SYN may come from anybody.
"""

import contextlib
import random
import socket
import struct
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from linked_rig import acknowledged, received, until, watched
from router_rig import CLIENT, SERVER, Node, commands, connected, exchange, operated, row

from weir.relay import control, hold

needs_holding = pytest.mark.skipif(hold.lacking() is not None, reason=f"{hold.lacking()}")
# More than the filter can know of those that begin.
FLOOD = 140_000
# A network that nobody has, whose packets go to the client.
NOBODY = "198.18.0.0/15"
SYN, RST, ACK = 2, 4, 16


@pytest.fixture
def nodes() -> Iterator[dict[str, Node]]:
    with row() as found:
        found["near"].run(f"ip route add {NOBODY} via {CLIENT}")
        yield found


@contextlib.contextmanager
def strict(nodes: dict[str, Node], path: Path) -> Iterator[None]:
    words = ("--control", str(path), "--linked-ack", "strict")
    with (
        operated(nodes["far"], commands("split")),
        operated(nodes["near"], commands("join"), *words),
    ):
        until(lambda: control.ask(path, {})["is_connected"], "an aggregate")
        yield


def packet(
    source: bytes, target: bytes, ports: tuple[int, int], flags: int, *numbers: int
) -> bytes:
    """A packet of TCP without data, whose checksum is right."""
    sequence, acknowledged = numbers
    tcp = struct.pack("!HHIIBBHHH", *ports, sequence, acknowledged, 0x50, flags, 65_535, 0, 0)
    total = sum(struct.unpack("!14H", source + target + tcp)) + 6 + len(tcp)
    while total >> 16:
        total = (total & 0xFFFF) + (total >> 16)
    tcp = tcp[:16] + struct.pack("!H", ~total & 0xFFFF) + tcp[18:]
    # The kernel puts in the length and the checksum of this header.
    return struct.pack("!BBHHHBBH4s4s", 0x45, 0, 0, 0, 0, 64, 6, 0, source, target) + tcp


def send(packets: Iterator[bytes], to: str) -> None:
    """Sends them all, from here."""
    with socket.socket(socket.AF_INET, socket.SOCK_RAW, socket.IPPROTO_RAW) as raw:
        for one in packets:
            with contextlib.suppress(OSError):  # The interface takes no more just now.
                raw.sendto(one, (to, 0))


def flood(count: int) -> Iterator[bytes]:
    """First packets of connections, each from another address of nobody's."""
    chance, server = random.Random(5), socket.inet_aton(SERVER)
    begin = struct.unpack("!I", socket.inet_aton("198.18.0.0"))[0]
    for number in range(count):
        source = struct.pack("!I", begin + number % (1 << 17))
        ports = (chance.randrange(1_024, 65_536), 443)
        yield packet(source, server, ports, SYN, chance.getrandbits(32), 0)


def gathered(server: socket.socket, count: int) -> bytes:
    """So many bytes, or fewer at the end: a turn may carry a part of what was sent at once."""
    found = b""
    while len(found) < count and (piece := server.recv(count - len(found))):
        found += piece
    return found


def resident_kib(process_of: Path) -> int:
    """The memory of the relay whose control this is, by the kernel."""
    for one in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            if str(process_of) in (one / "cmdline").read_text():
                said = (one / "status").read_text()
                return int(said.partition("VmRSS:")[2].split()[0])
    raise AssertionError("the relay runs")


@needs_holding
def test_a_flood_takes_nothing_from_those_who_are_there(nodes, tmp_path):
    path = tmp_path / "join"
    with strict(nodes, path), connected(nodes) as (idle, idle_server):
        idle.sendall(b"before")
        assert gathered(idle_server, 6) == b"before"
        until(lambda: acknowledged(idle) == 6, "it is acknowledged")
        before_kib = resident_kib(path)
        work = threading.Thread(
            target=nodes["client"].do, args=(lambda: send(flood(FLOOD), SERVER),), daemon=True
        )
        with connected(nodes) as (client, server), watched(client, server) as beyond:
            work.start()
            exchange(client, server)
            work.join()
        assert beyond and max(beyond) <= 0
        # It has said nothing meanwhile, and is none of those that may be forgotten.
        idle.sendall(b" and after")
        assert gathered(idle_server, 10) == b" and after"
        until(lambda: acknowledged(idle) == 16, "it is acknowledged")
        assert received(idle_server) == 16
        # Nor is anybody kept out.
        with connected(nodes) as (client, server):
            exchange(client, server, 1_000)
        assert resident_kib(path) < before_kib + 32_768
        assert control.ask(path, {})["reasons"] == []


def fragments(whole: bytes, identity: int, first: int) -> Iterator[bytes]:
    """A packet in two parts, the first of which has so many bytes behind its header: eights."""
    more, header, rest = 0x2000, bytearray(whole[:20]), whole[20:]
    for place, part in ((more, rest[:first]), (first // 8, rest[first:])):
        header[4:8] = struct.pack("!HH", identity, place)
        yield bytes(header) + part


@needs_holding
def test_a_first_packet_in_fragments_begins_a_connection_as_a_whole_one_does(nodes, tmp_path):
    server, ours = socket.inet_aton(SERVER), socket.inet_aton(CLIENT)

    def answers(packets: list[bytes]) -> bool:
        seen = nodes["client"].do(
            lambda: socket.socket(socket.AF_PACKET, socket.SOCK_DGRAM, 0x0008)
        )
        with seen:
            seen.settimeout(0.5)
            nodes["client"].do(lambda: send(iter(packets), SERVER))
            with contextlib.suppress(TimeoutError):
                while found := seen.recv(128):
                    if found[12:16] == server and found[33] == SYN | ACK:
                        return True
        return False

    with strict(nodes, tmp_path / "join"):
        whole = packet(ours, server, (2_001, 443), SYN, 7, 0)
        assert answers([whole])
        first, second = fragments(packet(ours, server, (2_002, 443), SYN, 7, 0), 77, 16)
        assert not answers([first])
        assert answers([second])
        # What never becomes whole is nobody's, and others are served.
        with connected(nodes) as (client, served):
            exchange(client, served, 1_000)


@needs_holding
def test_what_is_made_up_on_the_way_to_a_client_changes_nothing(nodes, tmp_path):
    """A stranger beyond the router sends in the server's name: no more than the client gets."""
    path = tmp_path / "join"
    with strict(nodes, path), connected(nodes) as (client, server):
        client.sendall(b"before")
        assert server.recv(100) == b"before"
        until(lambda: acknowledged(client) == 6, "it is acknowledged")
        ends = socket.inet_aton(SERVER), socket.inet_aton(CLIENT)
        ports = (443, client.getsockname()[1])
        numbers = [(x << 28, y << 28) for x in range(16) for y in range(16)]
        made_up = [packet(*ends, ports, flags, *x) for flags in (SYN | ACK, ACK) for x in numbers]
        nodes["far"].do(lambda: send(iter(made_up), CLIENT))
        for _ in range(3):
            client.sendall(bytes(300_000))
            left = 300_000
            while left:
                left -= len(server.recv(left))
            server.sendall(b"thanks")
            assert client.recv(6) == b"thanks"
        until(lambda: acknowledged(client) == 900_006, "all of it")
        assert control.ask(path, {})["reasons"] == []
