"""Labs of a process that is told to end while other threads of it run things in them.

Ctrl-C reaches the main thread alone. What the others wait for is in their labs: when these are
down, they wait no longer.
"""

import contextlib
import threading
import weakref
from collections.abc import Iterator
from typing import Protocol

from weir.errors import Unavailable


class _Lab(Protocol):
    def down(self) -> None: ...


_labs: "weakref.WeakSet[_Lab]" = weakref.WeakSet()
_is_over = threading.Event()


def enrol(lab: _Lab) -> None:
    """Notes a lab that is to go down with this process.

    Raises:
        Unavailable: that is happening; the lab is down again.
    """
    _labs.add(lab)
    if _is_over.is_set():
        lab.down()
        raise Unavailable("this process is ending, and has no labs any more")


@contextlib.contextmanager
def given_up() -> Iterator[None]:
    """Takes every lab down that goes with this process; none comes up within."""
    _is_over.set()
    try:
        for lab in list(_labs):
            lab.down()
        yield
    finally:
        _is_over.clear()
