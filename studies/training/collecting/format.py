"""Recordings in words and figures, for people and for machines."""

import itertools
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from weir.congestion.recordings import Recording
from weir.terminal import Column, Table, console


def facts(one: Recording) -> dict[str, Any]:
    """What a recording is and holds, without its samples; the unit is last in the name."""
    answered = one.rtt_ms[np.isfinite(one.rtt_ms)]
    ends = np.percentile(answered, (0, 50, 100)).round(3).tolist() if len(answered) else None
    return {
        "label": one.label,
        "source": one.source,
        "path": str(one.path),
        "pattern": one.pattern,
        "seed": one.seed,
        "rate_hz": one.rate_hz,
        "requests": one.requests,
        "samples": len(one.rtt_ms),
        "seconds": one.seconds,
        "unanswered_samples": int(len(one.rtt_ms) - len(answered)),
        "lost_requests": int(one.lost.sum()),
        "rtt_ms": dict(zip(("min", "p50", "max"), ends, strict=True)) if ends else None,
        "background_bps": list(one.background_bps),
        "flaws": list(one.flaws),
        "made": dict(one.made),
    }


def line(one: Recording) -> str:
    """A recording in a line."""
    told = facts(one)
    scheme = one.pattern or "passive"
    words = [
        f"{one.label}, {one.path}, {scheme}, seed {one.seed}: {one.seconds:g} s",
        f"RTT {_rtt(told)} ms",
        f"{told['lost_requests']} of {told['samples'] * one.requests} requests lost",
    ]
    if one.background_bps:
        words.append(f"beside {_rates(one)} Mbit/s")
    words += [f"FLAWED: {flaw}" for flaw in one.flaws]
    return "; ".join(words)


def show(recordings: Sequence[Recording], provenance: Mapping[str, Any]) -> None:
    """Prints a row for each, under what they share, and what the file says of its making."""
    shown = console()
    for shared, some in itertools.groupby(sorted(recordings, key=_shared), _shared):
        alike = list(some)
        shown.print(shared, style="bold", soft_wrap=True)
        shown.print(_rows(alike))
        for one in alike:
            for flaw in one.flaws:
                shown.print(f"  FLAWED: {one.label}, seed {one.seed}: {flaw}", soft_wrap=True)
    flawed = sum(bool(one.flaws) for one in recordings)
    told = "".join(f"; {key}: {value}" for key, value in provenance.items())
    shown.print(f"{len(recordings)} recordings, {flawed} of them flawed{told}", soft_wrap=True)


def _shared(one: Recording) -> str:
    probing = f"{one.pattern or 'passive'}, {one.rate_hz:g} Hz x {one.requests}"
    return f"{one.source}: {one.path}; {probing}"


def _rows(recordings: Sequence[Recording]) -> Table:
    titles = ("seed", "s", "lost", "RTT, ms")
    figured = (Column(title, right=True) for title in titles)
    rows = Table("  class", *figured, Column("Mbit/s", folds=True))
    for one in recordings:
        told = facts(one)
        lost = told["lost_requests"] / max(1, told["samples"] * one.requests)
        figures = (str(one.seed), f"{one.seconds:g}", f"{lost:.2%}", _rtt(told), _rates(one))
        rows.add_row(f"  {one.label}", *figures)
    return rows


def _rtt(told: Mapping[str, Any]) -> str:
    return (
        " / ".join(f"{value:.1f}" for value in told["rtt_ms"].values()) if told["rtt_ms"] else "-"
    )


def _rates(one: Recording) -> str:
    return " + ".join(f"{rate / 1e6:.0f}" for rate in one.background_bps)
