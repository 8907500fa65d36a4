"""The recordings that come along: whole, sound, and what today's code would make again."""

from collections import Counter
from fractions import Fraction

import numpy as np
import pytest

from studies.training import train as training
from studies.training.collecting import Setting
from studies.training.simulated import WORKS_PATH
from studies.works.w001.ch7_choosing_turns import PATH, PATTERNS
from weir.congestion.classify.classes import FURTHER, SIX_LABELS
from weir.congestion.recordings import (
    KERNEL,
    KERNEL_ACTIVE,
    KERNEL_FURTHER,
    KERNEL_HELD_OUT,
    KERNEL_PATHS,
    KERNEL_TURNS,
    NetworkPath,
    load,
    load_whole,
)
from weir.probe import Pattern, Plan

FILES = sorted(KERNEL.parent.glob("*.npz"))
RECORDINGS = [(file, one) for file in FILES for one in load_whole(file)[0]]


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


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.stem)
def test_the_classes_are_there_without_a_flaw_and_none_twice(file):
    recordings, provenance = load_whole(file)
    wanted = {further.label for further in FURTHER} if file == KERNEL_FURTHER else set(SIX_LABELS)
    for pattern in {one.pattern for one in recordings}:
        assert {one.label for one in recordings if one.pattern == pattern} >= wanted
    assert not [one.flaws for one in recordings if one.flaws]
    assert len({one.rate_hz for one in recordings}) == 1
    settings = {(one.label, one.path, one.pattern, one.seed) for one in recordings}
    assert len(settings) == len(recordings)
    assert provenance["by"] == "weir ops collect"


def test_the_path_of_turns_has_both_of_the_works_patterns():
    recordings = load(KERNEL_TURNS)
    assert {one.pattern for one in recordings} == set(PATTERNS.values())
    assert {one.path for one in recordings} == {NetworkPath.parse(PATH)}


@pytest.mark.parametrize(
    ("file", "patterns"),
    [(KERNEL, {None}), (KERNEL_FURTHER, {None}), (KERNEL_ACTIVE, set(PATTERNS.values()))],
    ids=["kernel", "further", "active"],
)
def test_the_works_path_has_ten_minutes_of_each_class_and_way_to_probe(file, patterns):
    recordings = load(file)
    seen = Counter()
    for one in recordings:
        seen[one.label, one.pattern] += one.seconds
    assert {pattern for _, pattern in seen} == patterns
    assert set(seen.values()) == {600}
    assert {one.path for one in recordings} == {WORKS_PATH}


def test_they_are_small_and_nothing_is_learned_on_paths_that_are_held_out():
    assert sum(file.stat().st_size for file in FILES) < 1_000_000
    known = {one.path for file in (KERNEL, KERNEL_FURTHER, KERNEL_PATHS) for one in load(file)}
    held_out = {one.path for one in load(KERNEL_HELD_OUT)}
    assert not known & held_out
    assert min(len(known), len(held_out)) >= 3
    assert training.FILES == (KERNEL, KERNEL_FURTHER, KERNEL_PATHS)


@pytest.mark.parametrize(
    "one",
    [one for _, one in RECORDINGS],
    ids=[
        f"{file.stem}-{one.label}-{one.path.rtt_ns // 10**6}-{one.seed}" for file, one in RECORDINGS
    ],
)
def test_a_recording_is_of_the_scenario_that_its_seed_makes(one):
    setting = setting_of(one)
    assert setting.scenario() == one.made["scenario"]
    assert setting.made(one)
    assert one.source == "kernel"
    # No packet is faster than the path; the lab's clocks agree to 0.1 ms.
    assert np.nanmin(one.rtt_ms) > one.path.rtt_ns / 1e6 - 0.1
