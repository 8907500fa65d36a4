"""Carries OpenFlow from a lab's switches to a controller on the machine.

A switch lives in a network namespace from which the machine's addresses cannot be reached, and
sees the machine's files: it connects to a Unix socket, and this process, which stays in the
machine's namespaces, connects onward. It ends when its standard input does: with the lab,
however that ends.
"""

import contextlib
import socket
import sys
import threading

_CONNECT_S = 3.0
_PIECE = 1 << 16


def main() -> int:
    """Serves the listening socket that is descriptor `argv[1]`, for the host and port after it."""
    descriptor, host, port = sys.argv[1:]
    listener = socket.socket(fileno=int(descriptor))
    threading.Thread(target=_serve, args=(listener, (host, int(port))), daemon=True).start()
    sys.stdin.buffer.read()
    return 0


def _serve(listener: socket.socket, controller: tuple[str, int]) -> None:
    while True:
        switch, _ = listener.accept()
        threading.Thread(target=_join, args=(switch, controller), daemon=True).start()


def _join(switch: socket.socket, controller: tuple[str, int]) -> None:
    """Carries both ways until either end is closed; a refusal closes the switch's at once."""
    with switch:
        try:
            onward = socket.create_connection(controller, timeout=_CONNECT_S)
        except OSError:
            return  # the switch tries again by itself
        with onward:
            onward.settimeout(None)
            onward.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            back = threading.Thread(target=_carry, args=(onward, switch), daemon=True)
            back.start()
            _carry(switch, onward)
            back.join()


def _carry(source: socket.socket, to: socket.socket) -> None:
    with contextlib.suppress(OSError):
        while piece := source.recv(_PIECE):
            to.sendall(piece)
    for end in (source, to):
        with contextlib.suppress(OSError):
            end.shutdown(socket.SHUT_RDWR)


if __name__ == "__main__":
    sys.exit(main())
