"""What the recogniser makes of paths that it is not to know: is what it misreads called unknown?

`weir ops assess-unknown` prints it: for each level of the p-value below which a window is unknown,
how much of what is to be known is called so, and of the rest, what is misread and what is not. To
be misread is to be wrong in whether BBR is there. What is said of that follows by kind of path.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence

import numpy as np

from studies.training.assess import Answers, Mask
from studies.training.examples import has_bbr, misread, side
from studies.training.grid import streams_of
from studies.training.train import SEED, is_learned
from weir.congestion.classify.classes import WITH_BBR
from weir.congestion.classify.opinions import UNUSUAL
from weir.congestion.classify.recogniser import Recogniser
from weir.congestion.recordings import Recording

LEVELS = (0.002, 0.005, 0.01, 0.02, 0.03, 0.04, 0.05, 0.1, 0.2)
"""P-values; `UNUSUAL` is in use."""
REGIONS: Mapping[str, Callable[[Recording], bool]] = {
    "all": lambda _: True,
    "round trip below 3 ms": lambda one: one.path.rtt_ns < 3e6,
    "3 to 10 ms": lambda one: 3e6 <= one.path.rtt_ns < 10e6,
    "10 to 200 ms": lambda one: 10e6 <= one.path.rtt_ns < 200e6,
    "200 ms and more": lambda one: one.path.rtt_ns >= 200e6,
    "below 50 Mbit/s": lambda one: one.path.rate_bps < 50e6,
    "above 1 Gbit/s": lambda one: one.path.rate_bps > 1e9,
    "queue below 0.5 BDP": lambda one: _bdps(one) < 0.5,
    "4 to 16 BDP": lambda one: _bdps(one) >= 4,
    "9 streams and more": lambda one: streams_of(one) > 8,
    "without BBR": lambda one: one.label not in WITH_BBR,
}


def _bdps(one: Recording) -> float:
    path = one.path
    return path.buffer_bytes * 8 / path.rate_bps / (path.rtt_ns / 1e9)


def report(recogniser: Recogniser, recordings: Sequence[Recording], seed: int) -> Iterator[str]:
    """Lines of Markdown.

    Args:
        recogniser: that is asked.
        recordings: from the simulator.
        seed: of their grid. Of the one that was learned from, only paths kept for testing count.
    """
    tested = _tested(recordings, seed)
    inside = [one for one in tested if is_learned(one)]
    outside = [one for one in tested if not is_learned(one)]
    yield f"{len(inside)} recordings of paths to be known, {len(outside)} of others.\n"
    lengths = recogniser.seconds
    within = {seconds: Answers.of(recogniser, inside, seconds) for seconds in lengths}
    without = {seconds: Answers.of(recogniser, outside, seconds) for seconds in lengths}
    yield f"% called unknown below a p-value ({UNUSUAL:g} is in use):\n"
    yield "| p below |" + "".join(
        f" known, {seconds} s | misread elsewhere, {seconds} s | right elsewhere, {seconds} s |"
        for seconds in lengths
    )
    yield "|---|" + "---|---|---|" * len(lengths)
    for level in LEVELS:
        cells = []
        for seconds in lengths:
            there, elsewhere = within[seconds], without[seconds]
            wrong = misread(elsewhere.shares, elsewhere.truth)
            cells.append(_share(there.usual < level))
            cells += [_share((elsewhere.usual < level)[of]) for of in (wrong, ~wrong)]
        yield f"| {level:g} |" + "".join(f" {cell} |" for cell in cells)
    for title, answers in (("To be known", within), ("Elsewhere", without)):
        yield f"\n{title}, % right about BBR, and % misread and called known:\n"
        yield from _regions(answers)


def answered(
    recogniser: Recogniser, kinds: Mapping[str, Sequence[Recording]], seed: int
) -> Iterator[str]:
    """Lines of Markdown: what is said whether BBR is there, by kind of path.

    Args:
        recogniser: that is asked.
        kinds: recordings from the simulator.
        seed: of their grids, as for `report`.
    """
    yield "\nIs BBR there? % of windows, and % of those without it that are surely taken for it:\n"
    yield (
        "| paths | s | windows | right and known | unknown | wrong and known "
        "| without BBR | surely taken for it |"
    )
    yield "|---|" + "---|" * 7
    for name, recordings in kinds.items():
        for seconds in recogniser.seconds:
            found = Answers.of(recogniser, _tested(recordings, seed), seconds)
            known, taken = found.usual >= UNUSUAL, has_bbr(found.shares)
            wrong = misread(found.shares, found.truth)
            without = taken == wrong
            cells = map(_share, (known & ~wrong, ~known, known & wrong))
            yield (
                f"| {name} | {seconds} | {len(wrong)} | {' | '.join(cells)} "
                f"| {without.sum()} | {_share((known & taken)[without])} |"
            )


def _regions(every: Mapping[int, Answers]) -> Iterator[str]:
    """A row for each kind of path."""
    yield "| path | windows |" + "".join(f" right, {s} s | misread, {s} s |" for s in every)
    yield "|---|---|" + "---|---|" * len(every)
    for name, holds in REGIONS.items():
        cells = []
        for answers in every.values():
            here = _where(answers, holds)
            wrong = misread(answers.shares, answers.truth)[here]
            cells += [_share(~wrong), _share(wrong & (answers.usual >= UNUSUAL)[here])]
        count = int(_where(next(iter(every.values())), holds).sum())
        yield f"| {name} | {count} |" + "".join(f" {cell} |" for cell in cells)


def _tested(recordings: Sequence[Recording], seed: int) -> list[Recording]:
    return [one for one in recordings if seed != SEED or side(one) == "test"]


def _where(answers: Answers, holds: Callable[[Recording], bool]) -> Mask:
    return np.array([holds(one) for one in answers.recordings], dtype=np.bool_)


def _share(those: Mask) -> str:
    return f"{100 * np.mean(those):.1f}" if len(those) else "-"
