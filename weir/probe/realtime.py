"""Real-time priority for Python's threads of a probing, where the machine permits it.

They wait for one another: one that is put aside by a busy machine while it holds the interpreter
holds up the bursts and the responder, too. So all of them get it, and the caller's may. The
prober's own thread, which is the core's and waits for none of them, takes it by itself.
"""

import contextlib
import os
from collections.abc import Iterator

_PRIORITY = 1  # the least, as that of the lab's links


@contextlib.contextmanager
def punctual() -> Iterator[bool]:
    """Gives this thread, and those that it starts, real-time priority; whether that is permitted.

    The kernel keeps a share of each second for all others (sched_rt_runtime_us).
    """
    policy, parameters = os.sched_getscheduler(0), os.sched_getparam(0)
    try:
        os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(_PRIORITY))
    except OSError:
        yield False
        return
    try:
        yield True
    finally:
        os.sched_setscheduler(0, policy, parameters)
