"""Real-time priority for Python's threads of a probing, where the machine permits it.

The threads wait for one another: one that a busy machine puts aside while it holds the interpreter
holds up the bursts and the responder, too. So all of them get the priority, and the caller's thread
may. The prober's own thread, which is the core's and waits for none of them, takes it by itself.
"""

import contextlib
import os
from collections.abc import Iterator

_PRIORITY = 1  # the least, as that of the lab's links


@contextlib.contextmanager
def realtime_priority() -> Iterator[bool]:
    """Gives this thread, and those that it starts, real-time priority; yields whether it may.

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
