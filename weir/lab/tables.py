"""A lab's status as tables for a person."""

from collections.abc import Mapping
from typing import Any

from rich.console import Console
from rich.table import Table

from weir import Rate, Time

_WIDTH = 120  # where there is no terminal to ask


def print_status(status: Mapping[str, Any]) -> None:
    """Prints what `Lab.status` gave: links, traffic, and whether the emulator keeps up."""
    console = Console()
    if not console.is_terminal:
        console = Console(width=_WIDTH)
    console.print(f"lab {status['name']}, up {status['up_s']:.0f} s")
    console.print(_links(status["links"]))
    if status["traffic"]:
        console.print(_traffic(status["traffic"]))
    console.print(_headroom(status["headroom"]))


def _links(links: list[Mapping[str, Any]]) -> Table:
    table = Table(box=None)
    table.add_column("direction")
    for title in ("rate", "delay", "now", "queued", "sent", "lost in queue", "on link", "late p99"):
        table.add_column(title, justify="right")
    for link in links:
        for way in ("forward", "backward"):
            table.add_row(*_direction(link[way]))
    return table


def _direction(way: Mapping[str, Any]) -> list[str]:
    rate, now = way["rate_bps"], way["rate_now_bps"]
    return [
        f"{way['from']} → {way['to']}",
        str(Rate.from_bit_per_s(rate)) if rate else "unlimited",
        str(Time.from_ns(way["delay_ns"])),
        f"{now / 1e6:.1f} Mbit/s",
        f"{way['queue_bytes'] / 1000:.0f} kB",
        f"{way['packets_out']}",
        f"{way['dropped_queue']}",
        f"{way['dropped_loss']}",
        f"{way['lateness']['p99_ns'] / 1000:.0f} µs",
    ]


def _traffic(flows: list[Mapping[str, Any]]) -> Table:
    table = Table(box=None)
    for title in ("traffic", "kind", "from", "to", "state", "result"):
        table.add_column(title)
    for flow in flows:
        told = [flow[key] for key in ("name", "kind", "from", "to", "state")]
        table.add_row(*told, _result(flow))
    return table


def _result(flow: Mapping[str, Any]) -> str:
    if flow.get("error"):
        return str(flow["error"])
    if "received_rate_bps" in flow:
        rate = f"{flow['received_rate_bps'] / 1e6:.1f} Mbit/s"
        return f"{rate}, {flow['retransmits']} retransmissions"
    if "sent_packets" in flow:
        return f"{flow['received_packets']} of {flow['sent_packets']} packets arrived"
    return f"{flow['received_packets']} packets arrived" if "received_packets" in flow else ""


def _headroom(headroom: Mapping[str, Any]) -> str:
    busy = f"emulator: busiest thread {headroom['busy']:.0%} busy"
    late = f"packets late by {headroom['lateness_p99_ns'] / 1000:.0f} µs at p99"
    if headroom["bottleneck"]:
        return (
            f"[bold red]WARNING[/] {busy}, {late}: the emulator, not the scenario, limits this lab."
            " Its figures describe this machine. Lower the rates or quiet the machine."
        )
    return f"{busy}, {late}"
