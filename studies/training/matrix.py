"""What learning from the simulator, from the kernel, or from both is worth, and on which paths.

`weir ops assess-sources` prints the table: % of windows of the work's six classes. Everything is
calibrated on the same simulated paths, which none of it is learned from or tested on.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from studies.training.assess import Answers
from studies.training.examples import side
from studies.training.grid import grid, idle
from studies.training.train import COUNT, FILES, FOLDER, SEED, STRIDES_S, train
from weir.congestion.classify.classes import SIX_LABELS
from weir.congestion.classify.opinions import UNUSUAL
from weir.congestion.classify.recogniser import Recogniser
from weir.congestion.recordings import KERNEL_HELD_OUT, Recording, load

_HEAD = (
    "".join(f" {what}, {s} s |" for what in ("BBR", "six") for s in STRIDES_S) + " unknown, 20 s |"
)


@dataclass(frozen=True, slots=True)
class Sources:
    """What there is to learn from and to test on.

    Attributes:
        simulated: the grid's recordings and the idle ones beside it.
        kernel: of paths that may be learned from.
        held_out: of paths that may not.
    """

    simulated: Sequence[Recording]
    kernel: Sequence[Recording]
    held_out: Sequence[Recording]

    def of(self, name: str, recordings: Sequence[Recording]) -> list[Recording]:
        """The recordings of the part called `name`."""
        return [one for one in recordings if side(one) == name]


def matrix(sources: Sources, progress: Callable[[str], None]) -> Iterator[str]:
    """Lines of Markdown: learned from each source and from both, tested on each kind of path."""
    calibrating = sources.of("calibrate", sources.simulated)
    simulated = sources.of("train", sources.simulated)
    learned: Mapping[str, Callable[[], Recogniser]] = {
        "both, as shipped": Recogniser.shipped,
        "simulator": lambda: train([*simulated, *calibrating], SEED),
        "kernel": lambda: train([*sources.kernel, *calibrating], SEED),
    }
    tested = {
        "simulated paths never learned from": sources.of("test", sources.simulated),
        "the kernel, same paths, other seeds": sources.of("test", sources.kernel),
        "the kernel, paths never learned from": sources.held_out,
    }
    yield f"| learned from | tested on | windows of 5 s |{_HEAD}"
    yield "|---|---|---|" + "---|" * (2 * len(STRIDES_S) + 1)
    for name, learn in learned.items():
        progress(f"learned from {name}")
        recogniser = learn()
        for where, recordings in tested.items():
            yield f"| {name} | {where} |{_figures(recogniser, recordings)}"


def _figures(recogniser: Recogniser, recordings: Sequence[Recording]) -> str:
    """Cells of the table."""
    six = [one for one in recordings if one.label in SIX_LABELS]
    answers = [Answers.of(recogniser, six, seconds) for seconds in STRIDES_S]
    bbr = [one.right_about_bbr() for one in answers]
    of_six = [one.right_of_six() for one in answers]
    shares = [100 * np.mean(right) for right in (*bbr, *of_six)]
    shares.append(100 * np.mean(answers[-1].usual < UNUSUAL))
    return f" {len(bbr[0])} |" + "".join(f" {share:.1f} |" for share in shares)


def sources(count: int = COUNT, folder: Path = FOLDER) -> Sources:
    """The grid of `count` recordings that `folder` keeps, and the recordings that ship.

    Raises:
        WeirError: the grid cannot be kept there.
    """
    simulated = [fast for fast, _ in grid(count, SEED, folder)]
    return Sources(
        [*simulated, *idle(count // 2, SEED)],
        [one for file in FILES for one in load(file)],
        load(KERNEL_HELD_OUT),
    )
