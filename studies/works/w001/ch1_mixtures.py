"""Work 001, figure 1.2: what round-trip times look like beside each mixture of traffic."""

from collections.abc import Mapping

from studies.works.row import Outcome, Verdict
from studies.works.w001.ch5_recognition import Found
from studies.works.w001.ch5_recognition_shown import (
    PASSIVE_ONLY,
    draw_shapes,
    mistakes,
    row,
    said_pair,
    said_signature,
    signature,
)


def _judge_shapes(schemes: Mapping[str, Found]) -> Outcome:
    passive = schemes["passive"]
    shapes = {label: signature(runs) for label, runs in passive.series.items()}
    confusion = passive.confusion(20, "1-NN")
    (rate, pair), *_ = mistakes(confusion)
    said = ", ".join(f"{label} {said_signature(shape)}" for label, shape in shapes.items())
    ours = (
        f"median, range of the middle 80 % and mean step, in ms: {said}. 1-NN tells "
        f"{confusion.accuracy:.1%} of windows of 20 s apart; the two that look most alike, "
        f"{said_pair(pair)}, it takes for one another in {rate:.1%}"
    )
    holds = confusion.accuracy > 0.9
    return Outcome(ours, Verdict.TREND_HOLDS if holds else Verdict.DIFFERS, passive.where)


ROWS = [
    row(
        "001-fig-1.2",
        "RTT series by passive probing beside each mixture of background traffic",
        "the shape tells the mixtures apart (an illustration)",
        PASSIVE_ONLY,
        _judge_shapes,
        draw_shapes("passive"),
    ),
]
