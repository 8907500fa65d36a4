"""The relay joins two sockets, whatever is sent, and tells when there is nothing to join."""

import contextlib
import socket
import subprocess
import sys
import threading

import pytest


def listening():
    listener = socket.socket()
    listener.bind(("127.0.0.1", 0))
    listener.listen()
    listener.settimeout(30)
    return listener


@contextlib.contextmanager
def relayed(port):
    """A relay to `port`; yields the port in front of it."""
    with listening() as front:
        here = front.getsockname()[1]
        argv = [sys.executable, "-m", "studies.rig.relay"]
        process = subprocess.Popen(
            [*argv, str(front.fileno()), "127.0.0.1", str(port)], pass_fds=[front.fileno()]
        )
    try:
        yield here
    finally:
        process.kill()
        process.wait()


def received(connection):
    chunks = []
    while chunk := connection.recv(1 << 16):
        chunks.append(chunk)
    return b"".join(chunks)


def test_bytes_go_both_ways_and_the_end_is_passed_on():
    content = bytes(range(256)) * 8192
    with listening() as back, relayed(back.getsockname()[1]) as port:

        def shout_back():
            connection, _ = back.accept()
            with connection:
                connection.settimeout(30)
                heard = connection.recv(5)
                connection.sendall(heard.upper() + content)

        thread = threading.Thread(target=shout_back)
        thread.start()
        with socket.create_connection(("127.0.0.1", port), timeout=30) as connection:
            connection.sendall(b"hello")
            assert received(connection) == b"HELLO" + content
        thread.join(timeout=30)


def test_nobody_behind_it_closes_the_connection():
    with listening() as gone:
        nobody = gone.getsockname()[1]
    with (
        relayed(nobody) as port,
        socket.create_connection(("127.0.0.1", port), timeout=30) as connection,
        contextlib.suppress(ConnectionResetError),
    ):
        assert connection.recv(1) == b""


@pytest.mark.parametrize("count", [20])
def test_many_connections_at_once(count):
    with listening() as back, relayed(back.getsockname()[1]) as port:

        def echo(connection):
            with connection:
                connection.settimeout(30)
                connection.sendall(connection.recv(100))

        def accept():
            for _ in range(count):
                threading.Thread(target=echo, args=(back.accept()[0],)).start()

        thread = threading.Thread(target=accept)
        thread.start()
        opened = [socket.create_connection(("127.0.0.1", port), timeout=30) for _ in range(count)]
        for number, connection in enumerate(opened):
            connection.sendall(str(number).encode())
        for number, connection in enumerate(opened):
            with connection:
                assert received(connection) == str(number).encode()
        thread.join(timeout=30)
