"""The way from switches to their controller: a socket that they can reach."""

import os
import socket
import subprocess
from pathlib import Path

from weir import python
from weir.errors import BadInput


def open_way(controller: str | None, folder: Path) -> Path | None:
    """The Unix socket by which a controller is reached; None if there is no controller.

    For a controller that listens elsewhere one is made in `folder`, with a process behind it that
    lives as long as this one. Called in the machine's namespaces.

    Args:
        controller: `HOST:PORT` or `unix:PATH`.
        folder: the lab's.
    """
    if controller is None:
        return None
    if controller.startswith("unix:"):
        return Path(controller.removeprefix("unix:"))
    path = folder / "openflow"
    host, _, port = controller.rpartition(":")
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as listener:
        try:
            listener.bind(str(path))
        except OSError as error:
            raise BadInput(
                f"{path}: {error}; set WEIR_RUNTIME_DIR to another, shorter path"
            ) from None
        listener.listen()
        _start_relay(listener, host.strip("[]"), port)
    return path


def _start_relay(listener: socket.socket, host: str, port: str) -> None:
    """Starts what serves `listener` until its input ends, which is with this process."""
    given, _held = os.pipe()
    subprocess.Popen(
        python.program("weir.lab.switches.relay", str(listener.fileno()), host, port),
        stdin=given,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        pass_fds=[listener.fileno()],
    )
    os.close(given)
