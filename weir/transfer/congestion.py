"""Which congestion controls this host's kernel lets this user's connections have."""

import errno

from weir import kernel_controls
from weir.errors import BadInput


def require(name: str) -> None:
    """Asks the kernel for a control, which may load it.

    Raises:
        BadInput: it has none of that name, or not for this user; the message names those it has.
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
        allowed = ", ".join(kernel_controls.allowed())
        return f"only root may choose it here; others may choose {allowed}"
    return f"the kernel has {', '.join(kernel_controls.available())}"
