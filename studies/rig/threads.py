"""Runs in labs that go on at once, a thread each, and end when they are told to."""

import contextlib
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

from weir.lab import ending


@contextlib.contextmanager
def at_once(most: int | None = None) -> Iterator[ThreadPoolExecutor]:
    """A pool of threads, none of which runs any more at the end.

    An error has those that have begun go on to their end, and no other begins. Ctrl-C and a polite
    kill take the labs of this process down, without which theirs do not go on.

    Args:
        most: how many threads; None for as many as Python thinks fit.
    """
    pool = ThreadPoolExecutor(most)
    try:
        yield pool
    except Exception:
        pool.shutdown(cancel_futures=True)
        raise
    except BaseException:
        pool.shutdown(wait=False, cancel_futures=True)
        with ending.given_up():
            pool.shutdown()
        raise
    pool.shutdown()
