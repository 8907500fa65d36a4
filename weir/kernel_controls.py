"""The congestion controls of this host's kernel: which it has, which this user may have."""

from pathlib import Path

_SYSCTL = Path("/proc/sys/net/ipv4")


def available() -> list[str]:
    """Those that the kernel has at present; asking for another may load it."""
    return (_SYSCTL / "tcp_available_congestion_control").read_text().split()


def allowed() -> list[str]:
    """Those that connections of users other than root may have."""
    return (_SYSCTL / "tcp_allowed_congestion_control").read_text().split()


def offered() -> list[str]:
    """Those that this user's connections may have, of those that are available."""
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
    return (_SYSCTL / "tcp_congestion_control").read_text().strip()
