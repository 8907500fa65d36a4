"""One scenario under several seeds, side by side in the processes of a Dask cluster."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from weir import Time, __version__, files
from weir._core import estimate
from weir.errors import BadInput
from weir.lab.reading import parse
from weir.runs.cluster import compute
from weir.runs.point import Point
from weir.sim.compare import quantities
from weir.sim.run import Run, run

_SEEDS_MAX = 10_000


@dataclass(frozen=True)
class Seeds:
    """What to simulate.

    Attributes:
        file: a scenario file.
        seeds: each instead of the scenario's; no two alike.
        duration: see `Run`.
        warmup: see `Run`.
        scheduler: the address of a Dask cluster's; None for processes of this machine.
        workers: how many of those; None for one a core.
    """

    file: Path
    seeds: Sequence[int]
    duration: Time | None = None
    warmup: Time | None = None
    scheduler: str | None = None
    workers: int | None = None


def read_seeds(text: str) -> list[int]:
    """The seeds that "1-5", "3,8,2" or "1-3,7" stands for, in that order.

    Raises:
        BadInput: it stands for none, for one twice, or for more than 10 000.
    """
    seeds: list[int] = []
    for part in text.split(","):
        first, dash, last = part.strip().partition("-")
        if not _is_number(first) or (dash and not _is_number(last)):
            raise BadInput(f'--seeds {text:.60}: seeds are given as in "1-5" or "1,3,7"')
        begin, end = int(first), int(last or first)
        if end - begin >= _SEEDS_MAX or len(seeds) > _SEEDS_MAX:
            raise BadInput(f"--seeds {text}: at most {_SEEDS_MAX} seeds are allowed")
        seeds += range(begin, end + 1)
    if not seeds or len(set(seeds)) < len(seeds) or max(seeds) >= 2**64:
        raise BadInput(f"--seeds {text}: seeds from 0 to 2^64 - 1, each once, are allowed")
    return seeds


def _is_number(text: str) -> bool:
    return text.isascii() and text.isdecimal() and len(text) <= 20


def run_seeds(order: Seeds) -> dict[str, Any]:
    """Simulates under each seed: every quantity of `weir compare` with its 95 % interval.

    The answer is the same whatever the number of workers.

    Raises:
        BadInput: as `weir.sim.run.run`; `workers` below one; an impossible scheduler's address.
        Unavailable, Unsupported: as `weir.runs.cluster.compute`.
    """
    if order.workers is not None and order.workers < 1:
        raise BadInput(f"--workers {order.workers}: at least one process is needed")
    text = _text(order.file)
    parse(text, str(order.file))  # so that what is wrong with it is said before anything starts
    common = {
        "text": text,
        "name": str(order.file),
        "duration_ns": None if order.duration is None else order.duration.ns,
        "warmup_ns": order.warmup.ns if order.warmup else 0,
    }
    points = [Point(run_seed, {**common, "seed": seed}) for seed in order.seeds]
    done = compute(points, scheduler=order.scheduler, workers=order.workers)
    found: dict[Any, Any] = {point.arguments["seed"]: result.value for point, result in done}
    results = [found[seed] for seed in order.seeds]
    return {
        "name": order.file.stem,
        "version": __version__,
        "seeds": list(order.seeds),
        "duration_ns": results[0]["duration_ns"],
        "warnings": results[0]["warnings"],
        "quantities": summary(results),
    }


def run_seed(
    text: str, name: str, duration_ns: int | None, warmup_ns: int, seed: int
) -> dict[str, Any]:
    """What a worker does: the result of one seed."""
    duration = None if duration_ns is None else Time.from_ns(duration_ns)
    return run(Run(parse(text, name), duration, Time.from_ns(warmup_ns), seed))


def summary(results: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Mean and half the 95 % interval (Student's t) of every quantity of independent results.

    A quantity that some results lack, such as the waiting time of a class that had no packets, is
    that of the others; `values` has as many numbers as there were.
    """
    values: dict[tuple[str, str], list[float]] = {}
    for result in results:
        for key, value in quantities(result):
            values.setdefault(key, []).append(value)
    return [_estimated(subject, what, found) for (subject, what), found in values.items()]


def _estimated(subject: str, quantity: str, values: list[float]) -> dict[str, Any]:
    mean, half = estimate(values) if len(values) > 1 else (values[0], None)
    return {
        "subject": subject,
        "quantity": quantity,
        "mean": mean,
        "interval": half,
        "values": values,
    }


def _text(file: Path) -> str:
    return files.text(file)
