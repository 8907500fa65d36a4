"""Relays and servers that are killed under load: what clients were acknowledged and nobody has.

`python -m studies.rig.killed --kills 1000 --linked-ack strict` (root) kills the join end, the split
end and the server by chance, each at a random moment (003-spec section 2.7). A client's kernel
tells what it was acknowledged (TCP_INFO); what the server's kernel has acknowledged is read from
its packets, whoever is dead by then. All runs in a network namespace of its own.
"""

import argparse
import contextlib
import ctypes
import json
import os
import random
import select
import signal
import socket
import struct
import subprocess
import sys
import time
import traceback
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass, field

from weir import python
from weir._core import Relay
from weir.relay import hold

HERE = "127.0.0.1"
_SERVER, _SPLIT, _JOIN = 7601, 7501, 7602
VICTIMS = ("join", "split", "server")
CLIENTS = 6
_PATIENCE_S = 30.0
_SEEN_MAX = 64 << 20
_SO_ATTACH_FILTER, _SO_RCVBUFFORCE, _SOL_PACKET, _PACKET_STATISTICS, _ALL = 26, 33, 263, 6, 3
_BYTES_ACKED = slice(120, 128)  # in struct tcp_info


@dataclass
class Found:
    """What some kills brought.

    Attributes:
        kills: how many there were, by who was killed.
        acknowledged_bytes: to clients, when all had ended.
        undelivered_bytes: of these the server's kernel had not acknowledged.
        kills_with_loss: after which there were any.
        unseen: kills that do not count: packets went by unseen.
    """

    kills: dict[str, int] = field(default_factory=lambda: dict.fromkeys(VICTIMS, 0))
    acknowledged_bytes: int = 0
    undelivered_bytes: int = 0
    kills_with_loss: int = 0
    unseen: int = 0


def carry_out(kills: int, seed: int, linked: str | None) -> Found:
    """Kills so many, one after the other; in the network namespace of this process.

    Args:
        kills: how many.
        seed: of who is killed, when, and of what is sent.
        linked: "strict", "literal", "told" or None.
    """
    chance, found = random.Random(seed), Found()
    with _Programs(linked) as programs:
        for _ in range(kills):
            victim = chance.choice(VICTIMS)
            programs.begin()
            with packets_from(_SERVER) as packets:
                pairs = _one(programs, victim, chance)
                seen = _acknowledged_by_server(packets)
            if seen is None:
                found.unseen += 1
                continue
            lost = [max(0, told - seen.get(port, 0)) for port, told in pairs]
            found.kills[victim] += 1
            found.acknowledged_bytes += sum(told for _, told in pairs)
            found.undelivered_bytes += sum(lost)
            found.kills_with_loss += any(lost)
    return found


def _one(programs: "_Programs", victim: str, chance: random.Random) -> list[tuple[int, int]]:
    """One kill under load.

    Returns:
        Of each client the port from which its server's connection came, and what the client was
        acknowledged.
    """
    clients: dict[int, socket.socket] = {}
    with contextlib.ExitStack() as stack:
        for number in range(CLIENTS):
            client = stack.enter_context(socket.create_connection((HERE, _JOIN), _PATIENCE_S))
            client.sendall(number.to_bytes(4, "big"))
            client.setblocking(False)
            clients[number] = client
        ports = programs.ports(CLIENTS)
        left = {number: chance.randrange(1, 40_000_000) for number in clients}
        _send(clients, left, time.monotonic() + chance.uniform(0.0, 0.15))
        programs.kill(victim)
        for client in clients.values():
            _until_reset(client)
        return [(ports[number], _told(client)) for number, client in clients.items()]


def _send(clients: dict[int, socket.socket], left: dict[int, int], until_s: float) -> None:
    data = bytes(1 << 16)
    while (wait_s := until_s - time.monotonic()) > 0:
        open_ones = [client for number, client in clients.items() if left[number]]
        _, ready, _ = select.select([], open_ones, [], wait_s)
        for number, client in clients.items():
            if client in ready:
                with contextlib.suppress(OSError):
                    left[number] -= client.send(data[: left[number]])
                    if not left[number]:
                        client.shutdown(socket.SHUT_WR)


def _until_reset(client: socket.socket) -> None:
    """Until its connection is over, in order or not."""
    client.settimeout(_PATIENCE_S)
    with contextlib.suppress(OSError):
        while client.recv(1 << 16):
            pass


def _told(client: socket.socket) -> int:
    """What a client was acknowledged, without the SYN; the FIN counts as one."""
    info = client.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, 256)
    return max(0, int.from_bytes(info[_BYTES_ACKED], "little") - 1)


@contextlib.contextmanager
def packets_from(port: int) -> Iterator[socket.socket]:
    """The begin of each packet that is sent from a TCP port."""
    program = [
        (0x30, 0, 0, 9),  # the protocol
        (0x15, 0, 4, socket.IPPROTO_TCP),
        (0xB1, 0, 0, 0),  # the IP header's length
        (0x48, 0, 0, 0),  # the source port
        (0x15, 0, 1, port),
        (0x06, 0, 0, 128),
        (0x06, 0, 0, 0),
    ]
    code = b"".join(struct.pack("HBBI", *line) for line in program)
    with socket.socket(socket.AF_PACKET, socket.SOCK_DGRAM, socket.htons(_ALL)) as packets:
        kept = ctypes.create_string_buffer(code)
        where = struct.pack("HP", len(program), ctypes.addressof(kept))
        packets.setsockopt(socket.SOL_SOCKET, _SO_ATTACH_FILTER, where)
        packets.setsockopt(socket.SOL_SOCKET, _SO_RCVBUFFORCE, _SEEN_MAX)
        packets.setblocking(False)
        yield packets


def _acknowledged_by_server(packets: socket.socket) -> dict[int, int] | None:
    """What it has acknowledged on the connection from each port; None if packets were missed."""
    begins: dict[int, int] = {}
    most: dict[int, int] = {}
    with contextlib.suppress(BlockingIOError):
        while packet := packets.recv(128):
            at = (packet[0] & 15) * 4
            _, port, _, number, _, flags = struct.unpack_from(">HHIIBB", packet, at)
            if flags & 2:
                begins[port] = number
                most[port] = 0
            elif flags & 16 and not flags & 4:
                told = (number - begins.get(port, number)) % (1 << 32)
                if told < 1 << 31:
                    most[port] = max(most.get(port, 0), told)
    statistics = packets.getsockopt(_SOL_PACKET, _PACKET_STATISTICS, 8)
    return None if struct.unpack("II", statistics)[1] else most


class _Programs:
    """A join end, a split end and a server, each a process; who was killed is begun again."""

    def __init__(self, linked: str | None) -> None:
        self._linked = linked
        self._running: dict[str, tuple[int, int]] = {}

    def __enter__(self) -> "_Programs":
        return self

    def __exit__(self, *_: object) -> None:
        for name in list(self._running):
            self.kill(name)

    def begin(self) -> None:
        """Begins whoever is not there, and waits until clients can come."""
        works = {"server": _serve, "split": _split, "join": self._join}
        for name in ("server", "split", "join"):
            if name not in self._running:
                self._running[name] = _forked(works[name])
                self._line(name)
        self._tell("join")
        self._line("join")

    def ports(self, count: int) -> dict[int, int]:
        """The port from which the server's connection of each client comes."""
        lines = (self._line("server").split() for _ in range(count))
        return {int(number): int(port) for number, port in lines}

    def kill(self, name: str) -> None:
        pid, pipe = self._running.pop(name)
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)
        os.close(pipe)

    def _tell(self, name: str) -> None:
        os.write(self._running[name][1], b"?\n")

    def _line(self, name: str) -> str:
        said = b""
        while not said.endswith(b"\n"):
            part = os.read(self._running[name][1], 1)
            if not part:
                raise RuntimeError(f"the {name} ended before its time")
            said += part
        return said.decode()

    def _join(self, pipe: int) -> None:
        with contextlib.ExitStack() as stack:
            is_held = self._linked in ("literal", "strict")
            held = stack.enter_context(hold.held(_JOIN)) if is_held else None
            ends = (f"{HERE}:{_JOIN}", f"{HERE}:{_SPLIT}", f"{HERE}:{_SERVER}")
            told, literal = self._linked == "told", self._linked == "literal"
            relay = Relay.join(*ends, [], "cubic", told=told, held=held, literal=literal)
            os.write(pipe, b"\n")
            while os.read(pipe, 2):
                # Those of the round before have ended, and the next ones can come.
                while not (status := relay.status()[0][1])["is_connected"] or status["flows"]:
                    time.sleep(0.01)
                os.write(pipe, b"\n")


def _split(pipe: int) -> None:
    relay = Relay.split(f"{HERE}:{_SPLIT}", [HERE], [(HERE, _SERVER)], False, "cubic")
    os.write(pipe, b"\n")
    os.read(pipe, 1)
    relay.stop()


def _serve(pipe: int) -> None:
    """Reads, slowly from some; tells whose each connection is: its name, and its port."""
    listener = socket.create_server((HERE, _SERVER), backlog=128)
    os.write(pipe, b"\n")
    ready = select.poll()
    ready.register(listener, select.POLLIN)
    named: dict[int, tuple[socket.socket, int | None]] = {}
    while True:
        for descriptor, _ in ready.poll():
            if descriptor == listener.fileno():
                client, _ = listener.accept()
                named[client.fileno()] = (client, None)
                ready.register(client, select.POLLIN)
                continue
            client, name = named[descriptor]
            try:
                data = client.recv(4 if name is None else 16_384)
            except OSError:
                data = b""
            if not data:
                ready.unregister(client)
                client.close()
                del named[descriptor]
            elif name is None:
                name = int.from_bytes(data, "big")
                named[descriptor] = (client, name)
                os.write(pipe, f"{name} {client.getpeername()[1]}\n".encode())
            elif name % 2:
                time.sleep(0.0005)


def _forked(work: Callable[[int], None]) -> tuple[int, int]:
    ours, theirs = socket.socketpair()
    pid = os.fork()
    if pid == 0:
        ours.close()
        try:
            work(theirs.fileno())
        except BaseException:
            traceback.print_exc()
        finally:
            os._exit(1)
    theirs.close()
    return pid, ours.detach()


def main(arguments: list[str] | None = None) -> int:
    """Runs it in a network namespace of its own, and prints what was found as JSON."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--kills", type=int, default=1_000, metavar="N")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--linked-ack", choices=("told", "literal", "strict"))
    parser.add_argument("--inside", action="store_true", help=argparse.SUPPRESS)
    args = parser.parse_args(arguments)
    if not args.inside:
        command = python.program("studies.rig.killed", *(arguments or sys.argv[1:]))
        return subprocess.run(["unshare", "--net", *command, "--inside"], check=False).returncode
    subprocess.run(["ip", "link", "set", "lo", "up"], check=True)
    found = carry_out(args.kills, args.seed, args.linked_ack)
    sys.stdout.write(json.dumps({"linked_ack": args.linked_ack, **asdict(found)}) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
