"""Signals that end a program in order."""

import contextlib
import signal
import sys
import threading
from collections.abc import Callable, Iterator
from typing import TypeVar

Result = TypeVar("Result")
_ENDS = {signal.SIGINT, signal.SIGTERM}


def came_within(wait_s: float) -> bool:
    """Whether one that is held back comes within so long.

    What Python gives a process that was stopped meanwhile, and goes on too late, is no signal.
    """
    told = signal.sigtimedwait(_ENDS, wait_s)
    return told is not None and told.si_signo in _ENDS


def beside(work: Callable[[], Result]) -> Result:
    """What `work` answers, which hears no signals itself: Ctrl-C ends the wait for it at once.

    It is done by another thread, which then goes on for nobody until it or the process ends.
    """
    if threading.current_thread() is not threading.main_thread():
        return work()
    # Only here: who waits for nothing need not wait for this.
    from concurrent.futures import Future

    answers: Future[Result] = Future()

    def answer() -> None:
        try:
            answers.set_result(work())
        except BaseException as error:
            answers.set_exception(error)

    threading.Thread(target=answer, daemon=True).start()
    return answers.result()


@contextlib.contextmanager
def heeded() -> Iterator[None]:
    """Has a polite kill end what is done within as Ctrl-C does: in order, with nothing left half.

    The exit code is what a shell reports of such a kill. Other threads hear of none, and have none.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return

    def end(number: int, _frame: object) -> None:
        sys.exit(128 + number)

    before = signal.signal(signal.SIGTERM, end)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


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
