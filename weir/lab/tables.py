"""A lab's status as tables for a person."""

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from rich.console import Group, RenderableType
from rich.live import Live
from rich.text import Text

from weir import Rate, Time
from weir.format import mbit_s
from weir.lab import measures
from weir.terminal import Column, Table, console

_CAUSES = ("overflow", "aqm", "policed", "overload")


def print_status(status: Mapping[str, Any]) -> None:
    """Prints what `Lab.status` gave: links, queues, traffic, whether the emulator keeps up."""
    console().print(_page(status, None))


def show_statuses(statuses: Iterator[Mapping[str, Any]]) -> None:
    """Shows one status after the other in place; what queues did is since the one before."""
    shown, before = console(), None
    with Live(console=shown, auto_refresh=False, transient=not shown.is_terminal) as live:
        for status in statuses:
            page = _page(status, before)
            if shown.is_terminal:
                live.update(page, refresh=True)
            else:
                shown.print(page)
            before = status


def _page(status: Mapping[str, Any], before: Mapping[str, Any] | None) -> RenderableType:
    parts: list[RenderableType] = [Text(f"lab {status['name']}, up {status['up_s']:.0f} s")]
    parts += [_links(status["links"]), _queues(status["links"], before)]
    if status["switches"]:
        parts.append(_switches(status["switches"]))
    further = (wireless(status["links"]), _port_classes(status["switches"]))
    parts += [table for table in further if table.row_count]
    if status["traffic"]:
        parts.append(_traffic(status["traffic"]))
    slow = [_slow(switch) for switch in status["switches"] if switch["dropped"]]
    return Group(*parts, *slow, _headroom(status["headroom"]))


def _queues(links: Sequence[Mapping[str, Any]], before: Mapping[str, Any] | None) -> Table:
    """Class by class; waits do not include by how much the emulator itself was late."""
    figures = ("sent", "marked", *_CAUSES, "waiting", "wait p50", "p99", "max")
    ranks = (4, 3, 3, 3, 4, 4, 2, 2, 2, 5)
    table = Table(
        "queue of",
        Column("discipline", rank=5),
        "class",
        *(Column(title, right=True, rank=rank) for title, rank in zip(figures, ranks, strict=True)),
    )
    for index, link in enumerate(links):
        for way in ("forward", "backward"):
            direction = link[way]
            if direction["discipline"] is None:
                continue
            old = (
                before["links"][index][way]["classes"]
                if before
                else [None] * len(direction["classes"])
            )
            for now, then in zip(direction["classes"], old, strict=True):
                name = f"{direction['from']} → {direction['to']}"
                table.add_row(name, direction["discipline"], *_class(now, then))
    return table


def _class(now: Mapping[str, Any], then: Mapping[str, Any] | None) -> list[str]:
    """What one class did since `then`, or since the start."""

    def since(key: str) -> int:
        return int(now[key]) - int(then[key] if then else 0)

    waits = _difference(now["sojourn_histogram"], then["sojourn_histogram"] if then else [])
    longest = min(max(waits, default=0), now["sojourn"]["max_ns"])
    if then is None:
        longest = now["sojourn"]["max_ns"]
    # The end of a bucket may lie above the longest wait in it.
    shown = (*(min(quantile(waits, share), longest) for share in (0.5, 0.99)), longest)
    return [
        now["name"],
        f"{since('packets_out')}",
        f"{since('marked')}",
        *(f"{since(f'dropped_{cause}')}" for cause in _CAUSES),
        f"{now['queue_bytes'] / 1000:.0f} kB",
        *(f"{ns / 1e6:.2f} ms" if waits else "" for ns in shown),
    ]


def _difference(now: list[list[int]], then: list[list[int]]) -> dict[int, int]:
    before = {pair[0]: pair[1] for pair in then}
    counts = ((end_ns, count - before.get(end_ns, 0)) for end_ns, count in now)
    return {end_ns: count for end_ns, count in counts if count}


def quantile(counts: Mapping[int, int], fraction: float) -> int:
    """The end of the bucket that a `fraction` of all that was counted does not exceed; 0 if none.

    Args:
        counts: how many by the end of their bucket, shortest first.
        fraction: from 0 to 1.
    """
    wanted = max(1, math.ceil(sum(counts.values()) * fraction))
    for end, count in counts.items():
        wanted -= count
        if wanted <= 0:
            return end
    return 0


def _links(links: list[Mapping[str, Any]]) -> Table:
    titles = ("rate", "delay", "now", "queued", "sent", "lost in queue", "on link", "late p99")
    ranks = (2, 3, 1, 1, 4, 1, 3, 5)
    table = Table(
        "direction",
        *(Column(title, right=True, rank=rank) for title, rank in zip(titles, ranks, strict=True)),
    )
    for link in links:
        for way in ("forward", "backward"):
            table.add_row(*_direction(link[way], link["carrier"]))
    return table


def _direction(way: Mapping[str, Any], carrier: bool) -> list[str]:
    rate, now = way["rate_bps"], way["rate_now_bps"]
    whole = str(Rate.from_bit_per_s(rate)) if rate else "unlimited"
    return [
        f"{way['from']} → {way['to']}",
        whole if carrier else "cut",
        str(Time.from_ns(way["delay_ns"])),
        mbit_s(now),
        f"{way['queue_bytes'] / 1000:.0f} kB",
        f"{way['packets_out']}",
        f"{way['dropped_queue']}",
        f"{way['dropped_loss']}",
        f"{way['lateness']['p99_ns'] / 1000:.0f} µs",
    ]


def wireless(links: Sequence[Mapping[str, Any]]) -> Table:
    """What frames have met on the air, for each direction that sent any; also in a simulation."""
    ranks = {"airtime": 1, "frames": 3, "collided": 1, "corrupted": 2, "given up": 2}
    table = Table("wireless", *(Column(title, True, rank) for title, rank in ranks.items()))
    for way in ways_of(links, "wlan"):
        met = way["wlan"]
        table.add_row(
            f"{way['from']} → {way['to']}",
            f"{met['airtime_share']:.1%}",
            str(met["transmissions"]),
            f"{met['collisions'] / met['transmissions']:.1%}" if met["transmissions"] else "",
            str(met["corrupted"]),
            str(met["given_up"]),
        )
    return table


def ways_of(links: Sequence[Mapping[str, Any]], medium: str) -> Iterator[Mapping[str, Any]]:
    """The directions with counters of a medium that packets have entered."""
    for link in links:
        for way in ("forward", "backward"):
            if medium in link[way] and link[way]["packets_in"]:
                yield link[way]


def _switches(switches: list[Mapping[str, Any]]) -> Table:
    table = Table(
        "switch", "datapath", "state", Column("controller", rank=2), Column("ports", folds=True)
    )
    for switch in switches:
        ports = ", ".join(f"{port['number']} to {port['to']}" for port in switch["ports"])
        state = "up" if switch["up"] else "down"
        table.add_row(switch["name"], switch["datapath_id"], state, _control(switch), ports)
    return table


def _port_classes(switches: list[Mapping[str, Any]]) -> Table:
    """The classes of every port that has sent anything."""
    figures = ("sent", "dropped", "waiting")
    table = Table("port of", "class", *(Column(title, right=True) for title in figures))
    for switch in switches:
        for port in switch["ports"]:
            used = any(one["sent_packets"] or one["dropped"] for one in port["classes"])
            for one in port["classes"] if used else ():
                waiting = f"{one['queued_bytes'] / 1000:.0f} kB"
                counts = (f"{one['sent_packets']}", f"{one['dropped']}", waiting)
                table.add_row(f"{switch['name']} → {port['to']}", one["name"], *counts)
    return table


def _slow(switch: Mapping[str, Any]) -> Text:
    return Text.assemble(
        ("WARNING", "bold red"),
        f" switch {switch['name']} was too slow for {switch['dropped']} packets and lost them: it,"
        " not the scenario, limits this lab. Lower the rates or quiet the machine.",
    )


def _control(switch: Mapping[str, Any]) -> str:
    if switch["controller"] is None:
        return "none: next hops"
    return f"{switch['controller']}, {'connected' if switch['connected'] else 'not connected'}"


def _traffic(flows: list[Mapping[str, Any]]) -> Table:
    middle = (Column(title, rank=2) for title in ("kind", "from", "to"))
    table = Table("traffic", *middle, "state", Column("result", folds=True))
    for flow in flows:
        told = [flow[key] for key in ("name", "kind", "from", "to", "state")]
        table.add_row(*told, _result(flow))
    return table


def _result(flow: Mapping[str, Any]) -> str:
    if flow.get("error"):
        return str(flow["error"])
    if flow.get("application"):
        return measures.words(flow["application"])
    if "received_rate_bps" in flow:
        rate = mbit_s(flow["received_rate_bps"])
        return f"{rate}, {flow['retransmits']} retransmissions"
    if "sent_packets" in flow:
        return f"{flow['received_packets']} of {flow['sent_packets']} packets arrived"
    return f"{flow['received_packets']} packets arrived" if "received_packets" in flow else ""


def _headroom(headroom: Mapping[str, Any]) -> Text:
    busy = f"emulator: busiest thread {headroom['busy']:.0%} busy"
    late = f"packets late by {headroom['lateness_p99_ns'] / 1000:.0f} µs at p99"
    if headroom["bottleneck"]:
        return Text.assemble(
            ("WARNING", "bold red"),
            f" {busy}, {late}: the emulator, not the scenario, limits this lab."
            " Its figures describe this machine. Lower the rates or quiet the machine.",
        )
    return Text(f"{busy}, {late}")
