"""Real relays on this machine, a server, clients with addresses of their own, a slow line."""

import contextlib
import json
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Sequence

from rig import PATIENCE_S

WEIR = (sys.executable, "-m", "weir.cli", "relay")


@contextlib.contextmanager
def relay(*arguments: object, under: Sequence[str] = ()) -> Iterator[int]:
    """A relay that runs until the block is left, started by a command if one is given; its port."""
    command = [*under, *WEIR, *map(str, arguments), "--listen", "127.0.0.1:0", "--json"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout
            yield json.loads(process.stdout.readline())["port"]
        finally:
            process.send_signal(signal.SIGTERM)
            assert process.wait(PATIENCE_S) == 0


class Server:
    """Answers each client with how many bytes it has sent, once it has sent all."""

    def __init__(self) -> None:
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port = self._listener.getsockname()[1]
        threading.Thread(target=self._run, daemon=True).start()

    def close(self) -> None:
        """Nobody else is answered."""
        self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()

    def _run(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                client, _ = self._listener.accept()
                threading.Thread(target=self._serve, args=(client,), daemon=True).start()

    def _serve(self, client: socket.socket) -> None:
        count = 0
        with client, contextlib.suppress(OSError):
            while data := client.recv(1 << 18):
                count += len(data)
            client.sendall(str(count).encode())


def connected(port: int, source: str = "127.0.0.1") -> socket.socket:
    client = socket.create_connection(("127.0.0.1", port), PATIENCE_S, (source, 0))
    client.settimeout(PATIENCE_S)
    return client


def throttled(to: int, rate_bytes_s: int) -> int:
    """A line of that rate before a port: what comes is passed on, and answers at once."""
    listener = socket.create_server(("127.0.0.1", 0))
    port: int = listener.getsockname()[1]

    def carry(source: socket.socket, sink: socket.socket, rate: int | None) -> None:
        begun, count = time.monotonic(), 0
        with contextlib.suppress(OSError):
            while data := source.recv(16_384):
                sink.sendall(data)
                count += len(data)
                if rate:
                    ahead_s = count / rate - (time.monotonic() - begun)
                    threading.Event().wait(max(0.0, ahead_s))

    def run() -> None:
        with listener:
            source, _ = listener.accept()
        source.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 32_768)
        with source, socket.create_connection(("127.0.0.1", to)) as sink:
            back = threading.Thread(target=carry, args=(sink, source, None), daemon=True)
            back.start()
            carry(source, sink, rate_bytes_s)
            with contextlib.suppress(OSError):  # it may be gone already
                sink.shutdown(socket.SHUT_RDWR)
            back.join(PATIENCE_S)

    threading.Thread(target=run, daemon=True).start()
    return port


def send_until(client: socket.socket, stop: threading.Event) -> None:
    with contextlib.suppress(OSError):
        while not stop.is_set():
            client.sendall(bytes(65_536))
