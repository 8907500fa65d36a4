"""Rows, run: what is cached is taken, the rest computed, then each row is judged."""

import json
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import as_completed
from dataclasses import asdict, dataclass, replace
from pathlib import Path

from studies.rig import threads
from studies.rig.beside_simulated import simulated_again
from studies.works.measured import Measured
from studies.works.row import Outcome, Row, Verdict
from weir import __version__
from weir.errors import Unsupported, WeirError
from weir.runs.cache import Cache, Result, identity
from weir.runs.cluster import compute, timed
from weir.runs.point import Point
from weir.runs.version import code_version

Compute = Callable[[Sequence[Point]], Iterator[tuple[Point, Result]]]


@dataclass(frozen=True, slots=True)
class Record:
    """What a row gave.

    Attributes:
        id: the row's.
        ours, interval, verdict, reason: see `Outcome`.
        seconds: of one core, for all points of the row, shared ones too.
        quick: whether it was of reduced size.
        version: of Weir.
        code: digest of the sources that the results come from; several of measurements.
    """

    id: str
    ours: str
    interval: str
    verdict: Verdict
    reason: str
    seconds: float
    quick: bool
    version: str
    code: str


@dataclass(frozen=True, slots=True)
class Obtained:
    """A row's record with the results that it was judged by, in the order of its points."""

    row: Row
    record: Record
    points: Sequence[Point]
    results: Sequence[Result]

    def write(self, folder: Path) -> None:
        """Leaves `ID.json`, with arguments (seeds among them) and results, and a plot `ID.svg`.

        Raises:
            Unsupported: they cannot be written.
        """
        runs = [
            {
                "run": f"{point.run.__module__}.{point.run.__qualname__}",
                "arguments": point.arguments,
                "result": result.value,
                "seconds": result.seconds,
            }
            for point, result in zip(self.points, self.results, strict=True)
        ]
        path = folder / f"{self.row.id}.json"
        try:
            folder.mkdir(parents=True, exist_ok=True)
            path.write_text(
                json.dumps(asdict(self.record) | {"runs": runs}, indent=1, ensure_ascii=False)
                + "\n"
            )
            self.plot(folder)
        except OSError as error:
            raise Unsupported(f"cannot write {error.filename or path}: {error.strerror}") from None

    def plot(self, folder: Path) -> None:
        """Draws the row as `ID.svg`, if there is something to draw."""
        if self.row.plot is not None:
            folder.mkdir(parents=True, exist_ok=True)
            self.row.plot([result.value for result in self.results], folder / f"{self.row.id}.svg")


def cached(row: Row, cache: Cache) -> Obtained | None:
    """A row as the cache knows it, at full size or else reduced; none if a point is missing."""
    for quick in (False, True):
        points = list(row.points(quick))
        results = _all_known(points, cache)
        if results is None:
            continue
        later = _later(row, results)
        more = _all_known(later, cache)
        if more is not None:
            return _judged(row, quick, points + later, results + more)
    return None


def _all_known(points: Sequence[Point], cache: Cache) -> list[Result] | None:
    """The results of all points, or none if one is missing."""
    results = []
    for point in points:
        result = cache.get(point)
        if result is None:
            return None
        results.append(result)
    return results


def _later(row: Row, results: Sequence[Result]) -> list[Point]:
    """The points of a row that need the results of its first ones."""
    return list(row.then([result.value for result in results])) if row.then else []


def obtain(
    rows: Sequence[Row],
    *,
    quick: bool,
    cache: Cache,
    measured: Measured | None = None,
    compute: Compute = compute,
) -> Iterator[tuple[Row, Obtained | WeirError]]:
    """Each row with what it gave, or why this machine cannot run it.

    Pure points are computed first and together, each once, then those that need their results; then
    the live rows run alone. A live row that differs is not kept: other work on the machine may have
    spoilt it. At full size each of its runs is kept in `measured`, if there is one, as it ends;
    where another version did, what was simulated beside it is simulated again.

    Raises:
        WeirError: whatever `compute` and `Cache` raise; what was ready by then is in the cache.
    """
    known: dict[str, Result] = {}

    def complete(points: Sequence[Point]) -> None:
        wanted = {identity(point): point for point in points}
        known.update({name: got for name, point in wanted.items() if (got := cache.get(point))})
        missing = [point for name, point in wanted.items() if name not in known]
        for point, result in compute(missing) if missing else ():
            cache.put(point, result)
            known[identity(point)] = result

    pure = [row for row in rows if not row.live]
    first = {row.id: list(row.points(quick)) for row in pure}
    complete([point for points in first.values() for point in points])
    later = {
        row.id: _later(row, [known[identity(point)] for point in first[row.id]]) for row in pure
    }
    complete([point for points in later.values() for point in points])
    for row in pure:
        points = first[row.id] + later[row.id]
        yield row, _judged(row, quick, points, [known[identity(point)] for point in points])
    for row in rows:
        if row.live:
            try:
                if measured is None or quick:
                    yield row, _live(row, quick, cache)
                else:
                    yield row, _at_full_size(row, measured)
            except WeirError as error:
                yield row, error


def _live(row: Row, quick: bool, cache: Cache) -> Obtained:
    points = row.points(quick)
    known = {identity(point): cache.get(point) for point in points}
    missing = [point for point in points if known[identity(point)] is None]
    known.update({identity(point): result for point, result in _here(missing, row.live)})
    obtained = _judged(row, quick, points, [_there(known[identity(point)]) for point in points])
    if obtained.record.verdict != Verdict.DIFFERS:
        for point, result in zip(points, obtained.results, strict=True):
            cache.put(point, result)
    return obtained


def _at_full_size(row: Row, measured: Measured) -> Obtained:
    points = row.points(False)
    missing = [point for point in points if measured.get(point) is None]
    for point, result in _here(missing, row.live):
        measured.put(point, result)
    results = []
    for point in points:
        result = _there(measured.get(point))
        if result.code != code_version(point.run.__module__):
            # Another simulator is cheap to ask; the hosts' day is not.
            result = replace(result, value=simulated_again(point, result.value))
        results.append(result)
    return _judged(row, False, points, results)


def _here(points: Sequence[Point], at_once: int) -> Iterator[tuple[Point, Result]]:
    """Computed in this process, some points at once; each as it ends.

    Where one fails those that have begun go on to their end, and the others do not begin.
    """
    failures: list[Exception] = []

    def result(point: Point) -> Result | None:
        if failures:
            return None
        try:
            _, text, seconds = timed(point.run, point.arguments, time.perf_counter)
        except Exception as error:  # whatever it is, what the others measure is kept
            failures.append(error)
            return None
        return Result(json.loads(text), seconds)

    with threads.at_once(at_once) as pool:
        begun = {pool.submit(result, point): point for point in points}
        try:
            for one in as_completed(begun):
                if got := one.result():
                    yield begun[one], got
        finally:
            pool.shutdown(wait=False, cancel_futures=True)
    if failures:
        raise failures[0]


def _there(result: Result | None) -> Result:
    assert result, "it was known, or has been computed"
    return result


def _judged(row: Row, quick: bool, points: Sequence[Point], results: Sequence[Result]) -> Obtained:
    outcome: Outcome = row.judge([result.value for result in results])
    here = code_version(points[0].run.__module__)
    record = Record(
        id=row.id,
        ours=outcome.ours,
        interval=outcome.interval,
        verdict=outcome.verdict,
        reason=outcome.reason,
        seconds=round(sum(result.seconds for result in results), 1),
        quick=quick,
        version=__version__,
        code=" ".join(sorted({result.code or here for result in results})),
    )
    return Obtained(row, record, points, results)
