"""Counts what arrives at a host, and says so every `STEP_S`, until it is ended.

    python -m studies.rig.arrivals tcp PORT
    python -m studies.rig.arrivals udp PORT

The first line says that it is ready. Every further one is the number of bytes of one connection,
from when it was opened; of UDP the number of packets, of which the kernel counts each and keeps
none.
"""

import socket
import sys
import threading
import time
from collections.abc import Iterator

from studies.rig.output import write_line
from weir.lab.traffic import packets_refused, refuse_every_packet

STEP_S = 0.5
_PIECE_BYTES = 1 << 18


def _packets(port: int) -> None:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sink:
        refuse_every_packet(sink)
        sink.bind(("", port))
        write_line("ready")
        for _ in _steps():
            write_line(packets_refused(sink))


def _bytes(port: int) -> None:
    with socket.create_server(("", port)) as server:
        write_line("ready")
        with server.accept()[0] as connection:
            taken = [0]
            threading.Thread(target=_take, args=(connection, taken), daemon=True).start()
            for _ in _steps():
                write_line(taken[0])


def _take(connection: socket.socket, taken: list[int]) -> None:
    piece = bytearray(_PIECE_BYTES)
    while count := connection.recv_into(piece):
        taken[0] += count


def _steps() -> Iterator[None]:
    """Goes on at every step of the clock, however late the one before was."""
    at_s = time.monotonic()
    while True:
        at_s += STEP_S
        time.sleep(max(0.0, at_s - time.monotonic()))
        yield


if __name__ == "__main__":
    {"tcp": _bytes, "udp": _packets}[sys.argv[1]](int(sys.argv[2]))
