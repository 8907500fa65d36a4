"""A plain copy loop: what a relay is that reads into a buffer and writes it again.

    copy_loop.py LISTEN-PORT HOST PORT

One thread waits for whatever connection has something, and copies up to 256 KiB of it to the other
one, which it waits for. Python adds a microsecond or two to each call.
"""

import resource
import select
import socket
import sys

BUFFER_BYTES = 256 << 10


def main(port: int, server: tuple[str, int]) -> None:
    """Relays every client to the server, for ever."""
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    buffer = memoryview(bytearray(BUFFER_BYTES))
    others: dict[int, tuple[socket.socket, socket.socket]] = {}
    poll = select.epoll()
    with socket.create_server(("0.0.0.0", port), backlog=4_096) as listener:
        poll.register(listener, select.EPOLLIN)
        print("ready", flush=True)
        while True:
            for number, _ in poll.poll():
                if number == listener.fileno():
                    _take(listener.accept()[0], server, poll, others)
                elif number in others:
                    _copy(number, buffer, poll, others)


def _take(
    client: socket.socket,
    server: tuple[str, int],
    poll: select.epoll,
    others: dict[int, tuple[socket.socket, socket.socket]],
) -> None:
    onward = socket.create_connection(server)
    for one, other in ((client, onward), (onward, client)):
        one.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        others[one.fileno()] = (one, other)
        poll.register(one, select.EPOLLIN)


def _copy(
    number: int,
    buffer: memoryview,
    poll: select.epoll,
    others: dict[int, tuple[socket.socket, socket.socket]],
) -> None:
    one, other = others[number]
    try:
        if count := one.recv_into(buffer):
            other.sendall(buffer[:count])
            return
        other.shutdown(socket.SHUT_WR)
        poll.unregister(one)
        del others[number]
        if other.fileno() in others:
            return  # The way back goes on.
    except OSError:
        others.pop(number, None)
        others.pop(other.fileno(), None)
    one.close()
    other.close()


if __name__ == "__main__":
    main(int(sys.argv[1]), (sys.argv[2], int(sys.argv[3])))
