"""Points computed by the worker processes of a Dask cluster: a local one, or one that runs."""

import json
import logging
import re
import signal
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager
from typing import Any

from weir import extras
from weir.errors import BadInput, Unavailable
from weir.runs.cache import Result, identity
from weir.runs.point import Json, Point
from weir.runs.version import code_version

_ADDRESS = re.compile(r"(tcp|tls|ws|wss)://[^\s/]+:\d{1,5}")
_PATIENCE_S = 5.0


def compute(
    points: Sequence[Point], *, scheduler: str | None = None, workers: int | None = None
) -> Iterator[tuple[Point, Result]]:
    """Each point with its result, in the order in which they are ready.

    A point whose worker dies is given to another one.

    Args:
        points: no two of them equal.
        scheduler: the address of a running cluster's, such as `tcp://10.0.0.1:8786`; without one
            there is a cluster of this machine for as long as the points take.
        workers: processes of that local cluster, one for each core by default.

    Raises:
        BadInput: `scheduler` is not an address.
        Unavailable: the cluster cannot be reached, was lost, has no worker or another version of
            Weir, or every worker that was given a certain point died.
        Unsupported: Dask is not installed.
    """
    if scheduler is not None and not _ADDRESS.fullmatch(scheduler):
        raise BadInput(f"{scheduler!r} is not a scheduler's address such as tcp://10.0.0.1:8786")
    with extras.named():
        import distributed
    with ExitStack() as stack:
        if scheduler is None:
            # More processes than points would do nothing but take the machine's memory.
            useful = None if workers is None else min(workers, max(1, len(points)))
            scheduler = stack.enter_context(_local(useful)).scheduler_address
        client = stack.enter_context(_client(scheduler))
        by_name = {identity(point): point for point in points}
        futures = [
            client.submit(timed, point.run, dict(point.arguments), time.process_time, key=name)
            for name, point in by_name.items()
        ]
        for future in distributed.as_completed(futures, loop=client.loop):
            point = by_name[future.key]
            yield point, _result(future, point, scheduler)


def timed(
    run: Callable[..., Json], arguments: Mapping[str, Json], clock: Callable[[], float]
) -> tuple[str, str, float]:
    """What a worker does: the version of its code, the result as JSON, and the seconds it took.

    Those of a core, by `time.process_time`, are the same on a machine that has other work.
    """
    begin = clock()
    value = run(**arguments)
    return code_version(run.__module__), json.dumps(value), clock() - begin


@contextmanager
def _local(workers: int | None) -> Iterator[Any]:
    from multiprocessing import resource_tracker

    from distributed import LocalCluster

    # Ctrl-C at a terminal reaches all that are in its session. Workers hold it back as their maker
    # does: each would end, be started again, and say so. Here it is heard once they are there.
    resource_tracker.ensure_running()  # which lets signals through again, where it is started
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        cluster = LocalCluster(
            n_workers=workers,
            threads_per_worker=1,
            host="127.0.0.1",
            dashboard_address="127.0.0.1:0",
            memory_limit=0,
            silence_logs=logging.CRITICAL,
        )
    except BaseException:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
        raise
    try:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
        yield cluster
    finally:
        _wait_for_restarts(cluster)
        cluster.close()


def _wait_for_restarts(cluster: Any) -> None:
    """Waits for dead workers to stand again: Dask fails to close one that it is starting."""
    patience_ends = time.monotonic() + _PATIENCE_S
    while len(cluster.scheduler.workers) < len(cluster.workers):
        if time.monotonic() > patience_ends:
            break
        time.sleep(0.02)


def _client(scheduler: str) -> AbstractContextManager[Any]:
    """A connection to a cluster that has workers."""
    from distributed import Client

    try:
        client = Client(scheduler, timeout=_PATIENCE_S, set_as_default=False)
    except (OSError, TimeoutError, ValueError) as error:
        raise Unavailable(f"cannot reach the scheduler {scheduler}: {error}") from None
    try:
        client.wait_for_workers(1, timeout=_PATIENCE_S)
    except TimeoutError:
        client.close()
        raise Unavailable(f"the scheduler {scheduler} has no workers") from None
    return client


def _result(future: Any, point: Point, scheduler: str) -> Result:
    from distributed import KilledWorker
    from distributed.client import FutureCancelledError

    name = f"{point.run.__module__}.{point.run.__qualname__}({dict(point.arguments)})"
    try:
        version, text, seconds = future.result()
    except KilledWorker:
        raise Unavailable(f"every worker that was given {name:.200} died") from None
    except FutureCancelledError:
        raise Unavailable(f"lost the scheduler {scheduler}") from None
    except ModuleNotFoundError as error:
        raise Unavailable(f"the workers of {scheduler} lack the module {error.name}") from None
    if version != code_version(point.run.__module__):
        raise Unavailable(f"the workers of {scheduler} run another version of {name:.200}")
    return Result(json.loads(text), seconds)
