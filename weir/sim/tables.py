"""A simulation's result as tables for a person."""

from collections.abc import Mapping, Sequence
from typing import Any

from rich.console import Console
from rich.text import Text

from weir.format import mbit_s
from weir.lab import measures
from weir.lab.tables import ways_of, wireless
from weir.terminal import Column, Table, console


def print_result(result: Mapping[str, Any]) -> None:
    """Prints what `weir.sim.run.run` gave: flows, links, fairness."""
    shown = _opened(result, f"seed {result['seed']}")
    shown.print(_flows(result["flows"]))
    for flow in result["flows"]:
        if flow.get("application"):
            shown.print(f"{flow['name']}: {measures.words(flow['application'])}")
    shown.print(_links(result["links"]))
    for table in (wireless(result["links"]), _credits(result["links"])):
        if table.row_count:
            shown.print(table)
    if result["jain_index"] is not None:
        shown.print(f"Jain index of TCP connections {result['jain_index']:.3f}")


def print_summary(answer: Mapping[str, Any]) -> None:
    """Prints what `weir.sim.seeds.run_seeds` gave: each quantity that is not 0 in every run."""
    seeds = answer["seeds"]
    shown = _opened(answer, f"{len(seeds)} seeds: means and 95 % intervals")
    table = _table(("what", "quantity"), {"mean": 1, "±": 2, "runs": 3})
    for entry in answer["quantities"]:
        if not any(entry["values"]):
            continue
        half = "" if entry["interval"] is None else f"{entry['interval']:.3g}"
        runs = str(len(entry["values"]))
        table.add_row(entry["subject"], entry["quantity"], f"{entry['mean']:.4g}", half, runs)
    shown.print(table)


def _opened(result: Mapping[str, Any], which: str) -> Console:
    """A console on which stands what was simulated, and what to beware of."""
    shown = console()
    shown.print(f"{result['name']}, {result['duration_ns'] / 1e9:g} s simulated, {which}")
    for warning in result["warnings"]:
        shown.print(Text.assemble(("WARNING", "bold red"), f" {warning}"))
    return shown


def _table(first: Sequence[str], figures: Mapping[str, int]) -> Table:
    """A table with figures by their title, each with its rank."""
    return Table(*first, *(Column(title, True, rank) for title, rank in figures.items()))


def _flows(flows: list[Mapping[str, Any]]) -> Table:
    figures = {"goodput": 1, "RTT p50": 1, "p99": 3, "sent": 4, "lost": 2, "marked": 2}
    table = _table(("traffic", "from", "to"), figures | {"retransmitted": 4})
    for flow in flows:
        trip = flow.get("rtt") or flow.get("delay")
        again = sum(stream["retransmissions"] for stream in flow.get("streams", []))
        table.add_row(
            flow["name"],
            flow["from"],
            flow["to"],
            mbit_s(flow["goodput_bps"]),
            *_times(trip if trip and trip["max_ns"] else None),
            str(flow["sent_packets"]),
            str(flow["lost_packets"]),
            str(flow["marked_packets"]),
            str(again) if "streams" in flow else "",
        )
    return table


def _times(spread: Mapping[str, int] | None) -> tuple[str, str]:
    """The median and the 99th percentile; nothing where nothing took any time."""
    return (_time(spread["p50_ns"]), _time(spread["p99_ns"])) if spread else ("", "")


def _links(links: list[Mapping[str, Any]]) -> Table:
    figures = {"rate": 3, "used": 1, "queue mean": 4, "wait p50": 1, "p99": 2, "dropped": 1}
    table = _table(("direction", "class"), figures | {"lost": 2, "marked": 2})
    for link in links:
        for way in ("forward", "backward"):
            _add_direction(table, link[way])
    return table


def _add_direction(table: Table, way: Mapping[str, Any]) -> None:
    if way["packets_in"] == 0:
        return
    head = [
        mbit_s(way["rate_bps"]) if way["rate_bps"] else "unlimited",
        f"{way['utilisation']:.1%}" if way["rate_bps"] else "",
        f"{way['queue_bytes_mean'] / 1000:.1f} kB",
    ]
    for index, entry in enumerate(way["classes"]):
        is_first = index == 0
        table.add_row(
            f"{way['from']} → {way['to']}" if is_first else "",
            entry["name"],
            *(head if is_first else [""] * len(head)),
            *_times(entry["sojourn"] if entry["packets_out"] else None),
            str(entry["dropped"]),
            str(way["dropped_loss"]) if is_first else "",
            str(entry["marked"]),
        )


def _credits(links: list[Mapping[str, Any]]) -> Table:
    table = _table(("with credits",), {"stalled": 1, "stalls": 2})
    for way in ways_of(links, "credits"):
        met = way["credits"]
        name = f"{way['from']} → {way['to']}"
        table.add_row(name, f"{met['stalled_share']:.1%}", str(met["stalls"]))
    return table


def _time(ns: int) -> str:
    return f"{ns / 1e6:.2f} ms"
