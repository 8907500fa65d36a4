"""One agent enforces rates at a place: of two, each would undo what the other has done."""

import contextlib
import errno
import hashlib
import os
import socket
from collections.abc import Iterable, Iterator

from weir.errors import BadInput


@contextlib.contextmanager
def alone(places: Iterable[str]) -> Iterator[None]:
    """Has this process be the one that enforces at these places of its network namespace.

    They are free again once the block is left, or however the process ends: a place is claimed by
    the name of a socket, of which each network namespace has its own, and nothing is left of it.
    Such names are nobody's: whoever runs programs in that namespace can take one, and so keep an
    agent from beginning, but not from going on.

    Raises:
        BadInput: another process has one of them.
    """
    with contextlib.ExitStack() as claimed:
        for place in sorted(set(places)):
            claim = claimed.enter_context(socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM))
            name = hashlib.sha256(os.fsencode(place)).hexdigest()
            try:
                claim.bind(f"\0weir-edge-{os.geteuid()}-{name}")
            except OSError as error:
                if error.errno != errno.EADDRINUSE:
                    raise
                words = f"another agent enforces rates at {place}: end that one first"
                raise BadInput(words) from None
        yield
