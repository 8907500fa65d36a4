"""The recordings that come along: whole, sound, and what today's code would make again."""

from collections import Counter
from fractions import Fraction

import numpy as np
import pytest

from weir.ops.collecting import Setting
from weir.ops.probing import Pattern, Plan
from weir.ops.recognition.classes import LABELS
from weir.ops.recordings import KERNEL, load_whole

RECORDINGS, _ = load_whole(KERNEL)


def setting_of(one):
    """The setting that a recording says it is of."""
    return Setting(
        label=one.label,
        path=one.path,
        plan=Plan(Fraction(one.rate_hz), one.requests, Fraction(one.seconds)),
        warmup_s=one.made["warmup_s"],
        pattern=Pattern.parse(one.pattern) if one.pattern else None,
        seed=one.seed,
    )


def test_every_class_is_there_equally_often_without_a_flaw():
    schemes = {(str(one.path), one.pattern) for one in RECORDINGS}
    for scheme in schemes:
        seen = Counter(one.label for one in RECORDINGS if (str(one.path), one.pattern) == scheme)
        assert set(seen) == set(LABELS)
        assert len(set(seen.values())) == 1
    assert not [one.flaws for one in RECORDINGS if one.flaws]
    assert KERNEL.stat().st_size < 300_000


@pytest.mark.parametrize("one", RECORDINGS, ids=lambda one: f"{one.label}-{one.seed}")
def test_a_recording_is_of_the_scenario_that_its_seed_makes(one):
    setting = setting_of(one)
    assert setting.scenario() == one.made["scenario"]
    assert setting.made(one)
    assert one.source == "kernel"
    # No packet is faster than the path; the lab's clocks agree to 0.1 ms.
    assert np.nanmin(one.rtt_ms) > one.path.rtt_ns / 1e6 - 0.1
