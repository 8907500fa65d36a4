"""Sends and takes flows of known sizes over TCP, as it is told, until its input ends.

    python -m studies.rig.sized HOST [PORT ...]

It listens on these ports, one for each flow that ends here. The first line says that it is ready.
Each line that it is given is an order, `{"address", "port", "size_bytes", "limit_bps", "wait_s"}`,
of a flow that begins so much later. Each line that it prints is a flow that has ended here:
`{"port", "bytes", "end_s"}`, the moment as of CLOCK_MONOTONIC, which all hosts of a lab share.
"""

import contextlib
import json
import socket
import sys
import threading
import time
from collections.abc import Sequence
from typing import Any

from studies.rig.output import write_json

_PIECE = bytes(1 << 16)
_MAX_PACING_RATE = 47  # SO_MAX_PACING_RATE, which Python does not name


def main(host: str, ports: Sequence[int]) -> None:
    """Listens, and carries out orders."""
    for port in ports:
        server = socket.create_server((host, port))
        threading.Thread(target=_take, args=(server, port), daemon=True).start()
    write_json({"ready": True})
    for line in sys.stdin:
        threading.Thread(target=_send, args=(json.loads(line),), daemon=True).start()


def _take(server: socket.socket, port: int) -> None:
    count, piece = 0, bytearray(1 << 18)
    with server.accept()[0] as connection, contextlib.suppress(OSError):
        while taken := connection.recv_into(piece):
            count += taken
    write_json({"port": port, "bytes": count, "end_s": time.monotonic()})


def _send(order: dict[str, Any]) -> None:
    time.sleep(order["wait_s"])
    with contextlib.suppress(OSError), socket.socket() as connection:
        if order["limit_bps"]:
            connection.setsockopt(socket.SOL_SOCKET, _MAX_PACING_RATE, order["limit_bps"] // 8)
        connection.connect((order["address"], order["port"]))
        whole, rest = divmod(order["size_bytes"], len(_PIECE))
        for _ in range(whole):
            connection.sendall(_PIECE)
        connection.sendall(_PIECE[:rest])


if __name__ == "__main__":
    main(sys.argv[1], [int(port) for port in sys.argv[2:]])
