"""Several data connections: they join side by side, in fewer round trips than one by one."""

import contextlib
import os
import socket
import threading

from weir import Time
from weir.transfer import Server, Transfer

STREAMS = 5


def pump(source, sink):
    """Carries bytes one way until that way ends."""
    with contextlib.suppress(OSError):
        while piece := source.recv(1 << 16):
            sink.sendall(piece)
    with contextlib.suppress(OSError):
        sink.shutdown(socket.SHUT_WR)


def relay(listener, place, arrived, held):
    """Carries the first connection at once, and all others only when so many have arrived."""
    for number in range(1 + STREAMS):
        near, _ = listener.accept()
        arrived.append(near)
        if number == STREAMS:
            held.set()

        def carry(near=near, waits=number > 0):
            if waits:
                held.wait()
            with near, socket.create_connection(place) as far:
                back = threading.Thread(target=pump, args=(far, near))
                back.start()
                pump(near, far)
                back.join()

        threading.Thread(target=carry).start()


def test_data_connections_do_not_wait_for_each_other(tmp_path):
    source, root = tmp_path / "source", tmp_path / "root"
    source.write_bytes(os.urandom(3 << 20))
    root.mkdir()
    arrived, held = [], threading.Event()
    with (
        Server([root], listen="127.0.0.1:0", keys=None) as server,
        socket.create_server(("127.0.0.1", 0)) as listener,
    ):
        relaying = threading.Thread(target=relay, args=(listener, server.address, arrived, held))
        relaying.start()
        place = "{}:{}/copy".format(*listener.getsockname())
        transfer = Transfer.send([source], place, keys=None, streams=STREAMS)
        transfer.start()
        try:
            assert transfer.wait(Time("60 s"))
            relaying.join()
        finally:
            held.set()
            listener.shutdown(socket.SHUT_RDWR)
    assert len(arrived) == 1 + STREAMS
    assert (root / "copy").read_bytes() == source.read_bytes()
