"""Signals that end a program in order."""

import contextlib
import signal
from collections.abc import Callable, Iterator

_ENDS = {signal.SIGINT, signal.SIGTERM}


def came_within(wait_s: float) -> bool:
    """Whether one that is held back comes within so long.

    What Python gives a process that was stopped meanwhile, and goes on too late, is no signal.
    """
    told = signal.sigtimedwait(_ENDS, wait_s)
    return told is not None and told.si_signo in _ENDS


@contextlib.contextmanager
def awaited() -> Iterator[Callable[[], object]]:
    """Holds back Ctrl-C and a polite kill; what it gives waits for one of them.

    To be entered before any other thread exists: threads and programs started within hold the
    signals back as well, so that the waiting thread alone takes them. After it they are as they
    were before, and those that came again meanwhile are forgotten.
    """
    before = signal.pthread_sigmask(signal.SIG_BLOCK, _ENDS)
    try:
        yield lambda: signal.sigwait(_ENDS)
    finally:
        while signal.sigtimedwait(_ENDS, 0):
            pass
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
