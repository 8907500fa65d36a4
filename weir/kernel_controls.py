"""The congestion controls of this host's kernel: which it has, which this user may have."""

import errno
from pathlib import Path

from weir.errors import BadInput
from weir.kernel_files import text_of

_SYSCTL = Path("/proc/sys/net/ipv4")


def available() -> list[str]:
    """The controls that the kernel has at present; asking for another may load it."""
    return text_of(_SYSCTL / "tcp_available_congestion_control").split()


def allowed() -> list[str]:
    """The controls that connections of users other than root may have."""
    return text_of(_SYSCTL / "tcp_allowed_congestion_control").split()


def offered() -> list[str]:
    """The available controls that this user's connections may have."""
    # Only here: whoever asks for the names alone need not wait for it.
    import socket

    found = []
    with socket.socket() as connection:
        for name in available():
            try:
                connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_CONGESTION, name.encode())
            except OSError:
                continue
            found.append(name)
    return found


def default() -> str:
    """The one that connections have when nothing is said."""
    return text_of(_SYSCTL / "tcp_congestion_control").strip()


def require(name: str) -> None:
    """Asks the kernel for a control, which may load it.

    Raises:
        BadInput: the kernel has no such control, or not for this user; the message names others.
    """
    # Only here: most transfers ask for no control.
    import socket

    with socket.socket() as connection:
        try:
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_CONGESTION, name.encode())
        except OSError as error:
            raise BadInput(f'congestion control "{name}": {_why(error)}') from None


def _why(error: OSError) -> str:
    if error.errno == errno.EPERM:
        return f"only root may choose it here; others may choose {', '.join(allowed())}"
    return f"the kernel has {', '.join(available())}"
