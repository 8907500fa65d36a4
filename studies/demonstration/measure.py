"""From samples of counters to series over time.

Counters only grow; between samples they are taken to grow evenly. Series have one value for each
`step_s` of time from the half's beginning.
"""

import itertools
from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass, field

from studies.demonstration.report import Timeline
from studies.demonstration.run_state import RunState

STEP_S = 0.25
_SMOOTHED_STEPS = 5

Samples = Sequence[tuple[float, int]]
"""A counter: (seconds, value), in order of both."""


@dataclass
class LinkMeter:
    """What left one link's queue in the direction of the transfers, sample by sample."""

    name: str
    rate_bps: int
    samples: list[tuple[float, int]] = field(default_factory=list)

    def note(self, now_s: float, bytes_out: int) -> None:
        """Adds a sample."""
        self.samples.append((now_s, bytes_out))

    def lately_bps(self, window_s: float = 0.5) -> float | None:
        """The rate over the last `window_s` of samples, None before there are two."""
        if len(self.samples) < 2:
            return None
        end_s, end = self.samples[-1]
        start_s, start = next(
            (item for item in reversed(self.samples[:-1]) if item[0] <= end_s - window_s),
            self.samples[0],
        )
        return (end - start) * 8 / (end_s - start_s)

    def utilisation(self, end_s: float) -> float:
        """The mean share of the link's rate in use from the beginning to `end_s`."""
        if end_s <= 0:
            return 0.0
        moved = value_at(self.samples, end_s) - value_at(self.samples, 0.0)
        return moved * 8 / (self.rate_bps * end_s)


def value_at(samples: Samples, at_s: float) -> float:
    """A counter at a moment; before the first sample and after the last it stands still."""
    if not samples:
        return 0.0
    index = bisect_right(samples, at_s, key=lambda item: item[0])
    if index == 0:
        return float(samples[0][1])
    if index == len(samples):
        return float(samples[-1][1])
    (start_s, start), (end_s, end) = samples[index - 1], samples[index]
    return start + (end - start) * (at_s - start_s) / (end_s - start_s)


def rates_bps(samples: Samples, steps: int) -> list[float]:
    """The counter's growth in bit/s in each of the first `steps` steps."""
    marks = [value_at(samples, index * STEP_S) for index in range(steps + 1)]
    return [round((end - start) * 8 / STEP_S) for start, end in itertools.pairwise(marks)]


def smoothed(series: Sequence[float]) -> list[float]:
    """Each value averaged with its neighbours, 1.25 s in all.

    Movers report whole pieces of a file, agents once a second: finer detail would be theirs, not
    the flow's. At the ends the series is continued as its mirror image, so that the sum stays.
    """
    reach = _SMOOTHED_STEPS // 2
    values = list(series)
    padded = values[:reach][::-1] + values + values[-reach:][::-1]
    return [
        round(sum(padded[index : index + _SMOOTHED_STEPS]) / _SMOOTHED_STEPS)
        for index in range(len(series))
    ]


def timeline(state: RunState, meters: Sequence[LinkMeter]) -> Timeline:
    """Both kinds of series of a half that has ended."""
    steps = int(state.now_s / STEP_S) + 1
    flows = {}
    for flow in state.flows.values():
        start = [(flow.submitted_s, 0)] if flow.submitted_s is not None else []
        flows[flow.transfer.id] = smoothed(rates_bps([*start, *flow.history], steps))
    links = {
        meter.name: [round(rate / meter.rate_bps, 4) for rate in rates_bps(meter.samples, steps)]
        for meter in meters
    }
    return Timeline(STEP_S, flows, links)
