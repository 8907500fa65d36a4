"""The figures of a probing as a person reads them."""

from collections.abc import Iterator, Mapping
from typing import Any

from weir.format import mbit_s

_SEVERE = 0.01  # of the samples late: worth a warning


def words(facts: Mapping[str, Any]) -> Iterator[str]:
    """Lines of text from what `Summary.facts` gave."""
    requests, replies = facts["requests"], facts["replies"]
    loss = "" if facts["loss"] is None else f" ({facts['loss']:.2%} lost)"
    yield f"{facts['samples']} samples, {requests} requests, {replies} replies{loss}"
    if rtt := facts["rtt_ms"]:
        yield f"RTT {_spread(rtt)}"
    if facts["kernel_stamped"] < replies:
        yield f"only {facts['kernel_stamped']} of the replies have kernel timestamps both ways"
    yield from _prober(facts)
    for turn in facts.get("turns", []):
        yield _turn(turn)
    if tcp := facts.get("tcp"):
        marked = f", {tcp['marked_packets']} marked by ECN" if tcp["ecn"] else ""
        yield f"own TCP: {tcp['retransmitted_packets']} packets sent again{marked}"
    if "next_offset" in facts:
        yield f"next offset {facts['next_offset']}"


def _spread(spread: Mapping[str, float]) -> str:
    names = ("min", "p50", "mean", "p99", "max")
    return " ".join(f"{name} {spread[name]:.3f}" for name in names) + " ms"


def _prober(facts: Mapping[str, Any]) -> Iterator[str]:
    prober = facts["prober"]
    if prober["late_ms"]:
        yield f"this prober's own lateness, not in the RTTs: {_spread(prober['late_ms'])}"
    spoilt = prober["late_samples"] + prober["missed_samples"]
    if spoilt > _SEVERE * facts["samples"]:
        yield (
            f"WARNING: this machine was late by over 1 ms in {prober['late_samples']} samples "
            f"and missed {prober['missed_samples']}: the spacing of requests is not what it says"
            + ("" if prober["realtime"] else "; real-time priority would help (weir doctor)")
        )


def _turn(turn: Mapping[str, Any]) -> str:
    rate = "" if turn["rate_bps"] is None else f", {mbit_s(turn['rate_bps'])}"
    drained = "was not confirmed in time"
    if turn["drain_ms"] is not None:
        drained = f"was confirmed {turn['drain_ms']:.0f} ms after its end"
    return (
        f"{turn['begin_s']:g} s {turn['segment']}: {turn['confirmed_bytes']} B confirmed{rate}, "
        f"cwnd {turn['cwnd_packets']} at its beginning; its last byte {drained}"
    )
