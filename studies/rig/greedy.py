"""Sends by TCP as fast as it goes, until it is ended or the other end has gone.

    python -m studies.rig.greedy HOST PORT

The first line says that it is ready; it begins when it is given a line.
"""

import contextlib
import socket
import sys

from studies.rig.output import write_line

_PIECE = bytes(1 << 16)


def main(host: str, port: int) -> None:
    """Sends."""
    write_line("ready")
    if not sys.stdin.readline():
        return
    with contextlib.suppress(OSError), socket.create_connection((host, port)) as connection:
        while True:
            connection.sendall(_PIECE)


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]))
